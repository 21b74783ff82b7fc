"""Nodes whose agent does not answer are listed: since when, by what evidence, and what helps."""

from dataclasses import replace
from pathlib import Path

import pytest

from nodeagent.maintd.ledger.unreachable import TOLD
from nodeagent.model.reason import Held, Kind
from nodeagent.model.units import Ms
from tests.maintd.rig import QUICK, Rig, fleet


def told(rig: Rig, seconds: float = 10.0) -> list[Held]:
    kinds = (Kind.UNREACHABLE, Kind.AGENT_UNREACHABLE, Kind.MORE_UNREACHABLE)
    return [held for held in rig.tick(seconds).decision.held if held.why.kind in kinds]


def test_a_silent_node_is_listed_after_a_while_and_until_it_answers() -> None:
    rig = Rig(fleet())
    rig.agents.says["n4"] = None
    rig.cluster.world.machines.off |= {"n4"}
    assert told(rig) == []
    assert told(rig, 179.0) == []
    (held,) = told(rig, 1.0)
    assert held.node == "n4"
    assert held.reason == (
        "n4 has been unreachable since 2026-11-18 11:06 UTC (silent: timed out; Ganeti's noded does"
        " not answer either; in doubt: 0 other nodes have lately tried to reach n4, and it takes"
        " 3): run nodeagent report n4; if the machine is dead, switch it off and run gnt-node"
        " modify --offline=yes n4"
    )
    assert held.why.help == "nodeagent report n4"
    (known,) = told(rig)
    assert told(rig)[0].key == known.key, "it is the same line in the round after"
    del rig.agents.says["n4"]
    assert told(rig) == []
    assert rig.ledger.unreachable == ()
    assert rig.jobs() == []


@pytest.mark.parametrize("dead", [True, False])
def test_ganetis_noded_is_the_evidence_whether_it_is_the_machine_or_the_agent(dead: bool) -> None:
    rig = Rig(fleet())
    rig.agents.says["n4"] = None
    rig.cluster.world.machines.off |= {"n4"} if dead else set()
    rig.tick()
    assert rig.tick(90.0).observed.noded == {}, "nobody is asked in the first half of that time"
    rig.tick(90.0)
    assert rig.tick().observed.noded == {"n4": not dead}
    (held,) = told(rig)
    if dead:
        assert "(silent: timed out; Ganeti's noded does not answer either; in doubt" in held.reason
        assert "switch it off and run gnt-node modify --offline=yes n4" in held.reason
    else:
        assert held.reason.endswith(
            "(silent: timed out), but Ganeti's noded answers, so the machine is up:"
            " run nodeagent report n4, and look at the agent there"
        )
    del rig.agents.says["n4"]
    rig.tick()
    assert rig.tick().observed.noded == {}, "it answers again"


def test_one_answer_begins_the_count_anew() -> None:
    rig = Rig(fleet())
    rig.agents.says["n4"] = None
    rig.tick()
    rig.tick(170)
    del rig.agents.says["n4"]
    rig.tick()
    rig.agents.says["n4"] = None
    assert [told(rig) for _ in range(18)] == [[]] * 18
    assert told(rig)


def test_one_who_is_not_believed_is_listed_too() -> None:
    rig = Rig(fleet())
    rig.agents.required = True
    rig.tick()
    found = told(rig, 180.0)
    assert [held.node for held in found] == [f"n{i}" for i in range(1, 7)]
    assert all("(distrusted: " in held.reason for held in found)


def test_an_offline_node_is_not_polled_and_not_listed() -> None:
    rig = Rig(fleet())
    rig.agents.says["n4"] = None
    rig.tick()
    rig.cluster.put(replace(rig.cluster.nodes["n4"], offline=True, candidate=False))
    assert told(rig, 200.0) == []
    assert rig.ledger.unreachable == ()


def test_the_moment_survives_a_restart(tmp_path: Path) -> None:
    rig = Rig(fleet(), path=str(tmp_path / "ledger.sqlite"))
    rig.agents.says["n4"] = None
    rig.tick()
    rig.tick(100)
    rig.crash()
    assert told(rig, 80.0)


def test_a_clock_that_was_put_back_makes_the_wait_no_longer() -> None:
    rig = Rig(fleet())
    rig.agents.says["n4"] = None
    rig.tick()
    rig.skew = -86_400.0
    rig.tick()
    assert told(rig, 180.0)


@pytest.mark.parametrize(("tag", "listed"), [("10m", False), ("1m", True)])
def test_a_tag_says_for_how_long(tag: str, listed: bool) -> None:
    rig = Rig(fleet())
    node = rig.cluster.nodes["n4"]
    rig.cluster.put(replace(node, tags=frozenset({f"maintd:unreachable-after:{tag}"})))
    rig.agents.says["n4"] = None
    rig.tick()
    assert bool(told(rig, 60.0)) == listed


def test_where_the_vote_is_undecided_they_are_listed_all_the_more() -> None:
    rig = Rig(fleet(), policy=replace(QUICK, unreachable_after=Ms(60_000)))
    rig.agents.says |= dict.fromkeys(("n4", "n5", "n6"))
    rig.tick()
    done = rig.tick(60.0)
    assert done.idle
    assert sum(held.why.kind is Kind.UNREACHABLE for held in done.decision.held) == 3


def test_of_many_each_beyond_twenty_is_counted() -> None:
    rig = Rig(fleet(60))
    rig.agents.says |= dict.fromkeys(f"n{i}" for i in range(35, 60))
    rig.tick()
    found = told(rig, 200.0)
    assert len(found) == TOLD + 1
    assert found[-1].reason == (
        "5 more nodes are unreachable: run gnt-maint nodes --state unreachable"
    )
