"""The allocator as Ganeti runs it: a file, options after it, an answer or a line and exit 1."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from nodeagent import __version__
from nodeagent.cli.iallocator import main
from nodeagent.model.departure import Departure
from nodeagent.model.units import Ms
from nodeagent.placement.cluster.leaving import MOST
from nodeagent.store.departures_file import DeparturesFile
from tests import needs
from tests.cli.run import Done
from tests.cli.run import run as run_in_process
from tests.placement.allocate.asked import cluster, new
from tests.placement.hail import real
from tests.placement.hbal import DATA

TOP = Path(__file__).resolve().parents[2]
ALONE = "from nodeagent.cli.iallocator import main; main()"
ASKED = DATA / "hail-alloc-drbd.json"
shared = needs.mark("shared/htools")


def run(*words: object) -> Done:
    return run_in_process(main, "nodeagent-iallocator", *map(str, words))


@shared
def test_ganetis_way_to_run_it() -> None:
    """The options come after the file."""
    command = [sys.executable, "-c", ALONE, str(ASKED), "--ignore-soft-errors"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=TOP)
    assert done.returncode == 0
    assert done.stderr == ""
    told = json.loads(done.stdout)
    assert list(told) == ["success", "info", "result"]
    assert told["result"] == ["node2", "node1"]


@shared
@real
def test_the_same_bytes_as_hail() -> None:
    """A request and the options after it; tests/placement/allocate has many more answers."""
    for options in (
        ["hail-alloc-twodisks.json", "--no-capacity-checks"],
        ["hail-alloc-plain-tags.json", "--ignore-soft-errors"],
        ["hail-alloc-dedicated-1.json", "--static-kvm-node-memory=0"],
        ["hail-alloc-ext.json", "-t", "shared-n1-restriction.data"],
        ["hail-alloc-drbd.json", "--text-data=partly-used.data", "--ignore-dynu", "--mond=no"],
        ["hail-alloc-drbd-restricted.json", "--restrict-allocation-to=node-01,node-02,node-03"],
    ):
        words = [str(DATA / w) if (DATA / w).exists() else _data(w) for w in options]
        ours = run(*words, "--as-hail")
        theirs = subprocess.run([needs.HAIL, *words], capture_output=True, text=True, timeout=60)
        assert ours.code == theirs.returncode == 0, (options, ours.err)
        assert ours.out == theirs.stdout, options


def _data(word: str) -> str:
    return word.replace("--text-data=", f"--text-data={DATA}/")


@shared
def test_bad_input_is_one_line_and_exit_1(tmp_path: Path) -> None:
    file = tmp_path / "request"
    for content, said in (
        (b"{", "is not JSON: Expecting property name"),
        (b"[" * 100_000, "is not JSON: "),
        (b"[]", "the request: is not an object"),
        (b"{}", "request: is missing"),
        (b"\xff{}", "is not UTF-8 at byte 0"),
    ):
        file.write_bytes(content)
        done = run(file)
        assert (done.code, done.out, done.err.count("\n")) == (1, "", 1)
        assert done.err.startswith(f"nodeagent-iallocator: {file}: {said}")
    assert run(tmp_path / "none").err.endswith("/none: No such file or directory\n")
    assert run(DATA / "hail-invalid-reloc.json").code == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "one file is to be named, not 0"),
        (["a", "b"], "one file is to be named, not 2"),
        (["a", "--dance"], "there is no option --dance"),
        (["a", "--ignore-soft-errors=yes"], "--ignore-soft-errors takes no value"),
        (["a", "--mond=yes"], "--mond: load is not asked for"),
        (["a", "--static-kvm-node-memory=much"], "--static-kvm-node-memory: 'much' is not a whole"),
        (["a", "--restrict-allocation-to="], "--restrict-allocation-to: '' names a node without"),
        (["a", "-t"], "-t needs a value"),
    ],
)
def test_usage(words: list[str], said: str) -> None:
    done = run(*words)
    assert done.code == 1
    assert done.err.startswith(f"nodeagent-iallocator: {said}")


FREE = {"a1": 4, "a2": 2}  # quarters of the nodes


def _placed(tmp_path: Path, *options: object) -> tuple[str, str]:
    """Where a new instance goes, and what is said on standard error."""
    asked = cluster(FREE)
    asked["request"] = {"type": "allocate", **new("new", 1)}
    file = tmp_path / "request"
    file.write_text(json.dumps(asked))
    done = run(file, "--no-capacity-checks", *options)
    return json.loads(done.out)["result"][0], done.err


def test_nodes_that_leave_soon_by_what_maintd_has_written(tmp_path: Path) -> None:
    file = tmp_path / "departures.json"
    far = Ms(4_000_000_000_000)
    DeparturesFile(str(file)).tell({"a2": Departure(far, Ms(far + 1))})
    assert _placed(tmp_path, "--departures", file) == ("a1", "")
    assert _placed(tmp_path, "--departures=no") == ("a2", "")
    assert _placed(tmp_path, f"--departures={file}", "--as-hail") == ("a2", "")
    DeparturesFile(str(file)).tell({"a2": Departure(Ms(1), Ms(2))})
    assert _placed(tmp_path, "--departures", file) == ("a2", ""), "it is back by now"
    assert _placed(tmp_path, "--departures", tmp_path / "none") == ("a2", ""), "no maintd"


def test_a_wrong_file_of_departures_prevents_no_answer(tmp_path: Path) -> None:
    file, link, pipe = (tmp_path / name for name in ("departures", "link", "pipe"))
    link.symlink_to("/etc/passwd")
    os.mkfifo(pipe)
    file.write_text("{")
    for wrong, why in (
        (file, "is not JSON"),
        (link, "Too many levels of symbolic links"),
        (pipe, "is not a regular file"),
        (tmp_path, "Is a directory"),
    ):
        place, said = _placed(tmp_path, "--departures", wrong)
        assert place == "a2"
        assert said.startswith(f"nodeagent-iallocator: {wrong}: ")
        assert said.count(str(wrong)) == 1
        assert why in said
    for text, why in (("[]", "is not an object"), (" " * (MOST + 1), "has more than")):
        file.write_text(text)
        place, said = _placed(tmp_path, "--departures", file)
        assert (place, why in said) == ("a2", True), said


def test_help_and_version() -> None:
    assert run("--version").out == f"nodeagent-iallocator {__version__}\n"
    told = run("-h").out
    assert told.startswith("usage: nodeagent-iallocator FILE")
    assert all(len(line) <= 100 for line in told.splitlines())


def test_it_loads_little() -> None:
    """Every question waits for it; arrays and command-line libraries are for others."""
    script = "import sys, nodeagent.cli.iallocator; print(*sys.modules)"
    command = [
        sys.executable,
        "-IS",
        "-c",
        f"import sys; sys.path.insert(0, {str(TOP)!r}); {script}",
    ]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    assert not {"numpy", "click", "asyncio", "rich", "logging"} & set(loaded.split())
