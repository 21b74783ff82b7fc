"""Balancing a group: what is begun, what is held, and what is not done twice."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from nodeagent.maintd.balancing import past_moves
from nodeagent.maintd.balancing.moves import course, fault
from nodeagent.maintd.balancing.plan import FRESH, wants_room
from nodeagent.maintd.planning.outcomes import BACK_OFF
from nodeagent.model.action import MovePrimary, Retag, RunCommand, Scope, TagPlace
from nodeagent.model.balance import Advice, Agenda, Lopsided, Shift
from nodeagent.model.diagnosis import Diagnosis
from nodeagent.model.incident import Status
from nodeagent.model.ledger import Decision, Intent, Ledger, Outcome, Policy, Result, Storm, Trail
from nodeagent.model.outage import Outage
from nodeagent.model.purpose import BALANCE, OfBalance, OfIncident, OfRepair
from nodeagent.model.reason import AnyKind, BalanceKind, Kind, Reason, StageKind, because
from nodeagent.model.snapshot import Capacity, Group, Node, Observed, Snapshot
from nodeagent.model.stage import ADVISE, FULL
from nodeagent.model.units import Ms
from nodeagent.model.window import Mode, Scheduled
from nodeagent.model.wish import Balance, StopBalancing, Wish
from tests.maintd.balancing.world import HALT, ON, OVER, advised, begun, done, shift, why, world
from tests.maintd.decided import details, kinds, within
from tests.maintd.leaving import DAY, HOUR, in_windows, window
from tests.maintd.world import EVACUATE, NOW, REPAIR, incident, instance, ledger, node, seen

BALANCES = replace(ON, balance_threshold=0.5)
UNASKED = replace(BALANCES, balance=False)
GAINS = advised(shift("a", "n1:n2", "n2:n1", gain=0.5))
LITTLE = advised(shift("a", "n1:n2", "n2:n1", gain=0.25))
LISTED = Agenda("default", "ada", NOW, (OVER,), listed=True)
ONCE = Agenda("default", "ada", NOW)
ROOM: dict[str, tuple[Ledger, Observed, Policy, bool]] = {
    "no advice yet": (Ledger(), seen(world()), BALANCES, False),
    "the least gain that is worth it": (Ledger(), seen(world(), advice=GAINS), BALANCES, True),
    "less": (Ledger(), seen(world(), advice=LITTLE), BALANCES, False),
    "of a group that is not balanced": (Ledger(), seen(world(), advice=GAINS), UNASKED, False),
    "but once": (Ledger(agenda=(ONCE,)), seen(world(), advice=GAINS), UNASKED, True),
    "once, without advice": (Ledger(agenda=(ONCE,)), seen(world()), UNASKED, False),
    "a person's list": (Ledger(agenda=(LISTED,)), seen(world()), UNASKED, True),
    "a person asks just now": (
        Ledger(),
        seen(world(), wishes=(Wish("w", "ada", NOW, Balance("default")),)),
        UNASKED,
        True,
    ),
    "for something else": (
        Ledger(),
        seen(world(), wishes=(Wish("w", "ada", NOW, StopBalancing("default")),)),
        UNASKED,
        False,
    ),
}


def test_when_nodes_are_asked_for_their_room() -> None:
    for name, (before, observed, policy, asks) in ROOM.items():
        assert wants_room(before, observed, policy) is asks, name


@pytest.mark.parametrize(
    ("at", "to", "jobs"),
    [
        ("n1:n2", "n2:n1", ["P n1 n2"]),
        ("n1:n2", "n1:n3", ["S n2 n3"]),
        ("n1:n2", "n3:n1", ["S n2 n3", "P n1 n3"]),
        ("n1:n2", "n3:n2", ["P n1 n2", "S n1 n3", "P n2 n3"]),
        ("n1:n2", "n2:n3", ["P n1 n2", "S n1 n3"]),
        ("n1", "n3", ["P n1 n3"]),
    ],
)
def test_each_of_hbal_s_moves_is_these_jobs(at: str, to: str, jobs: list[str]) -> None:
    primary, _, mirror = at.partition(":")
    there = instance("a", primary, mirror or None, **({} if mirror else {"template": "rbd"}))
    wanted = shift("a", at, to)
    assert not fault(wanted, there)
    found = course(wanted, there)
    assert [f"{type(j).__name__[4]} {j.node} {j.target}" for j in found] == jobs
    pair = [primary, mirror]  # what the jobs do, one after the other
    for job in found:
        if isinstance(job, MovePrimary):
            pair = [job.target or "", pair[0] if mirror else ""]
            assert job.live, "nobody is interrupted"
            assert not job.fallback, "nobody is interrupted"
        else:
            assert job.node == pair[1]
            pair = [pair[0], job.target]
    assert ":".join(filter(None, pair)) == to


@pytest.mark.parametrize(
    ("template", "at", "to", "why"),
    [
        ("plain", "n1", "n2", "its disks (plain) are only on n1"),
        ("drbd", "n1:n2", "n2", "it uses DRBD: name two nodes"),
        ("drbd", "n1", "n2:n1", "it uses DRBD: name two nodes"),
        ("rbd", "n1:n2", "n2", "it does not use DRBD: name one node"),
        ("rbd", "n1", "n2:n3", "it does not use DRBD: name one node"),
        ("drbd", "n1:n2", "n3:n3", "n3 cannot be both its nodes"),
        ("drbd", "n1:n2", "n1:n2", "it is there already"),
        ("drbd", "n1:n2", "n3:n4", "no one move replaces both its nodes"),
    ],
)
def test_what_is_no_move(template: str, at: str, to: str, why: str) -> None:
    wanted = shift("a", at, to)
    mirror = "n2" if template == "drbd" else None
    assert fault(wanted, replace(instance("a", "n1", mirror), template=template)) == why


@pytest.mark.parametrize(
    "never", [{"always_failover": True}, {"hypervisor": "lxc"}, {"hypervisor": "chroot"}]
)
def test_what_ganeti_never_migrates_is_not_interrupted(never: dict[str, Any]) -> None:
    there = instance("a", "n1", "n2", **never)
    why = "Ganeti never migrates it, and a failover would interrupt it"
    assert fault(OVER, there) == why
    assert fault(shift("a", "n1:n2", "n3:n1"), there) == why
    assert not fault(shift("a", "n1:n2", "n1:n3"), there), "its mirror may move"
    assert not fault(OVER, replace(there, running=False))
    seen_there = world()
    seen_there = replace(seen_there, instances={**seen_there.instances, "a": there})
    decision = done(seen(seen_there, advice=advised(OVER)))
    assert not begun(decision)
    assert decision.questions[0].never == {"a"}


# By itself.


def test_below_full_what_is_worth_it_is_only_told_unless_a_person_asks() -> None:
    below = replace(ON, stage=ADVISE)
    decision = done(seen(world(), advice=advised(OVER)), policy=below)
    assert not begun(decision)
    assert details(decision.held, StageKind.WOULD_BALANCE)["moves"] == 1
    asked = Ledger(agenda=(Agenda("default", "ada", NOW),))
    assert begun(done(seen(world(), advice=advised(OVER)), asked, below))


def test_what_is_worth_it_is_begun_for_the_group() -> None:
    decision = done(seen(world(), advice=advised(OVER)))
    (intent,) = begun(decision)
    assert intent.action == MovePrimary("a", "n1", True, "n2", fallback=False)
    assert intent.owner == BALANCE
    assert intent.reason == f"balance:default:{intent.id}"
    (question,) = decision.questions
    assert question.nodes == {"n1", "n2", "n3", "n4", "n5", "n6"}
    assert question.share == ON.balance_threshold / ON.balance_moves


def test_only_what_has_no_node_in_common_with_anything_before_it_is_begun() -> None:
    shifts = (
        OVER,  # n1 n2
        shift("b", "n1:n3", "n3:n1"),  # n1 again: waits, and with it n3
        shift("c", "n4:n5", "n5:n4"),
        shift("d", "n3:n6", "n6:n3"),  # after b
    )
    there = world(a=("n1", "n2"), b=("n1", "n3"), c=("n4", "n5"), d=("n3", "n6"))
    decision = done(seen(there, advice=advised(*shifts)))
    assert [getattr(i.action, "instance", "") for i in begun(decision)] == ["a", "c"]
    few = done(seen(there, advice=advised(*shifts)), policy=replace(ON, balance_moves=1))
    assert len(begun(few)) == 1


ONTO = shift("a", "n1:n2", "n1:n3")
OFF = shift("b", "n1:n3", "n1:n2")


@pytest.mark.parametrize("moved", [ONTO, OFF], ids=["onto", "off"])
def test_a_node_that_leaves_soon_takes_no_part(moved: Shift) -> None:
    before = in_windows(window("n3", 10 * HOUR, 11 * HOUR))
    decision = done(seen(world(), advice=advised(moved)), before)
    assert not begun(decision)
    (held,) = (h.why for h in decision.held if h.why.kind is BalanceKind.NOT_BALANCED)
    assert (Kind.LEAVES, "n3") in within(held)
    (question,) = decision.questions
    assert question.nodes == {"n1", "n2", "n4", "n5", "n6"}
    assert begun(done(seen(world(), advice=advised(OVER)), before)), "the others are balanced"


EMPTY, OFFLINE = node("n3", drained=True), node("n3", offline=True)
DOWN = {"mode": Mode.DOWN, "begun": True}


@pytest.mark.parametrize(
    ("planned", "n3", "waits"),
    [
        pytest.param(window("n3", HOUR, 2 * HOUR), node("n3"), True, id="about to leave"),
        pytest.param(window("n3", HOUR + 1, 2 * HOUR), node("n3"), False, id="not yet"),
        pytest.param(window("n3", 9 * HOUR, DAY, begun=True), EMPTY, True, id="empty early"),
        pytest.param(window("n3", -1, HOUR, **DOWN), OFFLINE, True, id="soon back"),
        pytest.param(window("n3", -1, 3 * DAY + 1, **DOWN), OFFLINE, False, id="away for long"),
        pytest.param(window("n3", -1, None, **DOWN), OFFLINE, False, id="for ever"),
    ],
)
def test_a_group_rests_from_shortly_before_a_node_leaves_until_it_is_back(
    planned: Scheduled, n3: Node, waits: bool
) -> None:
    there = world(n3, a=("n1", "n2"), c=("n4", "n5"))
    before = in_windows(planned, outages=(Outage("uuid-n3", offline_by="1"),))
    decision = done(seen(there, advice=advised(OVER)), before)
    assert bool(begun(decision)) is not waits
    if waits:
        assert why(decision).kind is Kind.LEAVES


def test_a_gain_must_last() -> None:
    slow = replace(ON, balance_settle=Ms(600_000))
    first = done(seen(world(), advice=advised(OVER)), policy=slow)
    assert not begun(first)
    said = details([why(first)], BalanceKind.NOT_LASTING)
    assert (said["moves"], said["score"], said["final"]) == (1, 10.0, 9.0)
    assert first.ledger.lopsided == (Lopsided("default", NOW, NOW),)
    later = NOW + 500_000
    even = advised(replace(OVER, gain=0.01), at=later)
    second = done(seen(world(), advice=even), first.ledger, slow, later)
    assert second.ledger.lopsided == (), "a break"
    third = done(seen(world(), advice=advised(OVER, at=later)), first.ledger, slow, NOW + 600_000)
    assert len(begun(third)) == 1


@pytest.mark.parametrize(
    ("gain", "expected"), [(0.09, 0), (0.1, 1)], ids=["too little", "just enough"]
)
def test_a_round_must_be_worth_the_threshold(gain: float, expected: int) -> None:
    advice = {"default": Advice("default", NOW, gain, 0.0, (replace(OVER, gain=gain),))}
    assert len(begun(done(seen(world(), advice=advice)))) == expected


def test_an_old_advice_is_none() -> None:
    for age, expected in ((FRESH - 1, 1), (FRESH, 0)):
        old = seen(world(), advice=advised(OVER, at=NOW - age))
        assert len(begun(done(old))) == expected
    future = seen(world(), advice=advised(OVER, at=NOW + 1))
    assert not begun(done(future)), "somebody has set the clock back"


def trail(job: str = "5", ended: int = NOW - 10_000, **members: Any) -> Trail:
    action = MovePrimary("a", "n1", True, "n2", fallback=False)
    kept: dict[str, Any] = {"result": Result(Outcome.SUCCESS), "at": NOW - 20_000, **members}
    return Trail(job, f"balance:default:{job}", action, ended=Ms(ended), **kept)


def test_an_advice_from_before_the_last_move_is_none() -> None:
    before = Ledger(shifted=(trail(ended=NOW - 10),))
    there = world(a=("n2", "n1"), c=("n4", "n5"))
    other = shift("c", "n4:n5", "n5:n4")
    assert not begun(done(seen(there, advice=advised(other, at=NOW - 11)), before))
    assert begun(done(seen(there, advice=advised(other, at=NOW - 10)), before))


def test_who_was_moved_rests_and_is_not_brought_back() -> None:
    (question,) = done(seen(world()), Ledger(shifted=(trail(),))).questions
    assert question.never == {"a"}
    assert question.left == {("a", "n1", "primary")}
    rested = Ledger(shifted=(trail(ended=NOW - ON.balance_cooldown),))
    (question,) = done(seen(world()), rested).questions
    assert question.never == frozenset()
    assert question.left == {("a", "n1", "primary")}, "still not back"
    assert not done(seen(world()), Ledger(shifted=(trail(ended=NOW - 86_400_000),))).ledger.shifted


# What it gives way to.


@dataclass(frozen=True)
class Given:
    """What is seen, with an advice in which n6 has no part unless another is given."""

    there: Snapshot
    before: Ledger = field(default_factory=Ledger)
    said: Mapping[str, Diagnosis] = field(default_factory=dict)
    doubts: Mapping[str, str] = field(default_factory=dict)
    advice: Mapping[str, Advice] = field(default_factory=lambda: advised(OVER))
    busy: Mapping[str, str] = field(default_factory=dict)

    def decision(self, policy: Policy = ON) -> Decision:
        observed = seen(self.there, self.said, self.doubts, advice=self.advice, busy=self.busy)
        return done(observed, self.before, policy)


def paused(name: str) -> Snapshot:
    return world(node(name, tags=frozenset({"maintd:pause:yes"})))


def apart(*names: str) -> Snapshot:
    """These nodes are in another group."""
    there = world(*(node(name, group="other") for name in names), a=("n1", "n2"))
    return replace(there, groups={**there.groups, "other": Group("other", "other")})


TO_N6 = advised(shift("a", "n1:n2", "n6:n1"))
MIRROR_TO_N6 = advised(shift("a", "n1:n2", "n1:n6"))
UNSEEN = ledger(incident("n6", EVACUATE, Status.FAILED, tag_seen=False))
FAILED = incident("n6", REPAIR, Status.FAILED, tag_seen=True)
TAGGED = world(node("n6", tags=frozenset({FAILED.tag})))
LEAVES = MovePrimary("z", "n6", True, "n5")
DRAINED = world(node("n6", drained=True))
SWITCHED_OFF = world(node("n6", tags=frozenset({"maintd:balance:no"})))
EMPTIED = world(node("n6", drained=True), z=("n6", "n5"), a=("n1", "n2"))
EVACUATES = {"n6": EVACUATE}
BUSY_FOR_REPAIR = Ledger(intents=(Intent("3", OfRepair("r"), "n6", LEAVES, "12"),))
MOVES = (Intent("3", OfIncident(UNSEEN.incidents[0].id), "n6", LEAVES, "12"),)
STORMY = Ledger(storm=Storm(Ms(1), "3 are sick"))
NO_ROOM = {"default": Advice("default", NOW, why="no room is known")}
PAUSED = replace(world(), tags=frozenset({"maintd:pause:yes"}))
GIVES_WAY: dict[tuple[AnyKind, str] | None, dict[str, Given]] = {
    None: {
        "nothing": Given(world()),
        "trouble of another group": Given(apart("n6"), said=EVACUATES),
        "a group of two nodes": Given(apart("n3", "n4", "n5", "n6")),
        "a failed repair elsewhere": Given(world(), UNSEEN, said=EVACUATES),
        "a failed repair elsewhere, and its tag": Given(TAGGED, ledger(FAILED)),
        "a failed repair that is acknowledged": Given(world(), ledger(FAILED), advice=TO_N6),
        "a failed repair without moves": Given(EMPTIED, UNSEEN, said=EVACUATES),
        "a drained node that is silent": Given(DRAINED, doubts={"n6": "silent"}),
        "another job at a node that has no part": Given(world(), busy={"n6": "77"}),
    },
    (BalanceKind.HAS_TROUBLE, "n6"): {
        "an evacuation": Given(world(), said=EVACUATES),
        "a live repair": Given(world(), said={"n6": REPAIR}),
    },
    (Kind.IN_DOUBT, "n6"): {"a silent node": Given(world(), doubts={"n6": "silent"})},
    (Kind.ASKS, "n6"): {"a failed repair": Given(world(), UNSEEN, EVACUATES, advice=TO_N6)},
    (Kind.FAILED_BEFORE, "n6"): {
        "a failed repair's tag": Given(TAGGED, ledger(FAILED), advice=TO_N6),
        "the same for a mirror": Given(TAGGED, ledger(FAILED), advice=MIRROR_TO_N6),
        "a failed repair's tag alone": Given(TAGGED, advice=TO_N6),
        "the same for a mirror, alone": Given(TAGGED, advice=MIRROR_TO_N6),
    },
    (Kind.STORM, ""): {"a storm": Given(world(), STORMY)},
    (Kind.OUTDATED_QUEUE, ""): {"doubt about the ledger": Given(world(), Ledger(away=Ms(1)))},
    (Kind.TAGGED, ""): {"a pause of all": Given(PAUSED)},
    (Kind.ON_HOLD, "n2"): {"a pause of a node": Given(paused("n2"))},
    (Kind.CLAIMED, "n6"): {"a repair": Given(world(), BUSY_FOR_REPAIR)},
    (Kind.CLAIMED, "n5"): {
        "moves of a failed repair": Given(EMPTIED, replace(UNSEEN, intents=MOVES), EVACUATES),
    },
    (Kind.OTHERS_JOB, ""): {
        "another job of its instance": Given(world(), busy={"a": "77"}),
        "another job that empties its node": Given(world(), busy={"n2": "77"}),
    },
    (BalanceKind.NO_SEARCH, "default"): {
        "a search that is refused": Given(world(), advice=NO_ROOM)
    },
    (BalanceKind.FEW_FREE_NODES, "default"): {
        "five nodes out of service": Given(
            world(*(node(f"n{n}", drained=True) for n in range(2, 7)))
        ),
    },
}


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        pytest.param(given, reason, id=name)
        for reason, rows in GIVES_WAY.items()
        for name, given in rows.items()
    ],
)
def test_what_balancing_gives_way_to(given: Given, reason: tuple[AnyKind, str] | None) -> None:
    decision = given.decision()
    assert bool(begun(decision)) is (reason is None)
    if reason is not None:
        assert reason in within(why(decision))


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(Given(DRAINED), id="drained"),
        pytest.param(Given(world(node("n6", offline=True))), id="offline"),
        pytest.param(Given(world(node("n6", vm_capable=False))), id="not vm-capable"),
        pytest.param(Given(SWITCHED_OFF), id="switched off"),
        pytest.param(Given(TAGGED, ledger(FAILED)), id="its repair has failed"),
        pytest.param(Given(world(), UNSEEN, EVACUATES), id="its repair fails just now"),
        pytest.param(Given(apart("n6")), id="in another group"),
    ],
)
def test_a_node_that_takes_no_part(given: Given) -> None:
    decision = given.decision()
    nodes = {question.group: question.nodes for question in decision.questions}
    assert nodes["default"] == {"n1", "n2", "n3", "n4", "n5"}
    assert begun(decision)
    assert not begun(replace(given, advice=TO_N6).decision())


def test_a_person_who_lists_moves_to_a_node_whose_repair_has_failed_is_told() -> None:
    wish = Wish("w", "root", NOW, Balance("default", TO_N6["default"].shifts))
    assert not begun(done(seen(TAGGED, wishes=(wish,)), ledger(FAILED)))


@pytest.mark.parametrize(
    ("has", "expected"),
    [
        ({}, because(Kind.UNKNOWN_ROOM, "n3")),
        ({"n3": Capacity(1000, 10)}, because(Kind.TOO_SMALL, "n3", free=10, what="disk")),
        ({"n3": Capacity(10, 1000)}, because(Kind.TOO_SMALL, "n3", free=10, what="memory")),
    ],
)
def test_what_has_no_room_now_is_not_begun(has: Mapping[str, Capacity], expected: Reason) -> None:
    there = world()
    big = replace(there.instances["a"], memory=100, disk=100)
    there = replace(there, instances={**there.instances, "a": big})
    wanted = advised(shift("a", "n1:n2", "n3:n1"))
    decision = done(seen(there, advice=wanted, capacity=has))
    assert not begun(decision)
    assert why(decision).kind is BalanceKind.MOVE_WAITS
    assert why(decision).parts == (expected,)


# When a job fails.


def submitted() -> tuple[Ledger, str]:
    """The ledger while the one job of OVER runs, and the id of its intent."""
    first = done(seen(world(), advice=advised(OVER)))
    (intent,) = begun(first)
    return replace(first.ledger, intents=(replace(intent, job="7"),)), intent.id


def failing(result: Outcome = Outcome.ERROR) -> Decision:
    ledger, intent = submitted()
    observed = seen(world(), results={intent: result}, advice=advised(OVER, at=NOW + 1))
    return done(observed, ledger, now=NOW + 2)


@pytest.mark.parametrize("result", [Outcome.ERROR, Outcome.LOST])
def test_whatever_fails_ends_it_until_somebody_acknowledges(result: Outcome) -> None:
    decision = failing(result)
    (halt,) = decision.ledger.halts
    tag = Retag(Scope.GROUP, "default", (halt.tag,))
    assert [i.action for i in decision.ledger.intents] == [tag]
    assert halt.tag == "maintd:balancefailed:7"
    assert (why(decision).kind, why(decision).subject.name) == (BalanceKind.HALTED, "default")
    assert str(dict(why(decision).details)["why"]).startswith("job 7 (migrate a off n1 to n2) ")
    assert why(decision).help == f"gnt-group remove-tags default {halt.tag}"

    tagged = world(tags=[halt.tag])
    later = seen(tagged, advice=advised(OVER, at=NOW + 50))
    still = done(later, replace(decision.ledger, intents=()), now=NOW + 51)
    assert not begun(still)
    assert still.ledger.halts[0].tag_seen

    free = done(seen(world(), advice=advised(OVER, at=NOW + 60)), still.ledger, now=NOW + 61)
    assert not free.ledger.halts
    assert begun(free), "and goes on"


def test_what_the_change_of_master_cut_off_is_no_failure_and_waits_a_while() -> None:
    decision = failing(Outcome.LATER)
    assert not decision.ledger.halts
    assert not begun(decision)
    assert why(decision).kind is BalanceKind.NOT_TAKEN
    assert dict(why(decision).details)["left"] == 60_000
    later = NOW + BACK_OFF + 10
    again = done(seen(world(), advice=advised(OVER, at=later)), decision.ledger, now=later + 1)
    assert not again.ledger.halts


def test_a_success_is_waited_for_until_it_shows() -> None:
    ledger, intent = submitted()
    results = {intent: Outcome.SUCCESS}
    stale = done(seen(world(), results=results), ledger, now=NOW + 1000)
    assert len(begun(stale)) == 1
    moved = world(a=("n2", "n1"))
    over = done(seen(moved, results=results), stale.ledger, now=NOW + 2000)
    assert not begun(over)
    assert [t.job for t in over.ledger.shifted] == ["7"]
    given_up = done(seen(world(), results=results), stale.ledger, now=NOW + 60_000)
    assert not begun(given_up)


# By wish.


def wished(*shifts: Shift, group: str = "default") -> tuple[Wish, ...]:
    return (Wish("w", "ada", NOW, Balance(group, shifts)),)


def test_what_was_asked_for_is_given_up_where_somebody_moves_things() -> None:
    left = Ledger(agenda=(Agenda("default", "ada", NOW, (OVER,), True),))
    decision = done(seen(world(a=("n3", "n2"))), left, Policy(stage=FULL))
    assert not begun(decision)
    assert not decision.ledger.agenda
    gone = because(
        BalanceKind.MOVE_WAITS,
        "a",
        move="a n1:n2 => n2:n1",
        why=because(BalanceKind.NOT_THERE, "a"),
    )
    assert why(decision) == because(
        BalanceKind.LIST_GIVEN_UP, "default", who="ada", moves=1, why=gone
    )


def test_it_can_be_stopped() -> None:
    left = Ledger(agenda=(Agenda("default", "ada", NOW, (OVER,), True),))
    wish = (Wish("w", "bob", NOW, StopBalancing("default")),)
    decision = done(seen(world(), wishes=wish), left, Policy(stage=FULL))
    assert not decision.ledger.agenda
    assert not begun(decision)
    assert done(seen(world(), wishes=wish), policy=Policy(stage=FULL)).refused == {
        "w": "nothing was asked for in group default, or it is done"
    }


@pytest.mark.parametrize(
    ("wish", "before", "expected"),
    [
        (wished(group="none"), Ledger(), "there is no group none"),
        (wished(), Ledger(halts=(HALT,)), "remove the tag maintd:balancefailed:7 from group defa"),
        (
            wished(),
            Ledger(agenda=(Agenda("default", "bob", Ms(1)),)),
            "the moves that bob asked for are still",
        ),
        (wished(shift("q", "n1:n2", "n2:n1")), Ledger(), "move 1: there is no instance q"),
        (wished(OVER, OVER), Ledger(), "move 2: a n1:n2 => n2:n1: it is on n2:n1"),
        (
            wished(shift("a", "n1:n2", "n9:n1")),
            Ledger(),
            "move 1: n9 is not a node of group default",
        ),
        (wished(shift("a", "n1:n2", "n3:n4")), Ledger(), "no one move replaces both its nodes"),
    ],
)
def test_what_cannot_be_asked_for(wish: tuple[Wish, ...], before: Ledger, expected: str) -> None:
    decision = done(seen(world(), wishes=wish), before, Policy(stage=FULL))
    assert expected in decision.refused["w"]
    assert decision.ledger.agenda == before.agenda


# Moves that failed, also without a ledger.


def remembered(there: Snapshot, *more: Trail, ended: int = NOW - 1000) -> Ledger:
    """A migration of `a` has failed; `more` came after it."""
    action = MovePrimary("a", "n1", True, "n2", fallback=False)
    result = Result(Outcome.ERROR, "told so")
    failed = Trail("5", "balance:default:5", action, result, NOW - 50_000, Ms(ended))
    trails, halts = past_moves.recalled(Ledger(), [failed, *more], there, NOW)
    return Ledger(shifted=trails, halts=halts)


def tagging(*tags: str) -> Trail:
    action = Retag(Scope.GROUP, "default", tags)
    return Trail("6", "maintd:6", action, Result(Outcome.SUCCESS), NOW - 500, NOW - 400)


def test_a_failure_halts_until_it_is_acknowledged_also_without_a_ledger() -> None:
    tag = "maintd:balancefailed:5"
    assert [halt.job for halt in remembered(world()).halts] == ["5"]
    assert remembered(world(tags=[tag]), tagging(tag)).halts, "the tag is there still"
    assert not remembered(world(), tagging(tag)).halts, "somebody has removed it"
    assert remembered(world(), tagging("maintd:balance:yes")).halts
    assert not remembered(world(c=("n4", "n5"))).halts, "its instance is gone"
    assert remembered(world()).shifted


def test_a_failure_whose_tag_was_lost_halts_and_is_told_again() -> None:
    tag = "maintd:balancefailed:5"
    gone = [TagPlace(Scope.GROUP, "default", tag)]
    action = MovePrimary("a", "n1", True, "n2", fallback=False)
    failed = Trail("5", "balance:default:5", action, Result(Outcome.ERROR), NOW - 900, NOW - 800)
    trails = [failed, tagging(tag)]
    _, halts = past_moves.recalled(Ledger(), trails, world(), NOW, gone)
    assert [halt.job for halt in halts] == ["5"]
    known = Ledger(shifted=(failed,), halts=(replace(halts[0], tag_seen=True),))
    _, halts = past_moves.recalled(known, trails, world(), NOW, gone)
    assert [(halt.job, halt.tag_seen) for halt in halts] == [("5", False)]


def test_the_end_of_a_move_ends_no_other_work_of_its_number() -> None:
    """A master without a ledger may have used the number of an order anew."""
    order = Intent("5", OfIncident("i1"), "n4", RunCommand("n4", "fix", "{}"), "i1")
    move = MovePrimary("a", "n1", True, "n2", fallback=False)
    before = Ledger(intents=(order, Intent("5", OfBalance("default"), "n1", move, "7")))
    after = past_moves.remember(before, seen(world(), results={"5": Outcome.ERROR}), NOW)
    assert ([halt.job for halt in after.halts], after.intents) == (["7"], (order,))


def test_what_is_asked_for_a_group_of_one_node_says_what_is_missing() -> None:
    there = world(node("n6", group="small"))
    there = replace(there, groups={**there.groups, "small": Group("small", "small")})
    decision = done(seen(there), Ledger(agenda=(Agenda("small", "ada", NOW),)), Policy(stage=FULL))
    assert kinds(decision.held) == [
        (BalanceKind.NOT_BALANCED, "small"),
        (BalanceKind.FEW_NODES, "small"),
    ]
