"""Nodes that maintd took out of service for incidents, and how they return. Pure.

maintd remembers which of its jobs took each node out of service. So auto-repair does not take our
drain for a permission, and maintd undoes only its own work: after it withdrew an incident, or when
a person asks for it. The job queue shows whether somebody else changed the node since then. If that
is unknown, the node stays as it is, and a line shows the command that puts it back.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from nodeagent.maintd.incidents.waiting import is_of_before, state_of, waiting
from nodeagent.maintd.planning.outcomes import BACK_OFF, TRIES, by_uuid, first_ended, how_ended
from nodeagent.maintd.planning.resources import Room
from nodeagent.maintd.planning.tag_settings import with_tags
from nodeagent.maintd.windows.timing import in_window, under_repair
from nodeagent.model.action import Drain, Restore, Retag, SetOffline, describe
from nodeagent.model.diagnosis import Need
from nodeagent.model.incident import Incident, Status
from nodeagent.model.ledger import Drained, Intent, Ledger, Outcome, Policy, RoleChange, Trail
from nodeagent.model.purpose import OfIncident
from nodeagent.model.reason import Held, Kind, Reason, because
from nodeagent.model.snapshot import Node, Observed, Snapshot
from nodeagent.model.units import Ms
from nodeagent.model.wish import Cancel, Wish

_WITHDRAWN = "it was withdrawn"


# Remember.


def out_of_service(ledger: Ledger, observed: Observed) -> Ledger:
    """Record which nodes under evacuation are out of service, no matter who drained them.

    If a node is back in service after this, a person put it there, and maintd does not drain it
    again.
    """
    if not ledger.incidents:
        return ledger
    nodes = by_uuid(observed)
    return replace(ledger, incidents=tuple(seen_out(i, nodes) for i in ledger.incidents))


def seen_out(incident: Incident, nodes: Mapping[str, Node]) -> Incident:
    """The incident, with `drained` set if its node is to be evacuated and is out of service."""
    node = nodes.get(incident.node)
    emptied = incident.status is Status.PENDING and incident.diagnosis.need >= Need.EVACUATE
    if incident.drained or not emptied or node is None or not (node.drained or node.offline):
        return incident
    return replace(incident, drained=True)


def remember(ledger: Ledger, observed: Observed, now: Ms) -> Ledger:
    """Record how our jobs changed nodes, before the jobs settle; drop nodes that are not ours now.

    If a node is not as our jobs left it, somebody else changed it.
    """
    if not (ledger.drained or any(is_role(intent) for intent in ledger.intents)):
        return ledger
    nodes = by_uuid(observed)
    uuids = {node.name: uuid for uuid, node in nodes.items()}
    known, going = {one.node: one for one in ledger.drained}, set[str]()
    for intent in filter(is_role, ledger.intents):
        uuid = uuids.get(intent.node, "")
        end = how_ended(first_ended(intent, observed, now), observed, now)
        absent = observed.absent.get(intent.id)
        if end is None and absent is None:
            going.add(uuid)
            continue
        done = end is not None and end.outcome is Outcome.SUCCESS
        why = None if done else absent or (end.why if end else "")
        after = _after(known.get(uuid), uuid, intent, why, now)
        known = {key: one for key, one in known.items() if key != uuid}
        if after is not None and uuid:
            known[uuid] = after
    windows = {one.node for one in ledger.scheduled}
    over = {i.id for i in ledger.incidents if i.status in (Status.COMPLETED, Status.FAILED)}
    kept = tuple(
        replace(one, ended=one.ended or one.incident in over)
        for uuid, one in known.items()
        if (node := nodes.get(uuid)) is not None
        and (uuid in going or uuid in windows or _is_as_left(node, one))
    )
    return ledger if kept == ledger.drained else replace(ledger, drained=kept)


def is_role(intent: Intent) -> bool:
    """Check whether an intent changes the role of an incident's node."""
    return bool(intent.incident) and isinstance(intent.action, Drain | SetOffline | Restore)


def _is_as_left(node: Node, one: Drained) -> bool:
    return node.offline if one.offline else node.drained and not node.offline


def _after(
    one: Drained | None, uuid: str, intent: Intent, why: str | None, now: Ms
) -> Drained | None:
    """Record of a node after a job about its role; `why` is the failure, None after success."""
    done = why is None
    if isinstance(intent.action, Restore):
        if done or one is None:
            return None
        tries, told = one.tries + 1, f"job {intent.job} ({describe(intent.action)}) failed: {why}"
        back = one.back if tries < TRIES else ""
        return replace(one, tries=tries, not_before=now + BACK_OFF, why=told, back=back)
    if not done:
        return one if one is not None and one.job else None
    if isinstance(intent.action, SetOffline):
        # If somebody else drained it before, only he undrains it.
        return one and replace(one, incident=intent.incident, offline=True, back="")
    back = "" if one is None else one.back
    return Drained(uuid, intent.incident, intent.job or "", back=back)


def withdrawn(before: Ledger, after: Ledger, observed: Observed, policy: Policy) -> Ledger:
    """Put back the node of a withdrawn incident if it reports Ok, or pass it on to its heir.

    The heir is also any incident that works on the node later; maintd does not put it back
    meanwhile.
    """
    if not after.drained:
        return after
    begun = {i.id for i in before.incidents if i.status is Status.PENDING}
    ended = {i.id for i in after.incidents if i.status is Status.CANCELED} & begun
    nodes = by_uuid(observed)

    def passed(one: Drained) -> Drained:
        node, incident = nodes.get(one.node), after.incident(one.incident)
        if node is None or (incident is not None and incident.status is not Status.CANCELED):
            return one
        if (heir := emptying(after, one.node, one)) is not None:
            return replace(one, incident=heir.id, back="", tries=0, why="", ended=False)
        if one.incident not in ended:
            return one
        said = observed.diagnoses.get(node.name)
        well = said is not None and said.need is Need.OK
        returns = with_tags(policy, observed.snapshot, node).return_withdrawn
        return replace(one, back=_WITHDRAWN, tries=0) if well and returns else one

    return replace(after, drained=tuple(map(passed, after.drained)))


def emptying(ledger: Ledger, node: str, one: Drained | None) -> Incident | None:
    """The incident that keeps a node out of service: it is evacuating it, or has evacuated it.

    `one` is how our own job took it out: incidents that ended before that do not count.
    """
    return next(
        (
            i
            for i in ledger.incidents
            if i.node == node
            and (i.drained or i.diagnosis.need >= Need.EVACUATE)
            and (
                i.status is Status.PENDING
                or (i.status in (Status.FAILED, Status.COMPLETED) and not is_of_before(i, one))
            )
        ),
        None,
    )


def recalled(
    ledger: Ledger, trails: Sequence[Trail], snapshot: Snapshot, roles: Sequence[RoleChange]
) -> tuple[Drained, ...]:
    """The ledger's drained nodes, and those that the jobs' reason trails prove."""
    known = {one.node for one in ledger.drained}
    found = (
        one
        for one in _by_trails(trails, snapshot)
        if one.node not in known and not _doubt(one, snapshot, roles)
    )
    return (*ledger.drained, *found)


def to_recall(ledger: Ledger, trails: Sequence[Trail], snapshot: Snapshot) -> str | None:
    """The first job to check for changes of nodes' roles by others; None: no check is needed."""
    known = {one.node for one in ledger.drained}
    return _first(one for one in _by_trails(trails, snapshot) if one.node not in known)


def _by_trails(trails: Sequence[Trail], snapshot: Snapshot) -> list[Drained]:
    """The nodes that are still as our own jobs left them, judged by the jobs alone."""
    found: dict[str, Drained] = {}
    for trail in trails:
        action = trail.action
        if trail.result.outcome is not Outcome.SUCCESS:
            continue
        if isinstance(action, Restore):
            found.pop(action.node, None)
        if isinstance(action, Retag) and (one := found.get(action.name)):
            ends = (f"maintd:repairready:{one.incident}", f"maintd:repairfailed:{one.incident}")
            found[action.name] = replace(
                one, ended=one.ended or not set(ends).isdisjoint(action.add)
            )
        if not isinstance(action, Drain | SetOffline) or action.node not in snapshot.nodes:
            continue
        incident = trail.purpose.incident
        if not incident:
            found.pop(action.node, None)  # a window's, or the repair queue's
            continue
        if isinstance(action, Drain):
            uuid = snapshot.nodes[action.node].uuid
            found.setdefault(action.node, Drained(uuid, incident, trail.job))
        elif old := found.get(action.node):
            found[action.node] = replace(old, incident=incident, offline=True)
    return [one for name, one in found.items() if _is_as_left(snapshot.nodes[name], one)]


# Query.


def wants_roles(ledger: Ledger, wishes: Sequence[Wish]) -> str | None:
    """The first job to check for changes of nodes' roles by others; None: no check is needed."""
    asked = {w.asked.incident for w in wishes if isinstance(w.asked, Cancel) and w.asked.undrain}
    missed = {i.id for i in ledger.incidents if i.missed_at}
    wanted = asked | missed
    return _first(one for one in ledger.drained if one.back or one.incident in wanted)


def _first(found: Iterable[Drained]) -> str | None:
    jobs = [one.job for one in found if one.job.isdecimal()]
    return min(jobs, key=int, default=None)


# Put back.


def put_back(
    ledger: Ledger,
    observed: Observed,
    room: Room,
    stopped: Mapping[str, Reason],
    now: Ms,
) -> tuple[Ledger, list[Held]]:
    """Put nodes back where requested; for each other node that waits, show the command that helps.

    `stopped` is why automatic work does not start on a node, or anywhere ("").
    """
    nodes, held, kept = by_uuid(observed), list[Held](), list[Drained]()
    returning = {other.node for other in ledger.returning}
    closed = at_work(ledger, observed.snapshot, now)
    for one in ledger.drained:
        node = nodes[one.node]
        if one.node in returning:
            kept.append(one)
            continue
        if one.back and observed.roles is not None and one.job:
            if _touched(one, node, observed.roles):
                continue  # it belongs to somebody else now
            if doubt := _doubt(one, observed.snapshot, observed.roles):
                one = replace(one, back="", why=doubt)
        kept.append(one)
        incident = one.incident if ledger.incident(one.incident) else ""
        if not one.back:
            if told := _told(ledger, one, node):
                held.append(Held(told, node.name, incident))
            continue
        mine = [i for i in ledger.intents if i.incident == one.incident]
        if any(isinstance(i.action, Restore) for i in mine):
            continue
        why = _obstacle(one, node, mine, observed, closed, stopped, now)
        taken = why or room.take(node.name, OfIncident(one.incident))
        if isinstance(taken, Reason):
            told = because(Kind.TO_BE_PUT_BACK, node.name, back=one.back, why=taken)
            held.append(Held(told, node.name, incident))
        else:
            ledger = taken.promise(ledger, Restore(node.name), now)
    held += waiting(ledger, observed.snapshot)
    return replace(ledger, drained=tuple(kept)), held


def at_work(ledger: Ledger, snapshot: Snapshot, now: Ms) -> dict[str, Reason]:
    """Why a node stays as it is: it is under repair, or in a maintenance window."""
    repaired = under_repair(ledger, snapshot) if ledger.drained or ledger.returning else {}
    names = {node.uuid: node.name for node in snapshot.nodes.values()}
    at_work = {
        names[uuid]: because(Kind.UNDER_REPAIR, names[uuid], repair=repair)
        for uuid, repair in repaired.items()
        if uuid in names
    }
    return {**at_work, **in_window(ledger, snapshot, now)}


def _obstacle(
    one: Drained,
    node: Node,
    mine: Sequence[Intent],
    observed: Observed,
    closed: Mapping[str, Reason],
    stopped: Mapping[str, Reason],
    now: Ms,
) -> Reason | None:
    """Why the node does not return now; None if it does. `mine` are its incident's intents."""
    if mine:
        return because(Kind.WAITS_FOR_JOB, node.name, job=str(mine[0].job))
    if (left := one.not_before - now) > 0:
        return because(Kind.TRY_AGAIN, node.name, left=left, why=one.why)
    said = observed.diagnoses.get(node.name)
    if why := closed.get(node.name):
        return why
    if one.back == _WITHDRAWN:
        if why := stopped.get("") or stopped.get(node.name):
            return why
        if said is None or said.need is not Need.OK:
            return because(Kind.NOT_WELL if said else Kind.UNHEARD, node.name)
    if observed.roles is None or not one.job:
        return because(Kind.UNKNOWN_CHANGES, node.name)
    return None


def _touched(one: Drained, node: Node, roles: Sequence[RoleChange]) -> bool:
    """Check whether somebody else has changed its role since, or tried to."""
    return any(
        not r.ours and r.is_of(node.name) and one.job and int(r.job) >= int(one.job) for r in roles
    )


def _doubt(one: Drained, snapshot: Snapshot, roles: Sequence[RoleChange]) -> str:
    """Why somebody else may have changed the node; empty if only we did."""
    node = next(node for node in snapshot.nodes.values() if node.uuid == one.node)
    if _touched(one, node, roles):
        return "somebody else changed it since"
    if not any(r.job == one.job and r.changed and r.is_of(node.name) for r in roles):
        return f"it is unknown whether job {one.job} has changed it"
    return ""


def _told(ledger: Ledger, one: Drained, node: Node) -> Reason | None:
    """Show how to put back a node that no incident keeps out of service; None for any other."""
    if not _is_idle(ledger, one):
        return None
    incident = ledger.incident(one.incident)
    canceled = incident is not None and incident.status is Status.CANCELED
    return because(
        Kind.STAYS,
        node.name,
        state=state_of(node),
        did="took it offline" if one.offline else "drained it",
        incident=one.incident,
        over="was canceled" if canceled else "is over",
        why=one.why,
    )


def _is_idle(ledger: Ledger, one: Drained) -> bool:
    """Check whether no incident needs the node out of service any more."""
    incident = ledger.incident(one.incident)
    active = incident is not None and incident.status.active
    return not active and emptying(ledger, one.node, one) is None


# Auto-repair reads this.


def unlicensed(ledger: Ledger, snapshot: Snapshot) -> dict[str, str]:
    """Nodes that only maintd took out of service, for an incident that has ended; and why.

    Nobody has asked for instances to leave them.
    """
    nodes = {node.uuid: node for node in snapshot.nodes.values()}
    back = {one.node for one in ledger.returning}
    returning = {
        node.name: f"maintd puts {node.name} back into service"
        for uuid in back
        if (node := nodes.get(uuid)) is not None and not node.in_service
    }
    return returning | {
        node.name: f"maintd itself {'took' if one.offline else 'drained'} {node.name}"
        f"{' offline' if one.offline else ''} for incident {one.incident}, which is not at work"
        for one in ledger.drained
        if (node := nodes.get(one.node)) is not None
        and not (one.ended or one.node in back)
        and _is_as_left(node, one)
        and _is_idle(ledger, one)
    }
