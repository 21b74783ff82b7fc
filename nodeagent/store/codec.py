"""Stored values as JSON and back; a text from a newer release is refused, never guessed at.

`records` says how each value is written. Every fault names its place. Pure.
"""

import json
import re
from collections import Counter
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

from nodeagent.errors import Corrupt, TooNew
from nodeagent.model.ledger import Ledger, Policy
from nodeagent.model.snapshot import Observed
from nodeagent.model.units import Ms
from nodeagent.protocol.canonical import printable
from nodeagent.store.records import Fault, document_of, value_of

VERSION = 2

T = TypeVar("T")


def encode(value: object) -> str:
    """Return one canonical text for one value. A member of the wrong type is a bug: TypeError."""
    try:
        document = document_of(value)
    except Fault as fault:
        raise TypeError(f"{type(value).__name__}: {fault}") from None
    document["v"] = VERSION
    return text_of(document)


def encode_ledger(ledger: Ledger) -> str:
    """As `encode`; the ledger encoded last costs nothing: each save goes to two places."""
    global _last
    last, text = _last
    if last is not ledger:
        text = encode(ledger)
        _last = ledger, text
    return text


_last: tuple[Ledger | None, str] = (None, "")


def text_of(document: object) -> str:
    """Write a document made of a record, in its one form.

    Like `canonical` (a test holds the two together), without its second pass.
    """
    text = _ENCODER.encode(document)
    if text.isascii():
        return text
    # Half a surrogate pair is not UTF-8. JSON's own escape keeps it.
    return _SURROGATE.sub(lambda half: f"\\u{ord(half[0]):04x}", text)


def decode(kind: type[T], text: str, what: str = "") -> T:
    """Read a value of this class back, or raise Corrupt, which calls it `what`."""
    what = what or _name_of(kind)
    try:
        document = parsed(text)
    except Fault as fault:
        raise Corrupt(f"the {what} cannot be read: {fault}") from None
    return believed(kind, document, what)


def believed(kind: type[T], document: Any, what: str = "") -> T:
    """Read a value of this class from its parsed document, or raise Corrupt, or TooNew."""
    what = what or _name_of(kind)
    try:
        if type(document) is not dict:
            raise Fault("is not an object")
        _check_version(document, what)
        rest = {name: member for name, member in document.items() if name != "v"}
        return value_of(kind, rest)
    except Fault as fault:
        raise Corrupt(f"the {what} cannot be read: {fault}") from None


def _name_of(kind: type) -> str:
    return kind.__name__.strip("_").lower()


@dataclass(frozen=True, slots=True)
class _Observation:
    """The arguments of `decide`."""

    ledger: Ledger
    observed: Observed
    policy: Policy
    now: Ms


def encode_observation(ledger: Ledger, observed: Observed, policy: Policy, now: Ms) -> str:
    """Write the input of one round's decision, for reading or deciding again elsewhere."""
    return encode(_Observation(ledger, observed, policy, now))


def decode_observation(text: str) -> tuple[Ledger, Observed, Policy, Ms]:
    """Read the arguments of `decide`, or raise Corrupt."""
    read = decode(_Observation, text)
    return read.ledger, read.observed, read.policy, read.now


_SURROGATE = re.compile("[\ud800-\udfff]")
_ENCODER = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
)


def parsed(text: str) -> Any:
    """Read one stored JSON text strictly, or raise Fault."""
    try:
        return _DECODER.decode(text)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno} column {error.colno}"
        raise Fault(f"is not JSON at {place}: {error.msg}") from None
    except (ValueError, RecursionError) as error:  # a number of 5,000 digits; 5,000 brackets
        raise Fault(f"is not JSON we read: {error}") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        (twice, _), *_ = Counter(key for key, _ in pairs).most_common(1)
        raise ValueError(f"key {printable(twice)} stands twice in one object")
    return members


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number")


_DECODER = json.JSONDecoder(object_pairs_hook=_once, parse_constant=_no_number)


def _check_version(document: dict[str, Any], what: str) -> None:
    version = document.get("v")
    if type(version) is not int:
        raise Fault("is not a version", ".v")
    if version > VERSION:
        shown = str(version)[:20]
        raise TooNew(
            f"the {what} cannot be read: v is {shown}: it is of a newer nodeagent; this one reads"
            f" {VERSION}"
        )
    if version < VERSION:
        raise Fault(f"is {version}, which was never released; we read {VERSION}", ".v")
