"""A standby's part in a succession: see whether the master answers, and call the root helper.

The helper decides and acts. This maintd carries its sealed questions to the agents and their
answers back, and shows what it says. Without an answer of the helper nothing happens.
"""

import asyncio
import json
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from nodeagent.errors import Unavailable, in_words
from nodeagent.model.reason import SuccessionKind, because
from nodeagent.model.snapshot import Snapshot
from nodeagent.protocol.bounds import cut
from nodeagent.web.client import fetch
from nodeagent.web.tls import untrusting_tls

log = logging.getLogger(__name__)

SOCKET = "/run/nodeagent-succeed.sock"
CHECK = 600.0  # seconds between previews while the master answers
AGAIN = 20.0  # between requests while it does not
LATER = 120.0  # the same of later candidates: an agent tries the master for one at a time
_PROBE = 5.0
_SESSION = 1800.0  # power-offs, questions and a failover
_MOST_ANSWER = 1024 * 1024
_MOST_LINE = 4 * 1024 * 1024
_AT_ONCE = 500
_SECONDS = 25.0  # for one try; a witness needs up to 18 s, and its agent gives no more
_PATIENCE = 38.0  # seconds for one question, with all tries
_RETRY = 2.0  # seconds until an agent is asked again that is busy with the same question
_BUSY = (429, 503)
_WHY = 500


class Succession:
    """Watches the master of the moment in a task of its own, so that no round waits."""

    def __init__(self, socket: str, port: int, *, tls: bool, steady: Callable[[], float]) -> None:
        self._socket = socket
        self._port = port
        self._tls = tls
        self._steady = steady
        self._task: asyncio.Task[None] | None = None
        self._last = 0.0, ""  # the last request: when, and its verb
        self.told: dict[str, Any] | None = None  # the newest outcome, see `story`

    def look(self, snapshot: Snapshot) -> None:
        """Begin to ask, unless an earlier request is not over."""
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._look(snapshot))

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _look(self, snapshot: Snapshot) -> None:
        try:
            verb = "preview" if await self._answers(snapshot) else "succeed"
            if self._due(verb):
                self._last = self._steady(), verb
                await self._session(verb, snapshot.master)
        except Exception:  # a bug must not end the watch unseen
            log.exception("succession-unknown")

    def _due(self, verb: str) -> bool:
        """Tell whether it is time for this request; a change between the two never waits."""
        last, before = self._last
        waits = AGAIN if (self.told or {}).get("place") in (None, 1) else LATER
        return verb != before or self._steady() - last >= (CHECK if verb == "preview" else waits)

    async def _answers(self, snapshot: Snapshot) -> bool:
        """Tell whether the agent on the master answers; anything counts as an answer."""
        master = snapshot.nodes.get(snapshot.master)
        if master is None:
            return True
        try:
            await fetch(master.address, self._port, "/healthz", seconds=_PROBE, tls=self._secure())
        except Unavailable:
            return False
        return True

    async def _session(self, verb: str, master: str) -> None:
        try:
            async with asyncio.timeout(_SESSION):
                told = await self._talk(verb)
        except (OSError, TimeoutError, Unavailable, ValueError) as error:
            why = cut(in_words(error) or type(error).__name__, _WHY)
            reason = because(SuccessionKind.NO_HELPER, master, why=why)
            told = {"able": False, "kind": reason.kind.word, "reason": str(reason)}
            told |= {"help": reason.help, "master": master}
        if self.told is None or told.get("kind") != self.told.get("kind"):
            log.warning("succession kind=%s why=%r", told.get("kind"), told.get("reason"))
        self.told = told

    async def _talk(self, verb: str) -> dict[str, Any]:
        """Have one session with the helper; return its outcome."""
        reader, writer = await asyncio.open_unix_connection(self._socket, limit=_MOST_LINE)
        turns, carrying = asyncio.Semaphore(_AT_ONCE), set[asyncio.Task[None]]()
        try:
            _say(writer, {"verb": verb})
            while line := await reader.readline():
                said = json.loads(line)
                if not isinstance(said, dict):
                    raise Unavailable("it does not speak our language")
                if isinstance(told := said.get("told"), dict):
                    return told
                if why := said.get("failed"):
                    raise Unavailable(str(why))
                if isinstance(ask := said.get("ask"), dict):
                    task = asyncio.create_task(self._carry(ask, writer, turns))
                    carrying.add(task)
                    task.add_done_callback(carrying.discard)
            raise Unavailable("it ended without an outcome; its journal says why")
        finally:
            for task in carrying:
                task.cancel()
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    async def _carry(
        self, ask: dict[str, Any], writer: asyncio.StreamWriter, turns: asyncio.Semaphore
    ) -> None:
        """Carry one question to its agent, again while that is busy, and the answer back."""
        answer: str | None = None
        async with turns:
            until = self._steady() + _PATIENCE
            while answer is None and (left := until - self._steady()) > 0:
                try:
                    got = await fetch(
                        str(ask["address"]),
                        int(ask["port"]),
                        "/1/witness",
                        seconds=min(left, _SECONDS),
                        method="POST",
                        body=str(ask["body"]).encode(),
                        tls=untrusting_tls() if ask["tls"] else None,
                        most=_MOST_ANSWER,
                    )
                except Unavailable:
                    break
                if got.status == 200:
                    answer = got.body.decode(errors="replace")
                elif got.status in _BUSY:
                    await asyncio.sleep(_RETRY)
                else:
                    break
        _say(writer, {"id": ask["id"], "answer": answer})

    def _secure(self) -> Any:
        return untrusting_tls() if self._tls else None


def _say(writer: asyncio.StreamWriter, document: dict[str, Any]) -> None:
    writer.write(json.dumps(document).encode() + b"\n")
