"""What a round has changed, in words for the event log and an incident's timeline. Pure.

| kind            | means                                                                     |
|-----------------|---------------------------------------------------------------------------|
| `noted`         | a diagnosis has become an incident                                        |
| `recovered`     | an incident was rebuilt from what Ganeti knows of it                      |
| `known-again`   | its node says again what a rebuilt incident is about                      |
| `begun`         | the incident is pending: work on it goes on                               |
| `promised`      | an action was decided and is on disk                                      |
| `submitted`     | a promised action has become a job (of the cluster, or an agent's order)  |
| `job-done`      | a job has succeeded                                                       |
| `job-failed`    | a job has failed, and why                                                 |
| `job-later`     | a job did nothing and is to be tried again                                |
| `job-lost`      | a job cannot be found any more and is not waited for                      |
| `dropped`       | a promise is void, and why                                                |
| `completed`     | the incident's repair is over and its ready tag set                       |
| `failed`        | the incident has failed, and why                                          |
| `canceled`      | nothing more is done for the incident, and why                            |
| `superseded`    | another incident of the node goes on in its stead                         |
| `forgotten`     | the incident is over and no longer remembered, and why                    |
| `paused`        | a hold was laid on the cluster, a group, a node or an incident            |
| `resumed`       | a hold was taken back                                                     |
| `halted`        | a failed job ends the balancing of a group, and which                     |
| `released`      | that was acknowledged: its tag was removed                                |
| `storm-tripped` | the storm brake has tripped, and why                                      |
| `storm-reset`   | the storm brake was reset                                                 |
| `wish-granted`  | what an administrator asked for was granted                               |
| `wish-refused`  | what an administrator asked for was refused, and why                      |
| `occurrence-planned` | a time of a weekly series has become a window                       |
| `occurrence-over` | it is over, or was canceled                                            |
| `entry-queued`  | an entry of the repair queue was added                                    |
| `entry-processing` | its repair has begun, or its success command runs                      |
| `entry-put-off` | its node could not be emptied now, and why                                |
| `entry-succeeded` | its machine is healthy                                                  |
| `entry-failed`  | it was not repaired, and why                                              |
| `entry-deleted` | it is over and no longer remembered                                       |
| `offered`       | an owner is asked to give up what it has on a node                        |
| `accepted`      | an owner is content that its instances leave the node                     |
| `declined`      | an owner is not, and why                                                  |
| `rescinded`     | an owner need not answer any more                                         |
| `held`          | something is wanted and not done, for a reason it was not held for before |
"""

import re
from collections.abc import Iterable, Iterator

from nodeagent.maintd.asked import Line, answered, holds, wishes
from nodeagent.maintd.incidents.lifecycle import by_uuid
from nodeagent.maintd.ledger.domain_events import entries, offers, series
from nodeagent.model.action import describe
from nodeagent.model.diagnosis import Diagnosis
from nodeagent.model.event import Event
from nodeagent.model.incident import UNKNOWN, Incident, Status
from nodeagent.model.ledger import Decision, Held, Intent, Ledger, Outcome
from nodeagent.model.snapshot import Observed
from nodeagent.model.wish import Wish

__all__ = ["Event", "tell"]

MOST = 1000  # characters of one event's text; a job's log and a diagnosis may be a book


def tell(
    before: Ledger,
    after: Ledger,
    decision: Decision,
    last: Decision | None,
    now: int,
    observed: Observed | None = None,
) -> tuple[Event, ...]:
    """What there is to tell of a round, in the order in which it was decided.

    `last` is the decision of the round before, None in the first: what was held then for the
    same reason is not told again. Without `observed` less is known of how jobs ended.
    """
    return tuple(
        _event(now, line)
        for line in (
            *_jobs(before, after, observed),
            *_forgotten(before, after, observed),
            *_incidents(before, after),
            *wishes(decision, observed),
            *holds(before, after),
            *_storm(before, after),
            *_halts(before, after),
            *entries(before, after),
            *offers(before, after, observed),
            *series(before, after),
            *_promises(before, after),
            *_held(decision, last),
        )
    )


def refuse(wishes: Iterable[Wish], why: str, now: int) -> tuple[Event, ...]:
    """What there is to tell of wishes that no round is asked to grant."""
    return tuple(_event(now, answered(wish, why)) for wish in wishes)


def _event(now: int, line: Line) -> Event:
    kind, incident, node, text, job = line
    return Event(now, kind, incident, node, text if len(text) <= MOST else text[:MOST] + "…", job)


def _jobs(before: Ledger, after: Ledger, observed: Observed | None) -> Iterator[Line]:
    known = {incident.id: frozenset(incident.jobs) for incident in before.incidents}
    kept = {intent.id for intent in after.intents}
    noted = {(incident.id, job) for incident in after.incidents for job in incident.jobs}
    for intent in before.intents:
        # The round after its submission is the first in which an incident has it among its jobs.
        new = (intent.incident, intent.job) in noted
        if intent.job is not None and new and intent.job not in known.get(intent.incident, ()):
            yield _of(intent, "submitted", describe(intent.action))
        if intent.id not in kept:
            yield _of(intent, *_how_it_ended(intent, observed))


def _of(intent: Intent, kind: str, text: str) -> Line:
    return kind, intent.incident, intent.node, text, intent.job or ""


def _how_it_ended(intent: Intent, observed: Observed | None) -> tuple[str, str]:
    what = describe(intent.action)
    if observed is not None and intent.id in observed.absent:
        return "dropped", f"{what}: {observed.absent[intent.id]}"
    result = None if observed is None else observed.results.get(intent.id)
    match result.outcome if result else None:
        case Outcome.SUCCESS:
            return "job-done", what
        case Outcome.ERROR:
            return "job-failed", f"{what}: {result.why}" if result else what
        case Outcome.LATER:
            why = (result.why if result else "") or "it asks to be tried again later"
            return "job-later", f"{what}: {why}"
        case Outcome.LOST:
            return "job-lost", f"{what}: the job cannot be found any more"
        case _ if intent.job is None and intent.after is not None:
            return "dropped", f"{what}: what it was to follow did not succeed"
        case _:
            return "dropped", f"{what}: it is not waited for any more"


def _forgotten(before: Ledger, after: Ledger, observed: Observed | None) -> Iterator[Line]:
    kept = {incident.id for incident in after.incidents}
    nodes = None if observed is None else by_uuid(observed)
    for incident in before.incidents:
        if incident.id not in kept:
            there = nodes is None or incident.node in nodes
            said = None if observed is None else observed.diagnoses.get(incident.name)
            why = _why_forgotten(incident, said) if there else "its node has left the cluster"
            yield "forgotten", incident.id, incident.name, why, ""


def _why_forgotten(incident: Incident, said: Diagnosis | None) -> str:
    match incident.status:
        case Status.FAILED:
            return f"{incident.tag} was removed"
        case Status.COMPLETED:
            return f"{incident.tag} was removed, and it is no longer observed"
        case Status.CANCELED if said == incident.diagnosis:
            return f"{incident.tag} was removed"
        case _:
            return "it is no longer observed"


def _incidents(before: Ledger, after: Ledger) -> Iterator[Line]:
    known = {incident.id: incident for incident in before.incidents}
    for incident in after.incidents:
        old = known.get(incident.id)
        rebuilt = incident.diagnosis == UNKNOWN
        if old is None and rebuilt:
            text = f"rebuilt from Ganeti: it is {incident.status.value}"
            yield "recovered", incident.id, incident.name, text, ""
            continue
        if old is None or (old.diagnosis == UNKNOWN and not rebuilt):
            kind = "known-again" if old else "noted"
            text = f"{incident.diagnosis.need.wire}: {incident.diagnosis.text}"
            yield kind, incident.id, incident.name, text, ""
        if incident.status is not (old.status if old else Status.NOTED):
            kind, text = _became(incident)
            yield kind, incident.id, incident.name, text, ""


def _became(incident: Incident) -> tuple[str, str]:
    match incident.status:
        case Status.PENDING:
            return "begun", incident.diagnosis.need.wire
        case Status.COMPLETED:
            return "completed", incident.why or f"{incident.tag} is set"
        case Status.CANCELED if incident.why.startswith("superseded"):
            return "superseded", incident.why
        case status:
            return status.value, incident.why or f"it is {status.value}"


def _storm(before: Ledger, after: Ledger) -> Iterator[Line]:
    if after.storm is not None and after.storm != before.storm:
        yield "storm-tripped", "", "", after.storm.why, ""
    if after.storm is None and before.storm is not None:
        yield "storm-reset", "", "", f"it had tripped: {before.storm.why}", ""


def _halts(before: Ledger, after: Ledger) -> Iterator[Line]:
    old, new = {halt.job for halt in before.halts}, {halt.job for halt in after.halts}
    for halt in after.halts:
        if halt.job not in old:
            job = halt.job if halt.job.isdecimal() else ""
            yield "halted", "", "", f"balancing: {halt.why}", job
    for halt in before.halts:
        if halt.job not in new:
            yield "released", "", "", f"balancing: {halt.tag} was removed", ""


def _promises(before: Ledger, after: Ledger) -> Iterator[Line]:
    known = {intent.id for intent in before.intents}
    for intent in after.intents:
        if intent.id not in known:
            yield _of(intent, "promised", describe(intent.action))


_AMOUNT = re.compile(r"\d+(\.\d+)? (s|min|MiB|moves|machines|reports|entries)\b|\b\d+\.\d{8}\b")


def _held(decision: Decision, last: Decision | None) -> Iterator[Line]:
    told = {_without_amounts(held) for held in last.held} if last else set()
    for held in decision.held:
        key = _without_amounts(held)
        if key not in told:
            told.add(key)
            yield "held", held.incident, held.node, held.reason, ""


def _without_amounts(held: Held) -> tuple[str, str, str]:
    """What tells one hold from another: seconds that pass, or another score, are none."""
    return held.node, held.incident, _AMOUNT.sub("…", held.reason)
