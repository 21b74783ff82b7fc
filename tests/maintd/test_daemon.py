"""The loop around the rounds: what it says, and how it ends."""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from nodeagent import service
from nodeagent.cli import maintd_parts
from nodeagent.cli import maintd_run as command
from nodeagent.maintd.engine.daemon import Maintd
from nodeagent.maintd.engine.round import Round
from nodeagent.maintd.engine.settings import MaintdSettings, Settings
from nodeagent.model.action import Scope
from nodeagent.model.snapshot import Capacity, Snapshot
from nodeagent.model.wish import Pause, Wish
from nodeagent.protocol.look import Look
from tests.maintd.rig import QUICK, Rig, fleet, mirrored
from tests.maintd.world import EVACUATE
from tests.patience import until


def test_rounds_that_are_skipped_are_said_once_and_for_how_long(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rig, clock = Rig(fleet()), [0.0]
    daemon = Maintd(rig.engine, rig.store, 0.0, rig.now, steady=lambda: clock[0])

    async def rounds(count: int) -> None:
        stop = asyncio.Event()
        running = asyncio.create_task(daemon.run(stop))
        until = daemon.rounds + count
        while daemon.rounds < until:
            clock[0] += 1
            await asyncio.sleep(0.001)
        stop.set()
        await running

    caplog.set_level(logging.INFO)
    for _ in range(2):
        caplog.clear()
        rig.cluster.down = True
        asyncio.run(rounds(5))
        assert daemon.trouble is not None
        rig.cluster.down = False
        clock[0] += 100
        asyncio.run(rounds(5))
        assert daemon.trouble is None
        told = [m for m in caplog.messages if m.startswith("rounds-")]
        first, last = told
        assert first.startswith("rounds-skipped why=")
        assert last.startswith("rounds-resumed after_s=1")
        assert int(last.partition("skipped=")[2]) >= 5


def test_a_request_is_answered_once_ganeti_has_the_ledger_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else a person is told that only this node knows of it."""
    rig, written = Rig(fleet()), threading.Event()
    daemon = Maintd(rig.engine, rig.store, 0.0, rig.now)
    plainly = rig.store.wish

    def until_saved(wish: Wish) -> None:
        plainly(wish)
        until(lambda: rig.store.load().holds)

    monkeypatch.setattr(rig.store, "wish", until_saved)

    async def main() -> None:
        stop = asyncio.Event()
        running = asyncio.create_task(daemon.run(stop))
        while daemon.rounds < 3:
            await asyncio.sleep(0.001)
        rig.cluster.keeps = lambda _: "" if written.wait(60) else "too late"
        asked = asyncio.create_task(daemon.ask(Pause(Scope.CLUSTER, "", "night"), "root"))
        while not rig.store.load().holds:
            await asyncio.sleep(0.001)
        for _ in range(50):
            await asyncio.sleep(0.001)
        assert not asked.done()
        written.set()
        assert await asked == ""
        assert daemon.engine.memory.only_here() == ""
        stop.set()
        await running

    asyncio.run(main())


def test_in_the_pause_of_a_repair_the_next_round_does_not_wait() -> None:
    """Else its tag names the job only once the job has ended: the work locks the instance."""
    rig = Rig(fleet(), mirrored(("n3", "n4")), replace(QUICK, autorepair="safe"))
    daemon = Maintd(rig.engine, rig.store, 60.0, rig.now)
    rig.cluster.world.tags = frozenset({"ganeti:watcher:autorepair:failover"})
    rig.cluster.takes = lambda _: 1000.0
    daemon.latest = rig.tick()
    assert not daemon._pausing()
    rig.agents.says["n3"] = None
    rig.cluster.put(replace(rig.cluster.nodes["n3"], offline=True))
    while not daemon.latest.decision.ledger.intents:
        daemon.latest = rig.tick(60)
    assert daemon._pausing()
    daemon.latest = rig.tick(3)
    assert daemon._pausing()
    daemon.latest = rig.tick(10)
    assert daemon.latest.decision.ledger.intents
    assert not daemon._pausing()


@pytest.mark.parametrize("last", ["look", "capacity"])
def test_told_to_stop_in_mid_round_it_asks_no_more_and_begins_nothing(last: str) -> None:
    rig = Rig(fleet())
    rig.agents.says["n3"] = EVACUATE
    stop, plain, free = asyncio.Event(), rig.agents.look, rig.cluster.capacity
    seen: list[Round] = []
    asked: list[str] = []

    async def look(snapshot: Snapshot) -> Mapping[str, Look]:
        asked.append("look")
        if last == "look":
            stop.set()
        return await plain(snapshot)

    def capacity(nodes: Collection[str]) -> Mapping[str, Capacity]:
        asked.append("capacity")
        stop.set()
        return free(nodes)

    rig.engine._look = look
    rig.cluster.capacity = capacity  # type: ignore[method-assign]
    asyncio.run(Maintd(rig.engine, rig.store, 60.0, rig.now, seen.append).run(stop))
    assert asked[-1] == last
    assert not seen
    assert not rig.cluster.jobs
    assert not rig.store.load().incidents


def test_what_holds_no_rounds_any_more_is_not_alive() -> None:
    rig = Rig(fleet())
    clock = [0.0]
    every = 60.0
    daemon = Maintd(rig.engine, rig.store, every, rig.now, slowest=100.0, steady=lambda: clock[0])
    hangs, stop = asyncio.Event(), asyncio.Event()
    plain = rig.agents.look

    async def look(snapshot: Snapshot) -> Mapping[str, Look]:
        await hangs.wait()
        return await plain(snapshot)

    rig.engine._look = look

    async def main() -> None:
        running = asyncio.create_task(daemon.run(stop))
        await asyncio.sleep(0)
        clock[0] = 10 * every + 99
        assert daemon.alive(), "slow"
        clock[0] = 10 * every + 101
        assert not daemon.alive()
        hangs.set()
        while not daemon.rounds:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0)
        assert (daemon.rounds, daemon._wanted.is_set()) == (1, False), "the next one waits"
        assert daemon.alive()
        daemon.every = 1.0  # by SIGHUP, while the old rhythm's next round is waited for
        clock[0] += 9 * every
        assert daemon.alive()
        rig.cluster.down = True
        while daemon.rounds < 2:
            daemon._wanted.set()
            await asyncio.sleep(0.01)
        assert daemon.trouble
        clock[0] += 109
        assert daemon.alive(), "a round that was skipped has ended too"
        clock[0] += 2
        assert not daemon.alive()
        stop.set()
        await running

    asyncio.run(main())


def test_the_watchdog_of_the_daemon_looks_at_its_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    settings = Settings(maintd=MaintdSettings(state="/nowhere"))

    async def kept(healthy: object) -> None:
        asked.append(healthy)

    rig = Rig(fleet())
    daemon = Maintd(rig.engine, rig.store, 60.0, rig.now)

    async def ended(_: asyncio.Event) -> None:
        await asyncio.sleep(0.01)

    @asynccontextmanager
    async def nobody(*_: object) -> AsyncIterator[None]:
        yield

    monkeypatch.setattr(command, "assemble", lambda *_, **__: daemon)
    monkeypatch.setattr(maintd_parts, "listening", nobody)
    monkeypatch.setattr(service, "keep_alive", kept)
    monkeypatch.setattr(daemon, "run", ended)
    asyncio.run(command.serve(settings, "/nowhere", dry=True))
    assert asked == [daemon.alive]


def test_a_bug_ends_the_daemon_and_nobody_serves_what_is_old() -> None:
    rig = Rig(fleet())
    rounds: list[object] = []

    def watch(done: object) -> None:
        rounds.append(done)
        if len(rounds) == 3:
            raise ZeroDivisionError

    maintd = Maintd(rig.engine, rig.store, 0.01, rig.now, watch)
    with pytest.raises(ZeroDivisionError):
        asyncio.run(maintd.run(asyncio.Event()))
