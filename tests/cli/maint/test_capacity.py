"""gnt-maint capacity with nodes that leave soon; test_planners.py has the rest."""

from pathlib import Path

import pytest

from nodeagent.cli.maint.console import cluster_source
from nodeagent.model.departure import Cause, Departure
from nodeagent.model.units import Ms
from nodeagent.placement.cluster.cluster import Spec
from nodeagent.store.departures_file import DeparturesFile
from tests.cli.maint.here import Here
from tests.cli.run import gnt_maint
from tests.maintd.rig import Rig, fleet, mirrored

SMALL, LARGE = Spec(1024, 1, 10240, 1, 1, 1), Spec(2048, 2, 20480, 1, 1, 1)


def test_the_next_nodes_to_leave(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(fleet(4), mirrored(("n2", "n3"), ("n3", "n4")))
    monkeypatch.setattr(cluster_source, "ganeti", lambda path: Here(rig.cluster))
    socket = str(tmp_path / "admin.sock")
    far = 4_000_000_000_000
    leaving = {
        "n1": Departure(Ms(far), Ms(far + 1000), Cause.ROLL),
        "n2": Departure(Ms(far - 500), Ms(far + 1000), Cause.ROLL),
        "n4": Departure(Ms(far + 500), None, Cause.WINDOW),
    }
    DeparturesFile.beside(socket).tell(leaving)
    (group,) = gnt_maint("--socket", socket, "capacity", "--json").json["groups"]
    assert group["next"] == {"leaves": far / 1000 - 0.5, "why": "for rolling maintenance"}
    assert {tuple(size["away"]["without"]) for size in group["sizes"]} == {("n2",)}
