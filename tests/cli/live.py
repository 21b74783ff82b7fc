"""A whole coordinator at a real admin socket, served by a thread; its time moves by the test."""

import asyncio
import http.client
import json
import socket
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

from nodeagent.maintd.engine.daemon import Maintd
from nodeagent.maintd.http.routes import Api
from nodeagent.web import selfsigned
from nodeagent.web.server import Server
from nodeagent.web.tls import server_tls
from tests.maintd.rig import Rig

T = TypeVar("T")
USERS = "alice {CLEARTEXT}secret write\neve plain read\n"


class _Local(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost")
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self._path)


class Live:
    """Rounds are held when somebody asks for something, and by `tick`."""

    def __init__(self, rig: Rig, folder: Path) -> None:
        self.rig = rig
        self.folder = folder
        self.socket = str(folder / "admin.sock")
        self.seconds = 0.0
        self._users = folder / "users"
        self._users.write_text(USERS)
        self._users.chmod(0o600)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._stop = asyncio.Event()
        self._running: asyncio.Task[None] | None = None
        self._server: Server | None = None
        self.maintd = Maintd(rig.engine, rig.store, 3600.0, rig.now)
        self.api = Api(self.maintd, str(self._users), lambda: self.seconds)
        self._do(self._start())

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    async def _start(self) -> None:
        self._server = self.api.server()
        await self._server.start_unix(self.socket, 0o600)
        self._running = asyncio.create_task(self.maintd.run(self._stop))
        while self.maintd.rounds == 0:
            await asyncio.sleep(0.001)

    def tick(self, seconds: float = 10.0, times: int = 1) -> None:
        """Let time pass, and hold rounds."""
        for _ in range(times):
            self._do(self._tick(seconds))

    async def _tick(self, seconds: float) -> None:
        self.rig.time += seconds
        self.seconds += seconds
        before = self.maintd.rounds
        self.maintd._wanted.set()
        while self.maintd.rounds == before:
            await asyncio.sleep(0.001)

    def over_tls(self) -> tuple[str, str]:
        """Serve over TLS as well: the URL, and the file with the certificate."""
        pem = selfsigned.make()
        file = self.folder / "cert.pem"
        file.write_bytes(pem[pem.index(b"-----BEGIN CERTIFICATE-----") :])

        async def start() -> int:
            return await self.api.server().start(
                "127.0.0.1", 0, server_tls(pem), clear=self.api.reading.clear
            )

        return f"https://127.0.0.1:{self._do(start())}", str(file)

    def ask(self, method: str, path: str, body: object = None) -> tuple[int, str]:
        """Ask over the admin socket, without gnt-maint: the status and the text."""
        connection = _Local(self.socket)
        head = {"Content-Type": "application/json"} if body is not None else {}
        connection.request(method, path, json.dumps(body) if body is not None else None, head)
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, text

    def close(self) -> None:
        """Whatever has ended the rounds before is raised."""
        try:
            self._do(self._close())
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(10)
            self._loop.close()

    async def _close(self) -> None:
        self._stop.set()
        assert self._running is not None
        try:
            await self._running
        finally:
            for server in self.api.context.servers:
                await server.close()
            self.api.context.close()
