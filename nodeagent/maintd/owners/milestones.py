"""Owners that were asked hear that the maintenance has started, finished, or is canceled. Pure."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from uuid import NAMESPACE_URL, uuid5

from nodeagent.maintd.owners.absences import Absence, Key, key_of
from nodeagent.model.ledger import Ledger
from nodeagent.model.offer import Milestone, Offer, Progress
from nodeagent.model.units import Ms

KEEP = Ms(3_600_000)  # ms for which owners are notified of a milestone
_NAMESPACE = uuid5(NAMESPACE_URL, "nodeagent milestone")


def note(before: Ledger, after: Ledger, absences: Sequence[Absence], now: Ms) -> Ledger:
    """Record which maintenance has begun, is over, or will not be.

    `absences` are all that are foreseen or have begun, and the offers of `after` are about these.
    """
    begun = _Begun(before, absences)
    known = [_later(milestone, begun, now) for milestone in before.milestones]
    milestones = (
        *known,
        *_started(known, (*before.offers, *after.offers), begun, now),
        *_canceled(before, after, begun, now),
    )
    kept = tuple(
        milestone for milestone in milestones if _starts(milestone) or now - milestone.at < KEEP
    )
    return after if kept == after.milestones else replace(after, milestones=kept)


class _Begun:
    """The absences that have begun, also those whose times somebody has changed since."""

    def __init__(self, before: Ledger, absences: Sequence[Absence]) -> None:
        self._foreseen = {absence.key for absence in absences}
        self._begun = {absence.key for absence in absences if absence.begun}
        told = {key_of(offer) for offer in before.offers}
        told |= {key_of(milestone) for milestone in before.milestones if _starts(milestone)}
        self._moved = {
            (key.node, key.work): key
            for key in (absence.key for absence in absences)
            if key in self._begun and key not in told
        }

    def of(self, notice: Offer | Milestone) -> Key | None:
        """The absence that this is about, with its present times; None if it has not begun."""
        key = key_of(notice)
        if key in self._foreseen:
            return key if key in self._begun else None
        return self._moved.get((key.node, key.work))


def _starts(milestone: Milestone) -> bool:
    return milestone.progress is Progress.STARTED


def _later(milestone: Milestone, begun: _Begun, now: Ms) -> Milestone:
    if not _starts(milestone):
        return milestone
    key = begun.of(milestone)
    if key is None:
        return _milestone(milestone, Progress.FINISHED, now)
    return replace(milestone, unavailability=key.when)


def _started(
    milestones: Iterable[Milestone], offers: Iterable[Offer], begun: _Begun, now: Ms
) -> Iterator[Milestone]:
    known = {(key_of(found), found.owner) for found in milestones if _starts(found)}
    for offer in offers:
        key = begun.of(offer)
        if key is not None and (key, offer.owner) not in known:
            known.add((key, offer.owner))
            yield _milestone(replace(offer, unavailability=key.when), Progress.STARTED, now)


def _canceled(before: Ledger, after: Ledger, begun: _Begun, now: Ms) -> Iterator[Milestone]:
    """The offers that are gone; an owner that is asked about another time instead hears of that."""
    was, current = set(map(_key, before.offers)), set(map(_key, after.offers))
    moved = Counter((o.node, o.work, o.owner) for o in after.offers if _key(o) not in was)
    for offer in before.offers:
        if _key(offer) in current or begun.of(offer) is not None:
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
