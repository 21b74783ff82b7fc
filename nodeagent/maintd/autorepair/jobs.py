"""Jobs of auto-repairs, remembered for as long as their tags are there. Pure.

The tags describe a repair, and name the jobs that had ended when they were set. Only the ledger
and the jobs' reason trails know the running job and the last one.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from nodeagent.autorepair.assess import Judge, Survey
from nodeagent.autorepair.jobs import instance_of
from nodeagent.autorepair.rules import rules_of
from nodeagent.autorepair.steps import Wait
from nodeagent.autorepair.tags import Record, read, telling
from nodeagent.maintd.outage.waiting import unlicensed
from nodeagent.maintd.planning.admission import keeps
from nodeagent.maintd.planning.effects import is_seen
from nodeagent.maintd.planning.outcomes import BACK_OFF, TAG_SHOWS, end_of
from nodeagent.maintd.planning.resources import Room
from nodeagent.maintd.planning.tag_settings import with_tags
from nodeagent.maintd.planning.times import rfc3339
from nodeagent.model.action import Drain, Guarded, Move, Reinstall, SetOffline
from nodeagent.model.ledger import Intent, Ledger, Outcome, Policy, Result, Trail
from nodeagent.model.reason import Kind, Reason, because
from nodeagent.model.snapshot import Observed, Snapshot
from nodeagent.model.units import Ms

_DAY = 86_400_000
_RUNNING = Result(Outcome.RUNNING)
_FAILED = (Outcome.ERROR, Outcome.LATER)


def recalled(
    ledger: Ledger, trails: Sequence[Trail], snapshot: Snapshot, now: Ms
) -> tuple[Trail, ...]:
    """Repairs' jobs in the ledger, and those that only the job queue knows.

    Running ones become intents.
    """
    ours = {r.reason for r in ledger.ran} | {intent.reason for intent in ledger.intents}
    ids = {record.id for record in pending(snapshot)}
    over = (trail for trail in trails if trail.result.outcome is not Outcome.RUNNING)
    more = [t for t in _that_matter(list(over), ids, now) if t.reason not in ours]
    return tuple(sorted((*ledger.ran, *more), key=lambda trail: int(trail.job)))


def remember(ledger: Ledger, observed: Observed, now: Ms) -> Ledger:
    """Move repairs' jobs that have ended from the intents to the jobs that ran.

    A successful job counts once its effect is visible, as with incidents. maintd plans a job that
    was not submitted again after a while. It drops jobs that no longer matter.
    """
    if not (ledger.ran or any(intent.purpose.repair for intent in ledger.intents)):
        return ledger
    ended = [t for i in ledger.intents if i.purpose.repair and (t := _ended(i, observed, now))]
    over = {trail.job for trail in ended}
    refused = any(i.purpose.repair and i.id in observed.absent for i in ledger.intents)
    ids = {record.id for record in pending(observed.snapshot)}
    kept = _that_matter((*ledger.ran, *ended), ids, now)
    return replace(
        ledger,
        intents=tuple(i for i in ledger.intents if not (i.purpose.repair and i.job in over)),
        repairs_after=now + BACK_OFF if refused else ledger.repairs_after,
        ran=tuple(kept),
    )


def _that_matter(trails: Sequence[Trail], ids: Collection[str], now: Ms) -> list[Trail]:
    """Jobs of repairs that continue, that have just ended, or that failed within a day.

    A repair that failed before it could set its tag would be submitted again at once, for ever;
    only its job shows that it failed.
    """
    alive = {
        trail.purpose.repair
        for trail in trails
        if trail.purpose.repair in ids
        or now - trail.ended < (_DAY if trail.result.outcome in _FAILED else TAG_SHOWS)
    }
    return [trail for trail in trails if trail.purpose.repair and trail.purpose.repair in alive]


def _ended(intent: Intent, observed: Observed, now: Ms) -> Trail | None:
    result = end_of(intent, observed, now, shows=is_seen(intent.action, observed.snapshot))
    if result is None or intent.job is None:
        return None
    return Trail(intent.job, intent.reason, intent.action, result, intent.promised, now)


def under_way(ledger: Ledger, observed: Observed) -> int:
    """Count unfinished repairs: our jobs, planned ones too, and harep's, which only tags name."""
    ours = [intent for intent in ledger.intents if isinstance(intent.action, Guarded)]
    known_jobs = {intent.job for intent in ours}
    running = (j for j, result in observed.jobs.items() if result.outcome is Outcome.RUNNING)
    return len(ours) + sum(job not in known_jobs for job in running)


def judge_of(ledger: Ledger, observed: Observed, mode: str, now: Ms) -> Judge:
    """Judge instances by the rules of a mode, with all recorded and observed jobs of repairs.

    Intents with a job count as running.
    """
    results = {i: r for i, r in observed.results.items() if r.outcome is Outcome.RUNNING}
    running = [
        Trail(i.job, i.reason, i.action, results.get(i.id, _RUNNING), i.promised)
        for i in ledger.intents
        if i.purpose.repair and i.job is not None
    ]
    jobs: dict[str, list[Trail]] = {}
    for job in (*ledger.ran, *running):
        if job.purpose.repair and job.job.isdecimal():
            jobs.setdefault(instance_of(job.action), []).append(job)
    return Judge(observed.snapshot, jobs, observed.jobs, now, rules_of(mode))


def survey_of(
    ledger: Ledger,
    observed: Observed,
    policy: Policy,
    now: Ms,
    ours: Mapping[str, str] = MappingProxyType({}),
) -> Survey:
    """Survey every instance.

    Nodes that maintd itself took out of service do not permit repairs: those that the ledger knows,
    and `ours`, by name with the reason.
    """
    judge = judge_of(ledger, observed, policy.autorepair, now)
    surveyed = judge.survey({**unlicensed(ledger, observed.snapshot), **ours})
    unsure = {
        instance_of(intent.action)
        for intent in ledger.intents
        if intent.purpose.repair and intent.job is None
    }
    if not unsure:
        return surveyed
    wait = Wait("it is unknown yet whether a job for it was submitted")
    rows = [replace(r, next=wait) if r.instance.name in unsure else r for r in surveyed.rows]
    return replace(surveyed, rows=rows)


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


def keep_off(ledger: Ledger, observed: Observed, room: Room) -> None:
    """Keep auto-repair off the nodes that incidents work on, or that a person must check."""
    nodes = observed.snapshot.by_uuid
    for incident in ledger.incidents:
        node = nodes.get(incident.node)
        if node is not None and keeps(incident, node, observed):
            room.claim(node.name, incident.id)
    for intent in ledger.intents:
        if isinstance(intent.action, Drain | SetOffline):
            name = intent.action.node
            room.forbid_starts(name, because(Kind.OUT_OF_SERVICE, name, state="being drained"))


def why_withdrawn(move: Move | None, snapshot: Snapshot) -> str:
    """Why this job is obsolete; empty if it is not, or if new disks are there already."""
    if not isinstance(move, Reinstall):
        return ""
    instance = snapshot.instances.get(move.instance)
    if instance is None or instance.primary != move.node:
        return ""
    for place in (instance.primary, instance.secondary):
        if place is not None and not snapshot.nodes[place].offline:
            return f"node {place}, which has the data of {move.instance}, is no longer offline"
    return ""


def why_paused(until: Ms | None, now: Ms) -> Reason | None:
    """Why no instances are repaired while Ganeti's watcher is paused `until` (unix ms)."""
    if until is None:
        return because(Kind.WATCHER_UNKNOWN)
    return because(Kind.WATCHER_PAUSED, until=rfc3339(until)) if until > now else None


def wants_room(ledger: Ledger, observed: Observed, policy: Policy, now: Ms) -> bool:
    """Check whether an instance has to move: only then nodes report their free room."""
    policy = with_tags(policy, observed.snapshot)
    if policy.autorepair == "off":
        return False
    return survey_of(remember(ledger, observed, now), observed, policy, now).wants_room
