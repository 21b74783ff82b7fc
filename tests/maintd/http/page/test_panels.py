"""What the status page says of maintenance, the repair queue and balancing; and how it looks."""

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from nodeagent.maintd.http.page.weeks import KINDS, stages, weeks
from nodeagent.model.action import MovePrimary, MoveSecondary
from nodeagent.model.ledger import Outcome, Result
from nodeagent.model.offer import Reply
from nodeagent.model.snapshot import Group, Instance
from nodeagent.model.units import Ms, Nanoseconds, Seconds
from nodeagent.model.window import Consent, Machine, Schedule, Unavailability, Weight, Window
from nodeagent.model.wish import (
    AddEntry,
    AddSeries,
    AnswerOffers,
    Balance,
    DeleteEntry,
    EditSeries,
    SetQueue,
    SetSchedule,
    TakeDown,
)
from tests import needs
from tests.maintd.http.page.browser import Browser, browser
from tests.maintd.http.page.test_page import (
    SCRIPT,
    Balanced,
    at_a_port,
    fits,
    healthy,
    page,
    served,
)
from tests.maintd.queue.test_entries import BROKEN, Mender, policy
from tests.maintd.rig import QUICK, Rig, fleet, mirrored
from tests.maintd.served import Served
from tests.maintd.windows.test_occurrences import WEDNESDAY, day

HOUR, DAY = 3600, 86_400


def window(start: float, hours: float | None, *names: str) -> Window:
    long = None if hours is None else Nanoseconds(round(hours * 3.6e12))
    when = Unavailability(Nanoseconds(round(start * 1e9)), long)
    return Window(tuple(map(Machine, names)), when)


def planned() -> Rig:
    """One window is overdue, one held by an owner, one being emptied, others far; two series."""
    owned = [
        Instance("db1", "n3", "n4", memory=100, disk=100, tags=frozenset({"maintd:owner:db"})),
        Instance("web1", "n3", "n5", memory=100, disk=100, tags=frozenset({"maintd:owner:web"})),
        *(Instance(f"i{n}", "n6", "n2", memory=100, disk=100) for n in range(3)),
    ]
    rig = Rig(fleet(12), owned)
    rig.time = WEDNESDAY - DAY
    sunday = (6,), 120, "Europe/Zurich", Seconds(2 * HOUR)
    rig.wish(AddSeries(tuple(Machine(f"n{n}") for n in (9, 10, 11)), *sunday), "root")
    rig.wish(
        AddSeries((Machine("n8"),), (1, 3), 1350, "America/New_York", Seconds(3 * HOUR)), "root"
    )
    rows = [
        window(rig.time + HOUR, 2, "n7"),
        window(WEDNESDAY + HOUR, 4, "n3"),
        window(WEDNESDAY + 600, 30, "n6"),
        window(WEDNESDAY + 5 * DAY, None, "n5", "rack7-spare"),
    ]
    veto = Consent(Weight.VETO, Ms(0))
    rig.wish(SetSchedule(Schedule(tuple(rows)), consents=(None, veto, None, None)), "root")
    rig.tick()
    rig.wish(TakeDown((Machine("n7"),)), "root")
    rig.wish(EditSeries(1, skip=(day("2026-11-29"),)), "root")
    rig.tick()
    offers = tuple(offer.id for offer in rig.ledger.offers if offer.owner == "db")
    why = "rebuilding <b>a replica</b>"
    eta = round((WEDNESDAY + HOUR) * 1000)
    rig.wish(AnswerOffers(offers, Reply.DECLINE, Ms(10**9), reason=why, eta=Ms(eta)), "dbuser")
    rig.tick(600)
    rig.time = WEDNESDAY
    long = (MovePrimary, MoveSecondary)
    rig.cluster.takes = lambda action: 10_000.0 if isinstance(action, long) else 1.0
    return rig


def queued() -> Rig:
    """One entry is under way, one has failed, one waits; the queue is disabled."""
    rig = Mender(policy())
    rig.fates["try-1"] = [BROKEN, Result(Outcome.RUNNING)]
    rig.add(AddEntry("unreachable", "r640", "127.0.0.4", "S4"))
    rig.settle()
    rig.add()
    rig.tick()
    rig.ask(SetQueue(enabled=False))
    rig.add(AddEntry("unreachable", "r640", "10.9.9.9", "S9"))
    return rig


def lopsided() -> Rig:
    """One group is balanced and has moves planned, the other is not asked for."""
    on = replace(QUICK, balance=True, balance_settle=Ms(3_600_000))
    places = [replace(node, group="a" if n < 3 else "b") for n, node in enumerate(fleet(6))]
    rig = Rig(places, mirrored(*[("n1", "n2")] * 8), on)
    for name, tags in (("a", frozenset[str]()), ("b", frozenset({"maintd:balance:no"}))):
        rig.cluster.put(Group(name, f"rack-{name}", tags))
    return rig


@pytest.fixture(scope="module")
def tab() -> Iterator[Browser]:
    with browser() as running:
        yield running


def section(text: str, name: str) -> str:
    return text.partition(f"<h2>{name}</h2>")[2].partition("</section>")[0]


# What it shows.


def test_where_nothing_is_planned_queued_or_balanced_nothing_is_said_of_it(tmp_path: Path) -> None:
    with served(healthy(), tmp_path) as one:
        one.tick()
        text = page(one)
    assert not any(f"<h2>{name}" in text for name in ("Maintenance", "Repair queue", "Balancing"))


def test_four_weeks_with_windows_series_and_what_is_canceled(tmp_path: Path) -> None:
    with served(planned(), tmp_path) as one:
        one.tick()
        text = page(one)
    assert Balanced(text)
    told = section(text, "Maintenance")
    assert told.count("<td") >= 28
    assert 'class="today"><time datetime="2026-11-18"><span class="brief">18 Nov</span>' in told
    assert (
        'datetime="2026-11-17"><span class="brief">17</span><span class="alone">Tue 17 Nov' in told
    )
    assert '<li class="entry late" title="n7: 2026-11-17 13:00 until 2026-11-17 15:00' in told
    assert "<b>13:00</b>" in told
    assert '<li class="entry skipped" title="n9, n10, n11: 2026-11-29 01:00' in told
    assert "series/1" in told
    assert '<li class="entry planned" title="n9, n10, n11: 2026-12-06 01:00' in told
    assert "n9, n10 +1" in told
    assert "all day" in told, "a window without an end goes on"
    assert "<b>from 12:10</b>" in told


def test_the_four_weeks_have_every_day_of_a_series(tmp_path: Path) -> None:
    rig = Rig(fleet(2))
    rig.time = WEDNESDAY
    rig.wish(AddSeries((Machine("n2"),), tuple(range(7)), 120, "UTC", Seconds(HOUR)), "root")
    rig.tick()
    with served(rig, tmp_path) as one:
        one.tick()
        told = section(page(one), "Maintenance")
    assert told.count("<b>02:00</b>") == 7 * 3 + 4, "from Thursday on"


def test_the_windows_tell_their_mode_what_is_late_how_far_they_are_and_who_objects(
    tmp_path: Path,
) -> None:
    with served(planned(), tmp_path) as one:
        one.tick(times=3)
        text = page(one)
    told = section(text, "Maintenance")
    assert '<span class="badge late">overdue</span>' in told
    assert 'late-words">overdue: n7 is still down, and its window ended' in told
    assert "gnt-maint window up n7" in told
    assert '<span class="badge begun">being evacuated</span>' in told
    assert "evacuate (3 to move)" in told
    assert "owner db declines: rebuilding &lt;b&gt;a replica&lt;/b&gt;" in told
    assert '(done by <time datetime="2026-11-18T13:00:00Z">2026-11-18 13:00:00 UTC</time>)' in told
    assert "owner web has not answered for" in told
    assert "the window waits for it" in told
    assert '<b class="text">rack7-spare</b> <span class="dim">not a node of this cluster<' in told
    assert "sun 02:00" in told
    assert "2026-11-22 02:00:00+01:00" in told
    assert '<b>1</b><span class="dim">overdue</span>' in text


def test_the_queue_tells_why_entries_wait_and_whether_it_is_worked_off(tmp_path: Path) -> None:
    with served(queued(), tmp_path) as one:
        one.tick()
        told = section(page(one), "Repair queue")
        assert '<span class="badge off">disabled</span>' in told
        assert "gnt-maint queue enable" in told
        assert '<span class="badge failed">failed</span>' in told
        assert '<span class="badge queued">queued</span>' in told
        rows = told.split("<tr")[3:]
        assert [row.partition("</td>")[0].rpartition(">")[2] for row in rows][-1] == "0", "over"
        assert 'id="entry-1"' in told
        assert "at most 1 machines are repaired at once" in told
        assert "step 1 is watched" in told
        assert "try-1 failed: exit code 1" in told
        one.rig.wish(DeleteEntry(1))
        one.tick()
        told = section(page(one), "Repair queue")
        assert "deleted, once its running work has ended" in told


def test_a_queue_that_is_disabled_is_told_though_it_is_empty(tmp_path: Path) -> None:
    with served(healthy(), tmp_path) as one:
        one.rig.wish(SetQueue(enabled=False))
        one.tick()
        assert "No entries." in section(page(one), "Repair queue")


def test_balancing_tells_scores_moves_and_what_is_in_the_way(tmp_path: Path) -> None:
    with served(lopsided(), tmp_path) as one:
        one.tick(times=4)
        told = section(page(one), "Balancing")
        assert "<b>rack-a</b>" in told
        assert "rack-b" not in told, "nobody has asked for that"
        assert " planned" in told
        assert "The moves" in told
        assert "i1: n1, n2 → n" in told
        assert "they start if this holds for" in told
        one.rig.wish(Balance("rack-b"), "alice")
        one.tick()
        assert "requested by alice" in section(page(one), "Balancing")


# The weeks.


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
        for week in weeks(told, moment)
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
        found = weeks({"windows": [], "series": []}, at)
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
    days = [one for week in weeks(told, 1_800_000_000) for one in week if one.entries]
    assert [(len(one.entries), one.more) for one in days] == [(4, 5)]


@pytest.mark.parametrize(
    ("one", "state", "begun", "told"),
    [
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
    ],
)
def test_how_far_a_machine_has_come(
    one: dict[str, Any], state: str, begun: bool, told: str
) -> None:
    there = {"begun": False, "left": 2, "mode": "draining", "held": []} | one
    found = " ".join(f"{s.name}:{s.state}" for s in stages(there, state, begun=begun))
    assert found.startswith(told)


def test_every_kind_of_entry_has_a_style_of_its_own() -> None:
    style = (
        Path(__file__).parents[4]
        / "nodeagent"
        / "maintd"
        / "http"
        / "page"
        / "templates"
        / "status.css"
    ).read_text()
    assert all(re.search(rf"\.entry\.{kind}[{{,]", style) for kind in KINDS if kind != "window")


# In a browser.


@needs.mark("chromium")
@pytest.mark.parametrize("rig", [planned, queued, lopsided])
def test_panels_in_a_browser(tab: Browser, tmp_path: Path, rig: "type[Rig]") -> None:
    one = Served(rig(), tmp_path)  # type: ignore[call-arg]
    one.tick(times=3)
    tab.said.clear()
    with at_a_port(one) as url:
        tab.open(url)
        for name, width, dark in (("light", 1200, False), ("dark", 1200, True), ("phone", 400, 0)):
            tab.picture(str(tmp_path / f"{name}.png"), width, dark=bool(dark))
            fits(tab)
        low = "[...document.querySelectorAll('.entry, .badge')].filter(e => e.offsetHeight > 40)"
        assert tab.run(f"{low}.length") == 0, "an entry is one line"
    assert tab.said == []


def test_hostile_names_change_nothing(tmp_path: Path) -> None:
    with served(planned(), tmp_path) as one:
        one.tick()
        usual = Balanced(page(one))
        rows = (window(WEDNESDAY + DAY, 1, SCRIPT, '"><img src=x onerror=alert(1)>'),)
        one.rig.wish(SetSchedule(Schedule((*one.rig.ledger.schedule.windows, *rows))))
        one.tick()
        found = Balanced(page(one))
    assert found.tags <= usual.tags | {"circle"}, "that is the arrows'"
    assert found.attributes <= usual.attributes | {"cx", "cy", "r", "d", "marker-end"}
