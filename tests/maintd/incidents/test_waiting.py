"""Sentences about completed incidents: each is true, and names what closes it."""

from dataclasses import replace

from nodeagent.maintd.incidents.waiting import left_to_do
from nodeagent.model.units import Ms
from tests.maintd.incidents.test_returns import done, evacuated, later, repaired, state
from tests.maintd.rig import Rig
from tests.maintd.world import OK


def told(rig: Rig) -> str:
    return left_to_do(rig.incident("n3"), rig.cluster.snapshot(), rig.engine.policy)


def test_an_evacuated_node() -> None:
    assert told(evacuated()) == "evacuated and offline: repair n3, then run gnt-maint done n3"


def test_a_node_that_somebody_has_put_back() -> None:
    rig = evacuated()
    rig.cluster.put(replace(rig.cluster.nodes["n3"], drained=False, offline=False))
    later(rig, 5)
    assert told(rig) == "n3 is in service: gnt-maint done n3 closes its incident"


def test_a_node_put_back_by_force_that_does_not_answer() -> None:
    """Its incident stays: a node that does not answer has not reported Ok."""
    rig = evacuated()
    rig.agents.says["n3"] = None
    assert done(rig, force=True) == ""
    later(rig, 6)
    assert state(rig) == "in service"
    assert (
        told(rig)
        == "n3 is in service: its incident closes once its agent reports that the fault is gone"
    )
    rig.agents.says["n3"] = OK
    later(rig, 2)
    assert not rig.ledger.incidents


def test_a_live_repair_says_when_it_closes_by_itself() -> None:
    rig = repaired(Ms(3_600_000))
    assert "has not reported Ok since: check it, then run gnt-maint done n3" in told(rig)
    rig.agents.says["n3"] = OK
    rig.tick()
    closes = "the repair command has succeeded: gnt-maint done n3 closes it"
    assert told(rig).startswith(f"{closes}, or maintd does at 2026-11-18T")
    assert told(rig).endswith("Z if it stays healthy")
    rig.engine.policy = replace(rig.engine.policy, close_live_repairs=None)
    assert told(rig) == closes
