"""The process that runs commands and outlives all their descendants. Standard library only.

`agent.command` starts it with GROUP=HOME... as its arguments and a SEQPACKET socket as descriptor
3. One packet names the command to run (with the program, standard input, output and error as
attached descriptors). It answers with one packet once the command is over or its time is up and
every descendant has ended, or will not end.

It is the subreaper of all of them, so neither setsid nor a double fork escapes it. Where control
groups exist, they count and kill all as one. If the runner goes away, so does everything here.

It is a process of its own because limits (setrlimit) and the role of subreaper belong to a whole
process, and because a child in uninterruptible sleep must not delay others. It serves again only
after a run that left nothing behind, and `RUNS` times at most.
"""

import array
import contextlib
import errno
import gc
import json
import os
import resource
import select
import signal
import socket
import time

GRACE = 2.0  # seconds between SIGTERM and SIGKILL
PATIENCE = 1.0  # seconds after SIGKILL before a descendant is called stuck
RUNS = 64  # a group keeps its commands' writes to a tmpfs: do not use one for ever
_SET_CHILD_SUBREAPER = 36
_LIMITS = {  # of a run: which, and this process's own
    "memory": (resource.RLIMIT_AS, *resource.getrlimit(resource.RLIMIT_AS)),
    "files": (resource.RLIMIT_NOFILE, *resource.getrlimit(resource.RLIMIT_NOFILE)),
}
# File of a group, limit it sets, and this process's own part of it.
_GROUP_LIMITS = (
    ("pids.max", "processes", 1),
    ("memory.max", "memory", 0),
    ("memory.limit_in_bytes", "memory", 0),
)
# File of a group, the counter in it that must not grow during a run, and the limit it is of.
_GROUP_EVENTS = (
    ("pids.events", "max", "processes"),
    ("memory.events", "oom_kill", "memory"),
    ("memory.oom_control", "oom_kill", "memory"),
)
_UNSTARTED = {
    errno.ENOENT: "the interpreter named in its first line does not exist",
    errno.ENOEXEC: "is neither a script with #! nor a program for this machine",
}
_SPARED = -900  # if memory runs out, spare the supervisor; only root can set it
_PLAIN = set(range(1, 32)) - {signal.SIGKILL, signal.SIGSTOP}
_PROGRAM = 3  # the command's own text is here, as /proc/self/fd/3
_STUCK_NAMED = 32  # of possibly very many, so that the answer fits its packet


def main(arguments: list[str]) -> None:
    """Serve the runner until it goes away, or a process remains that does not end."""
    import ctypes  # not for the runner, which imports this module for its numbers

    runner = socket.socket(fileno=3)
    runner.set_inheritable(False)
    # A stopping unit or a terminal signals every process; this one ends with the runner.
    for what in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(what, signal.SIG_IGN)
    os.closerange(4, 65536)
    os.chdir("/")
    os.umask(0o077)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    cage = Cage(dict(pair.split("=", 1) for pair in arguments))
    gc.freeze()
    gc.disable()
    for remaining in reversed(range(RUNS)):
        _oom_score(0)  # the next command inherits it
        request, fds = _receive(runner)
        if request is None:
            break
        outcome = _serve(runner, cage, request, fds)
        last = outcome["last"] = remaining == 0 or bool(cage.emptied)
        with contextlib.suppress(OSError):
            runner.send(json.dumps(outcome).encode())
        if last:
            while _any_left():
                cage.end_all(60.0)
            # Cleaning up now would keep the runner from a processor for 2 to 4 milliseconds, just
            # when our answer woke it: sleep until it has hung up.
            with contextlib.suppress(OSError):
                runner.recv(1)
            break
    cage.remove()


class Request:
    """A request to run a command: its name, environment, time in seconds, and limits by name."""

    def __init__(self, packet: bytes) -> None:
        fields = json.loads(packet)
        self.name: str = fields["name"]
        self.environment: dict[str, str] = fields["environment"]
        self.seconds: float = fields["seconds"]
        self.limits: dict[str, int] = {
            name: fields[name] for name in ("memory", "processes", "files")
        }


class Cage:
    """The control groups, if any, of this process and its commands."""

    def __init__(self, homes: dict[str, str]) -> None:
        self.emptied = False
        self._homes = homes
        self._set: dict[str, int] = {}
        for group in homes:
            _write(f"{group}/cgroup.procs", str(os.getpid()))
        self._limits = [
            (path, name, own)
            for group in homes
            for file, name, own in _GROUP_LIMITS
            if os.path.exists(path := f"{group}/{file}")
        ]
        self._events = [
            (os.open(path, os.O_RDONLY | os.O_CLOEXEC), word.encode(), name)
            for group in homes
            for file, word, name in _GROUP_EVENTS
            if os.path.exists(path := f"{group}/{file}")
        ]
        self._before = self._counts()

    @property
    def counts(self) -> bool:
        """Tell whether the kernel limits the number of processes."""
        return any(path.endswith("/pids.max") for path, _, _ in self._limits)

    def limit(self, limits: dict[str, int]) -> None:
        """Apply the limits of this run; they are mostly those of the last."""
        for path, name, own in self._limits:
            amount = limits[name] + own
            if self._set.get(path) != amount and _write(path, str(amount)):
                self._set[path] = amount

    def exceeded(self) -> str | None:
        """Name the limit reached since the last call, or None."""
        before, self._before = self._before, self._counts()
        counters = zip(self._events, before, self._before, strict=True)
        return next((name for (_, _, name), old, new in counters if new > old), None)

    def _counts(self) -> list[int]:
        return [_count(os.pread(fd, 4096, 0), word) for fd, word, _ in self._events]

    def end_all(self, patience: float) -> None:
        """Kill and reap every descendant, or give up for now after `patience` seconds."""
        deadline = time.monotonic() + patience
        pause = 0.001
        if _any_left() and not self.emptied:
            self.emptied = True
            for group, home in self._homes.items():
                _write(f"{group}/pids.max", "0")  # a fork bomb must not outrun us
                if not _write(f"{home}/cgroup.procs", str(os.getpid())):
                    self._homes = {g: h for g, h in self._homes.items() if g != group}
        while _any_left():
            for group in self._homes:  # this process has left them by now: it survives
                _write(f"{group}/cgroup.kill", "1")
            doomed = descendants()
            _signal(doomed, signal.SIGSTOP)
            _signal(doomed, signal.SIGKILL)
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                return
            time.sleep(min(pause, remaining))
            pause = min(2 * pause, max(0.01, patience / 100))

    def remove(self) -> None:
        """Remove the groups: the runner may be gone."""
        for group, home in self._homes.items():
            _write(f"{home}/cgroup.procs", str(os.getpid()))
            with contextlib.suppress(OSError):
                os.rmdir(group)


def _count(text: bytes, word: bytes) -> int:
    fields = text.split()
    return int(fields[fields.index(word) + 1]) if word in fields else 0


def _receive(runner: socket.socket) -> tuple[Request | None, list[int]]:
    """Wait for a request; anything without descriptors is a "stop" that came too late."""
    fds = array.array("i")
    space = socket.CMSG_LEN(4 * fds.itemsize)
    while not fds:
        data, ancillary, _, _ = runner.recvmsg(65536, space, socket.MSG_CMSG_CLOEXEC)
        if not data:
            return None, []
        for level, kind, content in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                fds.frombytes(content[: len(content) - len(content) % fds.itemsize])
    return Request(data), list(fds)


def _serve(
    runner: socket.socket, cage: Cage, request: Request, fds: list[int]
) -> dict[str, object]:
    """Run one command to its end or its limits; say how it ended."""
    deadline = time.monotonic() + request.seconds
    try:
        child = _start(cage, request, fds)
    except OSError as error:
        return {"unstarted": _UNSTARTED.get(error.errno or 0, error.strerror)}
    finally:
        for fd in fds:
            os.close(fd)
    outcome = _watch(runner, child, request, deadline, counted=cage.counts)
    exceeded = cage.exceeded()  # call it in any case: it also resets the counters for the next run
    outcome["stopped"] = outcome["stopped"] or exceeded
    cage.end_all(PATIENCE)
    outcome["stuck"] = descendants()[:_STUCK_NAMED] if _any_left() else []
    return outcome


def _start(cage: Cage, request: Request, fds: list[int]) -> int:
    """Start the command: no argument, no inherited descriptor, own session, plain signals."""
    program, stdin, stdout, stderr = fds
    actions = [
        (os.POSIX_SPAWN_DUP2, stdin, 0),
        (os.POSIX_SPAWN_DUP2, stdout, 1),
        (os.POSIX_SPAWN_DUP2, stderr, 2),
        (os.POSIX_SPAWN_DUP2, program, _PROGRAM),
    ]
    cage.limit(request.limits)
    try:
        for name, (which, _, hard) in _LIMITS.items():
            limit = request.limits[name]
            if hard != resource.RLIM_INFINITY:
                limit = min(limit, hard)
            resource.setrlimit(which, (limit, hard))  # not every caller could raise `hard` again
        return os.posix_spawn(
            f"/proc/self/fd/{_PROGRAM}",
            [request.name],
            request.environment,
            file_actions=actions,
            setsid=True,
            setsigdef=_PLAIN,
        )
    finally:
        for which, soft, hard in _LIMITS.values():
            resource.setrlimit(which, (soft, hard))
        _oom_score(_SPARED)


def _watch(
    runner: socket.socket, child: int, request: Request, deadline: float, *, counted: bool
) -> dict[str, object]:
    """Wait for the end of the command, of its time, of its quota, or of the runner."""
    watch = os.pidfd_open(child)
    poll = select.poll()
    poll.register(watch, select.POLLIN)
    poll.register(runner, select.POLLIN | select.POLLHUP)
    stopped = None
    while True:
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            stopped = "time"
            break
        ready = {fd for fd, _ in poll.poll(1000 * min(remaining, 1.0 if counted else 0.1))}
        if watch in ready:
            break
        if runner.fileno() in ready:
            stopped = _asked(runner)
            break
        _reap_orphans(child)  # the dead count as processes, too
        if not counted and len(descendants()) > request.limits["processes"]:
            stopped = "processes"
            break
    if stopped in ("time", "asked"):
        _signal([child], signal.SIGTERM, group=True)
        select.select([watch], [], [], GRACE)
    os.close(watch)
    ended = os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    if ended is None:
        return {"code": None, "stopped": stopped}
    exited = ended.si_code == os.CLD_EXITED
    code = ended.si_status if exited else -ended.si_status
    return {"code": code, "stopped": stopped}


def _asked(runner: socket.socket) -> str:
    try:
        return "asked" if runner.recv(64) else "runner"
    except OSError:
        return "runner"


def _reap_orphans(child: int) -> None:
    for pid in children(os.getpid()):
        if pid != child:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)


def _any_left() -> bool:
    """Reap the dead; a subreaper has children as long as it has descendants."""
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return False
        if pid == 0:
            return True


def descendants(of: int = 0) -> list[int]:
    """List all processes below this one, or below another; a parent comes before its children."""
    pids: list[int] = []
    todo = [of or os.getpid()]
    while todo:
        below = children(todo.pop())
        pids += below
        todo += below
    return pids


def children(pid: int) -> list[int]:
    """List the processes whose parent is `pid`, as far as they hold still."""
    pids: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children") as file:
                pids += map(int, file.read().split())
    except OSError:
        pass  # gone meanwhile; its children are now ours, and the next pass finds them
    return pids


def _signal(pids: list[int], what: signal.Signals, *, group: bool = False) -> None:
    for pid in pids:
        try:
            os.killpg(pid, what) if group else os.kill(pid, what)
        except OSError:
            continue


def _oom_score(adjustment: int) -> None:
    _write("/proc/self/oom_score_adj", str(adjustment))


def _write(path: str, text: str) -> bool:
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(fd, text.encode())
        finally:
            os.close(fd)
    except OSError:
        return False
    return True


# So a runner of 0.2.0 starts it: on an upgrade it first lets a repair end, and diagnoses meanwhile.
if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
    os._exit(0)
