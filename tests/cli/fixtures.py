"""A fixture around gnt-maint for tests elsewhere, too, and a file with a password."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def in_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The command shows times of this place: it lies in UTC."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def secret(folder: Path, text: bytes = b"secret\n", mode: int = 0o600) -> str:
    file = folder / "password"
    file.write_bytes(text)
    file.chmod(mode)
    return str(file)
