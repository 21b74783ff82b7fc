"""The memory of maintd on disk: SQLite with a write-ahead log, synchronous in full."""

import hashlib
import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from nodeagent.errors import Corrupt, MessageError, NodeAgentError, Unavailable
from nodeagent.model.event import AUDIT, Event
from nodeagent.model.ledger import Ledger
from nodeagent.model.units import Ms
from nodeagent.model.wish import Wish
from nodeagent.store import anew
from nodeagent.store.codec import VERSION, decode, encode

log = logging.getLogger(__name__)
MEMORY = ":memory:"
KEEP_EVENTS = 100_000
KEEP_AUDIT = 20_000  # events of administrators' acts, which other events never evict
KEEP_ANSWERS = 86_400_000  # ms
_TOLD_FOR = 86_400_000  # ms
_REMOVE = "sqlite3 %s 'DELETE FROM event WHERE number IN (%s)'"
_SHOWN = 100  # damaged events
_BIGGEST = 2**63 - 1
_OURS = int.from_bytes(b"ndag", "big")

_TABLES = (
    "CREATE TABLE ledger (one INTEGER PRIMARY KEY CHECK (one = 1), text TEXT NOT NULL,"
    " digest TEXT NOT NULL)",
    "CREATE TABLE event (number INTEGER PRIMARY KEY AUTOINCREMENT, at INTEGER NOT NULL,"
    " incident TEXT NOT NULL, text TEXT NOT NULL)",
    "CREATE INDEX event_by_incident ON event (incident, number)",
    # A request without an answer waits for the next round; an answer stays for a while.
    "CREATE TABLE wish (number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE,"
    " text TEXT, answer TEXT, answered INTEGER)",
    f"PRAGMA application_id={_OURS}",
    f"PRAGMA user_version={VERSION}",
)
# Additions to a database of an older release; that release can still use it.
_AUDIT = (
    "ALTER TABLE event ADD COLUMN audit INTEGER NOT NULL DEFAULT 0",
    "CREATE INDEX event_by_audit ON event (audit, number)",
    """UPDATE event SET audit = 1
        WHERE instr(text, '"kind":"wish-granted"') OR instr(text, '"kind":"wish-refused"')""",
)


def _clock() -> Ms:
    return Ms(time.time_ns() // 1_000_000)


class SqliteStore:
    """Keeps the newest ledger, the requests and the history; returned calls survive a power cut.

    Corrupt: the file is damaged, or not ours. Unavailable: it is locked, full or read-only for now,
    and unchanged. For one process, any of its threads. It keeps `keep` events, and `audit` events
    of administrators' acts beside them; it waits `patience` seconds for a lock. If nobody else may
    have the file, which `alone` checks, it writes the file again after somebody has deleted or
    replaced it: the foreign file is set aside, and never read.
    """

    def __init__(
        self,
        path: str,
        keep: int = KEEP_EVENTS,
        patience: float = 1.0,
        now: Callable[[], Ms] = _clock,
        audit: int = KEEP_AUDIT,
        *,
        alone: Callable[[], None] | None = None,
    ) -> None:
        self._path = path
        self._patience = patience
        self._alone = None if path == MEMORY else alone
        self._text = ""  # of the newest ledger
        self._waiting: dict[str, str] = {}  # requests
        self._damaged: set[int] = set()  # events
        self._unreadable = ""  # the reason, if the whole history is unreadable
        self._replaced: tuple[int, str] | None = None
        self._keep, self._keep_audit = keep, audit
        self._now = now
        self._lock = threading.Lock()
        with self._told("opened"):
            if self._alone is not None and os.path.exists(anew.finished(path)):
                # A kill interrupted the last rewrite.
                log.error("ledger-replaced aside=%s", aside := anew.aside(path, "replaced", now()))
                anew.put_aside(path, aside)
                anew.take_place(path)
            made = path != MEMORY and anew.make_private(path)
            self._db = self._connect()
        try:
            with self._told("opened"):
                self._open()
        except NodeAgentError:
            self._db.close()
            if made:
                anew.unmake(path)
            raise
        self._mark = anew.mark(path)

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(
            self._path, timeout=self._patience, isolation_level=None, check_same_thread=False
        )

    def _open(self) -> None:
        self._db.create_function("digest", 1, _digest, deterministic=True)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=FULL")
        (verdict,) = self._db.execute("PRAGMA quick_check(1)").fetchone()
        if verdict != "ok":
            raise Corrupt(verdict)
        with self._transaction():
            (tables,) = self._db.execute("SELECT count(*) FROM sqlite_master").fetchone()
            if not tables:
                for statement in _TABLES:
                    self._db.execute(statement)
            (owner,) = self._db.execute("PRAGMA application_id").fetchone()
            (version,) = self._db.execute("PRAGMA user_version").fetchone()
            if owner != _OURS:
                raise Corrupt("it is somebody else's database, or older than any release")
            if version != VERSION:
                raise Corrupt(f"it is of version {version}, and we read {VERSION}")
            columns = self._db.execute("SELECT name FROM pragma_table_info('event')").fetchall()
            if ("audit",) not in columns:
                for statement in _AUDIT:
                    self._db.execute(statement)
        bad = "SELECT number FROM event WHERE typeof(text) != 'text' OR NOT json_valid(text)"
        self._damaged = {number for (number,) in self._db.execute(f"{bad} LIMIT {_SHOWN}")}

    def load(self) -> Ledger:
        """Return the ledger last saved; an empty one if there is none."""
        with self._reading():
            row = self._db.execute("SELECT text, digest FROM ledger").fetchone()
        if row is None:
            return Ledger()
        with self._told("read"):
            if _digest(row[0]) != row[1]:
                raise Corrupt("the ledger is not as it was written")
            self._text = row[0]
            return decode(Ledger, row[0])

    def save(
        self,
        ledger: Ledger,
        events: Sequence[Event] = (),
        answers: Mapping[str, str] | None = None,
    ) -> None:
        """Replace the ledger, append events and answer requests: all of it, or Unavailable.

        An answer is empty for an accepted request, else the reason of the refusal; it ends the
        request's wait.
        """
        text = encode(ledger)
        digest = _digest(text)
        lines = _lines(events)
        now = self._now()
        said = [(_storable(one), _storable(why), now) for one, why in (answers or {}).items()]
        with self._writing():
            self._db.execute("INSERT OR REPLACE INTO ledger VALUES (1, ?, ?)", (text, digest))
            if lines:
                self._append(lines)
            if said:
                self._db.executemany(
                    "INSERT INTO wish (id, answer, answered) VALUES (?, ?, ?) ON CONFLICT (id)"
                    " DO UPDATE SET answer = excluded.answer, answered = excluded.answered,"
                    # The text may be long, and nobody reads it any more.
                    " text = CASE WHEN answered IS NULL THEN digest(text) ELSE text END",
                    said,
                )
                self._db.execute("DELETE FROM wish WHERE answered < ?", (now - KEEP_ANSWERS,))
        self._text = text

    def note(self, events: Sequence[Event]) -> None:
        with self._writing():
            self._append(_lines(events))

    def _append(self, lines: Sequence[tuple[int, str, str, bool]]) -> None:
        self._db.executemany(
            "INSERT INTO event (at, incident, text, audit) VALUES (?, ?, ?, ?)", lines
        )
        self._db.execute(
            "DELETE FROM event WHERE audit = 0 AND number <= (SELECT max(number) FROM event) - ?",
            (self._keep,),
        )
        if any(audit for *_, audit in lines):
            self._db.execute(
                "DELETE FROM event WHERE audit = 1 AND number <= (SELECT number FROM event"
                " WHERE audit = 1 ORDER BY number DESC LIMIT 1 OFFSET ?)",
                (self._keep_audit,),
            )

    def wish(self, wish: Wish) -> None:
        """Keep a request until its answer; on disk when this returns.

        The same request again changes nothing. MessageError: its id is another request's.
        """
        identity, text = _storable(wish.id), encode(wish)
        with self._writing():
            row = self._db.execute("SELECT text FROM wish WHERE id = ?", (identity,)).fetchone()
            if row is None:
                self._db.execute("INSERT INTO wish (id, text) VALUES (?, ?)", (identity, text))
            elif row[0] not in (text, _digest(text)):
                raise MessageError("another request has this id")
        self._waiting[identity] = text

    def wishes(self) -> tuple[Wish, ...]:
        """Return the requests without an answer, in the order of their arrival."""
        with self._reading():
            rows = self._db.execute(
                "SELECT id, text FROM wish WHERE answered IS NULL ORDER BY number"
            ).fetchall()
        with self._told("read"):
            found = tuple(decode(Wish, text) for _, text in rows)
        self._waiting = dict(rows)
        return found

    def answer(self, wish: str) -> str | None:
        """Return a request's answer: None if waiting or unknown, "" if accepted, else why not."""
        with self._reading():
            row = self._db.execute(
                "SELECT answer FROM wish WHERE id = ?", (_storable(wish),)
            ).fetchone()
        return row[0] if row else None

    def history(
        self, incident: str | None = None, since: int | None = None, limit: int = 1000
    ) -> list[Event]:
        """Return the newest events, at most `limit`, the newest last.

        It leaves out damaged ones, and `troubles` reports them.
        """
        from_when, most = (max(0, min(n, _BIGGEST)) for n in (since or 0, limit))
        among, which = ("", ()) if incident is None else (" AND incident = ?", (incident,))
        asked = f"SELECT number, CAST(text AS BLOB) FROM event WHERE at >= ?{among}"  # noqa: S608
        given = (from_when, *map(_storable, which), most)
        try:
            with self._reading():
                rows = self._db.execute(f"{asked} ORDER BY number DESC LIMIT ?", given).fetchall()
        except Corrupt as error:
            self._unreadable = str(error)
            return []
        self._unreadable = ""
        found = []
        for number, raw in reversed(rows):
            try:
                found.append(decode(Event, raw.decode()))
            except (NodeAgentError, UnicodeDecodeError, AttributeError):
                self._damaged.add(number)
        return found

    def troubles(self) -> tuple[str, ...]:
        """Return the file's present and recent faults; with the command that helps."""
        told = [self._unreadable] if self._unreadable else []
        if numbers := self._still_damaged():
            listed = ", ".join(map(str, numbers[:_SHOWN]))
            told.append(
                f"{len(numbers)} damaged lines of the history are left out: run these three:"
                f" systemctl stop maintd; {_REMOVE % (self._path, listed)}; systemctl start maintd"
            )
        if self._replaced is not None and self._now() - self._replaced[0] < _TOLD_FOR:
            told.append(self._replaced[1])
        return tuple(told)

    def _still_damaged(self) -> list[int]:
        if not self._damaged:
            return []
        wanted = ", ".join(map(str, sorted(self._damaged)))
        try:
            with self._reading():
                rows = self._db.execute(f"SELECT number FROM event WHERE number IN ({wanted})")  # noqa: S608
                self._damaged = {number for (number,) in rows}
        except NodeAgentError:
            pass
        return sorted(self._damaged)

    def close(self) -> None:
        with self._lock:
            self._db.close()

    @contextmanager
    def _reading(self) -> Iterator[None]:
        with self._lock:
            self._keep_place()
            with self._told("read"):
                yield

    @contextmanager
    def _writing(self) -> Iterator[None]:
        with self._lock:
            self._keep_place()
            try:
                with self._told("written"), self._transaction():
                    yield
            finally:
                if self._alone is not None:
                    self._mark = anew.mark(self._path)  # SQLite may have moved the log into it

    def _keep_place(self) -> None:
        """Write the file again if somebody has deleted or replaced it."""
        if self._alone is None or (there := anew.mark(self._path)) == self._mark:
            return
        self._alone()
        now = self._now()
        aside = anew.aside(self._path, "replaced", now)
        with self._told("written anew"):
            anew.copy(self._path, self._db, self._is_ours, self._build)
            anew.put_aside(self._path, aside)
            self._db.close()  # this touches no file that has moved
            anew.take_place(self._path)
            self._db = self._connect()
            self._open()
        self._mark = anew.mark(self._path)
        how = "deleted" if there is None else f"replaced or changed (set aside as {aside})"
        why = f"the ledger {self._path} was {how} while maintd ran, and was written anew"
        self._replaced = now, why
        log.error("ledger-replaced why=%r aside=%s", why, aside if there else "-")

    def _is_ours(self, fresh: sqlite3.Connection) -> bool:
        row = fresh.execute("SELECT text FROM ledger").fetchone()
        return (row[0] if row else "") == self._text

    def _build(self, fresh: sqlite3.Connection) -> None:
        """Fill it from memory: the newest ledger and the waiting requests, without the history."""
        for statement in (*_TABLES, *_AUDIT):
            fresh.execute(statement)
        if self._text:
            row = (self._text, _digest(self._text))
            fresh.execute("INSERT INTO ledger VALUES (1, ?, ?)", row)
        fresh.executemany("INSERT INTO wish (id, text) VALUES (?, ?)", self._waiting.items())

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        finally:
            if self._db.in_transaction:  # a full disk may have rolled it back already
                self._db.execute("ROLLBACK")

    @contextmanager
    def _told(self, what: str) -> Iterator[None]:
        """Tell errors apart by the caller's reaction."""
        try:
            yield
        except Corrupt as error:
            raise Corrupt(f"{self._path}: {error}") from None
        except OSError as error:
            raise Unavailable(f"{self._path} cannot be {what}: {error.strerror}") from None
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", 0)
            if code & 0xFF in _DAMAGED or str(error).startswith("Could not decode"):
                raise Corrupt(f"{self._path}: {error}") from None
            # On a full disk SQLite says "disk I/O error" as long as it only opens its logs.
            full = code & 0xFF in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL)
            why = anew.full(self._path) if full else ""
            raise Unavailable(f"{self._path} cannot be {what}: {why or error}") from None


# Our statements are right: a plain error means that the file is not ours.
_DAMAGED = (
    sqlite3.SQLITE_ERROR,
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_FORMAT,
    sqlite3.SQLITE_NOTADB,
)


def _lines(events: Sequence[Event]) -> list[tuple[int, str, str, bool]]:
    return [(e.at, _storable(e.incident), encode(e), e.kind in AUDIT) for e in events]


def _digest(text: object) -> str:
    return hashlib.sha256(str(text).encode()).hexdigest()


def _storable(text: str) -> str:
    """Return a text that SQLite can hold, with half a surrogate pair as its escape."""
    return text.encode("utf-8", "backslashreplace").decode()
