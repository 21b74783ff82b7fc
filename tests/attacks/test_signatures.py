"""S01-S12: forged, replayed, stale and borrowed messages; S13: who may order a repair;
S14: a node that has the cluster's key, and a neighbour's address.

Reports are sealed as a runner does it and judged by the master's own `judge_answer`; orders are
given to a node's own `Repairs`, which would carry out a good one. One agent of real processes joins
them.

| id  | here, or why not |
|-----|------------------|
| S09 | two keys in grace: no verifier of ours accepts an old key; between two distributions
|     | of a new one a report is distrusted, which changes no incident. The key's file:
|     | tests/agent/test_ssconf.py, and test_runner.py, where it is mended without a restart |
| S10 | a statistic of microseconds proves nothing in a test suite; tested is that digests are
|     | compared by `hmac.compare_digest` |
| S13 | floods: tests/agent/test_repairs.py starts no process for what would not run, and in
|     | test_front.py few orders are asked at once |
| S14 | the key's file: tests/agent/test_node_key.py |
"""

import asyncio
import hashlib
import hmac
import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
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

from nodeagent.agent.link import Link
from nodeagent.agent.node_key import NodeKey
from nodeagent.errors import MessageError, Unavailable
from nodeagent.maintd.engine.conduct import count
from nodeagent.maintd.engine.orders import Orders
from nodeagent.model.ledger import Outcome
from nodeagent.model.snapshot import Node, Snapshot
from nodeagent.model.units import Ms
from nodeagent.protocol import envelope
from nodeagent.protocol.bounds import SKEW
from nodeagent.protocol.canonical import canonical
from nodeagent.protocol.envelope import Key, Purpose, confd_hmac, open_outer, seal
from nodeagent.protocol.look import Distrusted, Expected, Look, Seen, judge_answer
from nodeagent.protocol.messages import Order, Progress, Receipt, Report, digest, fingerprint
from nodeagent.protocol.node_key import TAG, Pins
from nodeagent.protocol.signature import sign, verify
from nodeagent.web.client import fetch
from nodeagent.web.tls import untrusting_tls
from tests import needs
from tests.agent.place import CLUSTER, NODE, SICK_TEXT, Place, client_pem, safe_folder, sealed_order
from tests.agent.sick import SICK
from tests.agent.workshop import Workshop, ran, story
from tests.patience import PATIENCE
from tests.protocol.opened import unseal
from tests.web.live import Agent, agent, wait_for

SALT = "5f0e9a31-7a0c-4b4e"
KEY = Key(b"0123456789abcdef0123456789abcdef01234567\n")
NOW = Ms(1_795_000_000_000)
HERE = "a" * 64  # the certificate of the connection that a report came by


@pytest.fixture(scope="module")
def node() -> Iterator[Place]:
    """A node that nobody changes."""
    with safe_folder() as folder:
        yield Place(folder)


def genuine(node: Place, **changes: Any) -> Report:
    report = Report(
        cluster=CLUSTER,
        node=node.uuid,
        name=NODE,
        epoch="e",
        seq=1,
        time=NOW,
        diagnosis=SICK_TEXT,
        checked=NOW,
        changed=NOW,
        unusable={},
        firm=True,
        master=NODE,
        tls=HERE,
        software="0",
        key=NodeKey(str(node.folder)).public,
    )
    return replace(report, **changes)


Sign = Callable[[bytes], bytes]


def answered(
    node: Place, report: Report | None = None, sign_: Sign | None = None
) -> dict[str, Any]:
    """The sealed message; by the node itself, or by whoever has the cluster's key."""
    if report is None:
        body, sign_ = genuine(node).body(), NodeKey(str(node.folder)).sign
    else:
        body = report.body()
    found: dict[str, Any] = json.loads(seal(node.key, Purpose.REPORT, SALT, body, sign_))
    return found


def judged(node: Place, sealed: dict[str, Any] | None = None, **changes: Any) -> Look:
    """What the master makes of it, or of the node's own report."""
    key, at = changes.pop("key", node.key), changes.pop("at", NOW)
    expected = replace(Expected(CLUSTER, NODE, node.uuid, SALT, HERE), **changes)
    body = canonical({"name": "diagnose", "data": sealed or answered(node)}).encode()
    return judge_answer(200, body, key, expected, at)


# Reports.


def test_s01_no_bit_can_be_flipped(node: Place) -> None:
    good = judged(node)
    assert isinstance(good, Seen)
    assert good.diagnosis is not None
    assert good.diagnosis.text == SICK_TEXT
    whole = canonical({"name": "diagnose", "data": answered(node)}).encode()
    expected = Expected(CLUSTER, NODE, node.uuid, SALT, HERE)
    for place in range(len(whole)):
        for bit in {0, place % 8}:
            body = bytearray(whole)
            body[place] ^= 1 << bit
            look = judge_answer(200, bytes(body), node.key, expected, NOW)
            # Outside the seal (mond's own members) a flip may pass, but not into the report.
            assert isinstance(look, Distrusted) or look == good, (place, bit)


OUT_OF_CONTEXT: dict[str, dict[str, Any]] = {
    "S02 other UUID": {"uuid": str(uuid4())},
    "S02 other node": {"name": "node2.example"},
    "S02 other cluster": {"cluster": "other.example"},
    "S03 replayed for another question": {"salt": "another-salt"},
    "S04 nearly our salt": {"salt": SALT.upper()},
    "S04 longer salt": {"salt": SALT + "0"},
    "S02 relayed through another's TLS": {"certificate": "0" * 64},
    "S02 TLS stripped": {"certificate": ""},
    "S11 an hour old": {"at": NOW + 3_600_000},
    "S11 an hour in the future": {"at": NOW - 3_600_000},
    "S09 another key": {"key": Key(b"f" * 40 + b"\n")},
}


def test_s_a_report_out_of_its_context_is_distrusted(node: Place) -> None:
    for name, changes in OUT_OF_CONTEXT.items():
        assert isinstance(judged(node, **changes), Distrusted), name


def test_s11_a_diagnosis_from_the_future_is_none(node: Place) -> None:
    """It would never age; a clock may differ by SKEW."""
    sign_ = NodeKey(str(node.folder)).sign
    for checked, kind in ((NOW + SKEW, Seen), (NOW + SKEW + 1, Distrusted), (None, Seen)):
        report = genuine(node, checked=checked)
        assert isinstance(judged(node, answered(node, report, sign_)), kind), checked


def test_s02_no_message_opens_as_one_of_another_purpose(node: Place) -> None:
    sealed = json.dumps(answered(node)).encode()
    assert unseal(node.key, Purpose.REPORT, SALT, sealed)["name"] == NODE
    for purpose in set(Purpose) - {Purpose.REPORT}:
        with pytest.raises(MessageError):
            unseal(node.key, purpose, SALT, sealed)


# The envelope.


def envelope_of(**changes: Any) -> bytes:
    outer = json.loads(seal(KEY, Purpose.REPORT, SALT, {"v": 1}))
    outer.update(changes)
    return json.dumps({k: v for k, v in outer.items() if v is not ...}).encode()


GOOD = json.loads(envelope_of())

FORGED: dict[str, dict[str, Any]] = {
    "S06 key_selector": {"key_selector": ""},
    "S07 hmac null": {"hmac": None},
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
    "S08 blank before": {"hmac_sha256": " " + GOOD["hmac_sha256"]},
    "S08 newline after": {"hmac_sha256": GOOD["hmac_sha256"] + "\n"},
    "S08 short": {"hmac_sha256": GOOD["hmac_sha256"][:-1]},
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


GUARDS = {
    "S02 inside": (signed(INSIDE | {"purpose": "order"}, SALT), "purpose"),
    "S02 by the sub-key": (signed(INSIDE, SALT, Purpose.ORDER), "match"),
    "S03 outside": (signed(INSIDE, "other"), "another question"),
    "S03 inside": (signed(INSIDE | {"salt": "other"}, SALT), "inside"),
    "S05 brace in the salt": (signed(INSIDE, SALT + "{"), "agreed form"),
    "S04 no salt": (signed(INSIDE, ""), "agreed form"),
    "S04 newline after the salt": (signed(INSIDE, SALT + "\n"), "agreed form"),
}


def test_s_each_guard_holds_by_itself() -> None:
    """Several rules stand behind each other here; each is met alone."""
    assert unseal(KEY, Purpose.REPORT, SALT, signed(INSIDE, SALT)) == INSIDE
    for name, (raw, why) in GUARDS.items():
        assert why in refusal(raw), name


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


NO_TIMES: tuple[Any, ...] = (
    *("\uff11\uff12", "1_000", " 1e5\n", "1700000000000", 1.5, True, -1, 2**63, None, [1]),
)


def test_s12_times_are_whole_numbers_and_nothing_that_python_takes_for_one(node: Place) -> None:
    report, order = genuine(node), Order.from_body(json.loads(ordered(node)["msg"]))
    assert Report.from_body(report.body()) == report
    for value in NO_TIMES:
        with pytest.raises(MessageError, match=r"report\.time"):
            Report.from_body(report.body() | {"time": value})
        with pytest.raises(MessageError, match=r"order\.expires"):
            Order.from_body(order.body() | {"expires": value})


# S14: a node of the cluster, which has its key, answers at a neighbour's address.


THIEF = Ed25519PrivateKey.generate()
PUBLIC = THIEF.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw).hex()
LIE = '{"status":"evacuate-failover"}'


def pins_on(node: Place) -> Pins:
    """The neighbour is pinned to its own key, as maintd does at first sight."""
    return Pins.of({NODE: [TAG + fingerprint(NodeKey(str(node.folder)).public)]})


def forged(node: Place, sign_: Sign | None = None, **changes: Any) -> dict[str, Any]:
    """What the attacker says in the neighbour's name; all but its key he can see or make up."""
    return answered(node, genuine(node, **{"diagnosis": LIE, **changes}), sign_)


def test_s14_nobody_else_speaks_for_a_node_that_is_pinned(node: Place) -> None:
    pins = pins_on(node)
    assert isinstance(judged(node, pins=pins), Seen)
    signature = bytes.fromhex(answered(node)["signature"])
    lies = {
        "his own key": (forged(node, THIEF.sign, key=PUBLIC), "signed with the key"),
        "no key": (forged(node, key=""), "key is not of the form"),
        "its key, without a signature": (forged(node), "is not signed with it"),
        "its key, signed with his": (forged(node, THIEF.sign), "does not match the node key"),
        "what it signed is carried over": (forged(node, lambda _: signature), "does not match"),
    }
    for how, (sealed, why) in lies.items():
        look = judged(node, sealed, pins=pins)
        assert isinstance(look, Distrusted), how
        assert why in look.why, how


def test_s14_his_own_key_does_not_serve_him_under_another_name(node: Place) -> None:
    """The neighbour is not pinned yet, and the thief's node is."""
    sealed = forged(node, THIEF.sign, key=PUBLIC)
    assert isinstance(judged(node, sealed), Seen), "nobody can tell, before a first sight"
    look = judged(node, sealed, pins=Pins.of({"thief.example": [TAG + fingerprint(PUBLIC)]}))
    assert isinstance(look, Distrusted)
    assert "is the key of thief.example" in look.why


def test_s14_he_does_not_vote_for_a_neighbour(node: Place) -> None:
    there = Snapshot(CLUSTER, {NODE: Node(NODE, node.uuid, "127.0.0.1")})
    lie = forged(node, THIEF.sign, key=PUBLIC, master="thief.example")
    for pins, lost in ((Pins(), True), (pins_on(node), False)):
        assert count({NODE: judged(node, lie, pins=pins)}, there, NODE).lost is lost


# S13: orders. The cluster's key alone lies on every node.


STRANGER, _ = client_pem()


@pytest.fixture
def place() -> Iterator[Place]:
    """A node that would carry out a good order."""
    with safe_folder() as folder:
        found = Place(folder)
        for name in ("fix", "other"):
            log = f"#!/bin/sh\necho ran >>{folder}/ran\ncat >{folder}/stdin\n"
            found.command("repair", name, log)
        yield found


def ordered(place: Place) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(sealed_order(place))
    return found


def changed(place: Place, **members: Any) -> bytes:
    """A good order whose outer object has other members; those of `...` it lacks."""
    outer = json.loads(sealed_order(place)) | members
    return json.dumps({k: v for k, v in outer.items() if v is not ...}).encode()


def at(place: Place, **shifts: int) -> bytes:
    """An order whose members are so many milliseconds from the moment of sending."""
    now = time.time_ns() // 1_000_000
    moments: dict[str, Any] = {name: now + shift for name, shift in shifts.items()}
    return sealed_order(place, **moments)


def sealed_with_another_key(place: Place) -> bytes:
    outer = json.loads(sealed_order(place))
    body = json.loads(outer["msg"])
    return json.dumps(outer | json.loads(seal(KEY, Purpose.ORDER, outer["salt"], body))).encode()


def as_report(place: Place) -> bytes:
    outer = json.loads(sealed_order(place))
    body = json.loads(outer["msg"])
    sealed = json.loads(seal(place.key, Purpose.REPORT, outer["salt"], body))
    return json.dumps(outer | sealed).encode()


def refused(place: Place) -> dict[str, bytes]:
    """Orders that nobody may carry out."""
    good, foreign = ordered(place), json.loads(sealed_order(place, pem=STRANGER))
    both = foreign["certificate"] + good["certificate"]
    wrong = digest('{"status":"live-repair"}')
    return {
        "signed by the cluster's key alone": changed(place, signature=..., certificate=...),
        "empty signature": changed(place, signature=""),
        "signature null": changed(place, signature=None),
        "signature not base64": changed(place, signature="!" * 344),
        "certificate is no certificate": changed(place, certificate="x"),
        "certificate of 100 KB": changed(place, certificate="x" * 100_000),
        "no certificate (H07)": changed(place, certificate=""),
        "signed by no candidate (H07)": json.dumps(foreign).encode(),
        "a candidate's certificate, another's signature": json.dumps(
            foreign | {"certificate": good["certificate"]}
        ).encode(),
        "two certificates, the second a candidate's": json.dumps(
            foreign | {"certificate": both}
        ).encode(),
        "signature of another order": changed(place, signature=good["signature"]),
        "sealed with another key": sealed_with_another_key(place),
        "sealed as a report": as_report(place),
        "downgraded to SHA-1": changed(place, hmac_sha256=...),
        "salt is another id": changed(place, salt=str(uuid4())),
        "expired": at(place, issued=-60_000, expires=-1),
        "from the future": at(place, issued=200_000, expires=230_000),
        "valid for an hour": at(place, expires=3_600_000),
        "expires before it is issued": at(place, issued=20_000, expires=10_000),
        "other node": sealed_order(place, name="node2.example"),
        "other UUID": sealed_order(place, node=str(uuid4())),
        "other cluster": sealed_order(place, cluster="other.example"),
        "wrong diagnosis": sealed_order(place, stdin=wrong),
        "wrong command": sealed_order(place, command="other"),
        "a command that is not there": sealed_order(place, command="absent"),
    }


def test_s13_orders_that_are_refused(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    async def tell(shop: Workshop) -> None:
        for number, (name, raw) in enumerate(refused(place).items(), 1):
            assert await shop.repairs.order(raw) is None, name
            assert (ran(place), shop.repairs.refusals.count) == (0, number), name
        assert "order-refused why=" in caplog.text
        assert caplog.text.count("order-refused why=") <= 8, "nor the log filled"
        await shop.serves()

    story(place, tell)
    assert (place.folder / "stdin").read_text() == SICK_TEXT, "the very bytes that were reported"


def test_s13_a_candidate_just_demoted_orders_nothing_any_more(place: Place) -> None:
    known = place.master_digest

    async def tell(shop: Workshop) -> None:
        for listed in {known.lower(), known.replace(":", ""), known.title()} - {known}:
            place.ssconf("master_candidates_certs", f"{place.uuid}={listed}\n")
            assert await shop.order() is None, "Ganeti writes digests in one way only"
        place.ssconf("master_candidates_certs", "")
        assert await shop.order() is None
        place.ssconf("master_candidates_certs", f"{place.uuid}={known}\n")
        await shop.serves()

    story(place, tell)


async def serves(shop: Workshop, pem: bytes, known: str) -> None:
    """Check that what this key orders is carried out once its certificate is listed."""
    place = shop.place
    assert await shop.repairs.order(sealed_order(place, pem=pem)) is None, "it is not listed"
    place.ssconf("master_candidates_certs", f"{place.uuid}={place.master_digest}\nu={known}\n")
    place.master_pem = pem
    await shop.serves()


@needs.mark("openssl")
def test_s13_h07_a_version_1_certificate_as_ganeti_makes_them_is_accepted(place: Place) -> None:
    def openssl(words: str, stdin: bytes = b"") -> bytes:
        argv = ["openssl", *words.split()]
        return subprocess.run(argv, input=stdin, check=True, capture_output=True).stdout

    key, request = place.folder / "v1.key", place.folder / "v1.csr"
    subject = "-subj /CN=ganeti.example.com"
    openssl(f"req -new -newkey rsa:2048 -nodes {subject} -keyout {key} -out {request}")
    made = openssl(f"x509 -req -in {request} -signkey {key} -days 1")
    shown = openssl("x509 -noout -text -fingerprint -sha1", made).decode()
    if "Version: 1 " not in shown:
        needs.lacking("version-1")
    known = shown.rpartition("Fingerprint=")[2].strip()
    story(place, lambda shop: serves(shop, key.read_bytes() + made, known))


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
    place: Place, from_now: tuple[int, int]
) -> None:
    """Trust is in the list that the master writes: whoever is to order no more is taken off it.

    Ganeti's own nodes verify each other's client certificates by their digests in the same way,
    and nobody should lose repairs on the day when a certificate runs out.
    """
    begins, ends = (datetime.now(UTC) + timedelta(days=days) for days in from_now)
    story(place, lambda shop: serves(shop, *dated_pem(begins, ends)))


# A whole agent.


@pytest.fixture(scope="module")
def live() -> Iterator[Agent]:
    """An agent that stands by a diagnosis and would repair it."""
    scripts = {"diagnose/sick": SICK, "repair/fix": "#!/bin/sh\n"}
    with agent(tls=True, commands='"sick"', scripts=scripts, more="confirm = 1") as running:
        wait_for(lambda: seen(running).diagnosis, running)
        yield running


def seen(running: Agent) -> Seen:
    """Ask and judge as the master does."""
    target = f"/1/report/node/diagnose?salt={SALT}"
    terms = untrusting_tls()
    answer = asyncio.run(fetch(running.address, running.port, target, seconds=PATIENCE, tls=terms))
    expected = Expected(CLUSTER, NODE, running.place.uuid, SALT, answer.certificate)
    now = Ms(time.time_ns() // 1_000_000)
    look = judge_answer(answer.status, answer.body, running.place.key, expected, now)
    assert isinstance(look, Seen)
    return look


def test_s04_a_salt_used_twice_is_seen_by_the_sequence(live: Agent) -> None:
    first, second = seen(live), seen(live)
    assert first.diagnosis is not None
    assert first.diagnosis.text == SICK_TEXT
    assert first.report.seq < second.report.seq


def test_s13_s14_an_order_runs_once_and_nobody_else_writes_its_receipt(live: Agent) -> None:
    """That a repair is done is believed of the node alone that has it on its disk."""
    order = str(uuid4())
    raw = sealed_order(live.place, id=order)
    forbidden = live.post("/1/order", sealed_order(live.place, pem=STRANGER))
    assert (forbidden.status, forbidden.body) == (403, b'{"error": "refused"}'), "no reason is told"
    tags = frozenset({TAG + seen(live).key})
    node = Node(NODE, live.place.uuid, live.address, tags=tags)
    orders = Orders(live.place.key, live.place.master_pem, live.port, tls=True, now=lambda: NOW)

    def done() -> bool:
        return asyncio.run(orders.outcome(order, node)).outcome is Outcome.SUCCESS

    assert live.post("/1/order", raw).status == 202
    wait_for(done, live)
    salted = live.get(f"/1/order/{order}?salt={SALT}").body
    receipt = Receipt.from_body(unseal(live.place.key, Purpose.RECEIPT, SALT, salted))
    assert receipt.progress is Progress.DONE
    thief = replace(node, tags=frozenset({TAG + fingerprint(PUBLIC)}))
    with pytest.raises(Unavailable, match="is not believed: it is signed with the key"):
        asyncio.run(orders.outcome(order, thief))
    live.stop("runner", kill=True)
    live.start("runner")
    wait_for(lambda: live.get("/readyz").status == 200, live)
    assert live.post("/1/order", raw).status == 202, "the receipt again"
    again = live.get(f"/1/order/{order}?salt={SALT}").body
    assert Receipt.from_body(unseal(live.place.key, Purpose.RECEIPT, SALT, again)) == receipt


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
        assert seen(live)
        live.post("/1/order", sealed_order(live.place, pem=STRANGER))
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
