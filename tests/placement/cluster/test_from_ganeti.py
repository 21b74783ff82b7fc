"""A cluster as it stands: what the real hbal makes of the same answers of Ganeti, to the digit."""

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nodeagent.cluster.ganeti.backend import GanetiCluster
from nodeagent.errors import MessageError
from nodeagent.maintd.balancing.inputs import take_stock
from nodeagent.model.snapshot import Capacity, Group, Instance, Node, Running, Size, Snapshot
from nodeagent.placement.cluster.cluster import Known, Status
from nodeagent.placement.cluster.from_ganeti import OWN_MEMORY, asked, assess
from nodeagent.placement.cluster.textfile import parse
from nodeagent.placement.layout import score
from nodeagent.placement.layout.layout import lay_out
from nodeagent.placement.layout.rules import Rules
from simulation.textfile import write
from tests.cluster.ganeti.answering import serving
from tests.placement.cluster.told import told
from tests.placement.hbal import ask, real, shown
from tests.placement.luxid import Luxid

SIZE = Size(8192, 1024, 100_000, 8, 2, 4, 3)
FREE = Capacity(4096, 50_000, SIZE)
NODES = {name: Node(name, f"uuid-{name}", "127.0.0.1", "g") for name in ("n1", "n2", "n3")}
GROUPS = {"g": Group("g", "default")}


def stock(luxid: Luxid, folder: Path, own_memory: int = OWN_MEMORY) -> Known:
    with serving(luxid, str(folder / "luxi")) as path, closing(GanetiCluster(path)) as cluster:
        return take_stock(cluster, own_memory)


def test_what_ganeti_tells_is_taken_as_it_is(tmp_path: Path) -> None:
    for seed in range(40):
        cluster = told(seed)
        off = frozenset(node.name for node in cluster.nodes if node.offline)
        known = stock(Luxid(cluster, drained=off), tmp_path)
        assert known.cluster == cluster
        assert not known.doubts


@real
def test_the_real_hbal_takes_the_same_cluster_from_the_same_answers(tmp_path: Path) -> None:
    for seed in range(40):
        agree(seed, tmp_path)


def agree(seed: int, folder: Path) -> None:
    cluster = told(seed)
    off = [node.name for node in cluster.nodes if node.offline]
    hypervisor = ("xen-pvm", "kvm", "kvm")[seed % 3]
    own = (OWN_MEMORY, OWN_MEMORY, 0)[seed % 3]
    luxid = Luxid(cluster, frozenset(off[::2]), hypervisor=hypervisor)
    ours = stock(luxid, folder, own).cluster
    with serving(luxid, str(folder / "luxi")) as path:
        for group in ours.groups:
            saved = folder / group.name
            options = ["-G", group.name, "-l", "0", f"--static-kvm-node-memory={own}"]
            theirs = ask([f"-L{path}", "-S", str(saved), *options])
            split = "Found instances belonging to multiple node groups" in theirs.err
            assert theirs.code == 0 or split, theirs.err  # then it fails, after it has told it
            assert parse((folder / f"{group.name}.original").read_text()) == parse(write(ours))
            if not theirs.initial:
                assert "Cluster is empty" in theirs.out
                continue
            layout = lay_out(ours, group, Rules())
            values = score.components(layout.group_nodes())
            names = [part.name for part in score.COMPONENTS]
            assert theirs.components == tuple(zip(names, map(shown, values), strict=True))
            assert shown(score.score(layout)) == theirs.initial


@real
def test_one_silent_node_hides_the_cluster_from_the_real_hbal_and_not_from_us(
    tmp_path: Path,
) -> None:
    cluster = told(1)
    name = next(node.name for node in cluster.nodes if not node.offline)
    luxid = Luxid(cluster, silent=frozenset({name}))
    known = stock(luxid, tmp_path)
    assert known.doubts == {name: f"{name} does not report its free resources"}
    assert known.untouchable
    with serving(luxid, str(tmp_path / "luxi")) as path:
        assert "failed to load data" in ask([f"-L{path}"]).err


def snapshot(*instances: Instance, **changes: Node) -> Snapshot:
    named = {instance.name: instance for instance in instances}
    return Snapshot("c", NODES | changes, named, GROUPS, "n1")


def test_a_node_that_does_not_say_what_it_has_is_in_doubt_and_nothing_on_it_moves() -> None:
    seen = snapshot(
        Instance("on", "n2", "n1"),
        Instance("mirrored", "n1", "n2"),
        Instance("beside", "n1", "n3"),
    )
    known = assess(seen, {"n1": FREE, "n3": replace(FREE, size=None)})
    assert known.doubts == {
        "n2": "n2 does not report its free resources",
        "n3": "n3 does not say how large it is",
    }
    assert [node.offline for node in known.cluster.nodes] == [False, True, True]
    assert [node.memory for node in known.cluster.nodes] == [8192, 0, 0]
    assert known.untouchable == {"on", "mirrored", "beside"}
    known = assess(seen, dict.fromkeys(NODES, FREE), doubts={"n3": "n3 is silent", "n9": "gone"})
    assert known.doubts == {"n3": "n3 is silent"}
    assert known.cluster.nodes[2].offline
    assert known.cluster.nodes[2].free_memory == 4096, "what is there still counts"
    assert known.untouchable == {"beside"}


def test_whom_nobody_asks_is_offline_and_no_doubt() -> None:
    seen = snapshot(
        n1=replace(NODES["n1"], vm_capable=False),
        n2=replace(NODES["n2"], offline=True, exclusive=True, spindles=7),
        n3=replace(NODES["n3"], drained=True, exclusive=True, spindles=7, speed=0.5),
    )
    assert asked(seen) == ["n3"]
    known = assess(seen, {"n3": FREE})
    assert not known.doubts
    assert [node.offline for node in known.cluster.nodes] == [True, True, True]
    assert [node.memory for node in known.cluster.nodes] == [0, 0, 8192]
    assert [node.spindles for node in known.cluster.nodes] == [1, 0, 4]
    assert (known.cluster.nodes[2].free_spindles, known.cluster.nodes[2].speed) == (3, 0.5)


@pytest.mark.parametrize(
    ("now", "status", "memory"),
    [
        (None, Status.RUNNING, 128),
        (Running("running", 96), Status.RUNNING, 96),
        (Running("ERROR_down"), Status.ERROR_DOWN, 128),
        (Running("ERROR_wrongnode", 96), Status.ERROR_WRONG_NODE, 96),
        (Running("a word of tomorrow"), Status.RUNNING, 128),
    ],
)
def test_what_an_instance_says_comes_before_what_its_administrator_wants(
    now: Running | None, status: Status, memory: int
) -> None:
    seen = snapshot(Instance("web", "n1", memory=128, template="ext"))
    known = assess(seen, dict.fromkeys(NODES, FREE), {} if now is None else {"web": now})
    (web,) = known.cluster.instances
    assert (web.status, web.memory) == (status, memory)


def test_one_that_is_left_down_and_one_that_is_mirrored_nowhere() -> None:
    left = Instance("left", "n1", template="ext", running=False, offline=True)
    nowhere = Instance("nowhere", "n1", None, "drbd")
    known = assess(snapshot(left, nowhere), dict.fromkeys(NODES, FREE))
    assert known.cluster.instances[0].status is Status.ADMIN_OFFLINE
    assert not known.cluster.instances[1].movable


@pytest.mark.parametrize("template", ["mixed", "tape"])
def test_disks_of_several_or_unknown_kinds_stay_and_hide_no_other_instance(template: str) -> None:
    """Ganeti calls an instance with a plain and a drbd disk mixed; it moves neither."""
    seen = snapshot(Instance("odd", "n1", template=template), Instance("web", "n1", "n2"))
    odd, web = assess(seen, dict.fromkeys(NODES, FREE)).cluster.instances
    assert (odd.movable, web.movable) == (False, True)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        (
            {"groups": {"g": Group("g", "default", policy="{")}},
            "group default: its instance policy is not JSON",
        ),
        (
            {"groups": {"g": Group("g", "default", policy='{"minmax":[{}]}')}},
            r"group default: ipolicy.minmax\[0\].min: is missing",
        ),
        ({"policy": "[]"}, "the cluster: ipolicy: is not an object"),
        (
            {"groups": {"g": Group("g", "default", allocation="never")}},
            "group default: allocation policy: 'never' is not one of preferred, last_resort,",
        ),
    ],
)
def test_what_cannot_be_is_refused_with_its_place(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(MessageError, match=f"^{why}"):
        assess(replace(snapshot(), **changes), dict.fromkeys(NODES, FREE))
