"""Changes of nodes' roles in Ganeti's job queue: our own, and those of others. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from nodeagent.maintd.outage.waiting import is_as_left
from nodeagent.model.action import Drain, Restore, Retag, SetOffline
from nodeagent.model.incident import FAILED_TAG, READY_TAG
from nodeagent.model.ledger import Ledger, Outcome, RoleChange, Trail
from nodeagent.model.outage import Outage
from nodeagent.model.snapshot import Node, Snapshot
from nodeagent.model.wish import Cancel, Wish


def recalled(
    ledger: Ledger, trails: Sequence[Trail], snapshot: Snapshot, roles: Sequence[RoleChange]
) -> tuple[Outage, ...]:
    """Return the ledger's outages, and those that the jobs' reason trails prove."""
    known = {outage.node for outage in ledger.outages if outage.incident}
    outages = [
        outage
        for outage in _by_trails(trails, snapshot)
        if outage.node not in known and not doubt(outage, snapshot, roles)
    ]
    new = {outage.node for outage in outages}
    backs = {outage.node: outage.back for outage in ledger.outages}
    kept = (outage for outage in ledger.outages if outage.node not in new)
    return (*kept, *(replace(outage, back=backs.get(outage.node)) for outage in outages))


def first_job_to_recover(ledger: Ledger, trails: Sequence[Trail], snapshot: Snapshot) -> str | None:
    """Return the first job to check for changes of nodes' roles by others; None: none is needed."""
    known = {outage.node for outage in ledger.outages if outage.incident}
    return _first(outage for outage in _by_trails(trails, snapshot) if outage.node not in known)


def first_role_job(ledger: Ledger, wishes: Sequence[Wish]) -> str | None:
    """Return the first job to check for changes of nodes' roles by others; None: none is needed."""
    asked = {w.asked.incident for w in wishes if isinstance(w.asked, Cancel) and w.asked.undrain}
    wanted = asked | {i.id for i in ledger.incidents if i.missed_at}
    return _first(
        outage
        for outage in ledger.outages
        if (outage.back is not None and outage.back.unless_touched) or outage.incident in wanted
    )


def _by_trails(trails: Sequence[Trail], snapshot: Snapshot) -> list[Outage]:
    """The nodes that are still as our own jobs left them, judged by the jobs alone."""
    outages: dict[str, Outage] = {}
    for trail in trails:
        action = trail.action
        if trail.result.outcome is not Outcome.SUCCESS:
            continue
        if isinstance(action, Restore):
            outages.pop(action.node, None)
        if isinstance(action, Retag) and (outage := outages.get(action.name)):
            ends = {f"{READY_TAG}{outage.incident}", f"{FAILED_TAG}{outage.incident}"}
            ended = outage.ended or not ends.isdisjoint(action.add)
            outages[action.name] = replace(outage, ended=ended)
        if not isinstance(action, Drain | SetOffline) or action.node not in snapshot.nodes:
            continue
        incident = trail.purpose.incident
        if not incident:
            outages.pop(action.node, None)  # a window's, or the repair queue's
            continue
        if isinstance(action, Drain):
            uuid = snapshot.nodes[action.node].uuid
            outages.setdefault(action.node, Outage(uuid, incident=incident, drained_by=trail.job))
        elif old := outages.get(action.node):
            outages[action.node] = replace(old, incident=incident, offline_by=trail.job)
    return [outage for name, outage in outages.items() if is_as_left(snapshot.nodes[name], outage)]


def _first(outages: Iterable[Outage]) -> str | None:
    jobs = [outage.drained_by for outage in outages if outage.drained_by.isdecimal()]
    return min(jobs, key=int, default=None)


def touched(outage: Outage, node: Node, roles: Sequence[RoleChange]) -> bool:
    """Check whether somebody else has changed the node's role since, or tried to."""
    job = outage.drained_by
    return any(
        not role.ours and role.is_of(node.name) and job.isdecimal() and int(role.job) >= int(job)
        for role in roles
    )


def doubt(outage: Outage, snapshot: Snapshot, roles: Sequence[RoleChange]) -> str:
    """Say why somebody else may have changed the node; empty if only we did."""
    node, job = snapshot.by_uuid[outage.node], outage.drained_by
    if touched(outage, node, roles):
        return "somebody else changed it since"
    if not any(role.job == job and role.changed and role.is_of(node.name) for role in roles):
        return f"it is unknown whether job {job} has changed it"
    return ""
