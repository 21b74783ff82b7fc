"""gnt-maint offers, and the policies of windows. `tests/cli/test_screens.py` has what is shown."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli import scenes
from tests.cli.live import Live
from tests.cli.run import at, said

AHEAD, LATER = "2026-11-25T04:00Z", "2026-11-26T04:00Z"  # the rig's clock is at 2026-11-18


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Live]:
    opened = scenes.owned(tmp_path)
    yield opened
    opened.close()


def offers(live: Live, *more: str) -> Any:
    return at(live, "offers", "list", "--json", *more).json


def test_a_time_that_the_clock_never_shows_is_none(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    said(live, "window", "add", "n3", "--start", AHEAD)
    monkeypatch.setenv("TZ", "Europe/Zurich")
    time.tzset()
    words = ("offers", "accept", "--owner", "db", "--eta", "2026-03-29T02:30")
    assert "the clock never shows it: add the zone" in said(live, *words, code=64)
    assert {offer["status"] for offer in offers(live)} == {"UNKNOWN"}


def test_from_asking_to_answering(live: Live) -> None:
    said(live, "window", "add", "n3", "n4", "--start", AHEAD)
    asked = [(offer["owner"], offer["node"]) for offer in offers(live)]
    assert asked == [("db", "n3"), ("web", "n3"), ("db", "n4")]
    words = ("--owner", "db", "--node", "n3")
    said(live, "offers", "decline", *words, "--reason", "rebuilding", "--eta", LATER)
    (offer,) = offers(live, *words)
    assert (offer["status"], offer["answer"]["reason"]) == ("DECLINE", "rebuilding")
    assert offer["answer"]["again"] - offer["answer"]["at"] == 86400
    said(live, "offers", "accept", offer["id"][:20], "--again", "0s")
    live.tick()
    (offer,) = offers(live, *words)
    assert (offer["status"], offer["open"]) == ("ACCEPT", True)
    before = time.time()
    said(live, "offers", "decline", "--owner", "web", "--eta", "now")
    (offer,) = offers(live, "--owner", "web")
    assert before - 1 <= offer["answer"]["eta"] <= time.time() + 1
