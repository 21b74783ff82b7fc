"""Ends of offers that owners are notified of: rescinded, or the machine is down, or up. Pure."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from uuid import NAMESPACE_URL, uuid5

from nodeagent.model.ledger import Ledger
from nodeagent.model.offer import End, Ending, Offer, Told
from nodeagent.model.units import Ms
from nodeagent.model.window import Mode, Unavailability

KEEP = Ms(3_600_000)  # ms for which owners are notified of an end
_NAMESPACE = uuid5(NAMESPACE_URL, "nodeagent ending")


def note(before: Ledger, after: Ledger, now: Ms) -> Ledger:
    """Record which offers have ended since, and whose machines are up again."""
    if not (before.offers or after.endings):
        return after
    down = {(one.node, one.when) for one in after.scheduled if one.mode is Mode.DOWN}
    nodes = {node for node, _ in down}
    found = (*(_later(one, nodes, now) for one in after.endings), *_ended(before, after, down, now))
    kept = tuple(one for one in found if one.end is End.DOWN or now - one.at < KEEP)
    return after if kept == after.endings else replace(after, endings=kept)


def _later(one: Ending, down: set[str], now: Ms) -> Ending:
    if one.end is End.DOWN and one.node not in down:
        return _ending(one, End.UP, now)
    return one


def _ended(
    before: Ledger, after: Ledger, down: set[tuple[str, Unavailability]], now: Ms
) -> Iterator[Ending]:
    """The offers that are gone; an owner that is asked about a window's new time hears of that."""
    was, there = set(map(_key, before.offers)), set(map(_key, after.offers))
    moved = Counter((o.node, o.owner) for o in after.offers if _key(o) not in was)
    for offer in before.offers:
        if _key(offer) in there:
            continue
        if moved[offer.node, offer.owner]:
            moved[offer.node, offer.owner] -= 1
            continue
        is_down = (offer.node, offer.unavailability) in down
        yield _ending(offer, End.DOWN if is_down else End.RESCINDED, now)


def _key(offer: Offer) -> tuple[str, str, Unavailability]:
    return offer.node, offer.owner, offer.unavailability


def _ending(one: Offer | Ending, end: End, now: Ms) -> Ending:
    identity = str(uuid5(_NAMESPACE, f"{one.id} {end.value}"))
    about = one.instances
    if isinstance(one, Offer) and one.answer is not None:
        about = one.answer.about
    return Ending(identity, one.owner, one.node, end, about, one.unavailability, now, Told())


def told(ledger: Ledger, now: Ms) -> list[Ending]:
    """The ends to notify owners of now."""
    return [one for one in ledger.endings if now - one.at < KEEP]


def rewind(ledger: Ledger, now: Ms) -> Ledger:
    """Limit the time of notifications after the clock was put back."""
    if all(one.at <= now for one in ledger.endings):
        return ledger
    endings = tuple(replace(one, at=min(one.at, now)) for one in ledger.endings)
    return replace(ledger, endings=endings)
