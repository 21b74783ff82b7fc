"""Processes on the machines of a torture test, and their keeper, which restarts what has ended."""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from tests.torture.ground import Ground

ROOT = Path(__file__).parents[2]
_AGAIN = 1.0  # seconds before a restart


class Process:
    """One process on a machine; `log` gets what it writes.

    `may_run` says whether its keeper starts it, as the conditions of a unit do.
    """

    def __init__(
        self,
        ground: Ground,
        where: str,
        command: Sequence[str],
        log: Path,
        env: Mapping[str, str] | None = None,
        may_run: Callable[[], bool] = lambda: True,
    ) -> None:
        self.where = where
        self.log = log
        self.may_run = may_run
        self.stopped = False  # by SIGSTOP
        self.ends: list[int] = []  # exit codes
        self._command = ground.command(where, command)
        self.env = {**os.environ, **(env or {})}
        self._process: subprocess.Popen[bytes] | None = None
        self._ended = 0.0
        self._halted = False

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def running(self) -> bool:
        if self._process is None:
            return False
        if self._process.poll() is None:
            return True
        self.ends.append(self._process.returncode)
        self._process, self._ended = None, time.monotonic()
        return False

    def start(self) -> None:
        with open(self.log, "ab") as log:
            self._process = subprocess.Popen(
                self._command,
                cwd=ROOT,
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def tend(self) -> None:
        """Start it if it should run and does not."""
        if (
            not (self._halted or self.running)
            and self.may_run()
            and time.monotonic() - self._ended > _AGAIN
        ):
            self.start()

    def signal(self, which: int) -> None:
        with suppress(ProcessLookupError):
            if self._process is not None:
                self._process.send_signal(which)
                self.stopped = which == signal.SIGSTOP

    def halt(self) -> None:
        """End it, and start it no more before `release`."""
        self._halted = True
        self.end()

    def release(self) -> None:
        self._halted = False

    def end(self) -> None:
        """Kill it, and wait for its end."""
        process = self._process
        if process is not None and process.poll() is None:
            process.kill()
            process.wait(20)


class Keeper:
    """Tends processes from a thread of its own, until `end` kills them all."""

    def __init__(self) -> None:
        self.processes: list[Process] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def _run(self) -> None:
        while not self._over.wait(0.2):
            for process in self.processes:
                process.tend()

    def end(self) -> None:
        self._over.set()
        if self._thread.ident is not None:
            self._thread.join()
        for process in self.processes:
            process.end()
