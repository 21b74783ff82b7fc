"""gnt-maint balance: hbal's decisions under all of its options, a table, a script."""

import subprocess
from pathlib import Path

import pytest

from tests.cli.maint.balanced import CRASHED, TWO, agree, ours, told
from tests.placement.clusters import Case, case
from tests.placement.hbal import ask, real

EXACT = ("--search", "exact")


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
def test_generated_clusters(tmp_path: Path) -> None:
    for seed in (*range(20), 813):  # 813: what is only promised moves, too
        beside(place(tmp_path, case(seed)))


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """Three nodes, of which one runs everything."""
    file = tmp_path / "small"
    file.write_text(TWO)
    return file


def test_json(small: Path) -> None:
    found = told("-t", small, *EXACT)
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


def test_a_script_of_the_commands(small: Path, tmp_path: Path) -> None:
    file = tmp_path / "go"
    done = ours("-t", small, *EXACT, f"-C{file}")
    assert done.out.endswith(f"\nThe commands are in {file}.\n")
    assert file.stat().st_mode & 0o100
    commands = [one for move in told("-t", small, *EXACT)["moves"] for one in move["commands"]]
    assert run([file], tmp_path) == commands
    assert (
        ours("-t", small, *EXACT, "-C").out
        == ours("-t", small, *EXACT, "-C-").out
        == file.read_text()
    )
    assert told("-t", small, *EXACT, "-C")["moves"] == told("-t", small, *EXACT)["moves"]


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
    ours("-t", small, *EXACT, f"-C{tmp_path / 'go'}")
    assert len(run([tmp_path / "go"], tmp_path, code=1)) == 1


def test_a_name_is_one_word_to_a_shell(small: Path, tmp_path: Path) -> None:
    small.write_text(TWO.replace("i1.example", "$(touch${IFS}bad);i1.example"))
    done = ours(
        "-t", small, *EXACT, "--select-instances", "$(touch${IFS}bad);i1", f"-C{tmp_path / 'go'}"
    )
    assert done.code == 0, done
    assert any("$(touch${IFS}bad);i1" in line for line in run([tmp_path / "go"], tmp_path))
    assert not (tmp_path / "bad").exists()


@pytest.mark.parametrize("ratio", ["0", "-1", "nan"])
def test_a_cpu_ratio_is_more_than_nothing(ratio: str, small: Path) -> None:
    """As for hbal; less than nothing would allow any number of virtual CPUs."""
    done = ours("-t", small, "--max-cpu", ratio)
    assert (done.code, "--max-cpu" in done.err) == (64, True)


@pytest.mark.parametrize("options", [(), ("-G", "g")])
def test_a_group_without_nodes_is_balanced(options: tuple[str, ...], tmp_path: Path) -> None:
    """As for hbal: a new cluster is no error."""
    (tmp_path / "new").write_text("g|u|preferred|\n\n\n\n")
    found = told("-t", tmp_path / "new", *options)
    assert (found["group"], found["moves"], found["nodes"]) == ("g", [], [])
