"""S01-S12: forged, replayed, stale and borrowed messages; S13: who may order a repair;
S14: a node that has the cluster's key, and a neighbour's address.

Reports come from real agents and are judged by the master's own `judge_answer`; orders go
through a real front to a real runner, which would carry out a good one.

| id  | here, or why not |
|-----|------------------|
| S09 | two keys in grace: no verifier of ours accepts an old key; between two distributions
|     | of a new one a report is distrusted, which changes no incident |
| S10 | a statistic of microseconds proves nothing in a test suite; tested is that digests are
|     | compared by `hmac.compare_digest` |
"""

import asyncio
import hashlib
import hmac
import json
import os
import re
import select
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from cryptography.x509.oid import NameOID

from nodeagent.errors import MessageError, Unavailable
from nodeagent.maintd.engine.conduct import count
from nodeagent.maintd.engine.orders import Orders
from nodeagent.model.ledger import Outcome
from nodeagent.model.snapshot import Node, Snapshot
from nodeagent.model.units import Ms
from nodeagent.protocol import envelope
from nodeagent.protocol.envelope import Key, Purpose, confd_hmac, open_outer, seal
from nodeagent.protocol.look import Distrusted, Expected, Look, Seen, judge_answer
from nodeagent.protocol.messages import Order, Progress, Receipt, Report, digest, fingerprint
from nodeagent.protocol.node_key import TAG, Pins
from nodeagent.protocol.order import order_bytes, seal_order
from nodeagent.protocol.signature import sign, verify
from nodeagent.web.client import fetch
from nodeagent.web.tls import untrusting_tls
from nodeagent.web.transaction import Answered
from tests import needs
from tests.agent.place import CLUSTER, NODE, client_pem
from tests.patience import PATIENCE
from tests.protocol.opened import unseal
from tests.web.live import Agent, Raw, agent, wait_for

SALT = "5f0e9a31-7a0c-4b4e"
KEY = Key(b"0123456789abcdef0123456789abcdef01234567\n")
SICK = """#!/bin/sh
echo '{"status": "live-repair", "command": "fix", "details": {"bay": 7}}'
"""
TEXT = '{"command":"fix","details":{"bay":7},"status":"live-repair"}'
FIX = """#!/bin/sh
echo run >>{log}
cat >>{log}
"""


def now() -> Ms:
    return Ms(time.time_ns() // 1_000_000)


@pytest.fixture(scope="module")
def live() -> Iterator[Agent]:
    """An agent that stands by a diagnosis and would repair it."""
    with agent(
        tls=True, commands='"sick"', scripts={"diagnose/sick": SICK}, more="confirm = 1"
    ) as running:
        log = running.place.folder / "runs"
        for name in ("fix", "other"):
            running.place.command("repair", name, FIX.format(log=log))
        wait_for(lambda: b"need" in running.get("/metrics").body, running)
        wait_for(lambda: TEXT.encode() in said(running), running)
        yield running


def said(running: Agent) -> bytes:
    sealed = json.loads(running.get("/1/report/node/diagnose").body)["data"]
    diagnosis = json.loads(sealed["msg"])["diagnosis"]
    return str(diagnosis).encode()


def asked(running: Agent, salt: str = SALT) -> Answered:
    """Ask as the master does."""
    target = f"/1/report/node/diagnose?salt={salt}"
    tls = untrusting_tls() if running.tls else None
    return asyncio.run(fetch(running.address, running.port, target, seconds=PATIENCE, tls=tls))


def expected(running: Agent, answer: Answered, salt: str = SALT) -> Expected:
    return Expected(CLUSTER, NODE, running.place.uuid, salt, answer.certificate)


def judged(running: Agent, answer: Answered, **changes: Any) -> Look:
    key = changes.pop("key", running.place.key)
    at = changes.pop("at", now())
    what = replace(expected(running, answer), **changes)
    return judge_answer(answer.status, answer.body, key, what, at)


# Reports.


def test_a_genuine_report_is_seen(live: Agent) -> None:
    """So that all below can fail."""
    look = judged(live, asked(live))
    assert isinstance(look, Seen)
    assert look.diagnosis is not None
    assert look.diagnosis.text == TEXT


def test_s01_no_bit_can_be_flipped(live: Agent) -> None:
    answer = asked(live)
    good = judged(live, answer)
    assert isinstance(good, Seen)
    at = now()
    for place in range(len(answer.body)):
        for bit in {0, place % 8}:
            body = bytearray(answer.body)
            body[place] ^= 1 << bit
            look = judged(live, replace(answer, body=bytes(body)), at=at)
            # Outside the seal (mond's own members) a flip may pass, but not into the report.
            assert isinstance(look, Distrusted) or look == good, (place, bit)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"uuid": str(uuid4())}, id="S02 other UUID"),
        pytest.param({"name": "node2.example"}, id="S02 other node"),
        pytest.param({"cluster": "other.example"}, id="S02 other cluster"),
        pytest.param({"salt": "another-salt"}, id="S03 replayed for another question"),
        pytest.param({"salt": SALT.upper()}, id="S04 nearly our salt"),
        pytest.param({"salt": SALT + "0"}, id="S04 longer salt"),
        pytest.param({"certificate": "0" * 64}, id="S02 relayed through another's TLS"),
        pytest.param({"certificate": ""}, id="S02 TLS stripped"),
        pytest.param({"at": now() + 3_600_000}, id="S11 an hour old"),
        pytest.param({"at": now() - 3_600_000}, id="S11 an hour in the future"),
        pytest.param({"key": Key(b"f" * 40 + b"\n")}, id="S09 another key"),
    ],
)
def test_s_a_report_out_of_its_context_is_distrusted(live: Agent, changes: dict[str, Any]) -> None:
    assert isinstance(judged(live, asked(live), **changes), Distrusted)


def test_s02_no_message_opens_as_one_of_another_purpose(live: Agent) -> None:
    sealed = json.dumps(json.loads(asked(live).body)["data"]).encode()
    key = live.place.key
    assert unseal(key, Purpose.REPORT, SALT, sealed)["name"] == NODE
    for purpose in set(Purpose) - {Purpose.REPORT}:
        with pytest.raises(MessageError):
            unseal(key, purpose, SALT, sealed)
    assert live.post("/1/order", sealed).status == 403


def test_s04_a_salt_used_twice_is_seen_by_the_sequence(live: Agent) -> None:
    looks = [judged(live, asked(live)) for _ in range(2)]
    numbers = [look.report.seq for look in looks if isinstance(look, Seen)]
    assert len(numbers) == 2
    assert numbers[0] < numbers[1]


@pytest.mark.parametrize("salt", ["", "%7B", "a" * 65, "a%20b", "a%0A", "%C3%BC", "a%00"])
def test_s04_s05_salts_that_could_shift_or_break_are_refused(live: Agent, salt: str) -> None:
    assert live.get(f"/1/report/node/diagnose?salt={salt}").status == 400


def test_s04_without_a_salt_the_answer_is_to_nobody(live: Agent) -> None:
    answer = asked(live)
    unsalted = replace(answer, body=live.get("/1/report/node/diagnose").body)
    assert isinstance(judged(live, unsalted), Distrusted)


# The envelope.


def envelope_of(**changes: Any) -> bytes:
    outer = json.loads(seal(KEY, Purpose.REPORT, SALT, {"v": 1}))
    outer.update(changes)
    return json.dumps({k: v for k, v in outer.items() if v is not ...}).encode()


GOOD = json.loads(envelope_of())

FORGED: dict[str, dict[str, Any]] = {
    "S06 key_selector": {"key_selector": ""},
    "S06 key_selector null": {"key_selector": None},
    "S07 hmac null": {"hmac": None},
    "S07 hmac number": {"hmac": 5},
    "S07 hmac list": {"hmac": ["a"]},
    "S07 hmac not ASCII": {"hmac": "ü" * 40},
    "S07 hmac in full-width digits": {"hmac": "\uff11" * 40},
    "S07 hmac_sha256 null": {"hmac_sha256": None},
    "S07 hmac_sha256 not ASCII": {"hmac_sha256": "ü" * 64},
    "S07 msg null": {"msg": None},
    "S07 msg object": {"msg": {"v": 1}},
    "S07 salt null": {"salt": None},
    "S07 salt number": {"salt": 1700000000},
    "S08 upper case": {"hmac_sha256": GOOD["hmac_sha256"].upper()},
    "S08 upper case, confd's": {"hmac": GOOD["hmac"].upper()},
    "S08 blank before": {"hmac_sha256": " " + GOOD["hmac_sha256"]},
    "S08 newline after": {"hmac_sha256": GOOD["hmac_sha256"] + "\n"},
    "S08 short": {"hmac_sha256": GOOD["hmac_sha256"][:-1]},
    "S08 first half only": {"hmac_sha256": GOOD["hmac_sha256"][:32]},
    "S08 empty": {"hmac_sha256": ""},
    "S08 downgrade: no SHA-256": {"hmac_sha256": ...},
    "S08 downgrade: SHA-1 in its place": {"hmac_sha256": GOOD["hmac"]},
    "S08 only SHA-256": {"hmac": ...},
    "S08 confd's wrong": {"hmac": "0" * 40},
    "S08 ours wrong": {"hmac_sha256": "0" * 64},
    "S01 msg changed": {"msg": GOOD["msg"] + " "},
}


def test_s_forged_envelopes_are_refused_with_a_reason() -> None:
    genuine = {"v": 1, "purpose": "report", "salt": SALT}
    assert unseal(KEY, Purpose.REPORT, SALT, envelope_of()) == genuine
    for name, changes in FORGED.items():
        why = refusal(envelope_of(**changes))
        assert why, name
        assert why.isprintable(), name


def refusal(raw: bytes) -> str:
    """Why an envelope is not opened; empty if it is."""
    try:
        unseal(KEY, Purpose.REPORT, SALT, raw)
    except MessageError as error:
        return str(error)
    return ""


def signed(msg: dict[str, Any], salt: str, purpose: Purpose = Purpose.REPORT) -> bytes:
    """An envelope rightly signed by the key, whatever it says inside."""
    text = json.dumps(msg)
    outer = {"msg": text, "salt": salt, "hmac": confd_hmac(KEY, salt, text)}
    return json.dumps(
        outer | {"hmac_sha256": envelope.strong_hmac(KEY, purpose, salt, text)}
    ).encode()


INSIDE = {"purpose": "report", "salt": SALT}


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        pytest.param(signed(INSIDE | {"purpose": "order"}, SALT), "purpose", id="S02 inside"),
        pytest.param(signed(INSIDE, SALT, Purpose.ORDER), "match", id="S02 by the sub-key"),
        pytest.param(signed(INSIDE, "other"), "another question", id="S03 outside"),
        pytest.param(signed(INSIDE | {"salt": "other"}, SALT), "inside", id="S03 inside"),
        pytest.param(signed(INSIDE, SALT + "{"), "agreed form", id="S05 brace in the salt"),
        pytest.param(signed(INSIDE, ""), "agreed form", id="S04 no salt"),
        pytest.param(signed(INSIDE, SALT + "\n"), "agreed form", id="S04 newline after the salt"),
    ],
)
def test_s_each_guard_holds_by_itself(raw: bytes, why: str) -> None:
    """Several rules stand behind each other here; each is met alone."""
    assert unseal(KEY, Purpose.REPORT, SALT, signed(INSIDE, SALT)) == INSIDE
    with pytest.raises(MessageError, match=why):
        unseal(KEY, Purpose.REPORT, SALT, raw)


def test_s05_the_boundary_of_salt_and_message_cannot_be_moved() -> None:
    """confd's signature itself allows it; the forms of both do not, and ours is length-prefixed."""
    assert confd_hmac(KEY, "17000000001", "2{}") == confd_hmac(KEY, "1700000000", "12{}")
    for salt, msg in (("17000000001", "2{}"), ("1700000000", "12{}"), ("1700000000{", "}")):
        outer = {"salt": salt, "msg": msg, "hmac": confd_hmac(KEY, salt, msg)}
        with pytest.raises(MessageError, match=r"agreed form|text of an object"):
            open_outer(KEY, Purpose.REPORT, salt, outer)
    assert envelope.strong_hmac(KEY, Purpose.REPORT, "ab", "{}") != envelope.strong_hmac(
        KEY, Purpose.REPORT, "a", "b{}"
    )


@pytest.mark.parametrize(
    "other", [b"strip", b"\r\n", b" "], ids=["stripped newline", "CRLF", "blank"]
)
def test_s09_the_key_is_the_whole_file_and_nothing_else(other: bytes) -> None:
    whole = KEY.whole.strip() + (b"" if other == b"strip" else other)
    with pytest.raises(MessageError, match="does not match"):
        unseal(Key(whole), Purpose.REPORT, SALT, envelope_of())


@pytest.mark.parametrize("name", ["hmac", "hmac_sha256"])
def test_s10_digests_are_compared_in_constant_time(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[str] = []

    def watch(one: str, other: str) -> bool:
        compared.append(one)
        return hmac.compare_digest(one, other)

    stand_in = type("Hmac", (), {"compare_digest": staticmethod(watch)})
    for attribute in ("new", "digest"):
        setattr(stand_in, attribute, staticmethod(getattr(hmac, attribute)))
    monkeypatch.setattr(envelope, "hmac", stand_in)
    unseal(KEY, Purpose.REPORT, SALT, envelope_of())
    assert GOOD[name] in compared


TIMES: list[Any] = [
    "\uff11\uff12",
    "1_000",
    " 1e5\n",
    "1700000000000",
    1.5,
    True,
    -1,
    2**63,
    None,
    [1],
]


@pytest.mark.parametrize("value", TIMES)
def test_s12_times_are_whole_numbers_and_nothing_that_python_takes_for_one(
    live: Agent, value: Any
) -> None:
    look = judged(live, asked(live))
    assert isinstance(look, Seen)
    report = look.report
    assert Report.from_body(report.body()) == report
    with pytest.raises(MessageError, match=r"report\.time"):
        Report.from_body(report.body() | {"time": value})
    order = order_for("u")
    with pytest.raises(MessageError, match=r"order\.expires"):
        Order.from_body(order.body() | {"expires": value})


# S14: a node of the cluster, which has its key, answers at a neighbour's address.


THIEF = Ed25519PrivateKey.generate()
PUBLIC = THIEF.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw).hex()


def pins_on(running: Agent) -> Pins:
    """The neighbour is pinned to its own key, as maintd does at first sight."""
    look = judged(running, asked(running))
    assert isinstance(look, Seen)
    return Pins.of({NODE: [TAG + look.key]})


def forged(
    running: Agent, sign_: Callable[[bytes], bytes] | None = None, **changes: Any
) -> Answered:
    """What the attacker says in the neighbour's name; all but its key he can see or make up."""
    answer = asked(running)
    report = Report.from_body(json.loads(json.loads(answer.body)["data"]["msg"]))
    lie = replace(report, **{"diagnosis": '{"status":"evacuate-failover"}', **changes})
    data = json.loads(seal(running.place.key, Purpose.REPORT, SALT, lie.body(), sign_))
    return replace(answer, body=json.dumps({"name": "diagnose", "data": data}).encode())


def test_s14_nobody_else_speaks_for_a_node_that_is_pinned(live: Agent) -> None:
    pins = pins_on(live)
    assert isinstance(judged(live, asked(live), pins=pins), Seen)
    lies = {
        "his own key": (forged(live, THIEF.sign, key=PUBLIC), "signed with the key"),
        "no key, as old agents": (forged(live, key=""), "it is not signed"),
        "its key, without a signature": (forged(live), "is not signed with it"),
        "its key, signed with his": (forged(live, THIEF.sign), "does not match the node key"),
    }
    for how, (answer, why) in lies.items():
        look = judged(live, answer, pins=pins)
        assert isinstance(look, Distrusted), how
        assert why in look.why, how


def test_s14_a_signature_does_not_fit_another_text_or_question(live: Agent) -> None:
    """What the neighbour has signed is carried over to what it has not said, or to a later time."""
    pins = pins_on(live)
    genuine = asked(live)
    signature = bytes.fromhex(json.loads(genuine.body)["data"]["signature"])
    look = judged(live, forged(live, lambda _: signature), pins=pins)
    assert isinstance(look, Distrusted)
    replayed = judged(live, genuine, pins=pins, salt="another-salt")
    assert isinstance(replayed, Distrusted)
    # The old text under a new seal: the salt inside is not the one asked for.
    old = json.loads(asked(live, "salt-before").body)["data"]
    key, msg = live.place.key, old["msg"]
    outer = {
        **old,
        "salt": SALT,
        "hmac": confd_hmac(key, SALT, msg),
        "hmac_sha256": envelope.strong_hmac(key, Purpose.REPORT, SALT, msg),
    }
    body = json.dumps({"name": "diagnose", "data": outer}).encode()
    assert isinstance(judged(live, replace(genuine, body=body), pins=pins), Distrusted)


def test_s14_his_own_key_does_not_serve_him_under_another_name(live: Agent) -> None:
    """The neighbour is not pinned yet, and the thief's node is."""
    answer = forged(live, THIEF.sign, key=PUBLIC)
    assert isinstance(judged(live, answer), Seen), "nobody can tell, before a first sight"
    pins = Pins.of({"thief.example": [TAG + fingerprint(PUBLIC)]})
    look = judged(live, answer, pins=pins)
    assert isinstance(look, Distrusted)
    assert "is the key of thief.example" in look.why


def test_s14_he_does_not_vote_for_a_neighbour(live: Agent) -> None:
    there = Snapshot(CLUSTER, {NODE: Node(NODE, live.place.uuid, "127.0.0.1")})
    lie = forged(live, THIEF.sign, key=PUBLIC, master="thief.example")
    for pins, lost in ((Pins(), True), (pins_on(live), False)):
        assert count({NODE: judged(live, lie, pins=pins)}, there, NODE).lost is lost


def test_s14_a_receipt_is_signed_and_nobody_else_writes_it(live: Agent) -> None:
    """That a repair is done is believed of the node alone that has it on its disk."""
    order = order_for(live.place.uuid, stdin=digest(TEXT), command="fix")
    assert live.post("/1/order", sealed(live, order)).status == 202
    node = Node(NODE, live.place.uuid, live.address, tags=frozenset(pin_tags(live)))
    orders = Orders(live.place.key, live.place.master_pem, live.port, tls=True, now=now)
    assert asyncio.run(orders.outcome(order.id, node)).outcome is not Outcome.LOST
    other = replace(node, tags=frozenset({TAG + fingerprint(PUBLIC)}))
    with pytest.raises(Unavailable, match="is not believed: it is signed with the key"):
        asyncio.run(orders.outcome(order.id, other))
    wait_for(
        lambda: asyncio.run(orders.outcome(order.id, node)).outcome is Outcome.SUCCESS,
        live,
    )


def pin_tags(running: Agent) -> set[str]:
    return {TAG + pin for pin in pins_on(running).by_node[NODE]}


def test_s14_the_key_outlives_the_runner_and_an_unfit_file_is_told_in_one_line() -> None:
    with agent() as running:
        pins, file = pins_on(running), running.place.folder / "state" / "node.key"
        whole = file.read_bytes()
        shown = f"node-key fingerprint={pins.by_node[NODE][0]}"
        assert shown in running.log("runner")
        running.stop("runner", kill=True)
        running.start("runner")
        wait_for(lambda: running.get("/readyz").status == 200, running)
        assert isinstance(judged(running, asked(running), pins=pins), Seen)
        for content, mode in ((b"", 0o600), (whole[:-9], 0o600), (whole, 0o644)):
            running.stop("runner")
            running.log_file("runner").write_text("")
            file.write_bytes(content)
            file.chmod(mode)
            running.start("runner")
            wait_for(lambda: "runner-started" in running.log("runner"), running)
            assert running.get("/readyz").status == 503
            assert running.get("/1/report/node/diagnose").status == 503
            told = [line for line in running.log("runner").splitlines() if str(file) in line]
            assert len(told) == 1, told
            assert "remove it for a new key" in told[0]
        file.chmod(0o600)  # mended, it needs no restart
        assert isinstance(judged(running, asked(running), pins=pins), Seen)
        assert whole.split()[1].decode() not in running.log("runner")


# S09 against the runner: the key's file.


def test_s09_an_unfit_key_file_seals_nothing_and_is_mended_without_a_restart() -> None:
    with agent() as running:
        file = running.place.key_file
        whole = file.read_bytes()

        def put(content: bytes | None, mode: int = 0o440) -> None:
            file.unlink(missing_ok=True)
            if content is not None:
                file.write_bytes(content)
                file.chmod(mode)

        for content, mode in ((None, 0), (b"", 0o440), (b"\n", 0o440), (b"short\n", 0o440)):
            put(content, mode)
            assert running.get("/1/report/node/diagnose").status == 503
            assert running.get("/readyz").status == 503
        for mode in (0o444, 0o460, 0o442, 0o640 | 0o004):
            put(whole, mode)
            assert running.get("/1/report/node/diagnose").status == 503
        put(whole)
        assert isinstance(judged(running, asked(running)), Seen)
        fresh = os.urandom(20).hex().encode() + b"\n"
        put(fresh)
        assert isinstance(judged(running, asked(running), key=Key(fresh)), Seen)
        assert isinstance(judged(running, asked(running), key=Key(whole)), Distrusted)
        assert whole.decode().strip() not in running.log("runner")


# S13: orders. The cluster's key alone lies on every node.


def order_for(uuid: str, **changes: Any) -> Order:
    at = now()
    order = Order(
        id=str(uuid4()),
        cluster=CLUSTER,
        node=uuid,
        name=NODE,
        incident=str(uuid4()),
        command="fix",
        stdin=digest(TEXT),
        issued=at,
        expires=at + 30_000,
    )
    return replace(order, **changes)


def sealed(running: Agent, order: Order, pem: bytes | None = None, key: Key | None = None) -> bytes:
    key = key or running.place.key
    certificate, signature = sign(pem or running.place.master_pem, order_bytes(key, order))
    return seal_order(key, order, certificate, signature)


def runs(running: Agent) -> str:
    log = running.place.folder / "runs"
    return log.read_text() if log.exists() else ""


STRANGER, _ = client_pem()
Change = Callable[[Agent], bytes]


def changed_order(**changes: Any) -> Change:
    return lambda running: sealed(running, order_for(running.place.uuid, **changes))


def timed_order(**shifts: int) -> Change:
    """As changed_order, for members that are milliseconds from the moment of sending."""
    return lambda running: changed_order(**{k: now() + v for k, v in shifts.items()})(running)


def outer_change(change: Callable[[dict[str, Any]], None]) -> Change:
    def make(running: Agent) -> bytes:
        outer = json.loads(sealed(running, order_for(running.place.uuid)))
        change(outer)
        return json.dumps(outer).encode()

    return make


def _borrowed(running: Agent) -> bytes:
    """A good signature of another order, under this one's seal."""
    one, other = order_for(running.place.uuid), order_for(running.place.uuid)
    certificate, signature = sign(running.place.master_pem, order_bytes(running.place.key, one))
    return seal_order(running.place.key, other, certificate, signature)


def _listed_certificate(running: Agent) -> bytes:
    """A stranger's signature beside a candidate's certificate, which everybody may read."""
    order = order_for(running.place.uuid)
    bytes_ = order_bytes(running.place.key, order)
    _, signature = sign(STRANGER, bytes_)
    certificate, _ = sign(running.place.master_pem, bytes_)
    return seal_order(running.place.key, order, certificate, signature)


def _two_certificates(running: Agent) -> bytes:
    order = order_for(running.place.uuid)
    mine, signature = sign(STRANGER, order_bytes(running.place.key, order))
    theirs, _ = sign(running.place.master_pem, b"")
    return seal_order(running.place.key, order, mine + theirs, signature)


def _as_report(running: Agent) -> bytes:
    order = order_for(running.place.uuid)
    outer = json.loads(seal(running.place.key, Purpose.REPORT, order.id, order.body()))
    good = json.loads(sealed(running, order))
    return json.dumps(good | outer).encode()


REFUSED: dict[str, Change] = {
    "signed by the cluster's key alone": outer_change(
        lambda o: (o.pop("signature"), o.pop("certificate"), None)[2]
    ),
    "empty signature": outer_change(lambda o: o.update(signature="")),
    "signature null": outer_change(lambda o: o.update(signature=None)),
    "signature not base64": outer_change(lambda o: o.update(signature="!" * 344)),
    "certificate is no certificate": outer_change(lambda o: o.update(certificate="x")),
    "certificate of 100 KB": outer_change(lambda o: o.update(certificate="x" * 100_000)),
    "no certificate (H07)": outer_change(lambda o: o.update(certificate="")),
    "signed by no candidate (H07)": lambda a: sealed(a, order_for(a.place.uuid), STRANGER),
    "a candidate's certificate, another's signature": _listed_certificate,
    "two certificates, the second a candidate's": _two_certificates,
    "signature of another order": _borrowed,
    "sealed with another key": lambda a: sealed(a, order_for(a.place.uuid), key=KEY),
    "sealed as a report": _as_report,
    "downgraded to SHA-1": outer_change(lambda o: o.pop("hmac_sha256")),
    "salt is another id": outer_change(lambda o: o.update(salt=str(uuid4()))),
    "expired": timed_order(issued=-60_000, expires=-1),
    "from the future": timed_order(issued=200_000, expires=230_000),
    "valid for an hour": timed_order(expires=3_600_000),
    "expires before it is issued": timed_order(issued=20_000, expires=10_000),
    "other node": changed_order(name="node2.example"),
    "other UUID": changed_order(node=str(uuid4())),
    "other cluster": changed_order(cluster="other.example"),
    "wrong diagnosis": changed_order(stdin=digest('{"status":"live-repair"}')),
    "wrong command": changed_order(command="other"),
    "a command that is not there": changed_order(command="absent"),
}


@pytest.mark.parametrize("make", REFUSED.values(), ids=REFUSED.keys())
def test_s13_orders_that_are_refused(live: Agent, make: Change) -> None:
    before, refused = runs(live), refusals(live)
    answer = live.post("/1/order", make(live))
    assert (answer.status, answer.body) == (403, b'{"error": "refused"}'), "no reason is told"
    assert (runs(live), refusals(live)) == (before, refused + 1)
    assert "order-refused why=" in live.log("runner")
    assert len(re.findall("order-refused why=", live.log("runner"))) <= 8, "nor the log filled"


def refusals(live: Agent) -> int:
    found = re.search(rb"\ngnt_health_orders_refused_total (\d+)", live.get("/metrics").body)
    assert found
    return int(found[1])


def receipt_of(live: Agent, order: Order) -> Receipt:
    raw: Raw = live.get(f"/1/order/{order.id}?salt={SALT}")
    return Receipt.from_body(unseal(live.place.key, Purpose.RECEIPT, SALT, raw.body))


def carried_out(live: Agent, raw: bytes, order: Order) -> None:
    before = runs(live).count("run")
    assert live.post("/1/order", raw).status == 202
    wait_for(lambda: receipt_of(live, order).progress is not Progress.STARTED, live)
    assert receipt_of(live, order).progress is Progress.DONE
    assert runs(live).count("run") == before + 1
    assert runs(live).endswith("run\n" + TEXT), "fed with the very bytes that were reported"


def test_s13_a_good_order_runs_once_however_often_it_is_sent(live: Agent) -> None:
    order = order_for(live.place.uuid)
    raw = sealed(live, order)
    carried_out(live, raw, order)
    before = runs(live)
    for _ in range(3):
        assert live.post("/1/order", raw).status == 202, "the receipt again"
    assert runs(live) == before
    live.stop("runner", kill=True)
    live.start("runner")
    wait_for(lambda: live.get("/readyz").status == 200, live)
    assert live.post("/1/order", raw).status == 202
    assert runs(live) == before, "nor after the runner was killed"
    wait_for(lambda: TEXT.encode() in said(live), live)


def test_s13_a_candidate_just_demoted_orders_nothing_any_more(live: Agent) -> None:
    file, lines = "master_candidates_certs", f"{live.place.uuid}={live.place.master_digest}\n"
    order = order_for(live.place.uuid)
    try:
        live.place.ssconf(file, "")
        assert live.post("/1/order", sealed(live, order)).status == 403
        uuid, _, known = lines.partition("=")
        for otherwise in {known.lower(), known.replace(":", ""), known.title()} - {known}:
            live.place.ssconf(file, f"{uuid}={otherwise}")
            answer = live.post("/1/order", sealed(live, order))
            assert answer.status == 403, "Ganeti writes digests in one way only"
    finally:
        live.place.ssconf(file, lines)
    carried_out(live, sealed(live, order), order)


@needs.mark("openssl")
def test_s13_h07_a_version_1_certificate_as_ganeti_makes_them_is_accepted(live: Agent) -> None:
    folder = live.place.folder
    key, request = f"{folder}/v1.key", f"{folder}/v1.csr"
    subprocess.run(
        (
            "openssl req -new -newkey rsa:2048 -nodes -subj /CN=ganeti.example.com"
            f" -keyout {key} -out {request}"
        ).split(),
        check=True,
        capture_output=True,
    )
    made = subprocess.run(
        ["openssl", "x509", "-req", "-in", request, "-signkey", key, "-days", "1"],
        check=True,
        capture_output=True,
    ).stdout
    shown = subprocess.run(
        ["openssl", "x509", "-noout", "-text", "-fingerprint", "-sha1"],
        input=made,
        check=True,
        capture_output=True,
    ).stdout.decode()
    if "Version: 1 " not in shown:
        needs.lacking("version-1")
    known = shown.rpartition("Fingerprint=")[2].strip()
    old = f"{live.place.uuid}={live.place.master_digest}\n"
    live.place.ssconf("master_candidates_certs", f"{old}{uuid4()}={known}\n")
    order = order_for(live.place.uuid)
    try:
        carried_out(live, sealed(live, order, Path(key).read_bytes() + made), order)
    finally:
        live.place.ssconf("master_candidates_certs", old)


def dated_pem(begins: datetime, ends: datetime) -> tuple[bytes, str]:
    """A key with a certificate for that time, and its digest."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "ganeti.example.com")])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name)
    builder = builder.public_key(key.public_key()).serial_number(1)
    made = builder.not_valid_before(begins).not_valid_after(ends).sign(key, hashes.SHA256())
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    pem = private + made.public_bytes(Encoding.PEM)
    return pem, verify(*sign(pem, b""), b"")


@pytest.mark.parametrize("from_now", [(-730, -365), (1, 365)], ids=["expired", "not valid yet"])
def test_s13_h07_a_listed_certificate_counts_whatever_its_dates(
    live: Agent, from_now: tuple[int, int]
) -> None:
    """Trust is in the list that the master writes: whoever is to order no more is taken off it.

    Ganeti's own nodes verify each other's client certificates by their digests in the same way,
    and nobody should lose repairs on the day when a certificate runs out.
    """
    begins, ends = (datetime.now(UTC) + timedelta(days=days) for days in from_now)
    pem, known = dated_pem(begins, ends)
    old = f"{live.place.uuid}={live.place.master_digest}\n"
    order = order_for(live.place.uuid)
    raw = sealed(live, order, pem)
    assert live.post("/1/order", raw).status == 403, "it is not listed"
    live.place.ssconf("master_candidates_certs", f"{old}{uuid4()}={known}\n")
    try:
        carried_out(live, raw, order)
    finally:
        live.place.ssconf("master_candidates_certs", old)


def test_s13_orders_do_not_hold_up_reports(live: Agent) -> None:
    """Judging a signature takes a process; a node that sends many must not silence another."""
    raw = _listed_certificate(live)
    head = f"POST /1/order HTTP/1.1\r\nHost: x\r\nContent-Length: {len(raw)}\r\n"
    whole = f"{head}Content-Type: application/json\r\n\r\n".encode() + raw
    connections = [live.connect() for _ in range(40)]
    try:
        for connection in connections:
            connection.sendall(whole)
        codes = set()
        assert live.get("/1/report/node/diagnose").status == 200
        answered, _, _ = select.select(connections, [], [], 0)
        assert len(answered) < len(connections), "the report does not wait for all orders"
        for connection in connections:
            connection.settimeout(PATIENCE)
            codes.add(connection.recv(65536).split()[1])
        assert b"403" in codes
        assert codes <= {b"403", b"503"}, "judged, or told that it could not be in time"
    finally:
        for connection in connections:
            connection.close()


def test_s13_a_flood_of_orders_by_a_stranger_delays_no_good_one(live: Agent) -> None:
    """The cluster's key lies on every node; whose certificate counts is known without a process."""
    raw = sealed(live, order_for(live.place.uuid), STRANGER)
    head = f"POST /1/order HTTP/1.1\r\nHost: x\r\nContent-Length: {len(raw)}\r\n"
    whole = f"{head}Content-Type: application/json\r\n\r\n".encode() + raw
    connections = [live.connect() for _ in range(100)]
    try:
        for connection in connections:
            connection.sendall(whole)
        order = order_for(live.place.uuid)
        good = sealed(live, order)
        carried_out(live, good, order)
        for connection in connections:
            connection.settimeout(PATIENCE)
            assert b" 403 " in connection.recv(65536)
    finally:
        for connection in connections:
            connection.close()


# The front taken over.


def found_in_memory(pid: int, wanted: list[bytes]) -> list[bytes]:
    """Which of the byte strings stand anywhere in a process's readable memory."""
    found = set()
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb") as memory:
        for line in maps:
            place, mode, *_ = line.split()
            if "r" not in mode or "[v" in line:
                continue
            start, end = (int(part, 16) for part in place.split("-"))
            while start < end:
                size = min(end - start, 16 * 2**20)
                try:
                    memory.seek(start)
                    part = memory.read(size)
                except (OSError, OverflowError):
                    part = b""
                found |= {one for one in wanted if one in part}
                start += size - 64 if size == 16 * 2**20 else size
    return sorted(found)


def test_a_front_taken_over_yields_no_key(live: Agent) -> None:
    """Its memory and its open files are searched; the same search does find it in the runner."""
    for _ in range(20):
        assert asked(live).status == 200
        live.post("/1/order", sealed(live, order_for(live.place.uuid), STRANGER))
    key = live.place.key
    secrets = [key.whole.strip(), *(key.for_purpose(purpose) for purpose in Purpose)]
    secrets += [hashlib.sha1(key.whole).digest(), live.place.master_pem[100:160]]
    secrets += [(live.place.folder / "state" / "node.key").read_bytes().split()[1]]
    assert found_in_memory(live.pid("front"), secrets) == []
    assert key.whole.strip() in found_in_memory(live.pid("runner"), secrets)
    open_files = {
        os.readlink(f"/proc/{live.pid('front')}/fd/{fd}")
        for fd in os.listdir(f"/proc/{live.pid('front')}/fd")
    }
    assert not [name for name in open_files if str(live.place.folder / "ganeti") in name]


def test_the_runners_socket_gives_no_key_to_whoever_holds_the_front(live: Agent) -> None:
    """All that can be asked there, asked; strangers are not even heard."""
    from nodeagent.agent.link import Link

    async def ask_all() -> str:
        link = Link(str(live.place.folder / "runner.sock"))
        answers = []
        for verb in ("hello", "report", "order", "receipt", "health", "key", "run", "", "__init__"):
            answers.append(
                await link.ask({"verb": verb, "id": "../ganeti/hmac.key", "order": "{}"})
            )
        link.close()
        return json.dumps(answers)

    assert live.place.key.whole.decode().strip() not in asyncio.run(ask_all())
    asyncio.run(ask_all())
    mode = (live.place.folder / "runner.sock").stat().st_mode
    assert mode & 0o007 == 0
