"""The status page: one answer without any script, for people.

All that others wrote goes through `clean` before it is escaped: no control character, no
turning round of the writing direction, no endless text reaches the page.
"""

import base64
import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from nodeagent.maintd.http import status as show
from nodeagent.maintd.http.page import panels
from nodeagent.maintd.http.page.cluster_map import MARKS, STATES, draw
from nodeagent.maintd.http.readers import discreet_events, discreet_text
from nodeagent.maintd.http.status import Json, View
from nodeagent.model.diagnosis import Need
from nodeagent.model.event import Event
from nodeagent.model.incident import UNKNOWN, Incident, Status
from nodeagent.model.ledger import Ledger
from nodeagent.model.snapshot import Node
from nodeagent.web.exchange import Response

_FOLDER = os.path.join(os.path.dirname(__file__), "templates")
_MOST_INCIDENTS = 60
_MOST_HELD = 100
_MOST_EVENTS = 30
_TIMELINE = 40
_TEXT = 300  # characters of any one text
_ORIGINAL = 4000  # of what a node reported
_REFRESH = 30  # seconds

History = Callable[[str | None, int], Sequence[Event]]


def clean(value: object, most: int = _TEXT) -> object:
    """A text as it may be shown: printable, and not too long. What is no text stays as it is."""
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    if len(value) > most:
        value = f"{value[:most]}… ({len(value):,} characters)"
    return _STACK.sub(_spelled, "".join(c if _harmless(c) else _escape(c) for c in value))


# Marks that stand above and below a letter; in numbers they cover the lines around.
_STACK = re.compile(
    r"[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]{4,}"
)


def _harmless(c: str) -> bool:
    return c.isprintable() or c == "\n"


def _escape(c: str) -> str:
    return f"\\u{{{ord(c):x}}}"


def _spelled(stack: re.Match[str]) -> str:
    return "".join(map(_escape, stack[0]))


def _discreet(value: object) -> object:
    plain = isinstance(value, str) and not isinstance(value, Markup)
    return clean(discreet_text(str(value)) if plain else value)


def _hushed(view: View) -> View:
    bare = Ledger()
    hidden = {name: getattr(bare, name) for name in ("offers", "schedule", "scheduled", "series")}
    return replace(view, ledger=replace(view.ledger, **hidden))


class Page:
    """Renders the status page from a view; unless `full`, without owners and windows."""

    def __init__(self, *, full: bool = True) -> None:
        self._full = full
        environment = Environment(
            loader=FileSystemLoader(_FOLDER),
            autoescape=True,
            finalize=clean if full else _discreet,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        with open(os.path.join(_FOLDER, "status.css")) as file:
            style = file.read()
        environment.globals["style"] = Markup(style)  # noqa: S704 our own file
        environment.filters["when"] = _when
        environment.filters["whole"] = _whole
        environment.filters["ago"] = _ago
        self._template = environment.get_template("status.html")
        digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
        self._headers = {
            "Content-Security-Policy": (
                f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:;"
                " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
            ),
            "Referrer-Policy": "no-referrer",
            "Cross-Origin-Opener-Policy": "same-origin",
        }

    def answer(
        self, view: View | None, overview: Json, groups: Sequence[Json], history: History
    ) -> Response:
        """The page; `overview` is what is told of the round, of which some is always known.

        `groups` is what is told of the balance of each.
        """
        words: dict[str, Any] = {"refresh": _REFRESH, "round": overview, "view": view}
        words["full"] = self._full
        if view is not None and not self._full:
            view, told = _hushed(view), history
            history = lambda incident, most: discreet_events(told(incident, most))  # noqa: E731
        if view is not None:
            words |= _words(view, overview, history)
            words["groups"] = panels.balancing(groups)
        text = self._template.render(words)
        return Response(200, text.encode(), "text/html; charset=utf-8", self._headers)


def _words(view: View, overview: Json, history: History) -> dict[str, Any]:
    rows = show.nodes(view)
    picture = draw(view, rows)
    incidents = sorted(view.ledger.incidents, key=_by_urgency)
    nodes = {node.uuid: node for node in view.observed.snapshot.nodes.values()}
    told = [
        _incident(view, incident, nodes.get(incident.node), history)
        for incident in incidents[:_MOST_INCIDENTS]
    ]
    sick = picture.counts.get("sick", 0)
    seen = sum(1 for row in rows if row["look"] == "seen")
    asked = sum(1 for row in rows if row["look"] != "not-asked")
    held = [show.held_json(held) for held in view.held]
    events = [show.event_json(event) for event in reversed(history(None, _MOST_EVENTS))]
    maintenance, queue = panels.windows(view, rows), panels.queue(view)
    return {
        "maintenance": maintenance,
        "queue": queue,
        "picture": picture,
        "states": STATES,
        "marks": MARKS,
        "drawn_offline": any(row["state"] == "offline" for row in rows),
        "drawn_drained": any(row["state"] == "drained" for row in rows),
        "drawn_paused": any(row["paused"] for row in rows),
        "incidents": told,
        "more_incidents": len(incidents) - len(told),
        "held": held[:_MOST_HELD],
        "more_held": max(0, len(held) - _MOST_HELD),
        "events": events,
        "ago": _ago(overview["now"] - overview["at"]),
        "tiles": [
            (f"{seen}/{asked}", "nodes answer", "bad" if seen < asked else ""),
            (str(sick), "unhealthy nodes", "warn" if sick else ""),
            (str(sum(1 for i in incidents if i.status.active)), "open incidents", ""),
            (str(len(show.jobs(view))), "running jobs", ""),
            (str(len(held)), "blocked", ""),
            (str(sum(i.status is Status.FAILED for i in incidents)), "failed",
             "bad" if any(i.status is Status.FAILED for i in incidents) else ""),
            *_more_tiles(view, maintenance),
        ],
    }  # fmt: skip


def _more_tiles(view: View, maintenance: Json | None) -> Iterable[tuple[str, str, str]]:
    if maintenance and maintenance["machines"]:
        yield str(maintenance["machines"]), "in windows", ""
        if maintenance["late"]:
            yield str(maintenance["late"]), "overdue", "bad"
    if entries := [e for e in view.ledger.queue.entries if not e.status.finished]:
        yield str(len(entries)), "to repair", "" if view.ledger.queue.enabled else "warn"


_URGENCY = (Status.FAILED, Status.PENDING, Status.NOTED, Status.COMPLETED, Status.CANCELED)


def _by_urgency(incident: Incident) -> tuple[int, int, str]:
    return _URGENCY.index(incident.status), -incident.noted_at, incident.id


def _incident(view: View, incident: Incident, node: Node | None, history: History) -> Json:
    told = show.incident_json(view, incident)
    original = told["original"]
    events = [show.event_json(e) for e in history(incident.id, _TIMELINE)]
    return {
        **told,
        "original": "" if original is None else _pretty(incident.diagnosis.text, original),
        "details": _summary(original),
        "steps": list(_steps(view, incident, node)),
        "timeline": events,
    }


def _pretty(text: str, original: Any) -> Markup:
    """Indent it, unless it is so long that most of it would be cut off again."""
    if len(text) <= _ORIGINAL:
        text = json.dumps(original, indent=2, ensure_ascii=False)
    return escape(clean(text, _ORIGINAL))


def _summary(original: Any) -> str:
    details = original.get("details") if isinstance(original, dict) else None
    if details is None:
        return ""
    text = details if isinstance(details, str) else json.dumps(details, ensure_ascii=False)
    return str(clean(text, 160))


def _steps(view: View, incident: Incident, node: Node | None) -> Iterable[tuple[str, str]]:
    """Yield steps of the repair, each `done`, `now`, `todo`, or `stopped`."""
    done = incident.status is Status.COMPLETED
    # Names of a step: when it is done, and before.
    steps: list[tuple[str, str, bool]] = [
        ("detected", "detected", incident.status is not Status.NOTED)
    ]
    if incident.diagnosis == UNKNOWN:
        steps.append(("reported again", "wait for report", done))
    elif incident.diagnosis.need is Need.LIVE_REPAIR:
        steps.append(("repaired", "live repair", incident.repaired or done))
    else:
        left = _left(view, incident.name)
        drained = done or (node is not None and (node.drained or node.offline))
        steps.append(("drained", "drain", drained))
        steps.append(("evacuated", f"evacuate ({left} to move)" if left else "evacuate", not left))
        offline = node is not None and node.offline
        if offline or not done:
            steps.append(("offline", "take offline", offline))
    steps.append(("tagged", "tag", done))
    going = incident.status.active or done
    reached = False
    for name, doing, is_done in steps:
        if reached:
            yield doing, "todo"
        elif is_done:
            yield name, "done"
        else:
            reached = True
            yield doing, "now" if going else "stopped"


def _left(view: View, node: str) -> int:
    instances = view.observed.snapshot.instances.values()
    return sum(1 for i in instances if node in (i.primary, i.secondary))


def _when(seconds: float) -> str:
    """A moment in UTC; today's without the date would need to know what today is."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(seconds))


def _ago(seconds: float) -> str:
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size:.0f} {unit}"
    return f"{max(0, seconds):.0f} s"


def _whole(number: float) -> str:
    return f"{number:g}"
