"""What it costs to start a command: processor time of all its processes, by the system's python.

The peer is that python with nothing to do, started in turn with the command: it took 9 ms where the
goals were set (50, 90 and 200 ms), and takes 25 ms on another machine.
"""

import statistics

from tests.agent.place import Place, safe_folder
from tests.bench.cost import process
from tests.bench.idle import OK, PYTHON, by_itself
from tests.bench.table import Row, row

RUNS = 9
ALONE = 9  # ms that python alone took where the goals were set
NOTHING = [PYTHON, "-I", "-c", "pass"]
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


def _row(name: str, goal: float, words: list[str], runs: int) -> Row:
    """One command beside python alone; its goal is in ms where that takes `ALONE`."""
    turns = [(process(words).cpu, process(NOTHING).cpu) for _ in range(runs)]
    used, alone = (statistics.median(times) * 1000 for times in zip(*turns, strict=True))
    return row(
        f"start of {name}, processor ms, beside python alone", used, alone, times=goal / ALONE
    )
