"""A real folder that commands may lie in, what tests put there, and how they run it."""

import asyncio
import os
import struct
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from nodeagent.agent import supervisor
from nodeagent.agent.cgroup import Cages
from nodeagent.agent.command import Commands
from nodeagent.agent.run import Finished, Limits
from nodeagent.agent.whitelist import Found, Owner, Refused, Vetted, look_up
from tests.agent.place import safe_folder
from tests.patience import PATIENCE, until

OWNER = Owner(os.geteuid(), os.getegid())
NOBODY = 65534

GOOD = "#!/bin/sh\necho GOOD\n"
EVIL = "#!/bin/sh\necho EVIL\n"


@contextmanager
def trusted_folder() -> Iterator[Path]:
    """A fresh folder whose whole chain passes; /tmp, which anybody may write, never does."""
    with safe_folder() as place:
        place.chmod(0o755)
        yield place


def put(folder: Path, name: str, text: str | bytes = GOOD, mode: int = 0o755) -> Path:
    """Put a file there, complete and with exactly this mode."""
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    path.chmod(mode)
    return path


def find(folder: Path, name: str = "tool", *links: Path) -> Found:
    """Look a command up as whoever runs the tests."""
    return look_up(str(folder), name, owner=OWNER, link_folders=[str(link) for link in links])


def vetted(folder: Path, name: str = "tool") -> Vetted:
    """Look up what must pass."""
    found = find(folder, name)
    assert isinstance(found, Vetted), found
    return found


def refusal(folder: Path, name: str = "tool", *links: Path) -> str:
    """Look up what must be refused; return the reason."""
    found = find(folder, name, *links)
    assert isinstance(found, Refused), f"{name!r} passed"
    return found.why


def text_of(found: Vetted) -> bytes:
    """Read what would be executed, and let go of it."""
    with found:
        return os.pread(found.fd, 64 * 1024 * 1024, 0)


def run(
    folder: Path,
    name: str = "tool",
    stdin: bytes = b"",
    limits: Limits | None = None,
    cages: Cages | None = None,
) -> Finished:
    """Look a command up and run it by a runner of its own."""

    async def once() -> Finished:
        commands = Commands(rest=0, cages=cages)
        with vetted(folder, name) as command:
            ran = await commands.run(command, stdin, limits or Limits(seconds=PATIENCE))
        await commands.close()
        assert isinstance(ran, Finished)
        return ran

    return asyncio.run(once())


def run_text(folder: Path, text: str | bytes, limits: Limits | None = None) -> Finished:
    """Put a script there and run it."""
    put(folder, "tool", text)
    return run(folder, limits=limits)


class Marked:
    """A word on the command line by which processes are found, wherever they have gone."""

    def __init__(self) -> None:
        self.seconds = f"300.{uuid.uuid4().int % 10**12:012}"

    def pids(self) -> list[int]:
        """Who has it and still lives."""
        found = []
        for entry in os.listdir("/proc"):
            with suppress(OSError):
                if entry.isdigit() and self.seconds.encode() in _read(f"/proc/{entry}/cmdline"):
                    found.append(int(entry))
        return found

    def wait(self, wanted: int) -> list[int]:
        """Wait until so many live; return them."""
        until(lambda: len(self.pids()) == wanted, self.pids)
        return self.pids()

    def kill(self) -> None:
        """Clean up after a control that shows the attack."""
        for pid in self.pids():
            with suppress(ProcessLookupError):
                os.kill(pid, 9)


@contextmanager
def marked() -> Iterator[Marked]:
    """A mark none of whose bearers outlives the test."""
    mark = Marked()
    try:
        yield mark
    finally:
        mark.kill()


@contextmanager
def attacker(code: str, *arguments: object) -> Iterator[None]:
    """Another process that runs Python code over and over; it has begun when this is entered.

    It ends by itself when the tests were killed.
    """
    text = f"{_ATTACKER}\nprint(flush=True)\nwhile wanted():\n{_indented(code)}"
    process = subprocess.Popen(
        [sys.executable, "-S", "-c", text, *map(str, arguments)], stdout=subprocess.PIPE
    )
    assert process.stdout
    try:
        process.stdout.readline()
        yield
        assert process.poll() is None, "the attacker gave up"
    finally:
        process.kill()
        process.communicate()


_ATTACKER = """
import ctypes, os, random, sys, time
def dawdle():
    if random.random() < 0.3:
        time.sleep(random.random() * 0.001)
_rename = ctypes.CDLL(None).renameat2
def exchange(a, b):
    _rename(-100, a.encode(), -100, b.encode(), 2)
ARGS, PARENT = sys.argv[1:], os.getppid()
def wanted():
    return os.getppid() == PARENT
"""


def access_list(user: int, rights: int) -> bytes:
    """A POSIX access control list in the kernel's form: one more user, and its mask."""
    entries = [(1, 7, -1), (2, rights, user), (4, 5, -1), (16, rights | 5, -1), (32, 5, -1)]
    rows = [struct.pack("<HHI", tag, perm, who & 0xFFFFFFFF) for tag, perm, who in entries]
    return struct.pack("<I", 2) + b"".join(rows)


_BEFORE: set[int] = set()


def begin() -> None:
    """Take note of the children that earlier tests have left to this process.

    Whoever ran a runner in this process has made it a subreaper, for good.
    """
    _BEFORE.clear()
    _BEFORE.update(supervisor.children(os.getpid()))


def new_children() -> list[int]:
    """Children of this process, alive or zombies, that it has got since `begin`."""
    return [pid for pid in supervisor.children(os.getpid()) if pid not in _BEFORE]


def groups() -> set[str]:
    """Control groups of this process's runs that exist now."""
    found = set()
    for _, base, _ in Cages()._homes:
        names = [name for name in os.listdir(base) if name.startswith(f"nodeagent-{os.getpid()}-")]
        found |= {f"{base}/{name}" for name in names}
    return found


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _indented(code: str) -> str:
    return "".join(f"    {line}\n" for line in code.strip().splitlines())
