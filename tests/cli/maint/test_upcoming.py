"""What happens next to a group, an entry or a window, when, and the command for it."""

from typing import Any

import pytest

from nodeagent.cli.maint.upcoming import upcoming

NOW = 1_790_000_000.0
THIS = {"at": NOW - 4, "now": NOW, "every": 10.0}
GROUP: dict[str, Any] = {
    "group": "a",
    "on": True,
    "under-way": 0,
    "halted": None,
    "held": [],
    "asked": None,
    "moves": [],
    "at": None,
}
ENTRY = {
    "index": "7",
    "nodename": "n3",
    "address": "10.0.0.3",
    "status": "queued",
    "deleted": False,
}
WINDOW: dict[str, Any] = {
    "node": "n3",
    "hostname": "n3",
    "ip": "",
    "mode": "draining",
    "begun": False,
    "left": 2,
    "start": NOW + 7200,
    "begins": NOW + 3600,
    "started": False,
    "over": False,
    "overdue": 0,
    "held": [],
}


@pytest.fixture(autouse=True)
def in_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nodeagent.cli.maint.upcoming.when", lambda at: f"{at - NOW:+.0f}")


# What each is about: its state, what is told of it, and the command for it.
TOLD: dict[str, list[tuple[dict[str, Any], str, str]]] = {
    "group": [
        ({"on": False}, "maintd moves nothing by itself", "gnt-maint balance -G a"),
        ({}, "maintd searches for better places at +6", ""),
        ({"at": NOW - 100}, "maintd searches for better places at +200", ""),
        ({"at": NOW - 900}, "maintd searches for better places at +6", ""),
        ({"moves": [{}]}, "the moves start at +6, in the next round", ""),
        ({"held": ["busy"]}, "maintd tries again at +6, in the next round", ""),
        ({"under-way": 2}, "its 2 jobs end; then maintd searches for better places again", ""),
        (
            {"on": False, "asked": {"who": "root"}, "moves": [{}]},
            "the moves start at +6, in the next round",
            "",
        ),
    ],
    "entry": [
        ({}, "maintd goes on in the next round", ""),
        ({"deleted": True}, "maintd removes the entry once its jobs have ended", ""),
        (
            {"status": "failed"},
            "look at n3, then remove the entry",
            "gnt-maint queue delete 7",
        ),
        (
            {"status": "succeeded"},
            "the repair is over; the entry can be removed",
            "gnt-maint queue delete 7",
        ),
    ],
    "window": [
        ({}, "the evacuation of n3 starts at +3600", ""),
        ({"begins": NOW - 5}, "the evacuation of n3 starts as soon as maintd can", ""),
        (
            {"over": True},
            "the window of n3 is over: maintd evacuates nothing for it",
            "gnt-maint window cancel n3",
        ),
        ({"begun": True, "over": True}, "maintd evacuates n3: 2 instances are left", ""),
        ({"begun": True}, "maintd evacuates n3: 2 instances are left", ""),
        ({"begun": True, "left": 0}, "n3 is empty: take it down", "gnt-maint window down n3"),
        (
            {"mode": "down"},
            "once your work there is done, end the window",
            "gnt-maint window up n3",
        ),
        ({"mode": "up"}, "maintd puts n3 back as it was before the window", ""),
        ({"node": None}, "from +7200 on, take it down", "gnt-maint window down n3"),
    ],
}
USUAL = {"group": GROUP, "entry": ENTRY, "window": WINDOW}
LATE = {"overdue": 60.0, "begun": True, "held": ["run gnt-maint window down n3"]}


def test_what_happens_next() -> None:
    for what, rows in TOLD.items():
        for state, told, command in rows:
            about = {what: USUAL[what] | state, "held": []}
            assert list(upcoming(what, about, THIS, enabled=True)) == [(told, command)], state


def test_a_queue_that_is_disabled_is_told_with_what_enables_it() -> None:
    told = "the repair queue is disabled: maintd starts no step"
    found = list(upcoming("entry", {"entry": ENTRY, "held": []}, THIS, enabled=False))
    assert found == [(told, "gnt-maint queue enable")]


def test_what_has_a_reason_has_that_instead() -> None:
    held = {"entry": ENTRY, "held": [{"reason": "it waits"}]}
    assert list(upcoming("entry", held, THIS, enabled=True)) == []
    assert list(upcoming("window", {"window": WINDOW | LATE}, THIS, enabled=True)) == []
