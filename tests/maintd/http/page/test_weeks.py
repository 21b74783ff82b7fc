"""The page's calendar of weeks."""

from nodeagent.maintd.http.page import weeks
from tests.maintd.world import NOW


def test_a_window_of_thousands_is_not_told_whole_on_each_day_of_the_page() -> None:
    machines = [
        {"node": f"n{n}", "overdue": 0, "mode": "draining", "begun": False} for n in range(25)
    ]
    row = {"start": NOW / 1000, "duration": None, "series": None, "machines": machines}
    days = weeks.weeks({"windows": [row], "series": []}, NOW / 1000)
    (title,) = {entry.title.partition(":")[0] for day in days[2] for entry in day.entries}
    assert title.startswith("n0, n1, ")
    assert title.endswith("n19 and 5 more")
