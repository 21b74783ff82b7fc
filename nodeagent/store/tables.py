"""The tables of the database: made, taken over from the form before, read and changed.

Each function works within its caller's transaction.
"""

import hashlib
import sqlite3
from collections.abc import Sequence

from nodeagent.errors import Corrupt
from nodeagent.model.event import AUDIT, Event
from nodeagent.store import form_before
from nodeagent.store.codec import encode
from nodeagent.store.errors import TooNew

FORM, BEFORE = 4, 3  # user_version
_OURS = int.from_bytes(b"ndag", "big")

_LEDGER = (
    "CREATE TABLE ledger (one INTEGER PRIMARY KEY CHECK (one = 1), number INTEGER NOT NULL,"
    " text TEXT NOT NULL, digest TEXT NOT NULL, rule TEXT NOT NULL)"
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

# Our statements are right: a plain error means that the file is not ours.
DAMAGED = (
    sqlite3.SQLITE_ERROR,
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_FORMAT,
    sqlite3.SQLITE_NOTADB,
)


def create(db: sqlite3.Connection) -> None:
    """Make the tables of an empty database."""
    for statement in (*_OTHERS, _LEDGER, f"PRAGMA user_version={FORM}"):
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
            " that one again"
        )
    if form not in (FORM, BEFORE):
        raise Corrupt(f"it is of version {form}, and we read {FORM}")
    return int(form)


def convert(db: sqlite3.Connection) -> None:
    """Change the form before into ours; nothing is lost."""
    number, ledger = form_before.read(db)
    db.execute(_LEDGER)
    if number:
        put(db, number, encode(ledger), "")
    for table in ("entity", "revision", "doubt"):
        db.execute(f"DROP TABLE IF EXISTS {table}")
    db.execute(f"PRAGMA user_version={FORM}")


def read(db: sqlite3.Connection) -> tuple[int, str, str]:
    """Return the newest save's number, text and rule; 0 and "" before the first.

    Corrupt: the text is not as it was written.
    """
    row = db.execute("SELECT number, text, digest, rule FROM ledger").fetchone()
    if row is None:
        return 0, "", ""
    number, text, written, rule = row
    if type(number) is not int or number < 1 or sha256(text) != written:
        raise Corrupt("the ledger is not as it was written")
    return number, text, str(rule)


def number_of(db: sqlite3.Connection) -> int:
    """Return the newest save's number, 0 before the first."""
    row = db.execute("SELECT number FROM ledger").fetchone()
    return row[0] if row else 0


def put(db: sqlite3.Connection, number: int, text: str, rule: str) -> None:
    """Replace the ledger; `rule` is the digest of the rule that it came from."""
    row = number, text, sha256(text), rule
    db.execute("INSERT OR REPLACE INTO ledger VALUES (1, ?, ?, ?, ?)", row)


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


def sha256(text: object) -> str:
    """Return the digest of a text."""
    return hashlib.sha256(str(text).encode()).hexdigest()


def lines_of(events: Sequence[Event]) -> list[tuple[int, str, str, bool]]:
    """Return the rows of events: time, incident, text, and whether administrators caused it."""
    return [(e.at, storable(e.incident), encode(e), e.kind in AUDIT) for e in events]


def storable(text: str) -> str:
    """Return a text that SQLite can hold, with half a surrogate pair as its escape."""
    return text.encode("utf-8", "backslashreplace").decode()
