"""Rolling maintenance beside the real hroller, and by a slow judge that knows nothing of graphs."""

import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest

from nodeagent.errors import MessageError
from nodeagent.placement.cluster import cluster as kinds
from nodeagent.placement.cluster.textfile import parse
from nodeagent.placement.evacuate.colouring import WAYS, Graph
from nodeagent.placement.evacuate.rolling import Rolling, Wanted, roll
from nodeagent.placement.layout.layout import lay_out
from nodeagent.placement.layout.rules import Rules
from tests.placement.clusters import case
from tests.placement.evacuate.rings import RING, Group, hroller, real, shared
from tests.placement.hbal import FILES, generate, shipped

SETS: tuple[tuple[str, ...], ...] = (
    (),
    ("--offline-maintenance",),
    ("--ignore-non-redundant",),
    ("--skip-non-redundant",),
    ("-O", "SOME"),
    ("-G", "GROUP"),
    ("--node-tags=rack:r1,other",),
    ("-G", "GROUP", "--node-tags=rack:r0,rack:r2", "-O", "SOME", "--offline-maintenance"),
)


@dataclass(frozen=True)
class Asked:
    """hroller's options, and the same as our values."""

    options: tuple[str, ...]
    off: frozenset[str]
    wanted: Wanted

    @classmethod
    def of(cls, text: str, some: tuple[str, ...], seed: int = 0) -> "Asked":
        """With the names of this cluster."""
        cluster, rng = parse(text), random.Random(seed)
        words = {
            "SOME": rng.choice(cluster.nodes).name if cluster.nodes else "",
            "GROUP": rng.choice(cluster.groups).name,
        }
        options = tuple(words.get(word, word) for word in some)
        pairs = dict(pairwise(options))
        tags = next((o.partition("=")[2] for o in options if o.startswith("--node-tags")), None)
        wanted = Wanted(
            pairs.get("-G"),
            None if tags is None else frozenset(tags.split(",")),
            "--offline-maintenance" in options,
            "--skip-non-redundant" in options,
            "--ignore-non-redundant" in options,
        )
        return cls(options, frozenset([pairs["-O"]] if "-O" in pairs else ()), wanted)


def ours(text: str, asked: Asked) -> Rolling | None:
    """What we find; None where there is no answer."""
    layout = lay_out(parse(text), kinds.Group("", ""), Rules(offline=asked.off))
    try:
        return roll(layout, asked.wanted)
    except MessageError:
        return None


def agree(text: str, asked: Asked, folder: Path) -> int:
    """Groups, moves and colourings are hroller's, and the judge has nothing to say; how many."""
    file = folder / "cluster.data"
    file.write_text(text)
    theirs = hroller("-t", str(file), "-f", *asked.options)
    found = ours(text, asked)
    if found is None:
        assert theirs.code == 1
        assert "Not enough capacity" in theirs.err or "Cannot create" in theirs.err
        return 0
    assert theirs.code == 0, theirs.err
    cluster = parse(text)
    groups = [
        Group(
            [cluster.nodes[index].name for index in batch.nodes],
            [
                (cluster.instances[instance].name, cluster.nodes[target].name)
                for instance, target in batch.relocations
            ],
        )
        for batch in found.batches
    ]
    assert groups == theirs.groups
    ways = {name: [len(one) for one in classes] for name, classes in found.coloured.items()}
    assert ways == theirs.ways
    judge(text, asked, groups)
    return sum(bool(batch.nodes) for batch in found.batches)


@real
def test_shipped_files(tmp_path: Path) -> None:
    """Each file with a third of the options, by turns."""
    for turn, file in enumerate(shipped(FILES, but=["invalid-node", "multiple-master"])):
        agree_with(SETS[turn % 3 :: 3], file, tmp_path)


@real
@pytest.mark.oracle
def test_shipped_files_with_all_options(tmp_path: Path) -> None:
    for file in shipped(FILES, but=["invalid-node", "multiple-master"]):
        agree_with(SETS, file, tmp_path)


def agree_with(every: Sequence[tuple[str, ...]], file: Path, folder: Path) -> None:
    text = file.read_text()
    for some in every:
        if parse(text).nodes or "SOME" not in some:
            agree(text, Asked.of(text, some), folder)


@real
def test_generated_clusters(tmp_path: Path) -> None:
    for seed in range(40):
        text = case(seed).text
        for some in (SETS[0], SETS[1 + seed % (len(SETS) - 1)]):
            agree(text, Asked.of(text, some, seed), tmp_path)


@real
@pytest.mark.oracle
@pytest.mark.parametrize("first", range(40, 440, 50))
def test_more_generated_clusters(first: int, tmp_path: Path) -> None:
    for seed in range(first, first + 50):
        text = case(seed).text
        for some in SETS:
            agree(text, Asked.of(text, some, seed), tmp_path)


def dense(nodes: int, instances: int, seed: int, **more: object) -> str:
    """A larger cluster, where a graph takes colours."""
    return str(generate(nodes, instances, seed, **more)[0])


SIZES = [(12, 40), (30, 40), (30, 120), (60, 90)]


@real
@shared
def test_larger_generated_clusters(tmp_path: Path) -> None:
    for nodes, instances in SIZES[:2]:
        text = dense(nodes, instances, 1, only_drbd=True)
        assert agree(text, Asked.of(text, ("--offline-maintenance",)), tmp_path) > 2
        assert agree(text, Asked.of(text, ()), tmp_path) > 3


@real
@shared
@pytest.mark.oracle
@pytest.mark.parametrize("seed", range(2, 12))
def test_more_larger_generated_clusters(seed: int, tmp_path: Path) -> None:
    for nodes, instances in SIZES:
        more_agree(nodes, instances, seed, tmp_path)


def more_agree(nodes: int, instances: int, seed: int, folder: Path) -> None:
    for more in ({"only_drbd": True}, {"offline": 2}, {"forthcoming": 0.2}):
        text = dense(nodes, instances, seed, **more)
        for some in SETS[:5]:
            agree(text, Asked.of(text, some, seed), folder)


# By the file's own words.


RUNS = {"running", "ERROR_up", "ERROR_nodedown", "ERROR_nodeoffline", "ERROR_wrongnode"}


class Foul(AssertionError):
    """What must not be."""


def judge(text: str, asked: Asked, told: list[Group]) -> None:
    """Foul, if these groups are not what they promise."""
    sections = [part.splitlines() for part in text.replace("\n\n", "\n\f\n").split("\f\n")]
    node_rows = [row.split("|") for row in sections[1] if row]
    nodes = {row[0]: row for row in node_rows}
    instances = [row.split("|") for row in sections[2] if row]
    there = [row for row in instances if len(row) < 13 or row[12] == "N"]
    off = {name for name, row in nodes.items() if "?" in row[1:7] or row[7] == "Y"} | asked.off
    everyone = [name for group in told for name in group.nodes]
    if len(set(everyone)) != len(everyone) or off.intersection(everyone):
        raise Foul(f"twice, or offline: {everyone}")
    for group in told:
        inside, moved = set(group.nodes), dict(group.moves)
        if any(row[8] == "drbd" and {row[6], row[7]} <= inside for row in instances):
            raise Foul(f"an instance has both its nodes in {group.nodes}")
        come = _arrivals(there, inside, {} if asked.wanted.ignore else moved)
        for name, rows in come.single.items():
            same = {nodes[row[6]][8] for row in rows} == {nodes[name][8]}
            if not same or name in off or name in inside:
                raise Foul(f"{rows} go to {name}")
            memory, disk = _room(nodes[name], there)
            if memory - sum(_used(row) for row in rows) <= 0 and rows:
                raise Foul(f"no memory on {name} for {rows}")
            if any(row[8] == "plain" for row in rows) and disk <= _disk(rows):
                raise Foul(f"no disk on {name} for {rows}")
        if asked.wanted.shut_down:
            continue
        for name, rows in come.mirrored.items():
            if len({row[6] for row in rows}) > 1:
                raise Foul(f"{name} would have to take over from several of {group.nodes}")
            if _takes_over(nodes[name], there) and _reserved(rows) > _room(nodes[name], there)[0]:
                raise Foul(f"{name} has no room for {rows}")
        if not asked.wanted.ignore:
            stay = {row[0] for row in there if row[6] in inside and row[8] != "drbd"} - set(moved)
            if stay:
                raise Foul(f"{stay} are nowhere then")


@dataclass(frozen=True)
class _Come:
    single: dict[str, list[list[str]]]
    mirrored: dict[str, list[list[str]]]


def _arrivals(there: list[list[str]], inside: set[str], moved: dict[str, str]) -> _Come:
    single, mirrored = defaultdict(list), defaultdict(list)
    for row in there:
        if row[8] != "drbd" and row[0] in moved:
            single[moved[row[0]]].append(row)
        if row[8] == "drbd" and row[6] in inside:
            mirrored[row[7]].append(row)
    return _Come(single, mirrored)


def _used(row: list[str]) -> int:
    return int(row[1]) if row[4] in RUNS else 0


def _reserved(rows: list[list[str]]) -> int:
    return sum(_used(row) for row in rows if row[5] == "Y")


def _disk(rows: list[list[str]]) -> int:
    return sum(int(row[2]) for row in rows if row[8] == "plain")


def _room(node: list[str], there: list[list[str]]) -> tuple[float, int]:
    recorded = float(node[1]) - int(node[2]) - sum(_used(row) for row in there if row[6] == node[0])
    return min(recorded, int(node[3])), int(node[5])


def _takes_over(node: list[str], there: list[list[str]]) -> bool:
    """Whether it survives any one failure as things are (N+1)."""
    peers: Counter[str] = Counter()
    for row in there:
        if row[8] == "drbd" and row[7] == node[0]:
            peers[row[6]] += int(row[1]) if row[5] == "Y" and row[4] != "ADMIN_offline" else 0
    return "?" not in node and all(amount <= _room(node, there)[0] for amount in peers.values())


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ([Group(["b", "c"], [("k", "a")]), Group(["a", "d"])], "nowhere"),
        ([Group(["b", "d"], [("k", "a")])], "both its nodes"),
        ([Group(["b"]), Group(["b"])], "twice"),
        ([Group(["d"], [("k", "d")])], "go to d"),
    ],
)
def test_the_judge_sees_what_is_wrong(told: list[Group], why: str) -> None:
    judge(RING, Asked.of(RING, ()), [Group(["d", "c"], [("k", "a")]), Group(["b", "a"])])
    with pytest.raises(Foul, match=why):
        judge(RING, Asked.of(RING, ()), told)
    crowded = RING.replace("j|1000|1000|1|running|Y|b|d", "j|1000|1000|1|running|Y|b|c")
    with pytest.raises(Foul, match="take over from several"):
        judge(crowded, Asked.of(crowded, ()), [Group(["b", "a"])])
    full = RING.replace("a|9000|0|8000", "a|9000|0|1000")
    with pytest.raises(Foul, match="no memory on a"):
        judge(full, Asked.of(full, ()), [Group(["d"], [("k", "a")])])


# Colouring by itself.


def graphs() -> Iterator[Graph]:
    for seed in range(60):
        rng = random.Random(seed)
        count, chance = rng.randint(1, 12), rng.random()
        graph: dict[int, list[int]] = {vertex: [] for vertex in range(5, 5 + count)}
        for one in graph:
            for other in graph:
                if one <= other and rng.random() < chance:
                    for _ in range(rng.randint(1, 3)):
                        graph[one].append(other)
                        if one != other:
                            graph[other].append(one)
        yield graph


def needed(graph: Graph) -> int:
    """How many colours there must be, by trying."""

    def possible(rest: list[int], colours: dict[int, int], most: int) -> bool:
        if not rest:
            return True
        taken = {colours.get(other) for other in graph[rest[0]]}
        return any(
            possible(rest[1:], {**colours, rest[0]: colour}, most)
            for colour in range(min(most, len(colours) + 1))
            if colour not in taken
        )

    return next(most for most in range(1, 20) if possible(list(graph), {}, most))


@pytest.mark.parametrize("way", WAYS)
def test_neighbours_differ_and_few_colours_are_enough(way: str) -> None:
    more = 0
    for graph in graphs():
        classes = WAYS[way](graph)
        assert sorted(vertex for one in classes for vertex in one) == list(graph)
        for one in classes:
            assert not any(set(graph[vertex]) & set(one) - {vertex} for vertex in one)
        more += len(classes) - needed(graph)
    assert more <= 5, "in all of them together"
