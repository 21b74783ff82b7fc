"""Machines for a torture test: network namespaces on one bridge, whose links are cut and mended.

A cut poisons the sender's entry for the other's address, so that its packets go to nobody and it
gets no answer and no error, as beyond a broken switch. It needs no firewall in the kernel.
"""

import ctypes
import os
import subprocess
import threading
from collections.abc import Callable, Collection, Sequence
from typing import TypeVar

NET = "10.99.0."
_NOBODY = "02:00:00:00:00:ff"
_NEW_NET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)
T = TypeVar("T")


class Ground:
    """Namespaces by name, with addresses in the order of their names."""

    def __init__(self, names: Sequence[str]) -> None:
        self.address = {name: f"{NET}{at}" for at, name in enumerate(names, 1)}
        self._prefix = f"nt{os.getpid()}-"
        self._cut: set[tuple[str, str]] = set()
        self._made: list[str] = []

    def up(self) -> None:
        switch = self._make("switch")
        _ip(f"-n {switch} link add br0 type bridge", f"-n {switch} link set br0 up")
        for name, address in self.address.items():
            space = self._make(name)
            _ip(
                f"-n {space} link add eth0 type veth peer name {name} netns {switch}",
                f"-n {switch} link set {name} master br0 up",
                f"-n {space} addr add {address}/24 dev eth0",
                f"-n {space} link set eth0 up",
                f"-n {space} link set lo up",
            )

    def down(self) -> None:
        """Remove all; processes are the caller's to end first."""
        for space in self._made:
            subprocess.run(["ip", "netns", "del", space], check=False)

    def command(self, name: str, command: Sequence[str]) -> list[str]:
        """Return the command that runs this one on a machine, as the same process."""
        return ["ip", "netns", "exec", f"{self._prefix}{name}", *command]

    def inside(self, name: str, work: Callable[[], T]) -> T:
        """Do it in a thread of its own on a machine; what it opens stays there."""
        found: list[T] = []
        failed: list[BaseException] = []

        def run() -> None:
            try:
                self.enter(name)
                found.append(work())
            except BaseException as error:
                failed.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        if failed:
            raise failed[0]
        return found[0]

    def enter(self, name: str) -> None:
        """Put this thread on a machine, for good."""
        with open(f"/run/netns/{self._prefix}{name}") as space:
            if _libc.setns(space.fileno(), _NEW_NET):
                raise OSError(ctypes.get_errno(), "setns")

    # Cuts.

    def deaf(self, names: Collection[str], to: Collection[str]) -> None:
        """Let these not hear those others; the others hear them."""
        self._change({(other, name) for name in names for other in to if other != name})

    def cut(self, names: Collection[str], others: Collection[str] | None = None) -> None:
        """Let these and those others (default: all others) not hear each other."""
        if others is None:
            others = self.address.keys() - set(names)
        self.deaf(names, others)
        self.deaf(others, names)

    def heal(self) -> None:
        gone, self._cut = self._cut, set()
        _at_once(*(f"-n {self._prefix}{one} neigh del {self._of(other)}" for one, other in gone))

    def _change(self, pairs: set[tuple[str, str]]) -> None:
        fresh = pairs - self._cut
        self._cut |= fresh
        dead = f"lladdr {_NOBODY} nud permanent"
        _at_once(
            *(
                f"-n {self._prefix}{one} neigh replace {self._of(other)} {dead}"
                for one, other in fresh
            )
        )

    def _of(self, name: str) -> str:
        return f"{self.address[name]} dev eth0"

    def _make(self, name: str) -> str:
        space = f"{self._prefix}{name}"
        _ip(f"netns add {space}")
        self._made.append(space)
        return space


def _ip(*lines: str) -> None:
    for line in lines:
        _at_once(line)


def _at_once(*lines: str) -> None:
    """Run these beside each other: a cut of many links is one cut."""
    running = [
        subprocess.Popen(["ip", *line.split()], stderr=subprocess.PIPE, text=True) for line in lines
    ]
    for line, process in zip(lines, running, strict=True):
        _, said = process.communicate()
        assert process.returncode == 0, (line, said)
