"""gnt-maint what-if, capacity and balance where Ganeti is asked; test_planners.py has files."""

import json
from pathlib import Path

import pytest

from nodeagent.cli.maint.console import cluster_source
from nodeagent.model.departure import Cause, Departure
from nodeagent.model.units import Ms
from nodeagent.placement.cluster.textfile import parse
from nodeagent.store.departures_file import DeparturesFile
from tests.cli.maint.here import Here
from tests.cli.run import gnt_maint
from tests.cluster.ganeti.answering import serving
from tests.maintd.rig import Rig, fleet, mirrored
from tests.placement.evacuate.rings import RING
from tests.placement.luxid import Luxid


def test_ganeti_and_its_nodes_are_asked(tmp_path: Path) -> None:
    line = ("what-if", "evacuate", "c", "--luxi")
    with serving(Luxid(parse(RING)), str(tmp_path / "luxi")) as path:
        assert gnt_maint(*line, path, "--json").json["fits"]
    with serving(Luxid(parse(RING), silent=frozenset("a")), str(tmp_path / "luxi")) as path:
        found = json.loads(gnt_maint(*line, path, "--json").out)
        shown = gnt_maint(*line, path).out
    why = "a does not report its free resources"
    assert found["doubts"] == [{"node": "a", "why": why}]
    assert "a" not in [one["node"] for one in found["room"]]
    assert f"In doubt, and no target: {why}." in shown


FAR = Ms(4_000_000_000_000)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Four nodes here, two of which leave soon; the socket of their maintd."""
    rig = Rig(fleet(4), mirrored(("n2", "n3"), ("n2", "n3"), ("n2", "n3")))
    monkeypatch.setattr(cluster_source, "ganeti", lambda path: Here(rig.cluster))
    socket = str(tmp_path / "admin.sock")
    leaving = {"n1": Departure(Ms(FAR + 1)), "n4": Departure(FAR, cause=Cause.ROLL)}
    DeparturesFile.beside(socket).tell(leaving)
    return socket


def test_the_last_to_leave_comes_first_and_is_named(here: str) -> None:
    words = "n1 leaves service at 2096-10-02T07:06:40Z for a maintenance window"
    found = json.loads(gnt_maint("--socket", here, "what-if", "evacuate", "n2", "--json").out)
    assert [one["to"] for one in found["moves"]] == [["n3", "n1"]] * 3
    assert found["leave-soon"] == [words]
    shown = gnt_maint("--socket", here, "what-if", "evacuate", "n2").out
    assert "\nn1 leaves service at 2096-10-02 07:06:40 +0000 for a maintenance window: " in shown


def test_capacity_without_the_next_node_to_leave(here: str) -> None:
    (group,) = gnt_maint("--socket", here, "capacity", "--json").json["groups"]
    assert group["next"] == {"leaves": FAR / 1000, "why": "for rolling maintenance"}
    assert {tuple(size["away"]["without"]) for size in group["sizes"]} == {("n4",)}


def test_a_balance_leaves_out_the_nodes_that_leave_soon(here: str) -> None:
    done = gnt_maint("--socket", here, "balance", "--search", "exact", "--json")
    assert done.code == 0, done.err
    assert [line.split()[1] for line in done.err.splitlines()] == ["n1", "n4"]
    used = {name for move in json.loads(done.out)["moves"] for name in move["to"].values()}
    assert used <= {"n2", "n3"}
    Path(here).with_name("departures.json").unlink()
    done = gnt_maint("--socket", here, "balance", "--search", "exact", "--json")
    used = {name for move in json.loads(done.out)["moves"] for name in move["to"].values()}
    assert {"n1", "n4"} <= used
