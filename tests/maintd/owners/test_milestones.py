"""Owners are told what became of what they were asked, by webhook and command."""

import json
from dataclasses import replace
from typing import Any

from nodeagent.maintd.owners import milestones
from nodeagent.model.ledger import Ledger
from nodeagent.model.offer import Announcing, Milestone, Progress, Reply
from nodeagent.model.units import Ms, Nanoseconds, Seconds
from nodeagent.model.window import Machine, Schedule, Unavailability, Window
from nodeagent.model.wish import AnswerOffers, BringUp, SetSchedule, TakeDown
from tests.maintd.owners.owned import instance
from tests.maintd.rig import QUICK, Rig, fleet
from tests.maintd.rounds import ticks
from tests.maintd.world import NOW

N3 = Machine("n3")
INSTANCES = [instance("i1", "db"), instance("i2", "web"), instance("i3")]


def rig(**more: Any) -> Rig:
    one = Rig(
        fleet(),
        INSTANCES,
        replace(QUICK, announcing=Announcing("tell-owners", Seconds(45))),
        **more,
    )
    one.wish(plan(one))
    ticks(one, 4)
    return one


def plan(one: Rig, after: float = 86400) -> SetSchedule:
    when = Unavailability(Nanoseconds(round((one.time + after) * 1e9)))
    return SetSchedule(Schedule((Window((N3,), when),)))


def events(one: Rig) -> list[tuple[str, str]]:
    """What the command was told, to whom, in order."""
    told = [row for order in one.agents.orders for row in json.loads(order.stdin).get("events", [])]
    return [(row["event"], row["owner"]) for row in told]


def test_who_was_asked_is_told_when_it_starts_and_ends() -> None:
    one = rig()
    one.wish(AnswerOffers(tuple(o.id for o in one.ledger.offers), Reply.ACCEPT, Ms(10**9)))
    one.wish(TakeDown((N3,)))
    ticks(one, 4)
    assert events(one) == [("started", "db"), ("started", "web")]
    ticks(one, 70, 60)
    assert len(events(one)) == 2, "and once"
    one.wish(BringUp((N3,)))
    ticks(one, 4)
    assert events(one)[2:] == [("finished", "db"), ("finished", "web")]
    ticks(one, 70, 60)
    assert one.ledger.milestones == ()


def test_a_milestone_is_told_for_an_hour() -> None:
    when = Unavailability(Nanoseconds(NOW * 10**6))
    one = Milestone("e", "db", "uuid-n3", Progress.CANCELED, ("i1",), when, NOW)
    ledger = Ledger(milestones=(one,))
    assert [found.at for found in milestones.to_tell(ledger, NOW)] == [NOW]
    later = NOW + milestones.KEEP
    assert milestones.to_tell(ledger, later) == []
    assert milestones.note(ledger, ledger, (), later).milestones == ()
