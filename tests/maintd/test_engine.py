"""The engine against the simulated cluster, with the power cut at every effect."""

import asyncio
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any

import pytest

from nodeagent.cluster.simulated import SimulatedCluster
from nodeagent.errors import Unavailable
from nodeagent.maintd.engine import Engine
from nodeagent.model.action import Action, AddTag, Drain, MovePrimary, RunCommand
from nodeagent.model.diagnosis import Diagnosis
from nodeagent.model.incident import Status
from nodeagent.model.ledger import Intent, Ledger, Outcome, Policy
from nodeagent.model.snapshot import Instance, Node, Snapshot
from nodeagent.protocol.look import Distrusted, Look, Seen, Silent
from nodeagent.protocol.messages import Report
from tests.maintd.world import EVACUATE, NOW, OK, REPAIR, node


class Disk:
    def __init__(self) -> None:
        self.ledger = Ledger()

    def load(self) -> Ledger:
        return self.ledger

    def save(self, ledger: Ledger) -> None:
        self.ledger = ledger


class Agents:
    """What the nodes say, and the orders they were given."""

    def __init__(self) -> None:
        self.sick: dict[str, Diagnosis] = {}
        self.odd: dict[str, Look] = {}
        self.ran: list[tuple[str, str, str]] = []
        self.receipts: dict[str, Outcome] = {}
        self.result = Outcome.SUCCESS

    async def look(self, snapshot: Snapshot) -> Mapping[str, Look]:
        return {name: self.odd.get(name) or self._seen(name) for name in snapshot.nodes}

    def _seen(self, name: str) -> Seen:
        said = self.sick.get(name, OK)
        report = Report(
            "c", "", name, "e", 1, NOW, said.text, 10**15, None, {}, True, "n1", "", "0"
        )
        return Seen(report, said)

    async def submit(self, intent: Intent, snapshot: Snapshot) -> str:
        job = f"order-{intent.reason}"
        assert isinstance(intent.action, RunCommand)
        if job not in self.receipts:  # the agent runs an order once, however often it comes
            self.ran.append((intent.node, intent.action.command, intent.action.stdin))
            self.receipts[job] = self.result
        return job

    async def outcome(self, job: str, node: Node) -> Outcome:
        return self.receipts.get(job, Outcome.LOST)


class World:
    """A disk, a cluster and its agents, which outlive any engine."""

    def __init__(self, takes: float = 1.0) -> None:
        self.time = 0.0
        self.disk, self.agents = Disk(), Agents()
        self.cluster = SimulatedCluster.of(
            lambda: self.time,
            [node(f"n{i}") for i in range(1, 7)],
            [Instance("web", "n1", "n2"), Instance("db", "n3", "n1"), Instance("mail", "n4", "n5")],
        )
        self.cluster.takes = lambda _: takes

    def engine(self) -> Engine:
        def now() -> int:
            return NOW + int(self.time * 1000)

        agents: Any = self.agents
        return Engine(
            self.disk, self.cluster, agents, self.agents.look, Policy(), now, oldest=10**16
        )

    def rounds(self, number: int) -> None:
        for _ in range(number):
            asyncio.run(self.engine().one_round())
            self.time += 1.0

    def actions(self) -> list[Action]:
        """What was done; tags without the id, which depends on when it was noted."""
        done: list[Action] = [job.action for job in self.cluster.jobs.values()]
        return [
            AddTag(a.node, a.tag.rpartition(":")[0]) if isinstance(a, AddTag) else a for a in done
        ]

    def statuses(self) -> list[Status]:
        return [incident.status for incident in self.disk.ledger.incidents]


def test_a_broken_node_is_emptied_taken_offline_and_tagged() -> None:
    world = World()
    world.agents.sick["n1"] = EVACUATE
    world.rounds(12)
    snapshot = world.cluster.snapshot()
    assert world.statuses() == [Status.COMPLETED]
    assert snapshot.nodes["n1"].offline
    assert {"n1"}.isdisjoint({i.primary for i in snapshot.instances.values()})
    assert {"n1"}.isdisjoint({i.secondary for i in snapshot.instances.values()})
    (incident,) = world.disk.ledger.incidents
    assert snapshot.nodes["n1"].tags == {f"maintd:repairready:{incident.id}"}
    assert incident.jobs == tuple(world.cluster.jobs)


def test_live_repair_orders_the_command_once_with_the_very_diagnosis() -> None:
    world = World()
    world.agents.sick["n1"] = REPAIR
    world.rounds(8)
    assert world.agents.ran == [("n1", "fix-nic", REPAIR.text)]
    assert world.statuses() == [Status.COMPLETED]


@pytest.mark.parametrize("result", [Outcome.ERROR, Outcome.LOST])
def test_a_failed_repair_is_tagged_failed_and_never_repeated(result: Outcome) -> None:
    world = World()
    world.agents.sick["n1"], world.agents.result = REPAIR, result
    world.rounds(10)
    assert len(world.agents.ran) == 1
    assert world.statuses() == [Status.FAILED]
    assert world.actions() == [AddTag("n1", "maintd:repairfailed")]


def test_a_failing_job_stops_everything_for_its_incident() -> None:
    world = World()
    world.agents.sick["n1"] = EVACUATE
    world.cluster.fails = lambda action: isinstance(action, MovePrimary)
    world.rounds(12)
    assert world.statuses() == [Status.FAILED]
    kinds = [type(action).__name__ for action in world.actions()]
    assert kinds == ["Drain", "MoveSecondary", "MovePrimary", "AddTag"]


def test_a_lost_answer_is_found_again_and_not_repeated() -> None:
    world = World()
    world.agents.sick["n1"] = EVACUATE
    lost = count()
    world.cluster.loses_answer = lambda _: next(lost) % 2 == 0
    world.rounds(25)
    assert world.statuses() == [Status.COMPLETED]
    assert len(world.actions()) == len(set(world.actions()))


def test_a_job_that_ends_while_we_look_is_not_done_again() -> None:
    """A snapshot older than a known outcome once took a node offline twice."""
    world = World(takes=0.5)
    world.agents.sick["n1"] = EVACUATE
    real = world.agents.look

    async def slow(snapshot: Snapshot) -> Mapping[str, Look]:
        world.time += 0.5
        return await real(snapshot)

    world.agents.look = slow  # type: ignore[method-assign]
    world.rounds(12)
    assert world.statuses() == [Status.COMPLETED]
    assert len(world.actions()) == len(set(world.actions()))


@pytest.mark.parametrize(
    "odd", [Silent("hangs"), Distrusted("forged")], ids=["silent", "distrusted"]
)
def test_doubt_never_acts(odd: Look) -> None:
    world = World()
    world.agents.odd["n1"] = odd
    world.rounds(6)
    assert world.actions() == []
    assert world.disk.ledger.incidents == ()


def test_an_unreachable_cluster_changes_nothing() -> None:
    world = World()
    world.agents.sick["n1"] = EVACUATE
    world.cluster.down = True
    with pytest.raises(Unavailable):
        world.rounds(1)
    assert world.disk.ledger == Ledger()


class PowerCut(BaseException):
    """The machine is gone between two instructions."""


def fragile(world: World, cut: Callable[[int], bool]) -> None:
    """Cut the power before and after every effect for which `cut` says so."""
    number = count(1)

    def tick() -> None:
        if cut(next(number)):
            raise PowerCut

    save, submit = world.disk.save, world.cluster.submit

    def fragile_save(ledger: Ledger) -> None:
        tick()
        save(ledger)
        tick()

    def fragile_submit(action: Action, reason: str) -> str:
        tick()
        job = submit(action, reason)
        tick()
        return job

    world.disk.save = fragile_save  # type: ignore[method-assign]
    world.cluster.submit = fragile_submit  # type: ignore[method-assign]


def story(sick: Diagnosis, takes: float, cut: Callable[[int], bool]) -> World:
    world = World(takes)
    world.agents.sick["n1"] = sick
    fragile(world, cut)
    for _ in range(60):
        try:
            asyncio.run(world.engine().one_round())
        except PowerCut:
            pass
        world.time += 1.0
    return world


@pytest.mark.parametrize("sick", [EVACUATE, REPAIR], ids=["evacuate", "live-repair"])
@pytest.mark.parametrize("takes", [1.0, 4.0])
@pytest.mark.parametrize("second", [1, 2, 3, 5])
def test_the_power_may_fail_twice_anywhere(sick: Diagnosis, takes: float, second: int) -> None:
    undisturbed = story(sick, takes, lambda _: False)
    assert undisturbed.statuses() == [Status.COMPLETED]
    for first in range(1, 50):
        cuts = {first, first + second}
        world = story(sick, takes, cuts.__contains__)
        assert sorted(map(str, world.actions())) == sorted(map(str, undisturbed.actions())), first
        assert world.statuses() == [Status.COMPLETED], first
        assert len(world.agents.ran) == len(undisturbed.agents.ran), first


def test_the_power_test_can_fail() -> None:
    """Without the look-up by reason, a cut after a submission doubles the job."""
    undisturbed = story(EVACUATE, 1.0, lambda _: False)
    doubled = 0
    for first in range(1, 20):
        world = World()
        world.agents.sick["n1"] = EVACUATE
        world.cluster.find = lambda reason: None  # type: ignore[method-assign]
        fragile(world, {first}.__contains__)
        for _ in range(30):
            try:
                asyncio.run(world.engine().one_round())
            except PowerCut:
                pass
            world.time += 1.0
        doubled += world.actions() != undisturbed.actions()
    assert doubled


def test_an_old_finished_job_is_lost_not_repeated() -> None:
    world = World()
    world.agents.sick["n1"] = EVACUATE
    world.rounds(1)
    world.time += 40 * 86400
    world.rounds(3)
    assert world.actions() == [Drain("n1"), AddTag("n1", "maintd:repairfailed")]
    assert world.statuses() == [Status.FAILED]
