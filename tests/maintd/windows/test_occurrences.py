"""Weekly series over whole rounds: their occurrences become windows, one after another."""

from tests.maintd.rounds import ticks
from tests.maintd.windows.rounds import down, up
from tests.maintd.windows.weekly import AHEAD, HOUR, SUNDAYS, add, at, planned, rig


def test_an_occurrence_becomes_a_window_in_time_and_after_it_the_next() -> None:
    one = rig()
    assert add(one, "n3", "n6") == ""
    assert planned(one) == []
    at(one, SUNDAYS[0] - AHEAD - 1)
    assert planned(one) == []
    at(one, SUNDAYS[0] - AHEAD)
    assert planned(one) == [(["n3", "n6"], SUNDAYS[0])], "one window of both"
    at(one, SUNDAYS[0] + 600)
    assert one.cluster.nodes["n3"].drained, "emptied before it began"
    down(one, "n3", "n6")
    ticks(one, 10, 60)
    assert one.cluster.nodes["n3"].offline
    up(one, "n3", "n6")
    assert planned(one) == []
    at(one, SUNDAYS[0] + 2 * HOUR)
    assert one.cluster.nodes["n3"].in_service, "as it was found"
    at(one, SUNDAYS[1] - AHEAD)
    assert planned(one) == [(["n3", "n6"], SUNDAYS[1])]
