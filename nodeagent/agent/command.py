"""Running one vetted command: bounded in time, output, memory, processes and descendants.

No arguments, no shell, a fixed environment, standard input from memory; see `supervisor`
for the half that lives in a process of its own.
"""

import asyncio
import json
import logging
import os
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from nodeagent.agent import supervisor
from nodeagent.agent.cgroup import Cages
from nodeagent.agent.run import Finished, Limits, Ran, StillRunning
from nodeagent.agent.whitelist import Vetted

log = logging.getLogger(__name__)

ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "HOME": "/"}
STDERR_BYTES = 64 * 1024
_ANSWER_WITHIN = supervisor.GRACE + supervisor.PATIENCE + 5


class Commands:
    """Runs commands, one at a time of each name. Belongs to one event loop."""

    def __init__(self, *, spare: int = 1, cages: Cages | None = None) -> None:
        self._cages = cages or Cages()
        self._spare = spare
        self._idle: list[_Supervisor] = []
        self._all: set[_Supervisor] = set()
        self._busy: dict[str, _Supervisor] = {}

    @property
    def busy(self) -> frozenset[str]:
        """Names of the commands whose last run has not ended."""
        return frozenset(self._busy)

    @property
    def stuck(self) -> int:
        """How many runs have answered and yet not ended: processes in uninterruptible sleep."""
        return sum(keeper.answered for keeper in self._busy.values())

    def warm_up(self) -> None:
        """Start spare supervisors, so that a command need not wait for one."""
        while len(self._idle) < self._spare:
            self._idle.append(self._new())

    async def run(self, vetted: Vetted, stdin: bytes, limits: Limits) -> Ran:
        """Run to the end or to a limit, and leave no descendant behind.

        Returns by the time limit plus a few seconds, whatever the command does.
        """
        if vetted.name in self._busy:
            return StillRunning(vetted.name)
        keeper = self._idle.pop() if self._idle else self._new()
        self._busy[vetted.name] = keeper
        keeper.on_end(lambda: self._ended(vetted.name, keeper))
        try:
            return await keeper.run(vetted, stdin, limits)
        finally:
            asyncio.get_running_loop().call_later(0.01, self.warm_up)

    async def close(self) -> None:
        """End everything that runs; wait a moment for it."""
        self._spare = 0
        for keeper in list(self._all):
            keeper.hang_up()
        for _ in range(50):
            if not self._all:
                break
            await asyncio.sleep(0.02)
        self._cages.close()

    def _new(self) -> "_Supervisor":
        keeper = _Supervisor(self._cages)
        self._all.add(keeper)
        keeper.on_end(lambda: self._ended(None, keeper))
        return keeper

    def _ended(self, name: str | None, keeper: "_Supervisor") -> None:
        self._all.discard(keeper)
        if keeper in self._idle:
            self._idle.remove(keeper)
        if name is not None and self._busy.get(name) is keeper:
            del self._busy[name]


class _Supervisor:
    """Our end of one supervisor process."""

    def __init__(self, cages: Cages) -> None:
        self.answered = False
        self._loop = asyncio.get_running_loop()
        self._cages = cages
        self._groups = cages.make()
        self._on_end: list[Callable[[], None]] = []
        self._answer: asyncio.Future[dict[str, Any]] = self._loop.create_future()
        self._socket, theirs = socket.socketpair(
            socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC
        )
        self._socket.setblocking(False)
        try:
            self._pid = os.posix_spawn(
                sys.executable,
                [sys.executable, "-I", "-S", supervisor.__file__]
                + [f"{group}={home}" for group, home in self._groups.items()],
                ENVIRONMENT,
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
                    (os.POSIX_SPAWN_DUP2, theirs.fileno(), 3),
                ],
                setsigmask=(),
                setsigdef=range(1, 32),
            )
        finally:
            theirs.close()
        self._watch = os.pidfd_open(self._pid)
        self._loop.add_reader(self._watch, self._reap)

    def on_end(self, callback: Callable[[], None]) -> None:
        """Call back once the process has gone, and with it every descendant."""
        self._on_end.append(callback)

    def hang_up(self) -> None:
        """Let the supervisor see that we have gone: it ends everything it runs."""
        if self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket)
            self._socket.close()

    def _reap(self) -> None:
        self._loop.remove_reader(self._watch)
        os.close(self._watch)
        os.waitpid(self._pid, 0)
        self._cages.discard(self._groups)
        for callback in self._on_end:
            callback()

    async def run(self, vetted: Vetted, stdin: bytes, limits: Limits) -> Finished:
        """As Commands.run; every supervisor runs one command in its life."""
        stdout = _Intake(limits.output_bytes, self._too_much)
        stderr = _Intake(STDERR_BYTES, None)
        self._loop.add_reader(self._socket, self._hear)
        lost = self._loop.call_later(limits.seconds + _ANSWER_WITHIN, self._settle, {})
        try:
            self._tell(vetted, stdin, limits, stdout, stderr)
            answer = await self._answer
            self.answered = True
        except OSError as error:
            answer = {"unstarted": f"no supervisor: {error.strerror}"}
        finally:
            lost.cancel()
            stdout.close()
            stderr.close()
            self.hang_up()
        return Finished(
            code=answer.get("code"),
            stdout=stdout.taken,
            stderr=stderr.taken,
            stopped="output" if stdout.over else answer.get("stopped"),
            stuck=tuple(answer.get("stuck", ())),
            unstarted=answer.get("unstarted"),
        )

    def _hear(self) -> None:
        try:
            raw = self._socket.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            raw = b""
        self._settle(json.loads(raw) if raw else {})

    def _settle(self, answer: dict[str, Any]) -> None:
        self._loop.remove_reader(self._socket)
        if not self._answer.done():
            self._answer.set_result(answer)

    def _tell(
        self, vetted: Vetted, stdin: bytes, limits: Limits, out: "_Intake", err: "_Intake"
    ) -> None:
        wish = {
            "name": vetted.name,
            "environment": {**ENVIRONMENT, "NODEAGENT_COMMAND": vetted.name},
            "seconds": limits.seconds,
            "memory": limits.memory,
            "processes": limits.processes,
            "files": limits.files,
        }
        feed = _in_memory(stdin)
        try:
            fds = [vetted.fd, feed, out.write_end, err.write_end]
            socket.send_fds(self._socket, [json.dumps(wish).encode()], fds)
        finally:
            os.close(feed)
            out.close_write_end()
            err.close_write_end()

    def _too_much(self) -> None:
        with suppress(OSError):
            self._socket.send(b"stop")


class _Intake:
    """The read end of a pipe: keeps the head up to a limit, throws the rest away."""

    def __init__(self, limit: int, on_over: Callable[[], None] | None) -> None:
        self.taken = b""
        self.over = False
        self._limit = limit
        self._on_over = on_over
        self._loop = asyncio.get_running_loop()
        self._read_end, self.write_end = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._read_end, False)
        self._loop.add_reader(self._read_end, self._readable)

    def _readable(self) -> bool:
        """Take what is there; False at the end, or when there is nothing now."""
        try:
            chunk = os.read(self._read_end, 65536)
        except BlockingIOError:
            return False
        if not chunk:
            self._loop.remove_reader(self._read_end)
            return False
        room = self._limit - len(self.taken)
        self.taken += chunk[:room]
        if len(chunk) > room and not self.over and self._on_over:
            self.over = True
            self._on_over()
        return True

    def close_write_end(self) -> None:
        """Leave the writing to the command."""
        if self.write_end >= 0:
            os.close(self.write_end)
            self.write_end = -1

    def close(self) -> None:
        """Take what a finished command left in the pipe, which is at most the pipe's size."""
        self.close_write_end()
        for _ in range(64):
            if not self._readable():
                break
        self._loop.remove_reader(self._read_end)
        os.close(self._read_end)


def _in_memory(content: bytes) -> int:
    """A read-only descriptor on bytes that the command may read, or not, as it likes."""
    if not content:
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    fd = os.memfd_create("stdin", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.write(fd, content)
        return os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.close(fd)
