"""A drill for real: an empty, drained node is powered off, proven off, and on again."""

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from nodeagent.cli.maint.console import waiting
from nodeagent.model.action import Power, PowerCommand, SetOffline
from nodeagent.model.event import Detail
from nodeagent.model.units import Ms
from nodeagent.model.wish import DrillPower
from simulation.machines import Control
from tests.cli.live import Live
from tests.cli.run import gnt_maint
from tests.maintd.fencing.whole import RESTART, Whole

OFF, ON = PowerCommand.OFF, PowerCommand.ON
KINDS = ("drill-started", "drill-passed", "drill-failed", "fencing-failed")


pytestmark = pytest.mark.usefixtures("at_once")


@pytest.fixture
def whole() -> Iterator[Whole]:
    """n2 is empty and drained; nothing is fenced by itself."""
    made = Whole(replace(RESTART, dead_nodes="observe"))
    made.cluster.put(replace(made.cluster.nodes["n2"], drained=True, candidate=False))
    made.learn()
    yield made
    made.close()


def ask(whole: Whole, name: str = "n2") -> str:
    wish = whole.wish(DrillPower(name))
    whole.rounds(1)
    return whole.store.answer(wish) or ""


def powers(whole: Whole) -> list[PowerCommand]:
    found = [job.action for job in whole.cluster.jobs.values() if isinstance(job.action, Power)]
    return [one.command for one in found if one.command is not PowerCommand.STATUS]


def told(whole: Whole) -> list[tuple[str, Detail]]:
    """The events of drills, and why one has failed."""
    found = whole.store.history(None, Ms(1000))
    return [(one.kind, one.details.get("why", "")) for one in found if one.kind in KINDS]


def ended(whole: Whole) -> list[tuple[str, Detail]]:
    for _ in range(200):
        whole.rounds(1)
        if not whole.ledger.fencing:
            return told(whole)
    raise AssertionError(f"never ends: {whole.ledger.fencing}")


def test_an_empty_node_is_powered_off_proven_and_on_again(whole: Whole) -> None:
    assert ask(whole) == ""
    assert ended(whole) == [("drill-started", ""), ("drill-passed", "")]
    assert powers(whole) == [OFF, ON]
    assert whole.machines.boots == {"n2": 1}
    node = whole.cluster.nodes["n2"]
    assert (node.drained, node.offline, node.tags) == (True, False, frozenset())
    assert not [j for j in whole.cluster.jobs.values() if isinstance(j.action, SetOffline)]


def test_a_control_of_another_node_fails_it_and_that_one_is_on_again(whole: Whole) -> None:
    whole.machines.controls["n2"] = (Control(of="n6"),)
    whole.rounds(15, 6100.0)  # it says on, for n6 runs
    assert ask(whole) == ""
    found = ended(whole)
    assert found[-1] == ("drill-failed", "n2 answers although its power was switched off")
    assert powers(whole) == [OFF, ON]
    assert whole.machines.boots == {"n6": 1}
    assert not whole.machines.off


def test_the_command_shows_each_step(
    whole: Whole, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = Live(whole, tmp_path)
    monkeypatch.setattr(waiting, "EVERY", 0.0)
    monkeypatch.setattr(time, "sleep", lambda _: live.tick(20.0))
    try:
        ask = ("--socket", live.socket, "drill", "--really")
        assert "n3 is in service" in gnt_maint(*ask, "n3").refused(1)
        done = gnt_maint(*ask, "n2")
        assert done.code == 0, done
        steps = [line.partition("  ")[2] for line in done.out.splitlines()]
        wanted = [
            "drill started: maintd powers it off and on",
            "planned: power off n2",
            "job done: power off n2",
            "planned: power on n2",
            "drill passed: its power was proven off, and its agent answers again",
        ]
        assert [step for step in steps if step in wanted] == wanted
        whole.machines.controls["n2"] = (Control(ignores=True),)
        done = gnt_maint(*ask, "n2", "--json")
        assert done.code == 1
        assert done.err == "gnt-maint: the drill of n2 failed: see gnt-maint why n2\n"
        assert json.loads(done.out)["steps"][-1]["kind"] == "drill-failed"
    finally:
        live.close()
