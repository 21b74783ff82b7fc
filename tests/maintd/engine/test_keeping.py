"""The hand-over of saves to candidates that are slow, away, too old, or somebody else's by now."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import wraps

import pytest

from nodeagent.errors import MessageError
from nodeagent.maintd.copies import body
from nodeagent.maintd.engine import keeping
from nodeagent.maintd.engine.keeping import Keeping
from nodeagent.model.action import Scope
from nodeagent.model.event import happened
from nodeagent.model.ledger import Hold, Ledger
from nodeagent.model.snapshot import Node, Snapshot
from nodeagent.model.units import Ms
from nodeagent.store.contract import Fenced
from nodeagent.store.sqlite import MEMORY, SqliteStore
from tests.maintd.copies.candidates import OLD, SILENT, Candidates

NOW = Ms(1_000_000)


def cluster(candidates: str, others: str = "", offline: str = "") -> Snapshot:
    nodes = {
        f"node-{name}": Node(
            f"node-{name}", name, "", candidate=name in candidates, offline=name in offline
        )
        for name in candidates + others + offline
    }
    return Snapshot("c", nodes, {}, master="node-m")


class World:
    """A store whose saves are handed over."""

    def __init__(self, names: str = "mbc", all_of: str = "mbcde") -> None:
        self.candidates = Candidates(all_of)
        self.time = NOW
        self.pauses: list[float] = []
        self.keeping = Keeping(self.candidates, lambda: self.time, self._pause)
        self.store = SqliteStore(MEMORY)
        self.store.watch(self.keeping.saved)
        self.ledger = Ledger(round=1)
        self.keeping.follow(cluster(names))

    async def _pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        await asyncio.sleep(0.001)

    def begin(self, epoch: int = 1) -> None:
        saved = self.store.begin(epoch, self.ledger, (), {})
        self.keeping.begin(epoch, "m", saved, self.store.history())

    def save(self) -> None:
        number = self.ledger.round + 1
        hold = Hold(Scope.NODE, f"n{number}", "me", self.time)
        self.ledger = replace(self.ledger, round=number, holds=(*self.ledger.holds, hold))
        self.store.save(self.ledger, (happened(self.time, "paused", node=f"n{number}"),))

    def found(self, name: str) -> body.Found:
        return body.put_together(self.candidates[name].copies[0])


def scenario(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    @wraps(test)
    def run(**arguments: object) -> None:
        asyncio.run(asyncio.wait_for(test(**arguments), 20))

    return run


@scenario
async def test_each_candidate_gets_a_whole_copy_and_then_changes() -> None:
    world = World()
    world.store.save(world.ledger, (happened(NOW, "paused", node="before"),))
    world.begin()
    assert await world.keeping.safe(5)
    for _ in range(3):
        world.save()
        assert await world.keeping.safe(5)
    await all_have(world, "mbc")
    for name in "mbc":
        assert world.candidates[name].asked == ["whole", "change", "change", "change"]
        found = world.found(name)
        assert found.ledger == world.ledger
        assert [event.node for event in found.events] == ["before", "n2", "n3", "n4"]
    assert not world.candidates["d"].asked, "it is no candidate"
    state = world.keeping.state()
    assert (state.epoch, state.have, state.unsafe, len(state.on)) == (1, 3, 0, 3)


async def all_have(world: World, names: str) -> None:
    newest = world.store.revision.number
    while any((at := world.candidates[n].newest) is None or at.number != newest for n in names):
        await asyncio.sleep(0.001)


@scenario
async def test_a_candidate_that_is_away_delays_nobody_and_gets_all_at_once_later() -> None:
    world = World()
    world.begin()
    await all_have(world, "mbc")
    world.candidates["c"].trouble = SILENT
    for _ in range(5):
        world.save()
        assert await world.keeping.safe(5)
    while len(world.pauses) < 6:
        await asyncio.sleep(0.001)
    state = {one.node: one for one in world.keeping.state().on}
    assert not state["node-c"].newest
    assert state["node-c"].why == "timed out"
    assert world.pauses[:6] == [1, 2, 4, 8, 16, 30], "it is asked ever less often"
    world.candidates["c"].trouble = None
    before = len(world.candidates["c"].asked)
    await all_have(world, "c")
    assert world.candidates["c"].asked[before:] == ["change"], "one, for all that it lacked"
    assert world.found("c").ledger == world.ledger
    assert len(world.found("c").events) == 5


@scenario
async def test_a_slow_candidate_does_not_hold_up_the_majority() -> None:
    world = World()
    world.candidates["c"].slow = 5
    world.begin()
    assert await world.keeping.safe(2)


@scenario
async def test_without_a_majority_nothing_is_safe_and_it_is_said_since_when() -> None:
    world = World()
    world.candidates["b"].trouble = world.candidates["c"].trouble = SILENT
    world.begin()
    assert not await world.keeping.safe(0.05)
    world.time = Ms(NOW + 9000)
    world.save()
    state = world.keeping.state()
    assert (state.have, state.unsafe, state.at) == (0, NOW, NOW + 9000)
    world.candidates["b"].trouble = None
    assert await world.keeping.safe(5)
    assert world.keeping.state().unsafe == 0


@scenario
async def test_an_old_agent_is_told_apart_and_asked_seldom() -> None:
    world = World()
    world.candidates["c"].trouble = OLD
    world.begin()
    assert await world.keeping.safe(5)
    while not world.pauses:
        await asyncio.sleep(0.001)
    assert [one.able for one in world.keeping.state().on] == [True, False, True]
    assert world.pauses[0] == keeping.PAUSE_IF_OLD


@scenario
async def test_whoever_has_promised_a_higher_epoch_ends_this_maintd() -> None:
    world = World()
    world.begin()
    assert await world.keeping.safe(5)
    world.keeping.check()
    world.candidates["b"].promise(2, "b")
    world.save()
    with pytest.raises(Fenced, match="node-b has promised epoch 2"):
        while True:
            world.keeping.check()
            await asyncio.sleep(0.001)


@pytest.mark.parametrize("later", [1, 2])
@scenario
async def test_a_maintd_whose_memory_was_put_back_ends(later: int) -> None:
    """As in a virtual machine: it goes on from a save before the newest, in the same epoch."""
    world = World()
    world.begin()
    await all_have(world, "mbc")
    put_back = World()
    put_back.candidates = world.candidates
    put_back.keeping = Keeping(world.candidates, lambda: put_back.time, put_back._pause)
    put_back.store.watch(put_back.keeping.saved)
    put_back.keeping.follow(cluster("mbc"))
    put_back.begin()
    await all_have(put_back, "mbc")
    for _ in range(later):
        world.save()
        await all_have(world, "mbc")
    put_back.time = Ms(NOW + 1)  # what it does is not what was done
    put_back.save()
    with pytest.raises(Fenced, match="has a later save of this maintd's than it remembers"):
        while True:
            put_back.keeping.check()
            await asyncio.sleep(0.001)
    assert world.found("b").ledger == world.found("c").ledger == world.ledger


@scenario
async def test_a_lost_or_restored_disk_gets_a_whole_copy() -> None:
    world = World()
    world.begin()
    await all_have(world, "mbc")
    image = world.candidates["c"].image()
    world.save()
    await all_have(world, "mbc")
    world.candidates["b"].lose_disk()
    world.candidates["c"].restore(image)
    world.save()
    await all_have(world, "mbc")
    assert world.candidates["b"].asked[-2:] == ["change", "whole"]
    assert world.candidates["c"].asked[-2:] == ["change", "whole"]
    assert world.found("b").ledger == world.found("c").ledger == world.ledger


@scenario
async def test_a_long_chain_is_followed_by_a_whole_copy() -> None:
    world = World("m")
    world.begin()
    for _ in range(300):
        world.save()
        await all_have(world, "m")
    asked = world.candidates["m"].asked
    assert 1 < asked.count("whole") < 20
    gaps = [len(part) for part in " ".join(asked).split("whole")]
    assert max(gaps) <= len(" change") * keeping.MOST_PARTS + 1


@scenario
async def test_events_alone_go_with_the_next_save_and_once() -> None:
    world = World("m")
    world.begin()
    world.store.note((happened(NOW, "paused", node="alone"),))
    world.candidates["m"].lose_disk()  # it asks for a whole copy
    world.save()
    await all_have(world, "m")
    assert [event.node for event in world.found("m").events] == ["alone", "n2"]


@scenario
async def test_new_candidates_count_once_a_majority_of_both_sets_has_the_newest() -> None:
    world = World("mbc")
    world.begin()
    await all_have(world, "mbc")
    world.candidates["d"].trouble = world.candidates["e"].trouble = SILENT
    world.keeping.follow(cluster("mde", others="bc"))
    assert not await world.keeping.safe(0.05), "one of the three of today has it"
    world.candidates["d"].trouble = None
    assert await world.keeping.safe(5)
    world.save()
    world.keeping.follow(cluster("mde", others="bc"))
    await all_have(world, "md")
    assert await world.keeping.safe(5)
    assert world.candidates["d"].copies[0][-1].candidates == ("d", "e", "m")


@scenario
async def test_old_candidates_that_are_offline_or_gone_are_not_waited_for() -> None:
    world = World("mbc")
    world.begin()
    await all_have(world, "mbc")
    world.candidates["b"].trouble = world.candidates["c"].trouble = SILENT
    world.save()
    world.keeping.follow(cluster("mde", others="bc"))
    assert not await world.keeping.safe(0.05), "a majority of the old ones is away"
    world.keeping.follow(cluster("mde", offline="bc"))
    assert await world.keeping.safe(5)


@scenario
async def test_a_receipt_for_something_else_counts_for_nothing() -> None:
    world = World("m")

    async def put(*_: object) -> object:
        raise MessageError("its receipt is not genuine")

    world.keeping._asking.put = put  # type: ignore[method-assign, assignment]
    world.begin()
    while not world.pauses:
        await asyncio.sleep(0.001)
    assert not world.keeping.is_safe()
    assert world.keeping.state().on[0].why == "its receipt is not genuine"
