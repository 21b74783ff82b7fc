"""One pass of auto-repair in the safe mode, without a daemon: read, decide, submit.

It does not wait for repairs: the next pass judges their results by tags, jobs and instances. It
remembers nothing between passes.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from nodeagent.autorepair.jobs import Ran
from nodeagent.autorepair.rules import SAFE, Rules
from nodeagent.autorepair.steps import Nothing, Step
from nodeagent.cluster.backend import Answer, Cluster, NotTaken, Submission
from nodeagent.maintd.autorepair.survey import (
    Plan,
    Proposed,
    Survey,
    in_tags,
    jobs_of,
    place,
    survey,
)
from nodeagent.maintd.autorepair.withdraw_rule import why_withdrawn
from nodeagent.maintd.planning.holds import paused, tagged
from nodeagent.maintd.planning.preconditions import is_as_it_was, others_job, why_busy
from nodeagent.maintd.planning.resources import Room, open_room
from nodeagent.model.action import (
    Action,
    Drain,
    Move,
    MovePrimary,
    MoveSecondary,
    Retag,
    Scope,
    SetOffline,
    describe,
    move_of,
)
from nodeagent.model.diagnosis import Diagnosis, Need
from nodeagent.model.incident import FAILED_TAGS
from nodeagent.model.ledger import STORM_TAG, Ledger, Outcome, Policy, Result, Trail
from nodeagent.model.purpose import AUTOREPAIR, OfRepair, OfTags, Purpose, reason
from nodeagent.model.reason import Kind, Reason, because
from nodeagent.model.snapshot import Capacity, Instance, Observed, Snapshot
from nodeagent.model.units import Ms

AT_MOST = Policy().repairs  # instances under repair at once, as in maintd
_WELL = Diagnosis(Need.OK, None, "")
_NO_NODES: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Seen:
    """The cluster, with the jobs of repairs by instance and the results of those in tags.

    `others` are the unfinished jobs of maintd's incidents; `busy` names all other jobs, by the name
    of the object that they use.
    """

    snapshot: Snapshot
    jobs: Mapping[str, Sequence[Ran]]
    results: Mapping[int, Result]
    others: Sequence[Trail] = ()
    busy: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Pass:
    """The plan of one pass, and Ganeti's answers: None in a dry run.

    `withdrawn` are the jobs to cancel, why, and whether that was in time (None: not tried).
    `expired` are the suspensions to remove. `trouble` are the instances with tags that only a
    person can understand, with the reason.
    """

    plan: Plan
    repairs: Sequence[tuple[Proposed, Answer | None]]
    expired: Sequence[tuple[Retag, Answer | None]]
    trouble: Sequence[tuple[str, str]]
    withdrawn: Sequence[tuple[Ran, str, bool | None]] = ()


def observe(cluster: Cluster, now: Callable[[], Ms]) -> Seen:
    """Observe everything. It reads the queue only if there is something to repair or judge.

    It reads jobs first: the snapshot then shows the effect of each job that has ended. The other
    way round a job that ends in between would be repeated.
    """
    snapshot = cluster.snapshot()
    if not survey(snapshot, {}, {}, now()).rows:
        return Seen(snapshot, {}, {})
    trails = cluster.trails()
    jobs = jobs_of(_not_to_come(trails, now()))
    others = [t for t in trails if not t.purpose.repair and t.result.outcome is Outcome.RUNNING]
    # Ours as well: only the old jobs know an instance's name before it was renamed.
    asked = sorted(in_tags(snapshot))
    results = cluster.results([str(job) for job in asked]) if asked else {}
    found = {int(job): said for job, said in results.items()}
    busy = cluster.busy()
    return Seen(cluster.snapshot(), jobs, found, others, busy)


def _not_to_come(trails: Sequence[Trail], now: Ms) -> Iterator[Trail]:
    """Set an end in the future to 0: the clock was put back since it was written.

    How long ago is unknown, so no wait counts from it: else a day's error of the clock would make
    every wait a day longer.
    """
    for trail in trails:
        yield trail if trail.ended <= now else replace(trail, ended=Ms(0))


def one_pass(
    cluster: Cluster,
    now: Callable[[], Ms],
    *,
    dry: bool,
    taken: Mapping[str, str] = _NO_NODES,
    ours: Mapping[str, str] = _NO_NODES,
    most: int = AT_MOST,
) -> Pass:
    """Repair whatever can be repaired now. Unavailable: the rest was not submitted.

    `taken` are the nodes, by name with the reason, that others work on; `ours` are those that
    maintd itself took out of service, for an incident that has ended. At most `most` instances are
    under repair at once, earlier repairs included.
    """
    seen = observe(cluster, now)
    withdrawn = [
        (ran, why, None if dry else cluster.cancel(str(ran.job))) for ran, why in _late(seen)
    ]
    at = now()
    surveyed = survey(seen.snapshot, seen.jobs, seen.results, at, ours=ours)
    stopped = {**_stops(seen), **{n: because(Kind.TAKEN, n, why=why) for n, why in taken.items()}}
    plan = _plan(cluster, seen, surveyed, stopped, most)
    wanted: list[tuple[Action, Purpose]] = [
        (one.action, OfRepair(one.repair)) for one in plan.proposed
    ]
    wanted += [(retag, OfTags()) for retag in surveyed.expired]
    batch = [Submission(a, reason(why, str(at + n))) for n, (a, why) in enumerate(wanted)]
    answers: list[Answer | None] = [None] * len(batch) if dry else []
    together = max(1, cluster.at_once)
    for start in range(0, 0 if dry else len(batch), together):
        answers += _submit(cluster, batch[start : start + together], seen.snapshot)
    mine, others = answers[: len(plan.proposed)], answers[len(plan.proposed) :]
    return Pass(
        plan,
        list(zip(plan.proposed, mine, strict=True)),
        list(zip(surveyed.expired, others, strict=True)),
        _trouble(surveyed),
        withdrawn,
    )


def _late(seen: Seen) -> Iterator[tuple[Ran, str]]:
    """Reinstallations that have not visibly started and are no longer needed."""
    for ran in (ran for row in seen.jobs.values() for ran in row if ran.live):
        if why := why_withdrawn(ran.move, seen.snapshot):
            yield ran, why


def _plan(
    cluster: Cluster, seen: Seen, surveyed: Survey, stopped: Mapping[str, Reason], most: int
) -> Plan:
    room = _room(cluster, seen, surveyed, stopped)
    why = because(Kind.LATER_PASS, most=most)
    return place(surveyed, room, stopped, most - _under_way(seen), why)


def _under_way(seen: Seen) -> int:
    """The number of unfinished repair jobs, including those that harep started."""
    ours = {r.job for jobs in seen.jobs.values() for r in jobs if r.live and not r.only_tags}
    tagged = {job for job, said in seen.results.items() if said.outcome is Outcome.RUNNING}
    return len(ours | tagged)


def _submit(cluster: Cluster, batch: Sequence[Submission], before: Snapshot) -> Sequence[Answer]:
    """Submit these, except for instances that have changed since the decision."""
    if not any(move_of(one.action) for one in batch):
        return cluster.submit(batch)
    busy, now = cluster.busy(), cluster.snapshot()
    whys = [_why_not(move_of(one.action), before, now, busy) for one in batch]
    good = [one for one, why in zip(batch, whys, strict=True) if not why]
    answers = iter(cluster.submit(good) if good else ())
    return [NotTaken(why) if why else next(answers) for why in whys]


def _why_not(move: Move | None, before: Snapshot, now: Snapshot, busy: Mapping[str, str]) -> str:
    if move is None:
        return ""
    if not is_as_it_was(move, before, now):
        return "the instance or a node of it has changed meanwhile"
    return str(why_busy(move, now, busy) or "")


def _trouble(surveyed: Survey) -> list[tuple[str, str]]:
    return [
        (row.instance.name, row.next.why)
        for row in surveyed.rows
        if isinstance(row.next, Nothing) and row.next.trouble
    ]


def why_held(cluster: Cluster, seen: Seen, name: str, now: Ms, rules: Rules = SAFE) -> list[Reason]:
    """Why a pass, with its usual limit, would not make an instance's next step now.

    If it has one, the nodes report their free room.
    """
    surveyed = survey(seen.snapshot, seen.jobs, seen.results, now, rules)
    if not any(r.instance.name == name and isinstance(r.next, Step) for r in surveyed.rows):
        return []
    plan = _plan(cluster, seen, surveyed, _stops(seen), AT_MOST)
    whys = [why for held, why in plan.held if held == name]
    return [because(Kind.NOT_REPAIRED, name, why=why) for why in whys]


def why_stopped(seen: Seen, instance: Instance) -> list[Reason]:
    """Why no work starts on an instance, as far as Ganeti knows."""
    stopped = _stops(seen)
    places = ("", instance.name, instance.primary, instance.secondary)
    return list({str(stopped[name]): stopped[name] for name in places if name in stopped}.values())


def _stops(seen: Seen) -> dict[str, Reason]:
    """Reasons why no work may start, by name of an instance or a node; "" means every node."""
    theirs = {name: others_job(job) for name, job in seen.busy.items()}
    return {**theirs, **_stopped(seen.snapshot), **_worked_on(seen.others)}


def _stopped(snapshot: Snapshot) -> dict[str, Reason]:
    """Reasons why no work may start, from tags that maintd or a person has set."""
    found = paused(Ledger(), snapshot)
    for name, node in snapshot.nodes.items():
        over = {t.replace(_READY, _REPAIRING) for t in node.tags if t.startswith(_READY)}
        for tag in sorted(node.tags - over):
            if tag.startswith(_BUSY):
                found[name] = tagged(Scope.NODE, name, tag)
    if STORM_TAG in snapshot.tags:
        found[""] = tagged(Scope.CLUSTER, "", STORM_TAG)
    return found


_REPAIRING, _READY = "maintd:repairing:", "maintd:repairready:"
_BUSY = (_REPAIRING, FAILED_TAGS)


def _worked_on(others: Sequence[Trail]) -> dict[str, Reason]:
    """The nodes that incidents' jobs work on: these continue even if maintd itself has stopped."""
    found: dict[str, Reason] = {}
    for trail in others:
        match trail.action:
            case (
                (
                    Drain(node) | SetOffline(node) | MovePrimary(_, node) | MoveSecondary(_, node)
                ) as action
            ):
                found[node] = because(Kind.OUR_JOB, node, job=trail.job, what=describe(action))
    return found


def _room(cluster: Cluster, seen: Seen, surveyed: Survey, stopped: Mapping[str, Reason]) -> Room:
    """The Room with all other nodes in service; moving instances count at their targets."""
    nodes = seen.snapshot.nodes
    steps = any(isinstance(row.next, Step) for row in surveyed.rows)
    fit = [name for name, node in nodes.items() if node.in_service] if steps else []
    free: Mapping[str, Capacity] = cluster.capacity(fit) if fit else {}
    answering = {name: _WELL for name, node in nodes.items() if not node.offline}
    room = open_room(Ledger(), Observed(seen.snapshot, answering, capacity=free), stopped)
    for ran in (ran for row in seen.jobs.values() for ran in row):
        if ran.live and ran.action is not None:
            room.plan(ran.action, AUTOREPAIR)
    for trail in seen.others:
        if trail.action is not None:
            room.plan(trail.action, trail.reason)
    return room
