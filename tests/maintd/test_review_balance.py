"""What a hostile reviewer found about balancing: each was a fault once."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from nodeagent.cluster.backend import Answer, Submission
from nodeagent.maintd.balancing import past_moves as shifted
from nodeagent.maintd.balancing.plan import DOUBTED, FRESH
from nodeagent.maintd.balancing.search_thread import Adviser
from nodeagent.maintd.ledger.lost_tags import Place
from nodeagent.maintd.planning.resources import open_room
from nodeagent.model.action import MovePrimary, MoveSecondary, Retag, RunCommand, Scope
from nodeagent.model.balance import Agenda, Lopsided
from nodeagent.model.incident import Status
from nodeagent.model.ledger import Intent, Ledger, Outcome, Policy, Result, Trail
from nodeagent.model.snapshot import Capacity, Group, Snapshot
from nodeagent.model.wish import Balance, Wish
from nodeagent.placement.cluster.from_ganeti import Known
from tests.maintd.rig import QUICK, Between, Rig, fleet, mirrored
from tests.maintd.test_adviser import ASKED, KNOWN, SEEN
from tests.maintd.test_balance import ON, OVER, advised, begun, done, shift, why, world
from tests.maintd.test_balance_lifecycle import ON as LIVELY
from tests.maintd.world import EVACUATE, NOW, REPAIR, incident, ledger, node, seen

SLOW = replace(ON, balance_settle=600_000, balance_load=True)
DOUBT = "the load of n2 is measured for 200 s more"


# Noise.


def test_a_gain_that_is_one_only_without_the_load_must_last_by_itself() -> None:
    """After a round of moves nothing is measured for a while: all count the same then."""
    by_load = Ledger(lopsided=(Lopsided("default", NOW - 3_600_000, NOW - 60_000),))
    first = done(seen(world(), advice=advised(OVER, doubt=DOUBT)), by_load, SLOW)
    assert not begun(first)
    assert f"({DOUBT}): begun if that is so for 600 s more" in why(first)
    later = NOW + 300_000
    known = done(seen(world(), advice=advised(OVER, at=later)), first.ledger, SLOW, later)
    assert not begun(known), "it is another gain"
    assert known.ledger.lopsided == (Lopsided("default", later, later),)
    later = NOW + 600_000
    doubted = advised(OVER, at=later, doubt=DOUBT)
    assert begun(done(seen(world(), advice=doubted), first.ledger, SLOW, later))


@pytest.mark.parametrize("asked", [False, True], ids=["by itself", "as asked"])
def test_doubt_about_the_load_is_waited_out_however_quick_the_settings(asked: bool) -> None:
    quick = replace(SLOW, balance_settle=0)
    agenda = (Agenda("default", "ada", NOW),) if asked else ()
    before = Ledger(agenda=agenda)
    first = done(seen(world(), advice=advised(OVER, doubt=DOUBT)), before, quick)
    assert not begun(first)
    later = NOW + DOUBTED
    second = seen(world(), advice=advised(OVER, at=later, doubt=DOUBT))
    assert begun(done(second, first.ledger, quick, later))
    assert begun(done(seen(world(), advice=advised(OVER)), before, quick)), "what is known is not"


def test_a_gain_that_nobody_has_looked_at_for_long_begins_anew() -> None:
    """maintd was stopped, its search hung, or somebody has put the clock forward."""
    first = done(seen(world(), advice=advised(OVER)), policy=SLOW)
    for gap, expected in ((FRESH - 1, 1), (FRESH, 0)):
        later = NOW + gap
        again = done(seen(world(), advice=advised(OVER, at=later)), first.ledger, SLOW, later)
        assert len(begun(again)) == expected


def test_the_moves_of_a_round_are_no_break() -> None:
    first = done(seen(world(), advice=advised(OVER)))
    later = NOW + FRESH
    under_way = done(seen(world()), first.ledger, SLOW, later)
    assert under_way.ledger.lopsided == (Lopsided("default", NOW, later),)
    ended = replace(under_way.ledger, intents=())
    there = world(a=("n2", "n1"), c=("n4", "n5"))
    more = advised(shift("c", "n4:n5", "n5:n4"), at=later + 1)
    assert begun(done(seen(there, advice=more), ended, SLOW, later + 1))


def test_what_was_in_the_way_is_a_break_in_the_gain() -> None:
    first = done(seen(world(), advice=advised(OVER)), policy=SLOW)
    later = NOW + 300_000
    doubt = done(seen(world(), doubts={"n6": "silent"}), first.ledger, SLOW, later)
    assert not doubt.ledger.lopsided
    later = NOW + 600_000
    again = done(seen(world(), advice=advised(OVER, at=later)), doubt.ledger, SLOW, later)
    assert not begun(again)


# What others do meanwhile.


def test_moves_of_a_repair_that_has_failed_are_waited_for() -> None:
    failed = incident("n6", EVACUATE, Status.FAILED, tag_seen=False)
    move = Intent("3", failed.id, "n6", MovePrimary("z", "n6", True, "n5"), "12")
    there = world(node("n6", drained=True), z=("n6", "n5"), a=("n1", "n2"))
    observed = seen(there, {"n6": EVACUATE}, advice=advised(OVER))
    assert why(done(observed, ledger(failed, intents=(move,)))).endswith("by another repair")
    assert begun(done(observed, ledger(failed)))


def test_a_drained_node_may_be_silent() -> None:
    there = world(node("n6", drained=True))
    assert begun(done(seen(there, doubts={"n6": "silent"}, advice=advised(OVER))))


def test_one_free_node_is_no_balance() -> None:
    out = [node(f"n{n}", drained=True) for n in range(2, 7)]
    assert why(done(seen(world(*out)))) == "fewer than two of its nodes are free: n2 is drained"
    assert done(seen(world(*out[1:]))).questions


@pytest.mark.parametrize("what", ["a", "n2"], ids=["instance", "node being emptied"])
def test_what_somebody_else_s_job_is_at_work_on_is_left_alone(what: str) -> None:
    busy = {what: "77"}
    decision = done(seen(world(), advice=advised(OVER), busy=busy))
    assert not begun(decision)
    assert why(decision).endswith("job 77, which is not ours, is at work on it")
    assert begun(done(seen(world(), advice=advised(OVER), busy={"n6": "77"})))


def test_who_moves_an_instance_by_hand_is_not_fought() -> None:
    """Before: our job came after theirs, failed, and ended the balancing of the group."""
    rig = Rig(fleet(4), mirrored(("n2", "n3"), ("n2", "n3"), ("n2", "n4")), LIVELY)
    rig.cluster.takes = lambda _: 45.0
    for _ in range(40):
        if rig.ledger.lopsided:
            break
        rig.tick()
    advised_there = rig.round().observed.advice["default"].shifts[0].instance
    there = rig.cluster.instances[advised_there]
    assert there.secondary is not None
    rig.cluster.submit_foreign(MovePrimary(there.name, there.primary, True, there.secondary))
    for _ in range(4):
        rig.tick()
        assert advised_there not in str(rig.jobs()), "it is somebody else's now"
    for _ in range(60):
        rig.tick(30.0)
    assert not rig.ledger.halts


class Meddled(Between):
    """Somebody else comes between the decision and its jobs."""

    meddle: Callable[[], object]

    def capacity(self, nodes: Collection[str]) -> Mapping[str, Capacity]:
        free = super().capacity(nodes)
        self.meddle()
        return free


def test_what_has_changed_since_it_was_decided_is_not_submitted() -> None:
    rig = Rig(fleet(4), mirrored(("n2", "n3")), QUICK)
    meddled = Meddled(rig.cluster)
    meddled.meddle = lambda: rig.cluster.put(replace(rig.cluster.instances["i1"], running=False))
    rig._through = lambda _: meddled
    rig.crash()
    rig.tick()
    rig.wish(Balance("default", (replace(OVER, instance="i1", at=SPOT, to=OTHER),)))
    rig.tick()
    assert not rig.jobs(), "what is stopped cannot be migrated"
    meddled.meddle = lambda: None
    for _ in range(8):
        rig.tick()
    assert len(rig.jobs()) == 1
    assert rig.cluster.instances["i1"].primary == "n3"


def test_a_job_of_somebody_else_s_that_comes_before_ours_is_seen() -> None:
    rig = Rig(fleet(4), mirrored(("n2", "n3")), QUICK)
    rig.cluster.takes = lambda _: 45.0
    meddled = Meddled(rig.cluster)
    by_hand = MovePrimary("i1", "n2", True, "n3")
    meddled.meddle = lambda: None if rig.cluster.busy() else rig.cluster.submit_foreign(by_hand)
    rig._through = lambda _: meddled
    rig.crash()
    rig.tick()
    rig.wish(Balance("default", (replace(OVER, instance="i1", at=SPOT, to=OTHER),)))
    rig.tick()
    assert not rig.jobs(), "it was not there when it was decided"


class Hurried(Between):
    """Jobs end before the next request."""

    rig: Rig

    def submit(self, batch: Sequence[Submission]) -> Sequence[Answer]:
        answers = super().submit(batch)
        self.rig.time += 2.0
        return answers


def test_what_follows_a_job_is_submitted_though_that_has_ended_by_then() -> None:
    rig = Rig(fleet(4), mirrored(("n2", "n3")), QUICK)
    hurried = Hurried(rig.cluster)
    hurried.rig = rig
    rig._through = lambda _: hurried
    rig.crash()
    rig.tick()
    rig.wish(Balance("default", (shift("i1", "n2:n3", "n4:n2"),)))
    rig.tick()
    assert len(rig.jobs()) == 2
    rig.tick()
    there = rig.cluster.instances["i1"]
    assert (there.primary, there.secondary) == ("n4", "n2")


SPOT = shift("i1", "n2:n3", "n3:n2").at
OTHER = shift("i1", "n2:n3", "n3:n2").to


def crowded(**members: Any) -> Snapshot:
    """`a` takes 600 MiB, and n2 keeps 500 MiB free for `b`."""
    there = world(a=("n1", "n2"), b=("n3", "n2"))
    sized = {
        "a": replace(there.instances["a"], memory=600),
        "b": replace(there.instances["b"], **{"memory": 500, **members}),
    }
    return replace(there, instances=sized)


def free(**memory: int) -> dict[str, Capacity]:
    plenty = {f"n{i}": Capacity(10**6, 10**6) for i in range(1, 7)}
    return plenty | {name: Capacity(mib, 10**6) for name, mib in memory.items()}


def test_an_advice_from_before_somebody_else_took_the_room_is_not_followed() -> None:
    decision = done(seen(crowded(), advice=advised(OVER), capacity=free(n2=1000)))
    assert not begun(decision)
    expected = "n2 would have 400 MiB of memory left, and need 500 MiB should n3 fail"
    assert why(decision).endswith(expected)
    assert begun(done(seen(crowded(), advice=advised(OVER), capacity=free(n2=1100))))


@pytest.mark.parametrize(
    ("has", "members"),
    [
        (free(n2=610), {"auto_balance": False}),
        (free(n2=610), {"running": False}),
        (free(n1=0, n2=1100), {}),
        (free(n2=601), {"memory": 700}),
    ],
    ids=["not balanced", "stopped", "what leaves makes room", "could not before"],
)
def test_room_is_kept_for_what_needs_it(
    has: Mapping[str, Capacity], members: Mapping[str, Any]
) -> None:
    assert begun(done(seen(crowded(**members), advice=advised(OVER), capacity=has)))


def test_a_mirror_comes_to_nobody_who_could_not_run_it() -> None:
    over = advised(shift("a", "n1:n2", "n1:n4"))
    decision = done(seen(crowded(), advice=over, capacity=free(n4=599)))
    assert "n4 would have 599 MiB of memory left, and need 600 MiB should n1" in why(decision)
    assert begun(done(seen(crowded(), advice=over, capacity=free(n4=600))))


def test_no_command_repairs_a_node_that_a_mirror_is_being_copied_from() -> None:
    copying = Intent("3", "", "n2", MoveSecondary("a", "n2", "n3"), "12", group="default")
    there = world(replace(node("n1"), tags=frozenset()))
    sick = seen(there, {"n1": REPAIR})
    before = ledger(intents=(copying,))
    first = done(sick, before, policy=replace(ON, settle=0))
    (noted,) = first.ledger.incidents
    marked = world(replace(node("n1"), tags=frozenset({noted.mark})))
    kept = replace(first.ledger, intents=(copying,))
    held = done(seen(marked, {"n1": REPAIR}), kept, policy=replace(ON, settle=0), now=NOW + 1)
    assert not [i for i in held.ledger.intents if isinstance(i.action, RunCommand)]
    reasons = [h.reason for h in held.held if h.node == "n1"]
    assert "n1 gives instance a a new mirror: that ends first" in reasons
    over = replace(kept, intents=())
    after = done(seen(marked, {"n1": REPAIR}), over, policy=replace(ON, settle=0), now=NOW + 2)
    assert [i for i in after.ledger.intents if isinstance(i.action, RunCommand)]


def test_what_leaves_a_node_is_not_copied_from_it() -> None:
    leaving = (
        Intent("3", "", "n1", MovePrimary("a", "n1", True, "n2"), "12", group="default"),
        Intent("4", "", "n1", MoveSecondary("a", "n1", "n3"), "13", "3", group="default"),
    )
    room = open_room(Ledger(intents=leaving), seen(world()), {})
    assert (room.copied_from("n1"), room.copied_from("n2")) == (None, None)
    copying = Intent("3", "", "n2", MoveSecondary("a", "n2", "n3"), "12", group="default")
    room = open_room(Ledger(intents=(copying,)), seen(world()), {})
    assert (room.copied_from("n1"), room.copied_from("n2")) == ("a", None)


# What a maintd without memory makes of the jobs there were.


def remembered(there: Snapshot, *more: Trail, ended: int = NOW - 1000) -> Ledger:
    """A migration of `a` has failed; `more` came after it."""
    action = MovePrimary("a", "n1", True, "n2", fallback=False)
    result = Result(Outcome.ERROR, "told so")
    failed = Trail("5", "balance:default:5", action, result, NOW - 50_000, ended)
    trails, halts = shifted.recalled(Ledger(), [failed, *more], there, NOW)
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
    gone = [Place(Scope.GROUP, "default", tag)]
    action = MovePrimary("a", "n1", True, "n2", fallback=False)
    failed = Trail("5", "balance:default:5", action, Result(Outcome.ERROR), NOW - 900, NOW - 800)
    trails = [failed, tagging(tag)]
    _, halts = shifted.recalled(Ledger(), trails, world(), NOW, gone)
    assert [halt.job for halt in halts] == ["5"]
    known = Ledger(shifted=(failed,), halts=(replace(halts[0], tag_seen=True),))
    _, halts = shifted.recalled(known, trails, world(), NOW, gone)
    assert [(halt.job, halt.tag_seen) for halt in halts] == [("5", False)]


def test_what_is_a_day_old_is_over_also_without_a_ledger() -> None:
    old = remembered(world(), ended=NOW - 86_400_000)
    assert (old.shifted, old.halts) == ((), ())


# What is asked for.


def test_what_is_asked_for_there_and_back_is_done_there_and_back() -> None:
    back = shift("a", "n2:n1", "n1:n2")
    before, moved = Ledger(agenda=(Agenda("default", "ada", NOW, (OVER, back), True),)), 0
    there = world()
    for now in range(NOW, NOW + 3):
        decision = done(seen(there), before, Policy(), now)
        for intent in begun(decision):
            assert isinstance(intent.action, MovePrimary)
            there = world(a=(intent.action.target, intent.action.node))
            moved += 1
        before = replace(decision.ledger, intents=())
    assert moved == 2
    assert not before.agenda


def test_no_list_reaches_into_another_group() -> None:
    there = world(node("n6", group="other"), a=("n1", "n2"))
    there = replace(there, groups={**there.groups, "other": Group("other", "other")})
    wish = (Wish("w", "ada", NOW, Balance("default", (shift("a", "n1:n2", "n1:n6"),))),)
    decision = done(seen(there, wishes=wish), policy=Policy())
    assert decision.refused["w"] == "move 1: n6 is no node of group default"


def test_what_was_asked_for_a_group_that_is_gone_is_forgotten() -> None:
    left = Ledger(agenda=(Agenda("gone", "ada", NOW), Agenda("default", "ada", NOW)))
    decision = done(seen(world()), left, Policy())
    assert [agenda.group for agenda in decision.ledger.agenda] == ["default"]


def test_what_is_asked_for_a_group_of_one_node_says_what_is_missing() -> None:
    there = world(node("n6", group="small"))
    there = replace(there, groups={**there.groups, "small": Group("small", "small")})
    decision = done(seen(there), Ledger(agenda=(Agenda("small", "ada", NOW),)), Policy())
    (held,) = (h.reason for h in decision.held)
    assert held == "group small is not balanced: it has fewer than two nodes"


# The search.


class Hung:
    """An adviser whose work is never done, or that gets no thread."""

    def __init__(self, start: Callable[[Callable[[], None]], None]) -> None:
        self.seconds = 0.0
        self.adviser = Adviser(
            lambda _, __: self._known(), lambda _, __: ({}, {}), start, lambda: self.seconds
        )

    @staticmethod
    def _known() -> Known:
        return KNOWN


def test_a_search_that_never_ends_is_told_of() -> None:
    work: list[Callable[[], None]] = []
    desk = Hung(work.append)
    desk.adviser.ask([ASKED], SEEN, 1)
    desk.seconds = 900.0
    desk.adviser.ask([ASKED], SEEN, 2)
    assert not desk.adviser.advice()
    desk.seconds = 960.0
    desk.adviser.ask([ASKED], SEEN, 3)
    assert desk.adviser.advice()["g"].why == "the search has not ended for 16 min"
    assert len(work) == 1
    work[0]()
    assert not desk.adviser.advice()["g"].why
    desk.adviser.ask([ASKED], SEEN, 4)
    assert len(work) == 2


def test_without_a_thread_a_round_goes_on_and_the_next_tries_again() -> None:
    tries = 0

    def none(work: Callable[[], None]) -> None:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise RuntimeError("can't start new thread")
        work()

    desk = Hung(none)
    desk.adviser.ask([ASKED], SEEN, 1)
    assert desk.adviser.advice()["g"].why == "nothing can be searched: can't start new thread"
    desk.adviser.ask([ASKED], SEEN, 2)
    assert not desk.adviser.advice()["g"].why
