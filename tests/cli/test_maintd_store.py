"""`maintd store copy`: a backup beside the daemon, and the older form once it is stopped."""

import fcntl
import json
import os
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner, Result

from nodeagent.cli import maintd_store
from nodeagent.cli.maintd import _lock, cli
from nodeagent.cli.maintd_ledger import open_sqlite
from nodeagent.cli.maintd_parts import unix_ms
from nodeagent.errors import Corrupt
from nodeagent.maintd.settings import StoreSettings
from nodeagent.model.clock import Moment
from nodeagent.model.units import Ms
from nodeagent.store.contract import TooNew
from nodeagent.store.sqlite import SqliteStore
from tests.store.test_codec import FULL


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    settings = SimpleNamespace(maintd=SimpleNamespace(state=str(tmp_path)), store=StoreSettings())
    monkeypatch.setattr(maintd_store, "load", lambda *_, **__: settings)
    with closing(SqliteStore(str(tmp_path / "ledger.sqlite"))) as store:
        store.save(FULL)
    return tmp_path


def copied(*given: str) -> Result:
    return CliRunner().invoke(cli, ["store", "copy", *given])


def test_a_copy_beside_the_daemon(folder: Path) -> None:
    lock = _lock(str(folder))
    to = str(folder / "copy")
    done = copied("--to", to)
    assert (done.exit_code, done.output) == (0, f"{to}: ok\n")
    with closing(SqliteStore(to)) as store:
        assert store.load() == FULL
    again = copied("--to", to)
    assert again.exit_code == 1
    assert f"{to} exists: name another file" in again.output
    os.close(lock)


def test_the_older_form_only_once_it_is_stopped(folder: Path) -> None:
    lock = _lock(str(folder))
    to = str(folder / "older")
    refused = copied("--to", to, "--form", "2")
    assert refused.exit_code == 1
    assert "run systemctl stop maintd first" in refused.output
    assert not Path(to).exists()
    os.close(lock)
    assert copied("--to", to, "--form", "2").exit_code == 0
    with closing(sqlite3.connect(to)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (2,)
    handle = os.open(folder / "lock", os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)  # the command has let go of it
    os.close(handle)


def test_the_older_form_has_no_member_that_it_does_not_know(folder: Path) -> None:
    moment = Moment(Ms(1), Ms(1), "boot", "n1")
    restless = replace(FULL.incidents[0], restless=Ms(5), changes=3, differs="its command")
    with closing(SqliteStore(str(folder / "ledger.sqlite"))) as store:
        assert store.load() == FULL
        store.save(replace(FULL, clock=moment, incidents=(restless, *FULL.incidents[1:])))
    to = str(folder / "older")
    assert copied("--to", to, "--form", "2").exit_code == 0
    with closing(sqlite3.connect(to)) as db:
        (text,) = db.execute("SELECT text FROM ledger").fetchone()
    document = json.loads(text)
    assert "clock" not in document
    assert not {"restless", "changes", "differs"} & document["incidents"][0].keys()


@pytest.mark.parametrize("form", ["1", "4", "x"])
def test_a_form_that_we_cannot_write(folder: Path, form: str) -> None:
    assert "Invalid value for '--form'" in copied("--to", "x", "--form", form).output


def test_a_newer_ledger_is_refused_and_stays(folder: Path) -> None:
    path = folder / "ledger.sqlite"
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA user_version=4")
    for dry in (False, True):
        with pytest.raises(TooNew, match="a newer nodeagent wrote it; install that one again"):
            open_sqlite(str(folder), unix_ms, dry=dry)
    assert issubclass(TooNew, Corrupt)
    assert [p.name for p in folder.iterdir() if "corrupt" in p.name] == []
