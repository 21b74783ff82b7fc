"""The page's calendar of weeks."""

from nodeagent.maintd.http.page import weeks
from tests.maintd.world import NOW


def test_a_window_of_thousands_is_not_told_whole_on_each_day_of_the_page() -> None:
    machines = [
        {"node": f"n{n}", "overdue": 0, "mode": "draining", "begun": False} for n in range(25)
    ]
    row = {"start": NOW / 1000, "duration": None, "series": None, "machines": machines}
    days = weeks.weeks({"windows": [row], "series": []}, None, NOW / 1000)
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
    days = weeks.weeks({"windows": [], "series": []}, roll, at)
    entries = [entry for week in days for day in week for entry in day.entries]
    assert [(entry.kind, entry.machines) for entry in entries] == [("begun", "n1, n2")] * 2
    assert entries[0].title.endswith("roll of reboot-node")
