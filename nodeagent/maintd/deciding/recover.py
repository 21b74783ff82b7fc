"""Rebuild a lost or outdated ledger from Ganeti's tags and jobs. Pure.

Tags say how incidents have ended, the jobs' reason trails which ones were started and what was
planned. An incident's id says when it was detected, and helps to recognize its diagnosis.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

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
)
from nodeagent.model.diagnosis import Need
from nodeagent.model.fencing import BURST, Cut
from nodeagent.model.incident import (
    CANCELED_TAG,
    UNKNOWN,
    Incident,
    Status,
    StatusEvent,
    is_same,
    shown_by,
)
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
from nodeagent.model.timed_id import moment_of
from nodeagent.model.units import Ms


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
    tags = {place.tag for place in gone}
    newest = max((parse(trail.reason)[1] or 0 for trail in trails), default=0)
    known = _Incidents(ledger, trails, snapshot, now)
    known.take_jobs()
    known.take_tags()
    known.take_holds(gone)
    known.open_again(tags)
    holds = known.join()
    known.leave_superseded()
    begun = known.begun()
    if newest > ledger.round:
        known.leave_acknowledged()
    moved, halts = past_moves.recalled(ledger, trails, snapshot, now, gone)
    used = USED_TAG in snapshot.tags or USED_TAG in tags
    others = newest_of_others(trails) if others is None else others
    since = other_master.since(ledger, marked, others, now, repairs=repairs, used=used)
    recovered = replace(
        ledger,
        round=max(ledger.round, newest) or since,  # it is no longer new
        incidents=tuple(known.by_id.values()),
        intents=tuple(i for i in known.intents() if not lost_tags.is_waited_for(i, gone)),
        holds=holds,
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


def _storm(snapshot: Snapshot, now: Ms) -> Storm | None:
    return Storm(now, f"cluster tag {STORM_TAG}") if STORM_TAG in snapshot.tags else None


@dataclass
class _Incidents:
    """The ledger's incidents, by id, as each step corrects them by what Ganeti knows.

    `over` are those of which the ledger knows the newest job, but not themselves.
    """

    ledger: Ledger
    trails: Sequence[Trail]
    snapshot: Snapshot
    now: Ms

    def __post_init__(self) -> None:
        self.by_id = {incident.id: incident for incident in self.ledger.incidents}
        self.newest_of = newest_of_each(self.trails)
        old = {i for i, newest in self.newest_of.items() if newest <= self.ledger.round}
        self.over = old - self.by_id.keys()

    def _rebuilt(self, identity: str, node: Node, status: Status) -> Incident:
        return Incident(
            identity,
            node.uuid,
            node.name,
            UNKNOWN,
            min(moment_of(identity), self.now),
            status=status,
            seen_at=self.now,
            changed_at=self.now,
        )

    # Take up what Ganeti knows.

    def take_jobs(self) -> None:
        for trail in self.trails:
            identity = trail.purpose.incident
            if not identity or identity in self.over:
                continue
            incident = self.by_id.get(identity)
            if incident is None:
                node = self.snapshot.nodes.get(node_of(trail) or "")
                if node is None:
                    continue  # nothing is left to do for a node that is gone
                incident = self._rebuilt(identity, node, Status.PENDING)
            if trail.job not in incident.jobs:
                incident = _after_job(incident, trail, self.now)
            self.by_id[identity] = incident

    def take_tags(self) -> None:
        """Take up the tags of incidents, but marks of those that are over: maintd removes these.

        Canceled last: until a person's cancelation of an ended incident is complete it has both.
        """
        for node in self.snapshot.nodes.values():
            for tag in sorted(node.tags, key=lambda tag: (tag.startswith(CANCELED_TAG), tag)):
                status, identity = shown_by(tag)
                if status is None or not is_identity(identity):
                    continue
                if status is not Status.PENDING or identity not in self.over:
                    self._take_tag(identity, status, node)

    def _take_tag(self, identity: str, status: Status, node: Node) -> None:
        incident = self.by_id.get(identity) or self._rebuilt(identity, node, status)
        if incident.node != node.uuid:
            return  # the tag belongs to another node's incident
        if status is Status.PENDING:
            self.by_id[identity] = incident
            return
        if incident.status is Status.CANCELED and status is not Status.CANCELED:
            return  # the tag of its end: that of a later cancel may not be set yet
        if incident.status is not status:
            why = "as its tag says"
            incident = replace(incident, status=status, changed_at=self.now, why=why)
        self.by_id[identity] = replace(incident, tag_seen=True)

    def take_holds(self, gone: Collection[TagPlace]) -> None:
        """Add incidents that were paused before their start, and have only their hold tags."""
        for node in self.snapshot.nodes.values():
            lost = {place.tag for place in gone if place.name == node.name}
            for tag in sorted(node.tags | lost):
                identity = tag.removeprefix(HOLD_TAG)
                if tag.startswith(HOLD_TAG) and is_identity(identity):
                    self.by_id.setdefault(identity, self._rebuilt(identity, node, Status.NOTED))

    def open_again(self, tags: Collection[str]) -> None:
        """Go on with incidents whose ends were lost with these tags."""
        for identity, incident in self.by_id.items():
            node = self.snapshot.nodes.get(incident.name)
            marks = node.tags if node is not None else ()
            self.by_id[identity] = lost_tags.incident(incident, tags, marks, self.now)

    # Leave out.

    def join(self) -> tuple[Hold, ...]:
        """Keep, of two incidents for one diagnosis, the one that another master has worked on.

        Ganeti does not know ours: it is only detected, perhaps with planned actions. Its holds pass
        to the other's name. Return all holds.
        """
        holds = self.ledger.holds
        for ours in self.ledger.incidents:
            untouched = ours.id not in self.newest_of and self.by_id[ours.id] == ours
            if not (ours.status.active and untouched):
                continue
            for other in list(self.by_id.values()):
                rebuilt = other.diagnosis == UNKNOWN and other.node == ours.node
                if rebuilt and is_same(other.id, other.node, ours.diagnosis):
                    self.by_id[other.id] = replace(other, diagnosis=ours.diagnosis)
                    self.by_id.pop(ours.id, None)
                    holds = tuple(renamed(hold, ours.id, other.id) for hold in holds)
        return holds

    def leave_superseded(self) -> None:
        """Drop superseded incidents: each node has work for one incident, the newest.

        But a mark proves an order: its incident must not become a new one.
        """
        known = {incident.id for incident in self.ledger.incidents}
        marks = {tag for node in self.snapshot.nodes.values() for tag in node.tags}
        newest: dict[str, int] = {}
        for identity, incident in self.by_id.items():
            at = self.newest_of.get(identity, 0)
            newest[incident.node] = max(at, newest.get(incident.node, 0))
        for old in list(self.by_id.values()):
            rebuilt = old.id not in known and old.status is Status.PENDING and old.mark not in marks
            if not rebuilt or self.newest_of.get(old.id, 0) == newest[old.node]:
                continue
            del self.by_id[old.id]
            for heir in list(self.by_id.values()):
                new = heir.status is Status.PENDING and heir.id not in known
                if new and heir.node == old.node:
                    self.by_id[heir.id] = replace(heir, drained=heir.drained or old.drained)

    def leave_acknowledged(self) -> None:
        """Drop closed incidents after another master's work or a loss of the ledger.

        Otherwise `forget` closes them; it also does if a repair's mark is still there, and removes
        the mark.
        """
        for old in list(self.by_id.values()):
            node = self.snapshot.nodes.get(old.name)
            tagged = node is not None and not node.tags.isdisjoint((old.tag, old.mark))
            if old.status is Status.COMPLETED and old.tag_seen and not tagged:
                del self.by_id[old.id]

    # What else follows.

    def begun(self) -> tuple[Begun, ...]:
        """Incidents started, as of their first jobs; an unknown need counts as the worst."""
        known = {begun.incident for begun in self.ledger.begun}
        first: dict[str, Ms] = {}
        for trail in self.trails:
            identity = trail.purpose.incident
            if identity and not only_cancels(trail):
                first[identity] = min(trail.at, first.get(identity, trail.at))
        new = [
            Begun(
                incident.node,
                first[incident.id],
                incident.id,
                max(Need) if incident.diagnosis == UNKNOWN else incident.diagnosis.need,
            )
            for incident in self.by_id.values()
            if incident.id in first and incident.id not in known
            if incident.status is not Status.NOTED and incident.jobs
        ]
        return (*self.ledger.begun, *new)

    def intents(self) -> list[Intent]:
        """The ledger's intents, and unknown jobs that still run or whose effect may not show."""
        kept = list(self.ledger.intents)
        known = {intent.reason for intent in kept}
        for trail in self.trails:
            purpose, number = parse(trail.reason)
            if number is None or trail.action is None or trail.reason in known:
                continue
            just = number > self.ledger.round and _is_just_tagged(trail, self.now)
            if not (just or trail.result.outcome is Outcome.RUNNING):
                continue
            if purpose.incident and purpose.incident not in self.by_id:
                continue
            # The number of an unknown entry may be used again.
            purpose = OfTags() if isinstance(purpose, OfEntry) else purpose
            node, at = node_of(trail) or "", trail.at
            kept.append(Intent(str(number), purpose, node, trail.action, trail.job, promised=at))
        return kept


def _after_job(incident: Incident, trail: Trail, now: Ms) -> Incident:
    """The incident after one of its jobs that the ledger did not know."""
    outcome, failure = trail.result.outcome, f"job {trail.job} ({trail.words})"
    incident = replace(incident, jobs=(*incident.jobs, trail.job))
    if incident.status is Status.NOTED:
        incident = incident.after(StatusEvent.STARTED, now)
    if incident.status is Status.PENDING:
        if (end := _meant(trail.action, incident.id)) is not None:
            incident = replace(incident, status=end, changed_at=now, why="from its planned tag")
        elif outcome is Outcome.ERROR:
            why = f"{failure} failed: {trail.result.why}"
            incident = incident.after(StatusEvent.JOB_FAILED, now, why)
        elif outcome is Outcome.LATER:
            incident = cut_off(incident, f"{failure}: {trail.result.why}", now)
    return _done(incident, trail, now) if outcome is Outcome.SUCCESS else incident


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
    status, identity = shown_by(tag)
    return None if status is Status.PENDING or identity != incident else status


def _is_just_tagged(trail: Trail, now: Ms) -> bool:
    done = trail.result.outcome is Outcome.SUCCESS and isinstance(trail.action, Retag)
    return done and not trail.purpose.repair and now - trail.at <= TAG_SHOWS
