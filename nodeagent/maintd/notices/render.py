"""Messages as text and JSON for sinks, by their templates or in maintd's own form. Pure."""

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from jinja2 import StrictUndefined, Template, TemplateError, TemplateSyntaxError
from jinja2.sandbox import SandboxedEnvironment

from nodeagent.errors import MessageError
from nodeagent.maintd.planning.times import rfc3339
from nodeagent.model.notice import Message, Notice, Occasion, Severity, Sink
from nodeagent.model.units import Ms
from nodeagent.protocol.canonical import canonical
from nodeagent.section import Section

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
OF_INCIDENT = {
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
        "events": [_event(notice) for notice in message.notices],
    }


def _event(notice: Notice) -> dict[str, Any]:
    return {
        "event": notice.occasion.value,
        "severity": notice.occasion.severity.value,
        "at": notice.at / 1000,
        "time": rfc3339(notice.at),
        "node": notice.node,
        "incident": notice.subject if notice.occasion in OF_INCIDENT else "",
        "text": notice.text,
    }


def rendered(sink: Sink, notification: Mapping[str, Any], token: str = "") -> tuple[str, str]:
    """Its title and body; MessageError if a template cannot be rendered.

    `token` is an additional name for the templates of a webhook, such as PagerDuty's key.
    """
    title = _render("title", sink.title or TITLE, notification)
    title = " ".join(title.split())[:500]
    known = {**notification, "title": title, "text": _render("text", TEXT, notification)}
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


def template_of(section: Section, key: str) -> str:
    """Read a template from settings."""
    return section.text(key, "", r"[^\x00]{0,20000}", "a template")


def check(section: Section, sink: Sink, *, is_json: bool = False) -> None:
    """Complain of wrong templates of a sink; its body must render JSON if `is_json`."""
    if why := fault(replace(sink, body="")):
        section.complain(f"{section.shown}.{why}", "title")
    if why := fault(replace(sink, title=""), is_json=is_json):
        section.complain(f"{section.shown}.{why}", "body")


def fault(sink: Sink, *, is_json: bool = False) -> str:
    """Say what is wrong with its templates, tested with example messages; "" if they are right."""
    examples = [
        Notice(Occasion.FAILED, "01a2b3c4", "node3", Ms(1), 'the work on node3 failed: "no route"'),
        Notice(Occasion.DETECTED, "01a2b3c4", "node3", Ms(1), "node3 requests evacuate"),
    ]
    for shown in (examples, examples[:1]):
        counts = {notice.occasion.value: 1 for notice in shown}
        message = Message("an-id", Ms(1), tuple(shown), counts)
        try:
            _, body = rendered(sink, values(message, sink, "cluster.example"), "token")
        except MessageError as error:
            return str(error)
        if sink.body and is_json:
            try:
                json.loads(body)
            except ValueError as error:
                return f"body: it renders no JSON: {error} (the filter tojson quotes a value)"
    return ""


def payload(sink: Sink, notification: Mapping[str, Any], token: str = "") -> str:
    """Return the JSON that a webhook or a command gets."""
    title, body = rendered(sink, notification, token)
    return body if sink.body else canonical({**notification, "title": title, "text": body})


def fitting(sink: Sink, notification: Mapping[str, Any], limit: int) -> str:
    """The same with the newest of its events, as many as fit into `limit` bytes."""
    events = list(notification["events"])
    while True:
        shown = {**notification, "events": events, "more": notification["count"] - len(events)}
        text = payload(sink, shown)
        if len(text.encode()) <= limit or len(events) <= 1:
            return text
        del events[: max(1, len(events) // 10)]
