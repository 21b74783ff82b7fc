"""What is kept and saved, as JSON and back; a text from the future is refused, never guessed at.

How each value is written stands in `shape`. Every fault is told with its place. Pure.
"""

import json
import re
from collections import Counter
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

from nodeagent.errors import Corrupt
from nodeagent.model.event import Event
from nodeagent.model.ledger import Ledger, Policy
from nodeagent.model.snapshot import Observed
from nodeagent.model.wish import Wish
from nodeagent.protocol.canonical import printable
from nodeagent.store.shape import Fault, shape_of

VERSION = 2

T = TypeVar("T")


def encode(ledger: Ledger) -> str:
    """One canonical text for one ledger. A member of the wrong type is a bug: TypeError."""
    return _to_text(Ledger, ledger)


def decode(text: str) -> Ledger:
    """Read a ledger back, or raise Corrupt."""
    return _of_text("ledger", Ledger, text)


def encode_wish(wish: Wish) -> str:
    """One canonical text for one wish."""
    return _to_text(Wish, wish)


def decode_wish(text: str) -> Wish:
    """Read a wish back, or raise Corrupt."""
    return _of_text("wish", Wish, text)


def encode_event(event: Event) -> str:
    """One canonical text for one event."""
    return _to_text(Event, event)


def decode_event(text: str) -> Event:
    """Read an event back, or raise Corrupt."""
    return _of_text("event", Event, text)


@dataclass(frozen=True, slots=True)
class _Observation:
    """All that `decide` is given."""

    ledger: Ledger
    observed: Observed
    policy: Policy
    now: int


def encode_observation(ledger: Ledger, observed: Observed, policy: Policy, now: int) -> str:
    """All that one round decides from, to be looked at or decided again elsewhere."""
    return _to_text(_Observation, _Observation(ledger, observed, policy, now))


def decode_observation(text: str) -> tuple[Ledger, Observed, Policy, int]:
    """Read what `decide` is to be given, or raise Corrupt."""
    read = _of_text("observation", _Observation, text)
    return read.ledger, read.observed, read.policy, read.now


def _to_text(kind: type[T], value: T) -> str:
    shape = shape_of(kind)
    try:
        document = shape.write(value)
    except Fault as fault:
        raise TypeError(f"{kind.__name__}: {fault}") from None
    document["v"] = VERSION
    # As `canonical` writes it (a test holds the two together), without its second pass.
    text = json.dumps(
        document, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
    # Half a surrogate pair is no UTF-8. Rather in JSON's own escape than not kept at all.
    return _SURROGATE.sub(lambda half: f"\\u{ord(half[0]):04x}", text)


def _of_text(what: str, kind: type[T], text: str) -> T:
    shape = shape_of(kind)
    try:
        document = _parsed(text)
        _check_version(document)
        del document["v"]
        value: T = shape.read(document)
    except Fault as fault:
        raise Corrupt(f"the {what} cannot be read: {fault}") from None
    return value


_SURROGATE = re.compile("[\ud800-\udfff]")


def _parsed(text: str) -> dict[str, Any]:
    try:
        document = json.loads(text, object_pairs_hook=_once, parse_constant=_no_number)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno} column {error.colno}"
        raise Fault(f"is not JSON at {place}: {error.msg}") from None
    except (ValueError, RecursionError) as error:  # a number of 5,000 digits; 5,000 brackets
        raise Fault(f"is not JSON we read: {error}") from None
    if type(document) is not dict:
        raise Fault("is not an object")
    return document


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        (twice, _), *_ = Counter(key for key, _ in pairs).most_common(1)
        raise ValueError(f"key {printable(twice)} stands twice in one object")
    return found


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number")


def _check_version(document: dict[str, Any]) -> None:
    version = document.get("v")
    if type(version) is not int:
        raise Fault("is not a version", ".v")
    if version > VERSION:
        raise Fault(f"is {version}: it is of a newer nodeagent; this one reads {VERSION}", ".v")
    if version < VERSION:
        raise Fault(f"is {version}, which was never released; we read {VERSION}", ".v")
