"""How even groups are: hbal's own figures, every five minutes."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from types import MappingProxyType

import pytest

from nodeagent.errors import Unavailable
from nodeagent.maintd.balancing.ratings import rated
from nodeagent.maintd.balancing.search_thread import RATED, Adviser, nothing_measured
from nodeagent.model.snapshot import Capacity, Group, Instance, Node, Running, Size, Snapshot
from nodeagent.model.units import Ms
from nodeagent.placement.cluster.cluster import Known
from nodeagent.placement.cluster.from_ganeti import assess
from nodeagent.placement.cluster.textfile import parse
from tests.maintd.balancing.world import LOPSIDED

HALF = Capacity(2000, 50_000, Size(4000, 0, 100_000, 8))
TWO = Snapshot(
    "c",
    {
        name: Node(name, f"uuid-{name}", "127.0.0.1", group=group)
        for name, group in (("a1", "a"), ("a2", "a"), ("b1", "b"), ("b2", "b"))
    },
    {
        "even": Instance("even", "a1", "a2", memory=2000, disk=50_000),
        "odd": Instance("odd", "a2", "a1", memory=2000, disk=50_000),
        "big": Instance("big", "b1", "b2", memory=3000, disk=10_000),
    },
    {group: Group(group, group) for group in "ab"},
)


def test_each_group_counts_its_own_nodes_and_instances() -> None:
    small = replace(HALF, memory=1000)
    room = {"a1": HALF, "a2": HALF, "b1": small, "b2": small}
    found = rated(assess(TWO, room), TWO, ["a", "b"], Ms(0))
    assert {name: one.instances for name, one in found.items()} == {
        "a": {"running": 2},
        "b": {"running": 1},
    }
    assert {name: (one.memory, one.disk) for name, one in found.items()} == {
        "a": (4000, 100_000),
        "b": (2000, 100_000),
    }
    assert {name: one.failing for name, one in found.items()} == {"a": 0, "b": 1}, (
        "b2 has no room for the instance of b1"
    )
    assert found["a"].score < found["b"].score


@pytest.mark.parametrize(
    ("node", "rated_groups"),
    [
        pytest.param({}, {"b"}, id="in service and silent: its group is unknown"),
        pytest.param({"drained": True}, {"a", "b"}, id="drained: it does not count"),
        pytest.param({"offline": True}, {"a", "b"}, id="offline: it does not count"),
    ],
)
def test_a_node_that_does_not_say_what_it_has(
    node: dict[str, bool], rated_groups: set[str]
) -> None:
    changed = replace(TWO.nodes["a2"], **node)  # type: ignore[arg-type]
    world = replace(TWO, nodes={**TWO.nodes, "a2": changed})
    known = assess(world, dict.fromkeys(("a1", "b1", "b2"), HALF))
    assert rated(known, world, ["a", "b"], Ms(0)).keys() == rated_groups


# Where no round asks, the adviser's thread does.


class Quiet:
    """A cluster where nothing is to be done; its nodes are asked for their ratings alone."""

    def __init__(self, *silent: str) -> None:
        self.seconds = 0.0
        self.asked: list[list[str]] = []
        self.wrong: list[Exception] = []
        self.answering = sorted(TWO.nodes.keys() - set(silent))
        self.adviser = Adviser(
            lambda *_: Known(parse(LOPSIDED), {}),
            nothing_measured,
            lambda work: work(),
            lambda: self.seconds,
            self._room,
            self._running,
        )
        self.told: list[list[str]] = []
        self.down: frozenset[str] = frozenset()
        self.unknown = False

    def _room(self, nodes: Collection[str]) -> Mapping[str, Capacity]:
        self.asked.append(sorted(nodes))
        if self.wrong:
            raise self.wrong.pop()
        return dict.fromkeys(nodes, HALF)

    def _running(self, nodes: Collection[str]) -> Mapping[str, Running]:
        self.told.append(sorted(nodes))
        if self.unknown:
            raise Unavailable("no luxid")
        return {
            one.name: Running("ERROR_down" if one.name in self.down else "running", 2000)
            for one in TWO.instances.values()
            if one.primary in nodes
        }

    def round(self, capacity: Mapping[str, Capacity] = MappingProxyType({})) -> set[str]:
        """Hold a round ten seconds later; the groups that are rated by then."""
        self.seconds += 10
        now = Ms(int(self.seconds * 1000))
        self.adviser.rate(TWO, capacity, self.answering, now)
        return set(self.adviser.ratings)


def test_a_quiet_cluster_is_rated_every_five_minutes() -> None:
    one = Quiet()
    for _ in range(int(2 * RATED / 10) + 1):
        assert one.round() == {"a", "b"}
    assert one.asked == [["a1", "a2", "b1", "b2"]] * 3


def test_a_quiet_cluster_s_instances_are_counted_by_their_status_in_ganeti() -> None:
    one = Quiet("b2")
    one.down = frozenset({"odd"})
    one.round()
    assert one.told == [["a1", "a2"]]
    assert one.adviser.ratings["a"].instances == {"running": 1, "ERROR_down": 1}
    for _ in range(int(RATED / 10) - 1):
        one.round()
    assert len(one.told) == 1, "every five minutes"
    one.unknown = True
    one.round()
    assert len(one.told) == 2
    assert one.adviser.ratings["a"].instances == {}, "unknown, not old"


def test_where_ganeti_does_not_answer_it_is_asked_again_later() -> None:
    one = Quiet()
    one.wrong.append(Unavailable("no luxid"))
    for _ in range(int(RATED / 10)):
        assert one.round() == set()
    assert one.round() == {"a", "b"}
    assert len(one.asked) == 2
