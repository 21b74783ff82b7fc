"""An incident as the pages show it: its steps, its next events, its report and timeline."""

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from markupsafe import Markup, escape

from nodeagent.maintd.http import status as show
from nodeagent.maintd.http.page.text import clean
from nodeagent.maintd.http.status import Json
from nodeagent.maintd.http.view import View
from nodeagent.model.diagnosis import Need
from nodeagent.model.event import Event
from nodeagent.model.incident import UNKNOWN, Incident, Status
from nodeagent.model.snapshot import Node

_TIMELINE = 40
_ORIGINAL = 4000  # characters of what a node reported

History = Callable[[str | None, int], Sequence[Event]]

_URGENCY = (Status.FAILED, Status.PENDING, Status.NOTED, Status.COMPLETED, Status.CANCELED)


def by_urgency(incident: Incident) -> tuple[int, int, str]:
    """Sort failed ones first, and the newest first within a status."""
    return _URGENCY.index(incident.status), -incident.noted_at, incident.id


def card(
    view: View, incident: Incident, node: Node | None, remaining: int, history: History
) -> Json:
    """All details of one incident; `remaining` instances are still on its node."""
    document = show.incident_json(view, incident)
    original = document["original"]
    events = [show.event_json(e) for e in history(incident.id, _TIMELINE)]
    return {
        **document,
        "why": "" if document["why"] in document["waits"] else document["why"],
        "original": "" if original is None else pretty(incident.diagnosis.text, original),
        "details": document["because"] or "",
        "steps": list(_steps(incident, node, remaining)),
        "timeline": events,
        "older": len(events) == _TIMELINE,
    }


def pretty(text: str, original: Any) -> Markup:
    """Indent JSON, unless it is so long that most of it would be cut off again."""
    if len(text) <= _ORIGINAL:
        text = json.dumps(original, indent=2, ensure_ascii=False)
    return escape(clean(text, _ORIGINAL))


def _steps(incident: Incident, node: Node | None, remaining: int) -> Iterable[tuple[str, str]]:
    """Yield steps of the repair, each `done`, `now`, `todo`, or `stopped`."""
    done = incident.status is Status.COMPLETED
    # Names of a step: once it is done, and before.
    steps: list[tuple[str, str, bool]] = [
        ("detected", "detected", incident.status is not Status.NOTED)
    ]
    if incident.diagnosis == UNKNOWN:
        steps.append(("reported again", "wait for report", done))
    elif incident.diagnosis.need is Need.LIVE_REPAIR:
        steps.append(("repaired", "live repair", incident.repaired or done))
    else:
        drained = done or (node is not None and (node.drained or node.offline))
        steps.append(("drained", "drain", drained))
        steps.append(
            (
                "evacuated",
                f"evacuate ({remaining} to move)" if remaining else "evacuate",
                not remaining,
            )
        )
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
