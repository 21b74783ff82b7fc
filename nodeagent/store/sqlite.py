"""The memory of maintd on disk: SQLite with a write-ahead log, synchronous in full."""

import hashlib
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple

from nodeagent.clocks import unix_ms
from nodeagent.errors import Corrupt, Fenced, MessageError, NodeAgentError, TooNew, Unavailable
from nodeagent.model.event import AUDIT, Event
from nodeagent.model.ledger import Ledger
from nodeagent.model.units import Ms
from nodeagent.model.wish import Wish
from nodeagent.store import files, form_before
from nodeagent.store.codec import decode, encode, encode_ledger

MEMORY = ":memory:"
KEEP_EVENTS = 100_000
KEEP_AUDIT = 20_000  # events of administrators' acts, which other events never evict
KEEP_ANSWERS = 86_400_000  # ms
_REMOVE = "sqlite3 %s 'DELETE FROM event WHERE number IN (%s)'"
_SHOWN = 100  # damaged events
_BIGGEST = 2**63 - 1
_FORM, _FORM_BEFORE = 4, 3  # user_version
_OURS = int.from_bytes(b"ndag", "big")  # application_id

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
_DAMAGED = (
    sqlite3.SQLITE_ERROR,
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_FORMAT,
    sqlite3.SQLITE_NOTADB,
)


class Size(NamedTuple):
    """The extent of a store: bytes on disk, and kept events."""

    bytes: int
    events: int


class SqliteStore:
    """The memory that must survive a restart: the ledger, requests and their answers, history.

    One file, for one process and any of its threads.

    - **Atomic**: a save is there with ledger, events and answers, or not at all. That holds for a
      kill at any moment, for a full disk, and for a save that was refused.
    - **Durable**: a returned call survives a power cut.
    - **Ordered**: each save that changes the ledger has a higher number, and requests and events
      keep their order.
    - **Fenced**: a save counts only on top of the one that was last read or written here. Where
      another has saved since, or the file is another one, it changes nothing.

    Corrupt: the file is damaged, or not ours; it is never guessed at. TooNew: a newer nodeagent can
    read it. Unavailable: it is locked, full or read-only for now, and unchanged. Fenced ends this
    maintd.

    It keeps `keep` events, and `audit` events of administrators' acts beside them; it waits
    `patience` seconds for a lock. It converts a file of the form before, unless it is only
    `reading`.
    """

    def __init__(
        self,
        path: str,
        keep: int = KEEP_EVENTS,
        patience: float = 1.0,
        now: Callable[[], Ms] = unix_ms,
        audit: int = KEEP_AUDIT,
        *,
        reading: bool = False,
    ) -> None:
        self.path = self._path = path
        self._reads_only = reading
        self._patience = patience
        self.number = 0  # of the newest save that was read or written
        self.rule = ""  # digest of the rule that this ledger came from, or counts instead of
        self._known = False  # whether the newest ledger was read or written
        self.ledger = Ledger()  # the newest that was read or written
        self._text = ""  # the newest ledger's
        self._damaged: set[int] = set()  # events
        self._unreadable = ""  # the reason, if the whole history is unreadable
        self._keeps = keep, audit
        self._now = now
        self._lock = threading.Lock()
        with self._errors("opened"):
            made = path != MEMORY and files.make_private(path)
            self._db = self._connect()
        try:
            with self._errors("opened"):
                self._open()
        except NodeAgentError:
            self._db.close()
            if made:
                files.unmake(path)
            raise
        self._alone = path != MEMORY and not reading
        self._mark = files.mark(path)

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(
            self._path, timeout=self._patience, isolation_level=None, check_same_thread=False
        )

    def _open(self) -> None:
        self._db.create_function("digest", 1, _sha256, deterministic=True)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=FULL")
        (verdict,) = self._db.execute("PRAGMA quick_check(1)").fetchone()
        if verdict != "ok":
            raise Corrupt(verdict)
        with self._transaction():
            form = self._form()
            self._of_before = form == _FORM_BEFORE
            if not form:
                for statement in (*_OTHERS, _LEDGER, f"PRAGMA user_version={_FORM}"):
                    self._db.execute(statement)
            elif self._of_before and not self._reads_only:
                self._convert()
        bad = "SELECT number FROM event WHERE typeof(text) != 'text' OR NOT json_valid(text)"
        self._damaged = {number for (number,) in self._db.execute(f"{bad} LIMIT {_SHOWN}")}

    def _form(self) -> int:
        """Return the form of a database that is ours; 0 for an empty one."""
        (tables,) = self._db.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if not tables:
            return 0
        (owner,) = self._db.execute("PRAGMA application_id").fetchone()
        (form,) = self._db.execute("PRAGMA user_version").fetchone()
        if owner != _OURS:
            raise Corrupt("it is somebody else's database, or older than any release")
        if form > _FORM:
            raise TooNew(
                f"it is of version {form}, and we read {_FORM}: a newer nodeagent wrote it;"
                " install that one again"
            )
        if form not in (_FORM, _FORM_BEFORE):
            raise Corrupt(f"it is of version {form}, and we read {_FORM}")
        return int(form)

    def _convert(self) -> None:
        """Change the form before into ours; nothing is lost."""
        number, ledger = form_before.read(self._db)
        self._db.execute(_LEDGER)
        if number:
            self._put(number, encode(ledger), "")
        for table in ("entity", "revision", "doubt"):
            self._db.execute(f"DROP TABLE IF EXISTS {table}")
        self._db.execute(f"PRAGMA user_version={_FORM}")
        self._of_before = False

    def load(self) -> Ledger:
        """Return the ledger last saved; an empty one if there is none."""
        with self._lock:
            self._check_place()
            with self._errors("read"):
                if self._of_before:
                    return form_before.read(self._db)[1]
                number, text, self.rule = self._newest()
                ledger = decode(Ledger, text) if number else Ledger()
            self.number, self.ledger, self._text, self._known = number, ledger, text, True
        return ledger

    def _newest(self) -> tuple[int, str, str]:
        """Return the newest save's number, text and rule; 0 and "" before the first."""
        row = self._db.execute("SELECT number, text, digest, rule FROM ledger").fetchone()
        if row is None:
            return 0, "", ""
        number, text, written, rule = row
        if type(number) is not int or number < 1 or _sha256(text) != written:
            raise Corrupt("the ledger is not as it was written")
        return number, text, str(rule)

    def save(
        self,
        ledger: Ledger,
        events: Sequence[Event] = (),
        answers: Mapping[str, str] | None = None,
        *,
        above: int = 0,
        rule: str | None = None,
    ) -> None:
        """Replace the ledger, append events and answer requests: all of it, or Unavailable.

        Its number is higher than `above`; a ledger that is the same as before keeps its own. `rule`
        is the digest of the rule that it came from, or counts instead of; None: as before. An
        answer is empty for an accepted request, else the reason of the refusal; it ends the
        request's wait, and is kept for a day.
        """
        if self._of_before:
            raise Unavailable(f"{self._path} is of an older form, and only read")
        lines = _lines_of(events)
        now = self._now()
        rows = [
            (_storable(request_id), _storable(why), now)
            for request_id, why in (answers or {}).items()
        ]
        with self._lock:
            same = self._known and (ledger is self.ledger or ledger == self.ledger)
            text = self._text if same else encode_ledger(ledger)
            with self._changing():
                row = self._db.execute("SELECT number FROM ledger").fetchone()
                number = row[0] if row else 0
                if self._known and number != self.number:
                    raise Fenced(
                        f"{self._path}: another program has saved it meanwhile: its save is"
                        f" {number}, and ours is {self.number}"
                    )
                if text != self._text or above > number or rule is not None:
                    number = max(number, above) + 1
                    self._put(number, text, self.rule if rule is None else rule)
                if lines:
                    self._append(lines)
                if rows:
                    self._answer(rows, now)
            self.number, self.ledger, self._text, self._known = number, ledger, text, True
            self.rule = self.rule if rule is None else rule

    def _put(self, number: int, text: str, rule: str) -> None:
        row = number, text, _sha256(text), rule
        self._db.execute("INSERT OR REPLACE INTO ledger VALUES (1, ?, ?, ?, ?)", row)

    def _append(self, lines: Sequence[tuple[int, str, str, bool]]) -> None:
        """Append events; the oldest of more than are kept go."""
        keep, audit = self._keeps
        self._db.executemany(
            "INSERT INTO event (at, incident, text, audit) VALUES (?, ?, ?, ?)", lines
        )
        self._db.execute(
            "DELETE FROM event WHERE audit = 0 AND number <= (SELECT max(number) FROM event) - ?",
            (keep,),
        )
        if any(of_audit for *_, of_audit in lines):
            self._db.execute(
                "DELETE FROM event WHERE audit = 1 AND number <= (SELECT number FROM event"
                " WHERE audit = 1 ORDER BY number DESC LIMIT 1 OFFSET ?)",
                (audit,),
            )

    def forget_answers(self) -> None:
        """Forget all answers: from now on another's ledger counts."""
        with self._writing():
            self._db.execute("DELETE FROM wish WHERE answered IS NOT NULL")

    def _answer(self, rows: Sequence[tuple[str, str, Ms]], now: Ms) -> None:
        self._db.executemany(
            "INSERT INTO wish (id, answer, answered) VALUES (?, ?, ?) ON CONFLICT (id)"
            " DO UPDATE SET answer = excluded.answer, answered = excluded.answered,"
            # The text may be long, and nobody reads it any more.
            " text = CASE WHEN answered IS NULL THEN digest(text) ELSE text END",
            rows,
        )
        self._db.execute("DELETE FROM wish WHERE answered < ?", (now - KEEP_ANSWERS,))

    def note(self, events: Sequence[Event]) -> None:
        """Append events to the history."""
        with self._writing():
            self._append(_lines_of(events))

    def wish(self, wish: Wish) -> None:
        """Keep a request until its answer; on disk when this returns.

        The same request again changes nothing. MessageError: its id is another request's.
        """
        identity, text = _storable(wish.id), encode(wish)
        with self._writing():
            row = self._db.execute("SELECT text FROM wish WHERE id = ?", (identity,)).fetchone()
            if row is None:
                self._db.execute("INSERT INTO wish (id, text) VALUES (?, ?)", (identity, text))
            elif row[0] not in (text, _sha256(text)):
                raise MessageError("another request has this id")

    def wishes(self) -> tuple[Wish, ...]:
        """Return the requests without an answer, in the order of their arrival."""
        with self._reading():
            rows = self._db.execute(
                "SELECT text FROM wish WHERE answered IS NULL ORDER BY number"
            ).fetchall()
        with self._errors("read"):
            return tuple(decode(Wish, text) for (text,) in rows)

    def answer(self, wish: str) -> str | None:
        """Return a request's answer: None if waiting or unknown, "" if accepted, else why not."""
        with self._reading():
            row = self._db.execute(
                "SELECT answer FROM wish WHERE id = ?", (_storable(wish),)
            ).fetchone()
        return row[0] if row else None

    def history(
        self, incident: str | None = None, since: Ms | None = None, limit: int = 1000
    ) -> list[Event]:
        """Return the newest events, at most `limit`, the newest last.

        It leaves out damaged ones, and `troubles` reports them.
        """
        from_when, row_limit = (max(0, min(n, _BIGGEST)) for n in (since or 0, limit))
        among, which = ("", ()) if incident is None else (" AND incident = ?", (incident,))
        asked = f"SELECT number, CAST(text AS BLOB) FROM event WHERE at >= ?{among}"  # noqa: S608
        given = (from_when, *map(_storable, which), row_limit)
        try:
            with self._reading():
                rows = self._db.execute(f"{asked} ORDER BY number DESC LIMIT ?", given).fetchall()
        except Corrupt as error:
            self._unreadable = str(error)
            return []
        self._unreadable = ""
        events = []
        for number, raw in reversed(rows):
            try:
                events.append(decode(Event, raw.decode()))
            except (NodeAgentError, UnicodeDecodeError, AttributeError):
                self._damaged.add(number)
        return events

    def audits(self, limit: int) -> list[Event]:
        """Return the newest events of administrators' acts, the newest last."""
        with self._reading():
            rows = self._db.execute(
                "SELECT text FROM event WHERE audit = 1 ORDER BY number DESC LIMIT ?", (limit,)
            ).fetchall()
        events = []
        for (text,) in reversed(rows):
            with suppress(Corrupt):
                events.append(decode(Event, text))
        return events

    def troubles(self) -> tuple[str, ...]:
        """Return the file's present and recent faults; with the command that helps."""
        faults = [self._unreadable] if self._unreadable else []
        if numbers := self._still_damaged():
            listed = ", ".join(map(str, numbers[:_SHOWN]))
            faults.append(
                f"{len(numbers)} damaged lines of the history are left out: run these three:"
                f" systemctl stop maintd; {_REMOVE % (self._path, listed)}; systemctl start maintd"
            )
        return tuple(faults)

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

    def size(self) -> Size:
        """Return the bytes of the file and its log, and the number of kept events."""
        with self._reading():
            (pages,) = self._db.execute(
                "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()"
            ).fetchone()
            (events,) = self._db.execute("SELECT count(*) FROM event").fetchone()
        return Size(pages + files.log_size(self._path), events)

    def close(self) -> None:
        """Give everything back; nothing more is asked of it."""
        with self._lock:
            self._db.close()

    @contextmanager
    def _reading(self) -> Iterator[None]:
        with self._lock:
            self._check_place()
            with self._errors("read"):
                yield

    @contextmanager
    def _writing(self) -> Iterator[None]:
        with self._lock, self._changing():
            yield

    @contextmanager
    def _changing(self) -> Iterator[None]:
        self._check_place()
        try:
            with self._errors("written"), self._transaction():
                yield
        finally:
            self._mark = files.mark(self._path)  # SQLite may have moved the log into it

    def _check_place(self) -> None:
        """Raise Fenced if somebody has deleted or replaced the file: nobody would find our saves.

        The next start goes on with the newer ledger in Ganeti's configuration.
        """
        if self._alone and files.mark(self._path) != self._mark:
            raise Fenced(f"{self._path} was deleted or replaced while maintd ran")

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
    def _errors(self, what: str) -> Iterator[None]:
        """Tell errors apart by the caller's reaction."""
        try:
            yield
        except Corrupt as error:
            raise type(error)(f"{self._path}: {error}") from None
        except OSError as error:
            raise Unavailable(f"{self._path} cannot be {what}: {error.strerror}") from None
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", 0)
            if code & 0xFF in _DAMAGED or str(error).startswith("Could not decode"):
                raise Corrupt(f"{self._path}: {error}") from None
            # On a full disk SQLite says "disk I/O error" as long as it only opens its logs.
            full = code & 0xFF in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL)
            why = files.full(self._path) if full else ""
            raise Unavailable(f"{self._path} cannot be {what}: {why or error}") from None


def _sha256(text: object) -> str:
    return hashlib.sha256(str(text).encode()).hexdigest()


def _lines_of(events: Sequence[Event]) -> list[tuple[int, str, str, bool]]:
    """Return the rows of events: time, incident, text, and whether administrators caused it."""
    return [(e.at, _storable(e.incident), encode(e), e.kind in AUDIT) for e in events]


def _storable(text: str) -> str:
    """Return a text that SQLite can hold, with half a surrogate pair as its escape."""
    return text.encode("utf-8", "backslashreplace").decode()
