"""The process that runs one command and outlives all of its descendants. Standard library only.

Started ahead of time by `agent.command`, once for each run, as
`python -I -S supervisor.py GROUP=HOME...` with a SEQPACKET socket as descriptor 3. It is told
what to run in one packet (with the program, standard input, output and error as attached
descriptors), answers with one packet as soon as the command is over or its time is up, and
exits only when no descendant is left. It is the subreaper of all of them, so neither setsid
nor a double fork leads out of its care; where control groups can be had they are counted
and killed as one. If the runner goes away, so does everything here.

A process of its own, because limits (setrlimit) and the role of subreaper belong to a whole
process, and because a child in uninterruptible sleep must hold up nobody else.
"""

import array
import contextlib
import ctypes
import json
import os
import resource
import select
import signal
import socket
import sys
import time
from typing import Any

GRACE = 2.0  # seconds between SIGTERM and SIGKILL
PATIENCE = 1.0  # seconds after SIGKILL before a descendant is called stuck
_SET_CHILD_SUBREAPER = 36
_LIMITS = {
    "memory": resource.RLIMIT_AS,
    "files": resource.RLIMIT_NOFILE,
}
_GROUP_LIMITS = {
    "pids.max": "processes",
    "memory.max": "memory",
    "memory.limit_in_bytes": "memory",
}
_PLAIN = set(range(1, 32)) - {signal.SIGKILL, signal.SIGSTOP}
_PROGRAM = 3  # where the command finds its own text, as /proc/self/fd/3


def main(arguments: list[str]) -> None:
    """Wait for one packet, run what it says, report, and clean up."""
    homes = dict(pair.split("=", 1) for pair in arguments)
    groups = list(homes)
    os.closerange(4, 1024)
    # Entering a group may take the kernel milliseconds: done while nobody waits for us.
    for group in groups:
        _write(f"{group}/cgroup.procs", str(os.getpid()))
    limits = [
        (path, name)
        for group in groups
        for file, name in _GROUP_LIMITS.items()
        if os.path.exists(path := f"{group}/{file}")
    ]
    runner = socket.socket(fileno=3)
    runner.set_inheritable(False)
    os.chdir("/")
    os.umask(0o077)
    ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    counted = any(path.endswith("/pids.max") for path, _ in limits)
    wish, fds = _receive(runner)
    if wish is None:
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for name, which in _LIMITS.items():
        resource.setrlimit(which, (wish[name], wish[name]))
    for path, name in limits:
        _write(path, str(wish[name]))
    try:
        child = _start(wish, fds)
    except OSError as error:
        runner.send(json.dumps({"unstarted": error.strerror}).encode())
        return
    finally:
        for fd in fds:
            os.close(fd)
    _write("/proc/self/oom_score_adj", "-900")  # should memory run out, not the keeper
    outcome = _watch(runner, child, wish, groups if counted else [])
    stuck = _end_all(homes, PATIENCE)
    outcome["stuck"] = stuck
    with contextlib.suppress(OSError):
        runner.send(json.dumps(outcome).encode())
    while stuck:
        stuck = _end_all(homes, 5.0)
    # The runner was woken by our answer, perhaps on this very processor: sleep until it has
    # read it. Tidying up first would cost it 2 to 4 milliseconds a run.
    with contextlib.suppress(OSError):
        runner.recv(1)


def _receive(runner: socket.socket) -> tuple[Any, list[int]]:
    fds = array.array("i")
    space = socket.CMSG_LEN(4 * fds.itemsize)
    data, ancillary, _, _ = runner.recvmsg(65536, space, socket.MSG_CMSG_CLOEXEC)
    if not data:
        return None, []
    for level, kind, content in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            fds.frombytes(content[: len(content) - len(content) % fds.itemsize])
    return json.loads(data), list(fds)


def _start(wish: dict[str, Any], fds: list[int]) -> int:
    """Start the command: no argument, no inherited descriptor, own session, plain signals."""
    program, stdin, stdout, stderr = fds
    actions = [
        (os.POSIX_SPAWN_DUP2, stdin, 0),
        (os.POSIX_SPAWN_DUP2, stdout, 1),
        (os.POSIX_SPAWN_DUP2, stderr, 2),
        (os.POSIX_SPAWN_DUP2, program, _PROGRAM),
    ]
    return os.posix_spawn(
        f"/proc/self/fd/{_PROGRAM}",
        [wish["name"]],
        wish["environment"],
        file_actions=actions,
        setsid=True,
        setsigmask=(),
        setsigdef=_PLAIN,
    )


def _watch(
    runner: socket.socket, child: int, wish: dict[str, Any], counted: list[str]
) -> dict[str, Any]:
    """Wait for the end of the command, of its time, of its quota, or of the runner."""
    deadline = time.monotonic() + wish["seconds"]
    watch = os.pidfd_open(child)
    poll = select.poll()
    poll.register(watch, select.POLLIN)
    poll.register(runner, select.POLLIN | select.POLLHUP)
    stopped = None
    while True:
        left = deadline - time.monotonic()
        if left <= 0:
            stopped = "time"
            break
        ready = {fd for fd, _ in poll.poll(1000 * (left if counted else min(left, 0.1)))}
        if watch in ready:
            break
        if runner.fileno() in ready:
            stopped = _asked(runner)
            break
        if not counted and len(_descendants()) > wish["processes"]:
            stopped = "processes"
            break
    if stopped is None and _refused_forks(counted):
        stopped = "processes"
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


def _refused_forks(groups: list[str]) -> bool:
    for group in groups:
        try:
            with open(f"{group}/pids.events") as events:
                if events.read().split()[1:2] not in ([], ["0"]):
                    return True
        except OSError:
            continue
    return False


def _end_all(homes: dict[str, str], patience: float) -> list[int]:
    """Kill and reap every descendant; return those that would not die within `patience`."""
    deadline = time.monotonic() + patience
    if _any_left():
        for home in homes.values():  # killing the group shall not kill its keeper
            _write(f"{home}/cgroup.procs", str(os.getpid()))
    while _any_left():
        for group in homes:
            _write(f"{group}/cgroup.kill", "1")
        doomed = _descendants()
        _signal(doomed, signal.SIGSTOP)
        _signal(doomed, signal.SIGKILL)
        left = deadline - time.monotonic()
        if left <= 0:
            return _descendants()
        time.sleep(min(0.002, left))
    return []


def _any_left() -> bool:
    """Reap the dead; as their subreaper we have children for as long as we have descendants."""
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return False
        if pid == 0:
            return True


def _descendants() -> list[int]:
    """All processes below this one."""
    found: list[int] = []
    todo = [os.getpid()]
    while todo:
        children = _children(todo.pop())
        found += children
        todo += children
    return found


def _children(pid: int) -> list[int]:
    children: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children") as file:
                children += map(int, file.read().split())
    except OSError:
        pass  # gone meanwhile; what it had is now ours and found in the next pass
    return children


def _signal(pids: list[int], what: signal.Signals, *, group: bool = False) -> None:
    for pid in pids:
        try:
            os.killpg(pid, what) if group else os.kill(pid, what)
        except OSError:
            continue


def _write(path: str, text: str) -> bool:
    try:
        with open(path, "w") as file:
            file.write(text)
    except OSError:
        return False
    return True


if __name__ == "__main__":
    main(sys.argv[1:])
    os._exit(0)
