"""The page's calendar of weeks, and how far a machine of a window has come."""

from datetime import UTC, datetime
from typing import Any

from nodeagent.maintd.http.page.weeks import stages, weeks
from tests.maintd.http.page.rigs import HOUR
from tests.maintd.world import NOW


def shown(at: str, *rows: tuple[str, float | None]) -> list[str]:
    """The entries of every day, of windows that begin then and last so many hours."""
    found = [
        {
            "start": datetime.fromisoformat(start).replace(tzinfo=UTC).timestamp(),
            "duration": None if hours is None else hours * HOUR,
            "series": None,
            "machines": [
                {"node": "n1.example.org", "overdue": 0, "mode": "draining", "begun": False}
            ],
        }
        for start, hours in rows
    ]
    told: dict[str, Any] = {"windows": found, "series": []}
    moment = datetime.fromisoformat(at).replace(tzinfo=UTC).timestamp()
    return [
        f"{one.iso} {entry.time} {entry.machines}"
        for week in weeks(told, None, moment)
        for one in week
        for entry in one.entries
    ]


def test_four_weeks_begin_on_monday_whatever_day_it_is() -> None:
    for text, monday in (
        ("2026-11-16T00:00", "2026-11-16"),
        ("2026-11-22T23:59", "2026-11-16"),
        ("2027-01-01T12:00", "2026-12-28"),
    ):
        at = datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()
        found = weeks({"windows": [], "series": []}, None, at)
        assert [len(week) for week in found] == [7] * 4
        assert found[0][0].iso == monday
        assert sum(one.is_today for week in found for one in week) == 1
        assert found[0][0].label.endswith(("Nov", "Dec"))


def test_a_window_is_on_every_day_of_which_it_has_a_part() -> None:
    assert shown("2026-11-18", ("2026-11-18T22:00", 2)) == ["2026-11-18 22:00 n1"]
    assert shown("2026-11-18", ("2026-11-18T22:00", 28)) == [
        "2026-11-18 from 22:00 n1",
        "2026-11-19 all day n1",
        "2026-11-20 to 02:00 n1",
    ]
    assert len(shown("2026-11-18", ("2026-11-18T22:00", None))) == 26
    assert shown("2026-11-18", ("2026-11-18T22:00", 0)) == ["2026-11-18 22:00 n1"]
    assert shown("2026-11-18", ("2026-12-20T22:00", 1), ("2026-11-10T22:00", 1)) == []


def test_a_day_shows_four_and_counts_the_others() -> None:
    told = {
        "windows": [
            {
                "start": 1_800_000_000 + n,
                "duration": 60,
                "series": None,
                "machines": [{"node": f"n{n}", "overdue": 0, "mode": "draining", "begun": False}],
            }
            for n in range(9)
        ],
        "series": [],
    }
    days = [one for week in weeks(told, None, 1_800_000_000) for one in week if one.entries]
    assert [(len(one.entries), one.more) for one in days] == [(4, 5)]


STAGES: list[tuple[dict[str, Any], str, bool, str]] = [
    ({}, "online", False, "drain:todo evacuate (2 to move):todo take down:todo up:todo"),
    ({"begun": True}, "online", False, "drain:now evacuate (2 to move):todo take down:todo"),
    ({"begun": True}, "drained", False, "drained:done evacuate (2 to move):now take down:todo"),
    (
        {"begun": True, "held": ["a move failed"]},
        *("drained", False, "drained:done evacuate (2 to move):stopped"),
    ),
    (
        {"begun": True, "left": 0},
        "drained",
        False,
        "drained:done evacuated:done take down:todo",
    ),
    ({"begun": True, "left": 0}, "drained", True, "drained:done evacuated:done take down:now"),
    (
        {"begun": True, "left": 0, "mode": "down"},
        *("offline", True, "drained:done evacuated:done down:done up:todo"),
    ),
]


def test_how_far_a_machine_has_come() -> None:
    for one, state, begun, told in STAGES:
        there = {"begun": False, "left": 2, "mode": "draining", "held": []} | one
        found = " ".join(f"{s.name}:{s.state}" for s in stages(there, state, begun=begun))
        assert found.startswith(told), (one, state)


def test_a_window_of_thousands_is_not_told_whole_on_each_day_of_the_page() -> None:
    machines = [
        {"node": f"n{n}", "overdue": 0, "mode": "draining", "begun": False} for n in range(25)
    ]
    row = {"start": NOW / 1000, "duration": None, "series": None, "machines": machines}
    days = weeks({"windows": [row], "series": []}, None, NOW / 1000)
    (title,) = {entry.title.partition(":")[0] for day in days[2] for entry in day.entries}
    assert title.startswith("n0, n1, ")
    assert title.endswith("n19 and 5 more")


def test_a_roll_is_shown_on_its_days() -> None:
    at = NOW / 1000
    roll = {
        "at": at,
        "state": "active",
        "over-at": None,
        "returns-at": at + 86_400,
        "command": "reboot-node",
        "nodes": [{"name": "n1.example"}, {"name": "n2.example"}],
    }
    days = weeks({"windows": [], "series": []}, roll, at)
    entries = [entry for week in days for day in week for entry in day.entries]
    assert [(entry.kind, entry.machines) for entry in entries] == [("begun", "n1, n2")] * 2
    assert entries[0].title.endswith("roll of reboot-node")
