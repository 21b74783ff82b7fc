"""Disruption budgets in whole rounds, for everybody who moves instances."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from nodeagent.maintd.outage.invariants import check_invariants
from nodeagent.model.action import MovePrimary, move_of
from nodeagent.model.ledger import Decision, Intent, Ledger
from nodeagent.model.purpose import OfFencing, OfPerson, Purpose
from nodeagent.model.queue import EntryStatus, RepairStep
from nodeagent.model.reason import AnyKind, BalanceKind, BudgetKind
from nodeagent.model.roll import REBOOT, Terms
from nodeagent.model.snapshot import Instance
from nodeagent.model.wish import Evacuate, StartRoll
from tests.maintd.balancing.world import ON, advised, begun, done, shift
from tests.maintd.balancing.world import world as balanced
from tests.maintd.decided import POLICY, whole
from tests.maintd.queue.mender import Mender, policy
from tests.maintd.rig import Rig
from tests.maintd.world import EVACUATE, FAILOVER, instance, seen, six

WEB = "maintd:budget:web:"
PAIR = ("n3", "n4"), ("n3", "n5")


def lxc(name: str, primary: str, secondary: str, *tags: str) -> Instance:
    """One that cannot migrate."""
    tagged = frozenset(tags)
    return Instance(name, primary, secondary, memory=100, disk=100, hypervisor="lxc", tags=tagged)


def kvm(name: str, primary: str, secondary: str, *tags: str) -> Instance:
    return replace(lxc(name, primary, secondary, *tags), hypervisor="kvm")


def most_at_once(one: Rig, *names: str) -> int:
    """The most of these instances that our jobs moved off their node without migrating them.

    A job counts from its submission to its end: until then it may interrupt its instance.
    """
    spans = [
        (job.born, job.ends, move.instance)
        for job in one.cluster.jobs.values()
        if job.ours and (move := move_of(job.action)) and move.instance in names
        if isinstance(move, MovePrimary) and not move.live
    ]
    at_once = ({name for a, b, name in spans if a <= begin < b} for begin, _, _ in spans)
    return max(map(len, at_once), default=0)


def site(*instances: Instance, **members: object) -> Mender:
    step = RepairStep("try-1", need_drain=True)
    rules = replace(policy(step), **members)  # type: ignore[arg-type]
    there = list(instances)
    made = Mender(rules, instances=there)
    made.cluster.takes = lambda action: 45.0 if isinstance(action, MovePrimary) else 1.0
    made.tick()
    return made


def pair(tag: str, make: Callable[..., Instance] = lxc) -> tuple[Instance, ...]:
    tags = (f"{WEB}{tag}",) if tag else ()
    return tuple(make(f"web{n}", *places, *tags) for n, places in enumerate(PAIR, 1))


def by_incident(one: Mender) -> None:
    one.agents.says["n3"] = EVACUATE


def by_person(one: Mender) -> None:
    one.ask(Evacuate("n3", "new disks"))


def by_window(one: Mender) -> None:
    one.plan("n3")


def by_entry(one: Mender) -> None:
    one.add()


def by_roll(one: Mender) -> None:
    one.ask(StartRoll(Terms(REBOOT, reboots=True), ("n3",)))


OWNERS = [by_incident, by_person, by_window, by_entry, by_roll]


def is_empty(one: Mender) -> bool:
    return all("n3" not in (i.primary, i.secondary) for i in one.cluster.instances.values())


def reasons(one: Rig) -> Iterator[AnyKind]:
    for held in one.tick().decision.held:
        yield from (why.kind for why in whole(held.why))


@pytest.mark.parametrize(
    ("wants", "tag", "most"),
    [
        *((wants, "1", 1) for wants in OWNERS),
        *((by_incident, tag, most) for tag, most in (("50percent", 1), ("2", 2), ("", 2))),
    ],
)
def test_two_of_a_node_go_one_after_the_other(
    wants: Callable[[Mender], None], tag: str, most: int
) -> None:
    """A budget that one evacuation never has room for all at once takes longer, and ends."""
    one = site(*pair(tag))
    wants(one)
    one.until_true(lambda: is_empty(one))
    assert most_at_once(one, "web1", "web2") == most


def test_evacuate_failover_does_not_wait_and_says_so() -> None:
    one = site(*pair("1", kvm))
    one.agents.says["n3"] = FAILOVER
    told = set[AnyKind]()
    for _ in range(20):
        told |= set(reasons(one))
    assert is_empty(one)
    assert most_at_once(one, "web1", "web2") == 2
    assert {BudgetKind.BUDGET_OVERRIDDEN, BudgetKind.BUDGET_EXCEEDED} <= told


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
    tag = f"{WEB}1"
    one = site(lxc("web1", "n6", "n5", tag), lxc("web2", "n3", "n4", tag))
    one.cluster.world.crash("web1")
    by_entry(one)
    for _ in range(30):
        one.tick(60)
    assert (one.entry.status, one.drains(), one.restores()) == (EntryStatus.PROCESSING, 1, 0)
    one.cluster.world.start("web1")
    one.until_true(lambda: is_empty(one))


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
