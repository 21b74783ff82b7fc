"""The real hbal, asked and understood."""

import re
import runpy
import subprocess
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal
from math import isfinite, isnan
from pathlib import Path

from tests import needs
from tests.htools import beside

HBAL = needs.where("hbal")
real = beside("hbal")
DATA = needs.SHARED / "htools/data"
FILES = sorted(DATA.glob("*.data"))
_JOB = re.compile(r"^ +(?:echo jobset (\d+),.*|(gnt-instance .*))$", re.MULTILINE)
_DIGITS = Decimal("1e-8")
_MOVE = re.compile(r"^ +\d+\. (\S+) +(\S+) +=> (\S+) +(\S+) a=(.*)$", re.MULTILINE)


def generate(nodes: int, instances: int, seed: int, **features: object) -> tuple[str, str, int]:
    """Return a larger cluster as text, the loads of its instances, and their number."""
    needs.require("shared/htools")
    generator = runpy.run_path(str(DATA.parent / "gen_cluster.py"))["generate"]
    found: tuple[str, str, int] = generator(nodes, instances, seed, **features)
    return found


def shipped(files: Sequence[Path], *, but: Collection[str] = ()) -> list[Path]:
    """Return the files of htools' own tests but some; without ../shared whoever asks is skipped."""
    needs.require("shared/htools")
    return [file for file in files if file.stem not in but]


@dataclass(frozen=True)
class Said:
    """What it printed: scores and components as text, moves as (instance, action, score).

    `commands` are those of each job set, in their order.
    """

    code: int
    out: str
    err: str
    initial: str = ""
    components: tuple[tuple[str, str], ...] = ()
    moves: tuple[tuple[str, str, str], ...] = ()
    commands: tuple[tuple[str, ...], ...] = ()
    domain: str = ""


def hbal(folder: Path, text: str, options: list[str], loads: str | None = None) -> Said:
    """Ask it about a cluster."""
    file = folder / "cluster.data"
    file.write_text(text)
    words = ["-t", str(file), *options]
    if loads is not None:
        (folder / "loads").write_text(loads)
        words += ["-U", str(folder / "loads")]
    return ask(words)


def ask(options: list[str]) -> Said:
    """Ask it with these options."""
    assert HBAL
    words = [HBAL, *options, "-C", "-v", "-v", "-v"]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=100)
    out = ran.stdout
    head = out.partition("Trying to minimize")[0]
    initial = re.search(r"Initial coefficients: overall (\S+)", out)
    domain = re.search(r"common suffix of '([^']*)'", out)
    return Said(
        ran.returncode,
        out,
        ran.stderr,
        initial[1] if initial else "",
        tuple(re.findall(r"^ +(\w+) +(\S+) +x[0-9.]+$", head, re.MULTILINE)),
        tuple((m[0], m[4], m[3]) for m in _MOVE.findall(out)),
        _commands(out),
        domain[1] if domain else "",
    )


def _commands(out: str) -> tuple[tuple[str, ...], ...]:
    found: list[list[str]] = []
    for number, command in _JOB.findall(out):
        if number:
            found.append([])
        else:
            found[-1].append(command)
    return tuple(map(tuple, found))


def shown(value: float) -> str:
    """Write a score as hbal does: the shortest decimal that is this number, rounded."""
    if not isfinite(value):
        return "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return f"{Decimal(repr(value)).quantize(_DIGITS, ROUND_HALF_EVEN):f}"
