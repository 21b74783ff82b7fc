"""Time for which a group could gain from moves, from one advice to the next. Pure."""

from dataclasses import replace

from nodeagent.model.balance import Advice, Lopsided
from nodeagent.model.ledger import Ledger
from nodeagent.model.units import Ms

FRESH = 900_000  # ms for which an advice is valid; its search may take some rounds
# ms that a gain must last if it may exist only because the load is unknown. That is so for five
# minutes after every break, such as a round of moves.
DOUBTED = 600_000


def noted(ledger: Ledger, advice: Advice, now: Ms) -> tuple[Ledger, int]:
    """Since when all advice by the same measure has shown a gain."""
    was, doubted = _known(ledger, advice.group), bool(advice.doubt)
    unbroken = was is not None and now - was.seen < FRESH and was.doubted == doubted
    since = was.since if was is not None and unbroken else now
    return _with(ledger, Lopsided(advice.group, since, now, doubted)), since


def going_on(ledger: Ledger, group: str, now: Ms) -> Ledger:
    """Keep the time while the group's moves run: nobody searches then, and that is no break."""
    was = _known(ledger, group)
    return ledger if was is None else _with(ledger, replace(was, seen=now))


def forgotten(ledger: Ledger, group: str) -> Ledger:
    kept = tuple(one for one in ledger.lopsided if one.group != group)
    return replace(ledger, lopsided=kept)


def _known(ledger: Ledger, group: str) -> Lopsided | None:
    return next((one for one in ledger.lopsided if one.group == group), None)


def _with(ledger: Ledger, one: Lopsided) -> Ledger:
    rest = forgotten(ledger, one.group)
    return replace(rest, lopsided=(*rest.lopsided, one))
