"""maintd dies before or after each effect: on its store, on the copies of its ledger, on Ganeti.

Somebody asks for things, a node is evacuated, and the master changes meanwhile. Whoever wakes
afterwards, on the same node or as the master on another, knows all that was acknowledged, and
Ganeti gets the jobs that it would have got without a death.
"""

import asyncio
import os
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from random import Random
from typing import Any
from uuid import uuid4

import pytest

from nodeagent.maintd.engine import memory
from nodeagent.maintd.engine import round as rounds
from nodeagent.maintd.engine.keeping import Keeping
from nodeagent.maintd.engine.memory import Copies
from nodeagent.maintd.engine.round import Engine
from nodeagent.maintd.engine.takeover import Takeover
from nodeagent.model.incident import Status
from nodeagent.model.ledger import Outcome
from nodeagent.model.units import Seconds
from nodeagent.model.window import Machine
from nodeagent.model.wish import AddSeries
from nodeagent.store.etcd.client import Client
from nodeagent.store.etcd.store import EtcdStore, Options
from nodeagent.store.sqlite import SqliteStore
from tests.maintd import inline
from tests.maintd.lives.mortal import Died, Life, Mortal
from tests.maintd.lives.test_copies import B, C, Candidacy, M
from tests.maintd.planning.test_claims import WATCHES, Shared, policy
from tests.maintd.rig import ID
from tests.maintd.world import EVACUATE
from tests.store.etcd.server import needed, shared
from tests.store.etcd.taking import Taking

# What it does to the outside, by whom it asks.
STORE = ("begin", "save", "wish")
AGENTS = ("promise", "put", "fetch")
CLUSTER = ("submit",)
PLACES = tuple(
    f"{when} {name}" for name in STORE + AGENTS + CLUSTER for when in ("before", "after")
)
# How often it dies at each place, at random reaches of those there are.
REACHES = int(os.environ.get("FAULTS_REACHES", "2"))
DAYS = 7
_ASKED = ("kv/txn", "kv/range", "lease/grant", "lease/keepalive")
IN_ETCD = tuple(f"{when} {name}" for name in (*_ASKED, *CLUSTER) for when in ("before", "after"))


class Story(Shared):
    """What happens; maintd dies once in it, where it is told to, and begins again."""

    def begin(self, place: str, nth: int) -> None:
        self.life = self.first = Life(place, nth)
        self.asked = 0
        self.acknowledged: set[int] = set()

    def again(self, *, elsewhere: bool) -> None:
        """Start maintd after its death."""
        raise NotImplementedError

    def another(self) -> None:
        """Another becomes the master while the old one lives."""
        raise NotImplementedError

    def is_safe(self) -> bool:
        """Whether what is saved is where the next master finds it."""
        raise NotImplementedError

    def close(self) -> None:
        """End whoever lives."""
        raise NotImplementedError

    def requests(self) -> None:
        """Add a series, which leaves nothing in Ganeti; ask until that is acknowledged."""
        for _ in range(6):
            self.asked += 1
            on = (self.asked % DAYS,)
            one = AddSeries((Machine("n6"),), on, self.asked, "Europe/Zurich", Seconds(60))
            wish = self.wish(one)
            self.tick()
            if self.store.answer(wish) == "" and self.is_safe():
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
            self.another()
        self.tick()

    def ends(self) -> None:
        self.until_true(lambda: self.status("n3") is Status.COMPLETED)

    def live(self, *, elsewhere: bool = False) -> None:
        """Go through all parts of the story; the one in which maintd dies, once more."""
        self.cluster.takes = lambda _: 15.0
        for part in (
            *(self.requests_twice, self.breaks, self.requests, self.moves, self.requests),
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


class Copied(Story, Candidacy):
    """With a ledger on each node's disk, and copies on the candidates."""

    def __init__(self, place: str = "", nth: int = 1) -> None:
        self.begin(place, nth)
        Candidacy.__init__(self)

    def _engine(self) -> Engine:
        if not hasattr(self, "candidates"):
            return super()._engine()
        agents = self.agents
        self._through = lambda cluster: Mortal(cluster, self.life, CLUSTER)
        self.store = Mortal(self.store, self.life, STORE)  # type: ignore[assignment]
        self.agents = Mortal(agents, self.life, CLUSTER)  # type: ignore[assignment]
        try:
            return super()._engine()
        finally:
            self.agents = agents

    def _copies(self, store: SqliteStore) -> Copies:
        asked = Mortal(self.candidates, self.life, AGENTS)
        return Copies(store, Keeping(asked, self.now, _soon), Takeover(asked, self.now, 2.0))

    def again(self, *, elsewhere: bool) -> None:
        self.sleep()
        self.life = Life()
        if elsewhere:
            self.fail_over(C if self.me == B else B)
        else:
            self.wake(self.me)

    def another(self) -> None:
        self.fail_over(B, dead=False)

    def close(self) -> None:
        self.sleep()

    def is_safe(self) -> bool:
        return not inline.run(self.engine.memory.kept(0.1))


class InEtcd(Story):
    """With a ledger in a real etcd, below a prefix of its own."""

    def __init__(self, place: str = "", nth: int = 1) -> None:
        self.begin(place, nth)
        Shared.__init__(self, policy(WATCHES), heals="nothing")
        self._prefix = f"/{uuid4()}/"
        self._open()

    def _open(self) -> None:
        client = MortalClient(self.life)
        self.store = EtcdStore(  # type: ignore[assignment]
            client,
            self._prefix,
            lambda client, key: Taking(client, key, self.me),
            self.now,
            Options(patience=0.0, care=3600.0),
        )
        self.crash()

    def _engine(self) -> Engine:
        self._through = lambda cluster: Mortal(cluster, self.life, CLUSTER)
        return super()._engine()

    def close(self) -> None:
        with suppress(Died):
            self.store.close()

    def again(self, *, elsewhere: bool) -> None:
        self.close()
        self.life = Life()
        if elsewhere:
            self._move(C if self.me == B else B)
        self._open()

    def another(self) -> None:
        self.close()
        self._move(B)
        self._open()

    def _move(self, name: str) -> None:
        self.me = self.agents.master = name
        self.cluster.set_master(name)

    def is_safe(self) -> bool:
        return True


class MortalClient(Client):
    """A client whose maintd may die before and after each request to etcd."""

    def __init__(self, life: Life) -> None:
        super().__init__([shared().url])
        self._life = life

    async def change(
        self, path: str, body: Mapping[str, Any], *, seconds: float | None = None
    ) -> dict[str, Any]:
        self._life.reach(f"before {path}")
        answer = await super().change(path, body, seconds=seconds)
        self._life.reach(f"after {path}")
        return answer


async def _soon(_: float) -> None:
    await asyncio.sleep(0.001)


_quiet: dict[str, tuple[Counter[str], list[str]]] = {}


def undisturbed(kind: type[Copied] | type[InEtcd]) -> tuple[Counter[str], list[str]]:
    """How often each place is reached, and what is done."""
    if kind.__name__ not in _quiet:
        story = kind()
        story.live()
        story.close()
        _quiet[kind.__name__] = story.first.reached, story.done()
    return _quiet[kind.__name__]


def dies(kind: type[Copied] | type[InEtcd], place: str, most: int, *, elsewhere: bool) -> None:
    """Let it die at random reaches of a place; `most` of them."""
    reached, done = undisturbed(kind)
    many = reached[place]
    assert many, reached
    for nth in sorted(Random(place).sample(range(1, many + 1), min(many, most))):
        story = kind(place, nth)
        story.live(elsewhere=elsewhere)
        assert story.first.over
        there = {one.rule.minute for one in story.ledger.series}
        assert story.acknowledged <= there, nth
        assert story.done() == done, nth
        story.close()


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_SPREADS", 0.2)
    monkeypatch.setattr(rounds, "_COPIED", 0.2)


@pytest.mark.parametrize("elsewhere", [False, True], ids=["wakes", "taken-over"])
@pytest.mark.parametrize("place", PLACES)
def test_with_copies_all_is_known_and_done_once(place: str, elsewhere: bool) -> None:
    dies(Copied, place, REACHES, elsewhere=elsewhere)


@needed
@pytest.mark.parametrize("elsewhere", [False, True], ids=["wakes", "taken-over"])
@pytest.mark.parametrize("place", IN_ETCD)
def test_in_etcd_all_is_known_and_done_once(place: str, elsewhere: bool) -> None:
    dies(InEtcd, place, REACHES, elsewhere=elsewhere)
