"""Brakes: each of them alone keeps a node that is proven dead from being fenced."""

from dataclasses import replace

import pytest

from nodeagent.maintd.fencing.brakes import QUIET, STRIKES, TOGETHER, Brakes
from nodeagent.model.action import PowerCommand
from nodeagent.model.fencing import BURST, Cut, Fencing, Stage, Unreachable
from nodeagent.model.ledger import Ledger, Policy
from nodeagent.model.queue import Entry, EntryStatus, FailedDomain, Queue, StepStatus
from nodeagent.model.reason import AnyKind, FencingKind, Kind, because
from nodeagent.model.sick import Sick
from nodeagent.model.snapshot import Node, Observed
from nodeagent.model.units import Ms
from tests.maintd.fencing.loop import RESTART, Loop, kill
from tests.maintd.world import NOW, seen, snapshot

NODES = [Node(f"n{i}", f"uuid-n{i}", f"10.0.0.{i}", group=f"g{i}") for i in range(1, 31)]
WORLD = replace(snapshot(*NODES), master="n30")
SINCE = Ms(NOW - 1_000_000)
POLICY = Policy(fence_limit=9, fence_burst=9)
PAUSED = because(Kind.PAUSED, "n1")


def silent(number: int, later: int = 0) -> Unreachable:
    return Unreachable(f"uuid-n{number}", Ms(SINCE + later))


def fencing(number: int, stage: Stage, **members: object) -> Fencing:
    since = Ms(NOW - 500_000)
    return Fencing(f"uuid-n{number}", stage, since, since, **members)  # type: ignore[arg-type]


def dead(*more: Unreachable, **members: object) -> Ledger:
    """n1 is silent, and so are some more."""
    return Ledger(unreachable=(silent(1), *more), **members)  # type: ignore[arg-type]


def observed(**nodes: dict[str, object]) -> Observed:
    """The cluster, in which some nodes are otherwise."""
    changed = {name: replace(WORLD.nodes[name], **new) for name, new in nodes.items()}  # type: ignore[arg-type]
    return seen(replace(WORLD, nodes={**WORLD.nodes, **changed}))


def why(
    ledger: Ledger,
    given: Observed | None = None,
    policy: Policy = POLICY,
    stopped: str | None = None,
    name: str = "n1",
) -> AnyKind | None:
    """The kind of the reason why a node is not fenced now."""
    stops = {} if stopped is None else {stopped: PAUSED}
    there = given or observed()
    found = Brakes(ledger, there, policy, stops, NOW).why_not(there.snapshot.nodes[name])
    return found and found.kind


def test_without_a_brake_it_is_fenced() -> None:
    assert why(dead()) is None


# This node, and maintd itself.


def test_the_master_is_not_fenced_nor_any_node_while_nobody_is_the_master() -> None:
    assert why(Ledger(), name="n30") is FencingKind.FENCES_NO_MASTER
    assert why(dead(), seen(replace(WORLD, master=""))) is FencingKind.FENCES_NO_MASTER


def test_a_master_that_suspects_itself_fences_none() -> None:
    for unanswered, kind in ((15, None), (16, FencingKind.SUSPECTS_ITSELF)):
        names = frozenset(node.name for node in NODES[:unanswered])
        assert why(dead(), seen(WORLD, unanswered=names)) is kind


@pytest.mark.parametrize(
    ("stopped", "kind"), [("", Kind.PAUSED), ("n1", Kind.PAUSED), ("n2", None)]
)
def test_where_no_work_starts_none_is_fenced(stopped: str, kind: AnyKind | None) -> None:
    assert why(dead(), stopped=stopped) is kind


@pytest.mark.parametrize(
    ("number", "step", "kind"),
    [
        pytest.param(1, StepStatus.WATCHING, Kind.UNDER_REPAIR, id="at work"),
        pytest.param(1, StepStatus.WAITING, None, id="between two steps"),
        pytest.param(2, StepStatus.WATCHING, None, id="at another machine"),
    ],
)
def test_the_repair_queue_keeps_its_machine(
    number: int, step: StepStatus, kind: AnyKind | None
) -> None:
    status = EntryStatus.PROCESSING
    entry = Entry(7, f"10.0.0.{number}", "metal", "reboot", status=status, step_status=step)
    assert why(dead(queue=Queue(entries=(entry,)))) is kind


@pytest.mark.parametrize(("left", "kind"), [(1, FencingKind.QUIET_TIME), (0, None)])
def test_after_its_own_start_maintd_waits(left: int, kind: AnyKind | None) -> None:
    assert why(dead(), replace(observed(), started=Ms(NOW - QUIET + left))) is kind


@pytest.mark.parametrize("stage", Stage)
@pytest.mark.parametrize(
    ("apart", "members", "hit"),
    [
        pytest.param(STRIKES, {}, True, id="just before"),
        pytest.param(-STRIKES, {}, True, id="just after"),
        pytest.param(STRIKES + 1, {}, False, id="long before"),
        pytest.param(0, {"who": "alice"}, False, id="by a person's word"),
        pytest.param(0, {"who": "alice", "drill": True}, True, id="by a drill"),
        pytest.param(0, {"answered": True}, False, id="it answered before"),
    ],
)
def test_a_power_off_that_hits_another_node(
    stage: Stage, apart: int, members: dict[str, object], hit: bool
) -> None:
    hitter = fencing(2, stage, off=Ms(SINCE + apart), silent=Ms(1), **members)
    ledger = dead(fencing=(hitter,))
    struck = hit and stage in (Stage.PROVES, Stage.REMOVES)
    kind = FencingKind.STRUCK_ANOTHER
    assert (why(ledger) is kind) is struck
    told = Brakes(ledger, observed(), POLICY, {}, NOW).struck(hitter)
    assert told == (because(kind, "n2", nodes=("n1",)) if struck else None)
    offline = observed(n1={"offline": True})
    assert Brakes(ledger, offline, POLICY, {}, NOW).struck(hitter) is None


# Nodes that fall silent together.

SAME: dict[str, dict[str, object]] = {"n1": {"group": "same"}, "n2": {"group": "same"}}


@pytest.mark.parametrize(
    ("ledger", "kind"),
    [
        pytest.param(dead(silent(2, TOGETHER)), FencingKind.DOMAIN_SILENT, id="together"),
        pytest.param(dead(silent(2, -TOGETHER)), FencingKind.DOMAIN_SILENT, id="the first one"),
        pytest.param(dead(silent(2, TOGETHER + 1)), None, id="not together"),
        pytest.param(
            dead(fencing=(fencing(2, Stage.FENCED, silent=SINCE),)),
            FencingKind.DOMAIN_SILENT,
            id="fenced for it meanwhile",
        ),
        pytest.param(
            replace(dead(), unreachable=(silent(1, 500_000),), fencing=(fencing(2, Stage.FENCED),)),
            FencingKind.DOMAIN_SILENT,
            id="nobody knows since when a fenced one was silent: since its fencing began",
        ),
        pytest.param(
            dead(fencing=(fencing(2, Stage.WAITS, silent=SINCE, who="a", drill=True),)),
            None,
            id="silenced by a drill",
        ),
        pytest.param(
            Ledger(unreachable=(silent(2, 1_000_000),)), FencingKind.DOMAIN_SILENT, id="just now"
        ),
        pytest.param(dead(silent(99)), None, id="gone from the cluster"),
    ],
)
def test_two_of_a_failure_domain(ledger: Ledger, kind: AnyKind | None) -> None:
    assert why(ledger, observed(**SAME)) is kind
    assert why(ledger) is None, "one of another group"


def test_one_that_is_offline_for_another_reason_is_not_silent_with_it() -> None:
    same = {**SAME, "n2": {"group": "same", "offline": True}}
    assert why(dead(silent(2)), observed(**same)) is None


@pytest.mark.parametrize(
    ("racks", "kind"),
    [
        ([("10.0.0.1", "rack-a"), ("10.0.0.2", "rack-a")], FencingKind.DOMAIN_SILENT),
        ([("10.0.0.1", "rack-a"), ("10.0.0.2", "rack-b")], None),
        ([("10.0.0.1", "rack-a"), ("10.0.0.9", "rack-a")], None),
        ([("10.0.0.1", ""), ("10.0.0.2", "")], None),
    ],
)
def test_two_of_a_rack_that_a_source_or_an_entry_reports(
    racks: list[tuple[str, str]], kind: AnyKind | None
) -> None:
    reports = tuple(
        Sick("sabakan", address, "type", "unreachable", domain=rack) for address, rack in racks
    )
    assert why(dead(silent(2)), replace(observed(), sick={"sabakan": reports})) is kind
    entries = tuple(Entry(1, address, "type", "x", domain=rack) for address, rack in racks)
    assert why(dead(silent(2), queue=Queue(entries=entries))) is kind


def test_a_rack_that_has_failed_is_braked_whoever_else_is_silent() -> None:
    ledger = dead(queue=Queue(failed=(FailedDomain("rack-a", ("sabakan",), 7),)))
    for rack, kind in (("rack-a", FencingKind.DOMAIN_BROKEN), ("rack-b", None)):
        reported = Sick("sabakan", "10.0.0.1", "type", "unreachable", domain=rack)
        assert why(ledger, replace(observed(), sick={"sabakan": (reported,)})) is kind
    assert why(ledger, replace(observed(), sick={"sabakan": "it does not answer"})) is None


OUT: dict[str, dict[str, object]] = {f"n{i}": {"offline": True} for i in range(20, 30)}


@pytest.mark.parametrize(
    ("ledger", "nodes", "kind"),
    [
        pytest.param(dead(silent(2), silent(3)), {}, None, id="a tenth"),
        pytest.param(dead(silent(2), silent(3), silent(4)), {}, FencingKind.MANY_SILENT, id="more"),
        pytest.param(dead(silent(2)), OUT, None, id="a tenth of those that are not offline"),
        pytest.param(dead(silent(2), silent(3)), OUT, FencingKind.MANY_SILENT, id="more of those"),
        pytest.param(
            dead(*(silent(i, -900_000) for i in (2, 3, 4))),
            {},
            FencingKind.MANY_SILENT,
            id="a switch that loses its ports one after the other, and is still away",
        ),
        pytest.param(
            dead(*(silent(i, -(TOGETHER + 1) * i) for i in (2, 3, 4))),
            {},
            None,
            id="each by itself, long ago",
        ),
        pytest.param(
            dead(
                *(silent(i, -900_000) for i in (2, 3, 4)),
                fencing=(fencing(2, Stage.FENCED, off=Ms(1)), fencing(3, Stage.FENCED, off=Ms(1))),
            ),
            {},
            None,
            id="those that were fenced since count no more",
        ),
    ],
)
def test_many_nodes(
    ledger: Ledger, nodes: dict[str, dict[str, object]], kind: AnyKind | None
) -> None:
    assert why(ledger, observed(**nodes)) is kind


# The limits.


@pytest.mark.parametrize(
    ("limit", "at_work", "kind"),
    [
        pytest.param(1, fencing(2, Stage.PROVES), FencingKind.FENCE_LIMIT, id="another"),
        pytest.param(2, fencing(2, Stage.PROVES), None, id="one of two"),
        pytest.param(1, fencing(2, Stage.FENCED), None, id="another that is over"),
        pytest.param(1, fencing(1, Stage.PROVES), None, id="itself"),
        pytest.param(0, fencing(1, Stage.PROVES), FencingKind.FENCE_LIMIT, id="none at all"),
    ],
)
def test_how_many_are_fenced_at_once(limit: int, at_work: Fencing, kind: AnyKind | None) -> None:
    assert why(dead(fencing=(at_work,)), policy=replace(POLICY, fence_limit=limit)) is kind


@pytest.mark.parametrize(
    ("burst", "number", "ago", "kind"),
    [
        pytest.param(1, 2, BURST - 1, FencingKind.FENCE_BURST, id="another"),
        pytest.param(1, 2, BURST, None, id="another, an hour ago"),
        pytest.param(1, 1, 0, None, id="itself"),
        pytest.param(2, 2, 0, None, id="one of two"),
    ],
)
def test_how_many_are_powered_off_within_an_hour(
    burst: int, number: int, ago: int, kind: AnyKind | None
) -> None:
    cut = Cut(f"uuid-n{number}", Ms(NOW - ago))
    assert why(dead(cuts=(cut,)), policy=replace(POLICY, fence_burst=burst)) is kind


# In whole rounds.


def pair() -> Loop:
    """n3 and n5 share a rack, and no other brake is near."""
    loop = Loop(replace(RESTART, fence_limit=9, fence_burst=9))
    for number, node in enumerate(loop.cluster.nodes.values()):
        loop.cluster.put(replace(node, group=f"g{number // 2}"))
    loop.learn()
    for name in ("n3", "n5"):
        loop.cluster.tag(name, "rack:r1")
    loop.cluster.world.tags |= {"htools:nlocation:rack"}
    return loop


def brakes(loop: Loop, node: str) -> set[str]:
    return {
        kind.name for held in loop.decision.held if held.node == node for kind in held.why.kinds
    }


@pytest.mark.parametrize("later", [0, 3, 14])
def test_a_group_that_falls_silent_bit_by_bit_is_fenced_only_at_its_first(later: int) -> None:
    """Also when the first is being fenced, or fenced, by the time that the next one counts."""
    loop = pair()
    kill(loop)
    loop.steps(later)
    kill(loop, "n5")
    loop.steps(90)
    assert "n5" not in loop.powers(PowerCommand.OFF)
    assert "DOMAIN_SILENT" in brakes(loop, "n5")
    assert loop.stage("n3") is (Stage.FENCED if later == 14 else None)


def test_a_node_that_came_back_and_dies_again_counts_from_then_on() -> None:
    """It keeps its fencing until it has passed the check for stale instances."""
    loop = pair()
    kill(loop)
    loop.steps(60)
    assert loop.stage("n3") is Stage.FENCED
    loop.machines.switch_on("n3")
    loop.cluster.put(replace(loop.cluster.nodes["n3"], offline=False, drained=True))
    loop.steps(3)
    kill(loop)
    kill(loop, "n5")
    loop.steps(60)
    assert loop.powers(PowerCommand.OFF) == ["n3"]
    assert loop.stage("n3") is Stage.FENCED, "no other one has begun"
    assert "DOMAIN_SILENT" in brakes(loop, "n3") & brakes(loop, "n5")


def test_the_first_of_a_group_is_not_powered_off_twice() -> None:
    """It does not come back, and its neighbour has fallen silent just after it."""
    loop = pair()
    loop.policy = replace(loop.policy, revive=True)
    loop.broken.add("n3")
    kill(loop, how="off")
    loop.steps(14)
    kill(loop, "n5")
    loop.steps(90)
    assert loop.powers(PowerCommand.OFF) == ["n3"]
    assert "DOMAIN_SILENT" in brakes(loop, "n3")
