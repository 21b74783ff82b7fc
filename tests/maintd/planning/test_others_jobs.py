"""A node is emptied beside somebody else who moves its instances: nothing is moved twice."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import pytest

from nodeagent.errors import Unavailable
from nodeagent.maintd.deciding.decide import decide
from nodeagent.model.action import Move, move_of
from nodeagent.model.ledger import Ledger, Policy
from nodeagent.model.reason import Kind, Reason, because
from nodeagent.model.snapshot import Capacity, Instance, Observed
from nodeagent.model.stage import FULL
from nodeagent.model.units import Ms
from tests.maintd.decided import details
from tests.maintd.rig import Between, Rig, fleet, mirrored
from tests.maintd.world import EVACUATE, FAILOVER, NOW, node, seen, snapshot

WEB = Instance("web", "n1", template="ext", memory=4096, hypervisor="kvm")
DB = Instance("db", "n1", "n2", memory=4096, disk=1000, hypervisor="kvm")
COPY = Instance("copy", "n3", "n1", memory=4096, disk=1000, hypervisor="kvm")
POLICY = Policy(stage=FULL, settle=Ms(0), spare=False)


def world(*instances: Instance, busy: Mapping[str, str], drained: bool = True) -> Observed:
    nodes = [node(f"n{i}", drained=drained and i == 1) for i in range(1, 5)]
    there = {one.name: one for one in instances}
    cluster = replace(snapshot(*nodes), instances=there, master="n4")
    return seen(cluster, {"n1": FAILOVER}, busy=busy)


def begun(observed: Observed, policy: Policy = POLICY) -> tuple[set[str], list[Reason]]:
    """Which instances are moved, and what is held."""
    done = decide(Ledger(), observed, policy, NOW)
    moves = [move for i in done.ledger.intents if (move := move_of(i.action))]
    return {move.instance for move in moves}, [one.why for one in done.held]


def test_what_somebody_else_is_at_work_on_is_left_to_him() -> None:
    moved, held = begun(world(WEB, DB, COPY, busy={"web": "77", "db": "78"}))
    assert moved == {"copy"}
    assert {one.subject.name: one for one in held} == {
        name: because(Kind.LEFT_ALONE, name, why=because(Kind.OTHERS_JOB, job=job))
        for name, job in (("db", "78"), ("web", "77"))
    }


def test_a_node_that_somebody_else_empties_is_left_to_him() -> None:
    moved, held = begun(world(WEB, DB, COPY, busy={"n1": "76"}))
    assert (moved, len(held)) == (set(), 3)
    assert begun(world(WEB, DB, COPY, busy={"n2": "76"}))[0] == {"web", "copy"}


@pytest.mark.parametrize("name", ["other", "n4"])
def test_what_else_he_does_is_waited_for_by_nobody(name: str) -> None:
    assert begun(world(WEB, DB, COPY, busy={name: "76"})) == ({"web", "db", "copy"}, [])


def test_what_he_moves_counts_for_whether_there_is_room() -> None:
    """For it may not have moved when his job is over."""
    kept = Instance("kept", "n4", "n2", memory=5000, disk=10)
    full = world(DB, kept, busy={"db": "78"}, drained=False)
    full = replace(full, capacity={**full.capacity, "n2": Capacity(6000, 10_000)})
    done = decide(Ledger(), full, replace(POLICY, spare=True), NOW)
    assert not done.ledger.intents
    said = details(done.held, Kind.NO_FAILURE_LEFT, "n2")
    assert (said["free"], said["wanted"], said["other"]) == (1904, 5000, "n4")


# By whole rounds.


@dataclass
class Beside(Between):
    """`ask` happens when others' jobs are asked for."""

    ask: Callable[[], object] = lambda: None

    def busy(self) -> Mapping[str, str]:
        self.ask()
        return self.cluster.busy()


def rig() -> tuple[Rig, Beside]:
    one = Rig(fleet(), mirrored(("n3", "n4"), ("n5", "n3")))
    beside = Beside(one.cluster)
    one._through = lambda _: beside
    one.crash()
    return one, beside


def sick(one: Rig) -> None:
    one.agents.says["n3"] = EVACUATE


def moves(one: Rig) -> list[Move]:
    """What our jobs move."""
    return [m for j in one.cluster.jobs.values() if j.ours and (m := move_of(j.action))]


def test_a_queue_that_does_not_answer_fails_no_round() -> None:
    one, beside = rig()
    sick(one)
    one.tick()

    def silent() -> None:
        raise Unavailable("the queue does not answer")

    beside.ask = silent
    for _ in range(3):
        one.tick()
    assert one.cluster.nodes["n3"].drained
    assert moves(one) == [], "nobody knows who is at work"
    beside.ask = lambda: None
    for _ in range(20):
        one.tick()
    assert one.cluster.nodes["n3"].offline
