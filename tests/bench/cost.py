"""What work costs: a whole process, or a function of ours."""

import os
import subprocess
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

T = TypeVar("T")


class Process(NamedTuple):
    """What an ended process has printed, and what it took."""

    out: str
    cpu: float  # seconds
    wall: float  # seconds
    memory: float  # MiB


def process(command: Sequence[str]) -> Process:
    """Let a command run to its end, all its children counted that it has waited for."""
    began = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout
        out = running.stdout.read()
        _, status, usage = os.wait4(running.pid, 0)
        running.returncode = os.waitstatus_to_exitcode(status)
    assert running.returncode == 0, command
    wall = time.perf_counter() - began
    return Process(out, usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss / 1024)


def least(work: Callable[[], T], times: int = 3) -> tuple[T, float]:
    """Do it so often; its last result, and the CPU seconds of the quickest."""
    best = float("inf")
    for _ in range(times):
        began = time.process_time()
        result = work()
        best = min(best, time.process_time() - began)
    return result, best
