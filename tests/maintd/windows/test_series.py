"""Weekly series without the rounds around them: what is planned, what waits, what is refused."""

from dataclasses import replace
from datetime import UTC, date, datetime
from time import process_time
from typing import Any, NamedTuple

import pytest

from nodeagent.maintd.engine.timezones import read_zone
from nodeagent.maintd.windows import occurrences, schedule, series
from nodeagent.model.ledger import Ledger, Policy
from nodeagent.model.reason import Held, Kind, because
from nodeagent.model.series import Member, Series, Weekly
from nodeagent.model.snapshot import Instance, Node, Observed, Snapshot
from nodeagent.model.units import Ms, Nanoseconds, Seconds
from nodeagent.model.window import Consent, Machine, Mode, Schedule, Unavailability, Weight, Window
from nodeagent.model.wish import AddSeries, EditSeries, SetSchedule, TakeDown
from tests.maintd.decided import kinds

HOUR, DAY = 3_600_000, 86_400_000
SUNDAY = date(2026, 11, 22).toordinal()
BEGINS = round(datetime(2026, 11, 22, 1, tzinfo=UTC).timestamp() * 1000)  # 02:00 there
NOW = BEGINS - 10 * HOUR
NAMES = ("n3", "n6")
N3, N6 = map(Machine, NAMES)
ZONE = read_zone("Europe/Zurich", Ms(NOW))
assert ZONE is not None
NODES = {name: Node(name, f"uuid-{name}", f"192.0.2.{n}") for n, name in enumerate(NAMES, 3)}
SEEN = Observed(Snapshot("c", NODES), {}, zones={"Europe/Zurich": ZONE})
RULE = Weekly((6,), 120, "Europe/Zurich", Seconds(7200), SUNDAY)


def of(*members: Member, number: int = 1, rule: Weekly = RULE, **more: Any) -> Series:
    return Series(number, f"u{number}", "root", rule, members, **more)


def window(at: int, *machines: Machine, hours: int = 2) -> Window:
    return Window(
        machines, Unavailability(Nanoseconds(at * 10**6), Nanoseconds(hours * HOUR * 10**6))
    )


def ledger(all_series: tuple[Series, ...], *planned: Window) -> Ledger:
    there = schedule.grant(Ledger(series=all_series), SetSchedule(Schedule(planned)), SEEN, Ms(NOW))
    assert not isinstance(there, str)
    series_of = {
        member.machine.hostname.lower(): one.number
        for one in all_series
        for member in one.members
        if member.placed
    }
    scheduled = tuple(
        replace(one, series=series_of.get(one.machine.hostname.lower(), 0))
        for one in there.scheduled
    )
    return replace(there, scheduled=scheduled)


def edited(before: Ledger, **more: Any) -> Ledger:
    after = series.grant(before, EditSeries(1, **more), ("w", "root"), SEEN, Ms(NOW))
    assert not isinstance(after, str), after
    return after


class Advanced(NamedTuple):
    ledger: Ledger
    held: list[Held]


def advanced(before: Ledger, now: int = NOW) -> Advanced:
    return Advanced(*occurrences.advance(before, SEEN, Policy(window_ahead=Ms(DAY)), Ms(now)))


def down(before: Ledger, *machines: Machine) -> Ledger:
    after = schedule.grant(before, TakeDown(machines), SEEN, Ms(NOW))
    assert not isinstance(after, str)
    return after


# Windows that are not of a series, or no more where it has put them.


def test_an_occurrence_does_not_wait_for_an_operators_own_window() -> None:
    own = window(NOW - HOUR, N3)
    done = advanced(down(ledger((of(Member(N3), Member(N6)),), own), N3))
    assert done.ledger.schedule.windows == (own, window(BEGINS, N3, N6))
    assert done.held == []
    over = advanced(done.ledger, BEGINS + 3 * HOUR).ledger
    assert over.schedule.windows == (own,)
    assert [one.mode for one in over.scheduled] == [Mode.DOWN]


def test_of_a_canceled_occurrence_only_that_day_is_skipped() -> None:
    known = replace(RULE, first=SUNDAY - 7, skipped=(SUNDAY - 7,))
    gone = Member(N3, SUNDAY, placed=True)
    assert advanced(ledger((of(gone, rule=known),))).ledger.series[0].rule.skipped == (
        SUNDAY - 7,
        SUNDAY,
    )
    other = Member(N6, SUNDAY, placed=True)
    part = advanced(ledger((of(gone, other, rule=known),), window(BEGINS, N6)))
    assert part.ledger.series[0].rule.skipped == (SUNDAY - 7,), "it takes place for another machine"
    began = advanced(ledger((of(gone, rule=known),)), BEGINS)
    assert began.ledger.series[0].rule.skipped == (SUNDAY - 7,), "it has begun: it was no skip"


def test_what_owners_answers_weigh_is_the_series_own_and_stays_with_others() -> None:
    veto, required = Consent(Weight.VETO, Ms(HOUR)), Consent(Weight.REQUIRED, Ms(DAY))
    before = ledger((of(Member(N3), consent=veto),), window(BEGINS, N6))
    asked = tuple(replace(one, consent=required) for one in before.scheduled)
    done = advanced(replace(before, scheduled=asked)).ledger
    assert {str(one.machine): one.consent for one in done.scheduled} == {
        "n3": veto,
        "n6": required,
    }
    assert edited(done, seconds=3600).series[0].consent == veto
    assert edited(done, consent=required).series[0].consent == required


@pytest.mark.parametrize("still_planned", [True, False])
def test_a_distant_day_counts_as_processed_while_a_machine_is_planned_for_it(
    still_planned: bool,
) -> None:
    far = SUNDAY + 70
    at = BEGINS + 70 * DAY
    other = Member(N6, far, placed=still_planned)
    before = ledger((of(Member(N3, far), other),), window(at, N6))
    windows = advanced(before).ledger.schedule.windows
    assert (window(BEGINS, N3, N6) in windows) is not still_planned


# What is asked of one that has been planned.


def test_to_keep_a_day_brings_nobody_back_who_was_spared_another() -> None:
    spared, there = Member(N3, SUNDAY), Member(N6, SUNDAY, placed=True)
    rule = replace(RULE, skipped=(SUNDAY + 7,))
    before = ledger((of(spared, there, rule=rule),), window(BEGINS, N6))
    after = edited(before, keep=(SUNDAY + 7,))
    assert after.series == (of(spared, there),)
    assert edited(before, keep=(SUNDAY,)).series[0].members == (
        Member(N3, SUNDAY - 1),
        there,
    ), "who is in it stays"


def test_who_was_spared_is_so_by_another_rule_too() -> None:
    """Else to let a series end later would drain a node for a window that was canceled for it."""
    before = ledger((of(Member(N3, SUNDAY, late=SUNDAY - 7, why="x"), Member(N6)),))
    for change in ({"until": SUNDAY + 70}, {"minute": 180}):
        after = edited(before, **change)
        assert after.series[0].members == (Member(N3, SUNDAY), Member(N6))
        (there,) = advanced(after).ledger.schedule.windows
        assert there.machines == (N6,)
    back = edited(before, minute=180, keep=(SUNDAY,))
    (there,) = advanced(back).ledger.schedule.windows
    assert there.machines == (N3, N6)
    assert edited(before, weekdays=(5,)).series[0].members == (Member(N3), Member(N6))


def test_what_has_begun_is_not_planned_anew() -> None:
    members = (Member(N3, SUNDAY, placed=True), Member(N6, SUNDAY, placed=True))
    before = down(ledger((of(*members),), window(BEGINS, N3, N6)), N3)
    after = edited(before, minute=180)
    assert after.series[0].members == (members[0], Member(N6)), "who is down is, and is known to be"
    assert after.schedule.windows == (window(BEGINS, N3),)


def test_who_is_not_meant_by_a_change_keeps_its_window() -> None:
    both = (Member(N3, SUNDAY, placed=True), Member(N6, SUNDAY, placed=True))
    before = ledger((of(*both),), window(BEGINS, N3, N6))
    less = edited(before, remove=(N6,))
    assert (less.series[0].members, less.schedule.windows) == (both[:1], (window(BEGINS, N3),))
    for change in ({"skip": (SUNDAY + 7,)}, {"keep": (SUNDAY + 7,)}, {"consent": Consent()}):
        after = edited(before, **change)
        assert (after.series[0].members, after.schedule) == (both, before.schedule)


def test_the_longest_and_the_shortest_window_that_may_be() -> None:
    before = ledger((of(Member(N3)),))
    for seconds, fits in ((60, True), (59, False), (7 * 86_400 - 7200, True)):
        asked = EditSeries(1, seconds=Seconds(seconds))
        after = series.grant(before, asked, ("w", "root"), SEEN, Ms(NOW))
        assert isinstance(after, Ledger) is fits
    asked = EditSeries(1, seconds=Seconds(7 * 86_400 - 7199))
    assert isinstance(series.grant(before, asked, ("w", "root"), SEEN, Ms(NOW)), str)


def test_no_more_series_and_machines_than_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(series, "MOST", 1)
    monkeypatch.setattr(series, "MOST_MACHINES", 1)

    def added(before: Ledger, *machines: Machine) -> Ledger | str:
        asked = AddSeries(
            machines, (6,), 120, "Europe/Zurich", Seconds(7200), until=SUNDAY, times=2
        )
        return series.grant(before, asked, ("w", "root"), SEEN, Ms(NOW))

    assert added(Ledger(), N3, N6) == "a series has 1 machines at most"
    wrong = "machine n3 192.0.2.6: the node n3 has the address 192.0.2.3"
    assert added(Ledger(), Machine("n3", "192.0.2.6")) == wrong
    one = added(Ledger(), N3)
    assert isinstance(one, Ledger)
    rule = replace(RULE, until=SUNDAY, times=2)
    assert one.series == (Series(1, "w", "root", rule, (Member(N3),)),)
    assert added(one, N6) == "there are 1 series already"
    asked = EditSeries(1, add=(N6,))
    why = "a series has 1 machines at most"
    assert series.grant(one, asked, ("w", "root"), SEEN, Ms(NOW)) == why


PLACED = of(Member(N3, SUNDAY, placed=True))
NEXT = BEGINS + 7 * DAY
WAITS = (Kind.SERIES_WAITS, "series/1 of 2026-11-22")


@pytest.mark.parametrize(
    ("now", "begins"),
    [
        pytest.param(BEGINS - DAY - 1, None, id="far ahead"),
        pytest.param(BEGINS - DAY, BEGINS, id="in time"),
        pytest.param(BEGINS - 1, BEGINS, id="at the last moment"),
        pytest.param(BEGINS, None, id="it has begun"),
        pytest.param(BEGINS + 3 * HOUR, None, id="slept over"),
        pytest.param(NEXT - HOUR, NEXT, id="slept over until the next"),
    ],
)
def test_when_an_occurrence_becomes_a_window(now: int, begins: int | None) -> None:
    done = advanced(ledger((of(Member(N3)),)), now).ledger
    assert done.schedule.windows == (() if begins is None else (window(begins, N3),))


def test_a_large_node_is_planned_earlier_than_others_which_join_its_window() -> None:
    large = Instance("huge", "n3", "n6", disk=12 * 2**20, memory=100)
    seen = replace(SEEN, snapshot=replace(SEEN.snapshot, instances={"huge": large}))
    policy = Policy(window_ahead=Ms(DAY))
    before = ledger((of(Member(N3), Member(Machine("192.0.2.9"))),))
    done, _ = occurrences.advance(before, seen, policy, Ms(BEGINS - 3 * DAY))
    assert done.schedule.windows == (window(BEGINS, N3),)


@pytest.mark.parametrize(("now", "there"), [(-1, True), (0, False)])
def test_who_was_never_taken_down_is_let_go_when_its_window_ends(now: int, there: bool) -> None:
    """Wherever an operator has moved it to, and whoever it is called."""
    for moved, spelt in ((0, N3), (DAY, Machine("N3", "192.0.2.3"))):
        before = ledger((PLACED,), window(BEGINS + moved, spelt))
        done = advanced(before, BEGINS + moved + 2 * HOUR + now)
        assert bool(done.ledger.schedule.windows) is there


def test_who_is_down_still_keeps_its_next_waiting_and_nothing_is_forced() -> None:
    before = down(
        ledger((of(Member(N3, SUNDAY, placed=True), Member(N6, SUNDAY)),), window(BEGINS, N3)), N3
    )
    done = advanced(before, NEXT - DAY)
    assert done.ledger.schedule.windows == (window(BEGINS, N3), window(NEXT, N6))
    waits = (Kind.SERIES_WAITS, "series/1 of 2026-11-29")
    assert kinds(done.held) == [waits, (Kind.DOWN_STILL, "n3")]
    late = advanced(done.ledger, NEXT + 60_000).ledger.series[0].members[0]
    assert (late.late, late.why) == (
        SUNDAY + 7,
        str(because(Kind.DOWN_STILL, "n3", day="2026-11-22")),
    )


def test_what_is_unknown_here_is_told_and_the_others_go_on() -> None:
    left = replace(SEEN, snapshot=replace(SEEN.snapshot, nodes={"n3": NODES["n3"]}))
    before = ledger((of(Member(N3), Member(N6)),))
    done, held = occurrences.advance(before, left, Policy(window_ahead=Ms(DAY)), Ms(NOW))
    assert kinds(held) == [WAITS, (Kind.NO_SUCH_NODE, "n6")]
    assert done.schedule.windows == (window(BEGINS, N3),)
    mars = ledger((of(Member(N3), rule=replace(RULE, zone="Mars/Olympus")),))
    whys = kinds(advanced(mars).held)
    assert whys == [(Kind.SERIES_WAITS, "series/1"), (Kind.NO_TIME_ZONE, "series/1")]


def test_a_day_that_is_skipped_is_no_window_unless_it_is_down() -> None:
    before = ledger((PLACED,), window(BEGINS, N3))
    after = edited(before, skip=(SUNDAY, SUNDAY + 7))
    assert (after.schedule.windows, after.series[0].rule.skipped) == ((), (SUNDAY, SUNDAY + 7))
    assert advanced(after).ledger.schedule.windows == ()
    kept = advanced(edited(advanced(after).ledger, keep=(SUNDAY,))).ledger
    assert kept.schedule.windows == (window(BEGINS, N3),)
    assert edited(down(before, N3), skip=(SUNDAY,)).schedule.windows == (window(BEGINS, N3),)


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"zone": "Europe/Zürich"}, "time zone Europe/Zürich is unknown here"),
        ({"seconds": 30}, "a window lasts 60 s at least"),
        (
            {"seconds": 7 * 86_400},
            "from the end of one to the beginning of the next there must be 2 h at least",
        ),
        ({"until": 1}, "it ends before its first time, on 2026-11-22"),
        ({"begins": date(2050, 1, 1).toordinal()}, "it would begin too far in the future"),
        ({"times": 10**6}, "a series ends after 10000 times at most"),
        ({"machines": ()}, "the list has no machine"),
        ({"machines": (Machine("n77"),)}, "machine n77 is not a node of this cluster"),
        (
            {"machines": (N3, Machine(ip="192.0.2.3"))},
            "machine 192.0.2.3 is in the list as n3 already",
        ),
    ],
)
def test_what_is_refused(more: dict[str, Any], why: str) -> None:
    asked = AddSeries((N3,), (6,), 120, "Europe/Zurich", Seconds(7200))
    after = series.grant(Ledger(), replace(asked, **more), ("w", "root"), SEEN, Ms(NOW))
    assert after == why


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"number": 7}, "there is no series/7: see gnt-maint window list"),
        ({"skip": (SUNDAY + 1,)}, "series/1 has no occurrence on 2026-11-23"),
        ({"keep": (SUNDAY - 7,)}, "series/1 has no occurrence on 2026-11-15"),
        ({"add": (Machine(ip="192.0.2.3"),)}, "machine 192.0.2.3 is in series/1 already"),
        ({"remove": (N6,)}, "machine n6 is not in series/1"),
        ({"remove": (N3,)}, "no machine would be left: cancel series/1 instead"),
        ({"zone": "Nowhere"}, "time zone Nowhere is unknown here"),
        ({"until": SUNDAY - 21}, "it ends before its first time, on 2026-11-22"),
    ],
)
def test_what_cannot_be_changed(more: dict[str, Any], why: str) -> None:
    before = ledger((of(Member(N3)),))
    asked = EditSeries(**{"number": 1, **more})
    assert series.grant(before, asked, ("w", "root"), SEEN, Ms(NOW)) == why


def test_a_series_that_is_to_begin_in_spring_does_so_at_another_time_too() -> None:
    spring = date(2027, 3, 7).toordinal()
    later = ledger((of(Member(N3), rule=replace(RULE, first=spring)),))
    assert edited(later, minute=180).series[0].rule.first == spring
    for first in (SUNDAY - 70, SUNDAY):
        begun = ledger((of(Member(N3), rule=replace(RULE, first=first)),))
        asked = EditSeries(1, weekdays=(5, 6))
        after = series.grant(begun, asked, ("w", "root"), SEEN, Ms(NOW - 2 * DAY))
        assert not isinstance(after, str)
        assert after.series[0].rule.first == SUNDAY - 1, "its next may be earlier"


def test_another_time_of_day_leaves_a_series_its_weeks() -> None:
    """Else a node would be drained in a week in which nobody expects it."""
    second = replace(RULE, first=SUNDAY - 7, every=2)
    before = ledger((of(Member(N3, SUNDAY - 7), rule=second),))
    for change in ({"minute": 180}, {"zone": "Europe/Zurich", "minute": 60}, {"weekdays": (5, 6)}):
        after = edited(before, **change)
        first = SUNDAY + (6 if "weekdays" in change else 7)
        assert after.series[0].rule.first == first
        assert advanced(after).ledger.schedule.windows == ()
    in_spring = replace(RULE, first=SUNDAY + 21, every=4)
    later = ledger((of(Member(N3), rule=in_spring),))
    assert edited(later, weekdays=(0,)).series[0].rule.first == SUNDAY + 43
    for change in ({"every": 3}, {"begins": SUNDAY}):
        assert edited(before, **change).series[0].rule.first == SUNDAY, "other weeks are asked for"


def test_another_time_of_day_leaves_a_series_its_number_of_times() -> None:
    rule = replace(RULE, first=SUNDAY - 21, times=5)
    before = ledger((of(Member(N3, SUNDAY - 7), rule=rule),))
    for change, times in (({}, 2), ({"times": 9}, 9), ({"times": 0}, 0)):
        new = edited(before, minute=180, **change).series[0].rule
        assert (new.first, new.times) == (SUNDAY, times)
    over = ledger((of(Member(N3, SUNDAY - 7), rule=replace(rule, times=3)),))
    asked = EditSeries(1, minute=180)
    more = "gnt-maint window edit series/1 --times N"
    why = f"series/1 is over after 3 times: say how many more ({more})"
    assert series.grant(over, asked, ("w", "root"), SEEN, Ms(NOW)) == why
    elsewhere = replace(rule, zone="Atlantis/Poseidonis")
    moved = edited(ledger((of(Member(N3), rule=elsewhere),)), zone="Europe/Zurich")
    assert moved.series[0].rule.times == 2


def test_skipped_days_are_forgotten_after_a_year_and_no_more_than_a_thousand() -> None:
    old, late = SUNDAY - 7 * 53, SUNDAY - 7 * 51
    rule = replace(RULE, first=SUNDAY - 7 * 60, skipped=(old, late))
    gone = Member(N3, SUNDAY - 7, placed=True)
    after = advanced(ledger((of(gone, rule=rule),)), NOW - 2 * DAY).ledger
    assert after.series[0].rule.skipped == (late,)
    most = replace(RULE, skipped=tuple(SUNDAY + 7 * n for n in range(series.MOST_SKIPPED)))
    asked = EditSeries(1, skip=(SUNDAY + 7 * series.MOST_SKIPPED,))
    before = ledger((of(Member(N3), rule=most),))
    why = series.grant(before, asked, ("w", "root"), SEEN, Ms(NOW))
    assert why == "of a series 1000 days are skipped at most"


@pytest.mark.measures
def test_series_of_all_machines_are_planned_in_a_moment() -> None:
    names = [f"n{n}" for n in range(3000)]
    parts = [names[n : n + 1000] for n in (0, 1000, 2000)]
    many = tuple(
        of(*(Member(Machine(name)) for name in part), number=number)
        for number, part in enumerate(parts, 1)
    )
    nodes = {name: Node(name, f"uuid-{name}", f"at-{name}") for name in names}
    observed = replace(SEEN, snapshot=Snapshot("c", nodes))
    began = process_time()
    done, _ = occurrences.advance(
        Ledger(series=many), observed, Policy(window_ahead=Ms(8 * DAY)), Ms(NOW)
    )
    took = process_time() - began
    assert [len(window.machines) for window in done.schedule.windows] == [1000] * 3
    assert took < 1.0


def test_of_two_series_of_one_time_the_later_waits_alone() -> None:
    twin = of(Member(N3), Member(N6), number=2)
    done = advanced(ledger((of(Member(N3)), twin)))
    assert done.ledger.schedule.windows == (window(BEGINS, N3), window(BEGINS, N6))
    same = because(Kind.SAME_WINDOW, "n3")
    waits = because(Kind.SERIES_WAITS, "series/2 of 2026-11-22", why=same)
    assert [h.why for h in done.held] == [waits]
