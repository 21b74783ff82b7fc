"""Run cases and compare each line with the right result."""

import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.cases.table import Row

TOP = Path(__file__).resolve().parents[2]
FOLDER = TOP.parent / "shared" / "cases"


@dataclass(frozen=True)
class Tried:
    """A row, and the line that its case printed; empty if it printed none that begins so."""

    row: Row
    line: str

    @property
    def is_right(self) -> bool:
        return re.search(self.row.right, self.line) is not None


def output(case: str) -> list[str]:
    """The lines of a case, run as by hand."""
    (script,) = FOLDER.glob(f"{case}-*.py")
    with TemporaryDirectory() as folder:  # a case leaves its files behind
        more = {"PYTHONPATH": f"{TOP}:{FOLDER}", "PYTHONDONTWRITEBYTECODE": "1", "TMPDIR": folder}
        done = subprocess.run(
            [sys.executable, script],
            cwd=TOP,
            env={**os.environ, **more},
            capture_output=True,
            text=True,
            check=False,
        )
    return [line.strip() for line in (done.stdout + done.stderr).splitlines()]


def tried(rows: Iterable[Row]) -> Iterator[Tried]:
    """Each row with what its case printed now; a case runs once."""
    outputs: dict[str, list[str]] = {}
    for row in rows:
        if row.case not in outputs:
            outputs[row.case] = output(row.case)
        lines = [line for line in outputs[row.case] if line.startswith(row.title)]
        yield Tried(row, lines[0] if lines else "")
