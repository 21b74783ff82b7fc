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
from tests.fuzz.decoder import Decoder, each, text_of
from tests.fuzz.of_ganeti import Fed
from tests.fuzz.of_nodes import NOW
from tests.maintd.world import EVACUATE, incident, ledger
from tests.maintd.world import node as a_node

TOP = Path(__file__).parents[2]


def asked(*readers: Callable[[Request], object]) -> Callable[[bytes], str]:
    """Each of these readers on one body."""

    def read(raw: bytes) -> str:
        request = Request("POST", "/1/series/3", {"content-type": "application/json"}, raw)
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
_SETTINGS = [(TOP / f"packaging/{name}.toml").read_bytes() for name in ("agent", "maintd")]
DECODERS = (
    Decoder("mesos", schedules),
    Decoder("series", asked(parse.add_series, parse.edit_series, parse.end_series)),
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
    ),
    Decoder("sabakan", inventory),
    Decoder(
        "variables",
        lambda raw: sabakan.variables(text_of(raw)),
        made=(sabakan.DEFAULT.encode(),),
    ),
    Decoder("words", words, json=False),
    Decoder("users", lambda raw: parse_users(text_of(raw)), (ConfigError,), json=False),
    Decoder("settings", toml, json=False, made=tuple(_SETTINGS)),
    Decoder("request", requested, (), json=False),
    Decoder("ledger", kept, made=(codec.encode(LEDGER).encode(), _observation().encode())),
    Decoder("client", client, (Unavailable,), json=False),
)
