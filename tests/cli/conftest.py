"""Whoever runs the tests is nobody's login."""

import pytest

from nodeagent.cli.maint.console import author


@pytest.fixture(autouse=True)
def nobody_logged_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(author, "login_name", lambda: "")
