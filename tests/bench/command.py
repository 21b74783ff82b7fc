"""What running a vetted command costs, against a bare posix_spawn of the same program.

In one process and in turn (ours, bare, ours, bare ...), medians: one supervisor runs them all.
"""

import asyncio
import os
import shutil
import statistics
import time
from pathlib import Path

from nodeagent.agent.command import Commands
from nodeagent.agent.run import ENVIRONMENT, Finished, Limits
from tests.attacks.folder import put, trusted_folder, vetted
from tests.bench.table import Row, row

RUNS = 200
IDLE = 0.08  # seconds between runs: enough for caches to be somebody else's
GOAL = "<= 1.5 * bare + 0.5 ms"


def rows(*, quick: bool = False) -> list[Row]:
    """Measure; `quick` runs less often and proves less."""
    runs = RUNS // 5 if quick else RUNS
    with trusted_folder() as folder:
        shutil.copyfile("/bin/true", folder / "program")
        (folder / "program").chmod(0o755)
        put(folder, "script", "#!/bin/sh\necho ok\n")
        return asyncio.run(_measure(folder, runs))


async def _measure(folder: Path, runs: int) -> list[Row]:
    found = []
    commands = Commands()
    for name in ("program", "script"):
        for idle in (IDLE, 0.0):
            ours, bare = await _in_turn(commands, folder, name, idle, runs)
            what = f"{name}, {idle * 1000:.0f} ms idle between" if idle else f"{name}, at once"
            met = ours <= 1.5 * bare + 0.5
            found.append(row(f"run a vetted {what}, ms", ours, bare, goal=GOAL, met=met))
    await commands.close()
    return found


async def _in_turn(
    commands: Commands, folder: Path, name: str, idle: float, runs: int
) -> tuple[float, float]:
    """Medians of running what was looked up, and of the bare way."""
    ours, bare = [], []
    for _ in range(runs):
        with vetted(folder, name) as found:
            start = time.perf_counter()
            ran = await commands.run(found, b"", Limits())
            ours.append(time.perf_counter() - start)
        assert isinstance(ran, Finished)
        assert ran.fault is None
        await asyncio.sleep(idle)
        bare.append(bare_once(folder, name))
        await asyncio.sleep(idle)
    return _ms(ours), _ms(bare)


def bare_once(folder: Path, name: str) -> float:
    """Spawn and wait, nothing else; seconds."""
    start = time.perf_counter()
    nowhere = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
    pid = os.posix_spawn(folder / name, [name], ENVIRONMENT, file_actions=nowhere)
    os.waitpid(pid, 0)
    return time.perf_counter() - start


def _ms(seconds: list[float]) -> float:
    return statistics.median(seconds) * 1000
