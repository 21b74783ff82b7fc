"""Messages as text and JSON for sinks, by their templates or in maintd's own form. Pure."""

import json
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from jinja2 import StrictUndefined, Template, TemplateError, TemplateSyntaxError
from jinja2.sandbox import SandboxedEnvironment

from nodeagent.errors import MessageError
from nodeagent.maintd.planning.times import rfc3339
from nodeagent.model.notice import Condition, Message, Notice, Occasion, Severity, Sink
from nodeagent.model.units import Ms
from nodeagent.protocol.canonical import canonical

TITLE = (
    "[{{ severity }}] {{ cluster }}: "
    "{% if count == 1 %}{{ events[0].text | truncate(150) }}"
    "{% else %}{{ count }} events: {{ summary }}{% endif %}"
)
TEXT = (
    "{% for event in events %}{{ event.time }} {{ event.event }}: {{ event.text }}\n{% endfor %}"
    "{% if more %}and {{ more }} more events: see gnt-maint history\n{% endif %}"
    "{% if lost %}{{ lost }} earlier events could not be delivered: see gnt-maint history\n"
    "{% endif %}"
)
LONGEST = 256 * 1024  # characters of a rendered text
ALERTS = 500  # alerts of one message
LASTS = 300_000  # ms that Alertmanager keeps an alert without a repetition
TITLES = {
    Occasion.DETECTED: "MaintdIncident",
    Occasion.STARTED: "MaintdIncidentStarted",
    Occasion.COMPLETED: "MaintdIncidentCompleted",
    Occasion.FAILED: "MaintdIncidentFailed",
    Occasion.NEEDS_YOU: "MaintdNeedsYou",
    Occasion.STORM: "MaintdStorm",
    Occasion.UNREACHABLE: "MaintdNodeUnreachable",
    Occasion.FENCING: "MaintdFencing",
    Occasion.WINDOW_STARTED: "MaintdWindowStarted",
    Occasion.WINDOW_OVERDUE: "MaintdWindowOverdue",
    Occasion.OWNER_DECLINED: "MaintdOwnerDeclined",
    Occasion.QUEUE_FAILED: "MaintdQueueFailed",
    Occasion.SETTINGS_WRONG: "MaintdSettingsWrong",
    Occasion.TEST: "MaintdTest",
}
_OF_INCIDENT = {
    Occasion.DETECTED,
    Occasion.STARTED,
    Occasion.COMPLETED,
    Occasion.FAILED,
    Occasion.CLOSED,
}

# autoescape is for HTML, and this is not HTML.
_SANDBOX = SandboxedEnvironment(undefined=StrictUndefined, autoescape=False)
# The filter tojson complains of an unknown name, too.
_SANDBOX.policies["json.dumps_kwargs"] = {"sort_keys": True, "default": str}


def values(message: Message, sink: Sink, cluster: str) -> dict[str, Any]:
    """The names for templates but `title`, `text` and `token`; members of a sink's own JSON."""
    severities = [Occasion(word).severity for word in message.counts]
    worst = max(severities, key=lambda severity: severity.rank, default=Severity.INFO)
    return {
        "id": message.id,
        "cluster": cluster,
        "sink": sink.name,
        "at": message.made / 1000,
        "time": rfc3339(message.made),
        "severity": worst.value,
        "count": message.total,
        "counts": dict(message.counts),
        "summary": ", ".join(f"{count} {word}" for word, count in message.counts.items()),
        "more": message.total - len(message.notices),
        "lost": message.lost,
        "events": [_event(one) for one in message.notices],
    }


def _event(one: Notice) -> dict[str, Any]:
    return {
        "event": one.occasion.value,
        "severity": one.occasion.severity.value,
        "at": one.at / 1000,
        "time": rfc3339(one.at),
        "node": one.node,
        "incident": one.subject if one.occasion in _OF_INCIDENT else "",
        "text": one.text,
    }


def rendered(sink: Sink, told: Mapping[str, Any], token: str = "") -> tuple[str, str]:
    """Its title and body; MessageError if a template cannot be rendered.

    `token` is an additional name for the templates of a webhook, such as PagerDuty's key.
    """
    title = _render("title", sink.title or TITLE, told)
    title = " ".join(title.split())[:500]
    known = {**told, "title": title, "text": _render("text", TEXT, told)}
    body = _render("body", sink.body, {**known, "token": token}) if sink.body else known["text"]
    return title, body


def _render(what: str, template: str, known: Mapping[str, Any]) -> str:
    try:
        text: str = _compiled(template).render(known)
    except RecursionError:
        raise MessageError(f"{what}: it calls itself without end") from None
    except (TemplateError, ArithmeticError, LookupError, TypeError, ValueError) as error:
        line = f"line {error.lineno}: " if isinstance(error, TemplateSyntaxError) else ""
        raise MessageError(f"{what}: {line}{error}") from None
    if len(text) > LONGEST:
        raise MessageError(f"{what}: it is longer than {LONGEST} characters")
    return text


@cache
def _compiled(template: str) -> Template:
    return _SANDBOX.from_string(template)


def fault(sink: Sink) -> str:
    """Say what is wrong with its templates, tested with example messages; "" if they are right."""
    examples = [
        Notice(Occasion.FAILED, "01a2b3c4", "node3", Ms(1), 'the work on node3 failed: "no route"'),
        Notice(Occasion.DETECTED, "01a2b3c4", "node3", Ms(1), "node3 requests evacuate"),
    ]
    for shown in (examples, examples[:1]):
        counts = {one.occasion.value: 1 for one in shown}
        told = values(Message("an-id", Ms(1), tuple(shown), counts), sink, "cluster.example")
        try:
            _, body = rendered(sink, told, "token")
        except MessageError as error:
            return str(error)
        if sink.body and sink.kind.value == "webhook":
            try:
                json.loads(body)
            except ValueError as error:
                return f"body: it renders no JSON: {error} (the filter tojson quotes a value)"
    return ""


def payload(sink: Sink, told: Mapping[str, Any], token: str = "") -> str:
    """Return the JSON that a webhook or a command gets."""
    title, body = rendered(sink, told, token)
    return body if sink.body else canonical({**told, "title": title, "text": body})


def fitting(sink: Sink, told: Mapping[str, Any], most: int) -> str:
    """The same with the newest of its events, as many as fit into `most` bytes."""
    events = list(told["events"])
    while True:
        shown = {**told, "events": events, "more": told["count"] - len(events)}
        text = payload(sink, shown)
        if len(text.encode()) <= most or len(events) <= 1:
            return text
        del events[: max(1, len(events) // 10)]


def alerts(
    message: Message, sink: Sink, firing: Iterable[tuple[Condition, str]], cluster: str, now: Ms
) -> list[dict[str, Any]]:
    """All conditions in Alertmanager's form, and the ended ones with their end."""
    told = [
        (one.occasion, one.subject, one.node, one.at, one.text, one.over) for one in message.notices
    ]
    told += [
        (one.occasion, one.subject, one.node, one.since, text, False)
        for one, text in firing
        if sink.takes(one.occasion)
    ]
    told.sort(key=lambda row: (not row[-1], -row[0].severity.rank))
    return [
        _alert(occasion, subject, node, at, text, cluster, now if over else now + LASTS)
        for occasion, subject, node, at, text, over in told[:ALERTS]
    ]


def _alert(
    occasion: Occasion, subject: str, node: str, since: Ms, text: str, cluster: str, ends: Ms
) -> dict[str, Any]:
    labels = {
        "alertname": TITLES[occasion],
        "severity": occasion.severity.value,
        "cluster": cluster,
        "node": node,
        "incident" if occasion in _OF_INCIDENT else "subject": subject,
    }
    return {
        "labels": {name: value for name, value in labels.items() if value},
        "annotations": {"summary": text} if text else {},
        "startsAt": rfc3339(since),
        "endsAt": rfc3339(max(since, ends)),
    }
