"""Where maintd runs: systemd's credentials, and the check before it is started at all."""

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from nodeagent.cli import maintd as command
from nodeagent.cli.maintd import _certificate, _key, _lock
from nodeagent.errors import ConfigError
from nodeagent.maintd.ledger import other_master as away
from nodeagent.maintd.settings import Settings, parse


@pytest.fixture
def ganeti(tmp_path: Path) -> Path:
    """A node's folder; it is one of two, and the master."""
    folder = tmp_path / "ganeti"
    folder.mkdir()
    (folder / "hmac.key").write_text("ganeti's key, long")
    (folder / "client.pem").write_text("ganeti's certificate")
    (folder / "ssconf_node_list").write_text(f"{socket.gethostname()}\nother\n")
    (folder / "ssconf_master_node").write_text(f"{socket.gethostname()}\n")
    return folder


def settings(ganeti: Path, **maintd: str) -> Settings:
    return parse({"cluster": {"ganeti": str(ganeti)}, "maintd": maintd})


def credentials(folder: Path, monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    folder.mkdir()
    for name in names:
        (folder / name).write_text(f"systemd's {name}")
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(folder))


def test_keys_are_ganetis(ganeti: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CREDENTIALS_DIRECTORY", raising=False)
    assert _key(settings(ganeti)).whole == b"ganeti's key, long"
    assert _certificate(settings(ganeti)) == b"ganeti's certificate"


def test_what_systemd_hands_over_stands_above_them(
    ganeti: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    credentials(tmp_path / "given", monkeypatch, "hmac.key")
    assert _key(settings(ganeti)).whole == b"systemd's hmac.key"
    assert _certificate(settings(ganeti)) == b"ganeti's certificate"


def test_what_the_settings_name_stands_above_all(
    ganeti: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    credentials(tmp_path / "given", monkeypatch, "hmac.key", "client.pem")
    (tmp_path / "mine").write_text("mine and mine alone")
    assert _key(settings(ganeti, key=f"{tmp_path}/mine")).whole == b"mine and mine alone"
    assert _certificate(settings(ganeti, certificate=f"{tmp_path}/mine")) == b"mine and mine alone"


@pytest.fixture
def said(ganeti: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, str]]:
    """Whether it may run: the exit code, and what is printed."""

    def check(**cluster: str) -> tuple[int, str]:
        state = ganeti / "state"
        state.mkdir(exist_ok=True)
        values = {"cluster": {"ganeti": str(ganeti), **cluster}, "maintd": {"state": str(state)}}
        monkeypatch.setattr(command, "load", lambda *_, **__: parse(values))
        done = CliRunner().invoke(command.cli, ["check-master"])
        return done.exit_code, done.output

    return check


def test_the_master_is_told_to_go_on(said: Callable[..., tuple[int, str]]) -> None:
    assert said() == (0, "")


def test_any_other_node_is_told_not_to(ganeti: Path, said: Callable[..., tuple[int, str]]) -> None:
    (ganeti / "ssconf_master_node").write_text("other\n")
    why = f"this is {socket.gethostname()}, and the master is other"
    assert said() == (1, f"maintd: {why}\n")
    assert not away.marked(str(ganeti / "state")), "there is no ledger"
    (ganeti / "state/ledger.sqlite").touch()
    assert said() == (1, f"maintd: {why}\n")
    assert away.marked(str(ganeti / "state")), "what is planned there may be out of date"


def test_elsewhere_by_rapi_it_may_always_run(
    ganeti: Path, said: Callable[..., tuple[int, str]]
) -> None:
    (ganeti / "ssconf_master_node").write_text("other\n")
    assert said(backend="rapi", user="maintd", password="/etc/password") == (0, "")


@pytest.mark.parametrize("wrong", ["settings", "name", "files"])
def test_what_cannot_be_told_is_left_to_run(
    ganeti: Path, said: Callable[..., tuple[int, str]], wrong: str
) -> None:
    """Which then fails, and is seen to; skipped it would be as quiet as any other node."""
    if wrong == "name":
        (ganeti / "ssconf_node_list").write_text("neither\n")
    if wrong == "files":
        (ganeti / "ssconf_master_node").unlink()
    code, why = said(backend="neither") if wrong == "settings" else said()
    assert code == 0
    assert why.startswith("maintd: ")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_root_leaves_nothing_that_the_service_could_not_open(tmp_path: Path) -> None:
    os.chown(tmp_path, 12345, -1)
    with pytest.raises(ConfigError, match="user 12345's: say systemctl start maintd"):
        _lock(str(tmp_path))
    assert list(tmp_path.iterdir()) == []
