"""Schedules name machines, whatever became of their names."""

import pytest

from nodeagent.maintd.windows.schedule import asked_for
from nodeagent.model.ledger import Ledger
from nodeagent.model.reason import Kind, because
from nodeagent.model.snapshot import Node
from nodeagent.model.units import Ms, Nanoseconds
from nodeagent.model.window import (
    Consent,
    Machine,
    Mode,
    Schedule,
    Scheduled,
    Unavailability,
    Weight,
    Window,
)
from nodeagent.model.wish import SetSchedule
from tests.maintd.rig import Rig, fleet
from tests.maintd.windows.rounds import DAY, N3, plan, wish


def test_a_name_that_is_another_s_too_by_now_keeps_nobody_from_the_schedule() -> None:
    one = Rig([*fleet(2), Node("n3.a.org", "uuid-a", "127.0.1.1")])
    plan(one, DAY, N3)
    one.cluster.put(Node("n3.b.org", "uuid-b", "127.0.1.2"))
    both = wish(one, DAY, N3, Machine("n2"))
    done = one.tick()
    assert both not in done.decision.refused
    several = because(Kind.UNCLEAR_MACHINE, "n3", why="machine n3: several nodes are called so")
    assert several in [h.why for h in done.decision.held]
    plan(one)
    again = wish(one, DAY, N3)
    assert "several nodes" in one.tick().decision.refused[again]


def window(start: int, *names: str, hours: int = 2) -> Window:
    return Window(tuple(map(Machine, names)), Unavailability(at(start), at(hours)))


def at(hours: int) -> Nanoseconds:
    return Nanoseconds(hours * 3600 * 10**9)


FROM1, FROM3, FROM4, FROM5, UNTIL4 = (
    f"from 1970-01-01T0{begin}:00:00Z until 1970-01-01T0{end}:00:00Z"
    for begin, end in ((1, 3), (3, 5), (4, 6), (5, 7), (1, 4))
)
VETO = Consent(Weight.VETO, Ms(60_000))


@pytest.mark.parametrize(
    ("before", "after", "consents", "words"),
    [
        ((), (window(1, "n1"),), (), f"plan maintenance of n1 {FROM1}"),
        ((window(1, "n1"),), (), (), "cancel the window of n1"),
        ((window(1, "n1", "n2"),), (window(1, "n2"),), (), "cancel the window of n1"),
        ((window(1, "N1"),), (window(1, "n1"),), (), "leave the schedule as it is"),
        ((window(1, "n1"),), (window(3, "n1"),), (), f"change the window of n1 {FROM3}"),
        ((window(1, "n1"),), (window(1, "n1", hours=3),), (), f"change the window of n1 {UNTIL4}"),
        ((window(1, "n1"),), (window(1, "n1"),), (VETO,), "change the owners' policy of n1"),
        ((window(1, "n1"),), (window(1, "n1"),), (None,), "leave the schedule as it is"),
        ((window(1, "n1"),), (window(1, "n1"),), (Consent(),), "leave the schedule as it is"),
        (
            (window(1, "n1"), window(2, "n2")),
            (window(4, "n2"), window(5, "n3")),
            (),
            f"cancel the window of n1, plan maintenance of n3 {FROM5},"
            f" change the window of n2 {FROM4}",
        ),
        (
            (),
            (window(1, *(f"n{n}" for n in range(1, 9))),),
            (),
            f"plan maintenance of n1, n2, n3, n4, n5 and 3 more {FROM1}",
        ),
    ],
)
def test_a_new_schedule_is_described_by_what_it_changes(
    before: tuple[Window, ...],
    after: tuple[Window, ...],
    consents: tuple[Consent | None, ...],
    words: str,
) -> None:
    there = tuple(Scheduled(m, Mode.DRAINING, Ms(0)) for one in before for m in one.machines)
    ledger = Ledger(schedule=Schedule(before), scheduled=there)
    assert asked_for(SetSchedule(Schedule(after), consents=consents), ledger) == words
