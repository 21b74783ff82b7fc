"""A clock that was put back or forward makes no wait longer and ends none early."""

from dataclasses import replace

from nodeagent.maintd.ledger.clock import rewind
from nodeagent.model.action import Drain, Scope
from nodeagent.model.incident import Status
from nodeagent.model.ledger import Hold, Ledger
from nodeagent.model.reason import Kind
from nodeagent.model.snapshot import Instance
from nodeagent.model.units import Ms
from nodeagent.model.window import Schedule, Window
from nodeagent.model.wish import SetSchedule
from tests.maintd.decided import kinds
from tests.maintd.rig import QUICK
from tests.maintd.rounds import broken, ticks
from tests.maintd.windows.rounds import DAY, N3, node, rig, until_calm, when
from tests.maintd.world import EVACUATE, NOW, OK


def test_a_clock_put_back_makes_no_wait_for_an_effect_longer() -> None:
    rig = broken()
    rig.skew = 7 * 86_400
    rig.time += 1.5
    rig.cluster.snapshot()
    rig.cluster.undrain("n3")
    rig.round()
    rig.skew = 0
    done = ticks(rig, 30)
    assert not rig.ledger.intents
    assert kinds(done.decision.held)[0] == (Kind.PUT_BACK_BY_OTHERS, "n3")


def test_a_clock_put_forward_for_a_round_gives_up_nothing() -> None:
    rig = broken()
    rig.cluster.put(Instance("p", "n3", template="plain"))
    ticks(rig, 10)
    rig.agents.says["n3"], rig.skew = OK, 3600
    rig.tick(1)
    rig.agents.says["n3"], rig.skew = EVACUATE, 0
    rig.tick()
    assert rig.status("n3") is Status.PENDING
    rig.agents.says["n3"] = OK
    ticks(rig, 2, QUICK.withdraw / 1000)
    assert rig.status("n3") is Status.CANCELED


def test_a_clock_that_was_ahead_makes_no_wait_longer() -> None:
    one = rig()
    one.cluster.fails = lambda action: isinstance(action, Drain)
    one.wish(SetSchedule(Schedule((Window((N3,), when(one, 0, 90 * DAY)),))))
    one.skew = 30 * DAY
    for _ in range(4):
        one.tick()
    assert one.ledger.scheduled[0].not_before > one.now()
    one.skew = 0
    one.cluster.fails = lambda _: False
    one.tick()
    assert one.ledger.scheduled[0].since <= one.now()
    one.tick(70)
    until_calm(one)
    assert node(one).drained


def test_a_clock_that_was_ahead_makes_no_pause_longer() -> None:
    ahead, hour = Ms(NOW + 4 * 365 * 86_400_000), 3_600_000
    timed = Hold(Scope.CLUSTER, "", "a", ahead, until=ahead + 2 * hour)
    endless = Hold(Scope.NODE, "n3", "a", ahead)
    ended = rewind(Ledger(holds=(timed, endless)), NOW).holds
    assert [(hold.since, hold.until) for hold in ended] == [(NOW, NOW + 2 * hour), (NOW, 0)]
    past = Ledger(holds=(replace(timed, since=Ms(NOW - hour), until=Ms(NOW + hour)),))
    assert rewind(past, NOW).holds == past.holds
