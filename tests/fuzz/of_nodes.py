"""Readers of what nodes and their commands say: reports, orders, receipts, frames."""

import asyncio
import base64
import json
from functools import partial

from nodeagent.agent.diagnose import Reading, interpret, stabilise
from nodeagent.agent.link import frame, read_frame
from nodeagent.agent.probe import mirrors_of
from nodeagent.agent.run import Finished
from nodeagent.errors import Corrupt
from nodeagent.maintd.balancing.load import read_busy, read_own, read_resident
from nodeagent.maintd.deciding import reports
from nodeagent.maintd.engine import orders
from nodeagent.maintd.http import status
from nodeagent.maintd.http.page import incident_card, text
from nodeagent.model.diagnosis import Need, Steady
from nodeagent.model.event import happened
from nodeagent.model.ledger import Ledger
from nodeagent.model.reason import Held, Kind, because
from nodeagent.model.units import Ms
from nodeagent.protocol.canonical import MAX_BYTES, canonical, read
from nodeagent.protocol.commands import read_commands, read_runs, write_commands, write_runs
from nodeagent.protocol.envelope import (
    Key,
    Purpose,
    confd_hmac,
    open_outer,
    signed_bytes,
    strong_hmac,
)
from nodeagent.protocol.look import Expected, judge_answer, open_report
from nodeagent.protocol.messages import Receipt
from nodeagent.protocol.order import open_order
from nodeagent.protocol.signature import BadSignature, verify
from nodeagent.protocol.witness import Question, open_question, words_of
from nodeagent.store.carried import Carried, pack, unpack
from tests.fuzz.decoder import Decoder, each, text_of
from tests.signed import sign

KEY = Key(b"0123456789abcdef0123456789abcdef01234567\n")
SALT = "5f0e9a31-7a0c-4b4e"
NOW = Ms(1_764_000_000_000)
UUID = "00000001-0000-4000-8000-000000000000"
QUESTION = Question(UUID, "c", UUID, "n1", "n2", Ms(1), Ms(2))


def sealed(purpose: Purpose, text: str, salt: str = SALT) -> dict[str, str]:
    """The outer object around any text at all: whoever has the key can seal what they like."""
    return {
        "msg": text,
        "salt": salt,
        "hmac": confd_hmac(KEY, salt, text),
        "hmac_sha256": strong_hmac(KEY, purpose, salt, text),
        "signature": sign(signed_bytes(salt, text)).hex(),
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
    diagnoses, doubts = reports.understand(looks, NOW, 600_000)
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


# Certificates.


def certificate(raw: bytes) -> None:
    """Any bytes at all in the place of a certificate's, and the texts around them."""
    body = base64.encodebytes(raw).decode()
    verify(f"-----BEGIN CERTIFICATE-----\n{body}-----END CERTIFICATE-----\n", raw[:64], raw)
    verify(text_of(raw), raw[:64], raw)


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


def document(raw: bytes) -> None:
    """Read, and written and read again it is the same."""
    text = canonical(read(raw, limit=8 * MAX_BYTES))
    assert canonical(read(text.encode(), limit=64 * MAX_BYTES)) == text


DECODERS = (
    Decoder("canonical", document),
    Decoder("report", report),
    Decoder("envelope", lambda raw: open_report(raw, KEY, SALT)),
    Decoder("reason", reason, json=False),
    Decoder("commands", listed, json=False),
    Decoder("command", interpreted),
    Decoder("order", ordered),
    Decoder("order-outside", lambda raw: open_order(KEY, raw)),
    Decoder("receipt", receipt),
    Decoder("question", questioned),
    Decoder("testimony", testified),
    Decoder("rule", rule, (Corrupt,), json=False, made=(pack(CARRIED).encode(),)),
    Decoder("mond", mirrors_of),
    Decoder("certificate", certificate, (BadSignature,), json=False),
    Decoder("link", frames, json=False, made=(frame({"verb": "report", "salt": "a"}) * 2,)),
    Decoder("load", loads),
)
