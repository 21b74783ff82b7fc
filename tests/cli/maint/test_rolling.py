"""gnt-maint rolling: hroller's groups and moves, from a file and from a cluster; and a table."""

import json
from pathlib import Path

import pytest

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
@pytest.mark.parametrize("seed", range(6))
def test_what_hroller_makes_of_the_same_answers(seed: int, tmp_path: Path) -> None:
    """Both ask a Ganeti through LUXI."""
    cluster = as_told(seed)
    off = [node.name for node in cluster.nodes if node.offline]
    luxid = Luxid(cluster, frozenset(off[::2]))
    with serving(luxid, str(tmp_path / "luxi")) as socket:
        agree((f"-L{socket}", "-f"))


def test_the_table(tmp_path: Path) -> None:
    file = tmp_path / "ring"
    file.write_text(RING)
    assert ours("-t", str(file)) == Done(
        0,
        "GROUP  NODES  MOVES\n1      c,d    k to a\n2      b,a    -\n",
        "",
    )


def test_as_json(tmp_path: Path) -> None:
    file = tmp_path / "ring"
    file.write_text(RING)
    assert ours("-t", str(file), "--json").json == {
        "groups": [
            {"nodes": ["c", "d"], "moves": [{"instance": "k", "to": "a"}]},
            {"nodes": ["b", "a"], "moves": []},
        ],
        "ways": {"LF": 2, "Dsatur": 2, "Dcolor": 2},
        "doubts": {},
    }


@pytest.mark.parametrize(
    ("change", "words", "why"),
    [
        (("|M|", "|N|"), (), "no node is said to be the master"),
        (("4|N|u", "4|M|u"), (), "several nodes are the master: a, b, c, d"),
        (("", ""), ("-G", "h"), "there is no group h"),
        (("", ""), ("-O", "e"), "there is no node e"),
        (("", ""), ("--node-tags=x",), "none of the nodes named is online"),
        (("|k", ""), ("-t", "-", "-L"), "two clusters"),
        (("|8000|9000|5000", "|900|9000|5000"), (), "instance k: no other node of its group has"),
    ],
)
def test_what_cannot_be_is_told(
    change: tuple[str, str], words: tuple[str, ...], why: str, tmp_path: Path
) -> None:
    file = tmp_path / "ring"
    file.write_text(RING.replace(*change) if change[0] else RING)
    done = ours("-t", str(file), *words)
    assert why in done.refused(done.code)


def test_a_node_that_says_nothing_is_in_no_group(tmp_path: Path) -> None:
    luxid = Luxid(parse(RING), silent=frozenset("c"))
    with serving(luxid, str(tmp_path / "luxi")) as socket:
        done = ours(f"-L{socket}")
    assert (done.code, done.out) == (
        0,
        "GROUP  NODES  MOVES\n1      d      k to a\n2      b,a    -\n",
    )
    assert done.err == "gnt-maint: c does not report its free resources: it is in no group\n"


@pytest.mark.parametrize("option", ["-S", "-v", "-V", "--print-moves", "--no-headers"])
def test_options_of_another_printer(option: str) -> None:
    """hroller has them."""
    assert "No such option" in ours(option).refused(64)
