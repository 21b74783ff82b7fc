"""Planner of auto-repair: repair instances on nodes without incidents. Pure."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from nodeagent.autorepair.assess import Assessment, Survey
from nodeagent.autorepair.jobs import instance_of
from nodeagent.autorepair.state import NEEDS, WELL, Pending
from nodeagent.autorepair.steps import Mark, Nothing, Step, Wait
from nodeagent.maintd.autorepair import offline, targets
from nodeagent.maintd.autorepair.jobs import keep_off, survey_of, under_way, why_paused
from nodeagent.maintd.planning.intents import without_claim
from nodeagent.maintd.planning.preconditions import others_job
from nodeagent.maintd.planning.resources import Room, Taken
from nodeagent.maintd.planning.situation import Situation, Stop
from nodeagent.model.action import Guarded, Retag
from nodeagent.model.fencing import is_fenced
from nodeagent.model.ledger import Intent, Ledger
from nodeagent.model.purpose import AUTOREPAIR, OfRepair, OfTags
from nodeagent.model.reason import FencingKind, Held, Kind, Reason, StageKind, because
from nodeagent.model.snapshot import Instance
from nodeagent.model.stage import FULL
from nodeagent.model.units import Ms


@dataclass(frozen=True, slots=True)
class Repaired:
    """The ledger with the repairs of this round, and the blocked ones that somebody waits for.

    `survey` has every instance's assessment, `jobs` the new intents of repairs, each with the
    reason, and `blocked` by instance why it is not repaired now. `counts` has the number of
    instances in each state once all jobs are submitted.
    """

    ledger: Ledger
    held: tuple[Held, ...] = ()
    survey: Survey = field(default_factory=Survey)
    jobs: tuple[tuple[Intent, str], ...] = ()
    blocked: Mapping[str, Reason] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)


def repair(
    ledger: Ledger,
    situation: Situation,
    stages: Mapping[str, str],
    surveyed: Survey | None = None,
) -> Repaired:
    """Plan repairs; those that started earliest choose their targets first.

    `stages` has the stages of nodes, by name: below full repairs are only told. A person's pass has
    none. `surveyed` is the survey of this moment, if it is there already.

    A step without a target, on nodes that others work on, or beyond `policy.repairs` at once, is
    blocked with its reason. Changes of a repair's tags are not blocked.
    """
    observed, policy, now = situation.observed, situation.policy, situation.now
    if policy.autorepair == "off" or ledger.repairs_after > now:
        return Repaired(ledger)
    if why := why_paused(observed.watcher_paused, now):
        return Repaired(ledger, (Held(why),))
    keep_off(ledger, observed, situation.room)
    answering = offline.answering(observed)
    theirs = {name: others_job(job) for name, job in observed.busy.items()}
    stop = situation.stops.repairs
    if surveyed is None:
        surveyed = survey_of(ledger, observed, policy, now)
    planner = _Planner(
        ledger,
        situation,
        stages,
        stop=replace(stop, nodes={**theirs, **answering, **stop.nodes}),
        moving=under_way(ledger, observed),
        counts=Counter({WELL: surveyed.well}) if surveyed.well else Counter(),
    )
    for row in sorted(surveyed.rows, key=_turn):
        planner.plan(row)
    ledger = _without_expired(planner.ledger, surveyed, now)
    by_node = [Held(why, name) for name, why in answering.items()]
    held = (*by_node, *_waiting(surveyed, ledger, planner.blocked), *planner.only_told)
    jobs, counts = tuple(planner.jobs), dict(planner.counts)
    return Repaired(ledger, held, surveyed, jobs, planner.blocked, counts)


@dataclass
class _Planner:
    """Plans one instance after the other; `moving` counts the repairs under way and planned."""

    ledger: Ledger
    situation: Situation
    stages: Mapping[str, str]
    stop: Stop
    moving: int
    counts: Counter[str]
    jobs: list[tuple[Intent, str]] = field(default_factory=list)
    blocked: dict[str, Reason] = field(default_factory=dict)
    only_told: list[Held] = field(default_factory=list)

    def plan(self, row: Assessment) -> None:
        """Plan the next job of an instance, or say why it has none now."""
        name, step, room = row.instance.name, row.next, self.situation.room
        most = self.situation.policy.repairs
        no_more = because(Kind.AT_ONCE, most=most) if self.moving >= most else None
        action = _job(row, room, self.stop, no_more)
        if isinstance(action, Reason):
            self.blocked[name] = action
            is_new = isinstance(step, Step) and not isinstance(row.state, Pending)
            self.counts[NEEDS if is_new else row.word] += 1
            return
        assert isinstance(step, Step | Mark)
        self.counts[row.word] += 1
        node = row.instance.primary
        if isinstance(action, Guarded):
            self.moving += 1
            room.plan(action, AUTOREPAIR)
            node = action.then.node
        if (stage := self.stages.get(node, FULL)) != FULL:
            why = because(StageKind.WOULD_MEND, name, repair=step.why, stage=stage, node=node)
            self.only_told.append(Held(why, node))
            return
        now = self.situation.now
        promised = _promised(self.ledger, room, OfRepair(step.repair), action, node, now)
        if promised is not self.ledger:  # else it is proposed again in the next round
            self.jobs.append((promised.intents[-1], step.why))
        self.ledger = promised


def _without_expired(ledger: Ledger, surveyed: Survey, now: Ms) -> Ledger:
    """Plan the removal of suspensions that are over."""
    if ledger.tags_after > now:
        return ledger
    planned = {intent.action for intent in ledger.intents}
    for retag in surveyed.expired:
        if retag not in planned:
            ledger = without_claim(ledger, OfTags(), retag, now)
    return ledger


def _waiting(surveyed: Survey, ledger: Ledger, blocked: Mapping[str, Reason]) -> list[Held]:
    """Tell the blocked repairs that somebody waits for.

    Repairs that nobody allowed are not maintd's, and one with a running job waits for nothing else:
    `explain` shows these.
    """
    moved = {instance_of(intent.action) for intent in ledger.intents if intent.purpose.repair}
    nodes = {
        row.instance.name: row.instance.primary
        for row in surveyed.rows
        if row.wanted and row.instance.name not in moved
    }
    return [
        Held(because(Kind.NOT_REPAIRED, name, why=why), nodes[name])
        for name, why in blocked.items()
        if name in nodes
    ]


def _turn(row: Assessment) -> tuple[int, str]:
    begun = row.state.record.at if isinstance(row.state, Pending) else 2**63
    return begun, row.instance.name


def _job(
    row: Assessment, room: Room, stop: Stop, no_more: Reason | None
) -> Guarded | Retag | Reason:
    """Return the next job of an instance, or why it has none now."""
    name, step = row.instance.name, row.next
    match step:
        case Mark():
            return step.swap
        case Step():
            why_not = _why_stopped(row.instance, step, room, stop) or no_more
            job = why_not or _placed(row.instance, step, room)
            if isinstance(job, Reason):
                return because(Kind.STEP_WAITS, name, step=step.why, why=job)
            return job
        case Wait(why) | Nothing(why):
            return because(Kind.BY_RULES, name, why=why)


def _why_stopped(instance: Instance, step: Step, room: Room, stop: Stop) -> Reason | None:
    if is_fenced(room.snapshot.nodes[instance.primary].tags):
        return because(FencingKind.KEEPS_INSTANCES, instance.primary)
    places = [instance.name, instance.primary]
    other = instance.secondary
    if other is not None and (other in room.busy or not targets.is_rescue(instance, step, room)):
        places.append(other)
    here = (stop.nodes[place] for place in places if place in stop.nodes)
    return stop.everywhere or next(here, None)


def _placed(instance: Instance, step: Step, room: Room) -> Guarded | Reason:
    """Return the step as a job, or its obstacle."""
    if instance.name in room.placed:
        return because(Kind.ON_THE_MOVE, instance.name)
    nodes = (
        () if targets.is_rescue(instance, step, room) else (instance.primary, instance.secondary)
    )
    for node in nodes:
        if node is not None and (why := room.why_claimed(node, AUTOREPAIR)):
            return why
    move = targets.move(instance, step, room)
    allowed = move if isinstance(move, Reason) else room.within_budgets(move)
    return allowed if isinstance(allowed, Reason) else Guarded(step.swap, allowed)


def _promised(
    ledger: Ledger, room: Room, purpose: OfRepair, action: Guarded | Retag, node: str, now: Ms
) -> Ledger:
    """Return the ledger with this job, unless its node belongs to other work in this round."""
    if isinstance(action, Retag):
        return without_claim(ledger, purpose, action, now, node)
    is_rescue = room.snapshot.nodes[node].offline
    taken = room.take_offline_node(node, purpose) if is_rescue else room.take(node, purpose)
    return taken.promise(ledger, action, now) if isinstance(taken, Taken) else ledger
