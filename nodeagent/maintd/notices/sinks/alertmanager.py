"""Alertmanager's API v2: all present conditions as alerts, and the ended ones with their end.

It groups, repeats and silences them. It keeps an alert for minutes only, so maintd sends all
present conditions each time. It also tells which alerts fire.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlencode

from nodeagent.errors import Unavailable
from nodeagent.maintd.notices.delivery import Delivery, Letter, Secret, seconds_of
from nodeagent.maintd.notices.render import OF_INCIDENT
from nodeagent.maintd.notices.sinks.http import Endpoint, bearer, endpoint_of
from nodeagent.maintd.planning.times import rfc3339
from nodeagent.model.notice import Notice, Occasion, Sink
from nodeagent.model.units import Ms
from nodeagent.protocol.canonical import printable
from nodeagent.section import Section

ALERTS = 500  # alerts of one message
_MOST_BYTES = 16 * 1024 * 1024  # of an answer with firing alerts
_NAME = 80  # characters of an alert's name
_ACTIVE = (("active", "true"), ("silenced", "false"), ("inhibited", "false"))
LASTS = 300_000  # ms at least that Alertmanager keeps an alert without a repetition
_INTERVALS = 3  # of the sink that it keeps one: else a long interval would end it in between
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


@dataclass(frozen=True, slots=True)
class Alertmanager:
    """The address of an Alertmanager, without the path of its API."""

    name: str
    endpoint: Endpoint
    table: str = field(default="", compare=False)

    @property
    def ca(self) -> str:
        return self.endpoint.ca

    def deliver(self, letter: Letter, now: Ms) -> Delivery:
        headers = [("X-Maintd-Delivery", letter.message.id), *bearer(self.endpoint.read_token())]
        return self.endpoint.post(json.dumps(alerts(letter)), headers, path="/api/v2/alerts")

    def firing(self, matchers: Sequence[str], seconds: float) -> tuple[str, ...]:
        """Ask within `seconds` for the names of the alerts that fire and match all `matchers`.

        Silenced and inhibited alerts do not count. Unavailable: it does not tell.
        """
        asked = [*_ACTIVE, *(("filter", matcher) for matcher in matchers)]
        answer = self.endpoint.get(f"/api/v2/alerts?{urlencode(asked)}", seconds, _MOST_BYTES)
        if answer.status != 200:
            detail = f": {printable(_fault(answer.body))}" if answer.body else ""
            raise Unavailable(f"it answered with HTTP status {answer.status}{detail}")
        return names_of(answer.body)

    def secrets(self) -> Iterator[Secret]:
        return self.endpoint.secrets()


def read(section: Section, sink: Sink) -> tuple[Sink, Alertmanager]:
    """Read the keys of an Alertmanager."""
    endpoint = endpoint_of(section, seconds_of(section))
    return replace(sink, repeats=True), Alertmanager(sink.name, endpoint, section.name)


def names_of(body: bytes) -> tuple[str, ...]:
    """Return the names of the alerts in an answer, sorted, each once; or raise Unavailable."""
    try:
        rows = json.loads(body)
    except (ValueError, RecursionError):
        raise Unavailable("its answer is not JSON") from None
    if not isinstance(rows, list):
        raise Unavailable("its answer is not a list of alerts")
    return tuple(sorted({_name_of(row) for row in rows}))


def _name_of(row: object) -> str:
    labels = row.get("labels") if isinstance(row, dict) else None
    if not isinstance(labels, dict):
        raise Unavailable("its answer has an alert without labels")
    name = labels.get("alertname")
    if not isinstance(name, str) or not name:
        return "an alert without a name"
    return name if name.isprintable() and len(name) <= _NAME else printable(name)


def _fault(body: bytes) -> str:
    """The fault that an answer tells of: a JSON text, or the beginning of the body."""
    text = body[:_NAME].decode(errors="replace").strip()
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return text
    return document if isinstance(document, str) else text


def alerts(letter: Letter) -> list[dict[str, Any]]:
    """The ended conditions of a message, then all that fire; each the most severe first."""
    firing = [
        Notice(condition.occasion, condition.subject, condition.node, condition.since, text)
        for condition, text in letter.firing
        if letter.sink.takes(condition.occasion)
    ]
    notices = [*letter.message.notices, *firing]
    notices.sort(key=lambda notice: (not notice.over, -notice.occasion.severity.rank))
    return [_alert(notice, letter) for notice in notices[:ALERTS]]


def _alert(notice: Notice, letter: Letter) -> dict[str, Any]:
    occasion = notice.occasion
    labels = {
        "alertname": TITLES[occasion],
        "severity": occasion.severity.value,
        "cluster": letter.cluster,
        "node": notice.node,
        "incident" if occasion in OF_INCIDENT else "subject": notice.subject,
    }
    lasts = max(LASTS, _INTERVALS * letter.sink.interval)
    ends = letter.at if notice.over else Ms(letter.at + lasts)
    return {
        "labels": {name: value for name, value in labels.items() if value},
        "annotations": {"summary": notice.text} if notice.text else {},
        "startsAt": rfc3339(notice.at),
        "endsAt": rfc3339(max(notice.at, ends)),
    }
