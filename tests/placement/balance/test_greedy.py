"""The exact search beside the real hbal: the same moves in the same order, with the same scores."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from nodeagent.placement.balance.greedy import greedy, well_balanced
from nodeagent.placement.cluster.textfile import parse
from nodeagent.placement.layout.score import components, score
from tests.placement.asked import enough, laid_out
from tests.placement.clusters import Case, case
from tests.placement.hbal import FILES, generate, hbal, real, shipped, shown

OPTIONS: tuple[list[str], ...] = (
    [],
    ["--ignore-soft-errors"],
    ["--no-disk-moves"],
    ["--no-instance-moves"],
    ["--restricted-migration"],
    ["--evac-mode", "-O", "FIRST"],
    ["-O", "LAST"],
    ["--ignore-dynu"],
    ["--exclusion-tags=test,service", "--min-disk=0.1"],
    ["--max-cpu=0.4", "-l", "2"],
    ["-e", "1", "-g", "0.5", "--min-gain-limit=100"],
    ["--select-instances=SOME"],
)
# A node without spindles: a score that is no number.
BARE = """\
g|u|preferred|

n1|1000|0|600|1000|1000|4|N|u|1
n2|1000|0|1000|1000|1000|4|N|u|0

i|400|0|1|running|Y|n1||ext|

"""


def in_bytes() -> Case:
    """All instances on one node of four; one of them stays, with a load in bytes."""
    nodes = [f"n{n}|99000|0|{99000 - 12000 * (n == 0)}|99|99|99|N|u\n" for n in range(4)]
    instances = [f"i{n}|1000|0|1|running|Y|n0||{'ext' if n else 'plain'}|\n" for n in range(12)]
    loads = [f"i{n} {0 if n else 3e9} 0 0 0\n" for n in range(12)]
    text = "g|u|preferred|\n\n" + "".join(nodes) + "\n" + "".join(instances) + "\n"
    return Case(text, [], "".join(loads))


def agree(asked: Case, folder: Path) -> int:
    """Our first scores and moves are hbal's; how many they are."""
    theirs = hbal(folder, asked.text, asked.options, asked.loads)
    assert theirs.code == 0, theirs.err
    if "Cluster is empty" in theirs.out:
        return 0
    layout = laid_out(asked)
    assert shown(score(layout)) == theirs.initial
    before = tuple(map(shown, components(layout.group_nodes())))
    assert before == tuple(value for _, value in theirs.components)
    assert ("already well balanced" in theirs.out) == well_balanced(layout, enough(asked.options))

    def name(words: str) -> str:
        return words.removesuffix(theirs.domain)

    ours = []
    for move, _, _, after in greedy(layout, enough(asked.options)):
        target = name(layout.nodes[move.target].host.name) if move.target >= 0 else ""
        instance = name(layout.cluster.instances[move.instance].name)
        ours.append((instance, move.kind.value.format(target), shown(after)))
    assert tuple(ours) == theirs.moves
    return len(ours)


@real
def test_shipped_files_with_options(tmp_path: Path) -> None:
    """Each file with a third of them, by turns."""
    for turn, file in enumerate(shipped(FILES, but=["invalid-node"])):
        agree_with(OPTIONS[turn % 3 :: 3], file, tmp_path)


@real
@pytest.mark.oracle
def test_shipped_files_with_all_options(tmp_path: Path) -> None:
    for file in shipped(FILES, but=["invalid-node"]):
        agree_with(OPTIONS, file, tmp_path)


def agree_with(every: Sequence[list[str]], file: Path, folder: Path) -> None:
    text = file.read_text()
    cluster = parse(text)
    for group in cluster.groups:
        names = [node.name for node in cluster.nodes if node.group == group.uuid]
        some = [instance.name for instance in cluster.instances][::2]
        if not names or not some:
            continue
        words = {"FIRST": names[0], "LAST": names[-1]}
        for options in every:
            asked = [words.get(word, word.replace("SOME", ",".join(some))) for word in options]
            agree(Case(text, ["-G", group.name, *asked], _loads(file)), folder)


def _loads(file: Path) -> str | None:
    """The shipped tests use one with loads."""
    names = [line.split("|")[0] for line in file.read_text().splitlines() if line.count("|") > 8]
    if file.stem != "hbal-dyn":
        return None
    return "".join(f"{name} {n % 3}.0 1.0 0.5 0.25\n" for n, name in enumerate(names))


@real
def test_generated_clusters(tmp_path: Path) -> None:
    agree(Case(BARE), tmp_path)
    assert agree(in_bytes(), tmp_path) == 9
    for seed in range(24):
        agree(case(seed), tmp_path)
    for seed in range(6):
        agree(case(seed, "dedicated"), tmp_path)


@real
@pytest.mark.oracle
@pytest.mark.parametrize("first", range(24, 984, 96))
def test_more_generated_clusters(first: int, tmp_path: Path) -> None:
    for seed in range(first, first + 96):
        agree(case(seed), tmp_path)
        agree(case(seed, "dedicated"), tmp_path)


KINDS: dict[str, dict[str, object]] = {
    "plain": {},
    "off": {"offline": 2},
    "tags": {"excl_tags": 6, "location": 3},
    "desired": {"location": 4, "desired": 1, "excl_tags": 12},
    "migration": {"migration": 1},
    "loads": {"dynu": True},
    "speeds": {"speeds": True, "forthcoming": 0.1},
    "alike": {"homogeneous": True, "only_drbd": True, "noise": False},
    "full": {"fill": 0.8, "skew": 0.9},
    "all": {
        "offline": 1,
        "excl_tags": 8,
        "location": 3,
        "desired": 1,
        "migration": 1,
        "dynu": True,
        "speeds": True,
        "forthcoming": 0.05,
    },
}


@real
@pytest.mark.oracle
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("nodes", "instances"), [(8, 60), (14, 120)])
def test_larger_generated_clusters(kind: str, nodes: int, instances: int, tmp_path: Path) -> None:
    for seed in range(1, 4):
        text, loads, _ = generate(nodes, instances, seed, **KINDS[kind])
        assert agree(Case(text, [], loads or None), tmp_path)
