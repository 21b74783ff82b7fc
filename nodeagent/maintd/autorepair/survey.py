"""Survey all instances: the next step of each repair, and its target. Pure.

`survey` decides the steps; `place` gives them their targets in the available room.
"""

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from nodeagent.autorepair.health import HEALTHY
from nodeagent.autorepair.jobs import Ran
from nodeagent.autorepair.policy import expired
from nodeagent.autorepair.rules import SAFE, Rules
from nodeagent.autorepair.state import NEEDS, PENDING, WELL, Pending
from nodeagent.autorepair.steps import Assessment, Judge, Mark, Nothing, Step, Wait
from nodeagent.autorepair.tags import Record, RepairType, read, telling
from nodeagent.maintd.autorepair import targets
from nodeagent.maintd.planning.resources import Room
from nodeagent.model.action import Guarded, Retag
from nodeagent.model.fencing import is_fenced
from nodeagent.model.ledger import Result, Trail
from nodeagent.model.purpose import AUTOREPAIR, claimant
from nodeagent.model.reason import FencingKind, Kind, Reason, because
from nodeagent.model.snapshot import Instance, Snapshot
from nodeagent.model.units import Ms

_NOWHERE: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Survey:
    """Every instance that is not simply healthy, the number of others, expired suspensions."""

    rows: Sequence[Assessment]
    well: int
    expired: Sequence[Retag] = ()


@dataclass(frozen=True, slots=True)
class Proposed:
    """A job of a repair: its instance, the node that it concerns, and why."""

    instance: str
    node: str
    repair: str
    action: Guarded | Retag
    why: str


@dataclass(frozen=True, slots=True)
class Plan:
    """Jobs to submit, and the blocked repairs, by instance, with the reason.

    `counts` has the number of instances in each state once all jobs are submitted.
    """

    proposed: Sequence[Proposed]
    held: Sequence[tuple[str, Reason]]
    counts: Mapping[str, int] = field(default_factory=dict)


def jobs_of(trails: Iterable[Trail]) -> dict[str, list[Ran]]:
    """The jobs of repairs among these, by instance."""
    jobs: dict[str, list[Ran]] = {}
    for trail in trails:
        if not trail.purpose.repair or not trail.job.isdecimal():
            continue
        ran = Ran(int(trail.job), trail.purpose.repair, trail.action, trail.result, trail.ended)
        jobs.setdefault(ran.instance, []).append(ran)
    return jobs


def pending(snapshot: Snapshot) -> Iterator[Record]:
    """The pending repairs in instances' tags, as far as harep could read them."""
    for instance in snapshot.instances.values():
        for tag in telling(instance.tags):
            record = read(tag, strict=False)
            if isinstance(record, Record) and record.ending is None:
                yield record


def in_tags(snapshot: Snapshot) -> set[int]:
    """The jobs named in pending repairs' tags, whose results are needed."""
    return {job for record in pending(snapshot) for job in record.jobs}


def survey(
    snapshot: Snapshot,
    jobs: Mapping[str, Sequence[Ran]],
    results: Mapping[int, Result],
    now: Ms,
    rules: Rules = SAFE,
    ours: Mapping[str, str] = _NOWHERE,
) -> Survey:
    """Judge what each instance needs; `results` are by number those of the jobs `in_tags`.

    `ours` are nodes, by name with the reason, that are out of service but do not permit repairs:
    they count as in service, and pending repairs there wait.
    """
    snapshot = _in_service(snapshot, ours)
    judge, rows = Judge(snapshot, jobs, results, now, rules), []
    for instance in snapshot.instances.values():
        if judge.health(instance) is HEALTHY and not telling(instance.tags):
            continue
        row = judge.assess(instance)
        places = (instance.primary, instance.secondary or "")
        why = next((ours[place] for place in places if place in ours), "")
        if why and isinstance(row.state, Pending):
            row = replace(row, next=Wait(why))
        if row.next != _NOTHING:
            rows.append(row)
    old = list(expired(snapshot, now)) if rules.clears_expired else []
    return Survey(rows, len(snapshot.instances) - len(rows), old)


_NOTHING = Nothing()


def _in_service(snapshot: Snapshot, names: Mapping[str, str]) -> Snapshot:
    """The snapshot with these nodes in service."""
    if not names:
        return snapshot
    back = {
        name: replace(node, drained=False, offline=False)
        for name, node in snapshot.nodes.items()
        if name in names
    }
    return replace(snapshot, nodes={**snapshot.nodes, **back})


def place(
    surveyed: Survey,
    room: Room,
    stopped: Mapping[str, Reason] = _NOWHERE,
    most: int = sys.maxsize,
    under_way: int = 0,
) -> Plan:
    """Give each step its target; repairs that started earliest choose first.

    A step without a target, or on nodes that others work on, is blocked with its reason. So is each
    step beyond `most`, where so many repairs are `under_way`, and each on instances and nodes in
    `stopped`, by name with the reason; "" means every node. Changes of a repair's tags are not
    blocked.
    """
    proposed: list[Proposed] = []
    held: list[tuple[str, Reason]] = []
    no_more = because(Kind.AT_ONCE, most=most)
    moving = under_way
    counts = Counter({WELL: surveyed.well}) if surveyed.well else Counter()
    for row in sorted(surveyed.rows, key=_turn):
        match row.next:
            case Step() as step:
                name, stop = row.instance.name, _stop(row.instance, step, room, stopped)
                stop = stop or (no_more if moving >= most else None)
                job = stop or _placed(row.instance, step, room)
                if isinstance(job, Reason):
                    held.append((name, because(Kind.STEP_WAITS, name, step=step.why, why=job)))
                    counts[PENDING if isinstance(row.state, Pending) else NEEDS] += 1
                    continue
                moving += 1
                room.plan(job, AUTOREPAIR)
                proposed.append(_proposed(row.instance, step.repair, job, step.why))
            case Mark(repair, swap, why):
                proposed.append(_proposed(row.instance, repair, swap, why))
            case Wait(why) | Nothing(why):
                name = row.instance.name
                held.append((name, because(Kind.BY_RULES, name, why=why)))
        counts[row.word] += 1
    return Plan(proposed, held, dict(counts))


def _stop(
    instance: Instance, step: Step, room: Room, stopped: Mapping[str, Reason]
) -> Reason | None:
    if is_fenced(room.snapshot.nodes[instance.primary].tags):
        return because(FencingKind.KEEPS_INSTANCES, instance.primary)
    places = ["", instance.name, instance.primary]
    other = instance.secondary
    if other is not None and (other in room.busy or not _is_rescue(instance, step, room)):
        places.append(other)
    return next((stopped[place] for place in places if place in stopped), None)


def _is_rescue(instance: Instance, step: Step, room: Room) -> bool:
    """Check whether the instance is down until this is done: then it ignores other work there."""
    return step.kind is RepairType.FAILOVER and targets.is_lost(instance, room)


def _turn(row: Assessment) -> tuple[int, str]:
    begun = row.state.record.at if isinstance(row.state, Pending) else 2**63
    return begun, row.instance.name


def _proposed(instance: Instance, repair: str, action: Guarded | Retag, why: str) -> Proposed:
    node = action.then.node if isinstance(action, Guarded) else instance.primary
    return Proposed(instance.name, node, repair, action, why)


def _placed(instance: Instance, step: Step, room: Room) -> Guarded | Reason:
    """Return the step as a job, or its obstacle."""
    if instance.name in room.placed:
        return because(Kind.ON_THE_MOVE, instance.name)
    nodes = () if _is_rescue(instance, step, room) else (instance.primary, instance.secondary)
    for node in nodes:
        owner = None if node is None else room.claims.get(node)
        if node is not None and owner is not None and owner != AUTOREPAIR:
            return because(Kind.CLAIMED, node, who=claimant(owner))
    move = targets.move(instance, step, room)
    allowed = move if isinstance(move, Reason) else room.within_budgets(move)
    return allowed if isinstance(allowed, Reason) else Guarded(step.swap, allowed)
