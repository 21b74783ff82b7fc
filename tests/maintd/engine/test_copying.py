"""Requests to candidates about copies: what is asked, and what is believed."""

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from nodeagent.errors import MessageError, Unavailable
from nodeagent.maintd.copies.refusals import Outbid, WholeWanted
from nodeagent.maintd.engine import copying as module
from nodeagent.maintd.engine.copying import Asker
from nodeagent.maintd.engine.witnesses import Unable
from nodeagent.model.copies import Holding, Kept, Part, Stamp
from nodeagent.model.snapshot import Node, Snapshot
from nodeagent.model.units import Ms
from nodeagent.protocol.copies import PIECE, Answer, Request, Verb, Word, answer_body, open_request
from nodeagent.protocol.envelope import Key, Purpose, seal
from nodeagent.protocol.messages import fingerprint
from nodeagent.protocol.parts import Header
from nodeagent.web.client import Answered
from tests.agent.place import client_pem
from tests.protocol.parts import write_part

ME, KEEPER = str(uuid4()), str(uuid4())
KEY = Key(b"a key of the cluster, long enough\n")
AT = Ms(1_800_000_000_000)
NODE = Node("n2", KEEPER, "127.0.0.2", candidate=True)
WORLD = Snapshot("c", {"n1": Node("n1", ME, "127.0.0.1", candidate=True), "n2": NODE}, master="n1")
STAMP = Stamp(3, ME, 8)
WHOLE = Part(Stamp(3, ME, 7), None, AT, (ME, KEEPER), "0a", b"whole")
CHANGE = Part(STAMP, WHOLE.stamp, AT, (ME, KEEPER), "0b", b"change")
HOLDING = Holding(3, ME, (Kept(STAMP, AT, (ME, KEEPER), "0b", 2, 700),))
HELD = Answer(Word.HOLDING, HOLDING)


class Keeper:
    """An agent that gives prepared answers, each a function of the request."""

    def __init__(self) -> None:
        self.key = Ed25519PrivateKey.generate()
        self.asked: list[Request] = []
        self.say: Callable[[Request], Answer] = lambda _: HELD
        self.status = 200
        self.seal: dict[str, Any] = {}
        self.changes: dict[str, Any] = {}
        self.signs = True
        self.waits = 0.0

    @property
    def public(self) -> str:
        raw = self.key.public_key().public_bytes(
            serialization.Encoding.Raw, serialization.PublicFormat.Raw
        )
        return raw.hex()

    async def fetch(self, address: str, port: int, target: str, **how: Any) -> Answered:
        await asyncio.sleep(self.waits)
        assert (address, port, target, how["method"]) == ("127.0.0.2", 1817, "/1/copies", "POST")
        request, _ = open_request(KEY, how["body"])
        self.asked.append(request)
        if self.status != 200:
            return Answered(self.status, b"{}", "")
        body = answer_body(request, "c", "n2", KEEPER, self.say(request))
        given: dict[str, Any] = {"key": KEY, "purpose": Purpose.COPIED, "salt": request.id}
        given |= self.seal
        sealed = seal(
            **given,
            body={**body, "key": self.public, **self.changes},
            sign=self.key.sign if self.signs else None,
        )
        assert len(sealed) <= how["most"]
        return Answered(200, sealed, "")


@pytest.fixture
def keeper(monkeypatch: pytest.MonkeyPatch) -> Keeper:
    one = Keeper()
    monkeypatch.setattr(module, "fetch_url", one.fetch)
    return one


PEM = client_pem()[0]


def asker(world: Snapshot = WORLD, **changes: Any) -> Asker:
    one = Asker(KEY, PEM, 1817, True, lambda: Ms(time.time_ns() // 1_000_000), **changes)
    one.follow(world)
    return one


def test_what_an_agent_holds(keeper: Keeper) -> None:
    assert asyncio.run(asker().holding(NODE)) == HOLDING
    (asked,) = keeper.asked
    assert (asked.verb, asked.cluster, asked.node, asked.name) == (Verb.HOLDING, "c", KEEPER, "n2")
    assert 0 < asked.expires - asked.issued <= 30_000


def test_a_promise_names_the_epoch_and_its_writer(keeper: Keeper) -> None:
    assert asyncio.run(asker().promise(NODE, 4, ME)) == HOLDING
    assert (keeper.asked[0].stamp, keeper.asked[0].sender) == (Stamp(4, ME, 0), "n1")
    higher = Holding(5, KEEPER)
    keeper.say = lambda _: Answer(Word.OUTBID, higher)
    with pytest.raises(Outbid) as error:
        asyncio.run(asker().promise(NODE, 4, ME))
    assert error.value.holding == higher


def test_a_long_part_travels_in_pieces(keeper: Keeper) -> None:
    body = bytes(range(256)) * (PIECE // 100)
    part = replace(WHOLE, body=body)

    def say(request: Request) -> Answer:
        assert request.header is not None
        end = request.offset + len(request.piece)
        if end < request.header.size:
            return Answer(Word.MORE, size=end)
        return Answer(Word.WRITTEN, stamp=request.header.stamp, sum=request.header.sum)

    keeper.say = say
    assert asyncio.run(asker().put(NODE, part)) == part.stamp
    assert b"".join(one.piece for one in keeper.asked) == body
    assert len(keeper.asked) == 3
    assert {(one.header, one.sender) for one in keeper.asked} == {(Header.of(part), "n1")}


def written(stamp: Stamp, sum_: str) -> Answer:
    return Answer(Word.WRITTEN, stamp=stamp, sum=sum_)


@pytest.mark.parametrize(
    ("answer", "error", "why"),
    [
        (Answer(Word.WHOLE_WANTED, HOLDING), WholeWanted, "before this one"),
        (Answer(Word.OUTBID, HOLDING), Outbid, "promised epoch 3"),
        (Answer(Word.AGAIN), Unavailable, "lost the first pieces"),
        (Answer(Word.MORE, size=3), Unavailable, "lost the first pieces"),
        (Answer(Word.FAILED, why="No space left"), Unavailable, "No space left"),
        (written(WHOLE.stamp, Header.of(CHANGE).sum), MessageError, "another part"),
        (written(STAMP, "0" * 64), MessageError, "another part"),
        (Answer(Word.MORE, size=6), MessageError, "another part"),
    ],
)
def test_a_part_that_is_not_kept(
    keeper: Keeper, answer: Answer, error: type[Exception], why: str
) -> None:
    keeper.say = lambda _: answer
    with pytest.raises(error, match=why):
        asyncio.run(asker().put(NODE, CHANGE))


RAW = write_part(WHOLE) + write_part(CHANGE)


def chunked(raw: bytes, size: int | None = None, most: int = 100) -> Callable[[Request], Answer]:
    def say(request: Request) -> Answer:
        piece = raw[request.offset : request.offset + most]
        return Answer(Word.PIECE, size=len(raw) if size is None else size, piece=piece)

    return say


def test_a_copy_is_fetched_in_pieces(keeper: Keeper) -> None:
    keeper.say = chunked(RAW)
    assert asyncio.run(asker().fetch(NODE, STAMP)) == [WHOLE, CHANGE]
    assert {one.stamp for one in keeper.asked} == {STAMP}
    assert len(keeper.asked) == len(RAW) // 100 + 1


def growing(request: Request) -> Answer:
    return Answer(Word.PIECE, size=len(RAW) + len(request.id) * request.offset, piece=b"x")


@pytest.mark.parametrize(
    ("say", "error", "why"),
    [
        (lambda _: Answer(Word.GONE), Unavailable, "does not keep this copy any more"),
        (lambda _: HELD, MessageError, "not with a piece"),
        (lambda _: Answer(Word.PIECE, size=9), MessageError, "not with a piece"),
        (growing, MessageError, "length changes"),
        (chunked(RAW, size=2**40), MessageError, "more than"),
        (chunked(RAW, size=50), MessageError, "gives more"),
        (chunked(RAW[:-1]), MessageError, "cut or changed"),
        (chunked(write_part(CHANGE)), MessageError, "not on top of each other"),
        (chunked(write_part(WHOLE)), MessageError, "another copy"),
    ],
)
def test_a_copy_that_is_not_whole(
    keeper: Keeper, say: Callable[[Request], Answer], error: type[Exception], why: str
) -> None:
    keeper.say = say
    with pytest.raises(error, match=why):
        asyncio.run(asker().fetch(NODE, STAMP))


@pytest.mark.parametrize(
    ("seal", "changes", "why"),
    [
        ({"key": Key(b"another cluster's key, long enough\n")}, {}, "does not match"),
        ({"salt": str(uuid4())}, {}, "another question"),
        ({"purpose": Purpose.TESTIMONY}, {}, "does not match"),
        ({}, {"cluster": "d"}, "cluster is not the one"),
        ({}, {"name": "n3"}, "name is not the one"),
        ({}, {"node": ME}, "node is not the one"),
        ({}, {"verb": "put"}, "verb is not the one"),
        ({}, {"v": 2}, 'of version "2"'),
        ({}, {"key": "00" * 32}, "does not match the node key|cannot be used"),
    ],
)
def test_an_answer_that_is_not_genuine(
    keeper: Keeper, seal: dict[str, Any], changes: dict[str, Any], why: str
) -> None:
    keeper.seal, keeper.changes = seal, changes
    with pytest.raises(MessageError, match=why):
        asyncio.run(asker().holding(NODE))


def test_an_answer_must_be_signed_with_the_pinned_key(keeper: Keeper) -> None:
    def pinned(pin: str) -> Snapshot:
        node = replace(NODE, tags=frozenset({f"nodeagent:key:{pin}"}))
        return replace(WORLD, nodes={**WORLD.nodes, "n2": node})

    mine = pinned(fingerprint(keeper.public))
    assert asyncio.run(asker(mine).holding(NODE)) == HOLDING
    with pytest.raises(MessageError, match="pinned to"):
        asyncio.run(asker(pinned("0" * 64)).holding(NODE))
    keeper.signs = False
    with pytest.raises(MessageError, match="not signed with it"):
        asyncio.run(asker(mine).holding(NODE))
    keeper.changes = {"key": ""}
    with pytest.raises(MessageError, match="it is not signed"):
        asyncio.run(asker(mine).holding(NODE))
    with pytest.raises(MessageError, match="require-node-keys"):
        asyncio.run(asker(require_node_keys=True).holding(NODE))


@pytest.mark.parametrize(
    ("status", "error"),
    [(404, Unable), (405, Unable), (403, Unavailable), (429, Unavailable), (503, Unavailable)],
)
def test_an_agent_that_refuses_or_is_too_old(
    keeper: Keeper, status: int, error: type[Unavailable]
) -> None:
    keeper.status = status
    with pytest.raises(error) as caught:
        asyncio.run(asker().holding(NODE))
    assert type(caught.value) is error


def test_each_call_ends_at_its_deadline(keeper: Keeper) -> None:
    keeper.waits = 5.0
    one = asker()
    calls = (
        one.holding(NODE, 0.05),
        one.promise(NODE, 4, ME, 0.05),
        one.put(NODE, CHANGE, 0.05),
        one.fetch(NODE, STAMP, 0.05),
    )
    for call in calls:
        with pytest.raises(Unavailable, match=r"no answer within 0.05 s"):
            asyncio.run(call)


def test_rubbish_is_not_genuine(monkeypatch: pytest.MonkeyPatch) -> None:
    for body in (b"", b"[]", json.dumps({"msg": "{}"}).encode()):

        async def fetch(*_: Any, body: bytes = body, **__: Any) -> Answered:
            return Answered(200, body, "")

        monkeypatch.setattr(module, "fetch_url", lambda *a, _f=fetch, **k: _f())
        with pytest.raises(MessageError):
            asyncio.run(asker().holding(NODE))
