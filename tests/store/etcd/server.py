"""A real etcd on loopback ports of its own, quick and not durable; `needed` skips where none is."""

import atexit
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import urllib.request
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from tests import needs
from tests.patience import PATIENCE, until

needed = needs.mark("etcd")
_QUIET = {"ETCD_LOGGER": "zap", "ETCD_LOG_OUTPUTS": "stderr", "ETCD_LOG_LEVEL": "error"}


def free_ports(many: int) -> list[int]:
    """Ports of loopback that nobody listens on."""
    taken = [socket.socket() for _ in range(many)]
    try:
        for one in taken:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in taken]
    finally:
        for one in taken:
            one.close()


class Etcd:
    """One member, alone or of `initial`, in a folder; `more` are further options."""

    def __init__(
        self, folder: Path, name: str = "one", more: Sequence[str] = (), *, scheme: str = "http"
    ) -> None:
        self.folder = folder
        self.client, peer = free_ports(2)
        self.url = f"{scheme}://127.0.0.1:{self.client}"
        peer_url = f"http://127.0.0.1:{peer}"
        self.command = [
            *("etcd", "--name", name, "--data-dir", str(folder / name), "--unsafe-no-fsync"),
            *("--listen-client-urls", self.url, "--advertise-client-urls", self.url),
            *("--listen-peer-urls", peer_url, "--initial-advertise-peer-urls", peer_url),
            *("--initial-cluster", f"{name}={peer_url}", *more),
        ]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> "Etcd":
        """Start it, and wait until it takes connections."""
        with open(self.folder / "log", "ab") as log:
            self._process = subprocess.Popen(
                self.command, env=os.environ | _QUIET, stdout=log, stderr=log
            )
        process = self._process

        def takes_connections() -> bool:
            assert process.poll() is None, (self.folder / "log").read_text()
            with socket.socket() as one:
                return one.connect_ex(("127.0.0.1", self.client)) == 0

        until(takes_connections, (self.folder / "log").read_text)
        return self

    def signal(self, which: int) -> None:
        """Send it a signal; after a deadly one wait for its end."""
        assert self._process is not None
        self._process.send_signal(which)
        if which in (signal.SIGKILL, signal.SIGTERM):
            self._process.wait(PATIENCE)

    def stop(self) -> None:
        """Kill it, if it runs."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait(PATIENCE)

    def answers(self) -> bool:
        """Whether it has elected itself; it takes connections before."""
        with suppress(OSError):
            return bool(self.ask("kv/range", key="AA=="))
        return False

    def ask(self, path: str, **body: object) -> dict[str, object]:
        """Ask its gateway, without our own client."""
        request = urllib.request.Request(f"{self.url}/v3/{path}", json.dumps(body).encode())
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            found: dict[str, object] = json.load(answer)
        return found


@cache
def shared() -> Etcd:
    """One for all tests of this process that keep to their own prefixes."""
    folder = Path(tempfile.mkdtemp(prefix="etcd-"))
    server = Etcd(folder).start()
    owner = os.getpid()

    def end() -> None:
        if os.getpid() == owner:
            server.stop()
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(end)
    until(server.answers, (folder / "log").read_text)
    return server
