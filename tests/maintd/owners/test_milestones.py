"""Owners are told for an hour what became of what they were asked."""

from nodeagent.maintd.owners import milestones
from nodeagent.model.ledger import Ledger
from nodeagent.model.offer import Milestone, Progress
from nodeagent.model.units import Nanoseconds
from nodeagent.model.window import Unavailability, Window
from tests.maintd.owners.owned import Asking
from tests.maintd.world import NOW


def test_a_milestone_is_told_for_an_hour() -> None:
    when = Unavailability(Nanoseconds(NOW * 10**6))
    one = Milestone("e", "db", "uuid-n3", Progress.CANCELED, ("i1",), when, NOW)
    ledger = Ledger(milestones=(one,))
    assert [found.at for found in milestones.to_tell(ledger, NOW)] == [NOW]
    later = NOW + milestones.KEEP
    assert milestones.to_tell(ledger, later) == []
    assert milestones.note(ledger, ledger, (), later).milestones == ()


DAY = 86400


def told(one: Asking, *windows: Window) -> list[tuple[str, int]]:
    """What db has been told, each with the number of the window that it is about."""
    starts = [window.unavailability.start for window in windows]
    return [
        (milestone.progress.value, starts.index(milestone.unavailability.start))
        for milestone in one.ledger.milestones
        if milestone.owner == "db"
    ]


def begin(one: Asking) -> None:
    """Go on until the work for a window of n3 in a day has begun."""
    one.tick(DAY - 600)
    for _ in range(3):
        one.tick(60)
    assert not one.node().in_service


def test_an_owner_hears_of_the_window_that_starts_and_of_the_other_that_is_canceled() -> None:
    one = Asking()
    later, soon = one.window("n3", ahead=30 * DAY), one.window("n3", ahead=DAY)
    one.post(later)
    one.post(later, soon)
    begin(one)
    assert told(one, soon, later)[:1] == [("started", 0)]
    one.post(soon)
    assert told(one, soon, later) == [("started", 0), ("canceled", 1)]
    one.post()
    assert sorted(told(one, soon, later)) == [("canceled", 1), ("finished", 0)]


def test_the_window_that_goes_on_at_another_time_has_not_finished() -> None:
    one = Asking()
    soon, moved = one.window("n3", ahead=DAY), one.window("n3", ahead=2 * DAY)
    one.post(soon)
    begin(one)
    one.post(moved)
    assert told(one, soon, moved) == [("started", 1)]
    assert one.down() == ""
    assert told(one, soon, moved) == [("started", 1)]


def test_an_owner_that_is_asked_about_another_time_hears_of_no_end() -> None:
    one = Asking()
    soon, moved = one.window("n3", ahead=DAY), one.window("n3", ahead=2 * DAY)
    one.post(soon)
    one.post(moved)
    assert told(one, soon, moved) == []
    one.post()
    assert told(one, soon, moved) == [("canceled", 1)]
