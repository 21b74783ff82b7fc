"""Witnesses asked beside the rounds: whom, about whom, how often, and what is believed."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest

from nodeagent.errors import MessageError, Unavailable
from nodeagent.maintd.engine import witnesses as module
from nodeagent.maintd.engine.noded import Noded
from nodeagent.maintd.engine.witnesses import QuestionsOverHttp, Witnesses
from nodeagent.maintd.fencing.judgement import witnesses_for
from nodeagent.model.evidence import Contact, Mirror
from nodeagent.model.snapshot import Node, Snapshot
from nodeagent.model.units import Ms
from nodeagent.protocol.envelope import Purpose, seal
from nodeagent.protocol.look import Distrusted, Look, Seen, Silent
from nodeagent.protocol.messages import Report
from nodeagent.protocol.testimony import Words
from nodeagent.protocol.witness import Question, body_of
from tests.agent.listening import listener
from tests.agent.place import CLUSTER, NODE, Place
from tests.agent.witnessing import DEAD, with_others
from tests.cluster.by_hand import ByHand
from tests.maintd.rig import fleet
from tests.maintd.world import NOW, OK, node, six, snapshot
from tests.web.live import Agent, agent

SILENT = Words(Contact.SILENT, Contact.SILENT, ())
WORLD = six(web1=("n1", "n2"), db1=("n4", "n1"), far1=("n2", "n3"))


def report() -> Report:
    return Report("c", "", "n2", "e", 1, Ms(1), None, None, None, {}, True, "n6", "", "1")


def looks_of(world: Snapshot, *silent: str) -> dict[str, Look]:
    return {
        name: Silent("timed out", Contact.SILENT) if name in silent else Seen(report(), OK)
        for name in world.nodes
    }


class Desk:
    """Answers as told; time passes by hand."""

    def __init__(self, world: Snapshot = WORLD) -> None:
        self.world = world
        self.seconds = 0.0
        self.asked: list[tuple[str, str]] = []
        self.says: dict[str, Words | Exception] = {}
        self.open = self.most = 0
        self.witnesses = Witnesses(self, self.now, lambda: self.seconds)
        cluster = ByHand.of(lambda: self.seconds, fleet(6), master="n1")
        self.noded = Noded(cluster, lambda: self.seconds, lambda work: work())

    def now(self) -> Ms:
        return Ms(NOW + int(1000 * self.seconds))

    async def ask(self, witness: Node, target: str, _: Snapshot) -> Words:
        self.asked.append((witness.name, target))
        self.open += 1
        self.most = max(self.most, self.open)
        await asyncio.sleep(0)
        self.open -= 1
        said = self.says.get(witness.name, SILENT)
        if isinstance(said, Exception):
            raise said
        return said

    def watch(self, *silent: str, world: Snapshot | None = None, polled: int | None = None) -> None:
        world = world or self.world
        since = dict.fromkeys(silent, NOW)
        at = self.now() if polled is None else Ms(polled)
        self.witnesses.watch(world, since, looks_of(world, *silent), at)

    def evidence(self, name: str) -> Any:
        looks = looks_of(self.world, name)
        return self.witnesses.evidence({name: NOW}, looks, self.noded, self.now())[name]

    def take_asked(self) -> list[tuple[str, str]]:
        found, self.asked = self.asked, []
        return sorted(found)


def story(tell: Callable[[Desk], Awaitable[None]], world: Snapshot = WORLD) -> None:
    async def main() -> None:
        await tell(Desk(world))

    asyncio.run(main())


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The task's second between its turns is none."""
    real = asyncio.sleep
    monkeypatch.setattr(asyncio, "sleep", lambda _: real(0))


async def turns(desk: Desk, after: float = 0.0) -> None:
    desk.seconds += after
    for _ in range(50):
        await asyncio.sleep(0)


def test_peers_with_disks_are_asked_always_and_others_until_there_are_enough() -> None:
    able = set(WORLD.nodes)
    assert witnesses_for(WORLD.nodes["n1"], WORLD, able) == ("n2", "n4", "n3", "n5")
    assert witnesses_for(WORLD.nodes["n5"], WORLD, able) == ("n1", "n2", "n3", "n4")
    assert witnesses_for(WORLD.nodes["n1"], WORLD, able, {"n3"}) == ("n2", "n4", "n5", "n6")
    assert witnesses_for(WORLD.nodes["n1"], WORLD, {"n6"}) == ("n6",), "the master is the last"
    world = six(
        node("n6", group="g2"), web1=("n1", "n2"), x=("n1", "n3"), y=("n1", "n4"), z=("n1", "n5")
    )
    chosen = witnesses_for(world.nodes["n1"], world, able)
    assert chosen == ("n2", "n3", "n4", "n5", "n6"), "one outside its failure domain"


def test_testimonies_become_evidence_and_are_renewed() -> None:
    async def tell(desk: Desk) -> None:
        connected = Mirror("web1", "Connected", "UpToDate")
        others = Mirror("far1", "Connected", "UpToDate")
        desk.says["n2"] = replace(SILENT, mirrors=(connected, others))
        desk.watch("n1")
        await turns(desk)
        assert desk.take_asked() == [(f"n{i}", "n1") for i in (2, 3, 4, 5)]
        found = desk.evidence("n1")
        assert [one.witness for one in found.witnesses] == ["n2", "n3", "n4", "n5"]
        assert found.witnesses[0].mirrors == (connected,), "disks of other nodes are left out"
        assert (found.agent, found.doubt) == (Contact.SILENT, "timed out")
        for _ in range(3):
            await turns(desk, after=6)
            assert desk.take_asked() == []
        await turns(desk, after=2)
        assert len(desk.take_asked()) == 4
        assert {one.at for one in desk.evidence("n1").witnesses} == {desk.now()}

    story(tell)


def test_evidence_of_the_poll_and_of_noded() -> None:
    async def tell(desk: Desk) -> None:
        desk.watch(polled=NOW - 9)
        desk.seconds = 100
        desk.watch("n1")
        desk.noded.ask(desk.world, ["n1"])
        desk.seconds = 107
        found = desk.evidence("n1")
        assert (found.noded, found.noded_at) == (True, desk.now() - 7_000)
        assert (found.last, found.said) == (NOW - 9, "Ok"), "when the poll began"
        looks = looks_of(desk.world) | {"n1": Distrusted("a wrong key")}
        for look, contact, doubt in (
            (Distrusted("a wrong key"), Contact.ANSWERS, "not trusted: a wrong key"),
            (Silent("HTTP", Contact.ANSWERS), Contact.ANSWERS, "HTTP"),
            (None, Contact.UNKNOWN, ""),
        ):
            looks = {} if look is None else {"n1": look}
            one = desk.witnesses.evidence({"n1": NOW}, looks, desk.noded, desk.now())["n1"]
            assert (one.agent, one.doubt) == (contact, doubt)

    story(tell)


def test_who_does_not_answer_or_lies_has_been_asked_and_others_take_its_place(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def tell(desk: Desk) -> None:
        desk.says = {"n3": Unavailable("gone"), "n5": MessageError("signature does not match")}
        desk.watch("n1")
        await turns(desk)
        found = desk.evidence("n1")
        assert found.asked == ("n3", "n5")
        assert [one.witness for one in found.witnesses] == ["n2", "n4"]
        desk.take_asked()
        await turns(desk, after=20)
        assert ("n6", "n1") in desk.take_asked()
        await turns(desk, after=20)
        assert caplog.text.count("its testimony is not genuine: signature does not match") == 1

    story(tell)


def test_a_storm_of_silent_nodes_asks_about_few_at_once() -> None:
    names = [f"n{i:03}" for i in range(1, 201)]
    world = snapshot(*(node(name) for name in names))
    silent = names[:100]

    async def tell(desk: Desk) -> None:
        desk.watch(*silent)
        assert desk.witnesses._task is not None
        desk.witnesses._task.cancel()
        await desk.witnesses._ask_due()
        assert len(desk.take_asked()) == module.AT_ONCE * 4
        assert desk.most <= module.QUESTIONS
        await desk.witnesses._ask_due()
        about = {name for _, name in desk.take_asked()}
        assert about.isdisjoint(silent[: module.AT_ONCE]), "others have their turn"

    story(tell, world)


def test_a_node_that_answers_again_is_forgotten_and_the_task_ends() -> None:
    async def tell(desk: Desk) -> None:
        desk.watch("n1")
        await turns(desk)
        assert len(desk.evidence("n1").witnesses) == 4
        desk.watch()
        await turns(desk, after=100)
        assert desk.evidence("n1").witnesses == ()
        desk.take_asked()
        await turns(desk, after=100)
        assert desk.take_asked() == []
        desk.watch("n1")
        await turns(desk)
        assert len(desk.take_asked()) == 4

    story(tell)


# A real agent, over its real socket.


@pytest.fixture(scope="module")
def live() -> Iterator[Agent]:
    with agent(tls=True) as running:
        with_others(running.place)
        yield running


def world_of(place: Place, **changes: Any) -> Snapshot:
    me = replace(Node(NODE, place.uuid, "127.0.0.1"), **changes)
    return replace(snapshot(me, node(DEAD), node("more1")), cluster=CLUSTER)


def questions(live: Agent, **changes: Any) -> QuestionsOverHttp:
    place, now = live.place, lambda: Ms(time.time_ns() // 1_000_000)
    pem = changes.pop("pem", place.master_pem)
    return QuestionsOverHttp(place.key, pem, changes.pop("port", live.port), True, now, **changes)


def ask(live: Agent, target: str = DEAD, world: Snapshot | None = None, **changes: Any) -> Words:
    world = world or world_of(live.place)
    return asyncio.run(questions(live, **changes).ask(world.nodes[NODE], target, world))


def test_a_real_agent_is_a_witness(live: Agent) -> None:
    said = ask(live)
    assert (said.noded, said.agent) == (Contact.REFUSED, Contact.REFUSED)
    assert ask(live, "more1").agent is Contact.REFUSED


def test_a_witness_with_another_key_than_its_pin_is_not_believed(live: Agent) -> None:
    tag = f"nodeagent:key:{'0' * 64}"
    with pytest.raises(MessageError, match="pinned to"):
        ask(live, world=world_of(live.place, tags=frozenset({tag})))


def test_the_answer_to_another_question_is_not_genuine(live: Agent) -> None:
    place, other = live.place, str(uuid4())
    asked = Question(other, CLUSTER, place.uuid, NODE, DEAD, Ms(1), Ms(2))
    body = body_of(asked, CLUSTER, NODE, place.uuid, SILENT)
    sealed = seal(place.key, Purpose.TESTIMONY, other, body)

    def replay(connection: Any) -> None:
        connection.recv(1 << 16)
        head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(sealed)}\r\n\r\n"
        connection.sendall(head.encode() + sealed)

    world = world_of(place)
    with listener(replay) as port:
        asking = replace(questions(live), port=port, tls=False)
        with pytest.raises(MessageError, match="the salt is not ours"):
            asyncio.run(asking.ask(world.nodes[NODE], DEAD, world))
