"""Open the ledger on disk; a corrupt one is set aside."""

import logging
import os
from collections.abc import Callable

from nodeagent.errors import Corrupt, NodeAgentError, TooNew
from nodeagent.model.units import Ms
from nodeagent.store.files import set_aside
from nodeagent.store.sqlite import SqliteStore

log = logging.getLogger(__name__)


def open_sqlite(folder: str, now: Callable[[], Ms], *, dry: bool) -> SqliteStore:
    """Open the ledger in a folder; set a corrupt one aside, and begin with an empty one.

    With `dry` it is only read, and Corrupt is raised instead.
    """
    path = f"{folder}/ledger.sqlite"
    if dry and not os.path.exists(path):
        return SqliteStore(":memory:")
    try:
        return _readable(SqliteStore(path, reading=dry))
    except TooNew:
        raise
    except Corrupt as error:
        if dry:
            raise
        aside = set_aside(path, now())
        log.error("ledger-corrupt why=%r aside=%s", str(error), aside)  # noqa: TRY400
        return SqliteStore(path)  # empty: tags and jobs rebuild it


def _readable(store: SqliteStore) -> SqliteStore:
    """Return a store whose rows are readable too; Corrupt names an unreadable one."""
    try:
        store.load()
        store.wishes()
    except NodeAgentError:
        store.close()
        raise
    return store
