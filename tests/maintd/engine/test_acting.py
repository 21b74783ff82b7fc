"""The right to act has ended by a deadline: nothing happens any more."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from unittest.mock import patch

import pytest

from nodeagent.errors import Unavailable
from nodeagent.maintd.engine import failpoint
from nodeagent.maintd.engine.conduct import Acting, Conduct
from nodeagent.model.ledger import Intent
from nodeagent.model.snapshot import Snapshot
from nodeagent.protocol.look import Look
from tests.maintd.rig import QUICK, Rig, fleet
from tests.maintd.world import EVACUATE, REPAIR

HOUR = 3600.0


# The age of a vote.


def asleep(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, place: str, seconds: float
) -> Callable[[], int]:
    """Let the machine sleep once at a failpoint; return how often it did."""
    slept: list[str] = []

    def reach(name: str) -> None:
        if name == place and not slept:
            slept.append(name)
            rig.time += seconds

    monkeypatch.setattr(failpoint, "reach", reach)
    return lambda: len(slept)


@pytest.mark.parametrize("vote", [True, False])
@pytest.mark.parametrize("place", ["observed", "saved", "promised"])
def test_a_vote_is_too_old_after_an_hour_of_sleep(
    monkeypatch: pytest.MonkeyPatch, place: str, *, vote: bool
) -> None:
    """It was cut off before, so its own files and its own luxid still name it."""
    rig = Rig(fleet(), [], QUICK)
    rig.engine.acting.conduct = replace(rig.engine.conduct, vote=vote)
    rig.tick()
    rig.agents.says["n5"] = EVACUATE
    slept = asleep(rig, monkeypatch, place, HOUR)
    while not slept():
        rig.tick()
    done = rig.jobs()
    if vote:
        assert done == [], "all nodes may name another master by now"
    else:
        assert done != [], "Ganeti's own files and luxid were asked again"
    for _ in range(10):
        rig.tick(20)
    assert any("Drain" in job for job in rig.jobs()), "the next vote lets it go on"


def test_the_vote_is_as_old_as_the_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(fleet(), [], QUICK)
    rig.tick()
    rig.agents.says["n5"] = EVACUATE
    look = rig.agents.look

    async def slow(snapshot: Snapshot) -> Mapping[str, Look]:
        found = await look(snapshot)
        rig.time += 91  # the first answers are that old
        return found

    rig.agents.look = slow  # type: ignore[method-assign]
    for _ in range(5):
        rig.tick()
    assert rig.jobs() == []


def test_a_machine_that_sleeps_before_an_order_does_not_give_it() -> None:
    rig = Rig(fleet(), [], QUICK)
    rig.agents.says["n2"] = REPAIR
    may = rig.engine._submitter._may_act

    async def late(intents: Sequence[Intent]) -> bool:
        found = await may(intents)
        rig.time += HOUR
        return found

    with patch.object(rig.engine._submitter, "_may_act", late):
        for _ in range(5):
            rig.tick()
    assert not rig.agents.asked
    for _ in range(10):
        rig.tick(20)
    assert rig.agents.ran


def test_the_right_to_act_by_itself() -> None:
    now = [1000.0]
    acting = Acting(Conduct("n1", lambda: None, clock=lambda: now[0]))
    with pytest.raises(Unavailable):
        acting.check()
    acting.named(acting.now())
    acting.check()
    now[0] += 90
    with pytest.raises(Unavailable, match="more than 90 s ago"):
        acting.check()
