"""The safe mode's next step: the graph of states, and where it does otherwise than harep."""

from dataclasses import replace

import pytest

from nodeagent.autorepair.jobs import RETRY_AFTER, is_ours, repair_id
from nodeagent.autorepair.steps import MOST, Mark, Next, Nothing, Step, Wait
from nodeagent.autorepair.tags import PREFIX, RepairType
from nodeagent.model.action import Guarded, MoveSecondary, Retag, Scope
from nodeagent.model.ledger import SHOWS, Result
from tests.autorepair.broken import (
    ANEW,
    AT,
    BASE,
    ERROR,
    FAILOVER,
    ID,
    LOST,
    MIGRATE,
    MIRROR,
    MOVED,
    NOW,
    OURS,
    RUNNING,
    SUCCESS,
    did,
    snapshot,
    step,
    told,
)

# Needs repair.


@pytest.mark.parametrize(
    ("states", "policy", "what"),
    [
        (("ok", "ok"), ("reinstall",), "nothing"),
        (("offline", "ok"), (), "nothing: "),
        (("offline", "ok"), ("suspend", "reinstall"), "nothing: suspended by tag"),
        (("offline", "ok"), ("suspend:tomorrow", "reinstall"), "nothing: suspended by tag"),
        (("offline", "ok"), ("Failover",), "nothing: nothing is allowed while tag"),
        # Enough.
        (("ok", "offline"), ("fix-storage",), f"fix-storage +pending:fix-storage:NEW:{AT}:"),
        (("ok", "drained"), ("reinstall",), f"fix-storage +pending:fix-storage:NEW:{AT}:"),
        (("drained", "ok"), ("migrate",), f"migrate +pending:migrate:NEW:{AT}:"),
        (("drained", "ok"), ("reinstall",), f"migrate +pending:migrate:NEW:{AT}:"),
        (("offline", "ok"), ("failover",), f"failover +pending:failover:NEW:{AT}:"),
        (("offline", "ok"), ("reinstall",), f"failover +pending:failover:NEW:{AT}:"),
        (("offline", "offline"), ("reinstall",), f"mark +pending:reinstall:NEW:{AT}:"),
        # A part of it is allowed, and done.
        (("drained", "drained"), ("migrate",), f"fix-storage +pending:migrate:NEW:{AT}:"),
        (("drained", "drained"), ("fix-storage",), f"fix-storage +pending:fix-storage:NEW:{AT}:"),
        # Not enough.
        (("drained", "ok"), ("fix-storage",), f"mark +result:migrate:NEW:{AT}:enoperm:"),
        (("offline", "ok"), ("migrate",), f"mark +result:failover:NEW:{AT}:enoperm:"),
        (("offline", "offline"), ("failover",), f"mark +result:reinstall:NEW:{AT}:enoperm:"),
        # Nothing would do.
        (("offline", "drained"), ("reinstall",), "nothing: its primary node p is offline and"),
    ],
)
def test_a_broken_instance(states: tuple[str, str], policy: tuple[str, ...], what: str) -> None:
    found = told(step(snapshot(*states, policy)))
    assert found.startswith(what) if what.startswith("nothing: ") else found == what


def test_the_reason_not_to_repair_names_the_tag_and_its_object() -> None:
    seen = snapshot("offline", "ok", (), cluster=("migrate",))
    found = step(seen)
    assert isinstance(found, Mark)
    assert found.why == (
        "its primary node p is offline: that needs failover, and repairs up to migrate are"
        " allowed by tag ganeti:watcher:autorepair:migrate on the cluster"
    )


def test_enoperm_is_said_once_of_a_need_and_hinders_nothing() -> None:
    said = f"result:failover:x:{AT - 100}:enoperm:"
    assert told(step(snapshot("offline", "ok", ("migrate", said)))).startswith("nothing: ")
    another = told(step(snapshot("offline", "offline", ("migrate", said))))
    assert another == f"mark +result:reinstall:NEW:{AT}:enoperm: -{said}"
    allowed = told(step(snapshot("offline", "ok", ("failover", said))))
    assert allowed == f"failover +pending:failover:NEW:{AT}: -{said}"


def test_what_is_left_of_earlier_repairs_goes_with_the_next() -> None:
    old = ("pending:failover:a:1:7", "result:failover:a:1:success:7", "result:migrate:b:2:success:")
    found = told(step(snapshot("offline", "ok", ("failover", *old))))
    assert found == " ".join([f"failover +pending:failover:NEW:{AT}:", *(f"-{tag}" for tag in old)])


def test_what_would_stop_harep_later_is_taken_off_a_healthy_instance() -> None:
    old = ("pending:failover:a:1:7", "result:failover:a:1:success:7")
    assert told(step(snapshot("ok", "ok", old))) == f"mark -{old[0]}"


def test_a_result_alone_stays() -> None:
    for ending in ("success", "enoperm"):
        tags = ("failover", f"result:failover:a:1:{ending}:7")
        assert told(step(snapshot("ok", "ok", tags))) == "nothing"


@pytest.mark.parametrize("states", [("ok", "ok"), ("offline", "ok")])
def test_a_failure_blocks_until_its_tag_is_removed(states: tuple[str, str]) -> None:
    tags = ("reinstall", "result:failover:a:1:failure:7", "pending:failover:b:2:")
    found = step(snapshot(*states, tags))
    assert isinstance(found, Nothing)
    assert f"remove its tag {PREFIX}{tags[1]}" in found.why


@pytest.mark.parametrize("states", [("ok", "ok"), ("offline", "ok")])
def test_tags_that_contradict_each_other_are_for_a_person(states: tuple[str, str]) -> None:
    found = step(snapshot(*states, ("reinstall", "pending:failover:b:2")))
    assert isinstance(found, Nothing)
    assert found.trouble


def test_a_job_of_a_repair_whose_tag_was_taken_off_is_waited_for() -> None:
    found = told(step(snapshot("offline", "ok", ("failover",)), [did(7, FAILOVER, RUNNING)]))
    assert found == "wait: job 7 has not ended, and its tag is not there"


@pytest.mark.parametrize(("failures", "minutes"), [(1, 5), (2, 10), (4, 40)])
def test_what_ends_before_it_can_set_its_tag_is_tried_more_and_more_seldom(
    failures: int, minutes: int
) -> None:
    seen = snapshot("offline", "ok", ("failover",))

    def after(ms: int) -> Next:
        return step(seen, [did(n, FAILOVER, ERROR, f"r{n}", ago=ms) for n in range(failures)])

    waiting = after(minutes * 60_000 - 1000)
    assert isinstance(waiting, Wait)
    assert "no luck" in waiting.why
    assert isinstance(after(minutes * 60_000), Step)
    once = did(9, FAILOVER, ERROR, "c")
    for beside in (did(8, FAILOVER, repair="a", ago=1), did(8, FAILOVER, ERROR, "b", 86_400_000)):
        assert isinstance(step(seen, [beside, once]), Step), "a success, and one of yesterday"


@pytest.mark.parametrize(("failures", "minutes"), [(1, 0), (2, 5), (3, 10), (5, 40)])
def test_tags_that_are_refused_are_set_more_and_more_seldom(failures: int, minutes: int) -> None:
    """A job filter rejects them, say; one refusal is somebody else's change."""
    seen = snapshot("offline", "ok", ("fix-storage",))
    swap = Retag(Scope.INSTANCE, "i", add=("t",))

    def after(ms: int, last: Result = ERROR) -> Next:
        jobs = [did(n, swap, ERROR, f"r{n}", ago=ms) for n in range(failures)]
        return step(
            seen, [did(0, swap, repair="r"), *jobs, *([] if last is ERROR else [did(9, swap)])]
        )

    assert isinstance(after(minutes * 60_000), Mark)
    if minutes:
        waiting = after(minutes * 60_000 - 1000)
        assert waiting == Wait(f"next attempt in 1 s: job {failures - 1} failed: no luck")
        assert isinstance(after(0, SUCCESS), Mark)


# Pending.


def pending(jobs: str = "", kind: str = "failover", identity: str = OURS) -> str:
    return f"pending:{kind}:{identity}:{AT - 3600}:{jobs}"


def swapped(jobs: str, before: str = "", kind: str = "failover") -> str:
    was = f"pending:{kind}:OLD:{AT - 3600}:"
    return f"+{was}{jobs} -{was}{before}"


def closed(ending: str, jobs: str, before: str = "", kind: str = "failover") -> str:
    was = f"pending:failover:OLD:{AT - 3600}:{before}"
    return f"mark +result:{kind}:OLD:{AT}:{ending}:{jobs} -{was}"


def test_what_is_suspended_is_not_touched_healthy_or_not() -> None:
    for states in (("ok", "ok"), ("offline", "ok")):
        found = told(step(snapshot(*states, ("failover", "suspend", pending()))))
        assert found.startswith(f"nothing: suspended by tag {PREFIX}suspend on instance i")


@pytest.mark.parametrize("states", [("ok", "ok"), ("offline", "ok")])
def test_while_a_job_runs_nothing_is_done_but_to_note_it(states: tuple[str, str]) -> None:
    tags = ("failover", pending("5"))
    jobs = [did(7, guarded(pending("5"), pending()), RUNNING)]
    assert told(step(snapshot(*states, tags), jobs)) == f"mark {swapped('5+7', '5')}"
    noting = did(8, Retag(Scope.INSTANCE, "i", add=("t",)), RUNNING)
    assert told(step(snapshot(*states, tags), [*jobs, noting])) == "wait: job 7 has not ended"
    noted = ("failover", pending("5+7"))
    assert told(step(snapshot(*states, noted), jobs, j5=SUCCESS)) == "wait: job 7 has not ended"


def test_a_job_that_has_not_set_its_tag_yet_is_not_noted() -> None:
    """It would find its tag gone, and end."""
    seen = snapshot("offline", "ok", ("failover", pending()))
    waiting = did(7, guarded(pending("5"), pending()), RUNNING)
    same = did(7, guarded(pending(), pending()), RUNNING)
    for job in (waiting, same):
        assert told(step(seen, [job])) == "wait: job 7 has not ended"


def guarded(add: str, remove: str) -> Guarded:
    swap = Retag(Scope.INSTANCE, "i", add=(PREFIX + add,), remove=(PREFIX + remove,))
    return Guarded(swap, FAILOVER)


def test_a_job_of_harep_s_is_waited_for_too_and_its_failure_is_one() -> None:
    tags = ("failover", pending("7", identity="x"))
    seen = snapshot("offline", "ok", tags)
    assert told(step(seen, j7=RUNNING)) == "wait: job 7 has not ended"
    assert told(step(seen, j7=ERROR)) == f"mark +result:failover:x:{AT}:failure:7 -{tags[1]}"


def test_a_job_nobody_has_asked_about_is_not_taken_for_lost() -> None:
    assert told(step(snapshot("offline", "ok", ("failover", pending("7"))))).startswith("wait")


def test_a_healthy_instance_s_repair_is_a_success() -> None:
    seen = snapshot("ok", "ok", (pending(),))
    assert told(step(seen)) == closed("success", "")
    assert told(step(seen, [did(7, FAILOVER)])) == closed("success", "7")
    for result in (SUCCESS, ERROR, LOST):
        tags = (pending("7", identity="x"),)
        found = told(step(snapshot("ok", "ok", tags), j7=result))
        assert found == f"mark +result:failover:x:{AT}:success:7 -{tags[0]}"


def test_but_not_where_a_job_has_failed_after_it_had_moved_the_instance() -> None:
    """Then it is on sound nodes, and nobody knows whether it runs."""
    seen = snapshot("ok", "ok", (pending(),), MOVED)
    assert told(step(seen, [did(7, FAILOVER, ERROR)])) == closed("failure", "7")
    assert told(step(seen, [did(7, FAILOVER, LOST)])) == closed("success", "7")


def test_all_that_were_asked_for_are_done_when_it_is_healthy() -> None:
    first, second = "pending:failover:a:1:", "pending:reinstall:b:2:"
    assert told(step(snapshot("ok", "ok", (second, first)))) == (
        f"mark +result:failover:a:{AT}:success: +result:reinstall:b:{AT}:success:"
        f" -{first} -{second}"
    )


def test_one_repair_goes_on_from_step_to_step() -> None:
    """Failed over; now its secondary is the node that is offline."""
    seen = snapshot("offline", "ok", ("failover", pending()), MOVED)
    assert told(step(seen, [did(7, FAILOVER)])) == f"fix-storage {swapped('7')}"
    noted = snapshot("offline", "ok", ("failover", pending("7")), MOVED)
    assert told(step(noted, [did(7, FAILOVER)])) == f"fix-storage {swapped('7', '7')}"
    mended = snapshot("offline", "ok", ("failover", pending("7")), replace(MOVED, secondary="n"))
    jobs = [did(7, FAILOVER), did(9, MIRROR)]
    assert told(step(mended, jobs)) == closed("success", "7+9", "7")


def test_where_the_repair_may_not_go_on_it_ends_with_what_it_lacks() -> None:
    tags = ("fix-storage", pending("7"))
    seen = snapshot("drained", "ok", ("fix-storage", pending("7", kind="fix-storage")))
    assert told(step(seen, [did(7, MoveSecondary("i", "x", "s"))])) == (
        f"mark +result:migrate:OLD:{AT}:enoperm:7 -pending:fix-storage:OLD:{AT - 3600}:7"
    )
    # The policy was narrowed meanwhile.
    assert told(step(snapshot("offline", "ok", tags), [did(7, MIGRATE, ERROR)])) == closed(
        "enoperm", "7", "7"
    )
    # Or taken back altogether.
    seen = snapshot("offline", "ok", (pending("7"),))
    assert told(step(seen, [did(7, MIGRATE, ERROR)])) == closed("enoperm", "7", "7")


def test_a_repair_does_not_become_more_than_it_was_begun_for() -> None:
    """With a new one, and a new look at the policy, it may."""
    tags = ("reinstall", pending("7"))
    seen = snapshot("offline", "offline", tags)
    assert told(step(seen, [did(7, FAILOVER, ERROR)])) == closed("enoperm", "7", "7", "reinstall")


def test_a_repair_that_somebody_asks_for_by_a_tag_is_allowed_by_it() -> None:
    tag = "pending:failover:ticket-7:5:"
    for policy in ((), ("fix-storage",)):
        seen = snapshot("offline", "ok", (*policy, tag))
        assert told(step(seen)) == f"failover +{tag} -{tag}"
        moved = snapshot("offline", "ok", (*policy, tag), MOVED)
        going = told(step(moved, [did(7, FAILOVER, repair="ticket-7")]))
        assert going == f"fix-storage +{tag}7 -{tag}"


def test_a_once_off_keeps_its_type_in_its_result() -> None:
    """Whoever has asked finds the answer by what was asked for, not by what would be needed."""
    tag = "pending:fix-storage:ticket-1:5:"
    more = snapshot("offline", "ok", (tag,))
    assert told(step(more)) == f"mark +result:fix-storage:ticket-1:{AT}:enoperm: -{tag}"
    ours = snapshot("offline", "offline", ("reinstall", pending("7")))
    after = step(ours, [did(7, FAILOVER, ERROR)])
    assert told(after) == closed("enoperm", "7", "7", "reinstall"), "a policy's: what is needed"


# How jobs have ended.


def test_a_job_that_failed_and_changed_nothing_is_tried_twice_more() -> None:
    seen = snapshot("offline", "ok", ("failover", pending()))
    jobs = [did(7, FAILOVER, ERROR)]
    assert told(step(seen, jobs)) == f"failover {swapped('7')}"
    jobs.append(did(8, FAILOVER, ERROR))
    assert told(step(seen, jobs)) == f"failover {swapped('7+8')}"
    jobs.append(did(9, FAILOVER, ERROR))
    assert told(step(seen, jobs)) == closed("failure", "7+8+9")


@pytest.mark.parametrize("state", ["offline", "drained"])
def test_but_not_at_once(state: str) -> None:
    """A failover in place of a migration, which its tags forbade, is a try of it as well."""
    seen = snapshot(state, "ok", ("failover", pending()))
    found = told(step(seen, [did(7, FAILOVER, ERROR, ago=RETRY_AFTER - 1000)]))
    assert found == "wait: next attempt in 1 s: job 7 failed: no luck"


def test_earlier_steps_are_no_tries_of_this_one() -> None:
    seen = snapshot("offline", "ok", ("failover", pending()), MOVED)
    jobs = [did(6, FAILOVER, ERROR), did(7, FAILOVER), did(8, MIRROR, ERROR), did(9, MIRROR, ERROR)]
    assert told(step(seen, jobs)) == f"fix-storage {swapped('6+7+8+9')}"


def test_what_failed_and_what_is_needed_now_may_be_two_things() -> None:
    """It could not migrate, and then its node died."""
    tags = ("failover", pending())
    found = told(step(snapshot("offline", "ok", tags), [did(7, MIGRATE, ERROR, ago=0)]))
    assert found == f"failover {swapped('7')}"


def test_an_installation_changes_its_tag_also_where_no_job_is_to_be_noted() -> None:
    """Of two jobs that take the same tag off and put it on again both would install."""
    seen = snapshot("offline", "offline", ("reinstall", pending(kind="reinstall")))
    found = step(seen)
    assert isinstance(found, Step)
    assert found.kind is RepairType.REINSTALL
    assert found.swap.remove == (PREFIX + pending(kind="reinstall"),)
    assert not set(found.swap.add) & set(found.swap.remove)


def test_a_failed_installation_is_never_tried_again() -> None:
    tags = ("reinstall", pending(kind="reinstall"))
    found = told(step(snapshot("offline", "offline", tags), [did(7, ANEW, ERROR)]))
    assert found.startswith(f"mark +result:reinstall:OLD:{AT}:failure:7")


@pytest.mark.parametrize(("result", "ending"), [(SUCCESS, "success"), (LOST, "failure")])
def test_an_installation_is_a_success_only_if_its_job_says_so(result: Result, ending: str) -> None:
    """How far a lost one came is unknown, healthy nodes or not."""
    tags = ("reinstall", pending(kind="reinstall"))
    moved = replace(BASE, primary="n", secondary="m")
    found = told(step(snapshot("offline", "offline", tags, moved), [did(7, ANEW, result)]))
    assert found.startswith(f"mark +result:reinstall:OLD:{AT}:{ending}:7")


def test_a_job_that_failed_half_way_is_not_tried_again() -> None:
    seen = snapshot("offline", "ok", ("failover", pending()), MOVED)
    assert told(step(seen, [did(7, FAILOVER, ERROR)])) == closed("failure", "7")


def test_a_request_goes_on_after_our_first_job_for_it_without_any_policy() -> None:
    """harep's job in the tag would not do: then a policy has begun the repair."""
    seen = snapshot("offline", "ok", (pending("7", identity="ticket"),), MOVED)
    ours = did(7, FAILOVER, repair="ticket")
    assert told(step(seen, [ours])).startswith("fix-storage ")
    assert ":enoperm:7 " in told(step(seen, j7=SUCCESS))


def test_a_job_that_has_gone_is_judged_by_its_effect() -> None:
    seen = snapshot("offline", "ok", ("failover", pending()), MOVED)
    assert told(step(seen, [did(7, FAILOVER, LOST)])) == f"fix-storage {swapped('7')}"
    same = snapshot("offline", "ok", ("failover", pending()))
    assert told(step(same, [did(7, FAILOVER, LOST)])) == closed("failure", "7")
    theirs = ("failover", pending("7", identity="x"))
    assert "success" in told(step(snapshot("ok", "ok", theirs), j7=LOST))
    assert "failure" in told(step(snapshot("offline", "ok", theirs), j7=LOST))
    assert "fix-storage" in told(step(snapshot("offline", "ok", theirs, MOVED), j7=LOST))


def test_what_has_just_succeeded_may_not_be_seen_yet() -> None:
    seen = snapshot("offline", "ok", ("failover", pending()))
    assert told(step(seen, [did(7, FAILOVER, ago=SHOWS - 1)])).startswith("wait: job 7 succeeded")
    assert told(step(seen, [did(7, FAILOVER, ago=RETRY_AFTER)])) == f"failover {swapped('7')}"


def test_what_succeeds_for_ever_and_mends_nothing_ends() -> None:
    seen = snapshot("ok", "offline", ("failover", pending()))
    jobs = [did(n, MoveSecondary("i", "x", "s")) for n in range(MOST - 1)]
    assert isinstance(step(seen, jobs), Step)
    jobs.append(did(MOST, MoveSecondary("i", "x", "s")))
    found = step(seen, jobs)
    assert isinstance(found, Mark)
    assert "12 jobs have not mended it" in found.why
    assert "failure" in told(found)


def test_where_nothing_can_be_done_now_a_pending_repair_stays() -> None:
    found = told(step(snapshot("offline", "drained", ("failover", pending()))))
    assert found.startswith(
        "wait: its primary node p is offline and its secondary node s is drained"
    )


def test_a_result_that_fits_in_no_tag_is_for_a_person() -> None:
    long = f"pending:failover:{'x' * 74}:5:"
    assert len(PREFIX + long) <= 128
    found = step(snapshot("ok", "ok", (long,)))
    assert isinstance(found, Nothing)
    assert found.trouble


@pytest.mark.parametrize(
    ("kind", "states", "fallback"),
    [
        ("migrate", ("drained", "ok"), False),
        ("failover", ("drained", "ok"), True),
    ],
)
def test_a_migration_becomes_a_failover_only_in_a_repair_of_that_type(
    kind: str, states: tuple[str, str], fallback: bool
) -> None:
    found = step(snapshot(*states, ("reinstall", pending(kind=kind))))
    assert isinstance(found, Step)
    assert (found.kind, found.fallback) == (RepairType.MIGRATE, fallback)


# Names.


def test_an_id_of_ours_is_known_again() -> None:
    assert is_ours(ID, "i")
    assert not is_ours(ID, "j")
    assert not is_ours("11111111-1111-1111-1111-111111111111", "i")
    assert not is_ours("ticket-7", "i")
    assert repair_id("i", NOW) != repair_id("i", NOW + 1)
