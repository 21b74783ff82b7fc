"""maintd dies at each of its failpoints, and wakes there or on the next master.

Somebody asks for things, a node is evacuated, another one is repaired live, a machine is in the
repair queue, and the master changes meanwhile. Whoever wakes knows all that was acknowledged.
Ganeti gets the jobs and agents the orders that they would have got without a death.
"""

import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from random import Random
from unittest.mock import patch

import pytest

from nodeagent.maintd.engine import failpoint
from nodeagent.maintd.engine.failpoint import NAMES
from nodeagent.model.incident import Status
from nodeagent.model.ledger import Outcome
from nodeagent.model.queue import EntryStatus
from nodeagent.model.units import Seconds
from nodeagent.model.window import Machine
from nodeagent.model.wish import AddEntry, AddSeries
from tests.maintd.lives.masters import B, C, M, Masters
from tests.maintd.rig import ID
from tests.maintd.world import EVACUATE, OK, REPAIR

# How often it dies at each place, at random reaches of those there are.
REACHES = int(os.environ.get("FAULTS_REACHES", "2"))
DAYS = 7
ADOPTED = "adopted"  # it is reached only after another death


class Died(BaseException):
    """maintd is no more; no handler of errors sees it."""


@dataclass
class Life:
    """One maintd's life, which ends when `place` is reached for the nth time; empty: never."""

    place: str = ""
    nth: int = 1
    reached: Counter[str] = field(default_factory=Counter)
    over: bool = False

    def reach(self, place: str) -> None:
        self.reached[place] += 1
        self.over = self.over or (place, self.reached[place]) == (self.place, self.nth)
        if self.over:
            raise Died(place)


class Story(Masters):
    """What happens, while maintd has one life after another; the last has no end."""

    def __init__(self, *lives: Life) -> None:
        self.lives = list(lives) or [Life()]
        self.first = self.lives[0]
        self.asked = 0
        self.acknowledged: set[int] = set()
        super().__init__()

    def requests(self) -> None:
        """Add a series, which leaves nothing in Ganeti; ask until that is acknowledged."""
        for _ in range(6):
            self.asked += 1
            on = (self.asked % DAYS,)
            series = AddSeries((Machine("n6"),), on, self.asked, "Europe/Zurich", Seconds(60))
            wish = self.wish(series)
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
        self.agents.says["n5"] = REPAIR
        for _ in range(4):
            self.tick()

    def is_unreachable(self) -> None:
        self.tick()  # whoever has just woken knows by then what there is
        if not self.ledger.queue.entries:
            self.ask(AddEntry("unreachable", "r640", "127.0.0.6", "S6"))
        self.until_true(lambda: self.commands() == ["fix-nic", "try-1"])
        self.until_true(lambda: self.status("n5") is Status.COMPLETED)
        self.agents.says["n5"] = OK
        self.healed = True

    def moves(self) -> None:
        if self.me == M:
            self.fail_over(B)
        self.tick()

    def ends(self) -> None:
        self.tick()
        self.until_true(self._is_over)

    def _is_over(self) -> bool:
        (entry,) = self.ledger.queue.entries
        evacuated = self.status("n3") is Status.COMPLETED
        marked = any("maintd:repairing:" in tag for tag in self.cluster.nodes["n5"].tags)
        waits = marked or self.ledger.intents
        return evacuated and not waits and entry.status is EntryStatus.SUCCEEDED

    def live(self, *, elsewhere: bool = False) -> None:
        """Go through all parts of the story; the one in which maintd dies, once more."""
        self.cluster.takes = lambda _: 15.0
        for part in (
            self.requests_twice,
            self.breaks,
            self.requests,
            self.is_unreachable,
            self.moves,
            self.requests,
            self.ends,
        ):
            self._go_through(part, elsewhere=elsewhere)

    def _go_through(self, part: Callable[[], None], *, elsewhere: bool) -> None:
        try:
            with patch.object(failpoint, "reach", self.lives[0].reach):
                part()
        except Died:
            self.lives = self.lives[1:] or [Life()]
            if elsewhere:
                self.fail_over(C if self.me == B else B)
            else:
                self.wake(self.me)
            self._go_through(part, elsewhere=elsewhere)

    def done(self) -> tuple[list[str], list[str]]:
        """What Ganeti has done, and which commands ran.

        For whatever incident that was, and where to a mirror goes.
        """
        jobs = self.cluster.jobs
        done = self.cluster.results(jobs)
        well = [jobs[job].action for job in jobs if done[job].outcome is Outcome.SUCCESS]
        texts = sorted(ID.sub("<id>", str(action)).partition(", target=")[0] for action in well)
        return texts, sorted(self.commands())


@cache
def undisturbed() -> Story:
    story = Story()
    story.live()
    return story


def deaths(place: str) -> list[list[Life]]:
    """Deaths at random reaches of a place."""
    if place == ADOPTED:
        return [[Life("submitted"), Life(ADOPTED)]]
    many = undisturbed().first.reached[place]
    reaches = Random(place).sample(range(1, many + 1), min(many, REACHES))
    return [[Life(place, nth)] for nth in sorted(reaches)]


@pytest.mark.parametrize("elsewhere", [False, True], ids=["wakes", "taken-over"])
def test_all_is_known_and_done_once(elsewhere: bool) -> None:
    done = undisturbed().done()
    for place in NAMES:
        every = deaths(place)
        assert every, f"never reached: {place}"
        for lives in every:
            story = Story(*lives)
            story.live(elsewhere=elsewhere)
            assert all(life.over for life in lives), lives
            known = {series.rule.minute for series in story.ledger.series}
            assert story.acknowledged <= known, lives
            assert story.done() == done, lives
            assert set(story.agents.asked.values()) == {1}, lives
