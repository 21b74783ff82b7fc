"""maintd dies before or after each effect: on its store, on the rule of its ledger, on Ganeti.

Somebody asks for things, a node is evacuated, and the master changes meanwhile. Whoever wakes
afterwards, on the same node or as the master on another, knows all that was acknowledged, and
Ganeti gets the jobs that it would have got without a death.
"""

import os
from collections import Counter
from functools import cache
from random import Random

import pytest

from nodeagent.maintd.engine.round import Engine
from nodeagent.model.incident import Status
from nodeagent.model.ledger import Outcome
from nodeagent.model.units import Seconds
from nodeagent.model.window import Machine
from nodeagent.model.wish import AddSeries
from tests.maintd.lives.masters import B, C, M, Masters
from tests.maintd.lives.mortal import Died, Life, Mortal
from tests.maintd.rig import ID
from tests.maintd.world import EVACUATE

# What it does to the outside, by whom it asks.
STORE = ("save", "wish")
CLUSTER = ("write_ledger_rule", "submit")
PLACES = tuple(f"{when} {name}" for name in STORE + CLUSTER for when in ("before", "after"))
# How often it dies at each place, at random reaches of those there are.
REACHES = int(os.environ.get("FAULTS_REACHES", "2"))
DAYS = 7


class Story(Masters):
    """What happens; maintd dies once in it, where it is told to, and begins again."""

    def __init__(self, place: str = "", nth: int = 1) -> None:
        self.life = self.first = Life(place, nth)
        self.asked = 0
        self.acknowledged: set[int] = set()
        super().__init__()

    def _engine(self) -> Engine:
        agents = self.agents
        self._through = lambda cluster: Mortal(cluster, self.life, CLUSTER)
        self.store = Mortal(self.store, self.life, STORE)  # type: ignore[assignment]
        self.agents = Mortal(agents, self.life, CLUSTER)  # type: ignore[assignment]
        try:
            return super()._engine()
        finally:
            self.agents = agents

    def again(self, *, elsewhere: bool) -> None:
        """Start maintd after its death."""
        self.life = Life()
        if elsewhere:
            self.fail_over(C if self.me == B else B)
        else:
            self.wake(self.me)

    def requests(self) -> None:
        """Add a series, which leaves nothing in Ganeti; ask until that is acknowledged."""
        for _ in range(6):
            self.asked += 1
            on = (self.asked % DAYS,)
            one = AddSeries((Machine("n6"),), on, self.asked, "Europe/Zurich", Seconds(60))
            wish = self.wish(one)
            self.tick()
            if self.store.answer(wish) == "" and not self.engine.memory.only_here():
                self.acknowledged.add(self.asked)
                return
        raise AssertionError("it is never acknowledged")

    def requests_twice(self) -> None:
        self.requests()
        self.requests()

    def breaks(self) -> None:
        self.agents.says["n3"] = EVACUATE
        for _ in range(4):
            self.tick()

    def moves(self) -> None:
        if self.me == M:
            self.fail_over(B)
        self.tick()

    def ends(self) -> None:
        self.until_true(lambda: self.status("n3") is Status.COMPLETED)

    def live(self, *, elsewhere: bool = False) -> None:
        """Go through all parts of the story; the one in which maintd dies, once more."""
        self.cluster.takes = lambda _: 15.0
        for part in (
            self.requests_twice,
            self.breaks,
            self.requests,
            self.moves,
            self.requests,
            self.ends,
        ):
            try:
                part()
                self.life.check()
            except Died:
                self.again(elsewhere=elsewhere)
                part()

    def done(self) -> list[str]:
        """What Ganeti has done, whatever incident it is for and where to a mirror goes."""
        jobs = self.cluster.jobs
        done = self.cluster.results(jobs)
        well = [jobs[one].action for one in jobs if done[one].outcome is Outcome.SUCCESS]
        return sorted(ID.sub("<id>", str(action)).partition(", target=")[0] for action in well)


@cache
def undisturbed() -> tuple[Counter[str], list[str]]:
    """How often each place is reached, and what is done."""
    story = Story()
    story.live()
    return story.first.reached, story.done()


@pytest.mark.parametrize("elsewhere", [False, True], ids=["wakes", "taken-over"])
@pytest.mark.parametrize("place", PLACES)
def test_all_is_known_and_done_once(place: str, elsewhere: bool) -> None:
    """It dies at random reaches of a place, and wakes there or on the next master."""
    reached, done = undisturbed()
    many = reached[place]
    assert many, reached
    for nth in sorted(Random(place).sample(range(1, many + 1), min(many, REACHES))):
        story = Story(place, nth)
        story.live(elsewhere=elsewhere)
        assert story.first.over
        there = {one.rule.minute for one in story.ledger.series}
        assert story.acknowledged <= there, nth
        assert story.done() == done, nth
