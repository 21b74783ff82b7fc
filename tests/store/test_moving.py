"""A ledger moves between SQLite and etcd, and back, with its requests and its history."""

import os
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner, Result

from nodeagent.cli import maintd_store
from nodeagent.cli.maintd import _lock, cli
from nodeagent.errors import Unavailable
from nodeagent.maintd.settings import StoreSettings
from nodeagent.model.event import Event
from nodeagent.model.ledger import Ledger
from nodeagent.model.units import Ms
from nodeagent.model.wish import ResetStorm, Wish
from nodeagent.store import moving
from nodeagent.store.contract import Store
from nodeagent.store.etcd.store import EtcdStore
from nodeagent.store.sqlite import SqliteStore
from tests.store.etcd.server import needed, shared
from tests.store.etcd.taking import opened
from tests.store.test_codec import FULL

pytestmark = needed
EVENTS = [
    Event(Ms(n), "wish-granted" if n % 7 == 0 else "noted", "i1", "n1", f"number {n}")
    for n in range(200)
]
WISHES = tuple(Wish(name, "ada", Ms(1), ResetStorm()) for name in "cab")


def fill(store: Store) -> None:
    store.load()
    store.note(EVENTS)
    for wish in WISHES:
        store.wish(wish)
    store.save(FULL)


def check(store: Store) -> None:
    assert store.load() == FULL
    assert store.history() == EVENTS
    assert store.wishes() == WISHES


@pytest.fixture
def file(tmp_path: Path) -> Iterator[SqliteStore]:
    with closing(SqliteStore(str(tmp_path / "ledger.sqlite"))) as made:
        made.begin(10**6, Ledger(), (), {})
        fill(made)
        yield made


def test_there_and_back(file: SqliteStore, tmp_path: Path) -> None:
    back = str(tmp_path / "back")
    with closing(opened(shared().url, f"{tmp_path}/")) as etcd:
        moving.into_etcd(file, etcd)
        check(etcd)
        assert etcd.revision > file.revision, "no older copy of the ledger wins"
        etcd.save(replace(FULL, round=9))
        etcd.save(FULL)
        last = etcd.revision
        with closing(EtcdStore(etcd._reader.client, f"{tmp_path}/")) as reading:
            moving.into_file(reading, back, str(tmp_path))
    with closing(SqliteStore(back)) as again:
        check(again)
        assert again.revision.epoch == last.epoch > file.revision.epoch
    assert os.stat(back).st_mode & 0o777 == 0o600
    assert {name.partition("-")[0] for name in os.listdir(tmp_path)} == {"back", "ledger.sqlite"}


def test_nothing_is_overwritten(file: SqliteStore, tmp_path: Path) -> None:
    with closing(opened(shared().url, f"{tmp_path}/")) as etcd:
        etcd.load()
        etcd.note(EVENTS[:1])
        with pytest.raises(Unavailable, match="etcdctl del --prefix"):
            moving.into_etcd(file, etcd)
        there = tmp_path / "there"
        there.write_text("mine")
        with pytest.raises(Unavailable, match="there exists"):
            moving.into_file(etcd, str(there), str(tmp_path))
        assert there.read_text() == "mine"
        with pytest.raises(Unavailable, match="No such file"):
            moving.into_file(etcd, str(tmp_path / "no/there"), str(tmp_path))


# The command.


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    made = SimpleNamespace(
        maintd=SimpleNamespace(state=str(tmp_path)),
        store=StoreSettings(prefix=f"{tmp_path}/", endpoints=(shared().url,)),
    )
    monkeypatch.setattr(maintd_store, "load", lambda *_, **__: made)
    return made


def copied(*given: str) -> Result:
    return CliRunner().invoke(cli, ["store", "copy", *given])


def test_the_command_moves_it_there_and_back(
    file: SqliteStore, settings: SimpleNamespace, tmp_path: Path
) -> None:
    file.close()
    done = copied("--to", "etcd")
    assert (done.exit_code, done.output) == (0, "etcd: ok\n")
    assert "etcdctl del --prefix" in copied("--to", "etcd").output
    settings.store = replace(settings.store, backend="etcd")
    backup = str(tmp_path / "backup")
    lock = _lock(str(tmp_path))
    assert copied("--to", backup).output == f"{backup}: ok\n", "beside the daemon"
    with closing(SqliteStore(backup)) as store:
        check(store)
    assert "run systemctl stop maintd first" in copied("--to", "sqlite").output
    os.close(lock)
    assert "ledger.sqlite exists" in copied("--to", "sqlite").output
    (tmp_path / "ledger.sqlite").rename(tmp_path / "old")
    assert copied("--from", "etcd", "--to", "sqlite").output == "sqlite: ok\n"
    with closing(SqliteStore(str(tmp_path / "ledger.sqlite"))) as store:
        check(store)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--to", "sqlite"], "--from and --to are both sqlite"),
        (["--from", "etcd", "--to", "x", "--form", "2"], "--form is for a copy from SQLite"),
        (["--from", "mysql", "--to", "x"], "Invalid value for '--from'"),
        (["--to", "etcd"], "ledger.sqlite does not exist"),
    ],
)
def test_what_the_command_refuses(settings: SimpleNamespace, given: list[str], said: str) -> None:
    assert settings
    refused = copied(*given)
    assert refused.exit_code != 0
    assert said in refused.output


def test_the_command_needs_addresses(settings: SimpleNamespace) -> None:
    settings.store = replace(settings.store, endpoints=())
    assert "store.endpoints is missing" in copied("--from", "etcd", "--to", "x").output
