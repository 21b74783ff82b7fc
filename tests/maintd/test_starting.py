"""Where maintd runs: systemd's credentials, and the check before it is started at all."""

import os
import socket
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from sqlite3 import connect

import pytest
from click.testing import CliRunner

from nodeagent.cli import maintd_run as command
from nodeagent.cli.maintd import cli
from nodeagent.cli.maintd_ledger import open_sqlite
from nodeagent.cli.maintd_parts import cluster_key, own_certificate
from nodeagent.cli.maintd_run import _lock, _stay_alone
from nodeagent.clocks import unix_ms
from nodeagent.errors import ConfigError, Corrupt, NotMaster, Unavailable
from nodeagent.maintd.engine.memory import away_since
from nodeagent.maintd.engine.settings import Settings, parse
from nodeagent.model.ledger import Ledger
from nodeagent.model.units import Ms
from nodeagent.model.wish import ResetStorm, Wish
from nodeagent.store.sqlite import SqliteStore
from tests import needs


def private(path: Path, text: str) -> None:
    path.touch(0o600)
    path.write_text(text)


@pytest.fixture
def ganeti(tmp_path: Path) -> Path:
    """A node's folder; it is one of two, and the master."""
    folder = tmp_path / "ganeti"
    folder.mkdir()
    private(folder / "hmac.key", "ganeti's key, long")
    private(folder / "client.pem", "ganeti's certificate")
    (folder / "ssconf_node_list").write_text(f"{socket.gethostname()}\nother\n")
    (folder / "ssconf_master_node").write_text(f"{socket.gethostname()}\n")
    return folder


def settings(ganeti: Path, **maintd: str) -> Settings:
    return parse({"cluster": {"ganeti": str(ganeti)}, "maintd": maintd})


def test_settings_stand_above_systemd_s_credentials_and_these_above_ganeti_s_files(
    ganeti: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CREDENTIALS_DIRECTORY", raising=False)
    assert cluster_key(settings(ganeti)).whole == b"ganeti's key, long"
    assert own_certificate(settings(ganeti)) == b"ganeti's certificate"
    given, mine = tmp_path / "given", tmp_path / "mine"
    given.mkdir()
    private(given / "hmac.key", "systemd's hmac.key")
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(given))
    assert cluster_key(settings(ganeti)).whole == b"systemd's hmac.key"
    assert own_certificate(settings(ganeti)) == b"ganeti's certificate"
    private(mine, "mine and mine alone")
    assert cluster_key(settings(ganeti, key=str(mine))).whole == b"mine and mine alone"
    assert own_certificate(settings(ganeti, certificate=str(mine))) == b"mine and mine alone"


@pytest.fixture
def said(ganeti: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, str]]:
    """Whether it may run: the exit code, and what is printed."""

    def check(**cluster: str) -> tuple[int, str]:
        state = ganeti / "state"
        state.mkdir(exist_ok=True)
        values = {"cluster": {"ganeti": str(ganeti), **cluster}, "maintd": {"state": str(state)}}
        monkeypatch.setattr(command, "load", lambda *_, **__: parse(values))
        done = CliRunner().invoke(cli, ["check-master"])
        return done.exit_code, done.output

    return check


def test_the_master_is_told_to_go_on(said: Callable[..., tuple[int, str]]) -> None:
    assert said() == (0, "")


def test_any_other_node_is_told_not_to(ganeti: Path, said: Callable[..., tuple[int, str]]) -> None:
    (ganeti / "ssconf_master_node").write_text("other\n")
    why = f"this is {socket.gethostname()}, and the master is other"
    assert said() == (1, f"maintd: {why}\n")
    assert not away_since(str(ganeti / "state")), "there is no ledger"
    (ganeti / "state/ledger.sqlite").touch()
    assert said() == (1, f"maintd: {why}\n")
    assert away_since(str(ganeti / "state")), "what is planned there may be out of date"


@pytest.mark.parametrize("wrong", ["settings", "name", "files"])
def test_what_cannot_be_told_is_left_to_run(
    ganeti: Path, said: Callable[..., tuple[int, str]], wrong: str
) -> None:
    """Which then fails, and is seen to; skipped it would be as quiet as any other node."""
    if wrong == "name":
        (ganeti / "ssconf_node_list").write_text("neither\n")
    if wrong == "files":
        (ganeti / "ssconf_master_node").unlink()
    code, why = said(luxi=3) if wrong == "settings" else said()
    assert code == 0
    assert why.startswith("maintd: ")


@pytest.mark.parametrize("dry", [[], ["--dry-run"]])
@pytest.mark.parametrize("spoil", ["hmac.key", "client.pem", "state", "all"])
def test_another_node_ends_with_11_before_it_reads_any_secret(
    ganeti: Path, monkeypatch: pytest.MonkeyPatch, spoil: str, dry: list[str]
) -> None:
    """Nor does it want the state, which another maintd may hold."""
    monkeypatch.delenv("CREDENTIALS_DIRECTORY", raising=False)
    (ganeti / "ssconf_master_node").write_text("other\n")
    state = ganeti / "state"
    if spoil in ("hmac.key", "client.pem"):
        state.mkdir()
        (ganeti / spoil).unlink()
    elif spoil == "all":
        for name in ("hmac.key", "client.pem"):
            (ganeti / name).unlink()
    monkeypatch.setattr(command, "load", lambda *_, **__: settings(ganeti, state=str(state)))
    done = CliRunner().invoke(cli, ["run", *dry])
    why = f"this is {socket.gethostname()}, and the master is other"
    assert done.exit_code == 11
    assert done.output.endswith(f"maintd: not master, exiting: {why}\n")
    assert not (state / "lock").exists()


@needs.mark("root")
def test_root_leaves_nothing_that_the_service_could_not_open(tmp_path: Path) -> None:
    os.chown(tmp_path, 12345, -1)
    with pytest.raises(ConfigError, match="user 12345's: say systemctl start maintd"):
        _lock(str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_a_lock_that_was_deleted_is_taken_again(tmp_path: Path) -> None:
    lock, folder = _lock(str(tmp_path)), str(tmp_path)
    _stay_alone(folder, lock)
    os.unlink(tmp_path / "lock")
    _stay_alone(folder, lock)
    assert os.path.samestat(os.fstat(lock), os.stat(tmp_path / "lock"))
    with pytest.raises(Unavailable, match="another maintd is at work"):
        _lock(folder)
    assert not os.get_inheritable(lock)
    os.close(lock)


def test_a_lock_that_another_maintd_has_taken_meanwhile_ends_this_one(tmp_path: Path) -> None:
    lock = _lock(str(tmp_path))
    os.unlink(tmp_path / "lock")
    other = _lock(str(tmp_path))
    with pytest.raises(NotMaster, match="another maintd is at work"):
        _stay_alone(str(tmp_path), lock)
    os.close(lock)
    os.close(other)


DAMAGES = [
    pytest.param("UPDATE ledger SET digest = 'x'", id="not as it was written"),
    pytest.param("UPDATE wish SET text = '{}'", id="a wish"),
]


def damaged(folder: Path, damage: str) -> None:
    store = SqliteStore(f"{folder}/ledger.sqlite")
    store.save(Ledger(round=7))
    store.wish(Wish("w", "root", Ms(0), ResetStorm()))
    store.close()
    with closing(connect(f"{folder}/ledger.sqlite")) as database, database:
        assert database.execute(damage).rowcount == 1


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_row_is_set_aside_like_a_damaged_file(damage: str, tmp_path: Path) -> None:
    damaged(tmp_path, damage)
    store = open_sqlite(str(tmp_path), unix_ms, dry=False)
    assert (store.load(), store.wishes()) == (Ledger(), ())
    store.close()
    assert len(list(tmp_path.glob("ledger.sqlite.corrupt-*Z"))) == 1


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_dry_run_leaves_a_damaged_row_where_it_is(damage: str, tmp_path: Path) -> None:
    damaged(tmp_path, damage)
    with pytest.raises(Corrupt):
        open_sqlite(str(tmp_path), unix_ms, dry=True)
    assert not list(tmp_path.glob("*corrupt*"))
