"""The tables of the database: made, converted from the form before and back, read and changed.

The form before had the whole ledger as one row. Each function works within its caller's
transaction.
"""

import hashlib
import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass, replace
from typing import Any

from nodeagent.errors import Corrupt
from nodeagent.model.event import AUDIT, Event
from nodeagent.model.ledger import Ledger
from nodeagent.model.purpose import LATER_MEMBERS, Purpose
from nodeagent.model.units import Ms
from nodeagent.store.codec import decode, encode
from nodeagent.store.contract import Revision, TooNew
from nodeagent.store.entities import Changes, digest, entities, ledger_of, sum_of

FORM, BEFORE = 3, 2  # user_version
_OURS = int.from_bytes(b"ndag", "big")

_WHOLE = (
    "CREATE TABLE ledger (one INTEGER PRIMARY KEY CHECK (one = 1), text TEXT NOT NULL,"
    " digest TEXT NOT NULL)"
)
_ENTITIES = (
    "CREATE TABLE entity (number INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE,"
    " text TEXT NOT NULL, digest TEXT NOT NULL)"
)
# It stays in a file of the form before, which ignores it: so numbers go on after the way back.
_REVISION = (
    "CREATE TABLE IF NOT EXISTS revision (one INTEGER PRIMARY KEY CHECK (one = 1),"
    " epoch INTEGER NOT NULL, number INTEGER NOT NULL, sum TEXT NOT NULL)"
)
# Made at the first doubt. A nodeagent that does not know it counts saves made in doubt.
_DOUBT = (
    "CREATE TABLE IF NOT EXISTS doubt (one INTEGER PRIMARY KEY CHECK (one = 1),"
    " epoch INTEGER NOT NULL, number INTEGER NOT NULL, since INTEGER NOT NULL)"
)
_OTHERS = (
    "CREATE TABLE event (number INTEGER PRIMARY KEY AUTOINCREMENT, at INTEGER NOT NULL,"
    " incident TEXT NOT NULL, text TEXT NOT NULL, audit INTEGER NOT NULL DEFAULT 0)",
    "CREATE INDEX event_by_incident ON event (incident, number)",
    "CREATE INDEX event_by_audit ON event (audit, number)",
    # A request without an answer waits for the next round; an answer stays for a while.
    "CREATE TABLE wish (number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE,"
    " text TEXT, answer TEXT, answered INTEGER)",
    f"PRAGMA application_id={_OURS}",
)
# Additions to a database of the form before, where its oldest release has made it.
_AUDIT = (
    "ALTER TABLE event ADD COLUMN audit INTEGER NOT NULL DEFAULT 0",
    "CREATE INDEX event_by_audit ON event (audit, number)",
    """UPDATE event SET audit = 1
        WHERE instr(text, '"kind":"wish-granted"') OR instr(text, '"kind":"wish-refused"')""",
)

# Our statements are right: a plain error means that the file is not ours.
DAMAGED = (
    sqlite3.SQLITE_ERROR,
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_FORMAT,
    sqlite3.SQLITE_NOTADB,
)


def create(db: sqlite3.Connection) -> None:
    """Make the tables of an empty database."""
    for statement in (*_OTHERS, _ENTITIES, _REVISION, f"PRAGMA user_version={FORM}"):
        db.execute(statement)


def form_of(db: sqlite3.Connection) -> int:
    """Return the form of a database that is ours: FORM, BEFORE, or 0 for an empty one."""
    (tables,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if not tables:
        return 0
    (owner,) = db.execute("PRAGMA application_id").fetchone()
    (form,) = db.execute("PRAGMA user_version").fetchone()
    if owner != _OURS:
        raise Corrupt("it is somebody else's database, or older than any release")
    if form > FORM:
        raise TooNew(
            f"it is of version {form}, and we read {FORM}: a newer nodeagent wrote it; install"
            f" that one again, or let it write the older form: maintd store copy --form {FORM}"
        )
    if form not in (FORM, BEFORE):
        raise Corrupt(f"it is of version {form}, and we read {FORM}")
    return int(form)


def convert(db: sqlite3.Connection) -> None:
    """Change the form before into ours; nothing is lost."""
    columns = db.execute("SELECT name FROM pragma_table_info('event')").fetchall()
    if ("audit",) not in columns:
        for statement in _AUDIT:
            db.execute(statement)
    ledger = whole(db)
    db.execute(_REVISION)
    db.execute(_ENTITIES)
    if ledger is not None:
        texts = entities(ledger)
        before = revision(db)[0]
        put(db, Changes(texts), Revision(before.epoch, before.number + 1), _sum(texts))
    db.execute("DROP TABLE ledger")
    db.execute(f"PRAGMA user_version={FORM}")


def convert_back(db: sqlite3.Connection) -> None:
    """Change our form into the one before, which an older nodeagent reads."""
    (at, _), texts = revision(db), read(db)
    db.execute(_WHOLE)
    if at != Revision():
        text = _for_older(ledger_of(texts))
        db.execute("INSERT INTO ledger VALUES (1, ?, ?)", (text, sha256(text)))
    db.execute("DROP TABLE entity")
    db.execute(f"PRAGMA user_version={BEFORE}")


def _for_older(ledger: Ledger) -> str:
    """Leave out the members that came later: an older nodeagent does not know them all.

    Empty ones, and those that it can do without: it waits by the wall clock alone.
    """
    calm = [replace(one, restless=Ms(0), changes=0, differs="") for one in ledger.incidents]
    ledger = replace(ledger, clock=None, incidents=tuple(calm))
    document = json.loads(encode(ledger))
    _leave_out(ledger, document)
    return json.dumps(document, sort_keys=True, separators=(",", ":"))


def _leave_out(value: object, document: Any) -> None:
    if isinstance(value, tuple) and isinstance(document, list):
        for one, of_it in zip(value, document, strict=True):
            _leave_out(one, of_it)
    elif is_dataclass(value) and isinstance(document, dict):
        for member in fields(value):
            name, inner = member.name, getattr(value, member.name)
            if isinstance(inner, Purpose):  # its members stand in the same object
                for part in LATER_MEMBERS:
                    if not document.get(part):
                        document.pop(part, None)
            elif member.metadata.get("later") and inner == _default(member):
                document.pop(name, None)
            elif name in document:
                _leave_out(inner, document[name])


def _default(member: Field[Any]) -> Any:
    return member.default if member.default_factory is MISSING else member.default_factory()


def whole(db: sqlite3.Connection) -> Ledger | None:
    """Read the ledger of the form before."""
    row = db.execute("SELECT text, digest FROM ledger").fetchone()
    if row is None:
        return None
    if sha256(row[0]) != row[1]:
        raise Corrupt("the ledger is not as it was written")
    return decode(Ledger, row[0])


def revision(db: sqlite3.Connection) -> tuple[Revision, str]:
    """Return the newest revision and the sum of its entities."""
    row = db.execute("SELECT epoch, number, sum FROM revision").fetchone()
    return (Revision(row[0], row[1]), row[2]) if row else (Revision(), _sum({}))


def doubt(db: sqlite3.Connection) -> tuple[Revision, Ms] | None:
    """Return the last save before the doubt of this epoch, and since when it lasts (unix ms).

    None: there is no doubt. The next epoch ends it.
    """
    made = "SELECT count(*) FROM sqlite_master WHERE name = 'doubt'"
    if not db.execute(made).fetchone()[0]:
        return None
    row = db.execute("SELECT epoch, number, since FROM doubt").fetchone()
    if row is None or row[0] != revision(db)[0].epoch:
        return None
    return Revision(row[0], row[1]), row[2]


def put_doubt(db: sqlite3.Connection, proven: Revision, since: Ms) -> None:
    """Keep this revision as the last one that proves anything."""
    db.execute(_DOUBT)
    db.execute("INSERT OR REPLACE INTO doubt VALUES (1, ?, ?, ?)", (*proven, since))


def read(db: sqlite3.Connection) -> dict[str, str]:
    """Return the entities; Corrupt if one is missing, or not as it was written."""
    found = {}
    for key, text, written in db.execute("SELECT key, text, digest FROM entity ORDER BY number"):
        if type(key) is not str or type(text) is not str or digest(key, text) != written:
            raise Corrupt(f"{str(key)[:150]!r} of the ledger is not as it was written")
        found[key] = text
    if _sum(found) != revision(db)[1]:
        raise Corrupt("the ledger is not as it was written: a part of it is missing or old")
    return found


def texts(db: sqlite3.Connection) -> dict[str, str]:
    """Return the entities as they are, checked or not, to be replaced."""
    return dict(db.execute("SELECT key, text FROM entity").fetchall())


def put(db: sqlite3.Connection, changes: Changes, at: Revision, total: str) -> None:
    """Change entities; from then on it is of this revision."""
    db.executemany("DELETE FROM entity WHERE key = ?", ((key,) for key in changes.deletes))
    db.executemany(
        "INSERT INTO entity (key, text, digest) VALUES (?, ?, ?) ON CONFLICT (key)"
        " DO UPDATE SET text = excluded.text, digest = excluded.digest",
        ((key, text, digest(key, text)) for key, text in changes.puts.items()),
    )
    db.execute("INSERT OR REPLACE INTO revision VALUES (1, ?, ?, ?)", (*at, total))


def append(
    db: sqlite3.Connection, lines: Sequence[tuple[int, str, str, bool]], keep: int, audit: int
) -> None:
    """Append events; of others than administrators' acts `keep` stay, of these `audit`."""
    db.executemany("INSERT INTO event (at, incident, text, audit) VALUES (?, ?, ?, ?)", lines)
    db.execute(
        "DELETE FROM event WHERE audit = 0 AND number <= (SELECT max(number) FROM event) - ?",
        (keep,),
    )
    if any(of_audit for *_, of_audit in lines):
        db.execute(
            "DELETE FROM event WHERE audit = 1 AND number <= (SELECT number FROM event"
            " WHERE audit = 1 ORDER BY number DESC LIMIT 1 OFFSET ?)",
            (audit,),
        )


def _sum(texts: Mapping[str, str]) -> str:
    return sum_of(digest(key, text) for key, text in texts.items())


def sha256(text: object) -> str:
    """Return the digest of a text."""
    return hashlib.sha256(str(text).encode()).hexdigest()


def lines_of(events: Sequence[Event]) -> list[tuple[int, str, str, bool]]:
    """Return the rows of events: time, incident, text, and whether administrators caused it."""
    return [(e.at, storable(e.incident), encode(e), e.kind in AUDIT) for e in events]


def storable(text: str) -> str:
    """Return a text that SQLite can hold, with half a surrogate pair as its escape."""
    return text.encode("utf-8", "backslashreplace").decode()
