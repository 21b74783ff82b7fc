"""The form before is converted, and there is a way back; nothing is lost either way."""

import os
import shutil
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from nodeagent.errors import Corrupt, Unavailable
from nodeagent.model.event import Event
from nodeagent.model.ledger import Ledger
from nodeagent.model.units import Ms
from nodeagent.model.wish import ResetStorm, Wish
from nodeagent.store.codec import decode
from nodeagent.store.contract import Revision, TooNew
from nodeagent.store.copies import copy
from nodeagent.store.sqlite import SqliteStore
from nodeagent.store.tables import BEFORE, FORM
from tests import needs

HERE = Path(__file__).parent
TOP = HERE.parents[1]
LAST_BEFORE = "e930fbfd19"  # the last commit that wrote the form before
SAVED = (HERE / "before.sql").read_text()


def now() -> Ms:
    return Ms(1_795_000_000_001)


@pytest.fixture
def before(tmp_path: Path) -> str:
    """A file that the release before has written: ledger, history, requests, answers."""
    path = str(tmp_path / "ledger.sqlite")
    with closing(sqlite3.connect(path)) as db:
        db.executescript(SAVED)
        db.execute("PRAGMA journal_mode=WAL")
    return path


def said(store: SqliteStore) -> tuple[object, ...]:
    """All that can be asked."""
    answers = [store.answer(f"w{n}") for n in range(5)]
    return store.load(), store.history(), store.wishes(), answers


def form(path: str) -> int:
    with closing(sqlite3.connect(path)) as db:
        (found,) = db.execute("PRAGMA user_version").fetchone()
    return int(found)


def test_a_file_of_the_form_before_is_read_and_converted(before: str) -> None:
    with closing(sqlite3.connect(before)) as db:
        (text,) = db.execute("SELECT text FROM ledger").fetchone()
    with closing(SqliteStore(before, now=now)) as store:
        ledger, history, wishes, answers = said(store)
        assert ledger == decode(Ledger, text)
        assert isinstance(ledger, Ledger)
        assert [event.at for event in history] == [1, 2, 3]  # type: ignore[attr-defined]
        assert wishes == (Wish("w3", "ada", Ms(3), ResetStorm()),)
        assert answers == [None, "no", "", None, None]
        assert store.revision == Revision(0, 1)
        store.save(ledger, [Event(Ms(4), "noted")], {"w3": ""})
    assert form(before) == FORM
    with closing(SqliteStore(before, now=now)) as store:
        assert store.load() == ledger
        assert store.revision == Revision(0, 2)


def test_the_history_of_its_oldest_release_is_read_and_its_acts_are_kept(before: str) -> None:
    with closing(sqlite3.connect(before)) as old, old:
        old.execute("DROP INDEX event_by_audit")
        old.execute("ALTER TABLE event DROP COLUMN audit")
    with closing(SqliteStore(before, keep=2, now=now)) as store:
        store.note([Event(Ms(n), "noted") for n in (4, 5)])
        assert [event.at for event in store.history()] == [2, 4, 5]


def test_one_that_only_reads_converts_nothing(before: str) -> None:
    """Such as a dry run beside the daemon of the release before."""
    with closing(SqliteStore(before, now=now, reading=True)) as store:
        found = said(store)
        with pytest.raises(Unavailable, match="older form"):
            store.save(Ledger())
    assert form(before) == BEFORE
    with closing(SqliteStore(before, now=now)) as store:
        assert said(store) == found


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE ledger SET digest = 'x'",
        "UPDATE ledger SET text = replace(text, 'live-repair', 'live-repaiz')",
    ],
)
def test_a_damaged_one_is_left_as_it_is(before: str, damage: str) -> None:
    with closing(sqlite3.connect(before)) as db, db:
        db.execute(damage)
    with pytest.raises(Corrupt, match=f"^{before}: the ledger is not as it was written"):
        SqliteStore(before)
    assert form(before) == BEFORE


KILLED = """
import os, signal, sqlite3, sys
from nodeagent.store.sqlite import SqliteStore
for nth in range(1, 100):  # the copies wait; each is opened by a fork
    path = f"{sys.argv[1]}.{nth}"
    child = os.fork()
    if child == 0:
        break
    end = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if end != -signal.SIGKILL:
        print(nth)
        sys.exit(end)
real, done = sqlite3.connect, [0]
class Dying(sqlite3.Connection):
    def _step(self):
        done[0] += 1
        if done[0] == nth:
            os.kill(os.getpid(), signal.SIGKILL)
    def execute(self, *given):
        self._step()
        return super().execute(*given)
    def executemany(self, *given):
        self._step()
        return super().executemany(*given)
sqlite3.connect = lambda *given, **more: real(*given, **more, factory=Dying)
SqliteStore(path)
"""


def test_a_kill_at_each_statement_leaves_one_form_or_the_other(before: str) -> None:
    with closing(SqliteStore(before, now=now, reading=True)) as store:
        wanted = said(store)
    for nth in range(1, 100):
        shutil.copy(before, f"{before}.{nth}")
    command = [sys.executable, "-c", KILLED, before]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    last, seen = int(done.stdout), set()
    for nth in range(1, last + 1):
        seen.add(form(f"{before}.{nth}"))
        with closing(SqliteStore(f"{before}.{nth}", now=now)) as store:
            assert said(store) == wanted, nth
    assert last > 12
    assert seen == {BEFORE, FORM}


# The way back.


def test_there_and_back_nothing_is_lost(before: str) -> None:
    with closing(SqliteStore(before, now=now)) as store:
        wanted = said(store)
        ledger = store.load()
        store.save(ledger, [Event(Ms(9), "noted")])
        wanted = said(store)
        older = f"{before}.older"
        copy(before, older, BEFORE)
        assert store.load() == ledger
    assert form(older) == BEFORE
    assert stat.S_IMODE(os.stat(older).st_mode) == 0o600
    with closing(SqliteStore(older, now=now)) as store:
        assert said(store) == wanted
        assert store.revision == Revision(0, 3), "its numbers go on"
    assert not [name for name in os.listdir(os.path.dirname(before)) if "half" in name]


def test_a_copy_in_our_own_form(before: str) -> None:
    with closing(SqliteStore(before, now=now)) as store:
        wanted, at = said(store), store.revision
    copy(before, f"{before}.copy")
    with closing(SqliteStore(f"{before}.copy", now=now)) as store:
        assert said(store) == wanted
        assert store.revision == at


def test_a_new_one_without_a_save_can_be_copied_back(tmp_path: Path) -> None:
    path, older = str(tmp_path / "new"), str(tmp_path / "older")
    SqliteStore(path).close()
    copy(path, older, BEFORE)
    with closing(SqliteStore(older)) as store:
        assert store.load() == Ledger()


def test_a_copy_replaces_nothing_and_leaves_nothing_half(before: str, tmp_path: Path) -> None:
    target = str(tmp_path / "copy")
    Path(target).write_text("mine")
    with pytest.raises(Unavailable, match=f"{target} exists: name another file"):
        copy(before, target)
    assert Path(target).read_text() == "mine"
    for source, fault in ((str(tmp_path / "none"), Unavailable), (target, Unavailable)):
        with pytest.raises(fault):
            copy(source, f"{target}2")
    with closing(SqliteStore(before)) as store:
        store._db.execute("UPDATE entity SET text = '8' WHERE key = 'round'")
    with pytest.raises(Corrupt, match="'round' of the ledger is not as it was written"):
        copy(before, f"{target}2", BEFORE)
    with closing(sqlite3.connect(before)) as db:
        db.execute(f"PRAGMA user_version={FORM + 1}")
    with pytest.raises(TooNew):
        copy(before, f"{target}2")
    assert not [name for name in os.listdir(tmp_path) if name.startswith("copy") and name != "copy"]


@pytest.fixture(scope="module")
def old_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The release before itself, from this repository's history."""
    folder = tmp_path_factory.mktemp("before")
    archive = ["git", "-C", str(TOP), "archive", LAST_BEFORE, "nodeagent"]
    needs.require("git", "history")
    done = subprocess.run(archive, capture_output=True, check=True)
    subprocess.run(["tar", "x", "-C", str(folder)], input=done.stdout, check=True)
    return folder


OLD = """
import sys
from nodeagent.errors import Corrupt
from nodeagent.model.event import Event
from nodeagent.store.sqlite import SqliteStore
try:
    store = SqliteStore(sys.argv[1], now=lambda: 1_795_000_000_001)
except Corrupt as error:
    sys.exit(str(error))
ledger = store.load()
answers = [store.answer(f"w{n}") for n in range(5)]
print((ledger, store.history(), store.wishes(), answers))
store.save(ledger, [Event(10, "noted")])
store.close()
"""


def asked(program: Path, path: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", OLD, path],
        capture_output=True,
        text=True,
        check=False,
        cwd=program,
        env={"PYTHONPATH": str(program), "PATH": "/usr/bin:/bin"},
    )


def test_the_old_program_refuses_our_form_and_reads_its_own_again(
    before: str, old_program: Path
) -> None:
    first = asked(old_program, before)
    assert first.returncode == 0, first.stderr
    with closing(SqliteStore(before, now=now)) as store:
        ledger = store.load()
        store.save(ledger)
    refused = asked(old_program, before)
    assert refused.stderr == f"{before}: it is of version 3, and we read 2\n"
    older = f"{before}.older"
    copy(before, older, BEFORE)
    again = asked(old_program, older)
    assert again.returncode == 0, again.stderr
    one = "Event(at=10, kind='noted', incident='', node='', text='', job='', action=None"
    assert again.stdout.count(one) == 1
    assert again.stdout.partition("[Event")[0] == first.stdout.partition("[Event")[0], "the ledger"
    rest = again.stdout.partition("], (Wish(")[2]
    assert rest == first.stdout.partition("], (Wish(")[2] != "", "requests and answers"
    with closing(SqliteStore(older, now=now)) as store:
        assert store.load() == ledger
        assert [event.at for event in store.history()] == [1, 2, 3, 10, 10]
        assert store.revision > Revision(0, 2)
