"""gnt-maint balance beside the real hbal: the same bytes, and the same files."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from nodeagent.placement.cluster.textfile import parse
from tests import needs
from tests.cli.maint.balanced import ALL, FULL, NODE, TWO, Done, hbal, ours
from tests.placement.balance.options import OPTIONS
from tests.placement.clusters import Case, case
from tests.placement.hbal import FILES, each, real

shared = needs.mark("shared/htools")
FIELDS = "-pname,fqdn,idx,amem,plist,slist,ptags,spindle_count,hi_spindles,inst_spindles"
LOUDNESS = ((), ("-q", FIELDS), ("-v", "-p+plist"), ("-vv", "-C"), ("-vvv",), ALL)
CRASHED = "key "  # of a map: it looks for a node of another group


def told(*words: object) -> Any:
    done = ours(*words, "--json")
    assert done.code == 0, done
    return json.loads(done.out)


def place(folder: Path, asked: Case) -> list[str]:
    """The options that name a case's files, and its own."""
    (folder / "cluster").write_text(asked.text)
    words = ["-t", str(folder / "cluster"), *asked.options]
    if asked.loads is not None:
        (folder / "loads").write_text(asked.loads)
        words += ["-U", str(folder / "loads")]
    return words


def states(folder: Path, done: Done) -> Done:
    found = []
    for ending in ("original", "balanced"):
        file = folder / f"state.{ending}"
        found.append(file.read_text() if file.exists() else None)
        file.unlink(missing_ok=True)
    return Done(done.code, done.out, done.err, *found)


def agree(folder: Path, words: list[str], *, whole: bool) -> int:
    """All that is printed and written is hbal's; 1 if it was asked at all."""
    words = [*words, "-S", str(folder / "state")]
    theirs = states(folder, hbal(*words))
    mine = states(folder, ours("--search", "exact", *words))
    if theirs.code and CRASHED in theirs.err:
        assert mine.code == 0
        return 0
    assert theirs.code == 0, theirs.err
    if not whole:  # hbal's balanced state has the chosen group only
        theirs = Done(theirs.code, theirs.out, theirs.err, theirs.original, mine.balanced)
    assert mine == theirs
    return 1


@real
@each(FILES)
def test_shipped_files(file: Path, tmp_path: Path) -> None:
    _shipped(file, tmp_path, [()], [(), ALL])


@real
@pytest.mark.oracle
@each(FILES)
def test_shipped_files_with_all_options(file: Path, tmp_path: Path) -> None:
    _shipped(file, tmp_path, OPTIONS)


def _shipped(file: Path, folder: Path, options: Any, loud: Any = LOUDNESS) -> None:
    if file.stem == "invalid-node":
        assert ours("-t", file).code == hbal("-t", file).code == 1
        return
    cluster = parse(file.read_text())
    some = ",".join(instance.name for instance in cluster.instances[::2])
    for group in cluster.groups:
        names = [node.name for node in cluster.nodes if node.group == group.uuid]
        if not names or not some:
            continue
        asked = {"FIRST": names[0], "LAST": names[-1]}
        for chosen in options:
            words = [asked.get(word, word.replace("SOME", some)) for word in chosen]
            for loudness in loud:
                line = ["-t", str(file), "-G", group.name, *words, *loudness]
                assert agree(folder, line, whole=len(cluster.groups) == 1)


@real
# 813: what is only promised moves, too.
@pytest.mark.parametrize("seed", [*range(40), 813])
def test_generated_clusters(seed: int, tmp_path: Path) -> None:
    asked = case(seed)
    words = [*place(tmp_path, asked), *LOUDNESS[seed % len(LOUDNESS)]]
    agree(tmp_path, words, whole="-G" not in words)


@real
@pytest.mark.oracle
@pytest.mark.parametrize("seed", range(40, 1000))
def test_more_generated_clusters(seed: int, tmp_path: Path) -> None:
    asked = case(seed)
    for loudness in LOUDNESS:
        words = [*place(tmp_path, asked), *loudness]
        agree(tmp_path, words, whole="-G" not in words)


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """Three nodes, of which one runs everything."""
    file = tmp_path / "small"
    file.write_text(TWO)
    return file


def test_the_best_search_in_hbals_words(small: Path) -> None:
    done = ours("-t", small, "-C", "-p")
    assert done.code == 0
    assert "Trying to minimize the CV..." in done.out
    assert "gnt-instance " in done.out
    assert "\nTo copy: " in done.out
    assert done.err.count("cluster status:") == 2


def test_json_says_the_same(small: Path) -> None:
    found = told("-t", small, "-vvv", "-p", "-C", "--search", "exact")
    lines = ours("-t", small, "-vvv", "--search", "exact").out
    assert found["well-balanced"] is False
    assert f"overall {found['score']['initial']:.8f}" in lines
    assert f"overall {found['score']['final']:.8f}" in lines
    assert found["score"]["final"] == found["moves"][-1]["score"]
    weighed = sum(part["weight"] * part["final"] for part in found["components"])
    assert weighed == pytest.approx(found["score"]["final"])
    for number, move in enumerate(found["moves"], 1):
        short = {"primary": move["to"]["primary"][0], "secondary": move["to"]["secondary"][0]}
        assert f"  {number}. {move['instance'][:2]} " in lines
        assert f"=> {short['primary']}:{short['secondary']}" in lines
        assert all(command.startswith("gnt-instance ") for command in move["commands"])
    assert {node["name"]: node["before"]["instances"] for node in found["nodes"]} == {
        "a.example": 2,
        "b.example": 0,
        "c.example": 0,
    }
    assert sum(node["after"]["instances"] for node in found["nodes"]) == 2
    assert found["copies-gib"] == pytest.approx(sum(m["copies-gib"] for m in found["moves"]))


def test_an_empty_cluster(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text(FULL + NODE.format("a", 1, 1) + "\n\n\n")
    assert ours("-t", tmp_path / "empty").out == "Cluster is empty, exiting.\n"
    found = told("-t", tmp_path / "empty")
    assert (found["moves"], found["well-balanced"]) == ([], True)


@real
@pytest.mark.parametrize("seed", range(5))
def test_the_best_search_is_no_worse(seed: int, tmp_path: Path) -> None:
    words = place(tmp_path, case(seed, "noisy"))
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


@pytest.mark.parametrize("seed", range(8))
def test_the_state_after_is_the_one_that_was_promised(seed: int, tmp_path: Path) -> None:
    """Read again, it has the final score."""
    words = place(tmp_path, case(seed))
    found = told(*words, "-S", tmp_path / "state")
    written = tmp_path / "state.balanced"
    if found["well-balanced"] or found["score"]["final"] is None:
        return
    text = written.read_text()
    assert parse(text).instances
    if not all(node["after"]["survives-another"] for node in found["nodes"]):
        return  # what exactly fills a node up is judged otherwise as it comes and as it is there
    again = told(*words[:1], written, *words[2:])
    assert again["score"]["initial"] == pytest.approx(found["score"]["final"], abs=1e-9)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("-O", "nobody"), "-O: there is no node nobody"),
        (("-O", "a.ex"), "-O: there is no node a.ex"),
        (("--select-instances", "i1,i9"), "--select-instances: there is no instance i9"),
        (("--exclude-instances", "i9"), "--exclude-instances: there is no instance i9"),
        (("-G", "h"), "there is no group h; there are g"),
        (("-pname,size",), "-p: there is no field size; there are idx, name"),
        (("-U", "/dev/null/x"), "Not a directory"),
        (("-l", "-2"), "-2 is not in the range x>=0"),
        (("-e", "nan"), "nan is not a finite number"),
        (("--min-disk", "1.5"), "1.5 is not in the range 0<=x<=1"),
        (("-L",), "-t and -L are two clusters"),
        (("--search", "exact", "--seed", "1"), "go with --search best"),
        (("--price", "inf"), "inf is not a finite number"),
        (("--time", "soon"), "'soon' is not a duration: write 90s"),
        (("--time", "0s"), "--time 0 leaves no time"),
        (("-S", "/dev/null/x"), "/dev/null/x.original: Not a directory"),
        (("-C/dev/null/x",), "/dev/null/x: Not a directory"),
        (("--svg", "/dev/null/x"), "/dev/null/x: Not a directory"),
        (("--svg", "-"), "--svg - would draw between the lines: name a file"),
    ],
)
def test_refused(words: tuple[str, ...], why: str, small: Path) -> None:
    done = ours("-t", small, *words)
    assert done.code == 1
    assert why in done.err


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
    file, log, stop = tmp_path / "go", tmp_path / "log", tmp_path / "stop"
    done = ours("-t", small, f"-C{file}")
    assert done.out.endswith(f"The commands have been written to file '{file}'\n")
    assert file.stat().st_mode & 0o100
    fake = tmp_path / "gnt-instance"
    fake.write_text(f'#!/bin/sh\necho "gnt-instance $*" >> {log}\n')
    fake.chmod(0o755)
    file.write_text(file.read_text().replace("/tmp/stop-htools", str(stop)))
    path = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    subprocess.run([file], env=path, check=True, capture_output=True)
    commands = [one for move in told("-t", small)["moves"] for one in move["commands"]]
    assert log.read_text().splitlines() == [one.replace(".example", "") for one in commands]
    stop.touch()
    log.unlink()
    subprocess.run([file], env=path, check=True, capture_output=True)
    assert not log.exists()


def test_commands_to_standard_output_are_printed(small: Path) -> None:
    exact = ("-t", small, "--search", "exact")
    assert ours(*exact, "-C-") == ours(*exact, "-C")


def test_a_name_is_one_word_to_a_shell(small: Path, tmp_path: Path) -> None:
    small.write_text(TWO.replace("i1.example", "$(touch${IFS}bad);i1.example"))
    done = ours("-t", small, "--select-instances", "$(touch${IFS}bad);i1", f"-C{tmp_path / 'go'}")
    assert done.code == 0, done
    (tmp_path / "gnt-instance").write_text("#!/bin/sh\n")
    (tmp_path / "gnt-instance").chmod(0o755)
    path = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    subprocess.run([tmp_path / "go"], env=path, check=True, capture_output=True, cwd=tmp_path)
    assert not (tmp_path / "bad").exists()


def test_names_that_would_colour_a_terminal_are_shown_as_text(small: Path) -> None:
    small.write_text(TWO.replace("i1.example", "i\x1b[31m"))
    done = ours("-t", small, "-p", "-C", "--print-instances")
    assert "\x1b" not in done.out + done.err
    assert "i\\x1b[31m" in done.out
