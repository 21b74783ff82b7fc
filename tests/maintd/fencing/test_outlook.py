"""What comes next in a fencing, and what becomes of each instance: a row for each rule."""

from dataclasses import replace

from nodeagent.maintd.fencing.outlook import InstanceFate, instance_fates, upcoming
from nodeagent.maintd.http.dead_nodes import silences
from nodeagent.model.action import MovePrimary
from nodeagent.model.fencing import End, Fate, Fencing, Stage
from nodeagent.model.ledger import Ledger, Policy
from nodeagent.model.purpose import OfFencing
from nodeagent.model.reason import Held, Kind, because
from nodeagent.model.snapshot import Instance
from nodeagent.model.stage import FULL, OBSERVE
from nodeagent.model.units import Ms
from tests.maintd.world import NOW, node, seen, six

POLICY = Policy(stage=FULL, dead_nodes="restart")
BEGUN = Fencing("uuid-n1", Stage.PROVES, NOW, Ms(NOW - 60_000), who="alice", off=NOW)
WAITS = replace(BEGUN, stage=Stage.WAITS)
AFTER_WAIT = BEGUN.at + POLICY.revive_within
NEXT: list[tuple[Fencing, str, int]] = [
    (BEGUN, "read its power, until it says off", 0),
    (replace(BEGUN, not_before=NOW), "read its power, until it says off", 0),
    (replace(BEGUN, not_before=Ms(NOW + 1)), "read its power, until it says off", NOW + 1),
    (WAITS, "power it off again, unless its agent answers before", AFTER_WAIT),
    (
        replace(WAITS, drill=True),
        "give the drill up, unless its agent answers before",
        AFTER_WAIT,
    ),
    (replace(BEGUN, stage=Stage.CUTS), "power it off", 0),
    (
        replace(BEGUN, stage=Stage.CUTS, answered=True),
        "cancel its power-off, which waits although the node answers again",
        0,
    ),
]


def test_what_comes_next_and_when() -> None:
    for fencing, step, at in NEXT:
        assert upcoming(fencing, POLICY, NOW) == (step, at), fencing


WORLD = six(drbd=("n1", "n2"), plain=("n1", None))
SHARED = Instance("shared", "n1", template="rbd", memory=100)
OBSERVED = seen(replace(WORLD, instances={**WORLD.instances, "shared": SHARED}))
LOCAL = str(because(Kind.LOCAL_DISKS, "plain", template="plain", node="n1"))
ONLY_PLAIN = InstanceFate("plain", "stays down", why=LOCAL)


def fates(fencing: Fencing, policy: Policy = POLICY, *held: Held, moves: str = "") -> set[object]:
    ledger = Ledger()
    if moves:
        move = MovePrimary(moves, "n1", live=False, target="n4")
        ledger = ledger.promise(OfFencing("uuid-n1"), "n1", move, NOW)
    one = OBSERVED.snapshot.nodes["n1"]
    return set(instance_fates(fencing, one, OBSERVED, policy, ledger, held, NOW))


def test_what_is_foreseen_for_instances_by_the_policy() -> None:
    unknown = "before n1 was offline, no agent said that all its disks on n2 were UpToDate"
    by_hand = f"{unknown}: check them, then run gnt-instance failover drbd"
    assert fates(BEGUN) == {
        InstanceFate("drbd", "stays down", why=by_hand),
        InstanceFate("shared", "waiting"),
        ONLY_PLAIN,
    }
    for policy, limit in (
        (replace(POLICY, dead_nodes="fence"), "dead-nodes is fence"),
        (replace(POLICY, stage=OBSERVE), "stage is observe"),
    ):
        check = "check its disks on n2, then run gnt-instance failover drbd"
        assert fates(BEGUN, policy) == {
            InstanceFate("drbd", "stays down", why=f"{limit}: {check}"),
            InstanceFate("shared", "stays down", why=f"{limit}: run gnt-instance failover shared"),
            ONLY_PLAIN,
        }


def test_what_became_of_instances_of_a_node_that_is_offline() -> None:
    confirms = replace(BEGUN, stage=Stage.CONFIRMS)
    assert fates(confirms) == set(), "what there was before is unknown"
    restarts = replace(confirms, fates=(Fate("shared"),))
    held = Held(because(Kind.CANNOT_MOVE, "shared", why="no room"), "n1")
    waits = InstanceFate("shared", "waiting", why=held.reason)
    assert fates(restarts, POLICY, held) == {waits}
    assert fates(restarts, moves="shared") == {InstanceFate("shared", "restarting", "n4")}
    over = replace(confirms, fates=(Fate("shared", end=End.RESTARTED), Fate("drbd", end=End.STAYS)))
    moved = replace(SHARED, primary="n4")
    world = replace(OBSERVED.snapshot, instances={**WORLD.instances, "shared": moved})
    found = instance_fates(over, node("n1"), seen(world), POLICY, Ledger(), (), NOW)
    assert list(found) == [
        InstanceFate("shared", "restarted", "n4"),
        InstanceFate("drbd", "stays down"),
    ]


def test_who_has_cut_the_power_is_told_to_users_only() -> None:
    said = replace(BEGUN, why="alice says that its power is cut")
    for full, why, who in (
        (True, "alice says that its power is cut", "alice"),
        (False, "a person says that its power is cut", ""),
    ):
        ledger = Ledger(fencing=(said,))
        shown = silences(ledger, OBSERVED, POLICY, (), NOW, full=full)["n1"].fencing
        assert shown is not None
        assert (shown.why, shown.who) == (why, who)
