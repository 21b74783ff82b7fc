"""Whoever runs the tests is nobody's login, and lives in UTC."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodeagent.cli.maint.console import author
from tests.cli import scenes
from tests.cli.live import Live


@pytest.fixture(autouse=True)
def nobody_logged_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(author, "login_name", lambda: "")


@pytest.fixture(autouse=True)
def in_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def quiet(tmp_path: Path) -> Iterator[Live]:
    live = scenes.quiet(tmp_path)
    yield live
    live.close()


@pytest.fixture
def busy(tmp_path: Path) -> Iterator[Live]:
    live = scenes.busy(tmp_path)
    yield live
    live.close()
