"""The page of one node: its state, incidents, windows, queue entries, instances and history."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from typing import Any

from nodeagent.maintd.http import status as show
from nodeagent.maintd.http.page import panels
from nodeagent.maintd.http.page.attention import Attention, Next, fold
from nodeagent.maintd.http.page.blocked import Blocked
from nodeagent.maintd.http.page.fencing import fencing_facts
from nodeagent.maintd.http.page.incident_card import History, by_urgency, card
from nodeagent.maintd.http.status import Json, View
from nodeagent.model.action import describe, move_of
from nodeagent.model.event import Event
from nodeagent.model.reason import Kind

_MOST_INSTANCES = 300
_MOST_EVENTS = 50
_MOST_CLAIMS = 20
_LOOKED_THROUGH = 1000  # events of the history that are read
POLLED = {
    "seen": "answers",
    "silent": "does not answer",
    "distrusted": "is not trusted",
    "not-asked": "is not polled",
}


def names(nodes: Iterable[str], name: str) -> list[str]:
    """The nodes with this name, full or short."""
    name = name.lower()
    found = [node for node in nodes if name in (node.lower(), node.lower().partition(".")[0])]
    return [node for node in found if node.lower() == name] or found


def told(view: View, name: str, history: History) -> dict[str, Any]:
    """All that the page shows of an existing node."""
    row = next(row for row in show.nodes(view) if row["name"] == name)
    blocked = Blocked(view)
    attention = Attention(view, [row], blocked, whole=True)
    incidents = sorted((i for i in view.ledger.incidents if i.node == row["uuid"]), key=by_urgency)
    node = view.observed.snapshot.nodes[name]
    left = row["instances"] + row["mirrors"]
    cards = [card(blocked.about(one.id), one, node, left, history) for one in incidents]
    for one in cards:
        one["waits"] = attention.waits(one["waits"])
    instances = list(_instances(view, name))
    line, yours = attention.line(row), attention.is_yours(row)
    if incidents and not yours:
        line = replace(line, next=())  # the incident shows it
    said = {then.text for one in ({"waits": line.next}, *cards) for then in one["waits"]}
    return {
        "row": row,
        "line": line,
        "facts": [*_facts(row, {one.id for one in incidents}), *fencing_facts(row["fencing"])],
        "blocked": [one for one in _reasons(blocked, row) if one.text not in said],
        "incidents": cards,
        "windows": panels.windows_of(view, row),
        "entries": panels.entries_of(view, name),
        "instances": instances[:_MOST_INSTANCES],
        "more_instances": max(0, len(instances) - _MOST_INSTANCES),
        "events": fold(list(reversed(_events(name, [i.id for i in incidents], history)))),
        "yours": int(yours),
    }


def _facts(row: Json, mine: Collection[str]) -> Iterator[tuple[str, str]]:
    """Name and text of each fact; without jobs for its own incidents (`mine`), shown with these."""
    roles = [row["state"], "the master" if row["master"] else ""]
    roles.append("a master candidate" if row["candidate"] and not row["master"] else "")
    yield "State", ", ".join(filter(None, roles))
    yield "Group", row["group"]
    polled = f"{POLLED.get(row['look'], row['look'])}"
    yield "Agent", f"{polled}: {row['look-why']}" if row["look-why"] else polled
    yield "Requests", row["need"] or f"unknown: {row['doubt'] or 'not polled'}"
    yield "Instances", f"{row['instances']} primary, {row['mirrors']} secondary"
    if row["paused"]:
        yield "Paused", row["paused"]
    for whom in row["out-for"]:
        yield "Out of service for", whom
    if row["stranded"]:
        yield "Drained", row["stranded"]
    others = [claim for claim in row["claims"] if claim["incident"] not in mine]
    for claim in others[:_MOST_CLAIMS]:
        number = f"job {claim['job']}" if claim["job"] is not None else "order"
        yield "Running", f"{number}: {claim['action']}"


def _reasons(blocked: Blocked, row: Json) -> Iterator[Next]:
    """Yield each reason that blocks work on the node, or everywhere."""
    shown = set[str]()
    for held, reason, command in blocked.told:
        here = row["name"] in (held.node, held.why.subject.name)
        if held.why.kind.metric == "unreachable":
            continue  # the line shows it
        if (here or held.why.kind is Kind.STORM) and reason not in shown:
            shown.add(reason)
            yield Next(reason, "" if command in reason else command)


def _instances(view: View, name: str) -> Iterator[Json]:
    moving: dict[str, list[str]] = {}
    for intent in view.ledger.intents:
        if (action := move_of(intent.action)) is not None:
            moving.setdefault(action.instance, []).append(describe(intent.action))
    snapshot = view.observed.snapshot
    for one in sorted(snapshot.instances.values(), key=lambda i: (i.primary != name, i.name)):
        if name in (one.primary, one.secondary):
            primary = one.primary == name
            yield {
                "name": one.name,
                "role": "primary" if primary else "secondary",
                "other": (one.secondary or "") if primary else one.primary,
                "memory": one.memory,
                "disk": one.disk,
                "moving": ", then ".join(moving.get(one.name, ())),
            }


def _events(name: str, incidents: Iterable[str], history: History) -> list[Json]:
    """The newest events of a node, and all events of its open incidents."""
    found: dict[tuple[int, str, str, str], Event] = {}
    lists = [history(one, _MOST_EVENTS) for one in incidents]
    lists.append([e for e in history(None, _LOOKED_THROUGH) if e.node == name])
    for events in lists:
        found |= {(event.at, event.kind, event.job, str(event)): event for event in events}
    newest = sorted(found.values(), key=lambda event: event.at)[-_MOST_EVENTS:]
    return [show.event_json(event) for event in newest]
