"""Tags that vanished though nobody removed them: lost in a change of the master. Pure.

Measured with Ganeti 3.0.2: while `gnt-cluster master-failover` runs, the new master has read its
configuration already and the old one still works. A job that ends in that moment reports success,
and a moment later its change is overwritten (in three of three tries). So the tag of a failure, or
of a pause, may vanish. A missing tag means that a person removed it: maintd believes this only if
it finds a job that removed the tag or its object.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from nodeagent.maintd.planning.effects import tags_of
from nodeagent.maintd.planning.outcomes import TAG_SHOWS
from nodeagent.model.action import Retag, Scope, TagPlace
from nodeagent.model.balance import HALT_TAG
from nodeagent.model.incident import CANCELED_TAG, FAILED_TAG, READY_TAG, Incident, Status
from nodeagent.model.ledger import (
    HOLD_TAG,
    PAUSE_TAG,
    STORM_TAG,
    USED_TAG,
    Hold,
    Intent,
    Ledger,
    Outcome,
    Removal,
    Storm,
    Trail,
)
from nodeagent.model.short_name import meant
from nodeagent.model.snapshot import Snapshot
from nodeagent.model.units import Ms

WITHIN = 3_600_000  # ms after a job within which maintd may find its tag lost
_WHY = "its tag was lost as the master changed"
_MATTER = (
    READY_TAG,
    FAILED_TAG,
    CANCELED_TAG,
    HALT_TAG,
    HOLD_TAG,
    PAUSE_TAG,
    STORM_TAG,
    USED_TAG,
)


def missing(trails: Sequence[Trail], snapshot: Snapshot, now: Ms) -> Mapping[TagPlace, Trail]:
    """Places where our own jobs of the last hour set tags that are missing now, with the job.

    A loss shows when the next master starts; later jobs show what that did about it. Older jobs
    prove nothing: such a tag was no longer needed.
    """
    last: dict[TagPlace, Trail | None] = {}
    for trail in trails:
        action = trail.action
        if isinstance(action, Retag) and trail.result.outcome is Outcome.SUCCESS:
            last |= {TagPlace(action.scope, action.name, tag): None for tag in action.remove}
            set_ = (tag for tag in action.add if tag.startswith(_MATTER))
            last |= {TagPlace(action.scope, action.name, tag): trail for tag in set_}
    return {
        place: trail
        for place, trail in last.items()
        if trail is not None
        and now - trail.ended < WITHIN
        and (tags := tags_of(place.scope, place.name, snapshot)) is not None
        and place.tag not in tags
    }


def lost(
    gone: Mapping[TagPlace, Trail], removals: Sequence[Removal], snapshot: Snapshot
) -> Mapping[TagPlace, Trail]:
    """Keep the missing tags that no later job removed."""
    return {
        place: trail
        for place, trail in gone.items()
        if not any(int(r.job) >= int(trail.job) and _concerns(r, place, snapshot) for r in removals)
    }


def _concerns(removal: Removal, place: TagPlace, snapshot: Snapshot) -> bool:
    """Read names as Ganeti does: groups whole or as UUIDs, others without a domain as well."""
    if removal.scope is not place.scope:
        return False
    if removal.tags is not None and place.tag not in removal.tags:
        return False
    match place.scope:
        case Scope.CLUSTER:
            return True
        case Scope.GROUP:
            group = snapshot.groups.get(removal.name)
            return place.name == (group.name if group else removal.name)
        case Scope.NODE:
            return place.name in meant(removal.name, snapshot.nodes)
        case Scope.INSTANCE:
            return place.name in meant(removal.name, snapshot.instances)


def may_show_yet(trails: Iterable[Trail], now: Ms) -> str | None:
    """A job that ended so recently that not every answer of the cluster shows it."""
    return next((trail.job for trail in trails if now - trail.ended < TAG_SHOWS), None)


def incident(old: Incident, places: Collection[str], marks: Collection[str], now: Ms) -> Incident:
    """The incident after the loss of its tags.

    maintd tags a failure or cancelation again. Work before a ready tag may be lost as well: maintd
    checks it again. A live repair stays done, as the mark among its node's `marks` proves: it does
    not change the configuration.
    """
    if old.tag not in places or old.status.active:
        return old
    if old.status is not Status.COMPLETED:
        return replace(old, tag_seen=False)
    again = replace(old, status=Status.PENDING, tag_seen=False, changed_at=now, why=_WHY)
    return replace(again, repaired=old.repaired or old.mark in marks)


def is_waited_for(intent: Intent, places: Collection[TagPlace]) -> bool:
    """Check whether its job sets a lost tag, so that waiting for it is useless."""
    action = intent.action
    return isinstance(action, Retag) and any(
        TagPlace(action.scope, action.name, tag) in places for tag in action.add
    )


def holds(ledger: Ledger, places: Collection[TagPlace], now: Ms) -> tuple[Hold, ...]:
    """The pauses, including those with lost tags, which maintd sets again."""
    kept = {(h.scope, h.name, h.incident): h for h in ledger.holds}
    active = {incident.id for incident in ledger.incidents if incident.status.active}
    resumed = {(h.scope, h.name, h.incident) for h in ledger.resumed}
    for scope, name, tag in sorted(places, key=lambda place: (place.tag, place.name)):
        identity = tag.removeprefix(HOLD_TAG) if tag.startswith(HOLD_TAG) else ""
        key = scope, name, identity
        if (tag != PAUSE_TAG and identity not in active) or key in resumed:
            continue
        hold = kept.get(key) or Hold(scope, name, "somebody", now, _WHY, identity)
        kept[key] = replace(hold, tag_seen=False)
    return tuple(kept.values())


def storm(places: Collection[TagPlace], now: Ms) -> Storm | None:
    """The storm brake, if its tag is lost."""
    tripped = any(place.tag == STORM_TAG for place in places)
    return Storm(now, f"cluster tag {STORM_TAG}: {_WHY}") if tripped else None
