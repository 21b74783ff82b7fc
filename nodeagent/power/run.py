"""Runs of one program: bounded in time and output, and nothing of it left behind.

The program has a session of its own. What it starts may leave that session, as a terminal's child
does; this process adopts such strays and ends them.
"""

import ctypes
import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

MOST_BYTES = 256 * 1024  # of each stream
_ADOPT = 36  # PR_SET_CHILD_SUBREAPER
_PATIENCE = 1.0


@dataclass(frozen=True, slots=True)
class Ran:
    """One ended run; `stopped` says why it was killed, and is empty if it ended by itself."""

    code: int
    stdout: str
    stderr: str
    stopped: str = ""


def run(
    command: Sequence[str], stdin: bytes, seconds: float, environment: Mapping[str, str]
) -> Ran:
    """Run a program to its end or its limit; OSError if it cannot start."""
    deadline = time.monotonic() + seconds
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=dict(environment),
        cwd="/",
        start_new_session=True,
    ) as process:
        assert process.stdin
        assert process.stdout
        assert process.stderr
        exited = os.pidfd_open(process.pid)
        try:
            with suppress(BrokenPipeError):
                os.write(process.stdin.fileno(), stdin)  # less than a pipe holds
            process.stdin.close()
            out, err = process.stdout.fileno(), process.stderr.fileno()
            taken = {out: bytearray(), err: bytearray()}
            stopped = _follow(taken, exited, deadline)
        finally:
            os.close(exited)
            _end(process)
        code = process.wait()
    stdout, stderr = (bytes(taken[fd]).decode(errors="replace") for fd in (out, err))
    return Ran(code, stdout, stderr, stopped)


def _follow(taken: dict[int, bytearray], exited: int, deadline: float) -> str:
    """Read until the program has ended, whoever else holds its output open."""
    poll = select.poll()
    for fd in (*taken, exited):
        os.set_blocking(fd, False)
        poll.register(fd, select.POLLIN)
    while (remaining := deadline - time.monotonic()) > 0:
        ready = {fd for fd, _ in poll.poll(1000 * remaining)}
        for fd in ready & set(taken):
            if not _take(fd, taken[fd]):
                poll.unregister(fd)
        if max(map(len, taken.values())) > MOST_BYTES:
            return "output"
        if exited in ready:
            for fd, words in taken.items():
                while len(words) <= MOST_BYTES and _take(fd, words):
                    pass
            return ""
    return "time"


def _take(fd: int, words: bytearray) -> bool:
    """Read a piece; False at the end, or if there is nothing now."""
    try:
        piece = os.read(fd, 65536)
    except BlockingIOError:
        return False
    words += piece
    return bool(piece)


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Kill a program and all that it started; it is not reaped yet, so the numbers are its own."""
    below = _descendants(process.pid)
    with suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    for pid in (process.pid, *below):
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def adopt() -> None:
    """Become the parent of what our programs leave behind, so that `end_all` finds it."""
    ctypes.CDLL(None).prctl(_ADOPT, 1, 0, 0, 0)


def end_all() -> None:
    """Kill and reap all processes below this one, or give up after a second."""
    deadline = time.monotonic() + _PATIENCE
    while (below := _descendants(os.getpid())) and time.monotonic() < deadline:
        for pid in below:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.005)


def _descendants(pid: int) -> list[int]:
    descendants: list[int] = []
    todo = [pid]
    while todo and len(descendants) < 10_000:
        below: list[int] = []
        here = todo.pop()
        with suppress(OSError):
            for thread in os.listdir(f"/proc/{here}/task"):
                with open(f"/proc/{here}/task/{thread}/children", encoding="ascii") as file:
                    below += map(int, file.read().split())
        descendants += below
        todo += below
    return descendants
