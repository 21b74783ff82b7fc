"""Questions about other nodes: who may ask, and how often."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest

from nodeagent.agent import witness as module
from nodeagent.agent import writer
from nodeagent.agent.link import Frame
from nodeagent.agent.ssconf import Ssconf
from nodeagent.agent.witness import A_MINUTE, Witness
from nodeagent.errors import MessageError
from nodeagent.model.evidence import Contact
from nodeagent.model.units import Ms
from nodeagent.protocol.canonical import canonical, read
from nodeagent.protocol.envelope import Purpose, open_outer
from nodeagent.protocol.testimony import Words
from nodeagent.protocol.witness import Question, body_of, has_promised, open_question, words_of
from tests.agent.disk import a_disk
from tests.agent.place import NODE, Clock, Place, client_pem, sealed_order, sealed_question
from tests.agent.witnessing import DEAD, with_others
from tests.patience import dawdle

WORDS = canonical(Words(Contact.SILENT, Contact.REFUSED, (), "").body())


@pytest.fixture
def place(place: Place) -> Place:
    return with_others(place)


def witness(place: Place, clock: Clock | None = None) -> Witness:
    ssconf = Ssconf(place.load().agent)
    loaded = place.load()
    agent = replace(loaded.agent, state=str(place.folder))
    listen = replace(loaded.listen, port=1817)
    return Witness(
        ssconf, place.sealed, replace(loaded, agent=agent, listen=listen), steady=clock or Clock()
    )


def asked(one: Witness, raw: bytes) -> Frame:
    return asyncio.run(one.ask({"question": raw.decode()}, None))


def brought(one: Witness, ticket: object, words: object = WORDS) -> Frame:
    return asyncio.run(one.testify({"ticket": ticket, "words": words}, None))


def opened(place: Place, raw: bytes, sealed: bytes) -> Words:
    question, _ = open_question(place.key, raw)
    return words_of(place.proven(Purpose.TESTIMONY, question.id, sealed), question)


def test_a_question_names_one_nodes_own_addresses(place: Place) -> None:
    one, raw = witness(place), sealed_question(place, DEAD)
    task = asked(one, raw)
    ticket = task.pop("ticket")
    assert task == {"addresses": ["127.0.0.2", "127.0.3.2"], "noded": 1811, "agent": 1817}
    words = opened(place, raw, brought(one, ticket)["sealed"].encode())
    assert words == Words(Contact.SILENT, Contact.REFUSED, (), "")
    more = asked(one, sealed_question(place, "more1"))
    assert more["addresses"] == ["127.0.1.1"]


def foreign(place: Place) -> bytes:
    return sealed_question(place, DEAD, pem=client_pem()[0])


def other_key(place: Place) -> bytes:
    mine = place.key_file.read_text()
    place.key_file.chmod(0o640)
    place.key_file.write_text("another-key-0123456789\n")
    raw = sealed_question(place, DEAD)
    place.key_file.write_text(mine)
    return raw


def claimed(place: Place) -> bytes:
    """A candidate's certificate beside a signature of another key."""
    outer = json.loads(sealed_question(place, DEAD, pem=client_pem()[0]))
    outer["certificate"] = json.loads(sealed_question(place, DEAD))["certificate"]
    return json.dumps(outer).encode()


def changed(**changes: Any) -> Callable[[Place], bytes]:
    return lambda place: sealed_question(place, **{"target": DEAD, **changes})


def late(place: Place) -> bytes:
    question, _ = open_question(place.key, sealed_question(place, DEAD))
    return sealed_question(
        place, DEAD, issued=question.issued - 70_000, expires=question.issued - 40_000
    )


REFUSED: dict[str, tuple[Callable[[Place], bytes], str]] = {
    "rubbish": (lambda _: b"rubbish", "not a sealed message"),
    "an order": (lambda p: sealed_order(p), "not match"),
    "another cluster's key": (other_key, "not match"),
    "no candidate": (foreign, "not the certificate of a master candidate"),
    "a candidate's certificate, stolen": (claimed, "signature does not match"),
    "node": (changed(name="node9"), "meant for node 'node9'"),
    "stranger": (changed(target="evil.example"), "is not a node of this cluster"),
    "address": (changed(target="127.0.0.2"), "is not a node of this cluster"),
    "itself": (changed(target=NODE), "cannot be a witness of itself"),
    "no id": (changed(id="x"), "question.id is not of the form"),
    "expired": (late, "expired"),
}


def test_every_refusal_has_its_reason(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    for how, (make, why) in REFUSED.items():
        one = witness(place)
        caplog.clear()
        assert asked(one, make(place)) == {"refused": True}, how
        assert why in caplog.text, how
        assert "witness-refused" in caplog.text, how
    assert "ticket" in asked(one, sealed_question(place, DEAD))  # the next one is answered


def test_a_question_is_answered_once(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    one, raw = witness(place, clock), sealed_question(place, DEAD)
    ticket = asked(one, raw)["ticket"]
    assert "sealed" in brought(one, ticket)
    assert brought(one, ticket) == {"failed": "no such ticket, or it is too old"}
    clock.passed = 25_000
    assert asked(one, raw) == {"refused": True}
    assert "was asked before" in caplog.text


def test_a_restarted_runner_takes_no_question_from_before(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    raw = sealed_question(place, DEAD)
    dawdle(0.01)  # a clock may be set by a millisecond meanwhile
    assert asked(witness(place), raw) == {"refused": True}  # its id may have been used
    assert "before this runner began" in caplog.text


def test_one_try_at_a_time_for_each_node(place: Place) -> None:
    clock = Clock()
    one = witness(place, clock)
    ticket = asked(one, sealed_question(place, DEAD))["ticket"]
    assert asked(one, sealed_question(place, DEAD)) == {"busy": f"{DEAD} is being tried already"}
    assert "ticket" in asked(one, sealed_question(place, "more1"))
    brought(one, ticket)
    assert "ticket" in asked(one, sealed_question(place, DEAD))
    clock.passed = 20_001  # a front that has died never brings its ticket back
    assert "ticket" in asked(one, sealed_question(place, DEAD))


@pytest.mark.usefixtures("signed_by_master")
def test_a_flood_of_questions_ends_at_a_bound(place: Place) -> None:
    clock = Clock()
    one = witness(place, clock)
    for i in range(A_MINUTE):
        assert "ticket" in asked(one, sealed_question(place, f"more{i}"))
    why = f"{A_MINUTE} questions within a minute; at most {A_MINUTE}"
    assert asked(one, sealed_question(place, "more99")) == {"busy": why}
    clock.passed = 60_001
    assert "ticket" in asked(one, sealed_question(place, "more99"))


NO_WORDS: list[object] = [
    None,
    "",
    "[]",
    "{}",
    '{"agent":"alive","mirrors":null,"noded":"silent","why":""}',
    '{"agent":"silent","mirrors":null,"noded":"silent","why":7}',
    "\ud800",
]


@pytest.fixture
def signed_by_master(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Start no process that checks the signature: others do."""

    async def signer(_: object) -> str:
        return place.master_digest

    monkeypatch.setattr(module, "signer", signer)


@pytest.mark.usefixtures("signed_by_master")
def test_a_front_that_was_taken_over_gets_no_other_words_sealed(place: Place) -> None:
    one = witness(place)
    for words in NO_WORDS:
        ticket = asked(one, sealed_question(place, DEAD))["ticket"]
        assert "failed" in brought(one, ticket, words), words
        assert "failed" in brought(one, ticket), "nor a second try"


def test_frames_without_a_question(place: Place) -> None:
    for question in (None, 7, "", "\ud800"):
        assert asyncio.run(witness(place).ask({"question": question}, None)) == {"refused": True}
        assert "failed" in asyncio.run(witness(place).testify({"ticket": question}, None))


@pytest.mark.parametrize("member", ["cluster", "name", "target", "node"])
def test_a_testimony_about_something_else_is_refused(member: str) -> None:
    question = Question(str(uuid4()), "c", "u", "n1", "n2", Ms(1), Ms(2))
    words = Words(Contact.SILENT, Contact.SILENT)
    body = body_of(question, "c", "n1", "u", words)
    assert words_of(body, question) == words
    with pytest.raises(MessageError, match=f"testimony.{member} is not the one asked for"):
        words_of({**body, member: "other"}, question)


# Its voice in a succession.

SILENCE = canonical(Words(Contact.SILENT, Contact.SILENT, (), "").body())


def claims(place: Place, one: Witness, words: str = SILENCE, **changes: Any) -> bool:
    """Whether a question about the dead master gets the node's voice."""
    raw = sealed_question(place, **{"target": DEAD, "claim": True, **changes})
    sealed = brought(one, asked(one, raw)["ticket"], words)["sealed"].encode()
    question, _ = open_question(place.key, raw)
    document = open_outer(place.key, Purpose.TESTIMONY, question.id, read(sealed, depth=1))
    assert words_of(document, question)
    return has_promised(document)


def test_a_candidate_gets_the_voice_about_a_silent_master_again_and_again(place: Place) -> None:
    place.ssconf("master_node", f"{DEAD}\n")
    assert claims(place, witness(place))
    assert claims(place, witness(place))  # also from a runner that was started again
    assert not claims(place, witness(place), claim=False)
    for noded in (Contact.CONNECTS, Contact.SILENT):
        hangs = canonical(Words(noded, Contact.CONNECTS, (), "").body())
        assert claims(place, witness(place), hangs)


@pytest.mark.usefixtures("signed_by_master")
def test_no_voice_about_a_master_that_is_not_dead(place: Place) -> None:
    place.ssconf("master_node", f"{DEAD}\n")
    for contact in (Contact.ANSWERS, Contact.REFUSED, Contact.UNKNOWN):
        for words in (Words(contact, Contact.SILENT), Words(Contact.SILENT, contact)):
            assert not claims(place, witness(place), canonical(words.body())), words


def test_no_voice_about_a_node_that_is_not_the_master(place: Place) -> None:
    assert not claims(place, witness(place))
    place.ssconf("master_node", f"{DEAD}\n")
    assert claims(place, witness(place))


@pytest.mark.usefixtures("signed_by_master")
def test_no_voice_while_the_disk_hangs_that_keeps_it(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.ssconf("master_node", f"{DEAD}\n")
    assert not claims(place, witness(place), claim=False), "it has its key now"
    monkeypatch.setattr(writer, "SECONDS", 0.05)
    with a_disk() as disk:
        disk.hangs()
        assert not claims(place, witness(place))


def test_no_voice_for_a_signer_that_is_demoted_meanwhile(place: Place) -> None:
    place.ssconf("master_node", f"{DEAD}\n")
    one = witness(place)
    raw = sealed_question(place, DEAD, claim=True)
    ticket = asked(one, raw)["ticket"]
    place.ssconf("master_candidates_certs", "")
    sealed = brought(one, ticket, SILENCE)["sealed"].encode()
    question, _ = open_question(place.key, raw)
    document = open_outer(place.key, Purpose.TESTIMONY, question.id, read(sealed, depth=1))
    assert not has_promised(document)
