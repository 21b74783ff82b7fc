"""Rebuild a lost or outdated ledger from Ganeti's tags and jobs. Pure.

Tags say how incidents have ended, the jobs' reason trails which ones were started and what was
planned. An incident's id says when it was detected, and helps to recognize its diagnosis.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from nodeagent.maintd.autorepair.jobs import recalled
from nodeagent.maintd.balancing import past_moves
from nodeagent.maintd.incidents.lifecycle import cut_off, renamed
from nodeagent.maintd.ledger import lost_tags, other_master
from nodeagent.maintd.ledger.trails import newest_of_each, newest_of_others, node_of, only_cancels
from nodeagent.maintd.outage import job_queue
from nodeagent.maintd.planning.outcomes import TAG_SHOWS
from nodeagent.model.action import (
    Action,
    Drain,
    Power,
    PowerCommand,
    Restore,
    Retag,
    Scope,
    SetOffline,
    TagPlace,
    describe,
)
from nodeagent.model.diagnosis import Need
from nodeagent.model.fencing import BURST, Cut
from nodeagent.model.incident import UNKNOWN, Incident, Status, StatusEvent, is_same, noted_when
from nodeagent.model.ledger import (
    HOLD_TAG,
    STORM_TAG,
    USED_TAG,
    Begun,
    Hold,
    Intent,
    Ledger,
    Outcome,
    RoleChange,
    Storm,
    Trail,
)
from nodeagent.model.purpose import OfEntry, OfFencing, OfTags, is_identity, parse
from nodeagent.model.snapshot import Node, Snapshot
from nodeagent.model.units import Ms

_MARK = "maintd:repairing"
_CANCELED = "maintd:canceled:"
_ENDED = {
    "maintd:repairready": Status.COMPLETED,
    "maintd:repairfailed": Status.FAILED,
    "maintd:canceled": Status.CANCELED,
    _MARK: Status.PENDING,
}


def recover(
    ledger: Ledger,
    trails: Sequence[Trail],
    snapshot: Snapshot,
    now: Ms,
    marked: int = 0,
    gone: Collection[TagPlace] = (),
    *,
    repairs: bool = False,
    roles: Sequence[RoleChange] = (),
    others: int | None = None,
) -> Ledger:
    """The ledger, corrected by everything that Ganeti knows better.

    - An incident with a tag has ended as the tag says. One whose tag was set and is gone was closed
      by a person. If it was completed, nobody knows whether its fault was gone since, so the node's
      next report counts as a new one.
    - Jobs of ours that the ledger does not know are added: running ones as intents, failed ones as
      failures.
    - If the ledger has numbered an incident's intents but lacks it, it has seen its end.
    - New intents never get an earlier number.

    `marked` is since when (unix ms) this was not the master for a while, 0 if it always was. `gone`
    are the tags that were lost then. `repairs`: whether the repair queue repairs machines. `roles`
    are the jobs that changed nodes' roles, since the first of ours that did. `others` is the newest
    number of another master's jobs, by default of all.
    """
    trails = [_so_far(trail, now) for trail in trails]
    incidents = {incident.id: incident for incident in ledger.incidents}
    nodes = {node.name: node for node in snapshot.nodes.values()}
    newest_of = newest_of_each(trails)
    for trail in trails:
        identity = trail.purpose.incident
        if identity in incidents or newest_of.get(identity, 0) > ledger.round:
            _take_up(incidents, trail, nodes, now)
    over = {i for i, newest in newest_of.items() if i not in incidents and newest <= ledger.round}
    for node in nodes.values():
        # Canceled last: until a person's cancelation of an ended incident is complete it has both.
        for tag in sorted(node.tags, key=lambda tag: (tag.startswith(_CANCELED), tag)):
            kind, _, identity = tag.rpartition(":")
            if kind != _MARK or identity not in over:  # else maintd is about to remove it
                _take_tag(incidents, tag, node, now)
    for node in nodes.values():
        for tag in sorted(node.tags | {place.tag for place in gone if place.name == node.name}):
            _take_hold(incidents, tag, node, now)
    tags = {place.tag for place in gone}
    for incident in list(incidents.values()):
        marks = nodes[incident.name].tags if incident.name in nodes else ()
        incidents[incident.id] = lost_tags.incident(incident, tags, marks, now)
    holds = _join(incidents, ledger, newest_of)
    _leave_what_was_superseded(incidents, ledger, newest_of, snapshot)
    begun = _begun(ledger, incidents, trails)
    newest = max((parse(t.reason)[1] or 0 for t in trails), default=0)
    if newest > ledger.round:
        _leave_what_was_acknowledged(incidents, nodes)
    intents = tuple(
        intent
        for intent in _intents(ledger, incidents, trails, now)
        if not lost_tags.is_waited_for(intent, gone)
    )
    moved, halts = past_moves.recalled(ledger, trails, snapshot, now, gone)
    used = USED_TAG in snapshot.tags or USED_TAG in tags
    others = newest_of_others(trails) if others is None else others
    since = other_master.since(ledger, marked, others, now, repairs=repairs, used=used)
    recovered = replace(
        ledger,
        round=max(ledger.round, newest) or since,  # it is no longer new
        incidents=tuple(incidents.values()),
        intents=intents,
        holds=holds,
        queue=ledger.queue.in_one_form(),
        begun=begun,
        storm=ledger.storm or _storm(snapshot, now) or lost_tags.storm(gone, now),
        ran=recalled(ledger, trails, snapshot, now),
        shifted=moved,
        halts=halts,
        away=Ms(since),
        outages=job_queue.recalled(ledger, trails, snapshot, roles),
        cuts=_cuts(ledger, trails, now),
    )
    return replace(recovered, holds=lost_tags.holds(recovered, gone, now)) if gone else recovered


def _so_far(trail: Trail, now: Ms) -> Trail:
    """The trail without times in the future: another master's clock was ahead of ours."""
    return replace(trail, at=min(trail.at, now), ended=min(trail.ended, now))


def _cuts(ledger: Ledger, trails: Sequence[Trail], now: Ms) -> tuple[Cut, ...]:
    """The power-offs of the last hour, also those that another master ordered."""
    cuts = {cut.node: cut for cut in ledger.cuts}
    for trail in trails:
        purpose, action = trail.purpose, trail.action
        if not isinstance(purpose, OfFencing) or not isinstance(action, Power):
            continue
        if action.command is not PowerCommand.OFF or now - trail.at >= BURST:
            continue
        cut = cuts.get(purpose.fenced)
        is_known = cut is not None and (parse(trail.reason)[1] or 0) <= ledger.round
        if cut is None or (cut.at < trail.at and not is_known):
            cuts[purpose.fenced] = Cut(purpose.fenced, trail.at)
    return tuple(cuts.values())


def _take_up(incidents: dict[str, Incident], trail: Trail, nodes: dict[str, Node], now: Ms) -> None:
    identity = trail.purpose.incident
    if not identity:
        return
    incident = incidents.get(identity)
    if incident is None:
        name = node_of(trail)
        node = nodes.get(name) if name else None
        if node is None:
            return  # nothing is left to do for a node that is gone
        incident = _rebuilt(identity, node, Status.PENDING, now)
    if trail.job not in incident.jobs:
        incident = replace(incident, jobs=(*incident.jobs, trail.job))
        if incident.status is Status.NOTED:
            incident = incident.after(StatusEvent.STARTED, now)
        failed = trail.result.outcome is Outcome.ERROR
        if incident.status.active and (end := _meant(trail.action, identity)) is not None:
            incident = replace(incident, status=end, changed_at=now, why="from its planned tag")
        elif failed and incident.status is Status.PENDING:
            what = describe(trail.action) if trail.action else "its operation cannot be read"
            why = f"job {trail.job} ({what}) failed: {trail.result.why}"
            incident = incident.after(StatusEvent.JOB_FAILED, now, why)
        elif trail.result.outcome is Outcome.LATER and incident.status is Status.PENDING:
            what = describe(trail.action) if trail.action else "its operation cannot be read"
            incident = cut_off(incident, f"job {trail.job} ({what}): {trail.result.why}", now)
        if trail.result.outcome is Outcome.SUCCESS:
            incident = _done(incident, trail, now)
    incidents[identity] = incident


def _meant(action: Action | None, identity: str) -> Status | None:
    """The end that the planner of this job intended for the incident, whatever the job's result.

    A ready tag ends it itself, once it is set. maintd puts a node back only after a cancelation.
    """
    if isinstance(action, Restore):
        return Status.CANCELED
    ends = [_end_of(tag, identity) for tag in action.add] if isinstance(action, Retag) else []
    return next((end for end in ends if end in (Status.CANCELED, Status.FAILED)), None)


def _done(incident: Incident, trail: Trail, now: Ms) -> Incident:
    match trail.action:
        case Drain() | SetOffline():
            return replace(incident, drained=True)
        case Retag(Scope.NODE, _, add):
            ends = {tag: status for tag in add if (status := _end_of(tag, incident.id))}
            for status in ends.values():
                if incident.status.active:
                    why = "from its tag"
                    incident = replace(incident, status=status, changed_at=now, why=why)
            # Not every answer of the cluster need show a new tag yet.
            shows = incident.tag in ends and now - trail.at > TAG_SHOWS
            return replace(incident, tag_seen=incident.tag_seen or shows)
        case _:
            return incident


def _end_of(tag: str, incident: str) -> Status | None:
    """The end of an incident by its tag; None if the tag means no end."""
    kind, _, identity = tag.rpartition(":")
    status = _ENDED.get(kind) if identity == incident else None
    return None if status is Status.PENDING else status


def _take_tag(incidents: dict[str, Incident], tag: str, node: Node, now: Ms) -> None:
    kind, _, identity = tag.rpartition(":")
    status = _ENDED.get(kind)
    if status is None or not is_identity(identity):
        return
    incident = incidents.get(identity) or _rebuilt(identity, node, status, now)
    if incident.node != node.uuid:
        return  # the tag belongs to another node's incident
    if status is Status.PENDING:
        incidents[identity] = incident
        return
    if incident.status is Status.CANCELED and status is not Status.CANCELED:
        return  # the tag of its end: that of a later cancel may not be set yet
    if incident.status is not status:
        incident = replace(incident, status=status, changed_at=now, why="as its tag says")
    incidents[identity] = replace(incident, tag_seen=True)


def _take_hold(incidents: dict[str, Incident], tag: str, node: Node, now: Ms) -> None:
    """Add an incident that was paused before its start, and has only its hold tag."""
    identity = tag.removeprefix(HOLD_TAG)
    if tag.startswith(HOLD_TAG) and is_identity(identity) and identity not in incidents:
        incidents[identity] = _rebuilt(identity, node, Status.NOTED, now)


def _join(
    incidents: dict[str, Incident], ledger: Ledger, newest_of: Mapping[str, int]
) -> tuple[Hold, ...]:
    """Keep, of two incidents for one diagnosis, the one that another master has worked on.

    Ganeti does not know ours: it is only detected, perhaps with planned actions. Its holds pass to
    the other's name. Return all holds.
    """
    holds = ledger.holds
    for ours in ledger.incidents:
        if not ours.status.active or ours.id in newest_of or incidents[ours.id] != ours:
            continue
        for other in list(incidents.values()):
            rebuilt = other.diagnosis == UNKNOWN and other.node == ours.node
            if rebuilt and is_same(other.id, other.node, ours.diagnosis):
                incidents[other.id] = replace(other, diagnosis=ours.diagnosis)
                incidents.pop(ours.id, None)
                holds = tuple(renamed(h, ours.id, other.id) for h in holds)
    return holds


def _leave_what_was_superseded(
    incidents: dict[str, Incident],
    ledger: Ledger,
    newest_of: Mapping[str, int],
    snapshot: Snapshot,
) -> None:
    """Drop superseded incidents: each node has work for one incident, the newest.

    But a mark proves an order: its incident must not become a new one.
    """
    known = {incident.id for incident in ledger.incidents}
    marks = {tag for node in snapshot.nodes.values() for tag in node.tags}
    newest: dict[str, int] = {}
    for identity, incident in incidents.items():
        newest[incident.node] = max(newest_of.get(identity, 0), newest.get(incident.node, 0))
    for old in list(incidents.values()):
        rebuilt = old.id not in known and old.status is Status.PENDING and old.mark not in marks
        if not rebuilt or newest_of.get(old.id, 0) == newest[old.node]:
            continue
        del incidents[old.id]
        for heir in list(incidents.values()):
            if heir.node == old.node and heir.status is Status.PENDING and heir.id not in known:
                incidents[heir.id] = replace(heir, drained=heir.drained or old.drained)


def _leave_what_was_acknowledged(incidents: dict[str, Incident], nodes: dict[str, Node]) -> None:
    """Drop closed incidents after another master's work or a loss of the ledger.

    Otherwise `forget` closes them; it also does if a repair's mark is still there, and removes the
    mark.
    """
    for old in list(incidents.values()):
        node = nodes.get(old.name)
        tagged = node is not None and not node.tags.isdisjoint((old.tag, old.mark))
        if old.status is Status.COMPLETED and old.tag_seen and not tagged:
            del incidents[old.id]


def _rebuilt(identity: str, node: Node, status: Status, now: Ms) -> Incident:
    return Incident(
        identity,
        node.uuid,
        node.name,
        UNKNOWN,
        min(noted_when(identity), now),
        status=status,
        seen_at=now,
        changed_at=now,
    )


def _intents(
    ledger: Ledger, incidents: dict[str, Incident], trails: Sequence[Trail], now: Ms
) -> tuple[Intent, ...]:
    """The ledger's intents, and unknown jobs that still run or whose effect does not show yet."""
    kept = list(ledger.intents)
    known = {intent.reason for intent in kept}
    for trail in trails:
        purpose, number = parse(trail.reason)
        if number is None or trail.action is None or trail.reason in known:
            continue
        just = number > ledger.round and _is_just_tagged(trail, now)
        if (just or trail.result.outcome is Outcome.RUNNING) and (
            not purpose.incident or purpose.incident in incidents
        ):
            # The number of an unknown entry may be used again.
            purpose = OfTags() if isinstance(purpose, OfEntry) else purpose
            node, job = node_of(trail) or "", trail.job
            kept.append(Intent(str(number), purpose, node, trail.action, job, promised=trail.at))
    return tuple(kept)


def _is_just_tagged(trail: Trail, now: Ms) -> bool:
    done = trail.result.outcome is Outcome.SUCCESS and isinstance(trail.action, Retag)
    return done and not trail.purpose.repair and now - trail.at <= TAG_SHOWS


def _begun(
    ledger: Ledger, incidents: dict[str, Incident], trails: Sequence[Trail]
) -> tuple[Begun, ...]:
    """Incidents started, as of their first jobs; an unknown need counts as the worst."""
    known = {begun.incident for begun in ledger.begun}
    first: dict[str, int] = {}
    for trail in trails:
        identity = trail.purpose.incident
        if identity and not only_cancels(trail):
            first[identity] = min(trail.at, first.get(identity, trail.at))
    new = [
        Begun(
            i.node, Ms(first[i.id]), i.id, i.diagnosis.need if i.diagnosis != UNKNOWN else max(Need)
        )
        for i in incidents.values()
        if i.id not in known and i.status is not Status.NOTED and i.jobs and i.id in first
    ]
    return (*ledger.begun, *new)


def _storm(snapshot: Snapshot, now: Ms) -> Storm | None:
    return Storm(now, f"cluster tag {STORM_TAG}") if STORM_TAG in snapshot.tags else None
