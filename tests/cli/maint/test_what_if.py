"""gnt-maint what-if: by a file, and by a Ganeti of which only the LUXI socket is there."""

import json
from pathlib import Path
from typing import Any

import pytest

from nodeagent.cli.gnt_maint import main
from nodeagent.cli.maint.console import cluster_source
from nodeagent.model.departure import Departure
from nodeagent.model.units import Ms
from nodeagent.placement.cluster.cluster import Cluster, Group, Instance, Node, Template
from nodeagent.placement.cluster.textfile import write
from nodeagent.store.departures_file import DeparturesFile
from tests import forked
from tests.cli.maint.here import Here
from tests.cluster.ganeti.answering import serving
from tests.maintd.rig import Rig, fleet, mirrored
from tests.placement.luxid import Luxid


def node(name: str, free: int = 4000) -> Node:
    return Node(f"{name}.example", "u1", 8000.0, 0, free, 1e5, 50_000, 16.0, spindles=4)


def cluster(*, room: int = 4000) -> Cluster:
    return Cluster(
        (Group("default", "u1"),),
        (node("n1"), node("n2"), node("n3", room)),
        (
            Instance("web", 1000, 1000, 1, "n1.example", "n2.example"),
            Instance("shared", 2000, 1000, 1, "n1.example", None, Template.EXT),
            Instance("mail", 500, 1000, 1, "n2.example", "n1.example"),
        ),
    )


def gnt_maint(*words: str, text: str = "") -> forked.Done:
    return forked.run(main, "gnt-maint", ["what-if", "evacuate", *words], stdin=text)


def told(*words: str, text: str = "", code: int = 0) -> Any:
    done = gnt_maint(*words, "--json", text=text)
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def saved(tmp_path: Path) -> str:
    file = tmp_path / "cluster.data"
    file.write_text(write(cluster()))
    return str(file)


def test_it_fits(saved: str) -> None:
    found = told("-t", saved, "n1")
    assert (found["nodes"], found["fits"], found["left"]) == (["n1.example"], True, [])
    moves = {one["instance"]: one for one in found["moves"]}
    assert moves["web"] == {
        "instance": "web",
        "from": ["n1.example", "n2.example"],
        "to": ["n2.example", "n3.example"],
        "commands": [
            "gnt-instance migrate -f web",
            "gnt-instance replace-disks -n n3.example web",
        ],
    }
    assert moves["mail"]["to"] == ["n2.example", "n3.example"]
    room = {one["node"]: one for one in found["room"]}
    assert set(room) == {"n2.example", "n3.example"}
    assert all(one["n+1"] and one["n+1-before"] for one in room.values())
    assert sum(one["free-memory"] for one in room.values()) == 8000 - 3000
    assert room["n3.example"]["reserved-memory"] == 1500


def test_it_does_not_fit(tmp_path: Path) -> None:
    file = tmp_path / "cluster.data"
    file.write_text(write(cluster(room=1200)))
    done = gnt_maint("-t", str(file), "n1.example")
    assert done.returncode == 2
    assert "It does not fit: 1 instance would be left on n1.example." in done.stdout
    found = told("-t", "-", "n1", text=file.read_text(), code=2)
    (left,) = found["left"]
    assert (left["instance"], left["nodes"]) == ("mail", ["n2.example", "n1.example"])
    assert left["why"].startswith("its secondary cannot move: the only other node does not take it")
    assert told("-t", str(file), "n1", "--ignore-soft-errors")["fits"]


def test_people_see_what_goes_where_and_the_room_then(saved: str) -> None:
    done = gnt_maint("-t", saved, "n1")
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["shared", "n1.example", "n3.example", "migrate"] in lines
    web = [
        "web",
        "n1.example:n2.example",
        "n2.example:n3.example",
        "migrate,",
        "replace",
        "the",
        "secondary",
        "node",
    ]
    assert web in lines
    assert "It fits: n1.example would be empty." in done.stdout
    empty = Cluster(cluster().groups, cluster().nodes, ())
    Path(saved).write_text(write(empty))
    assert "n1.example: nothing is there." in gnt_maint("-t", saved, "n1").stdout


def test_ganeti_and_its_nodes_are_asked(tmp_path: Path) -> None:
    silent = frozenset({"n3.example"})
    with serving(Luxid(cluster()), str(tmp_path / "luxi")) as path:
        assert told("--luxi", path, "n1")["fits"]
    with serving(Luxid(cluster(), silent=silent), str(tmp_path / "luxi")) as path:
        found = told("--luxi", path, "n1", code=2)
        shown = gnt_maint("--luxi", path, "n1").stdout
    why = "n3.example does not report its free resources"
    assert found["doubts"] == [{"node": "n3.example", "why": why}]
    assert [one["node"] for one in found["room"]] == ["n2.example"]
    assert f"In doubt, and no target: {why}." in shown


@pytest.mark.parametrize(
    ("words", "code", "why"),
    [
        (("n7",), 1, "there is no node n7"),
        (("n",), 1, "there is no node n"),
        ((), 64, "Missing argument 'NODE...'"),
        (("n1", "--luxi", "/x"), 64, "-t and --luxi are two clusters: name one"),
    ],
)
def test_what_makes_no_sense_is_refused(
    saved: str, words: tuple[str, ...], code: int, why: str
) -> None:
    done = gnt_maint("-t", saved, *words)
    assert done.returncode == code
    assert why in done.stderr


def test_a_file_that_is_none_and_a_ganeti_that_is_none(tmp_path: Path) -> None:
    done = gnt_maint("-t", str(tmp_path / "none"), "n1")
    assert (done.returncode, "No such file" in done.stderr) == (1, True)
    bad = tmp_path / "bad"
    bad.write_text(write(cluster()).replace("|8000|", "|much|", 1))
    done = gnt_maint("-t", str(bad), "n1")
    assert done.returncode == 1
    assert f"{bad}:3: n1.example: total memory: 'much' is not a number" in done.stderr
    assert gnt_maint("--luxi", str(tmp_path / "none"), "n1").returncode == 69


FAR = Ms(4_000_000_000_000)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Four nodes here, two of which leave soon; the socket of their maintd."""
    rig = Rig(fleet(4), mirrored(("n2", "n3"), ("n2", "n3"), ("n2", "n3")))
    monkeypatch.setattr(cluster_source, "ganeti", lambda path: Here(rig.cluster))
    socket = str(tmp_path / "admin.sock")
    leaving = {"n1": Departure(Ms(FAR + 1)), "n4": Departure(FAR)}
    DeparturesFile.beside(socket).tell(leaving)
    return socket


def gnt_maint_here(socket: str, *words: str) -> forked.Done:
    return forked.run(main, "gnt-maint", ["--socket", socket, *words])


def test_the_last_to_leave_comes_first_and_is_named(here: str) -> None:
    words = "n1 leaves service at 2096-10-02T07:06:40Z for a maintenance window"
    found = json.loads(gnt_maint_here(here, "what-if", "evacuate", "n2", "--json").stdout)
    assert [one["to"] for one in found["moves"]] == [["n3", "n1"]] * 3
    assert found["leave-soon"] == [words]
    shown = gnt_maint_here(here, "what-if", "evacuate", "n2").stdout
    assert "\nn1 leaves service at 2096-10-02 07:06:40 +0000 for a maintenance window: " in shown


def test_a_balance_leaves_out_the_nodes_that_leave_soon(here: str) -> None:
    done = gnt_maint_here(here, "balance", "--json")
    assert done.returncode == 0, done.stderr
    assert [line.split()[1] for line in done.stderr.splitlines()] == ["n1", "n4"]
    used = {name for move in json.loads(done.stdout)["moves"] for name in move["to"].values()}
    assert used <= {"n2", "n3"}
    Path(here).with_name("departures.json").unlink()
    done = gnt_maint_here(here, "balance", "--json")
    used = {name for move in json.loads(done.stdout)["moves"] for name in move["to"].values()}
    assert {"n1", "n4"} <= used


def test_a_wrong_file_of_departures_is_named(here: str) -> None:
    file = Path(here).with_name("departures.json")
    file.write_text("{")
    done = gnt_maint_here(here, "what-if", "evacuate", "n2", "--json")
    assert (done.returncode, json.loads(done.stdout)["leave-soon"]) == (0, [])
    assert done.stderr == f"gnt-maint: {file}: is not JSON\n"
