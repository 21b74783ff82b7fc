"""A node in several windows: each is a claim of its own, and the node is back after the last."""

from nodeagent.model.window import Machine, Mode, Schedule, Standing, Window
from nodeagent.model.wish import BringUp, SetSchedule, TakeDown
from tests.maintd.rig import Rig, ask
from tests.maintd.windows.rounds import DAY, HOUR, N3, node, rig, until_calm, when


def windows(one: Rig, *spans: tuple[float, float], machine: Machine = N3) -> tuple[Window, ...]:
    """Windows of one machine: each begins so many seconds from now, and lasts so many."""
    return tuple(Window((machine,), when(one, *span)) for span in spans)


def post(one: Rig, *planned: Window) -> str:
    return ask(one, SetSchedule(Schedule(planned)))


def modes(one: Rig) -> list[tuple[Mode, bool]]:
    """The mode of each window in the schedule, and whether its work has begun."""
    return [(each.mode, each.begun) for each in one.ledger.scheduled]


def state(one: Rig) -> Standing:
    n3 = node(one)
    return Standing.of(drained=n3.drained, offline=n3.offline)


def test_while_one_lasts_the_end_of_another_puts_nothing_back() -> None:
    one = rig()
    planned = windows(one, (0, HOUR), (60, DAY))
    assert post(one, *planned) == ""
    until_calm(one)
    assert modes(one) == [(Mode.DRAINING, True), (Mode.DRAINING, True)]
    assert ask(one, TakeDown((N3,))) == ""
    until_calm(one)
    assert ask(one, TakeDown((N3,))) == "machine n3 is down, and must be draining for that"
    assert ask(one, BringUp((N3,))) == ""
    until_calm(one)
    assert state(one) is Standing.OFFLINE
    assert modes(one) == [(Mode.DRAINING, True)]
    assert one.ledger.schedule.windows == planned[1:]
    assert post(one) == ""
    until_calm(one)
    assert state(one) is Standing.SERVING
