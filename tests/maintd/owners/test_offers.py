"""Mesos' own tests of inverse offers, its faults, and what the answers of owners hold here.

Named after master_maintenance_tests.cpp and hierarchical_allocator_tests.cpp. Owners' programs are
in test_over_http.
"""

import json
from dataclasses import replace

import pytest

from nodeagent.errors import MessageError
from nodeagent.maintd.owners import offers
from nodeagent.maintd.owners.absences import of_window
from nodeagent.maintd.windows.mesos import read_answer
from nodeagent.model.offer import Reply
from nodeagent.model.units import Ms
from nodeagent.model.window import Consent, Machine, Mode, Schedule, Weight
from nodeagent.model.wish import AnswerOffers, SetSchedule, TakeDown
from tests.maintd.owners.owned import Asking

HOUR, DAY = 3600, 86400
MINUTES = 600  # a window so far ahead is to be emptied for from now on


# Mesos' tests.


def test_inverse_offers() -> None:
    one = Asking(owners={})
    one.plan("n3")
    assert one.offers == [], "there is no framework yet"
    one.place("i1", "n3", "n4", owner="db")  # it launches a task
    one.tick()
    assert one.open() == [("db", "n3")]
    first = one.offer().id
    one.decline(refuse=0)
    assert one.offer().status == "DECLINE"
    one.tick()
    second = one.offer()
    assert second.open
    assert second.id != first
    assert second.status == "DECLINE", "the newest answer is known still"
    one.accept(refuse=0)
    assert one.offer().status == "ACCEPT", "replaced, not appended"
    one.tick()
    assert one.offer().open, "whatever it has answered"
    assert one.offer().status == "ACCEPT"


def test_accept_invalid_inverse_offer() -> None:
    """An unknown id kills Mesos' master, MESOS-7119."""
    one = Asking()
    one.plan("n3")
    before = one.offers
    good, made_up = one.offer().id, "00000000-0000-4000-8000-000000000000"
    for ids in ((made_up,), (good, made_up)):
        for reply in Reply:
            why = f"there is no offer {made_up}, or it was rescinded: list the offers again"
            assert one.answer(reply, *ids) == why
    assert one.offers == before
    assert one.answer(Reply.ACCEPT, good) == ""


def test_maintenance_inverse_offers() -> None:
    """Only who has something on a machine is asked, and about that machine only.

    An owner nobody can answer for stops nobody else.
    """
    one = Asking()
    one.place("i9", "n3", "n2", owner="nobody:/@here")
    one.plan("n3", "n1", "no-node")
    assert one.open() == [("db", "n3"), ("nobody:/@here", "n3"), ("web", "n3")]
    asked = [offer.instances for offer in one.offers]
    assert asked == [("i1",), ("i9",), ("i2",)], "a mirror is something"
    assert {offer.unavailability.start for offer in one.offers} == {one.starts}


# Faults of Mesos that ours does not have.


def test_an_unrelated_edit_keeps_answers_and_a_changed_interval_does_not() -> None:
    one = Asking()
    one.plan("n3", "n4")
    one.decline("db", "n3", refuse=HOUR)
    one.accept("db", "n4", refuse=HOUR)
    said, same = one.offer("db", "n3"), one.window("n3")
    moved = one.window("n4", ahead=2 * DAY)
    one.post(replace(same, machines=(Machine("n3", "127.0.0.3"),)), moved, one.window("no-node"))
    assert one.offer("db", "n3") == said, "another window, the same interval"
    again = one.offer("db", "n4")
    assert (again.status, again.open, again.generation) == ("UNKNOWN", True, 2)
    one.post(moved)
    assert {offer.node for offer in one.offers} == {one.node("n4").uuid}, "what is canceled"
    one.post(moved, same)
    assert one.offer("db", "n3").status == "UNKNOWN"


def test_a_changed_set_of_the_owners_instances_asks_again() -> None:
    one = Asking()
    one.plan("n3")
    one.accept("db", refuse=HOUR)
    one.decline("web", refuse=HOUR)
    one.place("i8", "n3", "n2", owner="somebody")
    one.tick()
    assert one.open() == [("somebody", "n3")], "a new instance of somebody else asks nobody"
    one.place("i9", "n3", "n2", owner="db")
    one.tick()
    assert one.open() == [("db", "n3"), ("somebody", "n3")]
    asked = one.offer("db")
    assert (asked.instances, asked.status) == (("i1", "i9"), "ACCEPT")
    assert asked.answer is not None
    assert asked.answer.about == ("i1",)
    one.accept("db", refuse=HOUR)
    one.place("i9", "n5", "n2", owner="db")
    one.tick()
    assert not one.offer("db").open, "who agrees need not say so again for what has left"
    one.place("i2", "n5", "n2", owner="web")
    one.tick()
    left = one.offer("web")
    assert (left.status, left.instances, left.open) == ("DECLINE", (), False)


# The filter, and the call.


def call(**said: object) -> bytes:
    ids = {"inverse_offer_ids": [{"value": "a"}]}
    return json.dumps(
        {"type": "DECLINE_INVERSE_OFFERS", "decline_inverse_offers": ids | said}
    ).encode()


REFUSALS: list[tuple[object, int]] = [
    (None, 5_000),
    ({}, 5_000),
    ({"refuse_seconds": None}, 5_000),
    ({"refuse_seconds": 0}, 0),
    ({"refuse_seconds": 0.25}, 250),
    ({"refuse_seconds": "90"}, 90_000),
    ({"refuse_seconds": -1}, 5_000),
    ({"refuse_seconds": "NaN"}, 5_000),
    ({"refuse_seconds": "Infinity"}, 31_536_000_000),
    ({"refuse_seconds": 31_536_001}, 31_536_000_000),
    ({"refuse_seconds": 10**300}, 31_536_000_000),
]


def test_refuse_seconds() -> None:
    for filters, ms in REFUSALS:
        asked = read_answer(call(filters=filters))
        assert (asked.ids, asked.reply, asked.refuse) == (("a",), Reply.DECLINE, ms), (filters, ms)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "empty"),
        (b"[]", "the call must be an object"),
        (b"{}", "type is missing"),
        (b'{"type":"ACCEPT"}', "type is "),
        (b'{"type":"ACCEPT_INVERSE_OFFERS"}', "accept_inverse_offers is missing"),
        (
            b'{"type":"ACCEPT_INVERSE_OFFERS","accept_inverse_offers":{}}',
            "accept_inverse_offers.inverse_offer_ids is missing or empty",
        ),
        (
            b'{"type":"ACCEPT_INVERSE_OFFERS","accept_inverse_offers":{"inverse_offer_ids":[{}]}}',
            "accept_inverse_offers.inverse_offer_ids[0].value is missing",
        ),
        (call(filters=7), "decline_inverse_offers.filters must be an object"),
        (call(filters={"refuse_seconds": True}), "refuse_seconds is "),
        (call(filters={"refuse_seconds": "soon"}), "refuse_seconds is "),
        (call(reason="a\nb"), "decline_inverse_offers.reason is "),
        (call(reason="x" * 501), "decline_inverse_offers.reason is "),
        (call(eta=-1), "decline_inverse_offers.eta is "),
        (call(eta="NaN"), "decline_inverse_offers.eta is "),
        (call(earliest=1e300), "decline_inverse_offers.earliest is "),
    ],
)
def test_a_call_that_cannot_be_read(body: bytes, why: str) -> None:
    with pytest.raises(MessageError) as caught:
        read_answer(body)
    assert why in str(caught.value)


# What the answers hold.


def test_a_veto_holds_until_its_deadline() -> None:
    one = Asking()
    one.plan("n3", ahead=MINUTES, consent=Consent(Weight.VETO, Ms(300_000), proceeds=True))
    eta = Ms(one.now() + 600_000)
    one.decline(reason="rebuilding i1", eta=eta, earliest=Ms(eta + 60_000), refuse=HOUR)
    (why,) = one.holds()
    assert why == (
        "owner db declines (alice): rebuilding i1, done by 2026-11-18T11:16:50Z, suits from"
        " 2026-11-18T11:17:50Z; it goes on at 2026-11-18T11:11:40Z whatever they say"
    )
    assert one.down() == f"machine n3: {why} (gnt-maint window edit n3 --policy advisory)"
    assert one.jobs() == [], "neither drained nor emptied"
    one.tick(300)
    assert (one.holds(), one.goes_on()) == ([], True)
    assert one.offer().status == "DECLINE"
    assert one.down() == ""


def test_where_accepting_is_required_silence_holds_even_after_the_deadline() -> None:
    one = Asking()
    one.plan("n3", ahead=MINUTES, consent=Consent(Weight.REQUIRED, Ms(120_000)))
    one.accept("db", refuse=HOUR)
    (why,) = one.holds()
    assert why == (
        "owner web has not answered since 2026-11-18T11:06:50Z; owners must accept by"
        " 2026-11-18T11:14:40Z, and it waits until they do"
    )
    one.tick(1200)
    (why,) = one.holds()
    assert "owners had to accept by 2026-11-18T11:14:40Z" in why
    assert "has not answered" in one.down()
    assert one.jobs() == []
    one.accept("web", refuse=2 * HOUR)
    assert (one.holds(), one.goes_on()) == ([], True)
    assert one.down() == ""


def test_who_is_to_accept_is_asked_before_its_machine_goes_down_in_the_same_round() -> None:
    one = Asking()
    consent = (Consent(Weight.REQUIRED),)
    one.wish(SetSchedule(Schedule((one.window("n3", ahead=0),)), (), consent))
    assert "owner db has not answered" in one.down()
    assert one.ledger.scheduled[0].mode is Mode.DRAINING


def test_what_was_accepted_of_one_interval_does_not_count_for_the_next_in_the_same_round() -> None:
    one = Asking(owners={"i1": "db"})
    one.plan("n3", consent=Consent(Weight.REQUIRED))
    one.accept(refuse=HOUR)
    old = one.offer().id
    one.wish(SetSchedule(Schedule((one.window("n3", ahead=2 * DAY),))))
    down = one.wish(TakeDown((Machine("n3"),)))
    late = one.wish(AnswerOffers((old,), Reply.ACCEPT, Ms(0)))
    refused = one.tick().decision.refused
    assert "owner db has not answered" in refused[down]
    assert f"there is no offer {old}" in refused[late]


def test_a_veto_ends_at_its_deadline_to_the_millisecond() -> None:
    consent = Consent(Weight.VETO, Ms(300_000), proceeds=True)
    one = Asking()
    one.plan("n3", consent=consent)
    one.decline(refuse=HOUR)
    (scheduled,) = one.ledger.scheduled
    there, made = of_window(scheduled), offers.by_absence(one.ledger)
    until = Ms(one.starts // 10**6 - 300_000)
    assert len(list(offers.holds(there, made, Ms(until - 1)))) == 1
    assert list(offers.holds(there, made, until)) == []
    ends = replace(there, consent=replace(consent, weight=Weight.REQUIRED))
    assert len(list(offers.holds(ends, made, Ms(until - 1)))) == 2
    assert list(offers.holds(ends, made, until)) == []
    waits = replace(there, consent=replace(consent, weight=Weight.REQUIRED, proceeds=False))
    assert "owners must accept" in offers.hold(waits, made, Ms(until - 1))
    assert "owners had to accept" in offers.hold(waits, made, until)


# Whatever happens.
