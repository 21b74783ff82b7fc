"""Control groups in which commands are counted, limited and killed, where they can be had.

Under systemd the runner's unit has `Delegate=yes` and groups of version 2; elsewhere
version 1 (pids, memory) is used. Without any, the supervisor counts by itself and limits by
setrlimit, so a group is a stronger guard but never a condition.
"""

import itertools
import logging
import os
from contextlib import suppress

log = logging.getLogger(__name__)
_CONTROLLERS = ("pids", "memory")


class Cages:
    """Makes the groups for one run at a time; one object for the life of the runner."""

    def __init__(self) -> None:
        self._homes = _usable_homes()
        self._count = itertools.count(1)
        self._litter: list[str] = []

    @property
    def kind(self) -> str:
        """What is available, for the log: e.g. `v2`, `v1 pids`, `none`."""
        return ", ".join(sorted(kind for kind, _, _ in self._homes)) or "none"

    def make(self) -> dict[str, str]:
        """Make fresh groups; return each with the group to return to after the start."""
        self.tidy()
        made: dict[str, str] = {}
        number = next(self._count)
        for _, base, home in self._homes:
            group = f"{base}/nodeagent-{os.getpid()}-{number}"
            with suppress(OSError):
                os.mkdir(group)
                made[group] = home
        return made

    def discard(self, groups: dict[str, str]) -> None:
        """Remove groups whose run is over; what is still busy is retried later."""
        self._litter += groups
        self.tidy()

    def tidy(self) -> None:
        """Remove what can be removed by now."""
        self._litter = [group for group in self._litter if not _removed(group)]

    def close(self) -> None:
        """Remove what is left, at the end of the runner."""
        self.tidy()


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
    found: list[tuple[str, str, str]] = []
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
            found.append((kind, base, _own_leaf(base)))
        else:
            found.append((f"v1 {kind}", base, base))
    return found


def _own_leaf(base: str) -> str:
    """Move into a leaf, so that controllers can be switched on for our siblings-to-be.

    A group of version 2 holds either processes or limited children. In the root group, and
    where moving is refused, we stay: then commands are still killed as a group.
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
    """Where each hierarchy is mounted: `v2`, `pids`, `memory`."""
    found: dict[str, str] = {}
    try:
        with open("/proc/self/mountinfo") as file:
            lines = file.read().splitlines()
    except OSError:
        return {}
    for line in lines:
        before, _, after = line.partition(" - ")
        kind, _, options = [*after.split(), "", "", ""][:3]
        place = before.split()[4]
        if kind == "cgroup2":
            found.setdefault("v2", place)
        elif kind == "cgroup":
            for name in _CONTROLLERS:
                if name in options.split(","):
                    found.setdefault(name, place)
    return found
