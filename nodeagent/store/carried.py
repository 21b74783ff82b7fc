"""The ledger as a text that the job filter rule in Ganeti's configuration carries. Pure.

The text is `FORM:` and a document in canonical JSON, compressed and in base 85: it has no character
that JSON escapes. The ledger of 500 nodes with 50 incidents takes some 6 KB of it.
"""

import base64
import json
import zlib
from dataclasses import dataclass, replace

from nodeagent.errors import Corrupt, TooNew
from nodeagent.model.event import Event
from nodeagent.model.ledger import Ledger
from nodeagent.model.units import Ms
from nodeagent.store.codec import decode, encode, encode_ledger, text_of

FORM = 1  # a release that adds a member raises it: an older one then waits, see `TooNew`
EVENTS = 200  # the newest events of administrators' acts
MOST = 16 * 2**20  # bytes of the document
_EMPTY = Ledger()
_LATEST = 253_402_300_799_999  # unix ms: the end of the year 9999


@dataclass(frozen=True, slots=True)
class Carried:
    """A ledger, and by which save it came about.

    `number` is the save's, `writer` the UUID of the node that made it, at `at` (unix ms). `events`
    are the newest ones of administrators' acts, the newest last. `rule_uuid` tells whose it is: it
    follows from the cluster's UUID.
    """

    number: int
    writer: str
    at: Ms
    ledger: Ledger
    events: tuple[Event, ...] = ()
    rule_uuid: str = ""


def document(carried: Carried) -> str:
    """Return it as JSON, for people and files."""
    whole = json.loads(encode(replace(carried, ledger=_EMPTY)))
    whole["ledger"] = json.loads(encode_ledger(carried.ledger))
    del whole["ledger"]["v"]
    return text_of(whole)


def decoded(text: str) -> Carried:
    """Read a document back, or raise Corrupt."""
    return decode(Carried, text, "ledger")


def pack(carried: Carried) -> str:
    """Return the text."""
    raw = zlib.compress(document(carried).encode())
    return f"{FORM}:{base64.b85encode(raw).decode()}"


def unpack(text: str) -> Carried:
    """Read the text back; it costs no more than `MOST` bytes, whoever wrote it.

    TooNew: a newer nodeagent wrote it. Corrupt: it is not as it was written.
    """
    form, _, body = text.partition(":")
    if form.isdecimal() and len(form) < 10 and int(form) > FORM:
        raise TooNew(f"it has form {form}, and this nodeagent reads form {FORM}")
    if form != str(FORM):
        raise Corrupt("it is not a ledger")
    try:
        reader = zlib.decompressobj()
        raw = reader.decompress(base64.b85decode(body), MOST)
        if reader.unconsumed_tail:
            raise Corrupt(f"it has more than {MOST} bytes")
        if not reader.eof or reader.unused_data:
            raise Corrupt("it does not end where it should")
        carried = decoded(raw.decode())
    except (ValueError, zlib.error) as error:
        raise Corrupt(f"it is not as it was written: {error}") from None
    if not 0 < carried.number < 2**53:
        raise Corrupt(f"its number is {carried.number}")
    if not all(0 <= at <= _LATEST for at in (carried.at, *(event.at for event in carried.events))):
        raise Corrupt("it has a moment that no clock shows")
    return carried
