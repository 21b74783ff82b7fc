import os
import shutil
import sqlite3
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

from nodeagent.errors import Corrupt, Fenced, MessageError, TooNew, Unavailable
from nodeagent.model.action import Scope
from nodeagent.model.event import Event
from nodeagent.model.ledger import Ledger
from nodeagent.model.units import Ms
from nodeagent.model.wish import Cancel, Pause, ResetStorm, Wish
from nodeagent.store import files
from nodeagent.store.files import set_aside
from nodeagent.store.sqlite import SqliteStore
from tests import needs
from tests.etc.mounts import mounted
from tests.store.full import FULL

WISHES = (
    Wish("w2", "ada", Ms(1), Cancel("i1")),
    Wish("w1", "bob", Ms(2), Pause(Scope.NODE, "n1", "moving \udcff racks")),
    Wish("w3", "ada", Ms(3), ResetStorm()),
)


def event(number: int, incident: str = "i1") -> Event:
    return Event(Ms(number), "noted", incident, "n1", f"number {number}")


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "ledger")


@pytest.fixture
def store(path: str) -> Iterator[SqliteStore]:
    with closing(SqliteStore(path)) as opened:
        yield opened


def test_only_its_owner_may_read_it_and_its_logs(path: str, store: SqliteStore) -> None:
    store.save(FULL)
    for name in (path, f"{path}-wal", f"{path}-shm"):
        assert stat.S_IMODE(os.stat(name).st_mode) == 0o600
    store.close()
    os.chmod(path, 0o644)
    SqliteStore(path).close()
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600


def test_a_file_system_is_full_of_bytes_or_of_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some count no files: then they say that there may be none at all."""
    for space, told in (
        (SimpleNamespace(f_bavail=1, f_favail=1, f_files=9), False),
        (SimpleNamespace(f_bavail=0, f_favail=1, f_files=9), True),
        (SimpleNamespace(f_bavail=1, f_favail=0, f_files=9), True),
        (SimpleNamespace(f_bavail=1, f_favail=0, f_files=0), False),
    ):
        monkeypatch.setattr(os, "statvfs", lambda _, space=space: space)
        assert bool(files.full("/x/ledger")) is told, space


# History.


def test_history_by_incident_time_and_number(store: SqliteStore) -> None:
    store.save(Ledger(), [event(n, "i1" if n % 2 else "i2") for n in range(1, 7)])
    assert [e.at for e in store.history()] == [1, 2, 3, 4, 5, 6]
    assert [e.at for e in store.history(limit=2)] == [5, 6]
    assert [e.at for e in store.history("i1")] == [1, 3, 5]
    assert [e.at for e in store.history("i1", since=Ms(3), limit=1)] == [5]
    assert [e.at for e in store.history(since=Ms(5))] == [5, 6]
    assert store.history("i3") == []
    assert store.history(limit=0) == []


@pytest.mark.parametrize("number", [-(2**70), -1, 2**70])
def test_history_takes_whatever_it_is_asked(store: SqliteStore, number: int) -> None:
    store.save(Ledger(), [event(1)])
    assert store.history("\udcff\0", since=Ms(number)) == []
    assert store.history(limit=number) == ([event(1)] if number > 0 else [])


def act(number: int) -> Event:
    return Event(Ms(number), "wish-granted", "", "n1", "alice asked to pause the cluster")


def test_nothing_that_others_cause_evicts_what_administrators_did(path: str) -> None:
    store = SqliteStore(path, keep=5, audit=3)
    store.save(Ledger(), [act(1), event(2), act(3)])
    for number in range(10, 200):
        store.save(Ledger(), [event(number)])
        store.note([event(number)])
    assert [e.at for e in store.history()] == [1, 3, 197, 198, 198, 199, 199]
    store.save(Ledger(), [act(300), act(301)])
    kept = [e.at for e in store.history() if e.kind == "wish-granted"]
    assert kept == [3, 300, 301], "it is bounded by itself"
    store.close()


def test_the_text_of_a_wish_is_not_kept_once_it_is_answered(store: SqliteStore) -> None:
    wish = Wish("w", "eve", Ms(1), Pause(Scope.CLUSTER, "", "x" * 100_000))
    store.wish(wish)
    store.save(Ledger(), answers={"w": "no"})
    store.save(Ledger(), answers={"w": "no"})
    (text,) = store._db.execute("SELECT text FROM wish").fetchone()
    assert len(text) == 64
    store.wish(wish)
    with pytest.raises(MessageError):
        store.wish(Wish("w", "eve", Ms(1), ResetStorm()))


# What cannot be written changes nothing.


def full(store: SqliteStore, path: str) -> Callable[[], object]:
    (pages,) = store._db.execute("PRAGMA page_count").fetchone()
    store._db.execute(f"PRAGMA max_page_count={pages}")
    return lambda: store._db.execute("PRAGMA max_page_count=1000000")


def locked(store: SqliteStore, path: str) -> Callable[[], object]:
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    return other.close


def read_only(store: SqliteStore, path: str) -> Callable[[], object]:
    store._db.execute("PRAGMA query_only=1")
    return lambda: store._db.execute("PRAGMA query_only=0")


@pytest.mark.parametrize("trouble", [full, locked, read_only])
def test_a_save_that_cannot_be_leaves_all_as_it_was(
    path: str, trouble: Callable[[SqliteStore, str], Callable[[], object]]
) -> None:
    store = SqliteStore(path, patience=0.05)
    for wish in WISHES:
        store.wish(wish)
    store.save(Ledger(1), [event(1)])
    mend = trouble(store, path)
    big = [Event(Ms(n), "noted", "i", "n", "x" * 5000) for n in range(50)]
    with pytest.raises(Unavailable, match="ledger cannot be written"):
        store.save(FULL, big, {"w1": "no", "w2": ""})
    assert store.load() == Ledger(1)
    assert store.wishes() == WISHES
    assert store.history() == [event(1)]
    assert store.answer("w1") is None
    mend()
    store.save(FULL, [event(2)], {"w1": "no", "w2": "", "w3": ""})
    assert store.load() == FULL
    assert store.history() == [event(1), event(2)]
    store.close()


def test_a_wish_that_cannot_be_kept_is_refused_at_once(path: str) -> None:
    store = SqliteStore(path, patience=0.05)
    mend = locked(store, path)
    with pytest.raises(Unavailable):
        store.wish(WISHES[0])
    mend()
    assert store.wishes() == ()
    store.close()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    needs.require("root")
    with mounted(tmp_path / "disk", "-t", "tmpfs", "-o", "size=400k", "tmpfs") as disk:
        yield disk


@pytest.mark.parametrize("there", [False, True], ids=["no ledger yet", "with a ledger"])
def test_a_disk_that_is_full_at_the_start_is_called_full(small_disk: Path, there: bool) -> None:
    path = small_disk / "ledger"
    if there:
        with closing(SqliteStore(str(path))) as store:
            store.save(FULL)
    with suppress(OSError), open(small_disk / "ballast", "wb", buffering=0) as ballast:
        while True:
            ballast.write(bytes(4096))
    with pytest.raises(Unavailable, match=f"the file system of {small_disk} is full: df "):
        SqliteStore(str(path))
    (small_disk / "ballast").unlink()
    with closing(SqliteStore(str(path))) as store:
        assert store.load() == (FULL if there else Ledger())


def test_no_folder_no_file_no_permission_are_told(tmp_path: Path) -> None:
    for path in (tmp_path / "no" / "ledger", tmp_path, Path("/proc/ledger")):
        with pytest.raises(Unavailable, match=str(path)):
            SqliteStore(str(path))


# What is damaged is said, and can be set aside.


def test_f6_a_file_that_is_no_database_is_said_and_left_alone(path: str) -> None:
    Path(path).write_bytes(b"this is no database" * 100)
    with pytest.raises(Corrupt, match=f"^{path}: "):
        SqliteStore(path)
    assert Path(path).read_bytes().startswith(b"this is no database")


def test_f6_damaged_pages_are_never_read_as_something_else(path: str) -> None:
    events = [event(n) for n in range(300)]
    with closing(SqliteStore(path)) as store:
        store.save(FULL, events)
    whole = Path(path).read_bytes()
    assert len(whole) > 12 * 4096
    for page in range(11):
        at = page * 4096 + 40
        Path(path).write_bytes(whole[:at] + b"\xa5" * 4000 + whole[at + 4000 :])
        try:
            with closing(SqliteStore(path)) as store:
                assert store.load() == FULL
                assert store.history() == events
        except Corrupt as error:
            assert str(error).startswith(path)  # noqa: PT017 (either is right)


@pytest.mark.parametrize("byte", [b"8", b"\xff"])
def test_f6_one_changed_byte_in_the_ledger_is_seen(path: str, byte: bytes) -> None:
    with closing(SqliteStore(path)) as store:
        store.save(FULL)
    raw = Path(path).read_bytes()
    assert raw.count(b'"need":"live-repair"') == 1
    Path(path).write_bytes(raw.replace(b'"live-repair"', b'"live-repai' + byte + b'"'))
    with closing(SqliteStore(path)) as store, pytest.raises(Corrupt, match=f"^{path}: "):
        store.load()


def test_a_database_of_another_version_or_another_owner_is_refused(path: str) -> None:
    with closing(SqliteStore(path)) as store:
        store._db.execute("PRAGMA user_version=5")
    with pytest.raises(TooNew, match="it is of version 5, and we read 4: a newer nodeagent"):
        SqliteStore(path)
    with closing(sqlite3.connect(path)) as other:
        other.execute("PRAGMA user_version=1")
    with pytest.raises(Corrupt, match="it is of version 1, and we read 4"):
        SqliteStore(path)
    os.unlink(path)
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE ledger (one, text)")
    with pytest.raises(Corrupt, match="somebody else's"):
        SqliteStore(path)


def test_a_corrupt_database_is_set_aside_with_its_logs(path: str) -> None:
    Path(path).write_bytes(b"x" * 5000)
    with pytest.raises(Corrupt):
        SqliteStore(path)
    Path(path + "-wal").write_bytes(b"log")
    aside = set_aside(path, Ms(1_795_000_000_123))
    assert aside == f"{path}.corrupt-20261118T110640.123Z"
    assert Path(aside).read_bytes() == b"x" * 5000
    assert Path(aside + "-wal").read_bytes() == b"log"
    assert not os.path.exists(path + "-wal")
    with closing(SqliteStore(path)) as fresh:
        assert fresh.load() == Ledger()


def test_killed_while_setting_aside_the_old_log_is_not_applied(path: str) -> None:
    store = SqliteStore(path)
    store.save(FULL)
    shutil.copy(path + "-wal", path + ".wal")
    store.close()
    os.rename(path, path + ".corrupt-x")
    os.rename(path + ".wal", path + "-wal")
    with closing(SqliteStore(path)) as fresh:
        assert fresh.load() == Ledger()
        assert fresh.history() == []


def test_what_cannot_be_set_aside_is_told(path: str) -> None:
    with pytest.raises(Unavailable, match="cannot be set aside"):
        set_aside(path, Ms(0))


# Threads and processes.


def test_wishes_come_in_while_rounds_are_saved(store: SqliteStore) -> None:
    faults: list[BaseException] = []

    def run(what: Callable[[int], object]) -> None:
        try:
            for number in range(100):
                what(number)
        except BaseException as error:
            faults.append(error)

    jobs: list[Callable[[int], object]] = [
        lambda n: store.wish(Wish(f"a{n}", "ada", Ms(n), ResetStorm())),
        lambda n: store.wish(Wish(f"b{n}", "bob", Ms(n), ResetStorm())),
        lambda n: store.save(Ledger(n), [event(n)], {w.id: "" for w in store.wishes()}),
        lambda n: (store.load(), store.history(), store.answer(f"a{n}")),
    ]
    threads = [threading.Thread(target=run, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults
    store.save(Ledger(100), [event(100)], {w.id: "" for w in store.wishes()})
    assert store.wishes() == ()
    assert [store.answer(f"{who}{n}") for who in "ab" for n in range(100)] == [""] * 200
    assert [e.at for e in store.history()] == list(range(101))


# A damaged history, an emptied file.


@pytest.mark.parametrize(
    "text", ["'{'", "'[]'", "'{}'", "x'ff00'", "CAST(x'ff7b7d' AS TEXT)", "''", "7"]
)
def test_a_damaged_line_of_the_history_is_left_out_and_told(
    path: str, store: SqliteStore, text: str
) -> None:
    store.save(Ledger(1), [event(1), event(2), event(3)])
    assert store.troubles() == ()
    store._db.execute(f"UPDATE event SET text = {text} WHERE number = 2")
    assert store.history() == store.history("i1") == [event(1), event(3)]
    (told,) = store.troubles()
    assert told.startswith("1 damaged lines of the history are left out: ")
    assert f"sqlite3 {path} 'DELETE FROM event WHERE number IN (2)'" in told
    store._db.execute("DELETE FROM event WHERE number IN (2)")
    assert store.troubles() == ()


def test_a_line_that_is_not_json_is_found_at_the_start(path: str, store: SqliteStore) -> None:
    store.save(Ledger(1), [event(n) for n in range(50)])
    store._db.execute("UPDATE event SET text = 'x' WHERE number = 3")
    store.close()
    with closing(SqliteStore(path)) as again:
        assert "number IN (3)" in again.troubles()[0]
        assert len(again.history(limit=5)) == 5


def test_a_history_that_cannot_be_read_at_all_is_told(path: str, store: SqliteStore) -> None:
    store.save(FULL, [event(1)])
    store._db.execute("ALTER TABLE event RENAME TO gone")
    assert store.history() == []
    assert "no such table" in store.troubles()[0]
    assert store.load() == FULL


@pytest.mark.parametrize("with_log", [False, True])
def test_an_emptied_ledger_is_no_new_one(path: str, with_log: bool) -> None:
    store = SqliteStore(path)
    store.save(FULL)
    assert os.stat(path).st_size > 0, "nothing of ours is ever empty"
    if with_log:
        shutil.copy(path + "-wal", path + ".wal")
    store.close()
    os.truncate(path, 0)
    if with_log:
        os.rename(path + ".wal", path + "-wal")
    with pytest.raises(Corrupt, match="it is empty: truncated, or its first start was"):
        SqliteStore(path)
    assert os.path.exists(path + "-wal") == with_log, "it is kept"
    set_aside(path, Ms(0))
    with closing(SqliteStore(path)) as fresh:
        assert fresh.load() == Ledger()


# Deleted or replaced while we have it open.


def deleted(path: str) -> None:
    os.unlink(path)


def replaced(path: str) -> None:
    shutil.copy(path, path + ".tmp")
    os.rename(path + ".tmp", path)


@pytest.mark.parametrize("how", [deleted, replaced])
def test_a_file_in_another_place_ends_it(path: str, how: Callable[[str], None]) -> None:
    """What it saves there nobody would find."""
    with closing(SqliteStore(path)) as store:
        store.save(FULL, [event(1)])
        how(path)
        for use in (
            store.load,
            store.wishes,
            lambda: store.save(Ledger(5)),
            lambda: store.wish(WISHES[0]),
        ):
            with pytest.raises(Fenced, match="was deleted or replaced while maintd ran"):
                use()


def test_an_older_copy_that_is_written_over_it_ends_it(path: str) -> None:
    with closing(SqliteStore(path)) as store:
        store.save(Ledger(1))
    shutil.copy(path, path + ".old")
    with closing(SqliteStore(path)) as store:
        store.load()
        store.save(Ledger(2))
        store._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        shutil.copy(path + ".old", path)
        with pytest.raises((Fenced, Corrupt)):
            store.save(Ledger(3))


def test_one_that_only_reads_goes_on(path: str) -> None:
    """Such as a dry run beside the daemon."""
    with closing(SqliteStore(path)) as store:
        store.save(FULL)
    with closing(SqliteStore(path, reading=True)) as other:
        os.unlink(path)
        assert other.load() == FULL


def test_our_own_writing_is_no_change(path: str) -> None:
    with closing(SqliteStore(path)) as store:
        for number in range(60):
            store.save(Ledger(number), [event(n) for n in range(20)])
            if number % 10 == 0:
                with closing(SqliteStore(path, reading=True)) as other:  # a dry run
                    other.load()
        assert store.troubles() == ()
