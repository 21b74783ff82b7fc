"""Notifications by a command of the master's own agent."""

import json
from dataclasses import replace
from pathlib import Path

from nodeagent.model.ledger import Outcome, Result
from nodeagent.model.notice import Sink
from nodeagent.model.units import Seconds
from nodeagent.protocol.messages import MOST_STDIN
from tests.maintd.notices.sinks import Notifying

SINK = Sink("ticket", "command", command="open-ticket", seconds=Seconds(45))


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
