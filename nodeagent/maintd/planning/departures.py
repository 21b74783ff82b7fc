"""When each node leaves service and returns: the one notion by which placement knows time. Pure.

Windows, people's evacuations, incidents, the repair queue, fencing and a roll take nodes out of
service. A node that leaves within `window-ahead` is the last resort of every choice of a target, as
what comes to it must soon go again. Weekly series need no place here: within that time their
occurrences are windows.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from nodeagent.maintd.planning.resources import target_of
from nodeagent.maintd.planning.times import rfc3339
from nodeagent.model.action import Action, Reinstall, move_of
from nodeagent.model.departure import Cause, Departure, joined
from nodeagent.model.diagnosis import Need
from nodeagent.model.fencing import Stage
from nodeagent.model.ledger import Ledger, Policy
from nodeagent.model.reason import Held, Kind, Reason, because
from nodeagent.model.roll import Phase, Roll
from nodeagent.model.snapshot import Snapshot
from nodeagent.model.units import Ms
from nodeagent.model.window import Mode, Scheduled


def departures(
    ledger: Ledger, snapshot: Snapshot, policy: Policy, now: Ms
) -> Mapping[str, Departure]:
    """The nodes that leave within `window-ahead`, or are away, by name, each with its first one."""
    by_node: dict[str, list[Departure]] = {}
    for node, departure in (
        *_windows(ledger, now),
        *_people(ledger),
        *_incidents(ledger),
        *_entries(ledger, snapshot),
        *_fenced(ledger),
        *_rolled(ledger, now),
    ):
        if departure.leaves - now <= policy.window_ahead:
            by_node.setdefault(node, []).append(departure)
    if not by_node:
        return {}
    return {
        node.name: joined(several)
        for node in snapshot.nodes.values()
        if (several := by_node.get(node.uuid)) is not None
    }


# Each gives UUIDs of nodes with their departures; the same node may come several times.


def _windows(ledger: Ledger, now: Ms) -> Iterator[tuple[str, Departure]]:
    for scheduled in ledger.scheduled:
        if scheduled.node and not _is_past(scheduled, now):
            end = scheduled.when.end_ms
            returns = end if end is not None and end > now else None  # it is late, or has no end
            yield scheduled.node, Departure(scheduled.when.start_ms, returns, Cause.WINDOW)


def _is_past(scheduled: Scheduled, now: Ms) -> bool:
    """Tell whether the window has ended without any work for it."""
    end = scheduled.when.end_ms
    waits = scheduled.mode is Mode.DRAINING and not scheduled.begun
    return waits and end is not None and end <= now


def _people(ledger: Ledger) -> Iterator[tuple[str, Departure]]:
    for outage in ledger.outages:
        if outage.wanted is not None:
            yield outage.node, Departure(outage.wanted.at, None, Cause.PERSON)


def _incidents(ledger: Ledger) -> Iterator[tuple[str, Departure]]:
    for incident in ledger.incidents:
        if incident.status.active and incident.diagnosis.need >= Need.EVACUATE:
            yield incident.node, Departure(incident.noted_at, None, Cause.INCIDENT)


def _entries(ledger: Ledger, snapshot: Snapshot) -> Iterator[tuple[str, Departure]]:
    """Machines under repair: a queued one stays until its turn, which nobody knows."""
    at_work = {entry.address: entry for entry in ledger.queue.entries if entry.at_work}
    if at_work:
        for node in snapshot.nodes.values():
            if (entry := at_work.get(node.address)) is not None:
                yield node.uuid, Departure(entry.begun_at, None, Cause.ENTRY)


def _fenced(ledger: Ledger) -> Iterator[tuple[str, Departure]]:
    for fencing in ledger.fencing:
        if not fencing.drill and fencing.stage is not Stage.STOPPED:
            yield fencing.node, Departure(fencing.since, None, Cause.FENCING)


def _rolled(ledger: Ledger, now: Ms) -> Iterator[tuple[str, Departure]]:
    """Nodes of a roll: those that wait leave in turn, unless a person has to let it go on."""
    roll = ledger.roll
    if roll is None or roll.canceled:
        return
    for node, turn in turns(roll, now).items():
        yield node, Departure(turn.leaves, turn.returns, Cause.ROLL)


# The turns of a roll.


@dataclass(frozen=True, slots=True)
class Turn:
    """The absence of one node, from `leaves` to `returns` (unix ms)."""

    leaves: Ms
    returns: Ms


def turns(roll: Roll, now: Ms) -> Mapping[str, Turn]:
    """The turns of the nodes that are away or wait, by UUID; those that are over have none.

    Each takes as long as those before on average, or at first as long as it may. Hours, and
    whatever else keeps a node waiting, are not foreseen.
    """
    if roll.over:
        return {}
    took = [member.since - member.left_at for member in roll.nodes if member.phase is Phase.DONE]
    each = sum(took) // len(took) if took else roll.terms.return_within
    by_node = dict[str, Turn]()
    away = [roll_node for roll_node in roll.nodes if roll_node.phase.away]
    for member in away:
        by_node[member.node] = Turn(member.left_at, Ms(max(now, member.left_at + each)))
    free = [now] * (roll.terms.at_once - len(away))
    places = sorted([*(turn.returns for turn in by_node.values()), *free])
    for member in roll.nodes:
        if member.phase is Phase.WAITING and places:
            leaves = Ms(places.pop(0) + roll.terms.pause_between)
            by_node[member.node] = Turn(leaves, Ms(leaves + each))
            places.append(Ms(leaves + each))
    return by_node


def returns_at(roll: Roll, now: Ms) -> Mapping[str, Ms]:
    """When (unix ms) each node will be back, by UUID.

    Empty until a first one has returned, and while a person has to let the roll go on.
    """
    if roll.stopped or roll.paused or roll.canceled:
        return {}
    if not any(roll_node.phase is Phase.DONE for roll_node in roll.nodes):
        return {}
    return {node: turn.returns for node, turn in turns(roll, now).items()}


# What it says to people.


def leaves(name: str, departure: Departure) -> Reason:
    """Say that a node leaves, when, why, and when it returns."""
    returns = "" if departure.returns is None else rfc3339(departure.returns)
    moment, cause = rfc3339(departure.leaves), departure.cause.value
    return because(Kind.LEAVES, name, leaves=moment, cause=cause, returns=returns)


def moves_again(
    ledger: Ledger, snapshot: Snapshot, leaving: Mapping[str, Departure], now: Ms
) -> tuple[Held, ...]:
    """Each instance on its way to a node that leaves soon: it will move again."""
    ahead = {
        name: leaves(name, departure)
        for name, departure in leaving.items()
        if not departure.is_away(now)
    }
    if not ahead:
        return ()
    return tuple(
        Held(because(Kind.MOVES_AGAIN, instance, why=ahead[target]), intent.node)
        for intent in ledger.intents
        for instance, target in _arrivals(intent.action, snapshot)
        if target in ahead
    )


def _arrivals(action: Action, snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    """The nodes to which an action brings an instance."""
    move = move_of(action)
    if move is None:
        return
    if (target := target_of(move, snapshot)) is not None:
        yield move.instance, target
    if isinstance(move, Reinstall) and move.mirror is not None:
        yield move.instance, move.mirror
