"""A real agent for attacks and benches: runner and front as processes of their own, on loopback."""

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from nodeagent.web.tls import untrusting_tls
from tests.agent.place import Place, safe_folder
from tests.patience import PATIENCE, until
from tests.ports import free_port

_START = """
import functools, os, sys
from nodeagent.agent.daemon import run_{half}
from nodeagent.agent.whitelist import Owner
from nodeagent.settings import load
read = functools.partial(load, sys.argv[1], owner=os.getuid())
run_{half}(read{more})
"""
_OWNER = ", Owner(os.getuid(), os.getgid())"


@dataclass
class Agent:
    """One running agent and where it lives."""

    place: Place
    address: str
    port: int
    tls: bool = False
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, half: str) -> None:
        """Start `runner` or `front`, as the packages do; it writes its log beside its settings."""
        text = _START.format(half=half, more=_OWNER if half == "runner" else "")
        command = [sys.executable, "-c", text, self.place.config]
        if os.getuid() == 0:
            main = str(Path(__file__).parents[2] / "nodeagent" / "agent" / "__main__.py")
            command = [sys.executable, "-I", main, half, self.place.config]
        with open(self.log_file(half), "ab") as log:
            self.processes[half] = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=Path(__file__).parents[2],
            )

    def stop(self, half: str, *, kill: bool = False) -> None:
        process = self.processes.pop(half)
        process.kill() if kill else process.terminate()
        process.wait(PATIENCE)

    def pid(self, half: str) -> int:
        return self.processes[half].pid

    def log_file(self, half: str) -> Path:
        return self.place.folder / f"{half}.log"

    def log(self, half: str) -> str:
        return self.log_file(half).read_text()

    def connect(self, seconds: float = PATIENCE, source: str | None = None) -> socket.socket:
        """A connected socket, with TLS where the front speaks it."""
        bound = (source, 0) if source else None
        plain = socket.create_connection((self.address, self.port), seconds, bound)
        if not self.tls:
            return plain
        return untrusting_tls().wrap_socket(plain)

    def send(self, raw: bytes, seconds: float = PATIENCE) -> "Raw":
        """Send bytes as they are; return all that comes back until the other side closes."""
        with self.connect(seconds) as connection:
            with suppress(BrokenPipeError, ConnectionResetError):
                connection.sendall(raw)
            return Raw(read_all(connection))

    def get(self, target: str, seconds: float = PATIENCE) -> "Raw":
        return self.send(f"GET {target} HTTP/1.1\r\nHost: x\r\n\r\n".encode(), seconds)

    def post(self, target: str, body: bytes, kind: str = "application/json") -> "Raw":
        head = f"POST {target} HTTP/1.1\r\nHost: x\r\nContent-Type: {kind}\r\n"
        return self.send(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)


@dataclass(frozen=True)
class Raw:
    """What came back, byte for byte."""

    text: bytes

    @property
    def status(self) -> int:
        """The status, or 0 where the connection was closed without an answer."""
        return int(self.text.split(b" ", 2)[1]) if self.text.startswith(b"HTTP/1.1 ") else 0

    @property
    def head(self) -> bytes:
        return self.text.partition(b"\r\n\r\n")[0]

    @property
    def body(self) -> bytes:
        return self.text.partition(b"\r\n\r\n")[2]


def read_all(connection: socket.socket) -> bytes:
    parts = []
    with suppress(ConnectionResetError):
        while part := connection.recv(65536):
            parts.append(part)
    return b"".join(parts)


@contextmanager
def agent(
    address: str = "127.0.0.1",
    port: int = 0,
    *,
    tls: bool = False,
    commands: str = "",
    scripts: dict[str, str] | None = None,
    more: str = "",
) -> Iterator[Agent]:
    """Run a whole agent until the end of the block; `scripts` are `diagnose/x` or `repair/y`."""
    with safe_folder() as folder:
        port = port or free_port(address)
        place = Place(folder, address, port)
        for path, text in (scripts or {}).items():
            kind, _, name = path.partition("/")
            place.command(kind, name, text)
        place.settings(address, port, commands, more)
        config = Path(place.config)
        listen = f"[listen]\ntls = {'true' if tls else 'false'}\n"
        config.write_text(config.read_text().replace("[listen]\n", listen))
        running = Agent(place, address, port, tls)
        try:
            running.start("runner")
            running.start("front")
            wait_for(lambda: running.get("/readyz", 5).status == 200, running)
            yield running
        finally:
            for half in list(running.processes):
                running.stop(half)


def wait_for(true: Callable[[], object], running: Agent) -> None:
    """Wait until `true()`; an agent that has ended says why."""

    def is_true() -> bool:
        with suppress(OSError):
            if true():
                return True
        for half, process in running.processes.items():
            assert process.poll() is None, f"{half} ended: {running.log(half)}"
        return False

    until(is_true, lambda: {half: running.log(half) for half in running.processes})


def resident(pid: int) -> int:
    """Resident memory of a process, in bytes."""
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
