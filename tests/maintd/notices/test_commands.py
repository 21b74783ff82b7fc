"""Notifications by a command of the master's own agent."""

import json
from dataclasses import replace
from pathlib import Path

from nodeagent.maintd.notices.delivery import Delivered, Delivery, Retry
from nodeagent.maintd.notices.owners import agent_is_free, delivery_of
from nodeagent.model.action import Drain, RunCommand
from nodeagent.model.ledger import Intent, Ledger, Outcome, Result
from nodeagent.model.notice import Sink
from nodeagent.model.purpose import OfOwners
from nodeagent.model.snapshot import Observed
from nodeagent.model.units import Seconds
from nodeagent.protocol.messages import MOST_STDIN
from tests.maintd.notices.sinks import Notifying
from tests.maintd.world import seen, six

SINK = Sink("ticket", "command", command="open-ticket", seconds=Seconds(45))
ORDER = Intent("1", OfOwners(), "n6", RunCommand("n6", "tell-owners", "{}"))
ENDS: list[tuple[Observed, Delivery | None]] = [
    (seen(six()), None),
    (seen(six(), results={"1": Outcome.RUNNING}), None),
    (seen(six(), results={"1": Outcome.SUCCESS}), Delivered()),
    (seen(six(), results={"1": Outcome.ERROR}), Retry("told so")),
    (seen(six(), results={"1": Outcome.LOST}), Retry("its agent no longer knows it")),
    (seen(six(), absent={"1": "busy"}), Retry("busy")),
]


def test_how_a_delivery_ends() -> None:
    for observed, result in ENDS:
        assert delivery_of(ORDER, observed) == result, observed


def test_when_the_masters_agent_is_free() -> None:
    """It runs one command at a time."""
    another = replace(ORDER, node="n5", action=RunCommand("n5", "mend", "{}"))
    for intents, observed, free in (
        ((), seen(six()), True),
        ((another, replace(ORDER, action=Drain("n6"))), seen(six()), True),
        ((another, ORDER), seen(six()), False),
        ((), seen(six(), doubts={"n6": "silent"}), False),
        ((), seen(replace(six(), nodes={})), False),
    ):
        assert agent_is_free(Ledger(intents=intents), observed) is free, (intents, observed)


def test_the_message_is_on_its_standard_input_once() -> None:
    one = Notifying((SINK, None))
    one.break_down("n2", "n3")
    one.ticks(6)
    (order,) = one.rig.agents.orders
    assert (order.node, order.command, order.seconds) == ("n1", "open-ticket", 45)
    said = json.loads(order.stdin)
    assert [event["node"] for event in said["events"]] == ["n2", "n3"]
    assert said["id"]
    assert one.rig.ledger.intents == ()
    assert one.box("ticket").message is None


def test_what_fails_is_tried_again_across_a_crash(tmp_path: Path) -> None:
    one = Notifying((SINK, None), path=tmp_path / "ledger")
    one.rig.agents.tells = lambda _: Result(Outcome.ERROR, "exit code 1: no route", code=1)
    one.break_down("n2")
    one.ticks(3)
    message = one.box("ticket").message
    assert message is not None
    assert (message.tries, message.why) == (1, "exit code 1: no route")
    one.restart()
    one.rig.agents.tells = lambda _: Result(Outcome.SUCCESS, code=0)
    one.ticks(6)
    first, second = one.rig.agents.orders
    assert first.stdin == second.stdin
    assert one.box("ticket").message is None


def test_an_order_brings_no_more_than_an_agent_takes() -> None:
    one = Notifying((SINK, None), nodes=80)
    one.break_down(*(f"n{n}" for n in range(2, 81)))
    for number in range(2, 81):
        said = one.rig.agents.says[f"n{number}"]
        assert said is not None
        text = said.text.replace('"disk":', f'"disk":"{"x" * 400}","n":')
        one.rig.agents.says[f"n{number}"] = replace(said, text=text)
    one.ticks(4)
    (order,) = one.rig.agents.orders
    said_json = json.loads(order.stdin)
    assert len(order.stdin.encode()) <= MOST_STDIN
    assert said_json["count"] == 79
    assert len(said_json["events"]) + said_json["more"] == 79
