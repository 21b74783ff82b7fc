"""Readers of what nodes and their commands say: reports, orders, receipts, frames."""

import asyncio
import base64
import json
from datetime import UTC, datetime
from functools import partial

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from nodeagent.agent.diagnose import Reading, interpret, stabilise
from nodeagent.agent.link import frame, read_frame
from nodeagent.agent.probe import mirrors_of
from nodeagent.agent.run import Finished
from nodeagent.errors import Corrupt
from nodeagent.maintd.balancing.load import read_busy, read_own, read_resident
from nodeagent.maintd.engine import orders, poll
from nodeagent.maintd.http import status
from nodeagent.maintd.http.page import incident_card, text
from nodeagent.model.diagnosis import Need, Steady
from nodeagent.model.event import happened
from nodeagent.model.evidence import Contact, Mirror
from nodeagent.model.ledger import Ledger
from nodeagent.model.reason import Held, Kind, because
from nodeagent.model.units import Ms
from nodeagent.protocol.canonical import MAX_BYTES, canonical, read
from nodeagent.protocol.commands import read_commands, read_runs, write_commands, write_runs
from nodeagent.protocol.envelope import Key, Purpose, confd_hmac, open_outer, seal, strong_hmac
from nodeagent.protocol.look import Expected, judge_answer, open_report
from nodeagent.protocol.messages import Order, Receipt, Report, digest
from nodeagent.protocol.order import open_order
from nodeagent.protocol.signature import BadSignature, verify
from nodeagent.protocol.testimony import Words
from nodeagent.protocol.witness import Question, body_of, open_question, words_of
from nodeagent.store.carried import Carried, pack, unpack
from tests.fuzz.decoder import Decoder, each, seed, text_of

KEY = Key(b"0123456789abcdef0123456789abcdef01234567\n")
SALT = "5f0e9a31-7a0c-4b4e"
NOW = Ms(1_764_000_000_000)
UUID = "00000001-0000-4000-8000-000000000000"
QUESTION = Question(UUID, "c", UUID, "n1", "n2", Ms(1), Ms(2))
DISK = Mirror("i1", "Connected", "UpToDate")
DIAGNOSIS = {"status": "live-repair", "command": "fix", "details": {"bay": 7, "words": ["a b"]}}


def sealed(purpose: Purpose, text: str, salt: str = SALT) -> dict[str, str]:
    """The outer object around any text at all: whoever has the key can seal what they like."""
    return {
        "msg": text,
        "salt": salt,
        "hmac": confd_hmac(KEY, salt, text),
        "hmac_sha256": strong_hmac(KEY, purpose, salt, text),
    }


def opened(purpose: Purpose, raw: bytes) -> dict[str, object]:
    return open_outer(KEY, purpose, SALT, sealed(purpose, _utf8(raw)))


def _utf8(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def body(purpose: Purpose, members: dict[str, object], salt: str = SALT) -> dict[str, object]:
    return members | {"purpose": purpose.value, "salt": salt}


# Reports, and all that is made of what they say.


def report(raw: bytes) -> None:
    """From the answer's bytes to the held reason, the metric, the event and the page."""
    outer = {"name": "diagnose", "data": sealed(Purpose.REPORT, _utf8(raw))}
    answer = json.dumps(outer).encode()
    looks = {"n1": judge_answer(200, answer, KEY, Expected("c", "n1", UUID, SALT), NOW)}
    diagnoses, doubts = poll.understand(looks, NOW, 600_000)
    for why in doubts.values():
        reason(why.encode())
    for said in diagnoses.values():
        str(happened(NOW, "noted", "i", "n1", need=said.need.wire, said=said.text))
        incident_card.pretty(said.text, json.loads(said.text))


def reason(raw: bytes) -> None:
    """A reason as metrics, history and page take it."""
    held = Held(because(Kind.DOUBT, "n1", doubt=text_of(raw)), "n1")
    status.held_json(held)
    assert hash(held.key)
    assert held.why.help
    text.clean(held.reason)
    str(happened(NOW, "held", "", held.node, why=held.reason))


REPORT = Report(
    "c",
    UUID,
    "n1",
    "epoch",
    1,
    NOW,
    canonical(DIAGNOSIS),
    NOW,
    NOW,
    {"disk": "timed out after 2 s", "raid": "output is not JSON"},
    True,
    "n1",
    "",
    "1.0",
)
DOUBTED = Report(
    "c", UUID, "n1", "epoch", 2, NOW, None, None, None, {"disk": "no"}, False, "n1", "", "1.0"
)


def listed(raw: bytes) -> None:
    """The texts of commands and of their last runs, divided by a NUL."""
    commands, _, runs = _utf8(raw).partition("\0")
    found = read_commands(commands)
    said = read_runs(runs, len(found))
    assert read_commands(write_commands(found)) == found
    assert read_runs(write_runs(said), len(found)) == said


def interpreted(raw: bytes) -> None:
    """What a command prints, twice, so that it is compared with itself."""
    steady = Steady()
    for reading in (
        Reading(drop=("/details/*/a",), bucket={"/details/temp": 5}),
        Reading(nagios={0: Need.OK, 1: Need.LIVE_REPAIR}, repair="fix"),
    ):
        for code, said in ((0, raw), (1, raw), (0, raw + b" ")):
            steady = stabilise(
                steady, interpret(Finished(code, said, b""), reading), NOW, confirm=2
            )


# Orders, receipts.


def _order(text: str | None) -> Order:
    stdin = digest(text or "x")
    more = {} if text is None else {"text": text, "seconds": 5}
    return Order(UUID, "c", UUID, "n1", UUID, "fix", stdin, NOW, NOW + 9, **more)  # type: ignore[arg-type]


def ordered(raw: bytes) -> None:
    queue = b'"queue"' in raw
    purpose = Purpose.QUEUE if queue else Purpose.ORDER
    outer: dict[str, object] = {
        **sealed(purpose, _utf8(raw), UUID),
        "certificate": "c",
        "signature": "s",
    }
    if queue:
        outer["purpose"] = "queue"
    open_order(KEY, json.dumps(outer).encode())


def questioned(raw: bytes) -> object:
    outer = sealed(Purpose.WITNESS, _utf8(raw), UUID)
    return open_question(KEY, json.dumps({**outer, "certificate": "", "signature": ""}).encode())


def testified(raw: bytes) -> object:
    outer = sealed(Purpose.TESTIMONY, _utf8(raw), UUID)
    return words_of(open_outer(KEY, Purpose.TESTIMONY, UUID, outer), QUESTION)


# The ledger in Ganeti's configuration.

CARRIED = Carried(7, UUID, NOW, Ledger(round=NOW), (happened(NOW, "job-unknown", job="9"),))


def rule(raw: bytes) -> object:
    return unpack(text_of(raw))


def receipt(raw: bytes) -> None:
    orders._why(Receipt.from_body(opened(Purpose.RECEIPT, raw)))


RECEIPT = Receipt.from_body(
    {
        "order": UUID,
        "incident": UUID,
        "command": "fix",
        "progress": "failed",
        "started": NOW,
        "ended": NOW,
        "code": 1,
        "why": "it failed",
        "output": "line 1\nline 2\n",
        "v": 1,
    }
)


# Certificates.


def certificate(raw: bytes) -> None:
    """Any bytes at all in the place of a certificate's, and the texts around them."""
    body = base64.encodebytes(raw).decode()
    verify(f"-----BEGIN CERTIFICATE-----\n{body}-----END CERTIFICATE-----\n", raw[:64], raw)
    verify(text_of(raw), raw[:64], raw)


def _certificates() -> tuple[bytes, ...]:
    found = []
    at = datetime(2026, 1, 1, tzinfo=UTC)
    for key in (ec.generate_private_key(ec.SECP256R1()), ed25519.Ed25519PrivateKey.generate()):
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "n1")])
        made = x509.CertificateBuilder().subject_name(name).issuer_name(name)
        made = made.not_valid_before(at).not_valid_after(at.replace(year=2036))
        made = made.serial_number(7).public_key(key.public_key())
        how = hashes.SHA256() if isinstance(key, ec.EllipticCurvePrivateKey) else None
        found.append(made.sign(key, how).public_bytes(Encoding.DER))
    # Version 9, and a key of an algorithm that nobody knows.
    odd = found[0].replace(b"\xa0\x03\x02\x01\x02", b"\xa0\x03\x02\x01\x09")
    strange = found[1].replace(b"\x06\x03\x2b\x65\x70", b"\x06\x03\x2b\x65\x05")
    return (*found, odd, strange)


# Frames, loads.


def frames(raw: bytes) -> None:
    async def take() -> None:
        for depth in (1, 32):
            reader = asyncio.StreamReader(limit=2**24)
            reader.feed_data(raw)
            reader.feed_eof()
            while await read_frame(reader, 2**20, depth) is not None:
                pass

    asyncio.run(take())


def loads(raw: bytes) -> str:
    return each(partial(reader, raw, NOW) for reader in (read_busy, read_own, read_resident))


def _load(name: str, data: object) -> dict[str, object]:
    return {"name": name, "timestamp": NOW * 1_000_000, "data": data}


def document(raw: bytes) -> None:
    """Read, and written and read again it is the same."""
    text = canonical(read(raw, limit=8 * MAX_BYTES))
    assert canonical(read(text.encode(), limit=64 * MAX_BYTES)) == text


_ORDERS = (
    body(Purpose.ORDER, _order(None).body(), UUID),
    body(Purpose.QUEUE, _order("entry").body(), UUID),
)
_OUTSIDE = sealed(Purpose.ORDER, json.dumps(_ORDERS[0]), UUID) | {
    "certificate": "",
    "signature": "",
}


def _sealed_report() -> object:
    return json.loads(seal(KEY, Purpose.REPORT, SALT, REPORT.body()))


DECODERS = (
    Decoder("canonical", document, seed(DIAGNOSIS, [1, -2.5e3, "ä", None, True], {"a": {"b": []}})),
    Decoder("report", report, seed(*(body(Purpose.REPORT, r.body()) for r in (REPORT, DOUBTED)))),
    Decoder(
        "envelope",
        lambda raw: open_report(raw, KEY, SALT),
        seed({"name": "diagnose", "data": _sealed_report()}),
    ),
    Decoder(
        "reason",
        reason,
        (b"settling for 12.5 s (3 moves left)", b"migrate i1 off n1 to n2"),
        json=False,
    ),
    Decoder(
        "commands",
        listed,
        (f"raid diagnose runs {'a' * 64} 30000 -\0- Ok 40 1".encode(),),
        json=False,
    ),
    Decoder("command", interpreted, (*seed(DIAGNOSIS), b"OK - all well | a=1;2;3\nmore\n")),
    Decoder("order", ordered, seed(*_ORDERS)),
    Decoder("order-outside", lambda raw: open_order(KEY, raw), seed(_OUTSIDE)),
    Decoder("receipt", receipt, seed(body(Purpose.RECEIPT, RECEIPT.body()))),
    Decoder("question", questioned, seed(body(Purpose.WITNESS, QUESTION.body(), UUID))),
    Decoder(
        "testimony",
        testified,
        seed(
            body(
                Purpose.TESTIMONY,
                body_of(
                    QUESTION, "c", "n1", UUID, Words(Contact.SILENT, Contact.REFUSED, (DISK,), "")
                ),
                UUID,
            )
        ),
    ),
    Decoder("rule", rule, (pack(CARRIED).encode(),), (Corrupt,), json=False),
    Decoder(
        "mond",
        mirrors_of,
        seed(
            {
                "name": "drbd",
                "data": {
                    "status": {"code": 0, "message": ""},
                    "deviceInfos": [
                        {"connectionState": "Connected", "instance": "i1", "localState": "UpToDate"}
                    ],
                },
            }
        ),
    ),
    Decoder("certificate", certificate, _certificates(), (BadSignature,), json=False),
    Decoder("link", frames, (frame({"verb": "report", "salt": "a"}) * 2,), json=False),
    Decoder(
        "load",
        loads,
        seed(
            _load("cpu-avg-load", {"cpu_total": 1.5}),
            _load("cpu-avg-load", {"error": "no /proc"}),
            _load("kvm-inst-rss", {"i1": 100, "i2": 5}),
            _load("xen-cpu-avg-load", {"i1": 0.5}),
        ),
    ),
)
