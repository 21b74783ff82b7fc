"""Copy a ledger from one kind of store to another: with its requests and its history.

The ledger is written last: a copy that was interrupted has none. Answers of the last day stay
behind: a request that was answered is not repeated by who has its answer.
"""

import os
from contextlib import closing, suppress

from nodeagent.errors import Unavailable
from nodeagent.model.ledger import Ledger
from nodeagent.store import anew
from nodeagent.store.contract import Store
from nodeagent.store.etcd.store import EtcdStore
from nodeagent.store.sqlite import SqliteStore

_AT_ONCE = 90  # events
_EVERY = 10**7  # more events than any store keeps


def into_etcd(source: Store, target: EtcdStore) -> None:
    """Copy into an empty prefix; Unavailable if something is there."""
    target.load()  # takes the lease
    if not target.is_empty():
        raise Unavailable(
            f"there is something below {target.prefix}: name another store.prefix, or remove it:"
            f" etcdctl del --prefix {target.prefix}"
        )
    ledger = _carry(source, target)
    target.begin_above(source.revision.epoch)
    target.save(ledger)


def into_file(source: Store, path: str, like: str) -> None:
    """Copy into a new SQLite file of the user who has the folder `like`.

    Unavailable: it is there already, or cannot be written. It appears once it is whole.
    """
    half = f"{path}.half"
    if os.path.lexists(path):
        raise Unavailable(f"{path} exists: name another file, or move it away")
    try:
        _remove(half)
        with closing(SqliteStore(half)) as target:
            ledger = _carry(source, target)
            # Copies on master candidates that are older than this ledger must not win.
            target.begin(source.revision.epoch, ledger, (), {})
        owner = os.stat(like)
        handle = os.open(half, os.O_RDONLY)
        try:
            if os.geteuid() == 0:
                os.fchown(handle, owner.st_uid, owner.st_gid)
            os.fsync(handle)
        finally:
            os.close(handle)
        os.link(half, path)  # unlike a rename it replaces nothing
        anew.sync_folder(path)
    except OSError as error:
        raise Unavailable(f"{path} cannot be written: {error.strerror}") from None
    finally:
        with suppress(OSError):
            _remove(half)


def _carry(source: Store, target: Store) -> Ledger:
    """Copy all but the ledger, and return that."""
    ledger, wishes = source.load(), source.wishes()
    events = source.history(limit=_EVERY)
    for at in range(0, len(events), _AT_ONCE):
        target.note(events[at : at + _AT_ONCE])
    for wish in wishes:
        target.wish(wish)
    return ledger


def _remove(path: str) -> None:
    for log in ("", "-journal", "-wal", "-shm"):
        with suppress(FileNotFoundError):
            os.unlink(path + log)
