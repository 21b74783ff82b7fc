"""Commands that look at files alone: a table of trees for each, with what the command says of them.

A table in trees/ begins with the files of the rows below, of which all is well. A row is
`name: changes`; below it stands what the command prints, if that is anything else. Files are words
`path=content`, with + for a blank; `path` alone is an empty file, `path/` a folder, `-path` is not
there, and `path>target` is a link. RENEW=1 writes what is printed.
"""

from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import golden

from .shipped import Shipped

HERE = Path(__file__).parent / "trees"


@dataclass(frozen=True)
class Table:
    """Where the files of a command's rows are, and its constants that are folders and files."""

    under: str
    folders: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()


TABLES = {
    "kernel": Table("", ("SYS", "PROC"), ("BASELINE",)),
    "links": Table("sys/class/net", ("SYS",), ("SSCONF", "STATE")),
    "mdraid": Table("sys/block/md0/md", ("SYS", "PROC")),
    "temperature": Table("sys/class/hwmon/hwmon0", ("SYS",)),
}


def tree(words: str) -> dict[str, str | None]:
    """The files that the words describe; those that are not there, too."""
    files: dict[str, str | None] = {}
    for word in words.split():
        path, equals, content = word.partition("=")
        link, arrow, target = path.partition(">")
        if arrow:
            files[link] = f"-> {target}"
        else:
            files[path] = f"{content.replace('+', ' ')}\n" if equals else ""
    return files


def grown(shipped: Shipped, under: str, words: str) -> Path:
    """Make the files of a row in a world of its own."""
    files = tree(words)
    for path in [path for path in files if path.startswith("-")]:
        del files[path]
        files.pop(path[1:], None)
    for path, content in files.items():
        folder = "" if path.startswith("/") else under
        shipped.tree({path.strip("/"): None if path.endswith("/") else content}, under=folder)
    return shipped.root


def said(shipped: Shipped, name: str, words: str) -> str:
    """What the command prints of this tree, or complains of."""
    table, world = TABLES[name], shipped.anew()
    root = grown(world, table.under, words)
    constants: dict[str, object] = {one: root / one.lower() for one in table.folders}
    constants |= {one: root / "none" / one.lower() for one in table.absent}
    if name == "links":
        shown = '[{"ifname": "lo", "addr_info": [{"local": "127.0.0.1"}]}]'
        constants["TOOLS"] = (str(world.tool("ip", f"echo '{shown}'")),)
        constants["LLDPCTL"] = ("/nonexistent",)
    ran = world.run(name, **constants)
    assert ran.code or ran.need
    return f"-> {ran.stdout or ran.complaint}".rstrip("\n").replace(str(root), "ROOT") + "\n"


@pytest.mark.parametrize("name", TABLES)
def test_what_a_command_says_of_a_tree(shipped: Shipped, name: str) -> None:
    file, told, common, well = HERE / f"{name}.txt", "", "", ""
    for line in file.read_text().splitlines():
        changes = line.partition(": ")[2]
        if line.startswith("-> "):
            continue
        told += f"{line}\n"
        if line.startswith("  "):
            common = f"{common} {line}" if not well else line
            well = ""
        elif line:
            well = well or said(shipped, name, common)
            assert '"status": "Ok"' in well
            shown = said(shipped, name, f"{common} {changes}")
            told += shown if shown != well else ""
    golden.same(file, told)
