"""Telling owners by a command of the master's own agent, whole rounds over a simulated cluster."""

import json
from dataclasses import replace
from typing import Any

from nodeagent.maintd.owners.notify import fitting
from nodeagent.model.action import RunCommand
from nodeagent.model.ledger import Ledger, Outcome, Result
from nodeagent.model.offer import Announcing, AnswerOffers, Reply
from nodeagent.model.window import Machine, Schedule, Unavailability, Window
from nodeagent.model.wish import SetSchedule
from nodeagent.protocol.canonical import canonical
from nodeagent.protocol.messages import MOST_STDIN
from tests.maintd.owned import instance
from tests.maintd.rig import QUICK, Rig, fleet
from tests.maintd.test_entries import ADD, Mender
from tests.maintd.test_owners import WATCHES, policy

TELLS = replace(QUICK, announcing=Announcing("tell-owners", 45))


def rig() -> Rig:
    one = Rig(fleet(), [instance("i1", "db"), instance("i2", "web")], TELLS)
    when = Unavailability(round((one.time + 86400) * 1e9))
    one.wish(SetSchedule(Schedule((Window((Machine("n3"),), when),))))
    return one


def orders(one: Rig) -> list[RunCommand]:
    found = [intent.action for _, _, intent in one.agents.ran.values()]
    return [action for action in found if isinstance(action, RunCommand)]


def owners(order: RunCommand) -> list[str]:
    return [offer["owner"] for offer in json.loads(order.stdin)["offers"]]


def told(ledger: Ledger) -> list[bool]:
    return [offer.told.done for offer in ledger.offers]


def test_all_open_offers_are_on_its_standard_input_once() -> None:
    one = rig()
    for _ in range(6):
        one.tick()
    (order,) = orders(one)
    assert (order.node, order.command, order.seconds) == ("n1", "tell-owners", 45)
    assert owners(order) == ["db", "web"]
    (first, _) = json.loads(order.stdin)["offers"]
    assert (first["node"], first["instances"]) == ("n3", ["i1"])
    assert first["id"] in {offer.id for offer in one.ledger.offers}
    assert told(one.ledger) == [True, True]
    assert one.ledger.intents == ()


def test_a_command_that_takes_long_holds_up_no_round() -> None:
    one = rig()
    one.agents.takes = 100_000
    for _ in range(9):
        one.tick()
    assert told(one.ledger) == [False, False], "it runs still"
    for _ in range(4):
        one.tick()
    assert told(one.ledger) == [True, True]
    assert not one.ledger.intents


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


def test_who_is_asked_again_is_told_again() -> None:
    one = rig()
    for _ in range(4):
        one.tick()
    (db, _) = one.ledger.offers
    one.wish(AnswerOffers((db.id,), Reply.ACCEPT, 0))
    for _ in range(4):
        one.tick()
    assert [owners(order) for order in orders(one)] == [["db", "web"], ["db"]]


def test_without_a_command_nobody_is_told() -> None:
    one = rig()
    one.engine.policy = QUICK
    for _ in range(4):
        one.tick()
    assert orders(one) == []


def test_what_fails_is_tried_again_a_few_times_and_says_why() -> None:
    one = rig()
    one.agents.tells = lambda _: Result(Outcome.ERROR, "exit code 1: no route", code=1)
    for _ in range(4):
        one.tick()
    assert len(orders(one)) == 1
    assert [h.reason for h in one.tick().decision.held] == [
        f"owner {owner} is not told of its offer by tell-owners: exit code 1: no route"
        for owner in ("db", "web")
    ]
    for _ in range(400):
        one.tick()
    assert len(orders(one)) == 5
    assert told(one.ledger) == [True, True], "given up"


def test_it_waits_for_an_agent_in_doubt_and_survives_a_crash() -> None:
    one = rig()
    one.agents.says["n1"] = None
    one.tick()
    one.tick()
    assert orders(one) == []
    del one.agents.says["n1"]
    one.tick()
    one.crash()
    for _ in range(4):
        one.tick()
    assert len(orders(one)) == 1
    assert told(one.ledger) == [True, True]


def test_an_order_that_its_agent_refuses_is_tried_again() -> None:
    one = rig()
    one.agents.refuses = lambda _: True
    for _ in range(3):
        one.tick()
    assert any("refused" in h.reason for h in one.tick().decision.held)
    one.agents.refuses = lambda _: False
    for _ in range(10):
        one.tick()
    assert told(one.ledger) == [True, True]


def test_checks_of_the_repair_queue_leave_the_agent_a_turn() -> None:
    """One that is queued is asked for its health in every round."""
    both = replace(policy(WATCHES), announcing=TELLS.announcing)
    one = Mender(both, "nothing", [instance("i1", "db"), instance("i2", "web")])
    one.add(replace(ADD, address="127.0.0.5"))
    for _ in range(4):
        one.tick()
    assert {order.command for order in orders(one)} == {"check", "try-1"}
    when = Unavailability(round((one.time + 86400) * 1e9))
    one.ask(SetSchedule(Schedule((Window((Machine("n3"),), when),))))
    for _ in range(2):
        one.tick()
    assert told(one.ledger) == [True, True]
    before = len(orders(one))
    for _ in range(4):
        one.tick()
    assert {order.command for order in orders(one)[before:]} == {"check"}, "and goes on with them"
