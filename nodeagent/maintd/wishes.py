"""Granting what administrators ask for, and keeping holds and their tags alike. Pure.

Cancels and holds are Ganeti tags too, so that they outlive this master and its ledger, and
can be set and taken back with Ganeti's own commands.
"""

from collections.abc import Callable
from dataclasses import replace

from nodeagent.maintd.balancing import requests as agenda
from nodeagent.maintd.incidents.lifecycle import worst_per_node
from nodeagent.maintd.late import too_late
from nodeagent.maintd.ledger import other_master as away
from nodeagent.maintd.owners import offers
from nodeagent.maintd.planning.effects import tags_of
from nodeagent.maintd.queue import entries
from nodeagent.maintd.windows import plan as downtime
from nodeagent.maintd.windows import schedule as windows
from nodeagent.maintd.windows import series
from nodeagent.model.action import Retag, Scope
from nodeagent.model.diagnosis import Need
from nodeagent.model.incident import Event, Incident, Status
from nodeagent.model.ledger import (
    HOLD_TAG,
    PAUSE_TAG,
    STORM_TAG,
    USED_TAG,
    Hold,
    Intent,
    Ledger,
    Outcome,
    Policy,
)
from nodeagent.model.offer import AnswerOffers
from nodeagent.model.queue import QueueWish
from nodeagent.model.snapshot import Node, Observed, Snapshot
from nodeagent.model.wish import (
    AddSeries,
    Asked,
    Balance,
    BringUp,
    Cancel,
    EditSeries,
    EndSeries,
    Pause,
    ResetStorm,
    Resume,
    Retry,
    SetSchedule,
    StopBalancing,
    TakeDown,
    TrustLedger,
    Wish,
)

GO_TAG = "maintd:pause:no"


def grant(
    ledger: Ledger, observed: Observed, now: int, policy: Policy
) -> tuple[Ledger, dict[str, str]]:
    """Grant each wish, or say by its id why not."""
    refused: dict[str, str] = {}
    for wish in observed.wishes:
        answer = too_late(wish, now) or _grant_one(wish, wish.asked, ledger, observed, now, policy)
        if isinstance(answer, str):
            refused[wish.id] = answer
        else:
            ledger = answer
    return ledger, refused


def _grant_one(
    wish: Wish, asked: Asked, ledger: Ledger, observed: Observed, now: int, policy: Policy
) -> Ledger | str:
    match asked:
        case Cancel(identity):
            return _on_incident(ledger, identity, lambda incident: _cancel(incident, wish.who, now))
        case Retry(identity):
            return _retry(ledger, identity, observed)
        case Pause(scope, name, why, identity):
            return _pause(ledger, Hold(scope, name, wish.who, now, why, identity), observed)
        case Resume(scope, name, identity):
            return _resume(ledger, scope, name, identity, observed, now)
        case ResetStorm():
            if ledger.storm is None:
                return "the storm brake has not tripped"
            return replace(ledger, storm=None, calm=now)
        case TrustLedger():
            if not ledger.away:
                return "nothing of what is planned waits for that"
            return replace(ledger, away=0)
        case Balance():
            return agenda.grant(ledger, asked, wish.who, observed, now)
        case StopBalancing(group):
            return agenda.stop(ledger, group, observed.snapshot)
        case AnswerOffers():
            return offers.grant(ledger, asked, wish.who, now)
        case SetSchedule() | TakeDown() | BringUp():
            # Not by what owners have answered to something else, a round or a wish ago.
            asking = _asking(ledger, observed, now) if isinstance(asked, TakeDown) else ledger
            after = windows.grant(asking, asked, observed, now)
            return after if isinstance(after, str) else _asking(after, observed, now)
        case AddSeries() | EditSeries() | EndSeries():
            return series.grant(ledger, asked, (wish.id, wish.who), observed, now)
        case _:
            of_queue: QueueWish = asked
            return entries.grant(ledger, of_queue, wish.who, observed, policy, now)


def _asking(ledger: Ledger, observed: Observed, now: int) -> Ledger:
    """With the offers as the schedule and the instances are now."""
    snapshot = observed.snapshot
    return offers.ask(downtime.recognise(ledger, snapshot), snapshot, now)


def _on_incident(
    ledger: Ledger, identity: str, change: Callable[[Incident], Incident | str]
) -> Ledger | str:
    incident = ledger.incident(identity)
    if incident is None:
        return f"there is no incident {identity}"
    changed = change(incident)
    if isinstance(changed, str):
        return changed
    return replace(
        ledger, incidents=tuple(changed if i.id == identity else i for i in ledger.incidents)
    )


def _cancel(incident: Incident, who: str, now: int) -> Incident | str:
    if incident.status is Status.CANCELED:
        return incident
    if not incident.status.active:
        return (
            f"it is {incident.status.value} already: remove its tag {incident.tag}"
            f" from {incident.name} to acknowledge it"
        )
    canceled = incident.after(Event.CANCELED, now, f"canceled by {who}")
    # What has left jobs behind would be taken up by them without a ledger: it is told.
    return replace(canceled, seen_at=now) if incident.jobs else canceled


def _retry(ledger: Ledger, identity: str, observed: Observed) -> Ledger | str:
    if ledger.incident(identity) is None:
        return f"there is no incident {identity}"
    lost = {
        i.id
        for i in ledger.intents
        if i.incident == identity
        and (result := observed.results.get(i.id)) is not None
        and result.outcome is Outcome.LOST
    }
    if not lost:
        return "none of its jobs is lost; there is nothing to let go of"
    return replace(ledger, intents=tuple(i for i in ledger.intents if i.id not in lost))


def _pause(ledger: Ledger, hold: Hold, observed: Observed) -> Ledger | str:
    if hold.incident:
        incident = ledger.incident(hold.incident)
        if incident is None:
            return f"there is no incident {hold.incident}"
        hold = replace(hold, scope=Scope.NODE, name=incident.name)
    elif tags_of(hold.scope, hold.name, observed.snapshot) is None:
        return f"there is no {_kind(hold.scope)} {hold.name}"
    if any(_same(hold, other) for other in ledger.holds):
        return ledger
    return replace(ledger, holds=(*ledger.holds, hold))


def _resume(
    ledger: Ledger, scope: Scope, name: str, identity: str, observed: Observed, now: int
) -> Ledger | str:
    if identity:
        incident = ledger.incident(identity)
        if incident is None:
            return f"there is no incident {identity}"
        scope, name = Scope.NODE, incident.name
    wanted = Hold(scope, name, "", 0, incident=identity)
    here = [hold for hold in ledger.holds if _same(hold, wanted)]
    tagged = wanted.tag in (tags_of(scope, name, observed.snapshot) or ())
    setting = any(_sets(intent, wanted) for intent in ledger.intents)
    if not here and not tagged:
        if tags_of(scope, name, observed.snapshot) is None:
            return f"there is no {_kind(scope)} {name}"
        where = f"{_kind(scope)} {name}" if name else "the cluster"
        return f"{f'incident {identity}' if identity else where} is not paused"
    ledger = replace(ledger, holds=tuple(h for h in ledger.holds if not _same(h, wanted)))
    if tagged:
        ledger = ledger.promise("", name, Retag(scope, name, remove=(wanted.tag,)), now)
    elif setting:  # it cannot be taken off before it is there
        ledger = replace(ledger, resumed=(*ledger.resumed, wanted))
    return ledger


def _sets(intent: Intent, hold: Hold) -> bool:
    """Whether a job is to set the tag of a hold."""
    action = intent.action
    return (
        isinstance(action, Retag)
        and (action.scope, action.name) == (hold.scope, hold.name)
        and hold.tag in action.add
    )


def _same(one: Hold, other: Hold) -> bool:
    return (one.scope, one.name, one.incident) == (other.scope, other.name, other.incident)


def keep_tags(ledger: Ledger, observed: Observed, now: int) -> Ledger:
    """Promise the tags that are still to be set or taken off for holds and ended incidents.

    And the one that tells for ever that there is a repair queue.
    """
    snapshot = observed.snapshot
    ledger = _without_lost(ledger, observed)
    under_way = {
        tag
        for intent in ledger.intents
        if isinstance(intent.action, Retag)
        for tag in (*intent.action.add, *intent.action.remove)
    }
    may = ledger.tags_after <= now
    ledger = _untag_resumed(ledger, snapshot, now) if may else ledger
    for hold in ledger.holds if may else ():
        tags = tags_of(hold.scope, hold.name, snapshot) or ()
        if hold.tag not in tags and hold.tag not in under_way:
            action = Retag(hold.scope, hold.name, add=(hold.tag,))
            ledger = ledger.promise("", hold.name, action, now)
    tripped = ledger.storm is not None
    if may and tripped != (STORM_TAG in snapshot.tags) and STORM_TAG not in under_way:
        add, remove = ((STORM_TAG,), ()) if tripped else ((), (STORM_TAG,))
        ledger = ledger.promise("", "", Retag(Scope.CLUSTER, "", add, remove), now)
    told = USED_TAG in snapshot.tags or USED_TAG in under_way
    if may and not told and away.is_used(ledger.queue):
        ledger = ledger.promise("", "", Retag(Scope.CLUSTER, "", add=(USED_TAG,)), now)
    return _tag_ended(ledger, observed, under_way, now)


def _untag_resumed(ledger: Ledger, snapshot: Snapshot, now: int) -> Ledger:
    """Take off what was still to be set when its pause was taken back, once it is there."""
    kept: list[Hold] = []
    for hold in ledger.resumed:
        if any(_same(hold, other) for other in ledger.holds):
            continue  # it is paused again
        if any(_sets(intent, hold) for intent in ledger.intents):
            kept.append(hold)
        elif hold.tag in (tags_of(hold.scope, hold.name, snapshot) or ()):
            action = Retag(hold.scope, hold.name, remove=(hold.tag,))
            ledger = ledger.promise("", hold.name, action, now)
    return replace(ledger, resumed=tuple(kept)) if ledger.resumed else ledger


def _without_lost(ledger: Ledger, observed: Observed) -> Ledger:
    """A lost job that serves no incident can be let go of by nobody; it is promised anew."""
    lost = {
        i.id
        for i in ledger.intents
        if not (i.incident or i.group or i.entry or i.window)
        and (result := observed.results.get(i.id)) is not None
        and result.outcome is Outcome.LOST
    }
    if not lost:
        return ledger
    return replace(ledger, intents=tuple(i for i in ledger.intents if i.id not in lost))


def release(ledger: Ledger, snapshot: Snapshot) -> Ledger:
    """Let go of holds whose tag somebody has removed, or that lay on something that is gone.

    A tag that a job is still to take off is of a pause before: nobody has seen that of this one.
    """
    going = {
        (action.scope, action.name, tag)
        for intent in ledger.intents
        if isinstance(action := intent.action, Retag)
        for tag in action.remove
    }
    holds: list[Hold] = []
    for hold in ledger.holds:
        tags = tags_of(hold.scope, hold.name, snapshot)
        if tags is None or (hold.tag_seen and hold.tag not in tags):
            continue
        seen = hold.tag in tags and (hold.scope, hold.name, hold.tag) not in going
        holds.append(replace(hold, tag_seen=hold.tag_seen or seen))
    return replace(ledger, holds=tuple(holds)) if ledger.holds else ledger


def _tag_ended(ledger: Ledger, observed: Observed, under_way: set[str], now: int) -> Ledger:
    nodes = {node.uuid: node for node in observed.snapshot.nodes.values()}
    working = {intent.incident for intent in ledger.intents}
    for incident in ledger.incidents:
        node = nodes.get(incident.node)
        final = incident.status in (Status.FAILED, Status.CANCELED)
        if node is None or not final or incident.tag_seen or incident.tag in under_way:
            continue
        # A failure is told when all its jobs are over; a cancel at once.
        # Of a cancel nobody need be told who could not observe it any more.
        waits = (
            incident.id in working if incident.status is Status.FAILED else (incident.seen_at < now)
        )
        if incident.tag not in node.tags and not waits and incident.not_before <= now:
            action = Retag(Scope.NODE, node.name, add=(incident.tag,))
            ledger = ledger.promise(incident.id, node.name, action, now)
    ledger = _tag_repaired(ledger, observed, nodes, now)
    if ledger.tags_after > now:
        return ledger
    return _untag_forgotten(ledger, observed, under_way, now)


def _tag_repaired(ledger: Ledger, observed: Observed, nodes: dict[str, Node], now: int) -> Ledger:
    """A live repair that is done waits for nothing worse at its node: it needs only its tag."""
    working = {intent.incident for intent in ledger.intents}
    worst = worst_per_node(ledger)
    held = held_incidents(ledger, observed.snapshot)
    for incident in ledger.incidents:
        done = incident.status is Status.PENDING and incident.repaired
        if not done or worst.get(incident.node) == incident or incident.id in working | held.keys():
            continue
        node = nodes.get(incident.node)
        if node is not None and node.name not in observed.doubts and incident.not_before <= now:
            action = Retag(Scope.NODE, node.name, add=(incident.tag,))
            ledger = ledger.promise(incident.id, node.name, action, now)
    return ledger


def _untag_forgotten(ledger: Ledger, observed: Observed, under_way: set[str], now: int) -> Ledger:
    """Take off what only told of incidents that are forgotten, or of repairs that have failed.

    The mark of a repair that is done stays until then: of one that was acknowledged while its
    fault lasts nothing else tells a maintd without memory that it is not to be done again. A
    hold stays as long as its node may need anything: `withdraw` passes it on.
    """
    nodes = observed.snapshot.nodes
    known = {incident.id for incident in ledger.incidents}
    marked = {
        incident.id
        for incident in ledger.incidents
        if incident.status.active or incident.status is Status.COMPLETED
    }
    told = {"maintd:canceled": known, "maintd:hold": known, "maintd:repairing": marked}
    for node in nodes.values():
        for tag in sorted(node.tags):
            kind, _, identity = tag.rpartition(":")
            if kind not in told or identity in told[kind] or tag in under_way:
                continue
            said = observed.diagnoses.get(node.name)
            well = said is not None and said.need is Need.OK
            if kind != "maintd:hold" or well:
                action = Retag(Scope.NODE, node.name, remove=(tag,))
                ledger = ledger.promise("", node.name, action, now)
    return ledger


def paused(ledger: Ledger, snapshot: Snapshot) -> dict[str, str]:
    """Why nothing may be begun, by node name: the nearest of node, group and cluster decides."""
    said = {(hold.scope, hold.name): _words(hold) for hold in ledger.holds if not hold.incident}
    whole = wholly_paused(ledger, snapshot)
    groups: dict[str, str] = {}
    for group in snapshot.groups.values():
        here = said.get((Scope.GROUP, group.name)) or _tagged(group.tags, f"group {group.name}")
        groups[group.uuid] = whole if here is None else here
    found: dict[str, str] = {}
    for name, node in snapshot.nodes.items():
        here = said.get((Scope.NODE, name)) or _tagged(node.tags, f"node {name}")
        why = groups.get(node.group, whole) if here is None else here
        if why:
            found[name] = why
    return found


def wholly_paused(ledger: Ledger, snapshot: Snapshot) -> str:
    """Why nothing may be begun in the cluster, its own word alone; "" if it may."""
    for hold in ledger.holds:
        if hold.scope is Scope.CLUSTER and not hold.incident:
            return _words(hold)
    return f"the cluster has the tag {PAUSE_TAG}" if PAUSE_TAG in snapshot.tags else ""


def _tagged(tags: frozenset[str], where: str) -> str | None:
    """Why it is paused by a tag; "" if it is not, by a tag; None if no tag says anything."""
    if PAUSE_TAG in tags:
        return f"{where} has the tag {PAUSE_TAG}"
    return "" if GO_TAG in tags else None


def held_incidents(ledger: Ledger, snapshot: Snapshot) -> dict[str, str]:
    """Why an incident may not go on, by its id."""
    found = {
        tag.removeprefix(HOLD_TAG): f"node {name} has the tag {tag}"
        for name, node in snapshot.nodes.items()
        for tag in node.tags
        if tag.startswith(HOLD_TAG)
    }
    return found | {hold.incident: _words(hold) for hold in ledger.holds if hold.incident}


def _words(hold: Hold) -> str:
    what = "incident" if hold.incident else _kind(hold.scope)
    return f"{what} paused by {hold.who}" + (f": {hold.why}" if hold.why else "")


def _kind(scope: Scope) -> str:
    """A place as people call it, and as `gnt-maint pause` does."""
    return "group" if scope is Scope.GROUP else scope.value
