"""Events of the queue, of offers, windows, rolls and returning nodes, for the event log. Pure."""

from collections.abc import Iterator

from nodeagent.maintd.windows.recurrence import day_text
from nodeagent.model.event import Event, happened
from nodeagent.model.ledger import Ledger
from nodeagent.model.offer import Reply, Work
from nodeagent.model.outage import Back
from nodeagent.model.queue import Entry
from nodeagent.model.roll import Phase
from nodeagent.model.snapshot import Observed
from nodeagent.model.units import Ms


def entries(before: Ledger, after: Ledger, now: Ms) -> Iterator[Event]:
    """Progress of the repair queue with each machine."""
    old = {entry.index: entry for entry in before.queue.entries}
    new = {entry.index: entry for entry in after.queue.entries}
    for entry in after.queue.entries:
        known = old.get(entry.index)
        if known is None or known.status is not entry.status:
            yield _of_entry(now, entry.status.value, entry)
        elif entry.backoffs > known.backoffs:
            yield _of_entry(now, "put-off", entry)
    for entry in before.queue.entries:
        if entry.index not in new:
            yield _of_entry(now, "deleted", entry)


def _of_entry(now: Ms, what: str, entry: Entry) -> Event:
    return happened(
        now,
        f"entry-{what}",
        index=str(entry.index),
        address=entry.address,
        type=entry.machine_type,
        operation=entry.operation,
        why=entry.why,
    )


def returns(before: Ledger, after: Ledger, observed: Observed | None, now: Ms) -> Iterator[Event]:
    """Nodes reported repaired, and the result for each."""
    nodes = {} if observed is None else observed.snapshot.by_uuid
    old, new = _returning(before), _returning(after)
    for uuid, back in new.items():
        known = old.get(uuid)
        if (known is None or known.at != back.at) and (node := nodes.get(uuid)):
            yield happened(now, "returning", "", node.name, who=back.who, state=back.to.value)
    for uuid, back in old.items():
        if uuid not in new and (node := nodes.get(uuid)):
            kind = "returned" if node.standing is back.to else "return-over"
            yield happened(now, kind, "", node.name, state=node.standing.value)


def _returning(ledger: Ledger) -> dict[str, Back]:
    """The nodes (UUIDs) that a person has reported repaired."""
    return {outage.node: back for outage in ledger.outages if (back := outage.reported) is not None}


def series(before: Ledger, after: Ledger, now: Ms) -> Iterator[Event]:
    """Occurrences of weekly series that have become windows, and those that are over."""
    old, new = (_placed(ledger) for ledger in (before, after))
    for (name, day), machines in new.items():
        if fresh := machines - old.get((name, day), frozenset()):
            yield _occurrence(now, "occurrence-planned", name, day, fresh)
    for (name, day), machines in old.items():
        if gone := machines - new.get((name, day), frozenset()):
            yield _occurrence(now, "occurrence-over", name, day, gone)


def _placed(ledger: Ledger) -> dict[tuple[str, int], frozenset[str]]:
    machines: dict[tuple[str, int], frozenset[str]] = {}
    for series in ledger.series:
        for member in series.members:
            if member.placed:
                key = series.name, member.day
                machines[key] = machines.get(key, frozenset()) | {str(member.machine)}
    return machines


def _occurrence(now: Ms, kind: str, name: str, day: int, machines: frozenset[str]) -> Event:
    return happened(now, kind, series=name, day=day_text(day), machines=tuple(sorted(machines)))


def offers(before: Ledger, after: Ledger, observed: Observed | None, now: Ms) -> Iterator[Event]:
    """Events of offers and of answers; an offer repeated unchanged is logged only once."""
    names = {} if observed is None else {u: n.name for u, n in observed.snapshot.by_uuid.items()}
    old = {(offer.node, offer.owner, offer.generation): offer for offer in before.offers}
    asked: set[tuple[str, str, Work]] = set()  # of which anything is new
    for offer in after.offers:
        known = old.pop((offer.node, offer.owner, offer.generation), None)
        node = names.get(offer.node, "")
        if known is None:
            asked.add((offer.node, offer.owner, offer.work))
            yield happened(now, "offered", "", node, owner=offer.owner, instances=offer.instances)
        answer = offer.answer
        if answer is not None and (known is None or answer != known.answer):
            kind = "accepted" if answer.reply is Reply.ACCEPT else "declined"
            details = {"owner": offer.owner, "who": answer.who, "why": answer.reason}
            yield happened(now, kind, "", node, **details)
    for offer in old.values():
        if (offer.node, offer.owner, offer.work) not in asked:
            yield happened(now, "rescinded", "", names.get(offer.node, ""), owner=offer.owner)


def rolls(before: Ledger, after: Ledger, now: Ms) -> Iterator[Event]:
    """Progress of the rolling maintenance, node by node."""
    roll = after.roll
    if roll is None or roll == before.roll:
        return
    old = before.roll if before.roll is not None and before.roll.number == roll.number else None
    command = roll.terms.command
    if old is None:
        nodes = tuple(member.name for member in roll.nodes)
        yield happened(now, "roll-started", command=command, nodes=nodes, why=roll.terms.why)
    phases = {} if old is None else {member.node: member.phase for member in old.nodes}
    for member in roll.nodes:
        if member.phase is not phases.get(member.node, Phase.WAITING):
            kind, why = f"roll-{member.phase.value}", member.why
            yield happened(now, kind, "", member.name, command=command, why=why)
    if roll.stopped and not (old and old.stopped):
        yield happened(now, "roll-stopped", command=command, why=roll.stopped)
    if roll.over and not (old and old.over):
        done = sum(member.phase is Phase.DONE for member in roll.nodes)
        counts = {"done": str(done), "nodes": str(len(roll.nodes))}
        yield happened(now, "roll-over", command=command, canceled=roll.canceled, **counts)
