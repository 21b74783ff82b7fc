"""Where everything on a node goes together: room for all of it, on nodes that are free."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from nodeagent.maintd.deciding.decide import decide
from nodeagent.maintd.incidents.steps import next_steps
from nodeagent.maintd.planning.evacuation_moves import NextSteps
from nodeagent.maintd.planning.evacuation_targets import Targets
from nodeagent.maintd.planning.resources import Room, open_room
from nodeagent.model.action import Drain, MovePrimary, MoveSecondary
from nodeagent.model.diagnosis import Diagnosis
from nodeagent.model.incident import Status
from nodeagent.model.ledger import Intent, Ledger, Policy
from nodeagent.model.purpose import OfIncident
from nodeagent.model.reason import Kind
from nodeagent.model.snapshot import Capacity, Group, Instance, Node, Observed, Size, Snapshot
from nodeagent.model.stage import FULL
from tests.maintd.decided import POLICY, details, kinds, new
from tests.maintd.world import EVACUATE, NOW, OK, PLENTY, incident, instance, node, seen, six

SIZE = Size(16_384, 1024, 1_000_000, 64)
FREE = Capacity(8000, 500_000, SIZE)
AWAY = incident("n1", EVACUATE, Status.PENDING, drained=True)


def world(*instances: Instance, **nodes: Node) -> Snapshot:
    """n1 to n4; n1 is being emptied."""
    names = ("n1", "n2", "n3", "n4")
    there = {name: node(name) for name in names} | {"n1": node("n1", drained=True)} | nodes
    named = {one.name: one for one in instances}
    return Snapshot("c", there, named, {"default": Group("default", "default")}, "n4")


def room(
    snapshot: Snapshot,
    capacity: Mapping[str, Capacity],
    said: Mapping[str, Diagnosis] | None = None,
) -> Room:
    everyone = dict.fromkeys(snapshot.nodes, OK) | {"n1": EVACUATE} | dict(said or {})
    ledger = Ledger(incidents=(AWAY,))
    return open_room(ledger, Observed(snapshot, everyone, capacity=capacity), {})


def shared(name: str, memory: int, where: str = "n1") -> Instance:
    return Instance(name, where, template="ext", memory=memory, disk=100)


def free(**memory: int) -> dict[str, Capacity]:
    return {name: replace(FREE, memory=mib) for name, mib in memory.items()}


def steps(into: Room) -> dict[str, str]:
    """Where each instance is brought to, by the steps of one round."""
    found = next_steps(AWAY, into.snapshot.nodes["n1"], into, Policy(stage=FULL, moves=100), 0)
    moves = [step.action for step in found.steps]
    return {
        move.instance: move.target
        for move in moves
        if isinstance(move, MovePrimary | MoveSecondary) and move.target
    }


def test_the_large_one_is_not_left_because_a_small_one_was_before_it() -> None:
    seen = world(shared("a", 500), shared("b", 900))
    assert steps(room(seen, free(n2=1000, n3=600))) == {"a": "n3", "b": "n2"}
    blind = {name: replace(one, size=None) for name, one in free(n2=1000, n3=600).items()}
    assert steps(room(seen, blind)) == {"a": "n3", "b": "n2"}, "without their sizes as well"


def test_what_finds_no_place_takes_nobody_else_s() -> None:
    seen = world(shared("a", 500), shared("b", 900))
    assert steps(room(seen, free(n2=1000, n3=100))) == {"b": "n2"}


def test_room_that_another_failure_would_need_is_left() -> None:
    """n2 has the most free, and would run what n4 loses; n3 would run nothing."""
    kept = Instance("kept", "n4", "n2", memory=5000, disk=100)
    seen = world(shared("a", 3000), kept)
    assert steps(room(seen, free(n2=7000, n3=6000, n4=100))) == {"a": "n3"}


def test_exclusion_tags_are_heeded() -> None:
    same = {"tags": frozenset({"svc:a"})}
    seen = world(
        replace(shared("a", 100), **same),  # type: ignore[arg-type]
        replace(shared("b", 100, "n2"), **same),  # type: ignore[arg-type]
    )
    seen = replace(seen, tags=frozenset({"htools:iextags:svc"}))
    assert steps(room(seen, free(n2=8000, n3=500))) == {"a": "n3"}
    assert steps(room(seen, free(n2=8000))) == {"a": "n2"}, "better there than on a sick node"


def test_what_is_mirrored_from_a_sick_node_that_answers_moves_too() -> None:
    seen = world(Instance("mail", "n3", "n1", memory=1000, disk=1000))
    silent = room(seen, free(n2=8000, n4=8000), {"n3": EVACUATE})
    assert steps(silent)["mail"] in ("n2", "n4"), "whatever room it has itself"
    into = room(seen, free(n2=8000, n3=100, n4=8000), {"n3": EVACUATE})
    assert Targets(seen.nodes["n1"], into, AWAY.id).places["mail"] in ("n2", "n4")


@pytest.mark.parametrize("offline", [False, True])
def test_what_is_mirrored_from_a_node_that_does_not_answer_is_not_counted_in(
    offline: bool,
) -> None:
    gone = node("n3", offline=offline)
    seen = world(Instance("mail", "n3", "n1", memory=1000, disk=1000), n3=gone)
    everyone = dict.fromkeys(["n2", "n4"], OK) | {"n1": EVACUATE}
    observed = Observed(seen, everyone, capacity=free(n2=8000, n3=8000, n4=8000))
    into = open_room(Ledger(incidents=(AWAY,)), observed, {})
    assert not Targets(seen.nodes["n1"], into, AWAY.id).places


def test_what_forthcoming_instances_were_promised_is_left_to_them() -> None:
    """Nodes report it as free; of one that exists and is down they report as much."""
    seen, has = world(shared("a", 4096)), free(n2=60_000, n3=10_000)
    assert steps(room(seen, has)) == {"a": "n2"}
    soon = Instance("soon", "n2", "n3", memory=58_000, disk=450_000, running=False)
    promised = replace(seen, forthcoming={"soon": soon})
    into = room(promised, has)
    assert steps(into) == {"a": "n3"}
    assert into.capacity["n2"] == Capacity(2000, 50_000, SIZE)
    assert into.capacity["n3"] == Capacity(10_000 - 4096, 50_000, SIZE)
    blind = {name: replace(one, size=None) for name, one in has.items()}
    assert steps(room(promised, blind)) == {"a": "n3"}, "where too little is known"
    without_disks = replace(promised, forthcoming={"soon": shared("soon", 58_000, "n2")})
    assert room(without_disks, has).capacity["n2"].disk == FREE.disk


def test_no_node_is_begun_that_would_need_what_is_promised() -> None:
    kept = Instance("kept", "n4", "n2", memory=3000, disk=100)
    seen = world(Instance("web", "n1", "n2", memory=4000, disk=1000), kept, n1=node("n1"))
    noted, has = incident("n1", EVACUATE), free(n2=10_000, n3=10_000, n4=10_000)

    def begun(snapshot: Snapshot) -> NextSteps:
        return next_steps(noted, snapshot.nodes["n1"], room(snapshot, has), Policy(stage=FULL), 0)

    assert [type(step.action) for step in begun(seen).steps] == [Drain]
    found = begun(replace(seen, forthcoming={"soon": shared("soon", 6000, "n2")}))
    assert not found.steps
    said = details(found.obstacles, Kind.NO_FAILURE_LEFT)
    assert said == {"it": "n2", "free": 0, "wanted": 3000, "other": "n4"}


def test_a_policy_that_is_none_and_a_group_that_is_none() -> None:
    seen = world(shared("a", 500))
    bad = {"default": Group("default", "default", policy="{")}
    for some in (replace(seen, groups=bad), replace(seen, groups={})):
        assert Targets(some.nodes["n1"], room(some, free(n2=1000)), AWAY.id).places == {"a": "n2"}
        assert steps(room(some, free(n2=1000))) == {"a": "n2"}


def test_several_that_the_checks_refuse_do_not_all_go_to_one_node() -> None:
    """The checks take a drained primary for an offline one, and refuse each place beside it."""
    same = frozenset({"svc:a"})
    leaving = [replace(shared(name, 1000), tags=same) for name in ("a", "b", "c", "d")]
    others = [replace(shared(f"on-{name}", 100, name), tags=same) for name in ("n2", "n3")]
    tagged = replace(world(*leaving, *others), tags=frozenset({"htools:iextags:svc"}))
    mirrors = [Instance(f"i{n}", "n4", "n1", memory=3000, disk=1000) for n in range(4)]
    for name, there, has in (
        ("instances", tagged, free(n2=8000, n3=8000)),
        ("secondaries", world(*mirrors), free(n2=2000, n3=2000, n4=3000)),
        (
            "of a drained primary",
            world(*mirrors, n4=node("n4", drained=True)),
            free(n2=30_000, n3=30_000),
        ),
    ):
        assert sorted(steps(room(there, has)).values()) == ["n2", "n2", "n3", "n3"], name


def test_where_something_is_on_its_way_to_is_a_place_still() -> None:
    """The rest of a node goes in later rounds, and by all of the checks as well."""
    kept = Instance("kept", "n4", "n2", memory=5000, disk=100)
    seen = world(shared("a", 3000), shared("b", 10), kept)
    under_way = Intent("3", OfIncident(AWAY.id), "n1", MovePrimary("b", "n1", True, "n3"), "12")
    everyone = dict.fromkeys(seen.nodes, OK) | {"n1": EVACUATE}
    observed = Observed(seen, everyone, capacity=free(n2=7000, n3=6000, n4=100))
    into = open_room(Ledger(incidents=(AWAY,), intents=(under_way,)), observed, {})
    assert into.capacity["n3"] == replace(FREE, memory=5990)
    assert steps(into) == {"a": "n3"}, "n2 must be able to run what n4 loses"


# Whether a node is emptied at all.


def test_nor_is_what_somebody_drained_before_where_the_rest_would_be_too_full() -> None:
    world = replace(
        six(node("n1", drained=True)),
        instances={
            "a": instance("a", "n1", "n2", memory=400),
            "b": instance("b", "n3", "n2", memory=400),
        },
    )
    tight = {**dict.fromkeys(world.nodes, PLENTY), "n2": Capacity(700, 9999)}
    decision = decide(Ledger(), seen(world, {"n1": EVACUATE}, capacity=tight), POLICY, NOW)
    assert new(decision) == []
    assert kinds(decision.held)[0] == (Kind.NO_ROOM, "n1")
