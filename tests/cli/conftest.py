"""Whoever runs the tests is nobody's login, and lives in UTC."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from nodeagent.cli.maint.console import author
from tests.cli import scenes
from tests.cli.fixtures import in_utc
from tests.cli.live import Live

__all__ = ["in_utc"]  # a fixture


@pytest.fixture(autouse=True)
def nobody_logged_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(author, "login_name", lambda: "")


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
