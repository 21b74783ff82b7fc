"""Readers of what people and their programs write: requests, schedules, files, inventories."""

import asyncio
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from tempfile import NamedTemporaryFile
from unittest.mock import Mock, patch

from nodeagent import settings
from nodeagent.errors import ConfigError, Unavailable
from nodeagent.maintd.engine import settings as maintd
from nodeagent.maintd.engine import timezones
from nodeagent.maintd.http import parse, windows
from nodeagent.maintd.http.users import _basic, parse_users
from nodeagent.maintd.queue import sabakan
from nodeagent.maintd.windows import mesos, recurrence
from nodeagent.model.event import Event
from nodeagent.model.ledger import Ledger, Policy
from nodeagent.model.snapshot import Observed, Snapshot
from nodeagent.model.wish import AddEntry, ResetStorm, StopBalancing, Wish
from nodeagent.store import codec
from nodeagent.web.blocking import Caller
from nodeagent.web.client import Call
from nodeagent.web.exchange import Request, Response
from nodeagent.web.refusal import fault_of
from nodeagent.web.server import Server, _Connection
from nodeagent.web.transaction import Answered, Transaction
from tests.fuzz.decoder import Decoder, each, seed, text_of
from tests.fuzz.of_ganeti import Fed
from tests.fuzz.of_nodes import NOW
from tests.maintd.world import EVACUATE, incident, ledger
from tests.maintd.world import node as a_node

TOP = Path(__file__).parents[2]
UUID = "00000001-0000-4000-8000-000000000000"


def asked(
    *readers: Callable[[Request], object], target: str = "/1/series/3"
) -> Callable[[bytes], str]:
    """Each of these readers on one body."""

    def read(raw: bytes) -> str:
        request = Request("POST", target, {"content-type": "application/json"}, raw)
        return each(partial(reader, request) for reader in readers)

    return read


def schedules(raw: bytes) -> str:
    readers = (mesos.read_schedule, mesos.read_consents, mesos.read_machines, mesos.read_answer)
    return each(partial(reader, raw) for reader in readers)


def words(raw: bytes) -> str:
    """Texts of a series, of a query and of headers."""
    text = text_of(raw)
    readers: tuple[Callable[[str], object], ...] = (
        recurrence.read_weekly,
        recurrence.read_day,
        parse.machine,
        lambda text: timezones.read_zone(text, NOW),
        lambda text: parse.which_events(Request("GET", f"/1/history?{text}")),
        lambda text: windows._versions(Request("POST", "/", {"if-match": text})),
        _basic,
        lambda text: _basic(f"Basic {text}"),
        lambda _: fault_of(raw),
        lambda text: Request("GET", text).segments,
    )
    return each(partial(reader, text) for reader in readers)


def inventory(raw: bytes) -> str:
    statuses = (500, 200)
    return each(partial(sabakan.machines, status, raw, "", NOW, {"cs": 1}) for status in statuses)


def toml(raw: bytes) -> str:
    with NamedTemporaryFile(suffix=".toml") as file:
        Path(file.name).write_bytes(raw)
        return each(partial(load, file.name, owner=None) for load in (settings.load, maintd.load))


def kept(raw: bytes) -> str:
    text, kinds = text_of(raw), (Ledger, Wish, Event)
    readers = [partial(codec.decode, kind, text) for kind in kinds]
    return each((*readers, partial(codec.decode_observation, text)))


class _Silent:
    """A stream to which nothing is written."""

    def abort(self) -> None:
        """It is over."""

    def write(self, _: bytes) -> None:
        """Nobody reads."""


@cache
def _loop() -> asyncio.AbstractEventLoop:
    return asyncio.new_event_loop()


def client(raw: bytes) -> None:
    """Both ways to wait for an answer: the answer in two pieces and a closed connection."""
    told: list[Answered | Unavailable] = []
    transaction = Transaction("GET", "/", "127.0.0.1", most=2**20)
    transaction.request()
    call = Call(_loop(), "127.0.0.1", 1, transaction, 5.0)
    call._stream, call._done = _Silent(), told.append  # type: ignore[assignment]
    for part in (raw[:9], raw[9:], b""):
        call._received(part)
    call.abort("it is over")
    assert len(told) == 1
    Caller("x", lambda _: Fed(raw)).request("GET", "/", 5.0)  # type: ignore[arg-type, return-value]


def requested(raw: bytes) -> None:
    """A request in two pieces, as our server takes it; whatever it is, it is no bug."""
    server = Server(lambda request: Response.text(f"{request.segments}"))
    with patch("nodeagent.web.server.Stream"):
        connection = _Connection(server, Mock(), Mock(), "127.0.0.1")
    for part in (raw[:9], raw[9:], b""):
        connection._received(part)
    assert not server.answered[500]


def _observation() -> str:
    there = Snapshot("c", {"n1": a_node("n1")}, {}, {}, "n1")
    return codec.encode_observation(LEDGER, Observed(there, {"n1": EVACUATE}), Policy(), NOW)


LEDGER = ledger(incident("n1", EVACUATE))
WINDOW = {
    "machine_ids": [{"hostname": "n1", "ip": "10.0.0.1"}],
    "unavailability": {"start": {"nanoseconds": NOW * 1_000_000}, "duration": {"nanoseconds": "5"}},
    "owners": {"policy": "veto", "deadline_seconds": 60},
}
ANSWER = {
    "type": "DECLINE_INVERSE_OFFERS",
    "decline_inverse_offers": {
        "inverse_offer_ids": [{"value": UUID}],
        "filters": {"refuse_seconds": 5},
        "reason": "not today",
        "eta": 1_764_000_000.5,
        "earliest": "1764000000",
    },
}
SERIES = {
    "machines": ["n1", "10.0.0.1"],
    "weekly": "mon,tue 03:00",
    "zone": "Europe/Berlin",
    "duration": 3600,
    "every": 2,
    "from": "2026-01-01",
    "until": "never",
    "owners": {},
}
MACHINE = {
    "spec": {
        "serial": "s1",
        "rack": 3,
        "role": "cs",
        "ipv4": ["10.0.0.3"],
        "bmc": {"bmcType": "IPMI-2.0"},
    },
    "status": {"state": "UNHEALTHY", "duration": 12.5},
}
USERS = b"""# name password options
alice {CLEARTEXT}secret write
bob {HA1}7b1cc4a0a2ab2ac0dc5d5b3a1b2fa9b0 read,owner:web
"""
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nX: y\r\n\r\n"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n"
INTERIM = b"HTTP/1.1 100 Continue\r\n\r\n" + HEAD + b'{"name":"c"}'


def _requests() -> tuple[bytes, ...]:
    head = b"POST /1/pause HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    get = b"GET /1/explain/n%31?limit=5 HTTP/1.1\r\nHost: x\r\n\r\n"
    return get, head + b"Content-Length: 2\r\n\r\n{}", head + b"Expect: 100-continue\r\n\r\n"


_SETTINGS = [(TOP / f"packaging/{name}.toml").read_bytes() for name in ("agent", "maintd")]
DECODERS = (
    Decoder("mesos", schedules, seed({"windows": [WINDOW]}, WINDOW["machine_ids"], ANSWER)),
    Decoder(
        "series",
        asked(parse.add_series, parse.edit_series, parse.end_series),
        seed(SERIES, {"add": ["n1"], "skip": ["2026-01-05"], "times": "never"}),
    ),
    Decoder(
        "requests",
        asked(
            parse.pause,
            parse.resume,
            parse.bare(ResetStorm()),
            parse.balance,
            parse.texts(StopBalancing),
            parse.texts(AddEntry),
            parse.delete_entries,
            parse.set_variables,
            parse.set_constraint,
        ),
        seed(
            {"scope": "node", "node": "n1", "why": "a reason"},
            {"group": "g1", "moves": [{"instance": "i1", "from": ["n1", "n2"], "to": ["n2"]}]},
            {"operation": "reboot", "machine_type": "x", "address": "10.0.0.1", "serial": "s"},
            {"name": "maximumRepairQueueEntries", "value": "5"},
            {"index": "5"},
        ),
    ),
    Decoder(
        "sabakan",
        inventory,
        seed(
            {"data": {"searchMachines": [MACHINE, MACHINE]}},
            {"errors": [{"message": "no such field"}]},
        ),
    ),
    Decoder("variables", lambda raw: sabakan.variables(text_of(raw)), (sabakan.DEFAULT.encode(),)),
    Decoder(
        "words",
        words,
        (
            b"mon,tue 03:00",
            b"2026-01-05",
            b"Europe/Berlin",
            b"10.0.0.1",
            b'"abc", "d"',
            b"incident=%s&limit=5&since=1.5" % UUID.encode(),
            b"YWxpY2U6c2VjcmV0",
            b"/1/a%20b?c=d",
        ),
        json=False,
    ),
    Decoder("users", lambda raw: parse_users(text_of(raw)), (USERS,), (ConfigError,), json=False),
    Decoder("settings", toml, tuple(_SETTINGS), json=False),
    Decoder("request", requested, _requests(), (), json=False),
    Decoder("ledger", kept, (codec.encode(LEDGER).encode(), _observation().encode())),
    Decoder(
        "client", client, (HEAD + b'{"name":"c"}', CHUNKED, INTERIM), (Unavailable,), json=False
    ),
)
