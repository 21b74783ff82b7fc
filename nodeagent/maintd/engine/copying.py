"""Ask the agents of the master candidates to keep copies of the ledger, and to give them back.

Each answer must prove its cluster and its node, as a report must.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from nodeagent.errors import MessageError, Unavailable
from nodeagent.maintd.copies.refusals import Outbid, WholeWanted
from nodeagent.maintd.engine.witnesses import Unable
from nodeagent.maintd.planning.node_keys import pins_of
from nodeagent.model.copies import Holding, Part, Stamp
from nodeagent.model.snapshot import Node, Snapshot
from nodeagent.model.units import Ms
from nodeagent.protocol.canonical import read
from nodeagent.protocol.copies import (
    Answer,
    Request,
    Verb,
    Word,
    answer_of,
    pieces_of,
    promise_of,
    request_bytes,
    seal_request,
)
from nodeagent.protocol.envelope import Key, Purpose, open_outer
from nodeagent.protocol.messages import fingerprint, key_of
from nodeagent.protocol.node_key import NO_PINS, Pins, check_signature
from nodeagent.protocol.parts import MOST_COPY, Header, read_parts
from nodeagent.protocol.signature import sign
from nodeagent.web.client import fetch as fetch_url
from nodeagent.web.tls import untrusting_tls

_LIFE = 30_000  # ms a request is valid
_MOST = 2 * 1024 * 1024  # bytes of an answer: half a MiB of a copy as base64, twice framed


@dataclass(slots=True)
class Asker:
    """Asks in the name of this master candidate; the members are those of `Questions`.

    `follow` it the cluster's configuration before the first call and whenever that changes. Each
    call ends after `seconds`. It raises Unavailable if there is no answer, Unable if the agent is
    too old, MessageError if the answer is not genuine, Outbid if the agent has promised a higher
    epoch.
    """

    key: Key
    certificate: bytes
    port: int
    tls: bool
    now: Callable[[], Ms]
    require_node_keys: bool = False
    _cluster: str = field(default="", init=False)
    _names: dict[str, str] = field(default_factory=dict, init=False)
    _pins: Pins = field(default=NO_PINS, init=False)

    def follow(self, snapshot: Snapshot) -> None:
        """Use this configuration from now on: its names and the nodes' pinned keys."""
        self._cluster = snapshot.cluster
        self._names = {node.uuid: name for name, node in snapshot.nodes.items()}
        self._pins = pins_of(snapshot, required=self.require_node_keys)

    async def holding(self, node: Node, seconds: float = 5.0) -> Holding:
        """Return what the agent keeps and has promised."""
        async with _deadline(seconds):
            return _held(await self._ask(node, Verb.HOLDING))

    async def promise(self, node: Node, epoch: int, writer: str, seconds: float = 5.0) -> Holding:
        """Make the agent refuse all lower epochs; return what it keeps."""
        async with _deadline(seconds):
            promise = promise_of(epoch, writer)
            return _held(await self._ask(node, Verb.PROMISE, writer, stamp=promise))

    async def put(self, node: Node, part: Part, seconds: float = 30.0) -> Stamp:
        """Return the part's stamp once it is on the agent's disk. WholeWanted: not its base."""
        header = Header.of(part)
        async with _deadline(seconds):
            for offset, piece in pieces_of(part.body):
                about: dict[str, Any] = {"header": header, "offset": offset, "piece": piece}
                answer = await self._ask(node, Verb.PUT, part.stamp.writer, **about)
                if answer.word is Word.WRITTEN:  # maybe before the last: it had this part already
                    break
                if answer.word is not Word.MORE or answer.size != offset + len(piece):
                    raise Unavailable("it has lost the first pieces of the part")
        if answer.stamp != part.stamp or answer.sum != header.sum:
            raise MessageError("it has written another part than the one that it was sent")
        return part.stamp

    async def fetch(self, node: Node, stamp: Stamp, seconds: float = 60.0) -> list[Part]:
        """Return a copy up to this stamp, the whole part first."""
        raw = bytearray()
        async with _deadline(seconds):
            size = 1
            while len(raw) < size:
                answer = await self._ask(node, Verb.FETCH, stamp=stamp, offset=len(raw))
                if answer.word is Word.GONE:
                    raise Unavailable("it does not keep this copy any more")
                if answer.word is not Word.PIECE or not answer.piece:
                    raise MessageError(f"it answers with {answer.word.value!r}, not with a piece")
                if raw and answer.size != size:
                    raise MessageError("the copy's length changes while it is fetched")
                if answer.size > MOST_COPY:
                    raise MessageError(f"the copy has more than {MOST_COPY} bytes")
                size = answer.size
                raw += answer.piece
        if len(raw) > size:
            raise MessageError("it gives more of the copy than there is")
        parts = await asyncio.to_thread(read_parts, bytes(raw))
        if parts[-1].stamp != stamp:
            raise MessageError("it gives another copy than the one asked for")
        return parts

    async def _ask(self, node: Node, verb: Verb, writer: str = "", **about: Any) -> Answer:
        """The proven answer to one request. Refusals are raised."""
        now = self.now()
        who = self._cluster, node.uuid, node.name, self._names.get(writer, "")
        request = Request(str(uuid4()), *who, now, now + _LIFE, verb, **about)
        sealed = await asyncio.to_thread(self._sealed, request)
        answer = await fetch_url(
            node.address,
            self.port,
            "/1/copies",
            seconds=_LIFE / 1000,
            method="POST",
            body=sealed,
            tls=untrusting_tls() if self.tls else None,
            most=_MOST,
        )
        if answer.status in (404, 405):
            raise Unable("its agent is too old to keep copies of the ledger")
        if answer.status != 200:
            raise Unavailable(f"answered with HTTP status {answer.status}")
        outer = read(answer.body, limit=_MOST, depth=1)
        document = open_outer(self.key, Purpose.COPIED, request.id, outer)
        signer = key_of(document)
        check_signature(signer, outer)
        if why := self._pins.why_not(node.name, fingerprint(signer)):
            raise MessageError(why)
        said = answer_of(document, request)
        if said.word is Word.FAILED:
            raise Unavailable(f"it cannot keep copies: {said.why}")
        if said.word is Word.OUTBID and said.holding is not None:
            raise Outbid(said.holding, f"it has promised epoch {said.holding.epoch}")
        if said.word is Word.WHOLE_WANTED and said.holding is not None:
            raise WholeWanted(said.holding, "it does not have the part before this one")
        return said

    def _sealed(self, request: Request) -> bytes:
        signed = sign(self.certificate, request_bytes(self.key, request))
        return seal_request(self.key, request, *signed)


def _held(answer: Answer) -> Holding:
    if answer.holding is None:
        raise MessageError(f"it answers with {answer.word.value!r}, not with its copies")
    return answer.holding


@asynccontextmanager
async def _deadline(seconds: float) -> AsyncIterator[None]:
    """End the block after so many seconds, with Unavailable."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        raise Unavailable(f"no answer within {seconds:g} s") from None
