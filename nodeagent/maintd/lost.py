"""Tags that were set and are gone though nobody took them off: lost as the master changed. Pure.

Measured with Ganeti 3.0.2: while `gnt-cluster master-failover` runs the new master has read its
configuration already and the old one still works. A job that ends in that moment says success,
and what it has changed is overwritten a moment later (in three of three tries). So the tag of a
failure, or of a pause, may vanish. To be without it counts as acknowledged, which is a person's
word: it is not believed unless a job is found that took the tag off, or its owner away.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from nodeagent.maintd.effect import tags_of
from nodeagent.maintd.incidents import TAG_SHOWS
from nodeagent.model.action import Retag, Scope
from nodeagent.model.balance import FAILED_TAG
from nodeagent.model.incident import Incident, Status
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
from nodeagent.model.snapshot import Snapshot

_WHY = "its tag was lost as the master changed"
_MATTER = (
    *("maintd:repairready:", "maintd:repairfailed:", "maintd:canceled:"),
    *(FAILED_TAG, HOLD_TAG, PAUSE_TAG, STORM_TAG, USED_TAG),
)


class Place(NamedTuple):
    """Where which tag is: on a node or group by its name, or on the cluster."""

    scope: Scope
    name: str
    tag: str


def missing(trails: Sequence[Trail], snapshot: Snapshot) -> Mapping[Place, int]:
    """Where tags of ours should be by our own jobs, and are not, with the number of the job."""
    last: dict[Place, int | None] = {}
    for trail in trails:
        action = trail.action
        if isinstance(action, Retag) and trail.result.outcome is Outcome.SUCCESS:
            last |= {Place(action.scope, action.name, tag): None for tag in action.remove}
            set_ = (tag for tag in action.add if tag.startswith(_MATTER))
            last |= {Place(action.scope, action.name, tag): int(trail.job) for tag in set_}
    return {
        place: job
        for place, job in last.items()
        if job is not None
        and (tags := tags_of(place.scope, place.name, snapshot)) is not None
        and place.tag not in tags
    }


def lost(gone: Mapping[Place, int], removals: Sequence[Removal]) -> frozenset[Place]:
    """Of what is missing that which no later job took off."""
    return frozenset(
        place
        for place, job in gone.items()
        if not any(int(r.job) >= job and _concerns(r, place) for r in removals)
    )


def _concerns(removal: Removal, place: Place) -> bool:
    if removal.scope is not place.scope:
        return False
    named = place.name == removal.name or place.name.startswith(f"{removal.name}.")
    return (not place.name or named) and (removal.tags is None or place.tag in removal.tags)


def incident(one: Incident, places: Collection[str], now: int) -> Incident:
    """An incident of whose tags these are lost.

    A failure or cancelation is told anew. What was done as a node was called ready may be lost
    as well: it is looked at again, and not before every answer of the cluster shows what is.
    """
    if one.tag not in places or one.status.active:
        return one
    if one.status is not Status.COMPLETED:
        return replace(one, tag_seen=False)
    later = now + TAG_SHOWS
    again = replace(one, status=Status.PENDING, tag_seen=False, changed_at=now)
    return replace(again, not_before=later, why=_WHY)


def is_waited_for(intent: Intent, places: Collection[Place]) -> bool:
    """Whether its job was to set a tag that is lost, so that waiting for it is in vain."""
    action = intent.action
    return isinstance(action, Retag) and any(
        Place(action.scope, action.name, tag) in places for tag in action.add
    )


def holds(ledger: Ledger, places: Collection[Place], now: int) -> tuple[Hold, ...]:
    """The pauses, and those whose tags are lost; that these are to be set again is told by them."""
    kept = {(h.scope, h.name, h.incident): h for h in ledger.holds}
    known = {incident.id for incident in ledger.incidents}
    for scope, name, tag in sorted(places, key=lambda place: (place.tag, place.name)):
        identity = tag.removeprefix(HOLD_TAG) if tag.startswith(HOLD_TAG) else ""
        if tag != PAUSE_TAG and identity not in known:
            continue
        hold = kept.get((scope, name, identity)) or Hold(
            scope, name, "somebody", now, _WHY, identity
        )
        kept[scope, name, identity] = replace(hold, tag_seen=False)
    return tuple(kept.values())


def storm(places: Collection[Place], now: int) -> Storm | None:
    """The storm brake, if its tag is lost."""
    tripped = any(place.tag == STORM_TAG for place in places)
    return Storm(now, f"cluster tag {STORM_TAG}: {_WHY}") if tripped else None
