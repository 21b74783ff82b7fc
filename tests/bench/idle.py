"""What an agent takes while nothing asks it: memory and processor time of all its processes.

It runs one diagnose command a minute and serves TLS. Five minutes by default, so that the start
counts for nothing.
"""

import os
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.agent.place import Place, safe_folder
from tests.bench.table import Row, row

TOP = Path(__file__).parents[2]
SETTLED = 20  # seconds: the front has its collectors' first averages, the runner its first result
MEMORY, PROCESSOR = 36, 2.5  # goals: MB, and seconds an hour
OK = '#!/bin/sh\necho \'{"status":"Ok"}\'\n'
PYTHON: str = sys._base_executable  # type: ignore[attr-defined]
"""The system's python: a virtual environment's has its own costs."""
PATHS = [str(TOP), sysconfig.get_path("purelib")]
HALF = "from nodeagent.agent.daemon import main; sys.exit(main(*sys.argv[1:]))"
_TICKS = os.sysconf("SC_CLK_TCK")


def rows(*, quick: bool = False) -> list[Row]:
    """Measure; `quick` looks for a minute and proves less."""
    seconds = 60 if quick else 300
    with idle_agent() as pids:
        time.sleep(SETTLED)
        before = processor(pids)
        time.sleep(seconds)
        used = (processor(pids) - before) * 3600 / seconds
        held = sum(memory([pid, *below(pid)]) for pid in pids.values())
    return [
        row("an idle agent's memory (PSS), all processes, MB", held, most=MEMORY),
        row("an idle agent's processor time, all processes, s an hour", used, most=PROCESSOR),
    ]


@contextmanager
def idle_agent() -> Iterator[dict[str, int]]:
    """Run both halves as the packages do, by the system's python; their process ids by name."""
    with safe_folder() as folder:
        place = Place(folder)
        place.command("diagnose", "ok", OK)
        place.settings(commands='"ok"')
        file = folder / "agent.toml"
        file.write_text(file.read_text().replace('every = "1s"', 'every = "60s"'))
        halves = {
            half: subprocess.Popen(_python(HALF, half, place.config), stderr=subprocess.DEVNULL)
            for half in ("runner", "front")
        }
        try:
            yield {half: process.pid for half, process in halves.items()}
        finally:
            for process in halves.values():
                process.terminate()
            for process in halves.values():
                process.wait(30)


def by_itself(module: str, *arguments: str) -> list[str]:
    """Return the command line of a command of ours, started as the packages start it."""
    return _python(f"from nodeagent.cli.{module} import main; main()", *arguments)


def _python(text: str, *arguments: str) -> list[str]:
    begin = f"import sys; sys.path[:0] = {PATHS}"
    return [PYTHON, "-I", "-c", f"{begin}; {text}", *arguments]


def below(pid: int) -> list[int]:
    """List the processes below this one."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in map(int, (task / "children").read_text().split()):
            found += [child, *below(child)]
    return found


def processor(pids: dict[str, int]) -> float:
    """Return the processor seconds of these processes and all below them, ended ones too."""
    ticks = 0
    for pid in pids.values():
        for each in (pid, *below(pid)):
            fields = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
            ticks += sum(map(int, fields[11:15]))
    return ticks / _TICKS


def memory(pids: list[int]) -> float:
    """Return the processes' share of the memory, in MB."""
    lines = [
        line.split()
        for pid in pids
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    ]
    return sum(int(line[1]) for line in lines if line[0] == "Pss:") * 1024 / 1e6
