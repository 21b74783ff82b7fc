"""A store that may not be ours any more: no effect without its word, and no guess about a save."""

from collections.abc import Mapping, Sequence

import pytest

from nodeagent.errors import Unavailable
from nodeagent.model.action import Scope
from nodeagent.model.event import Event
from nodeagent.model.ledger import Ledger
from nodeagent.model.wish import Pause
from nodeagent.store.contract import Unsure
from nodeagent.store.sqlite import MEMORY, SqliteStore
from tests.maintd.rig import QUICK, Rig, fleet
from tests.maintd.world import EVACUATE


class Remote(SqliteStore):
    """A store whose right to act ends after `left` questions, and which loses answers.

    `loses` is how many saves end without an answer; `arrive` whether they happened.
    """

    left, asked = 10**9, 0
    loses, arrive = 0, True

    def check_acting(self) -> None:
        self.asked += 1
        if self.asked > self.left:
            raise Unavailable("the lease may have ended")

    def save(
        self,
        ledger: Ledger,
        events: Sequence[Event] = (),
        answers: Mapping[str, str] | None = None,
        *,
        epoch: int = 0,
    ) -> None:
        self.loses -= 1
        lost = self.loses >= 0
        if self.arrive or not lost:
            super().save(ledger, events, answers, epoch=epoch)
        if lost:
            raise Unsure("no complete answer within 6 s")


@pytest.fixture
def store() -> Remote:
    return Remote(MEMORY)


@pytest.fixture
def rig(store: Remote) -> Rig:
    made = Rig(fleet(), [], QUICK)
    made.store = store
    made.crash()
    return made


@pytest.mark.parametrize("left", [0, 1], ids=["before", "in the thread that sends"])
def test_nothing_is_submitted_once_the_right_to_act_has_ended(
    rig: Rig, store: Remote, left: int
) -> None:
    rig.agents.says["n3"] = EVACUATE
    for _ in range(10):
        if rig.ledger.intents:
            break
        store.left = store.asked + left
        rig.tick(20)
        assert not rig.cluster.jobs
    assert store.asked > left, "it wanted to"
    store.left = 10**9
    for _ in range(10):
        rig.tick(20)
    assert rig.cluster.jobs, "it goes on once it may act"
    assert "maintd:repairready" in str(rig.cluster.nodes["n3"].tags)


@pytest.mark.parametrize("arrive", [True, False])
@pytest.mark.parametrize("loses", [1, 2, 3])
def test_after_a_save_of_unknown_outcome_the_ledger_is_read(
    rig: Rig, store: Remote, loses: int, *, arrive: bool
) -> None:
    """An accepted request is never lost, and each effect happens once."""
    rig.tick(20)
    store.arrive, store.loses = arrive, loses
    rig.agents.says["n3"] = EVACUATE
    rig.wish(Pause(Scope.NODE, "n2", "moving racks"))
    for _ in range(40):  # a tag is tried again after minutes
        try:
            rig.tick(20)
        except Unavailable:
            continue
    assert store.loses < 0
    assert store.answer("w1") == ""
    assert rig.ledger == store.load()
    assert "maintd:pause" in str(rig.cluster.nodes["n2"].tags)
    drains = [job for job in rig.cluster.jobs.values() if "Drain" in type(job.action).__name__]
    assert len(drains) == 1
