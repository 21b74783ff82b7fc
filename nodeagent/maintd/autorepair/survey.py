"""All instances' repairs at once: what each needs next, and where it is to be brought. Pure.

`survey` says what is to be done; `place` gives the steps their targets, in what room there is.
"""

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from nodeagent.autorepair.assess import SAFE, Judge
from nodeagent.autorepair.health import HEALTHY, Health, Healthy
from nodeagent.autorepair.jobs import Ran
from nodeagent.autorepair.policy import NotEnabled, Policy, Suspended, expired
from nodeagent.autorepair.state import (
    FAILED,
    NEEDS,
    PENDING,
    WELL,
    Clear,
    Failed,
    Pending,
    State,
)
from nodeagent.autorepair.steps import Mark, Next, Nothing, Step, Wait
from nodeagent.autorepair.tags import Record, read, telling
from nodeagent.maintd.autorepair import targets as target
from nodeagent.maintd.planning.resources import Room
from nodeagent.model.action import Guarded, Retag
from nodeagent.model.ledger import AUTOREPAIR, Result, Trail
from nodeagent.model.snapshot import Instance, Snapshot


@dataclass(frozen=True, slots=True)
class Row:
    """One instance that is not simply healthy, and what is to be done about it."""

    instance: Instance
    policy: Policy
    health: Health
    state: State
    next: Next

    @property
    def wanted(self) -> bool:
        """Whether somebody has allowed a repair, or one was begun."""
        allowed = not isinstance(self.policy, NotEnabled | Suspended)
        return allowed or not isinstance(self.state, Clear)

    @property
    def word(self) -> str:
        """The state that it is counted under, once what is to be done has been begun."""
        match self.next:
            case Step() | Wait():
                return PENDING
            case Mark(ending=ending) if isinstance(self.state, Pending) and ending is None:
                return PENDING
        if isinstance(self.state, Failed):
            return FAILED
        if isinstance(self.next, Nothing) and isinstance(self.state, Pending):
            return PENDING
        return WELL if isinstance(self.health, Healthy) else NEEDS


@dataclass(frozen=True, slots=True)
class Survey:
    """Every instance that is not simply healthy, how many are, and the suspensions to take off."""

    rows: Sequence[Row]
    well: int
    expired: Sequence[Retag] = ()


@dataclass(frozen=True, slots=True)
class Proposed:
    """A job of a repair: for which instance, on account of which of its nodes, and why."""

    instance: str
    node: str
    repair: str
    action: Guarded | Retag
    why: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be submitted; what is wanted and not done, by instance, with the reason.

    `counts` has how many instances are in each state once all is submitted.
    """

    proposed: Sequence[Proposed]
    held: Sequence[tuple[str, str]]
    counts: Mapping[str, int] = field(default_factory=dict)


def jobs_of(trails: Iterable[Trail]) -> dict[str, list[Ran]]:
    """The jobs of repairs among these, by instance."""
    found: dict[str, list[Ran]] = {}
    for trail in trails:
        if not trail.repair or not trail.job.isdecimal():
            continue
        ran = Ran(int(trail.job), trail.repair, trail.action, trail.result, trail.ended)
        found.setdefault(ran.instance, []).append(ran)
    return found


def pending(snapshot: Snapshot) -> Iterator[Record]:
    """The repairs that are pending by the instances' tags, as far as harep could read these."""
    for instance in snapshot.instances.values():
        for tag in telling(instance.tags):
            said = read(tag, strict=False)
            if isinstance(said, Record) and said.ending is None:
                yield said


def in_tags(snapshot: Snapshot) -> set[int]:
    """The jobs that stand in pending repairs' tags: somebody has to ask how these are."""
    return {job for record in pending(snapshot) for job in record.jobs}


def survey(
    snapshot: Snapshot,
    jobs: Mapping[str, Sequence[Ran]],
    results: Mapping[int, Result],
    now: int,
    mode: str = SAFE,
) -> Survey:
    """What each instance needs. `results` are by number those of the jobs `in_tags`."""
    judge, rows = Judge(snapshot, jobs, results, now, mode), []
    for instance in snapshot.instances.values():
        if judge.health(instance) is HEALTHY and not telling(instance.tags):
            continue
        said = judge.assess(instance)
        if said.next != _NOTHING:
            rows.append(Row(instance, said.policy, said.health, said.state, said.next))
    old = list(expired(snapshot, now)) if mode == SAFE else []  # harep leaves them
    return Survey(rows, len(snapshot.instances) - len(rows), old)


_NOTHING = Nothing()
_NOWHERE: Mapping[str, str] = MappingProxyType({})


def place(
    surveyed: Survey,
    room: Room,
    stopped: Mapping[str, str] = _NOWHERE,
    most: int = sys.maxsize,
    no_more: str = "as many instances are being repaired as may be at once",
) -> Plan:
    """Give each step its target; those that were begun first, and the longest ago, choose first.

    What has no place, or whose nodes others work on, is held with its reason. So is what would
    be one more than `most`, with the reason `no_more`, and all at instances and nodes that are
    `stopped`, by name with the reason; "" stands for every node. What only changes a repair's tags
    is done all the same.
    """
    proposed: list[Proposed] = []
    held: list[tuple[str, str]] = []
    moving = 0
    counts = Counter({WELL: surveyed.well}) if surveyed.well else Counter()
    for row in sorted(surveyed.rows, key=_turn):
        match row.next:
            case Step() as step:
                why = _stop(row.instance, stopped) or (no_more if moving >= most else "")
                found = why or _placed(row.instance, step, room)
                if isinstance(found, str):
                    held.append((row.instance.name, f"{step.why}; {found}"))
                    counts[PENDING if isinstance(row.state, Pending) else NEEDS] += 1
                    continue
                moving += 1
                room.plan(found, AUTOREPAIR)
                proposed.append(_proposed(row.instance, step.repair, found, step.why))
            case Mark(repair, swap, why):
                proposed.append(_proposed(row.instance, repair, swap, why))
            case Wait(why) | Nothing(why):
                held.append((row.instance.name, why))
        counts[row.word] += 1
    return Plan(proposed, held, dict(counts))


def _stop(instance: Instance, stopped: Mapping[str, str]) -> str:
    places = ("", instance.name, instance.primary, instance.secondary or "")
    return next((stopped[place] for place in places if place in stopped), "")


def _turn(row: Row) -> tuple[int, str]:
    begun = row.state.record.at if isinstance(row.state, Pending) else 2**63
    return begun, row.instance.name


def _proposed(instance: Instance, repair: str, action: Guarded | Retag, why: str) -> Proposed:
    node = action.then.node if isinstance(action, Guarded) else instance.primary
    return Proposed(instance.name, node, repair, action, why)


def _placed(instance: Instance, step: Step, room: Room) -> Guarded | str:
    """The step as a job, or why there is none now."""
    if instance.name in room.placed:
        return "it is on the move"
    for node in (instance.primary, instance.secondary):
        owner = None if node is None else room.claims.get(node)
        if owner not in (None, AUTOREPAIR):
            return f"{node} is claimed by another repair"
    move = target.move(instance, step, room)
    return move if isinstance(move, str) else Guarded(step.swap, move)
