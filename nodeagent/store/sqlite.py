"""The ledger on disk: SQLite with a write-ahead log, synchronous in full."""

import sqlite3

from nodeagent.errors import Corrupt, Unavailable
from nodeagent.model.ledger import Ledger
from nodeagent.store.codec import decode, encode


class SqliteStore:
    """Keeps the newest ledger; a save that has returned survives a power cut.

    Corrupt: the file is damaged. Unavailable: it is locked, or cannot be opened, for now.
    """

    def __init__(self, path: str) -> None:
        try:
            self._db = sqlite3.connect(path, isolation_level=None)
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=FULL")
            (verdict,) = self._db.execute("PRAGMA quick_check").fetchone()
            if verdict != "ok":
                raise Corrupt(f"{path}: {verdict}")
            self._db.execute(
                "CREATE TABLE IF NOT EXISTS ledger (one INTEGER PRIMARY KEY CHECK (one = 1), text)"
            )
        except sqlite3.OperationalError as error:
            raise Unavailable(f"{path}: {error}") from None
        except sqlite3.DatabaseError as error:
            raise Corrupt(f"{path}: {error}") from None

    def load(self) -> Ledger:
        """The ledger last saved; an empty one if there is none."""
        try:
            row = self._db.execute("SELECT text FROM ledger").fetchone()
        except sqlite3.Error as error:
            raise Unavailable(f"the ledger cannot be read: {error}") from None
        return decode(row[0]) if row else Ledger()

    def save(self, ledger: Ledger) -> None:
        """Replace the ledger, or raise Unavailable and leave the old one."""
        try:
            self._db.execute("INSERT OR REPLACE INTO ledger VALUES (1, ?)", (encode(ledger),))
        except sqlite3.Error as error:
            raise Unavailable(f"the ledger cannot be written: {error}") from None

    def close(self) -> None:
        """Close the file."""
        self._db.close()
