"""Telling owners by a command of the master's own agent, whole rounds over a simulated cluster."""

import json
from dataclasses import replace
from typing import Any

from nodeagent.maintd.notices import owners as notify
from nodeagent.maintd.notices.owners import fitting
from nodeagent.model.action import RunCommand
from nodeagent.model.ledger import Ledger, Outcome, Result
from nodeagent.model.offer import Announcing
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


def test_an_order_brings_no_more_than_an_agent_takes() -> None:
    def question(owner: str, instances: int) -> dict[str, Any]:
        names = [f"instance-{n}.example.org" for n in range(instances)]
        return {"id": owner, "owner": owner, "instances": names}

    few = [question(f"o{n}", 20) for n in range(40)]
    told = fitting(few)
    assert told == few[: len(told)]
    assert len(canonical({"offers": told})) <= MOST_STDIN < len(canonical({"offers": few}))
    assert len(canonical({"offers": few[: len(told) + 1]})) > MOST_STDIN
    (one,) = fitting([question("db", 3000), *few])
    assert len(canonical({"offers": [one]})) <= MOST_STDIN
    assert len(one["instances"]) + one["more"] == 3000
    assert len(one["instances"]) > 500


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
