"""Copies of the ledger on the wire: each value as it is written, and all that is not one."""

import json
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeagent.errors import MessageError
from nodeagent.model.copies import Holding, Kept, Part, Stamp
from nodeagent.model.units import Ms
from nodeagent.protocol import parts
from nodeagent.protocol.bounds import CANDIDATES
from nodeagent.protocol.canonical import MAX_BYTES, canonical, read_text
from nodeagent.protocol.copies import (
    PIECE,
    Answer,
    Request,
    Verb,
    Word,
    answer_body,
    answer_of,
    open_request,
    pieces_of,
    promise_of,
    request_bytes,
    seal_request,
)
from nodeagent.protocol.envelope import Key, Purpose, open_outer, seal
from nodeagent.protocol.parts import Header, head_of, read_parts
from nodeagent.protocol.signature import sign, verify
from tests.agent.place import client_pem
from tests.protocol.parts import write_part

ME, OTHER = str(uuid4()), str(uuid4())
KEY = Key(b"a key of the cluster, long enough\n")
AT = Ms(1_800_000_000_000)


def part(number: int = 7, body: bytes = b"body", base: int | None = None, epoch: int = 3) -> Part:
    below = None if base is None else Stamp(epoch, ME, base)
    return Part(Stamp(epoch, ME, number), below, AT, (ME, OTHER), "0a" * 32, body)


def request(verb: Verb = Verb.HOLDING, **more: Any) -> Request:
    return Request(str(uuid4()), "c", ME, "n1", "n2", AT, AT + 30_000, verb, **more)


def put(one: Part, **more: Any) -> Request:
    return request(Verb.PUT, header=Header.of(one), **{"piece": one.body, **more})


HOLDING = Holding(3, ME, (Kept(Stamp(3, ME, 7), AT, (ME, OTHER), "0a" * 32, 2, 700),))
REQUESTS = [
    request(),
    request(Verb.PROMISE, stamp=promise_of(4, ME)),
    request(Verb.FETCH, stamp=Stamp(3, ME, 7), offset=500),
    put(part()),
    put(part(base=6)),
    put(part(body=b"")),
    put(part(body=b"ab"), offset=1, piece=b"b"),
]
ANSWERS = [
    Answer(Word.HOLDING, HOLDING),
    Answer(Word.OUTBID, Holding()),
    Answer(Word.WHOLE_WANTED, HOLDING),
    Answer(Word.WRITTEN, stamp=Stamp(3, ME, 7), sum="0b" * 32),
    Answer(Word.MORE, size=5),
    Answer(Word.AGAIN),
    Answer(Word.PIECE, size=700, piece=bytes(range(256))),
    Answer(Word.GONE),
    Answer(Word.FAILED, why="No space left on device"),
]


@pytest.mark.parametrize("one", REQUESTS, ids=lambda one: one.verb.value)
def test_a_request_arrives_as_it_was_sent_with_its_signer(one: Request) -> None:
    pem, digest = client_pem()
    raw = seal_request(KEY, one, *sign(pem, request_bytes(KEY, one)))
    opened, proof = open_request(KEY, raw)
    assert opened == one
    certificate, signature = sign(pem, proof.signed)
    assert verify(certificate, signature, proof.signed) == digest


@pytest.mark.parametrize("one", ANSWERS, ids=lambda one: one.word.value)
def test_an_answer_arrives_as_it_was_sent(one: Answer) -> None:
    asked = request()
    document = read_text(canonical(answer_body(asked, "c", "n1", ME, one)))
    assert answer_of(document, asked) == one


def test_the_largest_request_and_answer_fit_their_messages() -> None:
    many = tuple(str(uuid4()) for _ in range(CANDIDATES))
    stamp = Stamp(2**63 - 1, ME, 2**63 - 1)
    one = put(Part(stamp, None, AT, many, "ff" * 64, bytes(PIECE + 1)), piece=bytes(PIECE))
    raw = seal_request(KEY, one, "c" * 16384, b"s" * 1024)
    assert len(raw) <= MAX_BYTES
    assert open_request(KEY, raw)[0] == one


@pytest.mark.parametrize(
    ("member", "value", "why"),
    [
        ("verb", "erase", "verb is not a known word"),
        ("v", 2, 'of version "2"'),
        ("id", "x", "id is not of the form"),
        ("stamp", [1, ME, 1], "stamp does not go with put"),
        ("part", None, "part does not go with put"),
        ("part", [], "part is not an object"),
        ("offset", -1, "offset is not a count"),
        ("piece", "x", "not base64"),
        ("piece", None, "not base64"),
        ("piece", "Ym9keQ", "not base64"),
        ("piece", "Ym9keR==", "not base64"),
        ("piece", "Ym9keWI=", "not a piece of the body"),
        ("piece", "", "not a piece of the body"),
        ("offset", 1, "not a piece of the body"),
    ],
)
def test_a_wrong_request_is_refused_with_its_member(member: str, value: object, why: str) -> None:
    with pytest.raises(MessageError, match=why):
        Request.from_body({**put(part()).body(), member: value})


@pytest.mark.parametrize(
    ("member", "value", "why"),
    [
        ("stamp", None, "not an epoch, a writer and a number"),
        ("stamp", [1, ME], "not an epoch"),
        ("stamp", [True, ME, 1], "not a count"),
        ("stamp", [1, ME, 2**63], "not a count"),
        ("stamp", [1, "n1", 1], "not a UUID"),
        ("base", [3, OTHER, 7], "not older"),
        ("candidates", None, "candidates is not a list"),
        ("candidates", ["n1"], "not a UUID"),
        ("candidates", [ME] * (CANDIDATES + 1), "candidates is not a list"),
        ("digest", "a" * 129, "digest is not a text"),
        ("size", 2**40, "size is more than"),
        ("sum", "a", "sum is not of the form"),
    ],
)
def test_a_wrong_part_is_refused_with_its_member(member: str, value: object, why: str) -> None:
    body = put(part()).body()
    body["part"][member] = value
    with pytest.raises(MessageError, match=why):
        Request.from_body(body)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"word": "yes"}, "not a known word"),
        ({"holding": None}, "does not go with holding"),
        ({"stamp": [3, ME, 7]}, "does not go with holding"),
        ({"holding": []}, "not an object"),
        ({"holding": {"v": 1, "epoch": 1, "writer": "x", "kept": []}}, "not a UUID"),
        ({"holding": {"v": 1, "epoch": 1, "writer": "", "kept": [{}] * 4}}, "at most 3"),
        ({"holding": {"v": 1, "epoch": 1, "writer": "", "kept": [1]}}, "not an object"),
        ({"holding": {"v": 1, "epoch": "1", "writer": "", "kept": []}}, "not a count"),
        ({"cluster": "d"}, "cluster is not the one asked for"),
        ({"name": "n9"}, "name is not the one asked for"),
        ({"node": OTHER}, "node is not the one asked for"),
        ({"verb": "put"}, "verb is not the one asked for"),
    ],
)
def test_a_wrong_answer_is_refused_with_its_member(changes: dict[str, Any], why: str) -> None:
    asked = request()
    body = answer_body(asked, "c", "n1", ME, Answer(Word.HOLDING, HOLDING))
    with pytest.raises(MessageError, match=why):
        answer_of({**body, **changes}, asked)


def test_a_request_under_anothers_salt_is_refused() -> None:
    body = request().body()
    sealed = json.loads(seal(KEY, Purpose.COPIES, str(uuid4()), body))
    raw = json.dumps({**sealed, "certificate": "", "signature": ""}).encode()
    with pytest.raises(MessageError, match="salt of a request is its id"):
        open_request(KEY, raw)
    with pytest.raises(MessageError, match="signature does not match"):
        open_outer(KEY, Purpose.WITNESS, sealed["salt"], sealed)


COPY = [part(7, b"whole"), part(8, b"", base=7), part(11, b"change" * 9, base=8)]
RAW = b"".join(map(write_part, COPY))


@given(st.lists(st.binary(max_size=300), min_size=1, max_size=5))
def test_a_copy_is_read_back_as_it_was_written(bodies: list[bytes]) -> None:
    made = [part(i, body, base=i - 1 if i else None) for i, body in enumerate(bodies)]
    assert read_parts(b"".join(map(write_part, made))) == made


def test_a_copy_that_is_cut_anywhere_is_refused_or_ends_with_a_whole_part() -> None:
    ends = {0}
    for one in COPY:
        ends.add(max(ends) + len(write_part(one)))
    for end in range(len(RAW)):
        if end in ends - {0}:
            assert read_parts(RAW[:end])[-1] in COPY
            continue
        with pytest.raises(MessageError):
            read_parts(RAW[:end])


def test_a_changed_byte_anywhere_is_refused() -> None:
    for at in range(len(RAW)):
        with pytest.raises(MessageError):
            read_parts(RAW[:at] + bytes([RAW[at] ^ 1]) + RAW[at + 1 :])


def swapped() -> bytes:
    return write_part(COPY[0]) + write_part(COPY[2])


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: b"", "an empty copy"),
        (lambda: write_part(COPY[1]), "not on top of each other"),
        (swapped, "not on top of each other"),
        (lambda: write_part(COPY[0]) * 2, "not on top of each other"),
        (lambda: b"\xff\xff\xff\xff" + RAW, "no part begins here"),
        (lambda: (4).to_bytes(4, "big") + b"[{}]", "not an object"),
    ],
)
def test_parts_that_are_no_copy_are_refused(make: Callable[[], bytes], why: str) -> None:
    with pytest.raises(MessageError, match=why):
        read_parts(make())


def test_a_copy_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "MOST_PARTS", 2)
    with pytest.raises(MessageError, match="more than 2 parts"):
        read_parts(RAW)
    monkeypatch.setattr(parts, "MOST_COPY", 100)
    with pytest.raises(MessageError, match="more than 100 bytes"):
        read_parts(RAW)


@given(st.integers(0, 3), st.integers(-1, 1))
def test_pieces_are_the_body(times: int, more: int) -> None:
    body = bytes(max(0, times * PIECE + more))
    pieces = pieces_of(body)
    assert b"".join(piece for _, piece in pieces) == body
    assert [offset for offset, _ in pieces] == [i * PIECE for i in range(len(pieces))]
    assert pieces
    assert all(len(piece) == PIECE for _, piece in pieces[:-1])


def test_a_head_names_its_body_and_no_other() -> None:
    header = Header.of(part(body=b"one"))
    assert header.part(b"one").body == b"one"
    for other in (b"two", b"on", b""):
        with pytest.raises(MessageError, match="not the one that its header names"):
            header.part(other)
    assert head_of(header) != head_of(Header.of(part(body=b"two")))
