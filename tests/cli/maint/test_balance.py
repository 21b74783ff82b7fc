"""gnt-maint balance: hbal's decisions under all of its options, a table, a script."""

import subprocess
from pathlib import Path

import pytest

from tests.cli.maint.balanced import CRASHED, FULL, NODE, TWO, agree, ours, told
from tests.placement.clusters import Case, case
from tests.placement.hbal import FILES, ask, real, shipped


def place(folder: Path, asked: Case) -> list[str]:
    """The options that name a case's files, and its own."""
    (folder / "cluster").write_text(asked.text)
    words = ["-t", str(folder / "cluster"), *asked.options]
    if asked.loads is not None:
        (folder / "loads").write_text(asked.loads)
        words += ["-U", str(folder / "loads")]
    return words


def beside(words: list[str]) -> None:
    """Both are asked with the same words, and decide the same."""
    theirs, mine = ask(words), told("--search", "exact", *words)
    if theirs.code and CRASHED in theirs.err:
        return
    assert theirs.code == 0, theirs.err
    agree(theirs, mine)


@real
def test_a_shipped_file_that_is_wrong() -> None:
    (file,) = (file for file in shipped(FILES) if file.stem == "invalid-node")
    assert ours("-t", file).code == ask(["-t", str(file)]).code == 1


@real
def test_generated_clusters(tmp_path: Path) -> None:
    for seed in (*range(20), 813):  # 813: what is only promised moves, too
        beside(place(tmp_path, case(seed)))


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """Three nodes, of which one runs everything."""
    file = tmp_path / "small"
    file.write_text(TWO)
    return file


TABLE = """\
group          g
nodes          3
instances      2
N+1 fails on   0 nodes
initial score  4.1674

JOB SET  INSTANCE    FROM                 TO                   SCORE   ACTIONS
1        i1.example  a.example:c.example  b.example:c.example  2.0789  migrate, replace the \
secondary node, migrate

final score   2.0789
N+1 fails on  0 nodes
moves         1
to copy       8.7 GiB
searched for"""


def test_the_table(small: Path) -> None:
    done = ours("-t", small, "--search", "exact")
    assert (done.code, done.err) == (0, "")
    assert done.out.rpartition("  ")[0] == TABLE


def test_nodes_that_could_not_take_over_are_counted(small: Path) -> None:
    """Node c is the secondary of both instances, and has too little memory for them."""
    assert ours("-t", small, "-l", "0").out.count("N+1 fails on   0 nodes\n") == 1
    small.write_text(TWO.replace("c.example|16384|0|16384", "c.example|16384|0|1000"))
    out = ours("-t", small, "-l", "0").out
    assert out.count("N+1 fails on   1 node\n") == 1
    assert out.count("N+1 fails on  1 node\n") == 1


def test_no_move_says_why(small: Path) -> None:
    assert "\nWell balanced: nothing to do.\n" in ours("-t", small, "-e", "100").out
    assert "\nNo move lowers the score.\n" in ours("-t", small, "-l", "0").out


def test_json(small: Path) -> None:
    found = told("-t", small)
    assert found["well-balanced"] is False
    assert found["score"]["final"] == found["moves"][-1]["score"]
    weighed = sum(part["weight"] * part["final"] for part in found["components"])
    assert weighed == pytest.approx(found["score"]["final"])
    assert {node["name"]: node["before"]["instances"] for node in found["nodes"]} == {
        "a.example": 2,
        "b.example": 0,
        "c.example": 0,
    }
    assert sum(node["after"]["instances"] for node in found["nodes"]) == 2
    assert found["copies-gib"] == pytest.approx(sum(m["copies-gib"] for m in found["moves"]))


def test_an_empty_cluster(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text(FULL + NODE.format("a", 1, 1) + "\n\n\n")
    assert "\nWell balanced: nothing to do.\n" in ours("-t", tmp_path / "empty").out
    found = told("-t", tmp_path / "empty")
    assert (found["moves"], found["well-balanced"]) == ([], True)


@real
def test_the_best_search_is_no_worse(tmp_path: Path) -> None:
    for seed in range(2):
        no_worse(place(tmp_path, case(seed, "noisy")))


def no_worse(words: list[str]) -> None:
    best, exact = told(*words), told(*words, "--search", "exact")
    assert best["score"]["initial"] == exact["score"]["initial"]
    limits = ("final", "least")
    (ours_, least), (theirs, _) = ([f["score"][one] for one in limits] for f in (best, exact))
    if ours_ is not None:
        assert ours_ <= max(theirs, least) + 1e-9


def test_a_seed_and_a_price(small: Path) -> None:
    assert told("-t", small, "--seed", 7)["moves"] == told("-t", small, "--seed", 7)["moves"]
    free, dear = told("-t", small), told("-t", small, "--price", 10)
    assert dear["copies-gib"] < free["copies-gib"]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("-O", "nobody"), "-O: there is no node nobody"),
        (("-O", "a.ex"), "-O: there is no node a.ex"),
        (("--select-instances", "i1,i9"), "--select-instances: there is no instance i9"),
        (("--exclude-instances", "i9"), "--exclude-instances: there is no instance i9"),
        (("-G", "h"), "there is no group h; there are g"),
        (("-U", "/dev/null/x"), "Not a directory"),
        (("-l", "-2"), "-2 is not in the range x>=0"),
        (("-e", "nan"), "nan is not a finite number"),
        (("--min-disk", "1.5"), "1.5 is not in the range 0<=x<=1"),
        (("-L",), "-t and -L are two clusters"),
        (("--search", "exact", "--seed", "1"), "go with --search best"),
        (("--price", "inf"), "inf is not a finite number"),
        (("--time", "soon"), "'soon' is not a duration: write 90s"),
        (("--time", "0s"), "--time 0 leaves no time"),
        (("-C/dev/null/x",), "/dev/null/x: Not a directory"),
    ],
)
def test_refused(words: tuple[str, ...], why: str, small: Path) -> None:
    done = ours("-t", small, *words)
    assert done.code == 1
    assert why in done.err


@pytest.mark.parametrize("option", ["-p", "-v", "-q", "-S", "-V", "--print-instances", "--svg"])
def test_options_of_other_printers(option: str, small: Path) -> None:
    """hbal has them, or we had."""
    assert "No such option" in ours("-t", small, option).err


def test_a_wrong_file_is_named_with_line_and_field(small: Path) -> None:
    small.write_text(TWO.replace("i2.example|2048", "i2.example|2k"))
    assert ours("-t", small).err == f"{small}:8: i2.example: memory: '2k' is not a whole number"
    small.write_bytes(TWO.encode() + b"\n\xff")
    assert ours("-t", small).err == f"{small}:11: is not UTF-8"
    loads = small.with_name("loads")
    loads.write_text("i1 1 1 x 1\n")
    small.write_text(TWO)
    assert ours("-t", small, "-U", loads).err == f"{loads}:1: i1: disk: 'x' is not a number"


def test_short_names_are_names(small: Path) -> None:
    found = told("-t", small, "-O", "a", "--select-instances", "i1,i2.example")
    assert [node["offline"] for node in found["nodes"]] == [True, False, False]
    assert {move["instance"] for move in found["moves"]} == {"i1.example", "i2.example"}


def test_a_script_of_the_commands(small: Path, tmp_path: Path) -> None:
    file = tmp_path / "go"
    done = ours("-t", small, f"-C{file}")
    assert done.out.endswith(f"\nThe commands are in {file}.\n")
    assert file.stat().st_mode & 0o100
    commands = [one for move in told("-t", small)["moves"] for one in move["commands"]]
    assert run([file], tmp_path) == commands
    assert ours("-t", small, "-C").out == ours("-t", small, "-C-").out == file.read_text()
    assert told("-t", small, "-C")["moves"] == told("-t", small)["moves"]


def run(script: list[object], folder: Path, *, code: int = 0) -> list[str]:
    """Run a script where `gnt-instance` only notes what it is asked; return that."""
    log, fake = folder / "log", folder / "gnt-instance"
    fake.write_text(f'#!/bin/sh\necho "gnt-instance $*" >> {log}\nexit {code}\n')
    fake.chmod(0o755)
    path = {"PATH": f"{folder}:/usr/bin:/bin"}
    ran = subprocess.run(list(map(str, script)), env=path, capture_output=True, cwd=folder)
    assert ran.returncode == code, ran
    return log.read_text().splitlines()


def test_a_script_ends_at_the_first_failure(small: Path, tmp_path: Path) -> None:
    ours("-t", small, f"-C{tmp_path / 'go'}")
    assert len(run([tmp_path / "go"], tmp_path, code=1)) == 1


def test_a_name_is_one_word_to_a_shell(small: Path, tmp_path: Path) -> None:
    small.write_text(TWO.replace("i1.example", "$(touch${IFS}bad);i1.example"))
    done = ours("-t", small, "--select-instances", "$(touch${IFS}bad);i1", f"-C{tmp_path / 'go'}")
    assert done.code == 0, done
    assert any("$(touch${IFS}bad);i1" in line for line in run([tmp_path / "go"], tmp_path))
    assert not (tmp_path / "bad").exists()


def test_names_that_would_colour_a_terminal_are_shown_as_text(small: Path) -> None:
    small.write_text(TWO.replace("i1.example", "i\x1b[31m"))
    for words in (("-C",), ("--json",), ()):
        done = ours("-t", small, "--select-instances", "i\x1b[31m", *words)
        assert "\x1b" not in done.out + done.err
        assert "x1b[31m" in done.out or words == ("--json",)
