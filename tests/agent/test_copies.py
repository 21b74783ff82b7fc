"""Requests about copies of the ledger: who may make which, how often, and what is answered."""

import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

import pytest

from nodeagent.agent import asked as module
from nodeagent.agent.copies import A_MINUTE, Copies
from nodeagent.agent.link import Frame
from nodeagent.agent.signer import signer
from nodeagent.agent.ssconf import Ssconf
from nodeagent.model.copies import Holding, Part, Stamp
from nodeagent.model.units import Ms
from nodeagent.protocol.copies import (
    PIECE,
    Answer,
    Verb,
    Word,
    answer_of,
    open_request,
    pieces_of,
    promise_of,
)
from nodeagent.protocol.envelope import Purpose
from nodeagent.protocol.order import Proof
from nodeagent.protocol.parts import Header, read_parts
from tests.agent.place import (
    NODE,
    Clock,
    Place,
    client_pem,
    safe_folder,
    sealed_order,
    sealed_question,
    sealed_request,
)
from tests.patience import dawdle

AT = Ms(1_800_000_000_000)
OTHER = "node2.example"


@pytest.fixture
def place() -> Iterator[Place]:
    with safe_folder() as folder:
        yield Place(folder)


@dataclass
class Candidate:
    """Another master candidate, with its own key."""

    uuid: str
    pem: bytes


@pytest.fixture
def other(place: Place) -> Candidate:
    pem, digest = client_pem()
    one = Candidate(str(uuid4()), pem)
    lines = f"{place.uuid}={place.master_digest}\n{one.uuid}={digest}\n"
    place.ssconf("master_candidates_certs", lines)
    return one


def keeper(place: Place, clock: Clock | None = None) -> Copies:
    ssconf, state = Ssconf(place.load().agent), str(place.folder)
    return Copies(ssconf, place.sealed, state, steady=clock or Clock())


def asked(one: Copies, raw: bytes) -> Frame:
    return asyncio.run(one.ask({"request": raw.decode()}, None))


def opened(place: Place, raw: bytes, sealed: bytes) -> Answer:
    """The answer, proven as maintd proves it."""
    request, _ = open_request(place.key, raw)
    return answer_of(place.proven(Purpose.COPIED, request.id, sealed), request)


def answered(place: Place, one: Copies, raw: bytes) -> Answer:
    frame = asked(one, raw)
    assert "sealed" in frame, frame
    return opened(place, raw, frame["sealed"].encode())


def part_of(writer: str, number: int = 7, epoch: int = 3, base: Stamp | None = None) -> Part:
    return Part(Stamp(epoch, writer, number), base, AT, (writer,), "0a", b"body %d" % number)


def put(place: Place, part: Part, pem: bytes = b"", **changes: Any) -> bytes:
    about = {"header": Header.of(part), "piece": part.body, **changes}
    return sealed_request(place, Verb.PUT, pem, **about)


def promise(place: Place, epoch: int, writer: str, pem: bytes = b"", **changes: Any) -> bytes:
    return sealed_request(place, Verb.PROMISE, pem, stamp=promise_of(epoch, writer), **changes)


def test_copies_are_kept_and_given_back(place: Place) -> None:
    one = keeper(place)
    assert answered(place, one, sealed_request(place)) == Answer(Word.HOLDING, Holding())
    first = part_of(place.uuid)
    second = part_of(place.uuid, 8, base=first.stamp)
    for part in (first, second):
        said = answered(place, one, put(place, part))
        assert said == Answer(Word.WRITTEN, stamp=part.stamp, sum=Header.of(part).sum)
    again = keeper(place, Clock())  # restarted
    again._taken._began = Ms(0)
    holding = answered(place, again, sealed_request(place)).holding
    assert holding is not None
    assert (holding.epoch, holding.writer) == (3, place.uuid)
    assert [kept.stamp for kept in holding.kept] == [second.stamp]
    said = answered(place, again, sealed_request(place, Verb.FETCH, stamp=second.stamp))
    assert (said.word, said.size) == (Word.PIECE, len(said.piece))
    assert read_parts(said.piece) == [first, second]
    gone = sealed_request(place, Verb.FETCH, stamp=Stamp(3, place.uuid, 9))
    assert answered(place, again, gone).word is Word.GONE


def test_an_older_maintd_is_outbid(place: Place, other: Candidate) -> None:
    one = keeper(place)
    assert answered(place, one, put(place, part_of(place.uuid))).word is Word.WRITTEN
    said = answered(place, one, promise(place, 4, other.uuid, other.pem))
    assert said.word is Word.HOLDING
    assert said.holding is not None
    assert (said.holding.epoch, said.holding.writer) == (4, other.uuid)
    late = part_of(place.uuid, 8, base=part_of(place.uuid).stamp)
    assert answered(place, one, put(place, late)) == Answer(Word.OUTBID, said.holding)
    for epoch in (3, 4):  # a lower one, and the same of another writer
        assert answered(place, one, promise(place, epoch, place.uuid)).word is Word.OUTBID
    wrong_base = part_of(place.uuid, 9, epoch=5, base=Stamp(3, place.uuid, 8))
    assert answered(place, one, put(place, wrong_base)).word is Word.WHOLE_WANTED


def foreign(place: Place) -> bytes:
    return sealed_request(place, pem=client_pem()[0])


def other_key(place: Place) -> bytes:
    mine = place.key_file.read_text()
    place.key_file.chmod(0o640)
    place.key_file.write_text("another-key-0123456789\n")
    raw = sealed_request(place)
    place.key_file.write_text(mine)
    return raw


def claimed(place: Place) -> bytes:
    """A candidate's certificate beside a signature of another key."""
    outer = json.loads(foreign(place))
    outer["certificate"] = json.loads(sealed_request(place))["certificate"]
    return json.dumps(outer).encode()


def without(member: str) -> Callable[[Place], bytes]:
    def make(place: Place) -> bytes:
        outer = json.loads(sealed_request(place))
        return json.dumps({k: v for k, v in outer.items() if k != member}).encode()

    return make


def altered(place: Place) -> bytes:
    """A put whose piece somebody has changed on the way, sealed anew with the cluster's key."""
    outer = json.loads(put(place, part_of(place.uuid)))
    request, _ = open_request(place.key, put(place, part_of(place.uuid, 8)))
    forged = json.loads(sealed_request(place, Verb.PUT, client_pem()[0], id=request.id,
                                       header=request.header, piece=request.piece))  # fmt: skip
    return json.dumps({**forged, "certificate": outer["certificate"]}).encode()


def changed(**changes: Any) -> Callable[[Place], bytes]:
    return lambda place: sealed_request(place, **changes)


def late(place: Place) -> bytes:
    request, _ = open_request(place.key, sealed_request(place))
    return sealed_request(place, issued=request.issued - 70_000, expires=request.issued - 40_000)


def anothers_part(place: Place) -> bytes:
    return put(place, part_of(str(uuid4())))


def anothers_promise(place: Place) -> bytes:
    return promise(place, 9, str(uuid4()))


REFUSED = [
    pytest.param(lambda _: b"rubbish", "not a sealed message", id="rubbish"),
    pytest.param(lambda _: b"{}", "not a sealed message", id="empty"),
    pytest.param(lambda p: sealed_order(p), "not match", id="an order"),
    pytest.param(lambda p: sealed_question(p, OTHER), "not match", id="a question"),
    pytest.param(other_key, "not match", id="another cluster's key"),
    pytest.param(without("signature"), "no certificate or no signature", id="unsigned"),
    pytest.param(without("certificate"), "no certificate or no signature", id="no certificate"),
    pytest.param(without("hmac_sha256"), "hmac_sha256 is missing", id="unsealed"),
    pytest.param(foreign, "not the certificate of a master candidate", id="no candidate"),
    pytest.param(claimed, "signature does not match", id="a candidate's certificate, stolen"),
    pytest.param(altered, "signature does not match", id="a put, altered"),
    pytest.param(changed(cluster="other"), "meant for cluster 'other'", id="cluster"),
    pytest.param(changed(name="node9"), "meant for node 'node9'", id="node"),
    pytest.param(changed(node=str(uuid4())), "meant for the node with UUID", id="uuid"),
    pytest.param(changed(id="x"), "request.id is not of the form", id="no id"),
    pytest.param(late, "expired", id="expired"),
    pytest.param(changed(expires=2**62), "at most 60000 is accepted", id="valid for ever"),
    pytest.param(changed(issued=1, expires=2), "expired", id="long ago"),
    pytest.param(anothers_part, "for the maintd on node", id="another's part"),
    pytest.param(anothers_promise, "for the maintd on node", id="another's promise"),
]


@pytest.mark.parametrize(("make", "why"), REFUSED)
def test_every_refusal_has_its_reason(
    place: Place, caplog: pytest.LogCaptureFixture, make: Callable[[Place], bytes], why: str
) -> None:
    one = keeper(place)
    assert asked(one, make(place)) == {"refused": True}
    assert why in caplog.text
    assert "copies-refused" in caplog.text
    assert one.refusals.count == 1
    assert not one.store.used
    assert answered(place, one, sealed_request(place)) == Answer(Word.HOLDING, Holding())


@pytest.mark.parametrize("verb", ["holding", "promise", "fetch", "put"])
def test_nobody_but_a_candidate_is_answered(place: Place, verb: str) -> None:
    one = keeper(place)
    part = part_of(place.uuid)
    assert answered(place, one, put(place, part)).word is Word.WRITTEN
    pem = client_pem()[0]
    make: Callable[[], bytes] = {
        "holding": lambda: sealed_request(place, pem=pem),
        "promise": lambda: promise(place, 9, place.uuid, pem),
        "fetch": lambda: sealed_request(place, Verb.FETCH, pem, stamp=part.stamp),
        "put": lambda: put(place, part_of(place.uuid, 8), pem),
    }[verb]
    assert asked(one, make()) == {"refused": True}
    place.ssconf("master_candidates_certs", "")  # nor one that is none any more
    pem = place.master_pem
    assert asked(one, make()) == {"refused": True}


def test_parts_come_from_the_master_alone(
    place: Place, other: Candidate, caplog: pytest.LogCaptureFixture
) -> None:
    """The other candidate is not the master here; it may ask, promise and fetch."""
    one, part = keeper(place), part_of(other.uuid)
    for sender, why in (
        (OTHER, "from 'node2.example', and the master is 'node1.example'"),
        (NODE, "which is not the master node1.example"),  # a lie: node1 is we
    ):
        assert asked(one, put(place, part, other.pem, sender=sender)) == {"refused": True}
        assert why in caplog.text
    assert not one.store.used
    assert answered(place, one, promise(place, 4, other.uuid, other.pem)).word is Word.HOLDING
    fetch = sealed_request(place, Verb.FETCH, other.pem, stamp=part.stamp)
    assert answered(place, one, fetch).word is Word.GONE
    place.ssconf("master_node", f"{OTHER}\n")  # the failover has come here, too
    part = part_of(other.uuid, epoch=4)
    assert answered(place, one, put(place, part, other.pem, sender=OTHER)).word is Word.WRITTEN
    assert asked(one, put(place, part_of(place.uuid, epoch=5))) == {"refused": True}
    raw = put(place, part_of(place.uuid, epoch=5), sender=OTHER)  # a lie of ours
    assert asked(one, raw) == {"refused": True}
    place.ssconf("master_node", "")
    raw = put(place, part_of(other.uuid, 8, epoch=4), other.pem, sender="")
    assert asked(one, raw) == {"refused": True}


def test_a_node_that_never_was_a_candidate_keeps_nothing(
    place: Place, other: Candidate, caplog: pytest.LogCaptureFixture
) -> None:
    digest = Ssconf(place.load().agent).candidates()
    mine = next(d for d, uuid in digest.items() if uuid == other.uuid)
    place.ssconf("master_candidates_certs", f"{other.uuid}={mine}\n")
    place.ssconf("master_node", f"{OTHER}\n")
    one = keeper(place)
    for raw in (
        sealed_request(place, pem=other.pem),
        promise(place, 4, other.uuid, other.pem),
        put(place, part_of(other.uuid), other.pem, sender=OTHER),
    ):
        assert asked(one, raw) == {"refused": True}
    assert "this node is not a master candidate" in caplog.text
    assert not one.store.used


def test_a_node_that_was_a_candidate_gives_its_copies_back(place: Place, other: Candidate) -> None:
    """Whoever takes over asks the candidates of the copy's time, too."""
    one, part = keeper(place), part_of(place.uuid)
    assert answered(place, one, put(place, part)).word is Word.WRITTEN
    digest = Ssconf(place.load().agent).candidates()
    theirs = next(d for d, uuid in digest.items() if uuid == other.uuid)
    place.ssconf("master_candidates_certs", f"{other.uuid}={theirs}\n")
    holding = answered(place, one, sealed_request(place, pem=other.pem)).holding
    assert holding is not None
    assert holding.kept[0].stamp == part.stamp
    fetch = sealed_request(place, Verb.FETCH, other.pem, stamp=part.stamp)
    assert read_parts(answered(place, one, fetch).piece) == [part]
    assert answered(place, one, promise(place, 4, other.uuid, other.pem)).word is Word.HOLDING


def test_a_request_is_answered_once(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    one = keeper(place, clock)
    first, second = (put(place, part_of(place.uuid, number)) for number in (7, 8))
    for raw in (first, second):
        assert answered(place, one, raw).word is Word.WRITTEN
    before = one.store.holding()
    clock.passed = 25_000
    for raw in (first, second):
        assert asked(one, raw) == {"refused": True}
    assert "was asked before" in caplog.text
    assert one.store.holding() == before


def test_a_restarted_runner_takes_no_request_from_before(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    raw = promise(place, 4, place.uuid)
    dawdle(0.01)  # moments are whole milliseconds
    one = keeper(place)
    assert asked(one, raw) == {"refused": True}  # its id may have been used
    assert "before this runner began" in caplog.text
    assert not one.store.used


def test_a_flood_of_requests_ends_at_a_bound(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    async def signer(_: object) -> str:
        return place.master_digest

    monkeypatch.setattr(module, "signer", signer)
    clock = Clock()
    one = keeper(place, clock)
    for _ in range(A_MINUTE):
        assert "sealed" in asked(one, sealed_request(place))
    why = f"{A_MINUTE} requests within a minute; at most {A_MINUTE}"
    assert asked(one, sealed_request(place)) == {"busy": why}
    clock.passed = 60_001
    assert "sealed" in asked(one, sealed_request(place))


def pieces(place: Place, part: Part, pem: bytes = b"") -> list[bytes]:
    return [
        put(place, part, pem, offset=offset, piece=piece) for offset, piece in pieces_of(part.body)
    ]


def test_the_first_piece_proves_the_signer_of_all(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    proven: list[Proof] = []

    async def counting(proof: Proof) -> str:
        proven.append(proof)
        return await signer(proof)

    monkeypatch.setattr(module, "signer", counting)
    one = keeper(place)
    long = replace(part_of(place.uuid), body=bytes(3 * PIECE))
    words = [answered(place, one, raw).word for raw in pieces(place, long)]
    assert words == [Word.MORE, Word.MORE, Word.WRITTEN]
    assert len(proven) == 1


def test_a_piece_that_is_not_the_next_one_must_be_proven(place: Place) -> None:
    """With the cluster's key and a stolen certificate: nothing of it reaches the disk."""
    one, mine = keeper(place), json.loads(sealed_request(place))["certificate"]
    long = replace(part_of(place.uuid), body=bytes(3 * PIECE))
    real = pieces(place, long)
    forged = [
        json.dumps({**json.loads(raw), "certificate": mine}).encode()
        for raw in pieces(place, long, client_pem()[0])
    ]
    other = replace(long, body=b"x" * (3 * PIECE))
    strange = put(place, other, client_pem()[0], offset=PIECE, piece=other.body[:PIECE])
    strange = json.dumps({**json.loads(strange), "certificate": mine}).encode()
    assert asked(one, forged[0]) == asked(one, forged[1]) == {"refused": True}
    assert answered(place, one, real[0]).word is Word.MORE
    for raw in (forged[0], forged[2], strange):  # again, too early, of another part
        assert asked(one, raw) == {"refused": True}
    for raw, word in zip(real[1:], (Word.MORE, Word.WRITTEN), strict=True):
        assert answered(place, one, raw).word is word
    spoilt = replace(part_of(place.uuid, 8), body=bytes(2 * PIECE))
    first, _ = pieces(place, spoilt)
    assert answered(place, one, first).word is Word.MORE
    bad = put(place, spoilt, client_pem()[0], offset=PIECE, piece=b"x" * PIECE)
    bad = json.dumps({**json.loads(bad), "certificate": mine}).encode()
    assert answered(place, one, bad).word is Word.FAILED  # its sum is not the one that was proven
    holding = answered(place, one, sealed_request(place)).holding
    assert holding is not None
    assert [kept.stamp for kept in holding.kept] == [long.stamp]


def test_a_failing_disk_is_said(place: Place) -> None:
    one = keeper(place)
    (place.folder / "copies").write_text("a file in the folder's place")
    for raw in (sealed_request(place), put(place, part_of(place.uuid))):
        said = answered(place, one, raw)
        assert said.word is Word.FAILED
        assert said.why.endswith("Not a directory")


def test_a_wrong_body_is_said(place: Place) -> None:
    one, part = keeper(place), part_of(place.uuid)
    said = answered(place, one, put(place, part, piece=part.body[::-1]))
    assert (said.word, "not the one that its header names" in said.why) == (Word.FAILED, True)


@pytest.mark.parametrize("request_", [None, 7, "", "\ud800"])
def test_frames_without_a_request(place: Place, request_: object) -> None:
    assert asyncio.run(keeper(place).ask({"request": request_}, None)) == {"refused": True}
