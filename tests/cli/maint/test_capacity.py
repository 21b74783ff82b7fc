"""gnt-maint capacity: by a file, and by a Ganeti with nodes that leave soon."""

import json
from pathlib import Path
from typing import Any

import pytest

from nodeagent.cli.gnt_maint import main
from nodeagent.cli.maint.console import cluster_source
from nodeagent.model.departure import Cause, Departure
from nodeagent.model.units import Ms
from nodeagent.placement.cluster.cluster import Cluster, Group, Node, Policy, Spec
from nodeagent.placement.cluster.textfile import write
from nodeagent.store.departures_file import DeparturesFile
from tests import forked
from tests.cli.maint.here import Here
from tests.maintd.rig import Rig, fleet, mirrored

SMALL, LARGE = Spec(1024, 1, 10240, 1, 1, 1), Spec(2048, 2, 20480, 1, 1, 1)


def cluster() -> Cluster:
    """Four nodes of group g1, and two of g2, each with room for four small instances."""
    groups = tuple(Group(f"g{n}", f"u{n}", policy=Policy(SMALL, ((SMALL, LARGE),))) for n in (1, 2))
    nodes = (
        Node(f"n{n}.example", "u1" if n < 5 else "u2", 4200.0, 0, 4200, 1e6, 10**6, 64.0)
        for n in range(1, 7)
    )
    return Cluster(groups, tuple(nodes), ())


@pytest.fixture
def saved(tmp_path: Path) -> str:
    file = tmp_path / "cluster.data"
    file.write_text(write(cluster()))
    return str(file)


def gnt_maint(*words: str) -> forked.Done:
    return forked.run(main, "gnt-maint", ["capacity", *words])


def told(*words: str) -> Any:
    done = gnt_maint(*words, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def numbers(group: Any) -> list[tuple[int, int, int | None]]:
    return [
        (size["today"]["fits"], size["worst"]["fits"], size["away"] and size["away"]["fits"])
        for size in group["sizes"]
    ]


def test_all_groups_or_one(saved: str) -> None:
    found = told("-t", saved, "--disk-template", "ext")
    assert [one["group"] for one in found["groups"]] == ["g1", "g2"]
    assert numbers(found["groups"][0]) == [(12, 8, None), (6, 4, None)]
    assert numbers(found["groups"][1]) == [(4, 0, None), (2, 0, None)]
    (one,) = told("-t", saved, "-G", "g2", "--disk-template", "ext")["groups"]
    assert one == found["groups"][1]


def test_without_named_nodes(saved: str) -> None:
    words = "-t", saved, "-G", "g1", "--disk-template", "ext", "--away", "n1", "--away", "n2"
    (group,) = told(*words)["groups"]
    assert numbers(group) == [(12, 8, 4), (6, 4, 2)]
    assert group["sizes"][0]["away"]["without"] == ["n1.example", "n2.example"]


def test_no_further_than_asked(saved: str) -> None:
    words = "-t", saved, "-G", "g1", "--disk-template", "ext", "--most", "5"
    (group,) = told(*words)["groups"]
    assert group["sizes"][0]["today"] == {"fits": 5, "exact": False, "limit": None}
    shown = gnt_maint(*words).stdout
    assert ">=5" in shown.split()
    assert "Counted no further than 5 of a size; --most counts further." in shown


def test_the_table_has_room_on_a_terminal(saved: str) -> None:
    shown = gnt_maint("-t", saved, "--disk-template", "ext", "--away", "n1").stdout
    rows = [line.split("  ") for line in shown.splitlines() if line.startswith("standard")]
    cells = [[cell.strip() for cell in row if cell.strip()] for row in rows]
    assert cells[0][1:] == ["1.0G", "10.0G", "1", "12", "N+1", "8", "n1", "8"]
    assert max(map(len, shown.splitlines())) <= 80


@pytest.mark.parametrize(
    ("words", "code", "why"),
    [
        (("--away", "n9"), 1, "--away: there is no node n9"),
        (("-G", "g9"), 1, "there is no group g9"),
        (("--disk-template", "raid"), 64, "'raid' is not one of"),
        (("-L", "/x"), 64, "-t and -L are two clusters: name one"),
        (("--time", "soon"), 64, "is not a duration"),
    ],
)
def test_a_wrong_command_line(saved: str, words: tuple[str, ...], code: int, why: str) -> None:
    done = gnt_maint("-t", saved, *words)
    assert (done.returncode, why in done.stderr) == (code, True), done.stderr


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
    done = forked.run(main, "gnt-maint", ["--socket", socket, "capacity", "--json"])
    assert done.returncode == 0, done.stderr
    (group,) = json.loads(done.stdout)["groups"]
    assert group["next"] == {"leaves": far / 1000 - 0.5, "why": "for rolling maintenance"}
    assert {tuple(size["away"]["without"]) for size in group["sizes"]} == {("n2",)}
