"""What it costs to start a command: processor time of all its processes, by the system's python."""

import statistics

from tests.agent.place import Place, safe_folder
from tests.bench.cost import process
from tests.bench.idle import OK, PYTHON, by_itself
from tests.bench.table import Row, row

RUNS = 9
CLUSTER = """\
here|uuid-1|preferred|

node1|1024|0|1024|95367|95367|4|N|uuid-1|1
node2|1024|0|896|95367|94343|4|N|uuid-1|1
node3|1024|0|1024|95367|94343|4|N|uuid-1|1

web1|128|1024|1|running|Y|node2|node3|drbd||1

"""
"""As well balanced as it can be: the search for moves has little to do."""


def rows(*, quick: bool = False) -> list[Row]:
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


def _row(name: str, goal: float | None, words: list[str], runs: int) -> Row:
    used = statistics.median(process(words).cpu for _ in range(runs)) * 1000
    return row(f"start of {name}, processor ms", used, most=goal)
