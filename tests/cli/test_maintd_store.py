"""`maintd store copy`: a backup beside the daemon."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner, Result

from nodeagent.cli import maintd_store
from nodeagent.cli.maintd import _lock, cli
from nodeagent.cli.maintd_ledger import open_sqlite
from nodeagent.cli.maintd_parts import unix_ms
from nodeagent.errors import Corrupt
from nodeagent.store.contract import TooNew
from nodeagent.store.sqlite import SqliteStore
from nodeagent.store.tables import FORM
from tests.store.test_codec import FULL


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    settings = SimpleNamespace(maintd=SimpleNamespace(state=str(tmp_path)))
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


def test_a_newer_ledger_is_refused_and_stays(folder: Path) -> None:
    path = folder / "ledger.sqlite"
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA user_version={FORM + 1}")
    for dry in (False, True):
        with pytest.raises(TooNew, match="a newer nodeagent wrote it; install that one again"):
            open_sqlite(str(folder), unix_ms, dry=dry)
    assert issubclass(TooNew, Corrupt)
    assert [p.name for p in folder.iterdir() if "corrupt" in p.name] == []
