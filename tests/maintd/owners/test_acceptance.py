"""What owners have accepted, and what it says nothing of."""

import pytest

from nodeagent.maintd.owners import offer_json, offers
from nodeagent.maintd.windows import timing
from nodeagent.model.offer import Offer, Reply
from nodeagent.model.units import Ms
from nodeagent.model.window import Consent, Mode, Weight
from nodeagent.model.wish import AnswerOffers, TakeDown
from tests.maintd.owners.owned import instance
from tests.maintd.rig import Rig, fleet
from tests.maintd.windows.rounds import DAY, N3, wish
from tests.maintd.world import NOW

REQUIRED = Consent(Weight.REQUIRED)


def owned() -> Rig:
    return Rig(fleet(), [instance("i1", "db")])


def test_who_is_to_accept_is_asked_before_its_machine_goes_down_in_the_same_round() -> None:
    one = owned()
    wish(one, 0, N3, consent=REQUIRED)
    down = one.wish(TakeDown((N3,)))
    done = one.tick()
    assert "owner db has not answered" in done.decision.refused[down]
    assert one.ledger.scheduled[0].mode is Mode.DRAINING


def accepted() -> Rig:
    one = owned()
    wish(one, DAY, N3, consent=REQUIRED)
    one.tick()
    one.wish(AnswerOffers((one.ledger.offers[0].id,), Reply.ACCEPT, Ms(10**9)))
    one.tick()
    assert one.ledger.offers[0].accepted
    return one


def test_what_was_accepted_of_one_interval_does_not_count_for_the_next_in_the_same_round() -> None:
    one = accepted()
    old = one.ledger.offers[0].id
    wish(one, 2 * DAY, N3)
    down, late = one.wish(TakeDown((N3,))), one.wish(AnswerOffers((old,), Reply.ACCEPT, Ms(0)))
    refused = one.tick().decision.refused
    assert "owner db has not answered" in refused[down]
    assert f"there is no offer {old}" in refused[late]


def test_what_has_come_since_the_owner_accepted_is_not_taken_down() -> None:
    one = accepted()
    one.cluster.put(instance("i9", "db", "n3", "n4"))
    down = one.wish(TakeDown((N3,)))
    assert "but not for i9" in one.tick().decision.refused[down]


def test_many_offers_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    one = accepted()
    ledger, world = one.ledger, one.cluster.snapshot()

    def never(*_: object) -> list[Offer]:
        raise AssertionError("all of them for each machine")

    monkeypatch.setattr(offers, "about", never)
    monkeypatch.setattr("nodeagent.maintd.owners.webhook.question_json", never)
    assert timing.closed(ledger, world, NOW) == {}
    assert (
        offer_json.offer_json(ledger.offers[0], offer_json.Book(ledger, world, NOW))["holds"]
        is None
    )
    other = owned()
    wish(other, DAY, N3)
    other.tick()  # and where there is no webhook, no letter is written
    assert other.ledger.offers[0].open
