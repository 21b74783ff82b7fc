"""The loop around the rounds: what it says, and how it ends."""

import asyncio
import logging
from collections.abc import Collection, Mapping

import pytest

from nodeagent.maintd.daemon import Maintd
from nodeagent.maintd.engine.round import Round
from nodeagent.model.snapshot import Capacity, Snapshot
from nodeagent.protocol.look import Look
from tests.maintd.rig import Rig, fleet
from tests.maintd.world import EVACUATE


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
