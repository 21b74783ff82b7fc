"""Disruption budgets in decisions, for everybody who moves instances."""

from dataclasses import replace

import pytest

from nodeagent.maintd.deciding.decide import decide
from nodeagent.maintd.outage.invariants import check_invariants
from nodeagent.model.action import MovePrimary, Restore
from nodeagent.model.incident import Status
from nodeagent.model.ledger import Decision, Intent, Ledger
from nodeagent.model.outage import Outage, Wanted
from nodeagent.model.purpose import OfFencing, OfPerson, Purpose
from nodeagent.model.queue import Queue
from nodeagent.model.reason import BalanceKind, BudgetKind
from nodeagent.model.roll import REBOOT, Phase, Roll, RollNode, Terms
from nodeagent.model.snapshot import Instance, Observed, Running
from tests.maintd.balancing.world import ON, advised, begun, done, shift
from tests.maintd.balancing.world import world as balanced
from tests.maintd.decided import POLICY, kinds, new
from tests.maintd.leaving import HOUR, in_windows, window
from tests.maintd.queue.turns import DRAINING, how
from tests.maintd.queue.turns import begun as entry
from tests.maintd.rig import Rig, fleet
from tests.maintd.world import EVACUATE, FAILOVER, NOW, OK, incident, instance, node, seen, six

WEB = "maintd:budget:web:"
N3 = replace(node("n3", drained=True), address="10.0.0.0")
EMPTYING = replace(POLICY, procedures=how())


def tagged(tag: str, *, hypervisor: str = "lxc") -> tuple[Instance, Instance]:
    """Two instances of n3, which cannot migrate unless another hypervisor is named."""
    members = {"tags": frozenset({f"{WEB}{tag}"} if tag else ()), "hypervisor": hypervisor}
    return instance("web1", "n3", "n4", **members), instance("web2", "n3", "n5", **members)


def observed(*instances: Instance, said: object = OK, **members: object) -> Observed:
    world = replace(six(N3), instances={one.name: one for one in instances})
    there: dict[str, object] = {
        "runs": dict.fromkeys(world.nodes, (REBOOT,)),
        "boots": dict.fromkeys(world.nodes, "boot 0"),
        **members,
    }
    return seen(world, {"n3": said}, **there)  # type: ignore[dict-item, arg-type]


OURS = Outage("uuid-n3", drained_by="7")
SICK = Ledger(incidents=(incident("n3", EVACUATE, Status.PENDING, drained=True),))
PERSON = replace(OURS, wanted=Wanted("ada", NOW, "new disks", begun=True, drained=True))
DUE = window("n3", 0, HOUR, begun=True, drained=True)
QUEUED = Ledger(queue=Queue((entry(at=DRAINING, operation="drains", drained=True),), 1))
LEAVES = RollNode("uuid-n3", "n3", Phase.LEAVING, begun=True, drained=True)
ROLL = Roll(1, "ada", NOW, Terms(REBOOT, reboots=True), (LEAVES,))
OWNERS: list[tuple[str, Ledger, str, int]] = [
    ("an incident", SICK, "1", 1),
    ("a person", Ledger(outages=(PERSON,)), "1", 1),
    ("a window", in_windows(DUE, outages=(OURS,)), "1", 1),
    ("an entry", QUEUED, "1", 1),
    ("a roll", Ledger(roll=ROLL, outages=(OURS,)), "1", 1),
    ("half of them", SICK, "50percent", 1),
    ("room for both", SICK, "2", 2),
    ("no budget", SICK, "", 2),
]


def moved(decision: Decision) -> list[str]:
    return [action.instance for action in new(decision) if isinstance(action, MovePrimary)]


def test_of_a_node_go_so_many_at_once_whoever_empties_it() -> None:
    """A budget that one evacuation never has room for all at once takes longer, and ends."""
    for name, before, tag, most in OWNERS:
        said = EVACUATE if before is SICK else OK
        decision = decide(before, observed(*tagged(tag), said=said), EMPTYING, NOW)
        assert len(moved(decision)) == most, (name, decision.held)
        spent = {name for kind, name in kinds(decision.held) if kind is BudgetKind.BUDGET_SPENT}
        assert bool(spent) is (most == 1), (name, decision.held)


def test_in_whole_rounds_one_goes_after_the_other_once_all_others_run() -> None:
    """Their nodes are asked what runs."""
    elsewhere = replace(tagged("1")[0], name="web0", primary="n2", secondary="n4")
    rig = Rig(fleet(), [elsewhere, *tagged("1")])
    rig.cluster.world.crash("web0")
    rig.cluster.takes = lambda action: 45.0 if isinstance(action, MovePrimary) else 1.0
    rig.agents.says["n3"] = EVACUATE
    rig.settle()
    assert not any(job.startswith("MovePrimary") for job in rig.jobs())
    rig.cluster.world.start("web0")
    rig.settle()
    assert rig.status("n3") is Status.COMPLETED
    first, second = (j for j in rig.cluster.jobs.values() if isinstance(j.action, MovePrimary))
    assert first.ends <= second.born


def test_evacuate_failover_does_not_wait_and_says_so() -> None:
    sick = Ledger(incidents=(incident("n3", FAILOVER, Status.PENDING, drained=True),))
    there = observed(*tagged("1", hypervisor="kvm"), said=FAILOVER)
    decision = decide(sick, there, POLICY, NOW)
    assert moved(decision) == ["web1", "web2"]
    assert BudgetKind.BUDGET_OVERRIDDEN in {kind for kind, _ in kinds(decision.held)}


@pytest.mark.parametrize(("tag", "moved"), [("1", 2), ("1:live", 1), ("2:live", 2), ("0:live", 0)])
def test_a_wave_of_balancing_leaves_out_what_its_budget_has_no_room_for(
    tag: str, moved: int
) -> None:
    tags = frozenset({f"{WEB}{tag}"})
    there = balanced()
    places = {"a": ("n1", "n2"), "b": ("n3", "n4")}
    named = {name: instance(name, *at, tags=tags) for name, at in places.items()}
    there = replace(there, instances=named)
    shifts = shift("a", "n1:n2", "n2:n1"), shift("b", "n3:n4", "n4:n3")
    decision = done(seen(there, advice=advised(*shifts)))
    assert len(begun(decision)) == moved
    assert BalanceKind.NOT_BALANCED in {held.why.kind for held in decision.held} or moved == 2


def test_the_search_is_not_asked_to_move_what_its_budget_has_no_room_for() -> None:
    named = {"a": instance("a", "n1", "n2", tags=frozenset({f"{WEB}0:live"}))}
    decision = done(seen(replace(balanced(), instances=named)), policy=ON)
    (question,) = decision.questions
    assert question.never == {"a"}


def test_an_entry_that_waits_keeps_its_node_and_its_attempts() -> None:
    """A queue that backs off would give the node back, and count a failure."""
    waits, down = tagged("1")[1], replace(tagged("1")[0], primary="n6")
    states = {"web1": Running("ERROR_down"), "web2": Running("running")}
    decision = decide(QUEUED, observed(waits, down, running=states), EMPTYING, NOW)
    assert not {MovePrimary, Restore} & {type(action) for action in new(decision)}
    assert BudgetKind.BUDGET_DOWN in {kind for kind, _ in kinds(decision.held)}
    (after,) = decision.ledger.queue.entries
    assert (after.step_status, after.drained, after.backoffs) == (DRAINING, True, 0)


@pytest.mark.parametrize(
    ("purpose", "second", "holds"),
    [
        pytest.param(OfPerson("uuid-n1"), "b", False, id="a second one"),
        pytest.param(OfPerson("uuid-n1"), "c", True, id="one without a budget"),
        pytest.param(OfFencing("uuid-n1"), "b", True, id="of a dead node"),
    ],
)
def test_a_decision_that_exceeds_a_budget_is_a_bug(
    purpose: Purpose, second: str, *, holds: bool
) -> None:
    tags = frozenset({f"{WEB}1"})
    named = {name: instance(name, "n1", "n2", tags=tags) for name in "ab"}
    named["c"] = instance("c", "n1", "n2")
    moves = [MovePrimary(name, "n1", live=False, target="n2") for name in ("a", second)]
    intents = tuple(Intent(str(n), purpose, "n1", move) for n, move in enumerate(moves))
    decision = Decision(Ledger(intents=intents), (), {}, (), {})
    observed = seen(replace(six(), instances=named))
    if holds:
        check_invariants(Ledger(), decision, observed, POLICY)
    else:
        with pytest.raises(AssertionError, match="exceeds a budget"):
            check_invariants(Ledger(), decision, observed, POLICY)
