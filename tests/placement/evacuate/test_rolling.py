"""Rolling maintenance beside the real hroller."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest

from nodeagent.errors import MessageError
from nodeagent.placement.cluster import cluster as kinds
from nodeagent.placement.cluster.textfile import parse
from nodeagent.placement.evacuate.rolling import Rolling, Wanted, roll
from nodeagent.placement.layout.layout import lay_out
from nodeagent.placement.layout.rules import Rules
from tests.placement.clusters import case
from tests.placement.evacuate.rings import Group, hroller, real, shared
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
    """Groups, moves and colourings are hroller's; how many groups have nodes."""
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
