"""Control groups that count, limit and kill commands, where the system has them.

Under systemd the runner's unit has `Delegate=yes` and groups of version 2; elsewhere version 1
(pids, memory) is used. Without any, the supervisor counts by itself and limits by setrlimit: a
group is a stronger guard, not a condition.
"""

import itertools
import logging
import os
import re
import signal
from collections.abc import Iterable
from contextlib import suppress

log = logging.getLogger(__name__)
_CONTROLLERS = ("pids", "memory")
_OURS = re.compile(r"nodeagent-([0-9]+)-[0-9]+")
_count = itertools.count(1)


class Cages:
    """Makes the groups, a set for each supervisor; one object for the life of the runner.

    `homes` are (kind, folder to make groups in, group to return to); by default it finds them.
    """

    def __init__(self, homes: list[tuple[str, str, str]] | None = None) -> None:
        self._homes = _usable_homes() if homes is None else homes
        self._litter = [group for _, base, _ in self._homes for group in _abandoned(base)]
        self.tidy()

    @property
    def kind(self) -> str:
        """Name the available kinds, for the log: e.g. `v2`, `v1 pids`, `none`."""
        return ", ".join(sorted(kind for kind, _, _ in self._homes)) or "none"

    def make(self) -> dict[str, str]:
        """Make fresh groups; return each with the group to leave them for."""
        made: dict[str, str] = {}
        number = next(_count)
        for _, base, home in self._homes:
            group = f"{base}/nodeagent-{os.getpid()}-{number}"
            try:
                # Numbers are not used twice: an existing group is from an earlier process with our
                # pid.
                os.makedirs(group, exist_ok=True)
            except OSError as error:
                log.warning("cgroup-unmade group=%s why=%r", group, error.strerror)
            else:
                made[group] = home
        return made

    def discard(self, groups: dict[str, str]) -> None:
        """Remove groups whose run is over; retry busy ones later."""
        self._litter += groups
        self.tidy()

    def tidy(self) -> None:
        self._litter = [group for group in self._litter if not _removed(group)]


def kill(groups: Iterable[str]) -> list[int]:
    """Kill every process in these groups; name those that had not ended yet."""
    pids: list[int] = []
    for group in groups:
        with suppress(OSError), open(f"{group}/cgroup.kill", "w") as file:
            file.write("1")
        with suppress(OSError), open(f"{group}/cgroup.procs") as file:
            # A process of another name space is listed as 0, which kill() takes for all of us.
            pids += [pid for pid in map(int, file.read().split()) if pid > 0]
    for pid in pids:
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    return pids


def _abandoned(base: str) -> list[str]:
    """List groups of killed runners, which could not remove them."""
    with suppress(OSError):
        return [
            f"{base}/{name}"
            for name in os.listdir(base)
            if (match := _OURS.fullmatch(name)) and not os.path.exists(f"/proc/{match[1]}")
        ]
    return []


def _removed(group: str) -> bool:
    try:
        os.rmdir(group)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _usable_homes() -> list[tuple[str, str, str]]:
    """Find (kind, folder to make groups in, own group) for every hierarchy we may write."""
    mounts = _mounts()
    homes: list[tuple[str, str, str]] = []
    try:
        with open("/proc/self/cgroup") as file:
            lines = file.read().splitlines()
    except OSError:
        return []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        names = controllers.split(",")
        kind = "v2" if not controllers else next((c for c in _CONTROLLERS if c in names), "")
        if not kind or kind not in mounts:
            continue
        base = mounts[kind] + path.rstrip("/")
        if not os.access(base, os.W_OK):
            continue
        if kind == "v2":
            homes.append((kind, base, _own_leaf(base)))
        else:
            homes.append((f"v1 {kind}", base, base))
    return homes


def _own_leaf(base: str) -> str:
    """Move into a leaf, so that controllers can be switched on for our future siblings.

    A group of version 2 holds either processes or limited children. In the root group, or if the
    kernel refuses the move, we stay: then commands are still killed as a group.
    """
    wanted = " ".join(f"+{name}" for name in _CONTROLLERS)
    try:
        with open(f"{base}/cgroup.controllers") as file:
            if not set(_CONTROLLERS) <= set(file.read().split()):
                return base
        if not os.path.exists(f"{base}/cgroup.type"):  # the root of the hierarchy
            return base
        leaf = f"{base}/runner"
        os.makedirs(leaf, exist_ok=True)
        with open(f"{leaf}/cgroup.procs", "w") as file:
            file.write(str(os.getpid()))
        with open(f"{base}/cgroup.subtree_control", "w") as file:
            file.write(wanted)
    except OSError as error:
        log.warning("cgroup-without-limits base=%s why=%r", base, error.strerror)
        return base
    return leaf


def _mounts() -> dict[str, str]:
    """Find the mount point of each hierarchy: `v2`, `pids`, `memory`."""
    mounts: dict[str, str] = {}
    try:
        # Names of mount points may have any bytes; the kernel escapes only blanks and line feeds.
        with open("/proc/self/mountinfo", errors="surrogateescape", newline="\n") as file:
            lines = list(file)
    except OSError:
        return {}
    for line in lines:
        before, _, after = line.partition(" - ")
        kind, _, options = [*after.split(), "", "", ""][:3]
        place = before.split(" ")[4]
        if kind == "cgroup2":
            mounts.setdefault("v2", place)
        elif kind == "cgroup":
            for name in _CONTROLLERS:
                if name in options.split(","):
                    mounts.setdefault(name, place)
    return mounts
