"""One reading of our files tells all mistakes: none hides another, and each is told once."""

import os
import pickle
import tomllib
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from nodeagent import settings as agent
from nodeagent.drop_ins import read_files
from nodeagent.errors import ConfigError
from nodeagent.faults import Faults
from nodeagent.maintd.engine import settings as maintd
from nodeagent.power import settings as power
from tests import golden
from tests.agent.place import safe_folder

Document: TypeAlias = dict[str, Any]
Parse: TypeAlias = Callable[[Document, Mapping[str, str] | None, Faults | None], object]

HERE = Path(__file__).parent / "settings"
PARSE: dict[str, Parse] = {
    "agent.toml": agent.parse,
    "maintd.toml": maintd.parse,
    "power.toml": power.parse,
}
JUNK: tuple[Any, ...] = (-1, "\x00", [[]], {}, {"what": {}}, None)  # None: the key is missing


def copied(document: Document) -> Document:
    """Copy a document, several times as fast as deepcopy."""
    fresh: Document = pickle.loads(pickle.dumps(document))
    return fresh


def lines(parse: Parse, document: Document) -> list[str]:
    """All mistakes of a document; without collecting the first of them is raised."""
    faults = Faults(collect=True)
    parse(copied(document), {}, faults)
    if not faults.lines:
        parse(copied(document), None, None)
        return []
    with pytest.raises(ConfigError) as first:
        parse(copied(document), None, None)
    assert str(first.value) == faults.lines[0]
    assert all(line.isprintable() for line in faults.lines)
    return faults.lines


def paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The place of each table, list and value of a document."""
    if path:
        yield path
    inside: list[tuple[Any, Any]] = list(enumerate(value)) if isinstance(value, list) else []
    if isinstance(value, dict):
        inside = list(value.items())
    for key, below in inside:
        yield from paths(below, (*path, key))


def changed(document: Document, path: tuple[Any, ...], junk: Any) -> Document:
    fresh = copied(document)
    place: Any = fresh
    for key in path[:-1]:
        place = place[key]
    if junk is None:
        del place[path[-1]]
    else:
        place[path[-1]] = junk
    return fresh


def part(path: tuple[Any, ...]) -> tuple[Any, ...]:
    """The table of a list, or the table in a table, that is independent of others beside it."""
    return path[:2] if path[0] != "owners" else path[:3]


def read(file: str) -> tuple[Document, Parse]:
    return tomllib.loads((HERE / file).read_text()), PARSE[file]


@pytest.mark.parametrize("file", PARSE)
def test_a_good_file_has_no_mistake(file: str) -> None:
    document, parse = read(file)
    assert lines(parse, document) == []


@pytest.mark.parametrize("file", PARSE)
def test_whatever_is_wrong_is_told_and_nothing_breaks(file: str) -> None:
    """Nor does a wrong value make its key `missing` or `not known`."""
    document, parse = read(file)
    for path in paths(document):
        for junk in JUNK:
            told = lines(parse, changed(document, path, junk))
            keys = [line.partition(" is ")[0] for line in told]
            assert len(keys) == len(set(keys)), (path, junk, told)


@pytest.mark.parametrize("file", PARSE)
def test_a_mistake_of_one_table_hides_none_of_another(file: str) -> None:
    document, parse = read(file)
    places = [path for path in paths(document) if len(path) > len(part(path))]
    single = {path: lines(parse, changed(document, path, -1)) for path in places}
    for one, other in pairwise([*places, *places[::3], *places[::7]]):
        if part(one) != part(other):
            both = lines(parse, changed(changed(document, one, -1), other, -1))
            assert set(single[one]) | set(single[other]) <= set(both), (one, other)


# Exact lines.


def test_each_mistake_has_its_line() -> None:
    """settings/mistakes.txt has tables of maintd.toml, and their lines; RENEW=1 writes these."""
    file, shown = HERE / "mistakes.txt", ""
    for section in file.read_text().split("== ")[1:]:
        name, _, rest = section.partition("\n")
        text = "".join(f"{line}\n" for line in rest.splitlines() if not line.startswith("-> "))
        parse = PARSE.get(name, maintd.parse)
        told = sorted(lines(parse, tomllib.loads(text)))
        assert not any("s3cret" in line for line in told), "Ganeti shows them to everyone"
        shown += f"== {name}\n{text.rstrip()}\n" + "".join(f"-> {line}\n" for line in told)
    golden.same(file, shown)


# Files.


def matches(told: list[str], wanted: list[str]) -> None:
    """The lines begin so, in any order."""
    assert len(told) == len(wanted), told
    for begin in wanted:
        assert any(line.startswith(begin) for line in told), (begin, told)


@pytest.fixture
def folder() -> Iterator[Path]:
    with safe_folder() as fresh:
        (fresh / "conf.d").mkdir(0o755)
        for name in ("agent.toml", "conf.d/10.toml", "conf.d/20.toml"):
            (fresh / name).touch(0o644)
        yield fresh


def of_files(folder: Path, owner: int | None = None) -> tuple[list[str], Faults]:
    faults = Faults(collect=True)
    values, places = read_files(str(folder / "agent.toml"), owner, faults=faults)
    agent.parse(values, places, faults)
    return [line.replace(str(folder), "FOLDER") for line in faults.lines], faults


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"[listen\nport = 0\n", "not TOML: "),
        (b"\xff", "not UTF-8 at byte 0"),
        (b"\xef\xbb\xbf", "starts with a byte order mark: save it as UTF-8 without one"),
        (b"#" * 16385, "line 1 is longer than"),
        (b"a = " + b"[" * 3000 + b"]" * 3000, "nested too deeply"),
        (b"a" + b".a" * 5000 + b" = 1", "nested too deeply"),
    ],
)
def test_a_file_that_cannot_be_read_hides_no_other(folder: Path, content: bytes, why: str) -> None:
    (folder / "agent.toml").write_text("listen.port = 70000")
    (folder / "conf.d/10.toml").write_bytes(content)
    (folder / "conf.d/20.toml").write_text('agent.log = "loud"')
    told, faults = of_files(folder)
    assert faults.incomplete
    assert told[0].startswith(f"FOLDER/conf.d/10.toml: {why}")
    rest = [line for line in told[1:] if " a is not a known" not in line]
    assert len(rest) == 2
    assert rest[0].startswith("FOLDER/conf.d/20.toml: agent.log is 'loud'")
    assert rest[1].startswith("FOLDER/agent.toml: listen.port is 70000")


def test_nothing_is_missing_while_a_file_cannot_be_read(folder: Path) -> None:
    """The lost file may have it."""
    text = "[diagnose.command.x]\nnagios = {2 = 'live-repair'}"
    (folder / "agent.toml").write_text(text)
    told, _ = of_files(folder)
    assert told == [
        "FOLDER/agent.toml: diagnose.command.x.repair is missing: a code is mapped to live-repair"
    ]
    (folder / "conf.d/10.toml").write_text("[")
    told, _ = of_files(folder)
    assert len(told) == 1
    assert "not TOML" in told[0]


def test_nor_is_a_device_or_a_level() -> None:
    faults = Faults(collect=True)
    faults.incomplete = True
    document = tomllib.loads('[device.a]\n[nodes.n]\nlevels = [["lost"]]\n[nodes.m]\n')
    power.parse(document, {}, faults)
    assert faults.lines == []


def test_wrong_folders_and_files_hide_no_value(folder: Path) -> None:
    (folder / "agent.toml").write_text("listen.port = 70000")
    (folder / "conf.d/10.toml").rename(folder / "elsewhere")
    (folder / "elsewhere").write_text('agent.log = "loud"')
    (folder / "conf.d/10.toml").symlink_to(folder / "elsewhere")
    (folder / "conf.d/20.toml").chmod(0o666)
    (folder / "conf.d/20.toml").write_text("diagnose.confirm = 0")
    folder.chmod(0o777)
    (folder / "conf.d").chmod(0o775)
    told, faults = of_files(folder, os.getuid())
    assert not faults.incomplete
    matches(
        told,
        [
            "folder FOLDER can be written by others (mode 0777)",
            "folder FOLDER/conf.d can be written by others (mode 0775)",
            "FOLDER/conf.d/10.toml: is a link",
            f"FOLDER/conf.d/20.toml: owned by uid {os.getuid()}, mode 0666; it must be owned by",
            "FOLDER/agent.toml: listen.port is 70000",
            "FOLDER/conf.d/10.toml: agent.log is 'loud'",
            "FOLDER/conf.d/20.toml: diagnose.confirm is 0",
        ],
    )


def test_every_wrong_tag() -> None:
    faults = Faults(collect=True)
    tags = [
        "nodeagent:confirm:none",
        "nodeagent:diagnose:../x",
        "nodeagent:every:1m",
        "nodeagent:every:2m",
        "nodeagent:folder:/tmp",
    ]
    read = agent.with_tags(agent.Settings(), tags, faults)
    assert read.diagnose.every == 60
    matches(
        faults.lines,
        [
            "cluster tag nodeagent:every:2m: 'every' is set by another tag too",
            "cluster tag nodeagent:folder:/tmp: unknown setting 'folder'",
            "tag nodeagent.diagnose is ['../x']; it must be",
            "tag nodeagent.confirm is 'none'; it must be",
        ],
    )
