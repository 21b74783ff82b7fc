"""Nothing is migrated to where the htools' migration tags forbid a move."""

from dataclasses import replace

import pytest

from nodeagent.autorepair.steps import Step
from nodeagent.autorepair.tags import RepairType
from nodeagent.maintd.autorepair.targets import move
from nodeagent.maintd.deciding.decide import decide
from nodeagent.maintd.planning.resources import open_room
from nodeagent.model.action import MovePrimary, Retag, Scope
from nodeagent.model.diagnosis import Diagnosis
from nodeagent.model.incident import Status
from nodeagent.model.ledger import Ledger, Policy
from nodeagent.model.reason import Held, Kind, Reason, because
from nodeagent.model.snapshot import Capacity, Group, Instance, Observed, Size
from nodeagent.model.stage import FULL
from nodeagent.model.units import Ms
from tests.maintd.decided import details, kinds
from tests.maintd.world import EVACUATE, FAILOVER, NOW, OK, incident, ledger, node, seen, snapshot

WEB = Instance("web", "n1", template="rbd", memory=4096, hypervisor="kvm")
DB = Instance("db", "n1", "n2", memory=4096, disk=1000, hypervisor="kvm")
POLICY = Policy(stage=FULL, settle=Ms(0), spare=False)
STRICT = replace(POLICY, fallback=False)
FREE = Capacity(60_000, 900_000, Size(65_536, 1024, 1_000_000, 16))
RULES = frozenset({"htools:migration:cpu"})


def world(
    *instances: Instance,
    said: Diagnosis = OK,
    rules: frozenset[str] = RULES,
    capacity: dict[str, Capacity] | None = None,
    **processors: str,
) -> Observed:
    """n1 is drained and has new processors, n2 and n3 have old ones if nothing else is said."""
    processors = {"n1": "new", "n2": "old", "n3": "old", **processors}
    nodes = [
        node(name, drained=name == "n1", tags=frozenset({f"cpu:{processor}"}))
        for name, processor in processors.items()
    ]
    there = {one.name: one for one in instances or (WEB, DB)}
    cluster = replace(snapshot(*nodes), instances=there, tags=rules, master="n2")
    cluster = replace(cluster, groups={"default": Group("default", "default")})
    free = dict.fromkeys(processors, FREE) | (capacity or {})
    return seen(cluster, {"n1": said}, capacity=free)


def made(
    observed: Observed, policy: Policy = POLICY, before: Ledger | None = None
) -> tuple[dict[str, MovePrimary], tuple[Held, ...]]:
    """The moves to another primary node by instance, and what is held."""
    done = decide(before or Ledger(), observed, policy, NOW)
    found = [i.action for i in done.ledger.intents if isinstance(i.action, MovePrimary)]
    return {one.instance: one for one in found}, done.held


def test_without_fallback_it_stays_and_the_tags_are_named() -> None:
    moves, held = made(world(said=EVACUATE), STRICT)
    assert moves == {}
    assert {one.why.kind for one in held} == {Kind.CANNOT_MOVE}
    for name, where in (("db", "n2"), ("web", "any node of its group")):
        said = details(held, Kind.TAGS_FORBID, name)
        assert (said["node"], said["to"]) == ("n1", where)
        assert said["off"] == "fallback to a failover is off"


def test_it_migrates_to_where_it_may_also_if_there_is_less_room() -> None:
    """Both with what all nodes say of themselves, and where they tell only what is free."""
    less = replace(FREE, memory=5000)
    for n3, n2 in ((less, FREE), (replace(less, size=None), replace(FREE, size=None))):
        moves, _ = made(world(said=EVACUATE, capacity={"n2": n2, "n3": n3}, n3="new"))
        assert moves["web"] == MovePrimary("web", "n1", live=True, target="n3")
        assert not moves["db"].live


def test_it_waits_for_room_where_it_may_migrate_to() -> None:
    full = world(WEB, said=EVACUATE, capacity={"n3": replace(FREE, memory=100)}, n3="new")
    moves, (held,) = made(full)
    assert moves == {}
    assert (Kind.TAGS_LEAVE, "web") in kinds([held])
    assert details([held], Kind.NO_FREE_NODE)["wanted"] == ("4096 MiB of memory",)
    doubted = replace(full, diagnoses={"n1": EVACUATE, "n2": OK}, doubts={"n3": "silent"})
    assert made(doubted)[0] == {}, "n3 may be back in a minute"


def test_a_node_is_told_to_know_what_another_one_sends() -> None:
    allowed = RULES | {"htools:allowmigration:cpu:new::cpu:old"}
    moves, _ = made(world(said=EVACUATE, rules=allowed))
    assert [one.live for one in moves.values()] == [True, True]
    back = world(said=EVACUATE, rules=RULES | {"htools:allowmigration:cpu:old::cpu:new"})
    assert not any(one.live for one in made(back)[0].values())


@pytest.mark.parametrize(
    ("instance", "said"),
    [(WEB, FAILOVER), (replace(WEB, running=False), EVACUATE)],
    ids=["failed over anyway", "stopped"],
)
def test_what_is_not_migrated_is_not_bound(instance: Instance, said: Diagnosis) -> None:
    moves, held = made(world(instance, said=said), STRICT)
    assert not moves["web"].live
    assert held == ()


# Auto-repair.


def repaired(observed: Observed, instance: Instance, *, fallback: bool = False) -> object:
    room = open_room(ledger(incident("n9", status=Status.CANCELED)), observed, {})
    swap = Retag(Scope.INSTANCE, instance.name, ("x",))
    step = Step(RepairType.MIGRATE, "r", swap, "why", fallback)
    return move(instance, step, room)


def test_a_repair_waits_unless_it_may_fail_over() -> None:
    for instance, where in ((WEB, "any node of its group"), (DB, "n2")):
        forbids = because(Kind.TAGS_FORBID, instance.name, node="n1", to=where)
        why = because(Kind.CANNOT_MIGRATE, instance.name, why=forbids)
        assert repaired(world(), instance) == why
        made = repaired(world(), instance, fallback=True)
        assert isinstance(made, MovePrimary)
        assert not made.live


def test_a_repair_migrates_to_where_it_may() -> None:
    less = {"n3": replace(FREE, memory=5000)}
    made = repaired(world(capacity=less, n3="new"), WEB)
    assert made == MovePrimary("web", "n1", live=True, target="n3", fallback=False)
    full = {"n3": replace(FREE, memory=5)}
    assert isinstance(repaired(world(capacity=full, n3="new"), WEB, fallback=True), Reason)
