"""What running a vetted command costs, against a bare posix_spawn of the same program.

In one process and in turn (ours, bare, ours, bare ...), medians, with a supervisor ready: its
start is paid before the need, and shown in rows of its own.

    python -m tests.bench.command [--quick]
"""

import asyncio
import json
import os
import resource
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from nodeagent.agent.command import Commands
from nodeagent.agent.run import ENVIRONMENT, Finished, Limits
from tests import needs
from tests.attacks.folder import put, trusted_folder, vetted
from tests.bench.table import row, run

RUNS = 200
IDLE = 0.08  # seconds between runs: enough for caches to be somebody else's
FLOOR = needs.SHARED / "floors/spawn_floor.c"
GOAL = "<= 1.5 * bare + 0.5 ms"


def rows(*, quick: bool = False) -> list[dict[str, Any]]:
    """Measure; `quick` runs less often and proves less."""
    runs = RUNS // 5 if quick else RUNS
    with trusted_folder() as folder:
        shutil.copyfile("/bin/true", folder / "program")
        (folder / "program").chmod(0o755)
        put(folder, "script", "#!/bin/sh\necho ok\n")
        return asyncio.run(_measure(folder, runs)) + _floor(folder / "program", runs)


async def _measure(folder: Path, runs: int) -> list[dict[str, Any]]:
    found = []
    commands = Commands(spare=1)
    commands.warm_up()
    await asyncio.sleep(0.5)
    for name in ("program", "script"):
        for idle in (IDLE, 0.0):
            looked, ours, bare = await _in_turn(commands, folder, name, idle, runs)
            what = f"{name}, {idle * 1000:.0f} ms idle between" if idle else f"{name}, at once"
            found.append(_row(f"run a vetted {what}", ours, bare, goal=GOAL))
            found.append(_row(f"look up and run a {what}", looked + ours, bare))
    await commands.close()
    found.append(_row("run a program, no supervisor ready", *await _unprepared(folder)))
    found.append(await _processor(folder, runs))
    return found


async def _in_turn(
    commands: Commands, folder: Path, name: str, idle: float, runs: int
) -> tuple[float, float, float]:
    """Medians of looking up, of running what was found, and of the bare way."""
    looked, ours, bare = [], [], []
    for _ in range(runs):
        start = time.perf_counter()
        with vetted(folder, name) as found:
            middle = time.perf_counter()
            ran = await commands.run(found, b"", Limits())
            end = time.perf_counter()
        assert isinstance(ran, Finished)
        assert ran.fault is None
        looked.append(middle - start)
        ours.append(end - middle)
        await asyncio.sleep(idle)
        bare.append(bare_once(folder, name) / 1000)
        await asyncio.sleep(idle)
    return _ms(looked), _ms(ours), _ms(bare)


def bare_once(folder: Path, name: str = "program") -> float:
    """Spawn and wait, nothing else; milliseconds."""
    start = time.perf_counter()
    nowhere = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
    pid = os.posix_spawn(folder / name, [name], ENVIRONMENT, file_actions=nowhere)
    os.waitpid(pid, 0)
    return (time.perf_counter() - start) * 1000


async def _unprepared(folder: Path) -> tuple[float, float]:
    """Running with the start of a supervisor before, as `nodeagent commands` does once."""
    ours, bare = [], []
    commands = Commands(spare=0)
    with vetted(folder, "program") as found:
        for _ in range(20):
            start = time.perf_counter()
            await commands.run(found, b"", Limits())
            ours.append(time.perf_counter() - start)
            bare.append(bare_once(folder) / 1000)
    await commands.close()
    return _ms(ours), _ms(bare)


async def _processor(folder: Path, runs: int) -> dict[str, Any]:
    """Processor time of a run, all processes together, with the start of every supervisor."""
    before = _used()
    commands = Commands(spare=1)
    with vetted(folder, "program") as found:
        for _ in range(runs):
            await commands.run(found, b"", Limits())
    await commands.close()
    middle = _used()
    for _ in range(runs):
        bare_once(folder)
    ours, bare = (middle - before) / runs, (_used() - middle) / runs
    return _row("processor time of a run, supervisors' starts included", ours, bare)


def _floor(program: Path, runs: int) -> list[dict[str, Any]]:
    """The same program from C, with a pipe, as fast as it goes; ours likewise is `at once`."""
    if not FLOOR.exists() or needs.absent("gcc"):
        return []
    with tempfile.TemporaryDirectory() as place:
        subprocess.run(["gcc", "-O2", "-w", "-o", f"{place}/floor", FLOOR], check=True)
        words = [f"{place}/floor", "p", str(runs * 5), "0", "1", str(program)]
        said = json.loads(subprocess.run(words, check=True, capture_output=True).stdout)
    bare = statistics.median(bare_once(program.parent) for _ in range(runs))
    return [_row("bare posix_spawn from Python, against C with a pipe", bare, said["p50"] / 1000)]


def _row(name: str, ours: float, peer: float, goal: str | None = None) -> dict[str, Any]:
    met = ours <= 1.5 * peer + 0.5 if goal else None
    return row(f"{name}, ms", ours, peer, goal=goal, met=met)


def _ms(seconds: list[float]) -> float:
    return statistics.median(seconds) * 1000


def _used() -> float:
    both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in both) * 1000


if __name__ == "__main__":
    run(rows, __doc__)
