"""Files with a secret: private, not empty, readable; each complaint is one line."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from nodeagent.cli.maintd import cli
from nodeagent.cli.maintd_parts import cluster_key, own_certificate
from nodeagent.errors import ConfigError
from nodeagent.maintd.engine.settings import parse
from nodeagent.maintd.http.listen import public_tls
from nodeagent.maintd.http.users import Users
from nodeagent.secret import read_password, read_private, read_private_text, read_token
from nodeagent.web import selfsigned
from tests import needs
from tests.agent.place import safe_folder
from tests.attacks.folder import NOBODY
from tests.maintd.served import basic

READERS: dict[str, Callable[[str], object]] = {
    "any": read_private,
    "text": read_private_text,
    "password": read_password,
    "token": read_token,
    "http.tls": public_tls,
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_text("s3cret\n")
    path.chmod(0o600)
    return path


def test_private_modes(file: Path) -> None:
    for mode in (0o600, 0o400, 0o440, 0o640):
        file.chmod(mode)
        assert read_private(str(file)) == b"s3cret\n"
        assert read_password(str(file)) == read_token(str(file)) == "s3cret"


@pytest.mark.parametrize("kind", READERS)
def test_a_mode_that_is_too_open(file: Path, kind: str) -> None:
    for mode in (0o644, 0o660, 0o666, 0o662, 0o642, 0o601, 0o620, 0o610):
        file.chmod(mode)
        with pytest.raises(ConfigError) as told:
            READERS[kind](str(file))
        prefix = "http.tls " if kind == "http.tls" else ""
        why = f"its mode {mode:04o} lets others read or write a secret: chmod 640 {file}"
        assert str(told.value) == f"{prefix}{file}: {why}"


@pytest.mark.parametrize("kind", READERS)
def test_an_empty_one(file: Path, kind: str) -> None:
    for content in (b"", b"\n", b" \t\n\n"):
        file.write_bytes(content)
        with pytest.raises(ConfigError, match=r"secret: it is empty$"):
            READERS[kind](str(file))


@pytest.mark.parametrize(
    ("kind", "content", "why"),
    [
        ("text", b"\xff\n", "it is not UTF-8"),
        ("password", b"\xff\n", "it is not UTF-8"),
        ("password", b"\xef\xbb\xbfs3cret\n", "starts with a byte order mark"),
        ("password", b"\nx\n", "its first line holds no password"),
        ("token", b"\xff\n", "its first line is not a token of printable characters"),
        ("token", b"a b\n", "its first line is not a token of printable characters"),
        ("http.tls", b"\xff\n", "holds no key and certificate that fit"),
        ("any", b"x" * (1024 * 1024 + 1), "it is larger than 1048576 bytes"),
    ],
)
def test_what_cannot_be_read(file: Path, kind: str, content: bytes, why: str) -> None:
    file.write_bytes(content)
    with pytest.raises(ConfigError, match=why):
        READERS[kind](str(file))


@pytest.mark.parametrize("kind", READERS)
def test_one_that_is_no_file(tmp_path: Path, kind: str) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(ConfigError, match="pipe: it is not a regular file"):
        READERS[kind](str(tmp_path / "pipe"))
    with pytest.raises(ConfigError, match="absent: No such file"):
        READERS[kind](str(tmp_path / "absent"))


@needs.mark("root")
def test_one_of_somebody_else(file: Path) -> None:
    os.chown(file, NOBODY, 0)
    with pytest.raises(ConfigError, match=f"belongs to user {NOBODY}, .*: chown root {file}"):
        read_private(str(file))


def test_what_systemd_hands_over(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = file.parent
    for name, mode in (("hmac.key", 0o400), ("client.pem", 0o440)):
        (folder / name).write_text("x" * 20)
        (folder / name).chmod(mode)
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(folder))
    settings = parse({})
    assert own_certificate(settings) == b"x" * 20
    cluster_key(settings)


def test_users_of_a_file_that_is_too_open_are_let_in_no_more(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file.write_text("eve plain read\n")
    header = basic("eve", "plain")["authorization"]
    assert Users(str(file)).check(header) is not None
    file.chmod(0o644)
    assert Users(str(file)).check(header) is None
    assert f"chmod 640 {file}" in caplog.text


def test_check_config_finds_it(file: Path) -> None:
    file.write_bytes(selfsigned.make())
    file.chmod(0o666)
    with safe_folder() as folder:
        config = folder / "maintd.toml"
        config.write_text(f'[http]\ntls = "{file}"\nusers = "/none"\n')
        done = CliRunner().invoke(cli, ["-c", str(config), "check-config"])
    assert done.exit_code == 78
    assert done.output == (
        f"maintd: {config}: http.tls {file}: its mode 0666 lets others read or write a secret:"
        f" chmod 640 {file}\n"
    )
