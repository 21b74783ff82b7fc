"""Changes of a round as events, for the event log and an incident's timeline. Pure."""

from collections.abc import Iterable, Iterator

from nodeagent.maintd.ledger.domain_events import entries, offers, returns, rolls, series
from nodeagent.maintd.ledger.fencing_events import braked, fencings
from nodeagent.maintd.ledger.request_events import answered, holds, of_owner, wishes
from nodeagent.model.diagnosis import Diagnosis
from nodeagent.model.event import Event, happened
from nodeagent.model.incident import UNKNOWN, Incident, Status
from nodeagent.model.ledger import Decision, Intent, Ledger, Outcome
from nodeagent.model.snapshot import Observed
from nodeagent.model.units import Ms
from nodeagent.model.wish import Wish


def tell(
    before: Ledger,
    after: Ledger,
    decision: Decision,
    last: Decision | None,
    now: Ms,
    observed: Observed | None = None,
) -> tuple[Event, ...]:
    """Return the events of a round, in the order in which it was decided.

    `last` is the decision of the previous round, None in the first: a block with the same reason is
    not shown again. Without `observed` there are fewer details of how jobs ended.
    """
    return (
        *_jobs(before, after, observed, now),
        *_forgotten(before, after, observed, now),
        *_incidents(before, after, now),
        *wishes(before, decision, observed, now),
        *holds(before, after, now),
        *_storm(before, after, now),
        *_halts(before, after, now),
        *entries(before, after, now),
        *offers(before, after, observed, now),
        *series(before, after, now),
        *rolls(before, after, now),
        *returns(before, after, observed, now),
        *fencings(before, after, observed, now),
        *braked(decision, last, now),
        *_promises(before, after, now),
        *_held(decision, last, now),
    )


def refuse(wishes: Iterable[Wish], why: str, now: Ms) -> tuple[Event, ...]:
    return tuple(answered(wish, why, now) for wish in wishes if not of_owner(wish))


def _jobs(before: Ledger, after: Ledger, observed: Observed | None, now: Ms) -> Iterator[Event]:
    known = {incident.id: frozenset(incident.jobs) for incident in before.incidents}
    kept = {intent.id for intent in after.intents}
    noted = {(incident.id, job) for incident in after.incidents for job in incident.jobs}
    for intent in before.intents:
        # An incident has a job among its jobs from the round after the submission on.
        new = (intent.incident, intent.job) in noted
        if intent.job is not None and new and intent.job not in known.get(intent.incident, ()):
            yield _of(intent, now, "submitted")
        if intent.id not in kept:
            yield _ended(intent, observed, now)


def _of(intent: Intent, now: Ms, kind: str, **details: str) -> Event:
    event = happened(now, kind, intent.incident, intent.node, intent.job or "", **details)
    return event.about(intent.action)


def _ended(intent: Intent, observed: Observed | None, now: Ms) -> Event:
    if observed is not None and intent.id in observed.absent:
        return _of(intent, now, "dropped", why=observed.absent[intent.id])
    result = None if observed is None else observed.results.get(intent.id)
    why = result.why if result else ""
    match result.outcome if result else None:
        case Outcome.SUCCESS:
            return _of(intent, now, "job-done")
        case Outcome.ERROR:
            return _of(intent, now, "job-failed", why=why)
        case Outcome.LATER:
            return _of(intent, now, "job-later", why=why, asks="" if why else "again")
        case Outcome.LOST:
            return _of(intent, now, "job-lost")
        case _ if intent.job is None and intent.after is not None:
            return _of(intent, now, "dropped", after=intent.after)
        case _:
            return _of(intent, now, "dropped", unawaited="yes")


def _forgotten(
    before: Ledger, after: Ledger, observed: Observed | None, now: Ms
) -> Iterator[Event]:
    kept = {incident.id for incident in after.incidents}
    nodes = None if observed is None else observed.snapshot.by_uuid
    for incident in before.incidents:
        if incident.id not in kept:
            node_exists = nodes is None or incident.node in nodes
            diagnosis = None if observed is None else observed.diagnoses.get(incident.name)
            why = _why_forgotten(incident, diagnosis) if node_exists else {"left": incident.node}
            yield happened(now, "forgotten", incident.id, incident.name, **why)


def _why_forgotten(incident: Incident, diagnosis: Diagnosis | None) -> dict[str, str]:
    match incident.status:
        case Status.FAILED:
            return {"tag": incident.tag}
        case Status.COMPLETED:
            return {"tag": incident.tag, "well": "yes"}
        case Status.CANCELED if diagnosis == incident.diagnosis:
            return {"tag": incident.tag}
        case _:
            return {"unseen": "yes"}


def _incidents(before: Ledger, after: Ledger, now: Ms) -> Iterator[Event]:
    known = {incident.id: incident for incident in before.incidents}
    for incident in after.incidents:
        old, about = known.get(incident.id), (incident.id, incident.name)
        rebuilt = incident.diagnosis == UNKNOWN
        if old is None and rebuilt:
            yield happened(now, "recovered", *about, status=incident.status.value)
            continue
        if old is None or (old.diagnosis == UNKNOWN and not rebuilt):
            kind, diagnosis = "known-again" if old else "noted", incident.diagnosis
            yield happened(now, kind, *about, need=diagnosis.need.wire, said=diagnosis.text)
        if incident.status is not (old.status if old else Status.NOTED):
            kind, details = _became(incident)
            yield happened(now, kind, *about, **details)


def _became(incident: Incident) -> tuple[str, dict[str, str]]:
    why = {"why": incident.why} if incident.why else {}
    match incident.status:
        case Status.PENDING:
            return "begun", {"need": incident.diagnosis.need.wire}
        case Status.COMPLETED:
            return "completed", why or {"tag": incident.tag}
        case Status.CANCELED if incident.heir:
            return "superseded", {"heir": incident.heir}
        case status:
            return status.value, why or {"status": status.value}


def _storm(before: Ledger, after: Ledger, now: Ms) -> Iterator[Event]:
    if after.storm is not None and after.storm != before.storm:
        yield happened(now, "storm-tripped", why=after.storm.why)
    if after.storm is None and before.storm is not None:
        yield happened(now, "storm-reset", why=before.storm.why)


def _halts(before: Ledger, after: Ledger, now: Ms) -> Iterator[Event]:
    old, new = {halt.job for halt in before.halts}, {halt.job for halt in after.halts}
    for halt in after.halts:
        if halt.job not in old:
            job = halt.job if halt.job.isdecimal() else ""
            yield happened(now, "halted", job=job, why=halt.why)
    for halt in before.halts:
        if halt.job not in new:
            yield happened(now, "released", tag=halt.tag)


def _promises(before: Ledger, after: Ledger, now: Ms) -> Iterator[Event]:
    known = {intent.id for intent in before.intents}
    for intent in after.intents:
        if intent.id not in known:
            yield _of(intent, now, "promised")


def _held(decision: Decision, last: Decision | None, now: Ms) -> Iterator[Event]:
    reported = {held.key for held in last.held} if last else set()
    for held in decision.held:
        if held.key not in reported:
            reported.add(held.key)
            kinds = tuple(sorted(kind.word for kind in held.why.kinds))
            yield happened(now, "held", held.incident, held.node, why=held.reason, kinds=kinds)
