"""The forecast of a fire drill: it says what then really happens, and what stands in the way."""

import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

from nodeagent.maintd.deciding.drill import Forecast, Hearing, forecast, refusal
from nodeagent.maintd.http import routes
from nodeagent.model.evidence import Contact
from nodeagent.model.evidence import Testimony as Told
from nodeagent.model.fencing import Stage
from nodeagent.model.ledger import Policy
from nodeagent.model.snapshot import Instance
from nodeagent.model.units import Ms
from simulation.machines import Control
from tests.cli.live import Live
from tests.cli.run import gnt_maint
from tests.maintd import inline
from tests.maintd.fencing.whole import INSTANCES, RESTART, Whole

pytestmark = pytest.mark.usefixtures("at_once")


def drilled(whole: Whole, name: str = "n3", **hearing: object) -> Forecast:
    """The forecast from the present state."""
    snapshot = whole.cluster.snapshot()
    capacity, told, missing = inline.run(whole.engine.rehearse(name, snapshot))
    assert whole.newest is not None
    observed = replace(whole.newest.observed, snapshot=snapshot, capacity=capacity)
    assert refusal(observed, name) == ""
    heard = replace(Hearing(told, missing), **hearing)  # type: ignore[arg-type]
    before = len(whole.cluster.jobs)
    found = forecast(whole.ledger, observed, whole.policy, name, heard, Ms(20_000), whole.now())
    assert len(whole.cluster.jobs) == before, "nothing is touched"
    return found


def ready(policy: Policy = RESTART, instances: tuple[Instance, ...] = INSTANCES) -> Whole:
    whole = Whole(policy, instances)
    whole.learn()
    return whole


def kinds(found: Forecast) -> set[str]:
    return {kind.word for why in found.whys for kind in why.kinds}


@pytest.mark.parametrize("mode", ["fence", "restart"])
@pytest.mark.parametrize("revive", [True, False])
def test_what_is_forecast_then_happens(mode: str, revive: bool) -> None:
    whole = ready(replace(RESTART, dead_nodes=mode, revive=revive))
    found = drilled(whole)
    assert found.done, found.whys
    told = {one.instance: (one.state, one.on) for one in found.fates}
    began = whole.now()
    whole.machines.cut.add("n3")
    whole.machines.apart.add("n3")
    for _ in range(120):
        whole.rounds(1)
        if whole.stage("n3") is Stage.FENCED:
            break
    assert whole.cluster.nodes["n3"].offline
    really = {
        name: ("restarted", there.primary) if there.primary != "n3" else ("stays down", "")
        for name in ("drbd", "shared", "plain")
        for there in [whole.cluster.instances[name]]
    }
    assert told == really
    texts = [step.text for step in found.steps]
    assert ("power on n3" in texts) == (mode == "restart" and revive)
    minutes = (found.steps[-1].at - found.steps[0].at) / 60_000
    took = (whole.now() - began) / 60_000
    assert abs(minutes - took) < 3, "and when"


def test_a_dead_bmc_is_found_before_it_is_needed() -> None:
    whole = ready()
    whole.machines.controls["n3"] = (Control(dead=True),)
    whole.rounds(1, 86_400)
    whole.rounds(30, 61)
    found = drilled(whole)
    assert not found.fenced
    assert kinds(found) >= {"control-fails", "silence-alone"}
    assert not [step for step in found.steps if step.text == "power off n3"]


def test_witnesses_that_cannot_reach_it_now() -> None:
    whole = ready()
    blind = Told("n4", whole.now(), Contact.SILENT, Contact.SILENT, ())
    found = drilled(whole, testimonies=(blind,))
    assert not found.done
    assert kinds(found) >= {"drill-blind", "few-witnesses"}


def test_what_cannot_be_drilled() -> None:
    whole = ready()
    whole.cluster.put(replace(whole.cluster.nodes["n6"], offline=True, candidate=False))
    whole.machines.hung.add("n5")
    whole.rounds(2)
    assert whole.newest is not None
    observed = whole.newest.observed
    for name, why in (
        ("n9", "there is no node n9"),
        ("n1", "n1 is the master node"),
        ("n6", "n6 is offline already"),
        ("n5", "n5 does not answer, so a drill proves nothing"),
    ):
        assert refusal(observed, name).startswith(why)


def test_over_http_and_on_the_command_line(tmp_path: Path) -> None:
    whole = ready()
    live = Live(whole, tmp_path)
    live.maintd.every = 20.0
    try:
        done = gnt_maint("--socket", live.socket, "drill", "n3")
        assert done.code == 0
        assert done.out.endswith("All would go as it should.\n")
        whole.policy = replace(RESTART, dead_nodes="observe")
        live.maintd.engine.policy = whole.policy
        done = gnt_maint("--socket", live.socket, "drill", "n3")
        assert done.code == 1
        assert done.err == "gnt-maint: not all would go as it should if n3 died\n"
        done = gnt_maint("--socket", live.socket, "drill", "n3", "--json")
        told = json.loads(done.out)
        assert told["reasons"][0]["kind"] == "drill-observes"
        assert {(one["reaches"], one["disks"]) for one in told["witnesses"]} == {(True, "read")}
        described = json.loads(Path(routes.__file__).with_name("openapi.json").read_text())
        schema = {"$ref": "#/components/schemas/Drill", "components": described["components"]}
        jsonschema.validate(told, schema)
        why = gnt_maint("--socket", live.socket, "drill", "n1").refused(1)
        assert why == "n1 is the master node, where maintd runs: it never fences it"
    finally:
        live.close()
