"""Copies of the ledger on the wire: maintd's requests, the agents' answers, the parts. Pure.

A request is sealed and signed as an order is, and its salt is its id. The answer is sealed with the
request's id as its salt, and signed with the node's own key. A body is a compressed text that only
maintd reads; one that is longer than a message travels in pieces.
"""

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from nodeagent.errors import MessageError
from nodeagent.model.copies import Holding, Kept, Stamp
from nodeagent.model.units import Ms
from nodeagent.protocol.bounds import NAME, WHY, cut
from nodeagent.protocol.envelope import Key, Purpose, open_outer, seal
from nodeagent.protocol.messages import IDENTITY, VERSION, Fields
from nodeagent.protocol.order import Proof, bytes_of, proof_of, read_outer, with_proof
from nodeagent.protocol.parts import DIGEST, Header, candidates_of, stamp_of

PIECE = 96 * 1024  # bytes of a body in one request: 128 KiB as base64, and 256 KiB are the limit
CHUNK = 512 * 1024  # bytes of a copy in one answer
COPIES = 3  # that an agent keeps


class Verb(Enum):
    HOLDING = "holding"  # which copies do you keep?
    PROMISE = "promise"  # refuse all epochs below this one
    PUT = "put"  # keep this part
    FETCH = "fetch"  # give me this copy


class Word(Enum):
    """The kind of an answer."""

    HOLDING = "holding"
    OUTBID = "outbid"  # a higher epoch is promised, or this one to another writer
    WHOLE_WANTED = "whole-wanted"  # the part's base is not the newest part here
    WRITTEN = "written"  # the part is on the disk
    MORE = "more"  # the next piece, please
    AGAIN = "again"  # the pieces before this one are gone: begin with the first
    PIECE = "piece"
    GONE = "gone"  # there is no such copy
    FAILED = "failed"  # the disk refused


@dataclass(frozen=True, slots=True)
class Request:
    """A request of maintd to one agent. Times are unix ms.

    `sender` is the name of the node that promises and parts are for, as the sender knows it.
    `stamp` is the copy to fetch, or the promise: its epoch and writer. `offset` and `piece` are of
    the part's body, or of the copy to fetch. `header` belongs to a put.
    """

    id: str
    cluster: str
    node: str
    name: str
    sender: str
    issued: Ms
    expires: Ms
    verb: Verb
    stamp: Stamp | None = None
    header: Header | None = None
    offset: int = 0
    piece: bytes = b""

    def body(self) -> dict[str, Any]:
        who = {name: getattr(self, name) for name in _WHO}
        return {
            **who,
            "verb": self.verb.value,
            "stamp": None if self.stamp is None else list(self.stamp),
            "part": None if self.header is None else self.header.body() | {"v": VERSION},
            "offset": self.offset,
            "piece": _encoded(self.piece),
            "v": VERSION,
        }

    @classmethod
    def from_body(cls, document: dict[str, Any]) -> "Request":
        """Read an opened message, or raise MessageError naming the wrong member."""
        take = Fields("request", document)
        try:
            verb = Verb(document.get("verb"))
        except ValueError:
            raise MessageError("request.verb is not a known word") from None
        stamp, part = document.get("stamp"), document.get("part")
        if (stamp is None) == (verb in (Verb.PROMISE, Verb.FETCH)):
            raise MessageError(f"request.stamp does not go with {verb.value}")
        if (part is None) == (verb is Verb.PUT):
            raise MessageError(f"request.part does not go with {verb.value}")
        if part is not None and not isinstance(part, dict):
            raise MessageError("request.part is not an object")
        found = cls(
            id=take.matching("id", IDENTITY),
            cluster=take.text("cluster"),
            node=take.text("node"),
            name=take.text("name"),
            sender=take.text("sender", NAME),
            issued=Ms(take.number("issued")),
            expires=Ms(take.number("expires")),
            verb=verb,
            stamp=None if stamp is None else stamp_of(stamp),
            header=None if part is None else Header.from_body(part),
            offset=take.number("offset"),
            piece=_piece(document.get("piece"), PIECE),
        )
        if found.header is not None:
            end = found.offset + len(found.piece)
            if end > found.header.size or (not found.piece and end < found.header.size):
                raise MessageError("request.piece is not a piece of the body that the part names")
        return found


_WHO = ("id", "cluster", "node", "name", "sender", "issued", "expires")


@dataclass(frozen=True, slots=True)
class Answer:
    """An agent's answer; each word has its members, the others are empty.

    `holding` goes with HOLDING, OUTBID and WHOLE_WANTED; `stamp` and `sum` with WRITTEN; `size` is
    the number of bytes that have come with MORE, and those of the whole copy with PIECE; `why`
    goes with FAILED.
    """

    word: Word
    holding: Holding | None = None
    stamp: Stamp | None = None
    sum: str = ""
    size: int = 0
    piece: bytes = b""
    why: str = ""

    def body(self) -> dict[str, Any]:
        return {
            "word": self.word.value,
            "holding": None if self.holding is None else _holding_body(self.holding),
            "stamp": None if self.stamp is None else list(self.stamp),
            "sum": self.sum,
            "size": self.size,
            "piece": _encoded(self.piece),
            "why": self.why,
        }

    @classmethod
    def from_body(cls, document: dict[str, Any]) -> "Answer":
        """Read the members, or raise MessageError naming the wrong one."""
        take = Fields("answer", document)
        try:
            word = Word(document.get("word"))
        except ValueError:
            raise MessageError("answer.word is not a known word") from None
        holding, stamp = document.get("holding"), document.get("stamp")
        if (holding is None) == (word in (Word.HOLDING, Word.OUTBID, Word.WHOLE_WANTED)):
            raise MessageError(f"answer.holding does not go with {word.value}")
        if (stamp is None) == (word is Word.WRITTEN):
            raise MessageError(f"answer.stamp does not go with {word.value}")
        return cls(
            word,
            holding=None if holding is None else _holding(holding),
            stamp=None if stamp is None else stamp_of(stamp),
            sum=take.text("sum", 64),
            size=take.number("size"),
            piece=_piece(document.get("piece"), CHUNK),
            why=cut(take.text("why", 16 * WHY), WHY),
        )


# Requests and answers in their envelopes.


def request_bytes(key: Key, request: Request) -> bytes:
    """The bytes the master candidate's key signs."""
    return bytes_of(seal(key, Purpose.COPIES, request.id, request.body()))


def seal_request(key: Key, request: Request, certificate: str, signature: bytes) -> bytes:
    """Compose maintd's message. `signature` is over `request_bytes`."""
    sealed = seal(key, Purpose.COPIES, request.id, request.body())
    return with_proof(sealed, certificate, signature)


def open_request(key: Key, raw: bytes) -> tuple[Request, Proof]:
    """Check the cluster's seal and read the request, or raise MessageError."""
    outer = read_outer(raw)
    request = Request.from_body(open_outer(key, Purpose.COPIES, outer["salt"], outer))
    if request.id != outer["salt"]:
        raise MessageError("the salt of a request is its id")
    return request, proof_of(outer)


def answer_body(
    request: Request, cluster: str, name: str, node: str, answer: Answer
) -> dict[str, Any]:
    """Return the members to seal."""
    who = {"cluster": cluster, "name": name, "node": node, "verb": request.verb.value}
    return {**answer.body(), **who, "v": VERSION}


def answer_of(document: dict[str, Any], request: Request) -> Answer:
    """Read the opened answer to our request, or raise MessageError."""
    take = Fields("answer", document)
    for member, asked in (
        ("cluster", request.cluster),
        ("name", request.name),
        ("verb", request.verb.value),
    ):
        if take.text(member) != asked:
            raise MessageError(f"answer.{member} is not the one asked for")
    if take.text("node") not in ("", request.node):
        raise MessageError("answer.node is not the one asked for")
    return Answer.from_body(document)


# Values.


def _holding_body(holding: Holding) -> dict[str, Any]:
    return {
        "epoch": holding.epoch,
        "writer": holding.writer,
        "kept": [
            {
                "stamp": list(one.stamp),
                "at": one.at,
                "candidates": list(one.candidates),
                "digest": one.digest,
                "parts": one.parts,
                "bytes": one.bytes,
                "v": VERSION,
            }
            for one in holding.kept
        ],
        "v": VERSION,
    }


def _holding(document: Any) -> Holding:
    if not isinstance(document, dict):
        raise MessageError("answer.holding is not an object")
    take = Fields("holding", document)
    kept = document.get("kept")
    if not isinstance(kept, list) or len(kept) > COPIES:
        raise MessageError(f"holding.kept is not a list of at most {COPIES} copies")
    writer = take.text("writer")
    if writer and not IDENTITY.fullmatch(writer):
        raise MessageError("holding.writer is not a UUID")
    return Holding(take.number("epoch"), writer, tuple(map(_kept, kept)))


def _kept(document: Any) -> Kept:
    if not isinstance(document, dict):
        raise MessageError("holding.kept has a member that is not an object")
    take = Fields("copy", document)
    return Kept(
        stamp_of(document.get("stamp")),
        Ms(take.number("at")),
        candidates_of(document.get("candidates")),
        take.text("digest", DIGEST),
        take.number("parts"),
        take.number("bytes"),
    )


def promise_of(epoch: int, writer: str) -> Stamp:
    """A promise as a stamp: it has no number."""
    return Stamp(epoch, writer, 0)


def pieces_of(body: bytes) -> Sequence[tuple[int, bytes]]:
    """The pieces of a body with their offsets; an empty body has one, which is empty."""
    return [(at, body[at : at + PIECE]) for at in range(0, len(body) or 1, PIECE)]


def _encoded(piece: bytes) -> str:
    return base64.b64encode(piece).decode()


def _piece(value: Any, most: int) -> bytes:
    if not isinstance(value, str) or len(value) > 4 * (most // 3 + 1):
        raise MessageError(f"a piece is not base64 of at most {most} bytes")
    try:
        piece = base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise MessageError("a piece is not base64") from None
    if _encoded(piece) != value or len(piece) > most:
        raise MessageError(f"a piece is not base64 of at most {most} bytes")
    return piece
