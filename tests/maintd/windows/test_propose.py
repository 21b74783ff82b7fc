"""Windows for many nodes: everything finds a place, by a judge that knows none of our code."""

from collections import Counter
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from nodeagent.cluster.ganeti.backend import GanetiCluster
from nodeagent.maintd.balancing.inputs import take_stock
from nodeagent.maintd.planning.evacuation_time import Leads
from nodeagent.maintd.windows.propose import ProposedWindows, WindowsWanted, propose
from nodeagent.model.ledger import Ledger
from nodeagent.model.outage import Back, Outage, Way
from nodeagent.model.snapshot import Snapshot
from nodeagent.model.units import Ms, Nanoseconds
from nodeagent.model.window import Machine, Mode, Schedule, Scheduled, Unavailability, Window
from nodeagent.placement.cluster.cluster import Cluster, Group, Instance, Known, Node, Template
from nodeagent.placement.evacuate.batches import most
from simulation.textfile import write
from tests.build import in_parts
from tests.cluster.ganeti.answering import serving
from tests.placement.cluster.told import told as as_told
from tests.placement.luxid import Luxid

NOW = Ms(1_795_000_000_000)
HOUR = Nanoseconds(3600 * 10**9)
START = NOW * 10**6 + 100 * HOUR


def seen(luxid: Luxid, folder: Path) -> tuple[Snapshot, Known]:
    with serving(luxid, str(folder / "luxi")) as path, closing(GanetiCluster(path)) as cluster:
        return cluster.snapshot(), take_stock(cluster)


def node(name: str, memory: int = 8000, free: int = 8000, group: str = "u1") -> Node:
    return Node(name, group, memory, 0, free, 1e5, 50_000, 16.0, spindles=4, own_cpus=0)


def ring(count: int, free: int = 6000, **changed: Node) -> Cluster:
    """Each node has an instance of 1000 MiB that is mirrored to the next; n1 is the master."""
    names = [f"n{n}" for n in range(1, count + 1)]
    nodes = [replace(changed.get(name, node(name, free=free)), name=name) for name in names]
    nodes[0] = replace(nodes[0], master=True)
    instances = [
        Instance(f"i{n}", 1000, 1000, 1, name, names[n % count]) for n, name in enumerate(names, 1)
    ]
    return Cluster((Group("default", "u1"),), tuple(nodes), tuple(instances))


def planned(
    cluster: Cluster, folder: Path, ledger: Ledger | None = None, **asked: object
) -> ProposedWindows:
    snapshot, known = seen(Luxid(cluster), folder)
    return given(snapshot, known, ledger, **asked)


def given(
    snapshot: Snapshot, known: Known, ledger: Ledger | None = None, **asked: object
) -> ProposedWindows:
    names = tuple(one.name for one in known.cluster.nodes)
    wanted = replace(WindowsWanted(names, START, 2 * HOUR), **asked)  # type: ignore[arg-type]
    return propose(wanted, known, snapshot, ledger or Ledger(), NOW)


def names(found: ProposedWindows) -> list[list[str]]:
    return [[machine.hostname for machine in window.machines] for window in found.windows]


def test_all_nodes_have_their_turn_and_the_master_is_the_last(tmp_path: Path) -> None:
    found = planned(ring(6), tmp_path)
    assert sorted(name for some in names(found) for name in some) == [f"n{n}" for n in range(1, 7)]
    assert names(found)[-1][-1] == "n1"
    assert found.left_out == {}
    assert found.remarks == (
        "n1 is the master node, and comes last: run gnt-cluster master-failover on another master"
        " candidate before",
    )
    for some in names(found):
        assert not any({one, after(one)} <= set(some) for one in some), "an instance has both"


def after(name: str) -> str:
    return f"n{int(name[1:]) % 6 + 1}"


@pytest.mark.parametrize("seed", range(40))
def test_everything_finds_a_place_where_one_failure_more_is_survived(
    seed: int, tmp_path: Path
) -> None:
    """What would be moved, replayed from the rows of a file, window after window."""
    snapshot, known = seen(Luxid(hbals(as_told(seed))), tmp_path)
    group = known.cluster.groups[seed % len(known.cluster.groups)]
    wanted = tuple(one.name for one in known.cluster.nodes if one.group == group.uuid)
    found = given(snapshot, known, nodes=wanted)
    told = {name for some in names(found) for name in some} | set(found.left_out)
    assert told == set(wanted)
    rows = _Rows(write(known.cluster))
    first = Counter(rows.pairs())
    for number, evacuation in enumerate(found.evacuations):
        window = found.windows[number]
        if number in found.balanced:
            rows = _Rows(write(known.cluster))
        inside = {machine.hostname for machine in window.machines}
        assert not any(set(pair) <= inside for pair in first if all(pair)), "lost with both nodes"
        for way in evacuation.ways:
            name = known.cluster.instances[way.instance].name
            for move in way.moves:
                target = known.cluster.nodes[move.target].name if move.target >= 0 else ""
                assert target not in inside
            rows.move(
                name, *(known.cluster.nodes[at].name if at >= 0 else "" for at in way.after[:2])
            )
        there = {name for name, pair in rows.places().items() if inside.intersection(pair)}
        assert not there, "the nodes are empty then"


def hbals(cluster: Cluster) -> Cluster:
    """The same with instances only that hbal moves as well; the judge knows its rules."""
    group = {node.name: node.group for node in cluster.nodes}
    instances = (
        replace(one, auto_balance=True)
        for one in cluster.instances
        if one.template is not Template.DISKLESS
        and group[one.primary] == group[one.secondary or one.primary]
    )
    return replace(cluster, instances=tuple(instances))


class _Rows:
    """A cluster's file, its instances moved by hand."""

    def __init__(self, text: str) -> None:
        self.sections: list[list[str]] = [[]]
        for line in text.removesuffix("\n").split("\n"):
            if line:
                self.sections[-1].append(line)
            else:
                self.sections.append([])
        self.nodes = {row.split("|")[0]: row.split("|") for row in self.sections[1]}
        self.instances = {row.split("|")[0]: row.split("|") for row in self.sections[2]}

    def text(self) -> str:
        first, _, _, *rest = self.sections
        rows = [[*map("|".join, self.nodes.values())], [*map("|".join, self.instances.values())]]
        return "\n".join("".join(f"{line}\n" for line in part) for part in (first, *rows, *rest))

    def places(self) -> dict[str, tuple[str, str]]:
        return {name: (row[6], row[7]) for name, row in self.instances.items()}

    def pairs(self) -> list[tuple[str, str]]:
        return [pair for pair in self.places().values() if pair[1]]

    def move(self, name: str, primary: str, secondary: str) -> None:
        row = self.instances[name]
        old, new = {row[6], row[7]} - {""}, {primary, secondary} - {""}
        if row[12] == "N":
            if row[4] not in ("ADMIN_down", "ADMIN_offline", "USER_down", "ERROR_down"):
                self._add(row[6], 3, int(row[1]))
                self._add(primary, 3, -int(row[1]))
            if row[8] in ("drbd", "plain"):
                for one in old - new:
                    self._add(one, 5, int(row[2]))
                    self._add(one, 12, int(row[11].replace("-", "0")))
                for one in new - old:
                    self._add(one, 5, -int(row[2]))
                    self._add(one, 12, -int(row[11].replace("-", "0")))
        row[6], row[7] = primary, secondary

    def _add(self, node: str, place: int, amount: int) -> None:
        row = self.nodes[node]
        if place != 12 or row[11] == "Y":
            row[place] = str(int(row[place]) + amount)


def test_the_windows_follow_each_other(tmp_path: Path) -> None:
    found = planned(ring(4), tmp_path, gap=HOUR)
    spans = [window.unavailability for window in found.windows]
    assert [span.start for span in spans] == [START + n * 3 * HOUR for n in range(len(spans))]
    assert {span.duration for span in spans} == {2 * HOUR}


def test_the_next_nodes_are_emptied_in_the_gap(tmp_path: Path) -> None:
    """Of those that go together the slowest counts."""
    cluster = ring(6)
    large = (replace(one, disk=9000) if one.name == "i2" else one for one in cluster.instances)
    snapshot, known = seen(Luxid(replace(cluster, instances=tuple(large))), tmp_path)
    found = given(snapshot, known)
    assert len(found.windows) > 1
    longer = 0
    for one, other in zip(found.windows, found.windows[1:], strict=False):
        end = one.unavailability.start + (one.unavailability.duration or 0)
        gap = (other.unavailability.start - end) // 10**6
        least = max(Leads(snapshot, ()).of(snapshot.nodes[m.hostname]) for m in other.machines)
        assert gap % 300_000 == 0
        assert gap >= least
        longer += gap >= least + 300_000
    assert longer, "for what has come since"


def test_what_can_have_no_window_is_told(tmp_path: Path) -> None:
    off = replace(node("n2"), offline=True)
    cluster = ring(8, n2=off, n3=off)
    luxid = Luxid(cluster, drained=frozenset(["n3"]), silent=frozenset(["n8"]))
    snapshot, known = seen(luxid, tmp_path)
    machines = [Machine("n4"), Machine("n5")]
    when = Unavailability(Nanoseconds(START + 999 * HOUR))
    ledger = Ledger(
        schedule=Schedule((Window(tuple(machines), when),)),
        scheduled=(
            Scheduled(machines[0], when, Mode.DRAINING, NOW),
            Scheduled(machines[1], when, Mode.DOWN, NOW),
        ),
        outages=(Outage(snapshot.nodes["n6"].uuid, back=Back(Way.WINDOW, NOW)),),
    )
    found = given(snapshot, known, ledger)
    assert {name: why for name, why in found.left_out.items() if name not in ("n1", "n7")} == {
        "n2": "is offline",
        "n3": "is drained",
        "n4": "is in a maintenance window already",
        "n5": "is down for its maintenance window",
        "n6": "is on its way back into service",
        "n8": "n8 does not report its free resources",
    }
    assert "its secondary n2 is offline" in found.left_out["n1"]
    assert "its secondary n8 is in doubt (n8 does not report its" in found.left_out["n7"]


def test_what_does_not_fit_is_told_and_the_rest_is_planned(tmp_path: Path) -> None:
    cluster = ring(4)
    alone = Instance("alone", 100, 100, 1, "n3", None, Template.PLAIN)
    cluster = replace(cluster, instances=(*cluster.instances, alone))
    found = planned(cluster, tmp_path)
    assert found.left_out == {
        "n3": "cannot be evacuated: instance alone stays: its disks (plain) are only on n3"
    }
    assert sorted(name for some in names(found) for name in some) == ["n1", "n2", "n4"]
    found = planned(cluster, tmp_path, ignore=True)
    assert found.left_out == {}
    stays = [remark for remark in found.remarks if remark.startswith("instance ")]
    assert [one[:45] for one in stays] == ["instance alone stays on n3, and keeps it from"]
    found = planned(cluster, tmp_path, nodes=("n2",), ignore=True)
    assert (names(found), found.remarks) == ([["n2"]], ())


def test_a_node_with_only_some_disks_of_an_instance_can_have_no_window(tmp_path: Path) -> None:
    snapshot, known = seen(Luxid(ring(4)), tmp_path)
    snapshot = replace(snapshot, instances={"odd": in_parts("odd", "n1", "n3")})
    found = given(snapshot, known, Ledger())
    assert found.left_out == {
        "n3": "cannot be evacuated: instance odd stays: Ganeti moves none of its disks (mixed), as"
        " only some of them are on n3"
    }


def test_fewer_go_together_where_there_is_little_room(tmp_path: Path) -> None:
    roomy, full = planned(ring(12), tmp_path), planned(ring(12, free=1500), tmp_path)
    assert len(full.windows) > len(roomy.windows) == 2
    assert (sum(map(len, names(full))), full.left_out) == (12, {})


def test_instances_are_to_be_spread_anew_where_nothing_fits_otherwise(tmp_path: Path) -> None:
    """Six of twelve nodes can be emptied, and then the other six are too full for each other."""
    found = planned(ring(12, free=3000), tmp_path)
    assert [len(some) for some in names(found)] == [6, 6]
    assert found.balanced == {1}
    assert found.remarks[0].startswith("before the window of n3 the instances must be balanced")


def with_window(
    start: int, *machines: str, duration: Nanoseconds | None = HOUR, mode: Mode = Mode.DRAINING
) -> Ledger:
    them = tuple(Machine(name) for name in machines)
    window = Window(them, Unavailability(Nanoseconds(start), duration))
    scheduled = tuple(Scheduled(one, window.unavailability, mode, NOW) for one in them)
    return Ledger(schedule=Schedule((window,)), scheduled=scheduled)


@pytest.mark.parametrize("most", [None, 1])
@pytest.mark.parametrize(
    ("start", "duration", "counts"),
    [
        pytest.param(START + HOUR, HOUR, True, id="at the same time"),
        pytest.param(START - 50 * HOUR, HOUR, False, id="over before"),
        pytest.param(START - 50 * HOUR, None, True, id="without an end"),
        pytest.param(START + 900 * HOUR, HOUR, False, id="long after"),
    ],
)
def test_nodes_of_other_windows_are_not_counted_on(
    start: int, duration: Nanoseconds | None, counts: bool, most: int | None, tmp_path: Path
) -> None:
    ledger = with_window(start, "n5", duration=duration)
    found = planned(ring(6), tmp_path, ledger, most=most)
    told = "in maintenance windows of their own meanwhile: n5"
    assert (told in found.remarks) == counts
    to = {at for evacuation in found.evacuations for way in evacuation.ways for at in way.after[:2]}
    assert (4 in to) != counts


def test_too_late_to_be_empty_in_time(tmp_path: Path) -> None:
    found = planned(ring(6), tmp_path, start=NOW * 10**6)
    (late,) = found.late
    assert late.endswith(" cannot be evacuated in time: that takes 15 min, and 0 min are left")
    soon = planned(ring(6), tmp_path, start=NOW * 10**6 + 15 * 60 * 10**9)
    assert soon.late == ()


@pytest.mark.parametrize("limit", range(1, 14))
def test_the_most_that_fit(limit: int) -> None:
    for least in range(limit + 1):
        asked: list[int] = []

        def fits(count: int, least: int = least, asked: list[int] = asked) -> bool:
            asked.append(count)
            return count <= least

        assert most(limit, fits) == least
        assert len(asked) <= 8
        assert least in asked or least == 0
        assert 1 in asked or least > 0
