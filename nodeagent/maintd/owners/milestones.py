"""Owners that were asked hear that the maintenance has started, finished, or is canceled. Pure."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from typing import TypeAlias
from uuid import NAMESPACE_URL, uuid5

from nodeagent.maintd.owners.absences import Absence
from nodeagent.model.ledger import Ledger
from nodeagent.model.offer import Milestone, Offer, Progress, Work
from nodeagent.model.units import Ms

KEEP = Ms(3_600_000)  # ms for which owners are notified of a milestone
_NAMESPACE = uuid5(NAMESPACE_URL, "nodeagent milestone")
_Begun: TypeAlias = Collection[tuple[str, Work]]  # UUIDs of nodes, and the work that has begun


def note(before: Ledger, after: Ledger, absences: Iterable[Absence], now: Ms) -> Ledger:
    """Record which maintenance has begun, is over, or will not be.

    `absences` are all that are foreseen or have begun, and the offers of `after` are about these.
    """
    begun = {(absence.key.node, absence.key.work) for absence in absences if absence.begun}
    known = [_later(milestone, begun, now) for milestone in before.milestones]
    milestones = (
        *known,
        *_started(before, after, begun, now),
        *_canceled(before, after, begun, now),
    )
    kept = tuple(
        milestone for milestone in milestones if _starts(milestone) or now - milestone.at < KEEP
    )
    return after if kept == after.milestones else replace(after, milestones=kept)


def _starts(milestone: Milestone) -> bool:
    return milestone.progress is Progress.STARTED


def _later(milestone: Milestone, begun: _Begun, now: Ms) -> Milestone:
    if _starts(milestone) and (milestone.node, milestone.work) not in begun:
        return _milestone(milestone, Progress.FINISHED, now)
    return milestone


def _started(before: Ledger, after: Ledger, begun: _Begun, now: Ms) -> Iterator[Milestone]:
    known = {
        (milestone.node, milestone.work, milestone.owner)
        for milestone in before.milestones
        if _starts(milestone)
    }
    for offer in (*before.offers, *after.offers):
        key = offer.node, offer.work, offer.owner
        if (offer.node, offer.work) in begun and key not in known:
            known.add(key)
            yield _milestone(offer, Progress.STARTED, now)


def _canceled(before: Ledger, after: Ledger, begun: _Begun, now: Ms) -> Iterator[Milestone]:
    """The offers that are gone; an owner that is asked about another time instead hears of that."""
    was, current = set(map(_key, before.offers)), set(map(_key, after.offers))
    moved = Counter((o.node, o.work, o.owner) for o in after.offers if _key(o) not in was)
    for offer in before.offers:
        if _key(offer) in current or (offer.node, offer.work) in begun:
            continue
        if moved[offer.node, offer.work, offer.owner]:
            moved[offer.node, offer.work, offer.owner] -= 1
            continue
        yield _milestone(offer, Progress.CANCELED, now)


def _key(offer: Offer) -> tuple[object, ...]:
    return offer.node, offer.work, offer.owner, offer.unavailability


def _milestone(notice: Offer | Milestone, progress: Progress, now: Ms) -> Milestone:
    about = notice.instances
    if isinstance(notice, Offer) and notice.answer is not None:
        about = notice.answer.about
    return Milestone(
        id=str(uuid5(_NAMESPACE, f"{notice.id} {progress.value}")),
        owner=notice.owner,
        node=notice.node,
        progress=progress,
        instances=about,
        unavailability=notice.unavailability,
        at=now,
        work=notice.work,
    )


def to_tell(ledger: Ledger, now: Ms) -> list[Milestone]:
    """The milestones to notify owners of now."""
    return [milestone for milestone in ledger.milestones if now - milestone.at < KEEP]
