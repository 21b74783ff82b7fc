"""Administrators' balancing requests: accepted whole, or refused with the reason. Pure."""

from collections.abc import Sequence
from dataclasses import replace

from nodeagent.maintd.balancing.moves import described, fault, spot
from nodeagent.maintd.planning.names import no_such
from nodeagent.model.balance import Agenda, Shift, Spot
from nodeagent.model.ledger import Ledger
from nodeagent.model.snapshot import Group, Observed, Snapshot
from nodeagent.model.units import Ms
from nodeagent.model.wish import Balance


def grant(ledger: Ledger, asked: Balance, who: str, observed: Observed, now: Ms) -> Ledger | str:
    """Accept a request, or say why not."""
    snapshot = observed.snapshot
    group = _named(snapshot, asked.group)
    if group is None:
        return no_such("group", asked.group)
    if (halt := ledger.halt_of(group.uuid)) is not None:
        return f"{halt.why}: remove the tag {halt.tag} from group {group.name} first"
    if (old := ledger.agenda_of(group.uuid)) is not None:
        return f"the moves that {old.who} asked for are still running: stop them first"
    if why := _wrong(asked.shifts, snapshot, group):
        return why
    new = Agenda(group.uuid, who, now, asked.shifts, listed=bool(asked.shifts))
    return replace(ledger, agenda=(*ledger.agenda, new))


def stop(ledger: Ledger, name: str, snapshot: Snapshot) -> Ledger | str:
    """Start no more requested moves; running ones continue."""
    group = _named(snapshot, name)
    if group is None:
        return no_such("group", name)
    kept = tuple(agenda for agenda in ledger.agenda if agenda.group != group.uuid)
    if kept == ledger.agenda:
        return f"nothing was asked for in group {name}, or it is done"
    return replace(ledger, agenda=kept)


def _named(snapshot: Snapshot, name: str) -> Group | None:
    return next((group for group in snapshot.groups.values() if group.name == name), None)


def _wrong(shifts: Sequence[Shift], snapshot: Snapshot, group: Group) -> str:
    """The fault of the first move that is impossible after those before it; else ""."""
    places: dict[str, Spot] = {}
    for number, shift in enumerate(shifts, 1):
        instance = snapshot.instances.get(shift.instance)
        if instance is None:
            return f"move {number}: there is no instance {shift.instance}"
        for name in sorted(shift.nodes):
            node = snapshot.nodes.get(name)
            if node is None or node.group != group.uuid:
                return f"move {number}: {name} is not a node of group {group.name}"
        here = places.get(shift.instance, spot(instance))
        if here != shift.at:
            current = described(replace(shift, at=here))
            return f"move {number}: {described(shift)}: it is on {current.split()[1]}"
        if why := fault(shift, instance):
            return f"move {number}: {described(shift)}: {why}"
        places[shift.instance] = shift.to
    return ""
