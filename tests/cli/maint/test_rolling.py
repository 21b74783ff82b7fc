"""gnt-maint rolling beside the real hroller: the same bytes, from a file and from a cluster."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from nodeagent.cli import gnt_maint
from nodeagent.errors import NodeAgentError
from nodeagent.placement.cluster.textfile import parse
from tests.cluster.ganeti.answering import serving
from tests.placement.cluster.told import told as as_told
from tests.placement.evacuate.rings import HROLLER, RING, real, shared
from tests.placement.hbal import DATA
from tests.placement.luxid import Luxid

OPTIONS: tuple[tuple[str, ...], ...] = (
    (),
    ("-v",),
    ("-vv",),
    ("--print-moves",),
    ("--one-step-only", "--print-moves"),
    ("--one-step-only", "--no-headers"),
    ("--offline-maintenance", "-q"),
    ("--ignore-non-redundant", "--print-moves", "--no-headers"),
)
FEW = ("hroller-full", "hroller-nonredundant", "unique-reboot-order", "hsqueeze-underutilized")
Ours = Callable[..., tuple[int, str, str]]


@pytest.fixture
def ours(capsys: pytest.CaptureFixture[str]) -> Ours:
    """The verb, without a process of its own: how it ends, and what it prints."""

    def run(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        try:
            line = ["rolling", *words]
            code = gnt_maint.cli.main(line, "gnt-maint", standalone_mode=False)
        except (NodeAgentError, click.ClickException) as error:
            return 1, *capsys.readouterr()[:1], str(error)
        out, err = capsys.readouterr()
        return int(code or 0), out, err

    return run


def theirs(*words: str) -> tuple[int, str]:
    assert HROLLER
    ran = subprocess.run([HROLLER, *words], capture_output=True, text=True, timeout=100)
    return ran.returncode, ran.stdout


@real
@shared
@pytest.mark.parametrize("options", OPTIONS, ids=" ".join)
def test_the_same_bytes(options: tuple[str, ...], ours: Ours) -> None:
    for name in FEW:
        words = ("-t", str(DATA / f"{name}.data"), *options)
        assert ours(*words)[:2] == theirs(*words)


@real
@pytest.mark.parametrize("seed", range(6))
def test_what_hroller_makes_of_the_same_answers(seed: int, tmp_path: Path, ours: Ours) -> None:
    """Both ask a Ganeti through LUXI."""
    cluster = as_told(seed)
    off = [node.name for node in cluster.nodes if node.offline]
    luxid = Luxid(cluster, frozenset(off[::2]))
    with serving(luxid, str(tmp_path / "luxi")) as socket:
        words = (f"-L{socket}", "--print-moves", "-f")
        assert ours(*words)[:2] == theirs(*words)


def test_the_state_is_saved(tmp_path: Path, ours: Ours) -> None:
    file = tmp_path / "ring"
    file.write_text(RING)
    code, out, err = ours("-t", str(file), "-S", str(tmp_path / "state"))
    assert (code, out) == (0, "'Node Reboot Groups'\nc,d\nb,a\n")
    assert "state.original" in err
    assert parse((tmp_path / "state.original").read_text()) == parse(RING)


def test_as_json(tmp_path: Path, ours: Ours) -> None:
    file = tmp_path / "ring"
    file.write_text(RING)
    code, out, _ = ours("-t", str(file), "--json")
    assert code == 0
    assert json.loads(out) == {
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
    change: tuple[str, str], words: tuple[str, ...], why: str, tmp_path: Path, ours: Ours
) -> None:
    file = tmp_path / "ring"
    file.write_text(RING.replace(*change) if change[0] else RING)
    code, out, err = ours("-t", str(file), *words)
    assert (code, out) == (1, "")
    assert why in err


def test_a_node_that_says_nothing_is_in_no_group(tmp_path: Path, ours: Ours) -> None:
    luxid = Luxid(parse(RING), silent=frozenset("c"))
    with serving(luxid, str(tmp_path / "luxi")) as socket:
        code, out, err = ours(f"-L{socket}", "--no-headers")
    assert (code, out) == (0, "d\nb,a\n")
    assert err == "gnt-maint: c does not report its free resources: it is in no group\n"


def test_its_help_names_every_option_of_hroller_s_that_it_has() -> None:
    told = CliRunner().invoke(gnt_maint.cli, ["rolling", "--help"]).output
    for name in ("-t", "-L", "-G", "-O", "-S", "-f", "-v", "-q", "--node-tags", "--print-moves"):
        assert name in told
