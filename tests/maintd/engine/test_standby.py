"""A standby reads the copy that the agent of its own node keeps, and is in nobody's way."""

import asyncio
from contextlib import closing
from typing import Any

import pytest

from nodeagent.errors import NotMaster, Unavailable
from nodeagent.maintd.engine.conduct import Conduct
from nodeagent.maintd.engine.standby import CopyReader, Standby, until
from nodeagent.model.ledger import Ledger
from nodeagent.model.snapshot import Snapshot
from nodeagent.store.sqlite import MEMORY, SqliteStore
from tests.maintd.engine.test_keeping import World, cluster, scenario
from tests.maintd.rig import QUICK, Rig, fleet


class Here:
    """A standby on node b."""

    def __init__(self, world: World) -> None:
        self.store = SqliteStore(MEMORY)
        self.candidates = world.candidates
        self.snapshot = cluster("mbc")
        self.master: str | Exception = "the maintd on node-m"
        reader = CopyReader(world.candidates, lambda: self.snapshot.nodes["node-b"], self.store)
        rig = Rig(fleet())

        async def nobody(_: Snapshot) -> dict[str, Any]:
            raise AssertionError("it polls nobody")

        self.engine = Standby(
            *(self.store, rig.cluster, rig.agents, nobody, QUICK, rig.now),
            Conduct("", lambda: None, vote=False),
            nodes=lambda: self.snapshot,
            who=self.who,
            feed=reader.feed,
        )

    def who(self) -> str:
        if isinstance(self.master, Exception):
            raise self.master
        return self.master


@scenario
async def test_it_shows_the_newest_copy_and_fetches_each_once() -> None:
    world = World()
    world.begin()
    world.save()
    assert await world.keeping.safe(5)
    here = Here(world)
    with closing(here.store):
        agent = world.candidates["b"]
        agent.asked.clear()
        for _ in range(3):
            done = await here.engine.one_round()
        assert agent.asked == ["holding", "fetch", "holding", "holding"]
        assert done.decision.ledger == world.ledger == here.engine.ledger
        assert done.idle == "a standby: the maintd on node-m acts"
        assert here.engine.standby == "the maintd on node-m acts"
        world.save()
        assert await world.keeping.safe(5)
        while world.candidates["b"].newest != world.candidates["m"].newest:
            await asyncio.sleep(0.01)
        done = await here.engine.one_round()
        assert done.decision.ledger == world.ledger
        events = here.store.history()
        assert len(events) == len(set(map(repr, events))) == 2
    assert agent.promised == 1  # the acting one's
    world.keeping.close()


@scenario
async def test_what_it_cannot_read_is_told() -> None:
    world = World()
    here = Here(world)
    with closing(here.store):
        done = await here.engine.one_round()
        assert done.decision.ledger == Ledger()
        assert "keeps no copy of the ledger yet" in (done.idle or "")
        world.begin()
        assert await world.keeping.safe(5)
        await here.engine.one_round()
        world.candidates["b"].trouble = Unavailable("timed out")
        done = await here.engine.one_round()
        assert done.decision.ledger == world.ledger  # the last one that it has read
        assert (done.idle or "").endswith("its ledger cannot be read here: timed out")
        here.master = NotMaster("node-b is neither the master nor a master candidate")
        with pytest.raises(NotMaster):
            await here.engine.one_round()
    world.keeping.close()


@scenario
async def test_an_unknown_answer_is_no_turn() -> None:
    stop, said = asyncio.Event(), [Unavailable("etcd does not answer"), False, True]

    def turn() -> bool:
        answer = said.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return bool(answer)

    await until(turn, stop, 0.01)
    assert not said
    stop.set()
    await until(turn, stop, 0.01)  # asks nothing more
