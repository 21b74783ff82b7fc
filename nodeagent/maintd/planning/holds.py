"""Pauses and holds, and the Ganeti tags with the same meaning. Pure."""

from collections.abc import Collection
from dataclasses import replace

from nodeagent.maintd.planning.effects import tags_of
from nodeagent.maintd.planning.intents import tags_removed, tags_set, tags_under_way, without_claim
from nodeagent.maintd.planning.names import no_such
from nodeagent.maintd.planning.times import rfc3339
from nodeagent.model.action import Retag, Scope
from nodeagent.model.ledger import HOLD_TAG, PAUSE_TAG, Hold, Ledger
from nodeagent.model.purpose import OfTags
from nodeagent.model.reason import Kind, Of, Reason, because
from nodeagent.model.snapshot import Observed, Snapshot
from nodeagent.model.tag import place_words
from nodeagent.model.units import Ms

GO_TAG = "maintd:pause:no"
_NAMED = 3  # other pauses in a refusal
OF_SCOPE = {
    Scope.CLUSTER: (Of.CLUSTER, "gnt-cluster"),
    Scope.GROUP: (Of.GROUP, "gnt-group"),
    Scope.NODE: (Of.NODE, "gnt-node"),
    Scope.INSTANCE: (Of.INSTANCE, "gnt-instance"),
}


def pause(ledger: Ledger, hold: Hold, observed: Observed, *, force: bool) -> Ledger | str:
    """Add a pause; only `force` replaces one that is already there."""
    if hold.incident:
        incident = ledger.incident(hold.incident)
        if incident is None:
            return no_such("incident", hold.incident)
        hold = replace(hold, scope=Scope.NODE, name=incident.name)
    elif tags_of(hold.scope, hold.name, observed.snapshot) is None:
        return no_such(_kind(hold.scope), hold.name)
    existing = next((other for other in ledger.holds if other.place == hold.place), None)
    by_hand = hold.tag in (tags_of(hold.scope, hold.name, observed.snapshot) or ())
    going = {ended.place for ended in ledger.resumed} | tags_removed(ledger)
    if not force and (existing or (by_hand and hold.place not in going)):
        how = f"by {existing.who}" if existing else f"by its tag {hold.tag}"
        how += f" ({existing.why})" if existing and existing.why else ""
        return f"{_where(hold)} is paused already {how}: insist with gnt-maint pause --force"
    if existing is not None:
        hold = replace(hold, tag_seen=existing.tag_seen)
    return replace(ledger, holds=(*(h for h in ledger.holds if h is not existing), hold))


def resume(
    ledger: Ledger, scope: Scope, name: str, identity: str, observed: Observed, now: Ms
) -> Ledger | str:
    if identity:
        incident = ledger.incident(identity)
        if incident is None:
            return no_such("incident", identity)
        scope, name = Scope.NODE, incident.name
    wanted = Hold(scope, name, "", Ms(0), incident=identity)
    here = [hold for hold in ledger.holds if hold.place == wanted.place]
    tagged = wanted.tag in (tags_of(scope, name, observed.snapshot) or ())
    if not here and not tagged:
        if tags_of(scope, name, observed.snapshot) is None:
            return no_such(_kind(scope), name)
        others = ", ".join(_where(hold) for hold in ledger.holds[:_NAMED])
        also = f"; these are: {others}: see gnt-maint status" if others else ""
        return f"{_where(wanted)} is not paused{also}"
    ledger = replace(ledger, holds=tuple(hold for hold in ledger.holds if hold not in here))
    if tagged:
        action = Retag(scope, name, remove=(wanted.tag,))
        ledger = without_claim(ledger, OfTags(), action, now, name)
    elif wanted.place in tags_set(ledger):  # the tag must be set before it can be removed
        ledger = replace(ledger, resumed=(*ledger.resumed, wanted))
    return ledger


def expire(ledger: Ledger, now: Ms) -> Ledger:
    """End the pauses whose time is over; maintd removes their tags as with `resume`.

    While another master may have paused anew since, none ends.
    """
    if ledger.away:
        return ledger
    over = tuple(hold for hold in ledger.holds if hold.until and hold.until <= now)
    if not over:
        return ledger
    holds = tuple(hold for hold in ledger.holds if hold not in over)
    return replace(ledger, holds=holds, resumed=(*ledger.resumed, *over))


def untag_resumed(ledger: Ledger, snapshot: Snapshot, now: Ms) -> Ledger:
    """Remove the tags of ended pauses, once they are set, until they are gone."""
    kept: list[Hold] = []
    again, under_way = {hold.place for hold in ledger.holds}, tags_under_way(ledger)
    for hold in ledger.resumed:
        if hold.place in again:
            continue
        if hold.place in under_way:
            kept.append(hold)
        elif hold.tag in (tags_of(hold.scope, hold.name, snapshot) or ()):
            kept.append(hold)  # the job may fail
            under_way.add(hold.place)
            action = Retag(hold.scope, hold.name, remove=(hold.tag,))
            ledger = without_claim(ledger, OfTags(), action, now, hold.name)
    return replace(ledger, resumed=tuple(kept)) if ledger.resumed else ledger


def release(ledger: Ledger, snapshot: Snapshot) -> Ledger:
    """Drop holds whose tag somebody has removed, or whose object is gone.

    A tag that a job is still to remove belongs to an earlier pause, not to this one.
    """
    going, holds = tags_removed(ledger), list[Hold]()
    for hold in ledger.holds:
        tags = tags_of(hold.scope, hold.name, snapshot)
        if tags is None or (hold.tag_seen and hold.tag not in tags):
            continue
        seen = hold.tag in tags and hold.place not in going
        holds.append(replace(hold, tag_seen=hold.tag_seen or seen))
    return replace(ledger, holds=tuple(holds)) if ledger.holds else ledger


def paused(ledger: Ledger, snapshot: Snapshot) -> dict[str, Reason]:
    """Why no work may start, by node name: the nearest of node, group and cluster decides."""
    requested = {
        (hold.scope, hold.name): _words(hold) for hold in ledger.holds if not hold.incident
    }
    ended = _ended(ledger)
    whole = wholly_paused(ledger, snapshot)
    groups: dict[str, Reason | None] = {}
    for group in snapshot.groups.values():
        here = requested.get((Scope.GROUP, group.name))
        groups[group.uuid] = here or _nearest(group.tags, Scope.GROUP, group.name, ended, whole)
    reasons: dict[str, Reason] = {}
    for name, node in snapshot.nodes.items():
        here = requested.get((Scope.NODE, name))
        farther = groups.get(node.group, whole)
        if why := here or _nearest(node.tags, Scope.NODE, name, ended, farther):
            reasons[name] = why
    return reasons


def wholly_paused(ledger: Ledger, snapshot: Snapshot) -> Reason | None:
    """Why no work may start in the whole cluster; None if it may."""
    for hold in ledger.holds:
        if hold.scope is Scope.CLUSTER and not hold.incident:
            return _words(hold)
    return _nearest(snapshot.tags, Scope.CLUSTER, "", _ended(ledger), None)


def _ended(ledger: Ledger) -> set[tuple[Scope, str]]:
    """The objects whose pause has ended, and whose tag is still to go."""
    return {(hold.scope, hold.name) for hold in ledger.resumed if not hold.incident}


def _nearest(
    tags: frozenset[str],
    scope: Scope,
    name: str,
    ended: Collection[tuple[Scope, str]],
    farther: Reason | None,
) -> Reason | None:
    """Why it is paused, by its own tag or else from farther away; None if it is not."""
    if PAUSE_TAG in tags and (scope, name) in ended:
        of, _ = OF_SCOPE[scope]
        return because(Kind.PAUSE_ENDED, name, of, tag=PAUSE_TAG)
    if PAUSE_TAG in tags:
        return tagged(scope, name, PAUSE_TAG)
    return None if GO_TAG in tags else farther


def tagged(scope: Scope, name: str, tag: str) -> Reason:
    """Why no work starts on an object with this tag."""
    of, command = OF_SCOPE[scope]
    return because(Kind.TAGGED, name, of, command=command, tag=tag)


def held_incidents(ledger: Ledger, snapshot: Snapshot) -> dict[str, Reason]:
    """Why an incident may not continue, by its id."""
    tagged_reasons = {
        tag.removeprefix(HOLD_TAG): tagged(Scope.NODE, name, tag)
        for name, node in snapshot.nodes.items()
        for tag in node.tags
        if tag.startswith(HOLD_TAG)
    }
    return tagged_reasons | {hold.incident: _words(hold) for hold in ledger.holds if hold.incident}


def _words(hold: Hold) -> Reason:
    what = "incident" if hold.incident else _kind(hold.scope)
    place = f" --{what} {hold.incident or hold.name}" if hold.name else " --cluster"
    of, _ = OF_SCOPE[hold.scope]
    details = {"what": what, "who": hold.who, "why": hold.why, "place": place}
    if hold.until:
        details["until"] = rfc3339(hold.until)
    return because(Kind.PAUSED, hold.name, of, **details)


def _where(hold: Hold) -> str:
    return place_words(hold.scope, hold.name, hold.incident)


def _kind(scope: Scope) -> str:
    """The name of a scope for people and for `gnt-maint pause`."""
    return "group" if scope is Scope.GROUP else scope.value
