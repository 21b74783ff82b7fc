"""Telling owners by a command of the master's own agent, whole rounds over a simulated cluster."""

import json
from dataclasses import replace
from typing import Any

from nodeagent.maintd.notices import owners as notify
from nodeagent.maintd.notices.owners import fitting
from nodeagent.model.action import RunCommand
from nodeagent.model.ledger import Intent, Ledger, Outcome, Result
from nodeagent.model.offer import Announcing
from nodeagent.model.purpose import OfOwners
from nodeagent.model.reason import Kind
from nodeagent.model.units import Nanoseconds, Seconds
from nodeagent.model.window import Machine, Schedule, Unavailability, Window
from nodeagent.model.wish import SetSchedule
from nodeagent.protocol.canonical import canonical
from nodeagent.protocol.messages import MOST_STDIN
from tests.maintd.decided import details
from tests.maintd.owners.owned import instance
from tests.maintd.rig import QUICK, Rig, fleet
from tests.maintd.rounds import ticks
from tests.maintd.world import NOW, seen, six

TELLS = replace(QUICK, announcing=Announcing("tell-owners", Seconds(45)))


def rig() -> Rig:
    one = Rig(fleet(), [instance("i1", "db"), instance("i2", "web")], TELLS)
    when = Unavailability(Nanoseconds(round((one.time + 86400) * 1e9)))
    one.wish(SetSchedule(Schedule((Window((Machine("n3"),), when),))))
    return one


def owners(order: RunCommand) -> list[str]:
    return [offer["owner"] for offer in json.loads(order.stdin)["offers"]]


def told(ledger: Ledger) -> list[bool]:
    return [offer.told.done for offer in ledger.offers]


def test_all_open_offers_are_on_its_standard_input_once() -> None:
    one = rig()
    ticks(one, 6)
    (order,) = one.agents.orders
    assert (order.node, order.command, order.seconds) == ("n1", "tell-owners", 45)
    assert owners(order) == ["db", "web"]
    (first, _) = json.loads(order.stdin)["offers"]
    assert (first["node"], first["instances"]) == ("n3", ["i1"])
    assert first["id"] in {offer.id for offer in one.ledger.offers}
    assert told(one.ledger) == [True, True]
    assert one.ledger.intents == ()


def test_they_are_told_once_the_agent_takes_orders() -> None:
    one = rig()
    one.agents.refusing["n1"] = "its disk is full"
    ticks(one, 6)
    assert one.agents.orders == []
    one.agents.refusing.clear()
    ticks(one, 6)
    assert told(one.ledger) == [True, True]


def question(owner: str, instances: int, about: int = 0) -> dict[str, Any]:
    names = [f"instance-{n}.example.org" for n in range(instances)]
    asked = {"id": owner, "owner": owner, "instances": names}
    return asked | ({"answer": {"about": names[:about]}} if about else {})


def length(questions: list[dict[str, Any]]) -> int:
    return len(canonical({"offers": questions}))


def test_an_order_that_has_ended_is_forgotten_alone() -> None:
    order = Intent("1", OfOwners(), "n6", RunCommand("n6", "tell-owners", "{}"))
    other = replace(order, id="2")
    for outcome, kept in ((Outcome.SUCCESS, (other,)), (Outcome.RUNNING, (order, other))):
        observed = seen(six(), results={"1": outcome, "2": Outcome.RUNNING})
        assert notify.remember(Ledger(intents=(order, other)), observed, NOW).intents == kept


def test_an_order_brings_no_more_than_an_agent_takes() -> None:
    few = [question(f"o{n}", 20) for n in range(40)]
    six = length(few[:6])
    for limit in (MOST_STDIN, *range(six - 3, six + 4)):
        told = fitting(few, limit)
        assert told == few[: len(told)]
        assert length(told) <= limit <= length(few[: len(told) + 1])


def test_of_an_offer_that_is_too_long_the_end_is_left_out() -> None:
    """First what its earlier answer was about, then instances, no more than need be."""
    for instances, about, least in ((3000, 0, 500), (3000, 3000, 500), (400, 400, 400)):
        (one,) = fitting([question("db", instances, about), question("web", 1)])
        assert length([one]) <= MOST_STDIN
        assert len(one["instances"]) + one["more"] == instances
        assert one.get("answer", {"about": []}) == {"about": []}
        assert len(one["instances"]) >= least
        name = canonical(one["instances"][-1])
        whole = one["instances"] == question("db", instances)["instances"]
        assert whole or length([one]) + 2 * len(name) > MOST_STDIN


def test_what_fails_is_tried_again_a_few_times_and_says_why() -> None:
    one = rig()
    one.agents.tells = lambda _: Result(Outcome.ERROR, "exit code 1: no route", code=1)
    ticks(one, 4)
    assert len(one.agents.orders) == 1
    held = [details([h], Kind.OWNER_NOT_TOLD) for h in one.tick().decision.held]
    assert [(said["owner"], said["tries"]) for said in held] == [("db", ""), ("web", "")]
    assert {(said["command"], said["why"]) for said in held} == {
        ("tell-owners", "exit code 1: no route")
    }
    ticks(one, 400)
    assert len(one.agents.orders) == notify.TRIES
    assert told(one.ledger) == [True, True], "given up"
