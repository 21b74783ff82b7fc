"""The real hbal, asked and understood."""

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.htools import beside

HBAL = shutil.which("hbal")
real = beside("hbal")
DATA = Path(__file__).resolve().parents[3] / "shared" / "htools" / "data"
FILES = sorted(DATA.glob("*.data"))
_MOVE = re.compile(r"^ +\d+\. (\S+) +(\S+) +=> (\S+) +(\S+) a=(.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Said:
    """What it printed: scores and components as text, moves as (instance, action, score)."""

    code: int
    out: str
    err: str
    initial: str = ""
    components: tuple[tuple[str, str], ...] = ()
    moves: tuple[tuple[str, str, str], ...] = ()
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
    words = [HBAL, *options, "-v", "-v", "-v"]
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
        domain[1] if domain else "",
    )
