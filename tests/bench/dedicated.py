"""Allocation on exclusive storage, beside hail: whole processes, from file to answer.

The goal for mirrored instances on 5,000 nodes is a hundredth of hail's processor time. Small
requests have one of their own, as Ganeti waits for each: 100 ms; of the processor, since what else
the machine does is no affair of theirs.
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests import needs
from tests.bench.cost import process
from tests.bench.table import Row, row
from tests.placement.hail import generator
from tests.placement.hbal import DATA

TOP = Path(__file__).resolve().parents[2]
OURS = [
    sys.executable,
    "-IS",
    "-c",
    f"import sys; sys.path.insert(0, {str(TOP)!r})\n"
    "from nodeagent.cli.iallocator import main; main()",
]
SMALL = DATA / "hail-alloc-drbd.json"


def rows(*, quick: bool = False) -> list[Row]:
    """Measure everything that the material beside the checkout lets us."""
    if needs.absent("shared/htools"):
        print("bench: no ../shared/htools, so no requests to an allocator", file=sys.stderr)
        return []
    with tempfile.TemporaryDirectory() as folder:
        large = _compared(Path(folder), 1000 if quick else 5000)
    spent = min(process([*OURS, str(SMALL)]).cpu for _ in range(20))
    return [large, row("iallocator, small request, CPU s", spent, most=0.1)]


def _compared(folder: Path, nodes: int) -> Row:
    asked = generator().generate(nodes, 1, "quarter", drbd=True)
    ours, theirs = _both(folder, asked)
    what = f"iallocator, drbd, {nodes:,} exclusive nodes, CPU s"
    return row(what, ours, theirs, times=1 / 100 if nodes == 5000 else None)


def _both(folder: Path, asked: dict[str, Any]) -> tuple[float, float | None]:
    """Our best processor time of three, and hail's; their answers must be equal."""
    file = folder / "request.json"
    file.write_text(json.dumps(asked))
    runs = [process([*OURS, str(file)]) for _ in range(3)]
    ours, theirs = min(one.cpu for one in runs), None
    if not needs.absent("hail"):
        runs.append(process([str(needs.HAIL), str(file)]))
        theirs = runs[-1].cpu
    assert len({one.out for one in runs}) == 1, runs
    return ours, theirs
