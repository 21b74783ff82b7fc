"""A crowd of slow readers before a maintd in a process of its own.

`python -m tests.bench.crowd NODES` is that maintd: its port, once a round was held.
"""

import asyncio
import json
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from nodeagent.web.tls import untrusting_tls
from tests.web.live import read_all

MIB = 2**20
SMALL, LARGE = "/healthz", "/1/nodes"
_SOURCES = 16  # addresses that the crowd comes from
_BITE = 32 * 1024  # bytes that each reads about once a second: more than the least it must


@dataclass
class Target:
    """One running maintd."""

    process: subprocess.Popen[str]
    port: int

    def connect(self, source: str) -> ssl.SSLSocket:
        address = ("127.0.0.1", self.port)
        return untrusting_tls().wrap_socket(socket.create_connection(address, 10, (source, 0)))

    def get(self, target: str, source: str = "127.0.0.200", headers: str = "") -> bytes:
        with self.connect(source) as connection:
            connection.sendall(f"GET {target} HTTP/1.1\r\nHost: x\r\n{headers}\r\n".encode())
            return read_all(connection)

    def seconds(self, target: str) -> float:
        """How long a newcomer waits for the end of its answer; it is 200."""
        began = time.monotonic()
        assert self.get(target).startswith(b"HTTP/1.1 200 ")
        return time.monotonic() - began

    def memory(self) -> tuple[int, int]:
        """Resident memory in bytes, now and at most."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        lines = dict(line.split(":", 1) for line in text.splitlines())
        return tuple(int(lines[name].split()[0]) * 1024 for name in ("VmRSS", "VmHWM"))  # type: ignore[return-value]


@contextmanager
def target(nodes: int) -> Iterator[Target]:
    """A maintd of so many nodes."""
    command = [sys.executable, "-m", "tests.bench.crowd", str(nodes)]
    root = Path(__file__).parents[2]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root)
    try:
        assert process.stdout is not None
        yield Target(process, json.loads(process.stdout.readline()))
    finally:
        process.terminate()
        process.wait(20)


@dataclass
class Crowd:
    """Readers of one large answer, each of which reads a bite a second."""

    target: Target
    readers: list[ssl.SSLSocket] = field(default_factory=list)

    def gather(self, many: int) -> None:
        """So many ask, and begin to read."""
        for number in range(many):
            with suppress(OSError):
                one = self.target.connect(f"127.0.0.{10 + number % _SOURCES}")
                one.sendall(f"GET {LARGE} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
                one.setblocking(False)
                self.readers.append(one)

    def nibble(self) -> int:
        """Read a bite of each; the number of those that are still served."""
        for one in list(self.readers):
            left = _BITE
            try:
                while left > 0 and (came := len(one.recv(left))):
                    left -= came
                if left <= 0:
                    continue
            except (ssl.SSLWantReadError, BlockingIOError):
                continue
            except OSError:
                pass
            one.close()
            self.readers.remove(one)
        return len(self.readers)


@contextmanager
def crowd(at: Target, many: int) -> Iterator[Crowd]:
    """So many readers, who read on in the background until the end of the block."""
    found, over = Crowd(at), threading.Event()

    def read_on() -> None:
        while not over.wait(1):
            found.nibble()

    thread = threading.Thread(target=read_on)
    thread.start()
    try:
        found.gather(many)
        yield found
    finally:
        over.set()
        thread.join()
        for one in found.readers:
            one.close()


async def _serve(nodes: int) -> None:
    from nodeagent.maintd.engine.daemon import Maintd
    from nodeagent.maintd.engine.settings import HttpSettings
    from nodeagent.maintd.http.listen import listening
    from nodeagent.maintd.http.routes import Api
    from nodeagent.service import on_signals
    from tests.maintd.rig import Rig, fleet

    rig, stop = Rig(fleet(nodes)), asyncio.Event()
    on_signals(stop)
    maintd = Maintd(rig.engine, rig.store, 3600.0, rig.now)
    with tempfile.TemporaryDirectory() as folder:
        api = Api(maintd, f"{folder}/users")
        running = asyncio.create_task(maintd.run(stop))
        while not maintd.rounds:
            await asyncio.sleep(0.01)
        async with listening(api, f"{folder}/admin", ["127.0.0.1"], HttpSettings(port=0)) as port:
            print(port, flush=True)
            await stop.wait()
        await running


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1])))
