"""What it costs to start a command: processor time of all its processes, by the system's python.

python -m tests.bench.start [--quick]
"""

import resource
import statistics
import subprocess
from typing import Any

from tests.agent.place import Place, safe_folder
from tests.bench.idle import OK, PYTHON, by_itself
from tests.bench.table import row, run

RUNS = 9
CLUSTER = """\
here|uuid-1|preferred|

node1|1024|0|1024|95367|95367|4|N|uuid-1|1
node2|1024|0|896|95367|94343|4|N|uuid-1|1
node3|1024|0|1024|95367|94343|4|N|uuid-1|1

web1|128|1024|1|running|Y|node2|node3|drbd||1

"""
"""As well balanced as it can be: the search for moves has little to do."""


def rows(*, quick: bool = False) -> list[dict[str, Any]]:
    """Measure; `quick` runs each less often."""
    runs = RUNS // 3 if quick else RUNS
    with safe_folder() as folder:
        place = Place(folder)
        place.command("diagnose", "ok", OK)
        place.settings(commands='"ok"')
        (folder / "cluster").write_text(CLUSTER)
        return [
            _row("python alone", None, [PYTHON, "-I", "-c", "pass"], runs),
            _row("gnt-maint --help", 50, by_itself("gnt_maint", "--help"), runs),
            _row(
                "nodeagent diagnose, one small command",
                90,
                by_itself("nodeagent", "--config", place.config, "diagnose"),
                runs,
            ),
            _row(
                "gnt-maint balance, 3 balanced nodes from a file",
                200,
                by_itself("gnt_maint", "balance", "-t", str(folder / "cluster")),
                runs,
            ),
        ]


def _row(name: str, goal: float | None, words: list[str], runs: int) -> dict[str, Any]:
    used = statistics.median(_once(words) for _ in range(runs))
    return row(
        f"start of {name}, processor ms",
        used,
        None,
        goal=f"<= {goal}" if goal else None,
        met=used <= goal if goal else None,
    )


def _once(words: list[str]) -> float:
    before = _used()
    subprocess.run(words, check=True, capture_output=True)
    return _used() - before


def _used() -> float:
    """Return the processor time of all ended children, in ms."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (used.ru_utime + used.ru_stime) * 1000


if __name__ == "__main__":
    run(rows, __doc__)
