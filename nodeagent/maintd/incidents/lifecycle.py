"""Update the incidents by a round's observation. Pure."""

from collections.abc import Mapping
from dataclasses import replace

from nodeagent.maintd.incidents import restless
from nodeagent.maintd.planning.admission import well_since
from nodeagent.maintd.planning.intents import tags_removed, without_claim
from nodeagent.maintd.planning.outcomes import (
    BACK_OFF,
    TAG_SHOWS,
    TAGS_BACK_OFF,
    TRIES,
    how_ended,
    need_of,
)
from nodeagent.model.action import Drain, Retag, RunCommand, Scope, describe
from nodeagent.model.diagnosis import Diagnosis, Need
from nodeagent.model.incident import (
    CANCELED_TAG,
    SUPERSEDED,
    UNKNOWN,
    Incident,
    Status,
    StatusEvent,
    incident_id,
    is_same,
)
from nodeagent.model.ledger import HOLD_TAG, Hold, Intent, Ledger, Outcome, Policy, Result
from nodeagent.model.purpose import OfTags
from nodeagent.model.snapshot import Node, Observed
from nodeagent.model.units import Ms


def back_off(ledger: Ledger, observed: Observed, now: Ms) -> Ledger:
    """Delay tags that belong to no incident after a refusal, or they repeat for ever.

    A job that fails since somebody has set the same tags meanwhile is no refusal.
    """
    for intent in ledger.intents:
        result = how_ended(intent, observed, now)
        refused = result is not None and result.outcome in (Outcome.ERROR, Outcome.LATER)
        serves_none = isinstance(intent.purpose, OfTags)
        if serves_none and (refused or intent.id in observed.absent):
            return replace(ledger, tags_after=now + TAGS_BACK_OFF)
    return ledger


def settle(ledger: Ledger, observed: Observed, now: Ms) -> Ledger:
    """Fold the jobs that have ended into their incidents and remove their intents.

    A lost job counts as done if its effect is visible; else its intent stays, and blocks its node.
    A successful job counts once its effect is visible: Ganeti's answers may be some seconds old,
    and maintd would do the work a second time.
    """
    if not (ledger.incidents or ledger.intents):
        return ledger
    intents = tuple(_with_success(intent, observed, now) for intent in ledger.intents)
    ledger = replace(ledger, intents=intents)
    ended = {
        i.id: r
        for i in ledger.intents
        if not i.purpose.group and (r := how_ended(i, observed, now)) is not None
    }
    incidents = {incident.id: incident for incident in ledger.incidents}
    for intent in ledger.intents:
        incident = incidents.get(intent.incident)
        if incident is None:
            continue
        if intent.job is not None and intent.job not in incident.jobs:
            incident = replace(incident, jobs=(*incident.jobs, intent.job))
        if intent.id in ended:
            incident = _after_job(incident, intent, ended[intent.id], now)
        elif intent.id in observed.absent:
            incident = _not_submitted(incident, intent, observed.absent[intent.id], now)
        incidents[incident.id] = incident
    gone = ended.keys() | observed.absent.keys()
    # maintd never submits an intent that waits for a failed job. It may have submitted one that
    # waits for a successful job, and lost the answer.
    failed = {i for i, result in ended.items() if result.outcome is not Outcome.SUCCESS}
    void = failed | observed.absent.keys()
    return replace(
        ledger,
        incidents=tuple(incidents.values()),
        intents=tuple(
            i
            for i in ledger.intents
            if i.id not in gone and not (i.job is None and i.after in void)
        ),
    )


def _with_success(intent: Intent, observed: Observed, now: Ms) -> Intent:
    """Record when its job was first known to have succeeded."""
    result = observed.results.get(intent.id)
    done = result is not None and result.outcome is Outcome.SUCCESS
    return replace(intent, ended=now) if done and not intent.ended else intent


def _after_job(incident: Incident, intent: Intent, result: Result, now: Ms) -> Incident:
    match result.outcome:
        case Outcome.LATER if incident.status.active:
            why = f"{describe(intent.action)}: {result.why}"
            if not isinstance(intent.action, RunCommand):
                return cut_off(incident, f"job {intent.job} ({why})", now)
            # Only this makes it another order: maintd repeats an order that may still be on its way
            # under its own id, so that the agent runs it once.
            incident = replace(incident, attempt=incident.attempt + 1)
            return _put_off(incident, why, now)
        case Outcome.ERROR if incident.status.active:
            what = f"job {intent.job} ({describe(intent.action)}) failed: {result.why}"
            return incident.after(StatusEvent.JOB_FAILED, now, what)
        case Outcome.ERROR | Outcome.LATER:
            again = isinstance(intent.action, Retag)  # only the tag is still missing
            return replace(incident, not_before=now + BACK_OFF) if again else incident
    if incident.status.active:
        waits = incident.not_before > now  # another job was postponed, and that is still the reason
        incident = replace(incident, tries=0, why=incident.why if waits else "")
    match intent.action:
        case Drain():
            return replace(incident, drained=True)
        case RunCommand():
            return replace(incident, repaired=True)
        case Retag(Scope.NODE, _, add) if incident.tag in add and incident.status.active:
            return incident.after(StatusEvent.ALL_DONE, now)
        case Retag(Scope.NODE, _, add) if incident.tag in add:
            # It was there: if it does not show by now, somebody has removed it already.
            return replace(incident, tag_seen=True)
        case _:
            return incident


def _not_submitted(incident: Incident, intent: Intent, why: str, now: Ms) -> Incident:
    """Retry: a refused order a few times, a submission to a full job queue for ever."""
    if not incident.status.active:
        return replace(incident, not_before=now + BACK_OFF)
    if isinstance(intent.action, RunCommand):
        return _put_off(incident, why, now)
    return replace(incident, not_before=now + BACK_OFF, why=why)


def _put_off(incident: Incident, why: str, now: Ms) -> Incident:
    """Retry later, a limited number of times: nothing was done."""
    tries = incident.tries + 1
    if tries >= TRIES:
        return incident.after(StatusEvent.JOB_FAILED, now, f"given up after {tries} tries: {why}")
    return replace(incident, tries=tries, not_before=now + BACK_OFF, why=why)


def cut_off(incident: Incident, why: str, now: Ms) -> Incident:
    """Count jobs that were cut off, perhaps many at once, as one try.

    maintd then reads the cluster and plans again what is still needed.
    """
    counted = incident.not_before == now + BACK_OFF
    return incident if counted else _put_off(incident, why, now)


def forget(ledger: Ledger, observed: Observed, now: Ms) -> Ledger:
    """Close what is over: the node is gone, or an administrator removed the tag.

    Without its ready tag an incident is closed when the diagnosis is no longer observed. Without
    its failed tag it is closed at once, and earlier attempts no longer count against the node. A
    canceled incident is closed when no longer observed and the tags of an earlier end are off, or
    detected again after the closing of the one that superseded it. A node that does not answer has
    not reported Ok.
    """
    working = {intent.incident for intent in ledger.intents}
    if not (ledger.incidents or any(working)):
        return ledger
    working |= {o.incident for o in ledger.outages if o.back is not None and o.back.unless_touched}
    nodes = observed.snapshot.by_uuid
    kept: list[Incident] = []
    pardoned: set[str] = set()
    for incident in ledger.incidents:
        node = nodes.get(incident.node)
        if node is None:
            continue
        diagnosis = observed.diagnoses.get(node.name)
        incident = _looked_at(incident, node, diagnosis, now)
        gone = diagnosis is not None and diagnosis != incident.diagnosis
        acknowledged = _acknowledged(incident, node, now)
        if incident.status is Status.CANCELED:
            tagged = not incident.earlier_tags.isdisjoint(node.tags)
            free = acknowledged or gone or _is_left_alone(incident, ledger)
            closed = free and not tagged and incident.id not in working
        else:
            closed = _is_closed(incident.status, gone=gone, acknowledged=acknowledged)
        if not closed:
            kept.append(incident)
        elif incident.status is Status.FAILED:
            pardoned.add(incident.node)
    known = {incident.id for incident in kept} | {""}
    return replace(
        ledger,
        incidents=tuple(kept),
        # Intents for a node that is gone are void.
        intents=tuple(i for i in ledger.intents if i.incident in known),
        begun=tuple(b for b in ledger.begun if b.node not in pardoned),
    )


def _is_closed(status: Status, *, gone: bool, acknowledged: bool) -> bool:
    """Check whether an incident is over whose diagnosis is gone, or whose tag somebody removed."""
    match status:
        case Status.NOTED:
            return gone  # it went away before maintd did anything
        case Status.COMPLETED:
            return acknowledged and gone
        case Status.FAILED:
            return acknowledged
        case _:
            return False


def _is_left_alone(incident: Incident, ledger: Ledger) -> bool:
    """Check whether the incident that took it over is closed, so that no incident covers it."""
    return incident.heir != "" and ledger.incident(incident.heir) is None


def _looked_at(incident: Incident, node: Node, diagnosis: Diagnosis | None, now: Ms) -> Incident:
    rebuilt = incident.diagnosis == UNKNOWN
    if rebuilt and diagnosis is not None and is_same(incident.id, incident.node, diagnosis):
        incident = replace(incident, diagnosis=diagnosis)
    observed = diagnosis is None or diagnosis == incident.diagnosis
    canceled = incident.status is Status.CANCELED
    if not canceled and f"{CANCELED_TAG}{incident.id}" in node.tags:
        incident = incident.after(StatusEvent.CANCELED, now, "canceled by its tag")
    missed = incident.status is Status.PENDING and not observed
    over = incident.status in (Status.COMPLETED, Status.FAILED)
    return replace(
        incident,
        name=node.name,
        tag_seen=incident.tag_seen or incident.tag in node.tags,
        seen_at=now if observed else incident.seen_at,
        # Not the time since it was last seen: a clock put forward would make that long.
        missed_at=incident.missed_at if over else incident.missed_at or now if missed else Ms(0),
    )


def _acknowledged(incident: Incident, node: Node, now: Ms) -> bool:
    """Check whether the tag was there and is gone.

    Ganeti may show the state before our own tagging for a moment: a tag that maintd has never seen
    was not removed.
    """
    if incident.tag in node.tags:
        return False
    late = incident.status is Status.COMPLETED and now - incident.changed_at > TAG_SHOWS
    return incident.tag_seen or late


def out_of_service(ledger: Ledger, observed: Observed) -> Ledger:
    """Record which nodes under evacuation are out of service, no matter who drained them.

    If a node is back in service after this, a person put it there, and maintd does not drain it
    again.
    """
    if not ledger.incidents:
        return ledger
    nodes = observed.snapshot.by_uuid
    return replace(ledger, incidents=tuple(seen_out(i, nodes) for i in ledger.incidents))


def seen_out(incident: Incident, nodes: Mapping[str, Node]) -> Incident:
    """Return the incident, with `drained` set if its node is to be evacuated and is out already."""
    node = nodes.get(incident.node)
    emptied = incident.status is Status.PENDING and incident.diagnosis.need >= Need.EVACUATE
    if incident.drained or not emptied or node is None or not node.is_out:
        return incident
    return replace(incident, drained=True)


def absorb(ledger: Ledger, observed: Observed, now: Ms, before: tuple[Incident, ...]) -> Ledger:
    """Turn each diagnosis without an incident into one; `before` are those of the last round."""
    known_ids = {incident.id for incident in ledger.incidents}
    passed = {
        incident.node: incident
        for incident in before
        if incident.status is Status.NOTED and incident.id not in known_ids
    }
    known = {(incident.node, incident.diagnosis) for incident in ledger.incidents}
    new: list[Incident] = []
    for name, diagnosis in sorted(observed.diagnoses.items()):
        node = observed.snapshot.nodes.get(name)
        if node is None or diagnosis.need is Need.OK or (node.uuid, diagnosis) in known:
            continue
        identity = incident_id(node.uuid, diagnosis, now)
        new_incident = Incident(
            identity, node.uuid, name, diagnosis, now, seen_at=now, changed_at=now
        )
        old = passed.get(node.uuid)
        same = old is not None and old.diagnosis.need is diagnosis.need
        new.append(
            restless.follows(old, new_incident) if old is not None and same else new_incident
        )
    return replace(ledger, incidents=(*ledger.incidents, *new)) if new else ledger


def withdraw(ledger: Ledger, observed: Observed, policy: Policy, now: Ms) -> Ledger:
    """Withdraw started incidents that are no longer observed.

    At once if the node needs as much or more for another reason, whose incident continues from
    there; else after a delay, for a fault that comes and goes is a fault. Its running jobs end
    first.
    """
    working = {intent.incident for intent in ledger.intents}
    incidents = {incident.id: incident for incident in ledger.incidents}
    heirs = {
        (incident.node, incident.diagnosis): incident.id
        for incident in ledger.incidents
        if incident.status.active
    }
    for incident in ledger.incidents:
        diagnosis = observed.diagnoses.get(incident.name)
        if incident.status in (Status.COMPLETED, Status.FAILED):
            since = well_since(incident, diagnosis, policy, now)
            incidents[incident.id] = replace(incident, missed_at=Ms(since))
        if diagnosis is None or not _is_over(incident, diagnosis) or incident.id in working:
            continue
        heir = incidents.get(heirs.get((incident.node, diagnosis), ""))
        if heir is not None and diagnosis.need >= need_of(incident):
            superseded = incident.after(StatusEvent.CANCELED, now, f"{SUPERSEDED}{heir.id}")
            incidents[incident.id] = replace(superseded, heir=heir.id)
            incidents[heir.id] = _inherits(heir, incident, now)
        elif now - incident.missed_at >= policy.withdraw:
            incidents[incident.id] = _no_longer_observed(incident, policy, now)
            if heir is not None and incident.drained and diagnosis.need >= Need.EVACUATE:
                # Milder, but the same evacuation: a person who put the node back did so for both.
                incidents[heir.id] = replace(heir, drained=True)
    ledger = replace(ledger, incidents=tuple(incidents.values()))
    return _with_holds_passed_on(ledger, observed, now)


def _is_over(incident: Incident, diagnosis: Diagnosis) -> bool:
    """Check whether work on an incident has started for what its node no longer reports."""
    started = incident.status is Status.PENDING and not incident.repaired
    return started and diagnosis != incident.diagnosis


def _no_longer_observed(incident: Incident, policy: Policy, now: Ms) -> Incident:
    why = f"no longer observed for {policy.withdraw / 60_000:g} min"
    canceled = incident.after(StatusEvent.CANCELED, now, why)
    # A maintd without the ledger would resume an incident that left jobs behind: tag it.
    return replace(canceled, seen_at=now) if incident.jobs else canceled


def _with_holds_passed_on(ledger: Ledger, observed: Observed, now: Ms) -> Ledger:
    """Pass on holds to the incident under which their node's fault continues."""
    active = {incident.id: incident for incident in ledger.incidents if incident.status.active}
    heirs = {i.name: i for i in active.values() if observed.diagnoses.get(i.name) == i.diagnosis}
    for hold in ledger.holds:
        heir = heirs.get(hold.name) if hold.incident else None
        if heir is not None and hold.incident not in active:
            renewed = [renamed(h, hold.incident, heir.id) for h in ledger.holds]
            ledger = replace(ledger, holds=tuple({hold.place: hold for hold in renewed}.values()))
    moving = {place.tag for place in tags_removed(ledger)}
    for name, heir in sorted(heirs.items()):
        for tag in sorted(observed.snapshot.nodes[name].tags - moving):
            if tag.startswith(HOLD_TAG) and tag.removeprefix(HOLD_TAG) not in active:
                ledger = _with_hold_of_tag(ledger, tag, heir, observed.snapshot.nodes[name], now)
    return ledger


def _with_hold_of_tag(ledger: Ledger, tag: str, heir: Incident, node: Node, now: Ms) -> Ledger:
    """Hold this incident as the tag holds one that is over, and replace the tag."""
    hold = Hold(Scope.NODE, node.name, f"the tag {tag}", now, incident=heir.id)
    if not any(known.incident == heir.id for known in ledger.holds):
        ledger = replace(ledger, holds=(*ledger.holds, hold))
    if ledger.tags_after > now:
        return ledger
    add = () if hold.tag in node.tags else (hold.tag,)
    action = Retag(Scope.NODE, node.name, add, (tag,))
    return without_claim(ledger, OfTags(), action, now, node.name)


def renamed(hold: Hold, old: str, new: str) -> Hold:
    """The hold, moved from the old incident to the new one; its new tag is not seen yet."""
    return replace(hold, incident=new, tag_seen=False) if hold.incident == old else hold


def _inherits(heir: Incident, old: Incident, now: Ms) -> Incident:
    """Continue an evacuation under its new name; after a live repair admission decides."""
    if need_of(old) < Need.EVACUATE or heir.status is not Status.NOTED:
        return heir
    heir = heir.after(StatusEvent.STARTED, now)
    return replace(heir, drained=old.drained, jobs=old.jobs)
