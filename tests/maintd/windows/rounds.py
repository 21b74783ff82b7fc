"""A rig in which operators change the schedule, and owners are asked."""

from collections.abc import Sequence
from datetime import date
from typing import Any

from nodeagent.maintd.engine.timezones import read_zone
from nodeagent.model.ledger import Policy
from nodeagent.model.series import Member, Series, Weekly
from nodeagent.model.snapshot import Node, Snapshot
from nodeagent.model.units import Nanoseconds, Seconds
from nodeagent.model.window import Consent, Machine, Schedule, Unavailability, Window
from nodeagent.model.wish import BringUp, SetSchedule, TakeDown
from tests.maintd.rig import QUICK, Rig, ask, fleet, mirrored
from tests.maintd.world import NOW

HOUR, DAY = 3600, 86_400
N3 = Machine("n3")


def rig(policy: Policy = QUICK) -> Rig:
    return Rig(fleet(), mirrored(("n3", "n4"), ("n5", "n3")), policy)


def when(one: Rig, ahead: float, lasting: float = HOUR) -> Unavailability:
    return Unavailability(
        Nanoseconds(round((one.time + ahead) * 1e9)), Nanoseconds(round(lasting * 1e9))
    )


def wish(one: Rig, ahead: float = 0, *machines: Machine, consent: Consent | None = None) -> str:
    there = Schedule((Window(machines, when(one, ahead)),) if machines else ())
    return one.wish(SetSchedule(there, (), (consent,) if machines else ()))


def plan(one: Rig, ahead: float = 0, *machines: Machine) -> None:
    wish(one, ahead, *machines)
    one.tick()


def down(one: Rig, *names: str) -> None:
    assert ask(one, TakeDown(tuple(map(Machine, names)))) == ""


def up(one: Rig, *names: str) -> None:
    assert ask(one, BringUp(tuple(map(Machine, names)))) == ""


def until_calm(one: Rig, seconds: float = 60.0) -> None:
    """Hold rounds until nothing is under way any more."""
    calm = 0
    for _ in range(200):
        one.tick(seconds)
        calm = 0 if one.ledger.intents else calm + 1
        if calm == 3:
            return
    raise AssertionError(one.ledger.intents)


def node(one: Rig, name: str = "n3") -> Node:
    return one.cluster.nodes[name]


SUNDAY = date(2026, 11, 22).toordinal()
RULE = Weekly((6,), 120, "Europe/Zurich", Seconds(2 * HOUR), SUNDAY)
ZONE = read_zone("Europe/Zurich", NOW)
assert ZONE is not None
ZONES = {"Europe/Zurich": ZONE}


def world_of(names: Sequence[str]) -> Snapshot:
    return Snapshot("c", {n: Node(n, f"uuid-{n}", f"at-{n}") for n in names})


def of(names: Sequence[str], number: int = 1, rule: Weekly = RULE, **more: Any) -> Series:
    return Series(
        number, f"u{number}", "root", rule, tuple(Member(Machine(n), **more) for n in names)
    )
