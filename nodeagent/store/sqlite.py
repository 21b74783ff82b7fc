"""What maintd remembers on disk: SQLite with a write-ahead log, synchronous in full."""

import hashlib
import os
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from nodeagent.errors import Corrupt, MessageError, NodeAgentError, Unavailable
from nodeagent.model.event import Event
from nodeagent.model.ledger import Ledger
from nodeagent.model.wish import Wish
from nodeagent.store.codec import (
    VERSION,
    decode,
    decode_event,
    decode_wish,
    encode,
    encode_event,
    encode_wish,
)

MEMORY = ":memory:"
KEEP_EVENTS = 100_000
KEEP_ANSWERS = 86_400_000  # ms
_BIGGEST = 2**63 - 1
_OURS = int.from_bytes(b"ndag", "big")

_TABLES = (
    "CREATE TABLE ledger (one INTEGER PRIMARY KEY CHECK (one = 1), text TEXT NOT NULL,"
    " digest TEXT NOT NULL)",
    "CREATE TABLE event (number INTEGER PRIMARY KEY AUTOINCREMENT, at INTEGER NOT NULL,"
    " incident TEXT NOT NULL, text TEXT NOT NULL)",
    "CREATE INDEX event_by_incident ON event (incident, number)",
    # A wish without an answer waits for the next round; an answer is kept for a while.
    "CREATE TABLE wish (number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE,"
    " text TEXT, answer TEXT, answered INTEGER)",
    f"PRAGMA application_id={_OURS}",
    f"PRAGMA user_version={VERSION}",
)


def _clock() -> int:
    return time.time_ns() // 1_000_000


class SqliteStore:
    """Keeps the newest ledger, the wishes and the history; what has returned survives a power cut.

    Corrupt: the file is damaged, or not ours. Unavailable: it is locked, full or read-only for
    now, and as it was. For one process, any of its threads. `keep` is how many events are kept,
    `patience` for how many seconds a lock is waited for.
    """

    def __init__(
        self,
        path: str,
        keep: int = KEEP_EVENTS,
        patience: float = 1.0,
        now: Callable[[], int] = _clock,
    ) -> None:
        self._path = path
        self._keep = keep
        self._now = now
        self._lock = threading.Lock()
        with self._told("opened"):
            if path != MEMORY:
                _make_private(path)
            self._db = sqlite3.connect(
                path, timeout=patience, isolation_level=None, check_same_thread=False
            )
        try:
            with self._told("opened"):
                self._open()
        except NodeAgentError:
            self._db.close()
            raise

    def _open(self) -> None:
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

    def load(self) -> Ledger:
        """The ledger last saved; an empty one if there is none."""
        with self._reading():
            row = self._db.execute("SELECT text, digest FROM ledger").fetchone()
        if row is None:
            return Ledger()
        with self._told("read"):
            if _digest(row[0]) != row[1]:
                raise Corrupt("the ledger is not as it was written")
            return decode(row[0])

    def save(
        self,
        ledger: Ledger,
        events: Sequence[Event] = (),
        answers: Mapping[str, str] | None = None,
    ) -> None:
        """Replace the ledger, append events and answer wishes: all of it, or Unavailable.

        An answer is empty if the wish was granted, else why it was refused; it takes the wish
        out of those that wait.
        """
        text = encode(ledger)
        digest = _digest(text)
        lines = [(e.at, _storable(e.incident), encode_event(e)) for e in events]
        now = self._now()
        said = [(_storable(one), _storable(why), now) for one, why in (answers or {}).items()]
        with self._writing():
            self._db.execute("INSERT OR REPLACE INTO ledger VALUES (1, ?, ?)", (text, digest))
            if lines:
                self._append(lines)
            if said:
                self._db.executemany(
                    "INSERT INTO wish (id, answer, answered) VALUES (?, ?, ?) ON CONFLICT (id)"
                    " DO UPDATE SET answer = excluded.answer, answered = excluded.answered",
                    said,
                )
                self._db.execute("DELETE FROM wish WHERE answered < ?", (now - KEEP_ANSWERS,))

    def _append(self, lines: Sequence[tuple[int, str, str]]) -> None:
        self._db.executemany("INSERT INTO event (at, incident, text) VALUES (?, ?, ?)", lines)
        self._db.execute(
            "DELETE FROM event WHERE number <= (SELECT max(number) FROM event) - ?", (self._keep,)
        )

    def wish(self, wish: Wish) -> None:
        """Keep a wish until it is answered; on disk when this returns.

        The same wish again changes nothing. MessageError: its id is another wish's.
        """
        identity, text = _storable(wish.id), encode_wish(wish)
        with self._writing():
            row = self._db.execute("SELECT text FROM wish WHERE id = ?", (identity,)).fetchone()
            if row is None:
                self._db.execute("INSERT INTO wish (id, text) VALUES (?, ?)", (identity, text))
            elif row[0] != text:
                raise MessageError("there is another wish of this id")

    def wishes(self) -> tuple[Wish, ...]:
        """The wishes that nobody has answered yet, in the order they came."""
        with self._reading():
            rows = self._db.execute(
                "SELECT text FROM wish WHERE answered IS NULL ORDER BY number"
            ).fetchall()
        with self._told("read"):
            return tuple(decode_wish(text) for (text,) in rows)

    def answer(self, wish: str) -> str | None:
        """What became of a wish: None if it waits or is not known, "" if granted, else why not."""
        with self._reading():
            row = self._db.execute(
                "SELECT answer FROM wish WHERE id = ?", (_storable(wish),)
            ).fetchone()
        return row[0] if row else None

    def history(
        self, incident: str | None = None, since: int | None = None, limit: int = 1000
    ) -> list[Event]:
        """The newest events, at most `limit`, the newest last."""
        from_when, most = (max(0, min(n, _BIGGEST)) for n in (since or 0, limit))
        with self._reading():
            if incident is None:
                rows = self._db.execute(
                    "SELECT text FROM event WHERE at >= ? ORDER BY number DESC LIMIT ?",
                    (from_when, most),
                ).fetchall()
            else:
                rows = self._db.execute(
                    "SELECT text FROM event WHERE at >= ? AND incident = ?"
                    " ORDER BY number DESC LIMIT ?",
                    (from_when, _storable(incident), most),
                ).fetchall()
        with self._told("read"):
            return [decode_event(text) for (text,) in reversed(rows)]

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._db.close()

    @contextmanager
    def _reading(self) -> Iterator[None]:
        with self._lock, self._told("read"):
            yield

    @contextmanager
    def _writing(self) -> Iterator[None]:
        with self._lock, self._told("written"), self._transaction():
            yield

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
        """Tell errors apart by what the caller does about them."""
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
            raise Unavailable(f"{self._path} cannot be {what}: {error}") from None


# Our statements are right: a plain error is a file that is not as we made it.
_DAMAGED = (
    sqlite3.SQLITE_ERROR,
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_FORMAT,
    sqlite3.SQLITE_NOTADB,
)


def set_aside(path: str, now: int) -> str:
    """Rename a corrupt database out of the way, to be looked at; its new path.

    The database goes first: to one that is new, SQLite never applies an old log.
    """
    seconds, ms = divmod(now, 1000)
    stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime(seconds))
    aside = f"{path}.corrupt-{stamp}.{ms:03}Z"
    try:
        os.rename(path, aside)
        for log in ("-wal", "-shm"):
            if os.path.exists(path + log):
                os.rename(path + log, aside + log)
        _sync_folder(path)
    except OSError as error:
        raise Unavailable(f"{path} cannot be set aside: {error.strerror}") from None
    return aside


def _make_private(path: str) -> None:
    """Its logs will have the database's own mode."""
    try:
        if stat.S_IMODE(os.stat(path).st_mode) & 0o077:
            os.chmod(path, 0o600)
    except FileNotFoundError:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        _sync_folder(path)


def _sync_folder(path: str) -> None:
    folder = os.open(os.path.dirname(path) or ".", os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _digest(text: object) -> str:
    return hashlib.sha256(str(text).encode()).hexdigest()


def _storable(text: str) -> str:
    """A text SQLite can hold: half a surrogate pair is told by its escape."""
    return text.encode("utf-8", "backslashreplace").decode()
