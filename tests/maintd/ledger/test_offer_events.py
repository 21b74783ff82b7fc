"""Events of offers: each question once, also of a node that is away for two reasons."""

from dataclasses import replace

import pytest

from nodeagent.maintd.ledger.domain_events import offers
from nodeagent.model.ledger import Ledger
from nodeagent.model.offer import Answer, Offer, Reply, Work
from nodeagent.model.units import Ms, Nanoseconds
from nodeagent.model.window import Unavailability
from tests.maintd.world import NOW

SOON, LATER = (Unavailability(Nanoseconds((NOW + hours) * 10**6)) for hours in (1, 2))
WINDOW = Offer("w", "db", "u3", ("i1",), SOON, NOW, NOW, generation=1)
MOVED = replace(WINDOW, id="m", unavailability=LATER, generation=2)
ROLL = replace(WINDOW, id="r", generation=2, work=Work.ROLL)
AGAIN = replace(ROLL, id="r2", asked_at=Ms(NOW + 1))
SAID = Answer(Reply.DECLINE, "eve", NOW, ("i1",), NOW)


@pytest.mark.parametrize(
    ("before", "after", "kinds"),
    [
        ((), (WINDOW, ROLL), ["offered", "offered"]),
        ((WINDOW, ROLL), (WINDOW, ROLL), []),
        ((WINDOW, ROLL), (WINDOW, AGAIN), []),
        ((WINDOW, ROLL), (WINDOW, replace(ROLL, answer=SAID)), ["declined"]),
        ((WINDOW, ROLL), (WINDOW,), ["rescinded"]),
        ((WINDOW,), (MOVED,), ["offered"]),
        ((WINDOW,), (ROLL,), ["offered", "rescinded"]),
    ],
)
def test_each_question_is_an_event_once(
    before: tuple[Offer, ...], after: tuple[Offer, ...], kinds: list[str]
) -> None:
    told = offers(Ledger(offers=before), Ledger(offers=after), None, NOW)
    assert [event.kind for event in told] == kinds
