"""A coordinator with its HTTP side, asked directly or over real sockets."""

import asyncio
import base64
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nodeagent.maintd.engine.daemon import Maintd
from nodeagent.maintd.http.routes import Api
from nodeagent.web.exchange import Request, Response
from tests.maintd.rig import Rig

ROOT, NOBODY, REMOTE = "uid:0:0", "uid:65534:9999999", "192.0.2.7"
MEMBER = "uid:65534:9999999,65534"  # of the group nogroup
USERS = """
# name password options
alice {CLEARTEXT}secret write
bob {HA1}7b1cc4a0a2ab2ac0dc5d5b3a1b2fa9b0 write
eve plain read
"""


def basic(name: str, password: str) -> dict[str, str]:
    return {"authorization": "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()}


class Served:
    """A rig, the loop around it, and what is served of it; time passes with `tick` only."""

    def __init__(self, rig: Rig, folder: Path) -> None:
        self.rig = rig
        self.users = folder / "users"
        self.users.write_text(USERS)
        self.users.chmod(0o600)
        self.maintd = Maintd(rig.engine, rig.store, 3600.0, rig.now)
        self.seconds = 0.0
        self.api = Api(self.maintd, str(self.users), lambda: self.seconds)
        self.runner = asyncio.Runner()

    def tick(self, seconds: float = 10.0, times: int = 1) -> None:
        """Hold rounds, and forget what was worked out before."""
        for _ in range(times):
            self.maintd.latest = self.rig.tick(seconds)
            self.maintd.rounds += 1
            self.seconds += seconds

    def ask(
        self,
        method: str,
        target: str,
        body: object = None,
        *,
        peer: str = ROOT,
        secure: bool = False,
        headers: Mapping[str, str] | None = None,
        raw: bytes | None = None,
        loop: bool = False,
    ) -> Response:
        """Have one request answered; with `loop` rounds are held meanwhile."""
        text = raw if raw is not None else b"" if body is None else json.dumps(body).encode()
        kind = {"content-type": "application/json"} if text else {}
        request = Request(method, target, {**kind, **(headers or {})}, text, peer, secure)
        return self.runner.run(self._ask(request, loop=loop))

    async def _ask(self, request: Request, *, loop: bool) -> Response:
        stop = asyncio.Event()
        running = asyncio.create_task(self.maintd.run(stop)) if loop else None
        answer = self.api.handle(request)
        if not isinstance(answer, Response):
            answer = await answer
        stop.set()
        if running is not None:
            await running
        return answer

    def get(self, target: str) -> Any:
        """The JSON that is told to an administrator."""
        answer = self.ask("GET", target, peer=ROOT)
        assert answer.status == 200, (answer.status, answer.body[:500])
        return json.loads(answer.body)

    def change(self, method: str, target: str, body: object = None, **more: Any) -> Response:
        """Ask for a change as root, while rounds are held."""
        return self.ask(method, target, body, loop=True, **more)

    def close(self) -> None:
        self.api.context.close()
        self.runner.close()


def error(answer: Response) -> str:
    """The reason in an answer that is none."""
    return str(json.loads(answer.body)["error"])


def me() -> str:
    return f"uid:{os.geteuid()}"
