"""gnt-maint offers, and the policies of windows. `tests/cli/test_screens.py` has what is shown."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli import scenes
from tests.cli.live import Live
from tests.cli.run import ME, at, said

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


def test_a_policy_is_set_kept_and_taken_back(live: Live) -> None:
    def weighs(node: str) -> tuple[str, float, str]:
        rows = at(live, "window", "list", "--json").json["windows"]
        (found,) = [m for row in rows for m in row["machines"] if m["node"] == node]
        return found["policy"], found["deadline_seconds"], found["at_deadline"]

    policy = ("--policy", "require-accept", "--deadline", "2h", "--at-deadline", "proceed")
    said(live, "window", "add", "n3", "--start", AHEAD, *policy)
    assert weighs("n3") == ("require-accept", 7200, "proceed")
    said(live, "window", "edit", "n3", "--start", LATER, "--add", "n4")
    assert weighs("n3") == weighs("n4") == ("require-accept", 7200, "proceed")
    said(live, "window", "edit", "n3", "--deadline", "1h")
    assert weighs("n4") == ("require-accept", 3600, "proceed")
    said(live, "window", "edit", "n3", "--policy", "veto")
    said(live, "window", "add", "n5", "--start", AHEAD)
    assert weighs("n3") == ("veto", 3600, "proceed")
    assert weighs("n5") == ("advisory", 0, "hold")


def test_a_series_has_a_policy_for_its_windows_to_come(live: Live) -> None:
    weekly = ("--weekly", "fri 04:00", "--for", "2h", "--zone", "UTC")
    said(live, "window", "add", "n3", *weekly, "--policy", "veto", "--deadline", "2h")
    said(live, "window", "add", "n5", *weekly)
    told = at(live, "window", "list", "--json").json
    kept = {"policy": "veto", "deadline_seconds": 7200, "at_deadline": "proceed"}
    assert told["series"][0]["owners"] == kept
    weighs = {m["node"]: m["policy"] for row in told["windows"] for m in row["machines"]}
    assert weighs == {"n3": "veto", "n5": "advisory"}
    said(live, "window", "edit", "series/1", "--deadline", "1h")
    said(live, "window", "edit", "series/1", "--times", "9")
    told = at(live, "window", "list", "--json").json
    assert told["series"][0]["owners"] == {**kept, "deadline_seconds": 3600}


def test_a_declined_offer_is_the_reason_why_nothing_goes_down(live: Live) -> None:
    said(live, "window", "add", "n3", "--start", "2026-11-18T11:00Z", "--policy", "require-accept")
    said(live, "offers", "decline", "--owner", "db", "--reason", "no replica yet")
    told = said(live, "window", "down", "n3", code=1)
    assert f"owner db declines ({ME}): no replica yet" in told
    assert not live.rig.cluster.nodes["n3"].drained
    said(live, "window", "edit", "n3", "--policy", "advisory")
    live.tick()
    assert live.rig.cluster.nodes["n3"].drained
