"""gnt-maint why: of whatever has the name. `tests/cli/test_screens.py` has what is said of it."""

from dataclasses import replace
from pathlib import Path

from nodeagent.model.wish import Cancel
from tests.cli.live import Live
from tests.cli.run import at
from tests.cli.scenes import policy
from tests.maintd.rig import Rig, fleet, mirrored
from tests.maintd.world import EVACUATE, REPAIR


def why(live: Live, name: str) -> str:
    return at(live, "why", name).out


def test_instances_have_short_names_too(tmp_path: Path) -> None:
    names = ("web.example", "db.a.example", "db.b.example")
    places = mirrored(("n3", "n4"), ("n3", "n5"), ("n2", "n3"))
    there = [replace(one, name=name) for one, name in zip(places, names, strict=True)]
    live = Live(Rig(fleet(), there), tmp_path)
    try:
        for verb in ("why", "explain"):
            for name in ("web", "WEB.example."):
                assert at(live, verb, name).out.startswith(
                    "Instance  web.example (drbd) on n3, n4\n"
                )
            told = at(live, verb, "db").refused(1)
            assert told == "db is short for db.a.example and db.b.example"
    finally:
        live.close()


def test_a_limit_that_another_node_waits_for_is_not_said(quiet: Live) -> None:
    quiet.rig.agents.says |= {"n3": EVACUATE, "n4": EVACUATE}
    policy(quiet, storm=1.0, nodes_in_work=1)
    limit = "maintd works on 1 of at most 1 nodes: n3"
    while limit not in at(quiet, "held").out:
        quiet.tick()
    assert [name for name in ("n2", "n3", "n4") if limit in why(quiet, name)] == ["n4"]


def test_of_an_instance_whose_moves_are_not_jobs_yet(busy: Live) -> None:
    ledger = busy.rig.ledger
    planned = tuple(replace(intent, job=None) for intent in ledger.intents)
    busy.maintd.engine._ledger = replace(ledger, intents=planned)
    told = why(busy, "i1")
    assert "\nNext      wait: migrate i1 off n3 to n4: planned, and not yet known" in told
    assert "\nPlanned   migrate i1 off n3 to n4\n" in told
    busy.maintd.engine._ledger = ledger


def test_of_an_instance_whose_node_waits_for_its_evacuation(quiet: Live) -> None:
    at(quiet, "pause")
    quiet.rig.agents.says["n3"] = EVACUATE
    for stage, then in (("full", "paused by root"), ("observe", "does not at stage observe")):
        policy(quiet, stage=stage)
        quiet.tick()
        uuid = quiet.rig.incident("n3").id
        lines = why(quiet, "i1").splitlines()
        (said,) = (line for line in lines if line.startswith("Next "))
        assert f"Next      wait: incident {uuid} requests evacuate for n3: " in said, stage
        assert then in said, stage
        at(quiet, "resume")
    quiet.rig.agents.says["n3"] = REPAIR
    quiet.rig.wish(Cancel(uuid))
    quiet.tick(times=2)
    assert f"incident {uuid}" not in why(quiet, "i1")
