"""Changes that our own jobs made to nodes' roles, and whether they still hold. Pure.

maintd remembers which of its jobs took each node out of service. So auto-repair does not take our
drain for a permission, and maintd undoes only its own work. A node that is not as our jobs left it
was changed by somebody else, and is not ours any more.
"""

from collections.abc import Collection
from dataclasses import replace

from nodeagent.maintd.outage.claims import Claims, incident_that_keeps_out
from nodeagent.maintd.outage.waiting import is_anothers, is_as_left
from nodeagent.maintd.planning.outcomes import BACK_OFF, TRIES, how_ended
from nodeagent.maintd.planning.tag_settings import with_tags
from nodeagent.model.action import Drain, Restore, RunCommand, SetOffline, describe
from nodeagent.model.diagnosis import Need
from nodeagent.model.incident import Status
from nodeagent.model.ledger import Intent, Ledger, Outcome, Policy
from nodeagent.model.outage import STALE, Back, Outage, Way
from nodeagent.model.purpose import OfFencing
from nodeagent.model.snapshot import Node, Observed
from nodeagent.model.units import Ms
from nodeagent.model.window import Standing


def remember(ledger: Ledger, observed: Observed, now: Ms) -> Ledger:
    """Record how our jobs changed nodes, and how proofs went, before the jobs settle.

    A lost job of a way back is planned again: to repeat it does no harm.
    """
    intents = [intent for intent in ledger.intents if intent.purpose.back or _is_role(intent)]
    if not (ledger.outages or intents):
        return ledger
    snapshot = observed.snapshot
    outages = {outage.node: outage for outage in ledger.outages}
    running = set[str]()
    for intent in intents:
        if (node := snapshot.nodes.get(intent.node)) is None:
            continue
        outage = outages.pop(node.uuid, Outage(node.uuid))
        failure = _failure(intent, observed, now)
        if failure:
            outage = _failed(outage, intent, failure, node, now)
        elif failure is not None:
            outage = _done(outage, intent)
        elif _is_role(intent):
            running.add(node.uuid)  # its effect may show before its result
        outages[node.uuid] = outage
    kept: list[Outage] = []
    for uuid, outage in outages.items():
        if (node := snapshot.by_uuid.get(uuid)) is None:
            continue
        outage = _with_ended(outage, ledger)
        if uuid not in running:
            outage = _as_found_now(outage, node)
        kept.append(_looked_at(outage, node, ledger, observed, now))
    kept_intents = tuple(i for i in ledger.intents if not is_lost(i, observed))
    return replace(ledger, outages=tuple(kept), intents=kept_intents)


def _as_found_now(outage: Outage, node: Node) -> Outage:
    """Give up what is not as our jobs left it; what somebody else did there is not undone."""
    if is_as_left(node, outage):
        return outage
    ends = is_anothers(node, outage) and outage.reported is None
    return replace(outage.disowned, back=None) if ends else outage.disowned


def _is_role(intent: Intent) -> bool:
    return isinstance(intent.action, Drain | SetOffline | Restore)


def forget(ledger: Ledger, observed: Observed) -> Ledger:
    """Drop the outages that are over: nobody asks anything of their nodes any more."""
    if not ledger.outages:
        return ledger
    nodes, claims = observed.snapshot.by_uuid, Claims(ledger)
    kept = tuple(
        outage
        for outage in ledger.outages
        if (node := nodes.get(outage.node)) is not None and claims.need(outage, node)
    )
    return ledger if kept == ledger.outages else replace(ledger, outages=kept)


def is_lost(intent: Intent, observed: Observed) -> bool:
    """Check whether the end of a way back's job is unknown."""
    result = observed.results.get(intent.id)
    lost = result is not None and result.outcome is Outcome.LOST
    return bool(intent.purpose.back) and lost and how_ended(intent, observed, Ms(0)) is None


def _failure(intent: Intent, observed: Observed, now: Ms) -> str | None:
    """Say why an intent's job did not do its work; "" if it did, None while that is unknown."""
    end = how_ended(intent, observed, now)
    result = observed.results.get(intent.id)
    if result is not None and result.outcome is Outcome.ERROR and not intent.incident:
        return result.why or "it failed"  # if its effect shows, somebody else may have done it
    if end is not None and end.outcome is Outcome.SUCCESS:
        return ""
    if absent := observed.absent.get(intent.id):
        return absent
    if end is not None:
        return end.why or "it failed"
    if not is_lost(intent, observed):
        return None
    stale = isinstance(intent.action, RunCommand) and intent.action.command == STALE
    return "its agent does not answer" if stale else "its result is unknown"


def _done(outage: Outage, intent: Intent) -> Outage:
    back, job = outage.back, intent.job or ""
    match intent.action:
        case Drain():
            return replace(outage.disowned, incident=intent.incident, drained_by=job, back=back)
        case SetOffline():
            offline = None if back is None else replace(back, online=False)
            incident = intent.incident or outage.incident
            found = _drained_by_others(outage, intent)
            return replace(outage, incident=incident, offline_by=job, back=offline, found=found)
        case Restore(_, drained):
            over = back is None or not back.proves
            proved = None if over or back is None else replace(back, checked=False, tries=0)
            still = replace(outage, offline_by="") if drained else outage.disowned
            return replace(still, back=proved)
        case RunCommand(_, command) if back is not None and command == STALE:
            return replace(outage, back=replace(back, fenced=False, tries=0, failure=""))
        case action if back is not None:
            checked = isinstance(action, RunCommand)
            return replace(outage, back=replace(back, checked=checked, tries=0, failure=""))
    return outage


def _drained_by_others(outage: Outage, intent: Intent) -> Standing:
    """Return the state to restore: only a dead node goes offline without a drain before."""
    ours = outage.drained_by or isinstance(intent.purpose, OfFencing)
    if ours or outage.found is not Standing.SERVING:
        return outage.found
    return Standing.DRAINED


def _failed(outage: Outage, intent: Intent, why: str, node: Node, now: Ms) -> Outage:
    if isinstance(intent.action, Drain | SetOffline):
        if outage.drained_by or outage.offline_by:
            return outage
        # If it is out of service by now, somebody else did it, and it stays so.
        theirs = replace(outage.disowned, found=node.standing)
        ends = node.is_out and theirs.reported is None
        return replace(theirs, back=None) if ends else theirs
    back = outage.back
    if back is None:
        return outage
    what = describe(intent.action)
    by_job = intent.job and not back.reported
    failure = f"job {intent.job} ({what}) failed: {why}" if by_job else f"{what}: {why}"
    again = replace(back, tries=back.tries + 1, not_before=now + BACK_OFF, failure=failure)
    if again.unless_touched and again.tries >= TRIES:
        return replace(outage, back=None, why=failure)
    return replace(outage, back=again)


def _with_ended(outage: Outage, ledger: Ledger) -> Outage:
    """Record whether its incident has been completed or has failed: closing it accepts that."""
    incident = ledger.incident(outage.incident)
    over = incident is not None and incident.status in (Status.COMPLETED, Status.FAILED)
    return replace(outage, ended=outage.ended or over)


def _looked_at(outage: Outage, node: Node, ledger: Ledger, observed: Observed, now: Ms) -> Outage:
    """Record since when a node that owes its proof is healthy.

    It does not go back if somebody took it offline meanwhile; what is reported repaired, neither if
    an incident evacuates it again. It waits for a live repair. How it was found may only have
    become known since it began to return.
    """
    back = outage.back
    if back is None or not back.proves:
        return outage
    again = any(
        i.node == node.uuid and i.status is Status.PENDING and i.diagnosis.need >= Need.EVACUATE
        for i in ledger.incidents
    )
    if (again and back.reported) or (back.online and node.offline):
        return replace(outage, back=None)
    healthy = observed.is_healthy(node.name)
    looked_at = replace(
        back,
        to=back.to if back.reported else outage.found,
        online=back.online or not node.offline,
        well=back.well or now if healthy else Ms(0),
        checked=back.checked and healthy,
    )
    return replace(outage, back=looked_at)


def withdrawn(before: Ledger, after: Ledger, observed: Observed, policy: Policy, now: Ms) -> Ledger:
    """Put back the node of a withdrawn incident if it reports Ok, or pass it on to its heir.

    The heir is also any incident that works on the node later; maintd does not put it back
    meanwhile.
    """
    if not after.outages:
        return after
    begun = {i.id for i in before.incidents if i.status is Status.PENDING}
    ended = {i.id for i in after.incidents if i.status is Status.CANCELED} & begun
    passed = (_passed(outage, after, ended, observed, policy, now) for outage in after.outages)
    return replace(after, outages=tuple(passed))


def _passed(
    outage: Outage,
    ledger: Ledger,
    ended: Collection[str],
    observed: Observed,
    policy: Policy,
    now: Ms,
) -> Outage:
    node = observed.snapshot.by_uuid.get(outage.node)
    incident = ledger.incident(outage.incident)
    works = incident is not None and incident.status is not Status.CANCELED
    if node is None or works or not outage.incident:
        return outage
    back = outage.back
    if (heir := incident_that_keeps_out(ledger, outage.node, outage)) is not None:
        kept = None if back is not None and back.unless_touched else back
        return replace(outage, incident=heir.id, back=kept, why="", ended=False)
    if outage.incident not in ended or (back is not None and not back.unless_touched):
        return outage
    healthy = observed.is_healthy(node.name)
    returns = with_tags(policy, observed.snapshot, node).return_withdrawn
    return replace(outage, back=Back(Way.WITHDRAWN, now)) if healthy and returns else outage
