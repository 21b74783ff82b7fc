"""Emptying nodes: what goes and what stays, and hail asked where it answers."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nodeagent.errors import MessageError
from nodeagent.placement.allocate.request import read_request
from nodeagent.placement.cluster.cluster import (
    SHARED,
    Cluster,
    Group,
    Instance,
    Node,
    Status,
    Template,
)
from nodeagent.placement.cluster.textfile import parse
from nodeagent.placement.evacuate.evacuate import Emptier, Evacuation, _Emptying, evacuate, failing
from nodeagent.placement.evacuate.targets import Arrivals
from nodeagent.placement.layout.layout import Layout
from nodeagent.placement.layout.moves import Kind, Move, Moved, attempt
from nodeagent.placement.layout.node import Filled
from nodeagent.placement.layout.rules import Rules
from nodeagent.placement.layout.score import Metrics
from tests.htools import beside
from tests.placement.clusters import case
from tests.placement.hail import Asked, hail
from tests.placement.requests import request

SEEDS = range(70)


def leaving(cluster: Cluster, seed: int) -> list[str]:
    """One to three nodes that answer."""
    alive = [node.name for node in cluster.nodes if node.memory]
    return alive[seed % 3 :: 3][: 1 + seed % 3] if len(alive) > 2 else alive[:1]


def test_every_move_is_allowed_and_what_is_not_left_is_gone() -> None:
    """And the clusters have all of it."""
    every = [allowed_and_gone(seed) for seed in SEEDS]
    kinds = {tuple(move.kind for move in way.moves) for found in every for way in found.ways}
    assert kinds == {
        (Kind.FAILOVER_REPLACE,),
        (Kind.FAILOVER,),
        (Kind.REPLACE,),
        (Kind.FAILOVER_ANY,),
        (Kind.REPLACE_FAILOVER, Kind.REPLACE),
    }
    some = [found for found in every if found.ways]
    assert sum(found.complete for found in some) > 10
    assert sum(bool(found.left) for found in some) > 10


def allowed_and_gone(seed: int) -> Evacuation:
    """One evacuation: what is not left has gone."""
    cluster = parse(case(seed).text)
    names = leaving(cluster, seed)
    found = evacuate(cluster, names, Rules())
    places = {node.name: index for index, node in enumerate(cluster.nodes)}
    away = {places[name] for name in names}
    for index, known in enumerate(cluster.instances):
        stays = away & {*found.after.places[index][:2]}
        assert bool(stays) == (index in found.left), known.name
    assert found.complete == (not found.left)
    staying = found.staying()
    assert set(failing(found.after, staying)) <= set(failing(found.before, staying)), "N+1"
    assert not away.intersection(staying)
    if seed % 10 == 0:
        assert evacuate(cluster, names, Rules()) == found
    return found


def only(asked: Asked, kept: Iterable[str], mode: str, name: str) -> Asked:
    """The cluster with these instances alone; asked for what is on the node."""
    some = set(kept)
    instances = {one: known for one, known in asked["instances"].items() if one in some}
    here = [one for one, known in instances.items() if name in known["nodes"]]
    wanted = {"type": "node-evacuate", "instances": here, "evac_mode": mode}
    return {**asked, "instances": instances, "request": wanted}


@beside("hail")
def test_no_more_is_left_than_where_hail_empties_a_node(tmp_path: Path) -> None:
    """A node that mirrors alone, and one with instances on shared storage alone."""
    moved, ours, theirs = 0, 0, 0
    for seed in range(120):
        asked, _ = request(seed, "node-evacuate")
        name = next((n for n, of in asked["nodes"].items() if "total_memory" in of), "")
        if not name:
            continue
        asked["nodes"][name]["drained"] = False
        nodes = {one: known["nodes"] for one, known in asked["instances"].items()}
        shared = [
            one
            for one, known in asked["instances"].items()
            if name not in known["nodes"]
            or (known["nodes"][0] == name and known["disk_template"] in SHARED)
        ]
        mirrors = [one for one in nodes if nodes[one][0] != name]
        for kept, mode in ((mirrors, "secondary-only"), (shared, "primary-only")):
            some = only(asked, kept, mode, name)
            here = some["request"]["instances"]
            if not here:
                continue
            left = evacuate(read_request(some).cluster, [name], Rules()).left
            told = hail(tmp_path, some, [])
            assert told["success"], told
            failed = told["result"][1]
            if len(here) == 1:
                assert bool(left) == bool(failed), (seed, mode)
            moved, ours, theirs = moved + len(here), ours + len(left), theirs + len(failed)
            assert len(left) <= len(failed), (seed, mode, failed)
    assert moved > 100
    assert 0 < ours <= theirs


def node(name: str, free: int = 4000, group: str = "u1", **changes: Any) -> Node:
    return replace(
        Node(name, group, 8000.0, 0, free, 100_000.0, 50_000, 16.0, spindles=4), **changes
    )


def gone(name: str) -> Node:
    """Nobody knows what it has."""
    return Node(name, "u1", 0.0, 0, 0, 0.0, 0, 0.0, offline=True, own_cpus=0)


def instance(name: str, where: str, memory: int = 100, **changes: Any) -> Instance:
    primary, _, secondary = where.partition(":")
    template = Template.DRBD if secondary else Template.EXT
    known = Instance(name, memory, 1000, 1, primary, secondary or None, template)
    return replace(known, **changes)


def cluster_of(nodes: list[Node], *instances: Instance, tags: tuple[str, ...] = ()) -> Cluster:
    groups = (Group("first", "u1"), Group("second", "u2"))
    return Cluster(groups, tuple(nodes), instances, tags)


def with_ratio(cluster: Cluster, spindle_ratio: float) -> Cluster:
    groups = (
        replace(group, policy=replace(group.policy, spindle_ratio=spindle_ratio))
        for group in cluster.groups
    )
    return replace(cluster, groups=tuple(groups))


def places(found: Evacuation) -> dict[str, str]:
    """Where each instance that goes is then."""
    names = [one.host.name for one in found.after.nodes]
    known = found.before.cluster.instances
    return {
        known[way.instance].name: ":".join(names[at] for at in way.after[:2] if at >= 0)
        for way in found.ways
    }


def reasons(found: Evacuation) -> dict[str, str]:
    return {found.before.cluster.instances[one].name: why for one, why in found.left.items()}


THREE = [node("n1"), node("n2"), node("n3")]


def test_several_nodes_at_once_are_no_place_for_each_other() -> None:
    nodes = [*THREE, node("n4"), node("other", group="u2")]
    two = instance("two", "n1:n2")
    shared = instance("shared", "n2")
    found = evacuate(cluster_of(nodes, two, shared), ["n1", "n2"], Rules())
    assert found.complete
    assert sorted(places(found)["two"].split(":")) == ["n3", "n4"]
    assert places(found)["shared"] in ("n3", "n4")
    half = evacuate(cluster_of(nodes[:3], two), ["n1", "n2"], Rules())
    assert reasons(half) == {"two": "no other node of its group is online and stays"}
    full = evacuate(cluster_of([*nodes[:2], node("n3", 50)], two), ["n1", "n2"], Rules())
    assert reasons(full)["two"].startswith("the only other node does not take it: too little mem")
    assert not full.ways


@pytest.mark.parametrize(
    ("nodes", "one", "why"),
    [
        (THREE, {"template": Template.PLAIN}, "its disks (plain) are only on n1"),
        (THREE, {"template": Template.FILE}, "its disks (file) are only on n1"),
        ([node("n1"), node("x", group="u2")], {}, "no other node of its group is online and stays"),
        (
            [node("n1"), node("n2", 100)],
            {},
            "the only other node does not take it: too little memory, or none left if another"
            " node fails",
        ),
        (
            [node("n1"), node("n2", 100), node("n3", free_memory=50), node("n4", cpus=0.1)],
            {},
            "none of the 3 other nodes can take it: too little memory, or none left if another"
            " node fails (2); too many virtual CPUs (1)",
        ),
        ([node("n1"), gone("n2"), node("n3")], {"secondary": "n2"}, "its secondary n2 is offline"),
        (
            [node("n1"), node("n2", offline=True), node("n3")],
            {"secondary": "n2"},
            "its secondary n2 is drained",
        ),
        (
            [node("n1"), node("n2", 100), node("n3")],
            {"secondary": "n2"},
            "its secondary n2 cannot run it: too little memory, or none left if another node fails",
        ),
        (
            [node("n1"), node("n2"), node("n3", free_disk=900)],
            {"secondary": "n2"},
            "no node can be its new secondary: the only other node does not take it: too little"
            " disk, or too much pressure on its disks",
        ),
        (
            [node("n1"), node("n2"), node("n3", free_disk=900)],
            {"primary": "n2", "secondary": "n1"},
            "its secondary cannot move: the only other node does not take it: too little"
            " disk, or too"
            " much pressure on its disks",
        ),
        (
            [node("n1"), gone("n2"), node("n3")],
            {"primary": "n2", "secondary": "n1"},
            "it cannot get a new secondary: n2 is offline",
        ),
    ],
)
def test_whatever_stays_is_named_with_the_reason(
    nodes: list[Node], one: dict[str, Any], why: str
) -> None:
    template = Template.DRBD if "secondary" in one else Template.EXT
    known = instance("i", "n1", **{"template": template, **one})
    found = evacuate(cluster_of(nodes, known), ["n1"], Rules())
    assert reasons(found) == {"i": why}
    assert not found.complete


def test_a_node_in_doubt_is_no_target_and_no_mirror_to_run_at() -> None:
    nodes = [node("n1"), node("n2", offline=True), node("n3")]
    known = cluster_of(nodes, instance("i", "n1:n2"), instance("j", "n1"))
    found = evacuate(known, ["n1"], Rules(), {"n2": "n2 is silent"})
    assert reasons(found) == {"i": "its secondary n2 is in doubt (n2 is silent)"}
    assert places(found) == {"j": "n3"}


def test_what_runs_elsewhere_while_its_mirror_stays_is_both() -> None:
    nodes = [node("n1"), node("n2"), node("n3", free_disk=900)]
    found = evacuate(cluster_of(nodes, instance("i", "n1:n2")), ["n1"], Rules())
    assert places(found) == {"i": "n2:n1"}
    assert set(reasons(found)) == {"i"}


def test_the_large_one_goes_first() -> None:
    """By name, or each to the node with the most room, the small one would be in its way."""
    nodes = [node("n1"), node("n2", 1000), node("n3", 600)]
    known = cluster_of(nodes, instance("a", "n1", 500), instance("b", "n1", 900))
    assert places(evacuate(known, ["n1"], Rules())) == {"a": "n3", "b": "n2"}


def test_what_is_mirrored_goes_before_what_is_not() -> None:
    """It can run at its mirror alone, and the larger one anywhere."""
    known = cluster_of(THREE, instance("a", "n1", 800), instance("b", "n1:n2", 700))
    assert list(places(evacuate(known, ["n1"], Rules()))) == ["b", "a"]


def test_of_mirrors_the_one_with_the_largest_disk_goes_first() -> None:
    nodes = [
        node("n1"),
        node("n2", free_disk=60),
        node("n3", free_disk=2500),
        node("n4", free_disk=1500),
    ]
    known = cluster_of(nodes, instance("a", "n2:n1", 10), instance("b", "n2:n1", 10, disk=2000))
    assert places(evacuate(known, ["n1"], Rules())) == {"b": "n2:n3", "a": "n2:n4"}


def test_an_unwise_mirror_runs_it_where_that_is_allowed() -> None:
    nodes = [node("n1"), node("n2", cpus=0.1), node("n3")]
    known = cluster_of(nodes, instance("i", "n1:n2"))
    assert reasons(evacuate(known, ["n1"], Rules())) == {
        "i": "its secondary n2 cannot run it: too many virtual CPUs"
    }
    assert places(evacuate(known, ["n1"], Rules(ignore_soft=True))) == {"i": "n2:n3"}


def test_who_finds_no_place_is_first_in_another_try() -> None:
    """The small one can go to n2 alone, for n3 has one of its kind; the large one to both."""
    kind = {"tags": ("svc:a",)}
    nodes = [node("n1"), node("n2", 1000), node("n3", 950)]
    known = cluster_of(
        nodes,
        instance("large", "n1", 900),
        instance("small", "n1", 200, **kind),
        instance("there", "n3", 10, **kind, status=Status.ADMIN_DOWN),
        tags=("htools:iextags:svc",),
    )
    assert places(evacuate(known, ["n1"], Rules())) == {"small": "n2", "large": "n3"}


def test_room_that_another_failure_would_need_is_left() -> None:
    """n2 would run b, 3000, were n4 to fail: it has no room for another 2000 (N+1)."""
    nodes = [node("n1"), node("n2", 4000), node("n3", 1900), node("n4")]
    known = cluster_of(nodes, instance("a", "n1", 2000), instance("b", "n4:n2", 3000))
    assert places(evacuate(known, ["n1"], Rules())) == {"a": "n4"}
    without = cluster_of([*nodes[:3], node("n4", 1900)], *known.instances)
    found = evacuate(without, ["n1"], Rules())
    assert not found.ways
    assert "none left if another node fails (3)" in reasons(found)["a"]


def test_there_is_no_such_node() -> None:
    with pytest.raises(MessageError, match=r"^there is no node n7$"):
        evacuate(cluster_of(THREE), ["n1", "n7"], Rules())


def test_the_best_place_is_that_with_the_least_score_of_the_whole_group(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each place is computed on its own as well, with the sums of the whole group."""
    best_first, offered = Arrivals.best_first, set[Kind]()

    def checked(
        self: Arrivals, layout: Layout, instance: int, kind: Kind, targets: Sequence[int]
    ) -> Iterator[tuple[Move, Moved]]:
        found = list(best_first(self, layout, instance, kind, targets))
        moves = [Move(instance, kind, target) for target in targets]
        tried = [(move, attempt(layout, move)) for move in moves]
        assert sorted(found, key=at) == [(m, to) for m, to in tried if isinstance(to, Moved)]
        group = layout.cluster.nodes[layout.places[instance].primary].group
        metrics = Metrics([layout.nodes[index] for index in self.members.get(group, ())])
        local = layout.demands[instance].local
        crowded = [local and _is_crowded(after.nodes[move.target]) for move, after in found]
        scores = [round(metrics.score(after.nodes), 8) for _, after in found]
        order = list(zip(crowded, scores, strict=True))
        assert order == sorted(order), kind
        if len(set(scores)) > 1:
            offered.add(kind)
        return iter(found)

    monkeypatch.setattr(Arrivals, "best_first", checked)
    for features in ((), ("exclusive", "forthcoming"), ("located", "excluded")):
        for seed in range(10):
            cluster = parse(case(seed, *features).text)
            for soft in (False, True):
                Emptier(cluster, Rules(ignore_soft=soft)).empty(leaving(cluster, seed))
    cluster = parse(case(3, "located", "excluded").text)
    Emptier(cluster, Rules()).empty([node.name for node in cluster.nodes[::2]])
    every = {Kind.FAILOVER_REPLACE, Kind.REPLACE, Kind.REPLACE_FAILOVER, Kind.FAILOVER_ANY}
    assert every <= offered


def _is_crowded(node: Filled) -> bool:
    """Whether it is beyond its group's spindle ratio."""
    return max(node.present.pressure, node.promised.pressure) > node.host.spindle_limit


def at(way: tuple[Move, Moved]) -> int:
    return way[0].target


def test_whether_nodes_can_be_emptied_is_known_from_the_first_that_stays() -> None:
    nodes = [node("n1"), node("n2", 1500), node("n3", 900)]
    known = cluster_of(nodes, instance("a", "n1", 1000), instance("b", "n2", 500))
    emptier = Emptier(known, Rules())
    whole = emptier.fits(["n1"])
    assert whole is not None
    assert places(whole) == {"a": "n2"}
    assert whole == emptier.empty(["n1"])
    assert emptier.fits(["n1", "n2"]) is None
    beside = emptier.fits(["n2"], ["n1"])
    assert beside is not None, "what is left on n1 does not matter"
    assert (places(beside), set(reasons(beside))) == ({"b": "n3"}, {"a"})
    plain = cluster_of(nodes, instance("p", "n1", template=Template.PLAIN))
    emptier = Emptier(plain, Rules())
    assert emptier.fits(["n1"]) is None
    assert emptier.fits(["n2"], ["n1"]) is not None


def test_a_drained_node_is_emptied_as_any_other_and_the_next_time_it_is_no_place() -> None:
    nodes = [node("n1", offline=True), node("n2"), node("n3")]
    emptier = Emptier(cluster_of(nodes, instance("i", "n1"), instance("j", "n2")), Rules())
    assert emptier.empty(["n1"]).complete
    assert not emptier.empty(["n1"]).before.nodes[0].host.offline
    assert places(emptier.empty(["n2"])) == {"j": "n3"}


@pytest.mark.parametrize(
    ("spindle_ratio", "mirrors", "crowded"),
    [
        pytest.param(32.0, ["n4", "n3", "n4", "n3", "n4"], [], id="below it by score"),
        pytest.param(1.0, ["n4", "n3", "n4", "n4", "n3"], ["n3"], id="beyond it last"),
        pytest.param(0.1, ["n4", "n3", "n4", "n4", "n4"], ["n3", "n4"], id="beyond it everywhere"),
    ],
)
def test_the_spindle_ratio_is_a_preference(
    spindle_ratio: float, mirrors: list[str], crowded: list[str]
) -> None:
    """n3 has fewer physical disks than n4."""
    nodes = [node("n1"), node("n2"), node("n3", spindles=1), node("n4", spindles=3)]
    known = cluster_of(nodes, *[instance(f"i{n}", "n1:n2") for n in range(5)])
    known = with_ratio(known, spindle_ratio)
    emptier = Emptier(known, Rules())
    found = emptier.empty(["n1"])
    assert found.complete
    assert [there.split(":")[1] for there in places(found).values()] == mirrors
    assert [nodes[index].name for index in found.crowded()] == crowded
    assert emptier.fits(["n1"]) == found
    full = [replace(one, free_disk=500) for one in nodes]
    left = evacuate(replace(known, nodes=tuple(full)), ["n1"], Rules())
    assert set(reasons(left)) == {"i0", "i1", "i2", "i3", "i4"}


def test_other_orders_are_tried_as_long_as_something_has_no_place() -> None:
    """Largest first, n3 takes 600 and 300, and the last one has no place; 500 + 400 fit there."""
    nodes = [node("n1"), node("n2", 901), node("n3", 901)]
    sizes = {"a": 600, "b": 500, "c": 400, "d": 300}
    known = cluster_of(nodes, *[instance(name, "n1", mib) for name, mib in sizes.items()])
    found = evacuate(known, ["n1"], Rules())
    assert found.complete


@pytest.mark.parametrize(
    ("instances", "spindle_ratio", "tries"),
    [
        pytest.param({"large": ("n1", 900), "small": ("n1", 100)}, 32.0, 2, id="memory"),
        pytest.param({f"i{n}": ("n1:n2", 100) for n in range(5)}, 0.5, 10, id="spindle ratio"),
    ],
)
def test_what_no_order_helps_is_not_tried_again(
    monkeypatch: pytest.MonkeyPatch,
    instances: dict[str, tuple[str, int]],
    spindle_ratio: float,
    tries: int,
) -> None:
    """Where nodes take no more by their spindle ratio, the next try is already without it."""
    best_first, count = Arrivals.best_first, 0

    def counted(*args: Any) -> Iterator[tuple[Move, Moved]]:
        nonlocal count
        count += 1
        return best_first(*args)

    monkeypatch.setattr(Arrivals, "best_first", counted)
    nodes = [node("n1"), node("n2", 800, spindles=10), node("n3", 800)]
    known = cluster_of(nodes, *[instance(name, *there) for name, there in instances.items()])
    known = with_ratio(known, spindle_ratio)
    assert set(reasons(evacuate(known, ["n1"], Rules()))) <= {"large"}
    assert count == tries


def test_no_order_leaves_fewer_than_the_spindle_ratio_allows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    least, best, equal = _Emptying._least, _Emptying.best, 0

    def compared(self: _Emptying) -> Evacuation:
        nonlocal equal
        found, bound = best(self), least(self)
        assert bound <= len(found.left)
        equal += len(self._never) < bound == len(found.left)
        return found

    monkeypatch.setattr(_Emptying, "_least", lambda _: 0)
    monkeypatch.setattr(_Emptying, "best", compared)
    for features in ((), ("exclusive", "forthcoming")):
        for seed in range(8):
            known = parse(case(seed, *features).text)
            for ratio in (1.0, 2.0, 6.0):
                Emptier(with_ratio(known, ratio), Rules()).empty(leaving(known, seed))
    assert equal
