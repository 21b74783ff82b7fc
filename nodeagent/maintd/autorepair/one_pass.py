"""One pass of auto-repair in the safe mode, without a daemon: read, decide, submit.

It is one round of a maintd that knows nothing but Ganeti: tags, jobs and instances. It waits for no
repair, and the next pass judges what this one began.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from nodeagent.autorepair.assess import Judge
from nodeagent.autorepair.steps import Nothing, Step
from nodeagent.cluster.backend import Answer, Cluster, NotTaken, Submission
from nodeagent.maintd.autorepair.jobs import in_tags, survey_of, why_withdrawn
from nodeagent.maintd.autorepair.plan import Repaired, repair
from nodeagent.maintd.planning.budgets import nodes_to_ask
from nodeagent.maintd.planning.holds import paused, tagged
from nodeagent.maintd.planning.preconditions import at_work_on, is_as_it_was, others_job
from nodeagent.maintd.planning.resources import open_room
from nodeagent.maintd.planning.situation import Situation, Stops
from nodeagent.model.action import (
    Drain,
    MovePrimary,
    MoveSecondary,
    Scope,
    SetOffline,
    describe,
    move_of,
)
from nodeagent.model.diagnosis import Diagnosis, Need
from nodeagent.model.incident import FAILED_TAG, MARK_TAG, READY_TAG
from nodeagent.model.ledger import STORM_TAG, Intent, Ledger, Outcome, Policy, Trail
from nodeagent.model.purpose import OfTags, parse
from nodeagent.model.reason import Kind, Reason, because
from nodeagent.model.snapshot import Instance, Observed, Snapshot
from nodeagent.model.stage import FULL
from nodeagent.model.units import Ms

SAFE = Policy(autorepair="safe", stage=FULL)
_WELL = Diagnosis(Need.OK, None, "")
_NO_NODES: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Seen:
    """Knowledge of Ganeti alone: our jobs as a ledger, and the cluster as a round observes it."""

    ledger: Ledger
    observed: Observed


@dataclass(frozen=True, slots=True)
class Pass:
    """The plan of one pass, and Ganeti's answers by intent: none in a dry run.

    `withdrawn` are the jobs to cancel, each with its instance, why, and whether that was in time
    (None: not tried).
    """

    plan: Repaired
    answers: Mapping[str, Answer]
    withdrawn: Sequence[tuple[str, str, str, bool | None]] = ()

    @property
    def expired(self) -> Iterator[Intent]:
        """Yield the removals of suspensions that are over."""
        jobs = self.plan.ledger.intents
        return (job for job in jobs if job.job is None and isinstance(job.purpose, OfTags))

    @property
    def trouble(self) -> Iterator[tuple[str, str]]:
        """Yield the instances with tags that only a person can understand, with the reason."""
        for row in self.plan.survey.rows:
            if isinstance(row.next, Nothing) and row.next.trouble:
                yield row.instance.name, row.next.why


def observe(cluster: Cluster, now: Callable[[], Ms]) -> Seen:
    """Observe everything. It reads the queue only if there is something to repair or judge.

    It reads jobs first: the snapshot then shows the effect of each job that has ended. The other
    way round a job that ends in between would be repeated.
    """
    snapshot = cluster.snapshot()
    if not Judge(snapshot, {}, {}, now()).survey().rows:
        return Seen(Ledger(), Observed(snapshot, {}))
    trails = cluster.trails()
    ledger = _as_ledger(trails, now())
    # Ours as well: only the old jobs know an instance's name before it was renamed.
    asked = sorted(in_tags(snapshot))
    results = cluster.results([str(job) for job in asked]) if asked else {}
    busy = cluster.busy()
    snapshot = cluster.snapshot()
    serving = {name: _WELL for name, node in snapshot.nodes.items() if not node.offline}
    by_job = {trail.job: trail.result for trail in trails}
    running = {intent.id: by_job[intent.job] for intent in ledger.intents if intent.job}
    return Seen(ledger, Observed(snapshot, serving, results=running, jobs=results, busy=busy))


def _as_ledger(trails: Sequence[Trail], now: Ms) -> Ledger:
    """Return the jobs of repairs that ran, and all that still run as intents.

    An end in the future becomes 0: the clock was put back since it was written. How long ago is
    unknown, so no wait counts from it: else a day's error of the clock would make every wait a day
    longer.
    """
    ran, intents = [], []
    for trail in trails:
        purpose, number = parse(trail.reason)
        running = trail.result.outcome is Outcome.RUNNING
        if running and trail.action is not None and number is not None:
            node = getattr(move_of(trail.action) or trail.action, "node", "")
            intents.append(
                Intent(str(number), purpose, node, trail.action, trail.job, promised=trail.at)
            )
        elif purpose.repair:
            ran.append(trail if trail.ended <= now else replace(trail, ended=Ms(0)))
    return Ledger(ran=tuple(ran), intents=tuple(intents))


def one_pass(
    cluster: Cluster,
    now: Callable[[], Ms],
    *,
    dry: bool,
    taken: Mapping[str, str] = _NO_NODES,
    ours: Mapping[str, str] = _NO_NODES,
    most: int = SAFE.repairs,
) -> Pass:
    """Repair whatever can be repaired now. Unavailable: the rest was not submitted.

    `taken` are the nodes, by name with the reason, that others work on; `ours` are those that
    maintd itself took out of service, for an incident that has ended. At most `most` instances are
    under repair at once, earlier repairs included.
    """
    seen = observe(cluster, now)
    withdrawn = [
        (job, name, why, None if dry else cluster.cancel(job)) for job, name, why in _late(seen)
    ]
    theirs = {name: because(Kind.TAKEN, name, why=why) for name, why in taken.items()}
    stops = _stops(seen)
    stops = replace(stops, pauses={**stops.pauses, **theirs})
    repaired = _planned(cluster, seen, replace(SAFE, repairs=most), now(), stops, ours)
    fresh = [intent for intent in repaired.ledger.intents if intent.job is None]
    answers: dict[str, Answer] = {}
    together = max(1, cluster.at_once)
    for start in range(0, 0 if dry else len(fresh), together):
        answers |= _submit(cluster, fresh[start : start + together], seen.observed.snapshot)
    return Pass(repaired, answers, withdrawn)


def _late(seen: Seen) -> Iterator[tuple[str, str, str]]:
    """Reinstallations that have not visibly started and are no longer needed: job, name, why."""
    for intent in seen.ledger.intents:
        move = move_of(intent.action)
        why = why_withdrawn(move, seen.observed.snapshot) if intent.purpose.repair else ""
        if move is not None and intent.job is not None and why:
            yield intent.job, move.instance, why


def _planned(
    cluster: Cluster,
    seen: Seen,
    policy: Policy,
    now: Ms,
    stops: Stops,
    ours: Mapping[str, str] = _NO_NODES,
) -> Repaired:
    """Plan as maintd does; nodes report their free room if an instance is to move."""
    ledger, observed = seen.ledger, seen.observed
    surveyed = survey_of(ledger, observed, policy, now, ours)
    if surveyed.wants_room:
        serving = [name for name, node in observed.snapshot.nodes.items() if node.in_service]
        observed = replace(observed, capacity=cluster.capacity(serving))
        if hosts := nodes_to_ask(observed):
            observed = replace(observed, running=cluster.running(hosts))
    room = open_room(ledger, observed, stops.pauses)
    situation = Situation(observed, policy, now, room, stops, owners={})
    return repair(ledger, situation, {}, surveyed)


def _submit(cluster: Cluster, fresh: Sequence[Intent], before: Snapshot) -> dict[str, Answer]:
    """Submit these, except for instances that have changed since the decision."""
    answers: dict[str, Answer] = {}
    moves = {intent.id: move for intent in fresh if (move := move_of(intent.action))}
    if moves:
        busy, now = cluster.busy(), cluster.snapshot()
        for identity, move in moves.items():
            if not is_as_it_was(move, before, now):
                answers[identity] = NotTaken("the instance or a node of it has changed meanwhile")
            elif why := at_work_on(now.instances[move.instance], busy):
                answers[identity] = NotTaken(str(why))
    good = [intent for intent in fresh if intent.id not in answers]
    batch = [Submission(intent.action, intent.reason) for intent in good]
    taken = cluster.submit(batch) if batch else ()
    return answers | {i.id: answer for i, answer in zip(good, taken, strict=True)}


def why_held(cluster: Cluster, seen: Seen, name: str, mode: str, now: Ms) -> list[Reason]:
    """Why a pass, with its usual limit, would not make an instance's next step now.

    If it has one, the nodes report their free room.
    """
    policy = replace(SAFE, autorepair=mode)
    rows = survey_of(seen.ledger, seen.observed, policy, now).rows
    if not any(row.instance.name == name and isinstance(row.next, Step) for row in rows):
        return []
    why = _planned(cluster, seen, policy, now, _stops(seen)).blocked.get(name)
    return [] if why is None else [because(Kind.NOT_REPAIRED, name, why=why)]


def why_stopped(seen: Seen, instance: Instance) -> list[Reason]:
    """Why no work starts on an instance, as far as Ganeti knows."""
    stops = _stops(seen)
    places = (instance.name, instance.primary, instance.secondary or "")
    here = [stops.pauses[name] for name in places if name in stops.pauses]
    whys = here if stops.storm is None else [stops.storm, *here]
    return list({str(why): why for why in whys}.values())


def _stops(seen: Seen) -> Stops:
    """Say why no work may start: at an instance or a node, by name, or at all.

    The reasons are others' jobs, tags that maintd or a person has set, and jobs of incidents, which
    continue even if maintd itself has stopped.
    """
    snapshot = seen.observed.snapshot
    pauses = {name: others_job(job) for name, job in seen.observed.busy.items()}
    pauses |= paused(Ledger(), snapshot)
    for name, node in snapshot.nodes.items():
        over = {t.replace(READY_TAG, MARK_TAG) for t in node.tags if t.startswith(READY_TAG)}
        for tag in sorted(node.tags - over):
            if tag.startswith((MARK_TAG, FAILED_TAG)):
                pauses[name] = tagged(Scope.NODE, name, tag)
    for intent in seen.ledger.intents:
        works = isinstance(intent.action, Drain | SetOffline | MovePrimary | MoveSecondary)
        if works and not intent.purpose.repair:
            what = describe(intent.action)
            pauses[intent.node] = because(Kind.OUR_JOB, intent.node, job=intent.job, what=what)
    tripped = STORM_TAG in snapshot.tags
    return Stops(pauses, storm=tagged(Scope.CLUSTER, "", STORM_TAG) if tripped else None)
