"""A standby's part in a succession: when it calls its root helper, and what it carries."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from nodeagent.maintd.engine import standby
from nodeagent.maintd.engine.standby import AGAIN, CHECK, LATER, Helper
from nodeagent.model.snapshot import Node, Snapshot
from tests.agent.place import safe_folder

TOLD = {"able": True, "kind": "waits", "reason": "it waits", "help": "", "place": 1}


class Agents:
    """HTTP servers of the master (its /healthz) and of others (/1/witness), all at one port."""

    def __init__(self) -> None:
        self.alive = True
        self.busy = 0
        self.carried: list[str] = []
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        status, body = "200 OK", b"ok"
        if head.startswith("POST /1/witness "):
            size = int(head.lower().partition("content-length:")[2].split()[0])
            question = (await reader.readexactly(size)).decode()
            if self.busy > 0 and question != "refused":
                self.busy -= 1
                status = "429 Busy" if self.busy % 2 else "503 Busy"
            elif question == "refused":
                status = "403 Refused"
            else:
                self.carried.append(question)
                body = f"answer to {question}".encode()
        elif not self.alive:
            writer.close()
            return
        head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        writer.write(head.encode() + body)
        writer.close()


class Root:
    """The root helper as maintd sees it: it asks these questions, and then it tells."""

    def __init__(self, agents: Agents) -> None:
        self.agents = agents
        self.questions = {"m": "q1", "n": "q2"}
        self.told: dict[str, Any] = dict(TOLD)
        self.last: dict[str, Any] | bytes | None = None
        self.verbs: list[str] = []
        self.answers: dict[str, Any] = {}
        self.begun, self.ends = asyncio.Event(), asyncio.Event()
        self.ends.set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.verbs.append(json.loads(await reader.readline())["verb"])
        if self.verbs[-1] == "succeed":
            writer.write(json.dumps({"ask": self.questions}).encode() + b"\n")
            self.answers = json.loads(await reader.readline())
        self.begun.set()
        await self.ends.wait()
        end = {"told": self.told} if self.last is None else self.last
        writer.write(end if isinstance(end, bytes) else json.dumps(end).encode() + b"\n")
        writer.close()


class World:
    def __init__(self, folder: Path) -> None:
        self.agents = Agents()
        self.helper = Root(self.agents)
        self.path = str(folder / "sock")
        self.now = 1000.0
        nodes = {name: Node(name, name, "127.0.0.1") for name in ("m", "n")}
        self.snapshot = Snapshot("c", nodes, master="m")
        self.watch: Helper

    async def look(self, after: float = 0.0) -> dict[str, Any] | None:
        """Have the watch look once more, so much later, and wait for it."""
        self.now += after
        self.watch.look(self.snapshot)
        task = self.watch._task
        assert task is not None
        await task
        return self.watch.told


@asynccontextmanager
async def world(*, helper: bool = True) -> AsyncIterator[World]:
    with safe_folder() as folder, patch.object(standby, "_PROBE", 60.0):  # however busy we are
        made = World(folder)
        at = await asyncio.start_server(made.agents.serve, "127.0.0.1", 0)
        made.agents.port = at.sockets[0].getsockname()[1]
        beside = await asyncio.start_unix_server(made.helper.serve, made.path) if helper else None
        made.watch = Helper(made.path, made.agents.port, tls=False, steady=lambda: made.now)
        try:
            yield made
        finally:
            made.watch.close()
            at.close()
            if beside is not None:
                beside.close()


def scenario(test: Callable[[], Awaitable[None]]) -> Callable[[], None]:
    def run() -> None:
        asyncio.run(test())  # type: ignore[arg-type]

    run.__name__ = test.__name__
    return run


@scenario
async def test_while_the_master_answers_it_asks_for_a_preview_now_and_then() -> None:
    async with world() as here:
        assert await here.look() == TOLD
        await here.look(CHECK - 1)
        assert here.helper.verbs == ["preview"]
        await here.look(1)
        assert here.helper.verbs == ["preview", "preview"]


@scenario
async def test_while_it_does_not_answer_the_helper_is_to_succeed_it() -> None:
    async with world() as here:
        await here.look()
        here.agents.alive = False
        await here.look(1)  # at once
        assert here.helper.verbs == ["preview", "succeed"]
        assert here.helper.answers == {"m": "answer to q1", "n": "answer to q2"}
        await here.look(AGAIN - 1)
        await here.look(1)
        assert here.helper.verbs == ["preview", "succeed", "succeed"]
        here.agents.alive = True
        await here.look(1)
        assert here.helper.verbs[-1] == "preview"


@scenario
async def test_a_later_candidate_leaves_the_agents_to_the_first() -> None:
    async with world() as here:
        here.helper.told["place"] = 2
        here.agents.alive = False
        await here.look()
        await here.look(LATER - 1)
        assert here.helper.verbs == ["succeed"]
        await here.look(1)
        assert here.helper.verbs == ["succeed", "succeed"]


def test_a_busy_agent_is_asked_again_and_one_that_refuses_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test() -> None:
        async with world() as here:
            here.agents.alive, here.agents.busy = False, 2
            here.helper.questions = {"m": "q1", "n": "refused"}
            await here.look()
            assert here.helper.answers == {"m": "answer to q1"}

    monkeypatch.setattr(standby, "_RETRY", 0.01)
    asyncio.run(test())


def test_a_helper_that_never_ends_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with world() as here:
            here.helper.ends.clear()
            told = await here.look()
            assert told is not None
            assert "TimeoutError" in told["reason"]

    monkeypatch.setattr(standby, "_SESSION", 0.05)
    asyncio.run(test())


@scenario
async def test_closing_ends_a_session() -> None:
    async with world() as here:
        here.watch.close()  # before any
        here.helper.ends.clear()
        here.watch.look(here.snapshot)
        task = here.watch._task
        assert task is not None
        await here.helper.begun.wait()
        here.watch.close()
        with pytest.raises(asyncio.CancelledError):
            await task


@scenario
async def test_without_a_helper_it_says_what_to_run() -> None:
    async with world(helper=False) as here:
        told = await here.look()
        assert told is not None
        assert (told["able"], told["kind"]) == (False, "no-helper")
        assert told["help"] == "systemctl enable --now nodeagent-succeed.socket"


@pytest.mark.parametrize(
    "last", [{"failed": "a failover runs"}, {}, b"", b"rubbish\n", b"[]\n", b"\xff\n", {"told": 1}]
)
def test_a_helper_that_tells_nothing_is_no_helper(last: dict[str, Any] | bytes) -> None:
    async def test() -> None:
        async with world() as here:
            here.helper.last = last
            told = await here.look()
            assert told is not None
            assert told["kind"] == "no-helper"

    asyncio.run(test())
