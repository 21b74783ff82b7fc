"""Running one vetted command: bounded in time, output, memory, processes and descendants.

It has no arguments, no shell, a fixed environment, and standard input from memory. `supervisor` is
the half that lives in a process of its own.
"""

import asyncio
import json
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from nodeagent.agent import cgroup, supervisor
from nodeagent.agent.cgroup import Cages
from nodeagent.agent.run import ENVIRONMENT, STDERR_MOST, Finished, Limits, Ran, StillRunning
from nodeagent.agent.whitelist import Vetted

log = logging.getLogger(__name__)

STDERR_KEPT = 64 * 1024
REST = 5.0  # seconds a supervisor waits for more work: the commands of one time start together
# Imported: a script would be compiled at each start, which leaves a megabyte in its memory.
_SUPERVISE = (
    "import os, sys; sys.path.append(sys.argv[1]); from supervisor import main;"
    " main(sys.argv[2:]); os._exit(0)"
)
_ANSWER_WITHIN = supervisor.GRACE + supervisor.PATIENCE + 5


class Commands:
    """Runs commands, one at a time of each name. Belongs to one event loop.

    A supervisor takes some 30 ms of a processor to start, and 5 MB. So after a run it waits `rest`
    seconds for the next one, and then ends.
    """

    def __init__(self, *, rest: float = REST, cages: Cages | None = None) -> None:
        self._cages = cages or Cages()
        self._rest = rest
        self._closed = False
        self._idle: list[_Supervisor] = []
        self._all: set[_Supervisor] = set()
        self._busy: dict[str, _Supervisor] = {}

    @property
    def busy(self) -> frozenset[str]:
        return frozenset(self._busy)

    @property
    def stuck(self) -> int:
        """Count the runs that have answered but not ended: processes in uninterruptible sleep."""
        return sum(keeper.answered for keeper in self._busy.values())

    async def run(self, vetted: Vetted, stdin: bytes, limits: Limits, *, alias: str = "") -> Ran:
        """Run to the end or to a limit, and leave no descendant behind.

        It returns by the time limit plus a few seconds, whatever the command does. With an `alias`
        it runs beside others of its name.
        """
        name = alias or vetted.name
        if name in self._busy:
            return StillRunning(name)
        try:
            keeper = self._take()
        except OSError as error:
            return _unstarted(f"no supervisor: {error.strerror}")
        self._busy[name] = keeper
        try:
            return await keeper.run(vetted, stdin, limits)
        finally:
            if keeper.clean:
                self._busy.pop(name, None)
            if keeper.clean and not keeper.last and not self._closed:
                self._idle.append(keeper)
                keeper.rest(self._rest)
            else:
                keeper.hang_up()  # `_ended` frees a name that is still busy

    async def close(self) -> None:
        """End everything that runs; wait a moment for it."""
        self._closed = True
        for keeper in list(self._all):
            keeper.hang_up()
        for _ in range(50):
            if not self._all:
                break
            await asyncio.sleep(0.02)
        self._cages.tidy()

    def _take(self) -> "_Supervisor":
        while self._idle:
            keeper = self._idle.pop()
            if keeper.wake():
                return keeper
        return self._new()

    def _new(self) -> "_Supervisor":
        keeper = _Supervisor(self._cages, self._ended)
        self._all.add(keeper)
        return keeper

    def _ended(self, keeper: "_Supervisor") -> None:
        self._all.discard(keeper)
        if keeper in self._idle:
            self._idle.remove(keeper)
        self._busy = {name: other for name, other in self._busy.items() if other is not keeper}


class _Supervisor:
    def __init__(self, cages: Cages, on_end: Callable[["_Supervisor"], None]) -> None:
        self.answered = False
        self.clean = True  # its last run has left nothing behind
        self.last = False  # it will not serve again
        self._loop = asyncio.get_running_loop()
        self._cages = cages
        self._on_end = on_end
        self._answer: asyncio.Future[dict[str, Any]] = self._loop.create_future()
        self._gone = asyncio.Event()
        self._resting: asyncio.TimerHandle | None = None
        self._groups = cages.make()
        try:
            self._socket, self._pid = _start(self._groups)
            self._watch = _watch(self._pid, self._socket)
        except OSError:
            cages.discard(self._groups)
            raise
        self._loop.add_reader(self._socket, self._hear)
        self._loop.add_reader(self._watch, self._reap)

    def rest(self, seconds: float) -> None:
        """End after so many seconds, unless it is woken before."""
        self._resting = self._loop.call_later(seconds, self.hang_up)

    def wake(self) -> bool:
        """Stay for another run; False if it cannot: it may have died a moment ago."""
        if self._resting is not None:
            self._resting.cancel()
        if self._socket.fileno() < 0:
            return False
        how = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PIDFD, self._watch, how) is None

    def hang_up(self) -> None:
        """Close our end of the socket: the supervisor then ends everything it runs."""
        if self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket)
            self._socket.close()

    async def run(self, vetted: Vetted, stdin: bytes, limits: Limits) -> Finished:
        """Run as Commands.run does; afterwards it can run again if it is `clean` and not `last`."""
        self.answered = self.clean = False
        self._answer = self._loop.create_future()
        late = stdout = stderr = None
        try:
            stdout = _Intake(limits.output_bytes, limits.output_bytes, self._too_much)
            stderr = _Intake(STDERR_KEPT, STDERR_MOST, self._too_much)
            self._tell(vetted, stdin, limits, stdout, stderr)
            # Do the rest while the supervisor works.
            late = self._loop.call_later(limits.seconds + _ANSWER_WITHIN, self._give_up)
            stdout.listen()
            stderr.listen()
            answer = await self._answer
            if not answer:
                answer = {"stuck": await self._end_lost()}
            self.answered = True
            self.last = answer.get("last") is not False
            self.clean = "last" in answer and not answer.get("stuck")
        except OSError as error:
            return _unstarted(f"no supervisor: {error.strerror}")
        finally:
            if late is not None:
                late.cancel()
            for intake in (stdout, stderr):
                if intake is not None:
                    intake.close()
        return Finished(
            code=answer.get("code"),
            stdout=bytes(stdout.taken),
            stderr=bytes(stderr.taken),
            stopped=_flooded(stdout, stderr) or answer.get("stopped"),
            stuck=tuple(answer.get("stuck", ())),
            unstarted=answer.get("unstarted"),
            limits=limits,
        )

    def _hear(self) -> None:
        try:
            answer = json.loads(self._socket.recv(65536))
        except BlockingIOError:
            return
        except (OSError, ValueError):  # a dead supervisor answers nothing
            answer = {}
        if not isinstance(answer, dict):
            answer = {}
        if not self._answer.done():
            self._answer.set_result(answer)
        if not answer:
            self.hang_up()

    def _give_up(self) -> None:
        """End a stopped or stuck supervisor, and take over its descendants."""
        if self._watch >= 0:  # not waited for yet, so this is still its number
            os.kill(self._pid, signal.SIGKILL)

    def _reap(self) -> None:
        self._loop.remove_reader(self._watch)
        os.close(self._watch)
        self._watch = -1
        with suppress(ChildProcessError):
            os.waitpid(self._pid, 0)
        self.hang_up()
        self._bury(0.001)

    def _bury(self, pause: float) -> None:
        """End the processes of a dead supervisor; only then has it ended."""
        if not self._answer.done():
            self._answer.set_result({})
        if not self.clean and self._strays():
            self._loop.call_later(pause, self._bury, min(2 * pause, 0.5))
            return
        self._cages.discard(self._groups)
        self._gone.set()
        self._on_end(self)

    def _strays(self) -> list[int]:
        """Kill and reap all processes in its groups, and all that came to us as the next subreaper.

        Supervisors are in our session. A command never is, nor is any descendant of one. It returns
        all it found, dead by now or not. Only a call that finds none is the last: a dying process
        may leave others while this runs.
        """
        strays = cgroup.kill(self._groups)
        ours = os.getsid(0)
        for pid in supervisor.children(os.getpid()):
            with suppress(OSError):
                if os.getsid(pid) == ours:
                    continue
                below = [pid, *supervisor.descendants(pid)]
                for each in below:
                    with suppress(OSError):
                        os.kill(each, signal.SIGKILL)
                strays += below
                os.waitpid(pid, os.WNOHANG)
        return list(dict.fromkeys(strays))

    async def _end_lost(self) -> list[int]:
        """Clean up after a lost supervisor; return the strays that remain."""
        log.error("supervisor-lost pid=%d", self._pid)
        self._give_up()
        with suppress(TimeoutError):
            async with asyncio.timeout(supervisor.PATIENCE):
                await self._gone.wait()
        return [] if self._gone.is_set() else self._strays()

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

    def _too_much(self) -> None:
        if not self._answer.done():
            with suppress(OSError):
                self._socket.send(b"stop")


class _Intake:
    """The read end of a pipe: keeps the head, drops the rest, complains above `limit`."""

    def __init__(self, keep: int, limit: int, on_over: Callable[[], None]) -> None:
        self.taken = bytearray()
        self.over = False
        self._keep = keep
        self._left = limit
        self._on_over = on_over
        self._loop = asyncio.get_running_loop()
        self._read_end, self.write_end = os.pipe2(os.O_CLOEXEC)

    def listen(self) -> None:
        """Hand the write end to the command, and read its output."""
        os.close(self.write_end)
        self.write_end = -1
        os.set_blocking(self._read_end, False)
        self._loop.add_reader(self._read_end, self._readable)

    def _readable(self) -> bool:
        """Read the available bytes; False at the end, or if there are none now."""
        try:
            chunk = os.read(self._read_end, 65536)
        except BlockingIOError:
            return False
        if not chunk:
            self._loop.remove_reader(self._read_end)
            return False
        self.taken += chunk[: self._keep - len(self.taken)]
        self._left -= len(chunk)
        if self._left < 0 and not self.over:
            self.over = True
            self._on_over()
        return True

    def close(self) -> None:
        """Read the rest of a finished command's output, at most the pipe's size."""
        if self.write_end >= 0:  # no command got the write end
            os.close(self.write_end)
        else:
            for _ in range(64):
                if not self._readable():
                    break
            self._loop.remove_reader(self._read_end)
        os.close(self._read_end)


def _start(groups: dict[str, str]) -> tuple[socket.socket, int]:
    """Start a supervisor process; return our end of its socket, and its number."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
    ours.setblocking(False)
    try:
        return ours, os.posix_spawn(
            sys.executable,
            [sys.executable, "-I", "-S", "-c", _SUPERVISE, os.path.dirname(supervisor.__file__)]
            + [f"{group}={home}" for group, home in groups.items()],
            ENVIRONMENT,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
                (os.POSIX_SPAWN_DUP2, theirs.fileno(), 3),
            ],
            setpgroup=0,  # signals to the runner's group must not hit its supervisors
            setsigmask=(),
            setsigdef=range(1, 32),
        )
    except OSError:
        ours.close()
        raise
    finally:
        theirs.close()


def _watch(pid: int, ours: socket.socket) -> int:
    """Return a descriptor that shows when the process has ended."""
    try:
        return os.pidfd_open(pid)
    except OSError:
        ours.close()
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise


def _in_memory(content: bytes) -> int:
    """Return a read-only descriptor on bytes; the command need not read them."""
    if not content:
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    fd = os.memfd_create("stdin", os.MFD_CLOEXEC)
    try:
        os.write(fd, content)
        return os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.close(fd)


def _flooded(stdout: "_Intake", stderr: "_Intake") -> str:
    """Name the limit that a flood of output has reached; "" without one."""
    return "output" if stdout.over else "stderr" if stderr.over else ""


def _unstarted(why: str) -> Finished:
    return Finished(None, b"", b"", unstarted=why)
