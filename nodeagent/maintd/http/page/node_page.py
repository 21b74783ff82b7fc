"""The page of one node: its state, incidents, windows, queue entries, instances and history."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from typing import Any

from nodeagent.maintd.http import status as show
from nodeagent.maintd.http.dead_nodes import FencingView
from nodeagent.maintd.http.page import panels
from nodeagent.maintd.http.page.attention import Attention, Blocked, NextStep, fold
from nodeagent.maintd.http.page.incident_card import History, by_urgency, card
from nodeagent.maintd.http.page.text import when
from nodeagent.maintd.http.status import Json
from nodeagent.maintd.http.view import NodeView, View, nodes
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


def page_of(view: View, name: str, history: History) -> dict[str, Any]:
    """All that the page shows of an existing node."""
    node = next(node for node in nodes(view) if node.name == name)
    blocked = Blocked(view)
    attention = Attention(view, [node], blocked, whole=True)
    mine = (i for i in view.ledger.incidents if i.node == node.node.uuid)
    incidents = sorted(mine, key=by_urgency)
    remaining = node.primaries + node.secondaries
    cards = [
        card(blocked.about(incident.id), incident, node.node, remaining, history)
        for incident in incidents
    ]
    for document in cards:
        document["waits"] = attention.waits(document["waits"])
    instances = list(_instances(view, name))
    line, yours = attention.line(node), attention.is_yours(node)
    if incidents and not yours:
        line = replace(line, next=())  # the incident shows it
    shown_texts = {
        then.text for document in ({"waits": line.next}, *cards) for then in document["waits"]
    }
    return {
        "node_view": node,
        "line": line,
        "facts": list(_facts(node, {incident.id for incident in incidents})),
        "blocked": [reason for reason in _reasons(blocked, node) if reason.text not in shown_texts],
        "incidents": cards,
        "windows": panels.windows_of(view, node),
        "entries": panels.entries_of(view, name),
        "instances": instances[:_MOST_INSTANCES],
        "more_instances": max(0, len(instances) - _MOST_INSTANCES),
        "events": fold(list(reversed(_events(name, [i.id for i in incidents], history)))),
        "yours": int(yours),
    }


def _facts(node: NodeView, mine: Collection[str]) -> Iterator[tuple[str, str]]:
    """Name and text of each fact; without jobs for its own incidents (`mine`), shown with these."""
    roles = [node.role]
    if node.is_master:
        roles.append("the master")
    elif node.node.candidate:
        roles.append("a master candidate")
    yield "State", ", ".join(roles)
    yield "Group", node.group
    polled = POLLED.get(node.look, node.look)
    yield "Agent", f"{polled}: {node.look_why}" if node.look_why else polled
    unknown = f"unknown: {node.doubt or 'not polled'}"
    yield "Requests", node.need.wire if node.need is not None else unknown
    yield "Instances", f"{node.primaries} primary, {node.secondaries} secondary"
    if node.paused is not None:
        yield "Paused", str(node.paused)
    for claimant in node.out_for:
        yield "Out of service for", claimant
    if node.stranded:
        yield "Drained", node.stranded
    others = [intent for intent in node.intents if intent.incident not in mine]
    for intent in others[:_MOST_CLAIMS]:
        number = f"job {intent.job}" if intent.job and intent.job.isdecimal() else "order"
        yield "Running", f"{number}: {describe(intent.action)}"
    if node.silence.fencing is not None:
        yield from _fencing_facts(node.silence.fencing)


def _fencing_facts(view: FencingView) -> Iterator[tuple[str, str]]:
    fencing = view.fencing
    yield "Fencing", f"{fencing.stage.value} since {when(fencing.at / 1000)}"
    yield "Because", view.why
    if fencing.said:
        tries = f"{fencing.tries} in a row: " if fencing.tries else ""
        yield "Failure", f"{tries}{fencing.said}"
    if view.next:
        at = f"at {when(view.next_at / 1000)}" if view.next_at else "as soon as maintd can"
        yield "Next step", f"{view.next}, {at}"


def _reasons(blocked: Blocked, node: NodeView) -> Iterator[NextStep]:
    """Yield each reason that blocks work on the node, or everywhere."""
    shown = set[str]()
    for held, reason, command in blocked.told:
        here = node.name in (held.node, held.why.subject.name)
        if held.why.kind.metric == "unreachable":
            continue  # the line shows it
        if (here or held.why.kind is Kind.STORM) and reason not in shown:
            shown.add(reason)
            yield NextStep(reason, "" if command in reason else command)


def _instances(view: View, name: str) -> Iterator[Json]:
    moving: dict[str, list[str]] = {}
    for intent in view.ledger.intents:
        if (action := move_of(intent.action)) is not None:
            moving.setdefault(action.instance, []).append(describe(intent.action))
    snapshot = view.observed.snapshot
    for instance in sorted(snapshot.instances.values(), key=lambda i: (i.primary != name, i.name)):
        if name in instance.nodes:
            primary = instance.primary == name
            yield {
                "name": instance.name,
                "role": "primary" if primary else "secondary",
                "others": sorted(instance.nodes - {name}) if primary else [instance.primary],
                "memory": instance.memory,
                "disk": instance.disk,
                "moving": ", then ".join(moving.get(instance.name, ())),
            }


def _events(name: str, incidents: Iterable[str], history: History) -> list[Json]:
    """The newest events of a node, and all events of its open incidents."""
    unique_events: dict[tuple[int, str, str, str], Event] = {}
    lists = [history(incident, _MOST_EVENTS) for incident in incidents]
    lists.append([e for e in history(None, _LOOKED_THROUGH) if e.node == name])
    for events in lists:
        unique_events |= {(event.at, event.kind, event.job, str(event)): event for event in events}
    newest = sorted(unique_events.values(), key=lambda event: event.at)[-_MOST_EVENTS:]
    return [show.event_json(event) for event in newest]
