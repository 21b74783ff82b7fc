"""gnt-maint rolling: hroller's groups and moves, from a cluster; test_planners.py has files."""

import json
from pathlib import Path

from nodeagent.placement.cluster.textfile import parse
from tests.cli.run import Done, gnt_maint
from tests.cluster.ganeti.answering import serving
from tests.placement.cluster.told import told as as_told
from tests.placement.evacuate.rings import RING, Group, hroller, real
from tests.placement.luxid import Luxid


def ours(*words: str) -> Done:
    return gnt_maint("rolling", *words)


def agree(words: tuple[str, ...]) -> None:
    """The document has hroller's groups and moves, or neither has an answer."""
    theirs, done = hroller(*words), ours(*words, "--json")
    assert done.code == theirs.code
    if done.code:
        return
    found = [
        Group(one["nodes"], [(move["instance"], move["to"]) for move in one["moves"]])
        for one in json.loads(done.out)["groups"]
    ]
    assert found == [group for group in theirs.groups if group.nodes]


@real
def test_what_hroller_makes_of_the_same_answers(tmp_path: Path) -> None:
    """Both ask a Ganeti through LUXI."""
    for seed in range(6):
        cluster = as_told(seed)
        off = [node.name for node in cluster.nodes if node.offline]
        luxid = Luxid(cluster, frozenset(off[::2]))
        with serving(luxid, str(tmp_path / "luxi")) as socket:
            agree((f"-L{socket}", "-f"))


def test_a_node_that_says_nothing_is_in_no_group(tmp_path: Path) -> None:
    luxid = Luxid(parse(RING), silent=frozenset("c"))
    with serving(luxid, str(tmp_path / "luxi")) as socket:
        done = ours(f"-L{socket}")
    assert (done.code, done.out) == (
        0,
        "GROUP  NODES  MOVES\n1      d      k to a\n2      b,a    -\n",
    )
    assert done.err == "gnt-maint: c does not report its free resources: it is in no group\n"
