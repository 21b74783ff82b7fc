"""gnt-maint from elsewhere: over TLS, with a password, and where nobody answers, or another."""

from pathlib import Path
from typing import Any

import pytest

from nodeagent.web import selfsigned
from tests.cli.fixtures import secret
from tests.cli.live import Live
from tests.cli.run import Done, gnt_maint


@pytest.fixture
def remote(busy: Live, tmp_path: Path) -> Any:
    url, ours = busy.over_tls()

    def run(*words: str, user: str = "", ca: str = ours) -> Done:
        who = ("--user", user, "--password-file", secret(tmp_path)) if user else ()
        return gnt_maint("--url", url, *(("--ca", ca) if ca else ()), *who, *words)

    return run


def test_a_certificate_that_is_not_the_one_expected(remote: Any, tmp_path: Path) -> None:
    other = tmp_path / "other.pem"
    other.write_bytes(selfsigned.make())
    for ca in ("", str(other)):
        said = remote("incidents", ca=ca).refused(69)
        assert "its certificate is not trusted" in said
        assert said.endswith(": name it, or its signer, with --ca FILE")
    assert "/nowhere: no certificate can be read" in remote("held", ca="/nowhere").refused(78)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("ftp://h", "it must be of the form https://HOST:1816"),
        ("https://h:99999", "it must be of the form"),
        ("https://u:p@h", "it must be of the form"),
        ("https://h/1/status", "it must be of the form"),
        ("http://h", "a password is sent by https only"),
    ],
)
def test_a_wrong_url_is_told(tmp_path: Path, url: str, why: str) -> None:
    who = ("--user", "u", "--password-file", secret(tmp_path))
    assert why in gnt_maint("--url", url, *who, "held").refused(78)


@pytest.mark.parametrize(
    ("raw", "mode", "why"),
    [
        (b"secret\n", 0o644, "others may read it: chmod 600"),
        (b"\n", 0o600, "its first line holds no password"),
        (b"\xff", 0o600, "not UTF-8"),
        (b"\xef\xbb\xbfsecret\n", 0o600, "starts with a byte order mark"),
    ],
)
def test_an_unfit_password_file(tmp_path: Path, raw: bytes, mode: int, why: str) -> None:
    who = ("--user", "u", "--password-file", secret(tmp_path, raw, mode))
    assert why in gnt_maint("--url", "https://127.0.0.1:1", *who, "held").refused(78)
