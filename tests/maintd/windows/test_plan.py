"""Nodes in maintenance windows, whole rounds over a simulated cluster."""

from dataclasses import replace
from time import process_time

import pytest

from nodeagent.maintd.deciding.decide import decide
from nodeagent.maintd.http.calendar import calendar
from nodeagent.maintd.http.view import View
from nodeagent.maintd.planning.evacuation_time import Leads
from nodeagent.maintd.planning.outcomes import BACK_OFF
from nodeagent.maintd.planning.situation import Stops
from nodeagent.maintd.windows.plan import maintain, remember, wants_room
from nodeagent.maintd.windows.schedule import changed
from nodeagent.model.action import Drain, MovePrimary, Scope
from nodeagent.model.ledger import Ledger
from nodeagent.model.reason import Kind, because
from nodeagent.model.snapshot import Group, Instance, Node, Observed, Snapshot
from nodeagent.model.units import Ms, Nanoseconds
from nodeagent.model.window import NANOSECONDS, Machine, Pace, Schedule, Unavailability, Window
from nodeagent.model.wish import Pause, SetSchedule
from tests.build import situation
from tests.maintd.rig import QUICK, Rig, ask, fleet, mirrored
from tests.maintd.rounds import ticks
from tests.maintd.windows.rounds import HOUR, N3, down, node, plan, rig, until_calm, up
from tests.maintd.world import NOW, OK, seen


def on(one: Rig, name: str) -> list[str]:
    return [i.name for i in one.cluster.instances.values() if name in (i.primary, i.secondary)]


def test_a_window_drains_a_node_in_time_goes_down_and_comes_up_as_it_was() -> None:
    one = rig()
    plan(one, 2 * HOUR, N3)
    start = one.time + 2 * HOUR
    until_calm(one)
    assert one.jobs() == [], "nobody wants it empty two hours before"
    while not node(one, "n3").drained:
        one.tick(60)
    assert 600 < start - one.time < 1800
    until_calm(one)
    assert on(one, "n3") == []
    assert one.time < start
    assert not node(one, "n3").offline, "that is for an operator to say"
    down(one, "n3")
    until_calm(one)
    assert node(one, "n3").offline
    up(one, "n3")
    until_calm(one)
    assert node(one, "n3").in_service
    assert (one.ledger.schedule, one.ledger.scheduled) == (Schedule(), ())


def test_no_work_starts_for_a_window_where_it_is_stopped() -> None:
    one, why = rig(), because(Kind.PAUSED, "n3")
    assert ask(one, Pause(Scope.NODE, "n3")) == ""
    plan(one, 0, N3)
    observed = seen(one.cluster.snapshot())
    for stops, begins in (
        (Stops(), True),
        (Stops({"n4": why}), True),
        (Stops({"n3": why}), False),
        (Stops(storm=why), False),
    ):
        here = situation(one.ledger, observed, QUICK, one.now(), stops)
        after, held = maintain(one.ledger, here)
        assert any(isinstance(i.action, Drain) for i in after.intents) is begins, stops
        assert (why in [blocked.why for blocked in held]) is not begins, stops
    both = Stops({"n3": why}, storm=because(Kind.STORM, why="many"))
    _, held = maintain(one.ledger, situation(one.ledger, observed, QUICK, one.now(), both))
    assert [blocked.why for blocked in held] == [both.storm], "what stops all work comes first"


def test_how_early_a_node_is_begun_with() -> None:
    nodes = {n.name: n for n in fleet()}
    small = {i.name: i for i in mirrored(("n3", "n4"))}
    large = {"i1": replace(small["i1"], disk=1024 * 1024)}
    few, many = (Snapshot("c", nodes, instances) for instances in (small, large))
    assert Leads(few, ()).of(nodes["n5"]) == 600_000, "nothing is there"
    assert Leads(few, ()).of(nodes["n3"]) == 600_000 + round(
        1.5 * (60_000 + 100 / 0.05 + 100 / 0.03)
    )
    hours = Leads(many, ()).of(nodes["n3"]) / 3_600_000
    assert 14 < hours < 15, "a terabyte at 30 MiB/s, and half as long again"
    quick = [Pace(True, 1000, Ms(1000))] * 10
    assert Leads(many, quick).of(nodes["n3"]) < Leads(many, ()).of(nodes["n3"]) / 10
    slow = [*quick, *[Pace(True, 10, Ms(1000))] * 5]
    assert Leads(many, slow).of(nodes["n3"]) > Leads(many, ()).of(nodes["n3"]), "by the slow ones"


@pytest.mark.measures
def test_a_window_of_all_machines_costs_a_round_next_to_nothing() -> None:
    """All instances were looked at for each machine: 5 s at 1,000 nodes and 20,000 instances."""
    nodes = {f"n{n}": Node(f"n{n}", f"u{n}", f"10.0.{n // 250}.{n % 250}") for n in range(1000)}
    instances = {
        f"i{n}": Instance(f"i{n}", f"n{n % 1000}", f"n{(7 * n + 1) % 1000}") for n in range(20_000)
    }
    there = Snapshot("c", nodes, instances, {"default": Group("default", "default")}, "n0")
    when = Unavailability(Nanoseconds((NOW + 30 * 86_400_000) * NANOSECONDS))
    whole = Schedule((Window(tuple(map(Machine, nodes)), when),))
    planned = changed(Ledger(), SetSchedule(whole), there, NOW)
    assert isinstance(planned, Ledger)
    observed = Observed(there, dict.fromkeys(nodes, OK))
    began = process_time()
    assert not wants_room(planned, observed, NOW)
    decision = decide(planned, observed, QUICK, NOW)
    view = View(NOW, decision.ledger, observed, decision.held)
    assert len(calendar(view)["windows"][0]["machines"]) == 1000
    assert process_time() - began < 1.0


def test_a_window_that_has_ended_is_not_begun_any_more() -> None:
    one = rig()
    plan(one, 2 * HOUR, N3)
    one.time += 31 * 24 * HOUR  # somebody else's maintd was the master's
    until_calm(one)
    assert one.jobs() == []
    late = [
        [held.why for held in one.tick(600).decision.held if held.why.kind is Kind.LATE_DRAINING]
        for _ in range(2)
    ]
    assert late[0] == late[1] != [], "the journal is told once"
    down(one, "n3")
    until_calm(one)
    assert node(one, "n3").offline, "but if somebody says so"


def test_a_refused_step_is_tried_again_later() -> None:
    one = rig()
    plan(one, 0, N3)
    one.tick()
    (drain, *_) = one.ledger.intents
    observed = seen(one.cluster.snapshot(), absent={drain.id: "full"})
    (later,) = remember(one.ledger, observed, one.now()).scheduled
    assert (later.not_before, later.stopped) == (one.now() + BACK_OFF, "")


def test_a_failed_move_stops_the_window_until_it_is_changed() -> None:
    one = rig()
    one.cluster.fails = lambda action: isinstance(action, MovePrimary) and "disk broken"
    plan(one, 0, N3)
    one.tick()
    ticks(one, 5, 60)
    moves = sum(job.startswith("MovePrimary") for job in one.jobs())
    assert moves == 1
    (stopped,) = (h.why for h in one.tick().decision.held if h.why.kind is Kind.WINDOW_STOPPED)
    assert "disk broken" in str(dict(stopped.details)["why"])
    one.cluster.fails = lambda _: ""
    plan(one, 60, N3)
    until_calm(one)
    assert on(one, "n3") == []
