"""Schedules name machines, whatever became of their names."""

from dataclasses import replace

import pytest

from nodeagent.maintd.windows.schedule import STALE, asked_for, grant, version
from nodeagent.model.ledger import Ledger
from nodeagent.model.reason import Kind, because
from nodeagent.model.snapshot import Node, Observed, Snapshot
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
from nodeagent.model.wish import BringUp, SetSchedule, TakeDown
from tests.maintd.rig import Rig, fleet
from tests.maintd.windows.rounds import DAY, N3, plan, wish
from tests.maintd.world import NOW


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
    there = tuple(
        Scheduled(m, one.unavailability, Mode.DRAINING, Ms(0))
        for one in before
        for m in one.machines
    )
    ledger = Ledger(schedule=Schedule(before), scheduled=there)
    assert asked_for(SetSchedule(Schedule(after), consents=consents), ledger) == words


# What Mesos' master allows: master_maintenance_tests.cpp, by the names of its tests, and beyond.

M1, M2, M3 = Machine("Machine1"), Machine(ip="0.0.0.2"), Machine("Machine3", "0.0.0.3")
WORLD = Snapshot("c", {node.name: node for node in fleet()})


class Calendar:
    """A schedule that operators change; each request says why it is refused, or nothing."""

    def __init__(self, world: Snapshot = WORLD) -> None:
        self.observed = Observed(world, {})
        self.ledger = Ledger()

    def ask(self, asked: SetSchedule | TakeDown | BringUp) -> str:
        after = grant(self.ledger, asked, self.observed, NOW)
        if isinstance(after, str):
            return after
        self.ledger = after
        return ""

    def schedule(self, *windows: Window, versions: tuple[str, ...] = ()) -> str:
        return self.ask(SetSchedule(Schedule(windows), versions))

    def down(self, *machines: Machine) -> str:
        return self.ask(TakeDown(machines))

    def up(self, *machines: Machine) -> str:
        return self.ask(BringUp(machines))

    @property
    def windows(self) -> list[tuple[Machine, ...]]:
        return [window.machines for window in self.ledger.schedule.windows]

    @property
    def modes(self) -> tuple[list[Machine], list[Machine]]:
        """Those that are draining, and those that are down."""
        draining, down = (
            [one.machine for one in self.ledger.scheduled if one.mode is mode]
            for mode in (Mode.DRAINING, Mode.DOWN)
        )
        return draining, down


def of(*machines: Machine, hours: int = 2) -> Window:
    return Window(machines, Unavailability(at(1), at(hours)))


def test_update_schedule() -> None:
    there = Calendar()
    assert there.schedule(of(M1)) == ""
    twice = "machine Machine1 is in the schedule for the same time more than once"
    for wrong, why in (
        ([of()], "window 1 has no machine"),
        ([of(M1, hours=-1)], "window 1 (Machine1) has a negative duration"),
        ([of(M1), of(M1)], twice),
        ([of(M1, M1)], twice),
        ([of(M1), of(M2, Machine())], "machine 2 of window 2 has neither hostname nor ip"),
    ):
        assert there.schedule(*wrong) == why
        assert there.windows == [(M1,)], "nothing of it was done"
    assert there.schedule(of(M1, M2, hours=0)) == ""
    assert there.windows == [(M1, M2)], "in their order"
    assert there.schedule() == ""
    assert there.ledger == Ledger()


def test_bring_down_and_up_machines() -> None:
    there = Calendar()
    assert there.down(M1, M2) == "machine Machine1 is not in the schedule"
    assert there.down() == there.up() == "the list has no machine"
    assert there.down(M1, Machine()) == "machine 2 of the list has neither hostname nor ip"
    assert there.schedule(of(M1, M2), of(M3)) == ""
    assert there.up(M1) == "machine Machine1 is draining, and must be down for that"
    assert there.down(M1, M1) == "machine Machine1 is in the list more than once"
    assert there.down(M1) == ""
    assert there.down(M1) == "machine Machine1 is down, and must be draining for that"
    assert there.down(M1, M2) != ""
    assert there.modes == ([M2, M3], [M1]), "all of it or nothing"
    assert there.down(M3) == ""
    assert there.up(M3) == ""
    assert there.windows == [(M1, M2)]
    assert there.down(M2) == there.up(M1, M2) == ""
    assert there.ledger == Ledger()


def test_fail_to_unschedule_deactivated_machines() -> None:
    there = Calendar()
    there.schedule(of(M1, M2))
    there.down(M1)
    why = "machine Machine1 is down, and must be in the schedule until it is up"
    assert there.schedule(of(M2)) == there.schedule() == why
    assert there.up(M1) == there.schedule(of(M2)) == ""


@pytest.mark.parametrize(
    "ip",
    [
        "10.0.0.256",
        "010.0.0.1",
        "1.2.3.4/24",
        "fe80::1%eth0",
        "[2001:db8::1]",
        "2001:db8::1/64",
    ],
)
def test_what_is_no_address(ip: str) -> None:
    assert "its ip is not an IP address" in Calendar().schedule(of(Machine(ip=ip)))


@pytest.mark.parametrize(
    ("ip", "form"),
    [
        ("2001:db8:0::3", "2001:db8::3"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
    ],
)
def test_an_address_has_one_form_and_that_is_told(ip: str, form: str) -> None:
    assert f"its ip must be written {form}" in Calendar().schedule(of(Machine(ip=ip)))


@pytest.mark.parametrize("address", ["127.0.0.3", "2001:db8::3"])
def test_a_node_is_itself_however_it_is_spelt(address: str) -> None:
    """Mesos takes a name alone, an address alone and both for three machines."""
    world = replace(WORLD, nodes={**WORLD.nodes, "n3": replace(WORLD.nodes["n3"], address=address)})
    there = Calendar(world)
    name, by_address, both = Machine("n3"), Machine(ip=address), Machine("n3", address)
    assert "is in the schedule as n3 already" in there.schedule(of(name), of(by_address))
    wrong = there.schedule(of(Machine("n3", "127.0.0.4")))
    assert f"the node n3 has the address {address}" in wrong
    assert there.schedule(of(name)) == ""
    assert there.down(by_address) == ""
    assert there.schedule(of(both)) == "", "it is still there"
    assert there.modes == ([], [both])


def test_a_schedule_that_has_changed_since_is_not_overwritten() -> None:
    """With Mesos the last writer wins."""
    there = Calendar()
    seen = version(there.ledger.schedule)
    assert there.schedule(of(M1), versions=(seen,)) == ""
    assert there.schedule(of(M2), versions=(seen,)) == STALE
    assert there.ask(TakeDown((M1,), (seen,))) == STALE
    now = version(there.ledger.schedule)
    assert there.schedule(of(M2), versions=("other", now)) == ""


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


def test_two_machines_that_turn_out_to_be_one_node() -> None:
    """Such as a name and an address that were planned before the node was added."""
    when = Unavailability(at(1), at(2))
    name, address, other = Machine("n9"), Machine(ip="192.0.2.9"), Machine("n8")
    stranger = Observed(Snapshot("c", {}), {})
    node = Observed(Snapshot("c", {"n9": Node("n9", "u9", "192.0.2.9")}), {})

    def posted(before: Ledger, seen: Observed, *machines: Machine) -> Ledger | str:
        schedule = Schedule((Window(machines, when),))
        return grant(before, SetSchedule(schedule), seen, Ms(1))

    both = posted(Ledger(), stranger, name, address)
    assert isinstance(both, Ledger)
    more = posted(both, node, name, address, other)
    assert isinstance(more, Ledger), "nobody else's change is refused for them"
    assert [one.machine for one in more.scheduled] == [name, address, other]
    down = grant(both, TakeDown((address,)), node, Ms(1))
    assert isinstance(down, Ledger)
    for left in (name, address):
        one = posted(down, node, left)
        assert isinstance(one, Ledger)
        assert [(one.machine, one.mode) for one in one.scheduled] == [(left, Mode.DOWN)]
    assert posted(Ledger(), node, name, address) == (
        "machine 192.0.2.9 is in the schedule as n9 already"
    )
