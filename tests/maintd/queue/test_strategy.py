"""The next step of each entry: CKE's rules (strategy_test.go), a row each, and what CKE lacks.

`test_what_an_entry_does` has one entry by itself, in a queue that is enabled and in one that is
disabled; the other tests have several, or look at what is saved with a turn.
"""

from dataclasses import replace
from typing import Any, TypeAlias

import pytest

from nodeagent.maintd.queue.strategy import Do, Machine, take_turns
from nodeagent.model.queue import Entry, EntryStatus, Procedures, Queue
from nodeagent.model.reason import AnyKind, Kind, because
from tests import counted
from tests.maintd.decided import details
from tests.maintd.queue.turns import (
    DAY,
    DRAINING,
    EMPTY,
    HERE,
    MIN,
    PROCESSING,
    WAITING,
    WATCHING,
    begun,
    did,
    entry,
    how,
    turns,
    whys,
)
from tests.maintd.world import NOW

OUTSIDE, OTHER = Machine(), Machine("n5")
HOURS = 4 * 60 * MIN  # for which an evacuation or a check is waited for
SUCCEEDED, FAILED = EntryStatus.SUCCEEDED, EntryStatus.FAILED
MOVING, RUNNING = replace(EMPTY, moving=True), replace(HERE, running=True)
WINDOW = because(Kind.IN_WINDOW, "n4")
SHUT = replace(HERE, shut=WINDOW)
THEIRS = replace(EMPTY, theirs=because(Kind.CLAIMED, "n4"))


Row: TypeAlias = tuple[str, Entry, Machine, Do | AnyKind | None, Do | AnyKind | None]


def row(
    name: str,
    one: Entry,
    does: Do | AnyKind | None,
    disabled: Do | AnyKind | None,
    machine: Machine = HERE,
) -> Row:
    """What becomes of an entry: what is done, or why it is held; and in a disabled queue."""
    return name, one, machine, does, disabled


def always(name: str, one: Entry, does: Do | AnyKind | None, machine: Machine = HERE) -> Row:
    """The same in a disabled queue."""
    return row(name, one, does, does, machine)


NEEDS_DRAIN = entry(operation="drains")
QUEUED = [
    row("queued", entry(), Do.EXECUTE, Kind.QUEUE_DISABLED),
    row("outside of the cluster", entry(), Do.EXECUTE, Kind.QUEUE_DISABLED, OUTSIDE),
    row("need_drain", NEEDS_DRAIN, Do.DRAIN, Kind.QUEUE_DISABLED),
    row("need_drain outside", NEEDS_DRAIN, Do.EXECUTE, Kind.QUEUE_DISABLED, OUTSIDE),
    row("out already", NEEDS_DRAIN, Do.EXECUTE, Kind.QUEUE_DISABLED, EMPTY),
    row("out, not empty", NEEDS_DRAIN, Do.DRAIN, Kind.QUEUE_DISABLED, replace(HERE, out=True)),
    row("empty, not out", NEEDS_DRAIN, Do.DRAIN, Kind.QUEUE_DISABLED, replace(HERE, empty=True)),
    row("never checked", entry(checked_at=0), Kind.CHECK_AWAITED, Kind.QUEUE_DISABLED),
    row(
        "checked just before",
        entry(checked_at=NOW - MIN - 1),
        Kind.CHECK_AWAITED,
        Kind.QUEUE_DISABLED,
    ),
    row("checked since", entry(checked_at=NOW - MIN), Do.EXECUTE, Kind.QUEUE_DISABLED),
    always("in a window", entry(), Kind.IN_WINDOW, SHUT),
    always("somebody else's", entry(), WINDOW.kind, replace(HERE, taken=WINDOW)),
    always("healthy", entry(healthy=True), Do.FINISH),
    always("no operation", replace(entry(), operation="op9"), Kind.NO_PROCEDURE),
    row("refused just now", entry(not_before=NOW + 1), Kind.COMMAND_SOON, Kind.QUEUE_DISABLED),
    row("refused before", entry(not_before=NOW), Do.EXECUTE, Kind.QUEUE_DISABLED),
    always("no such step", begun(step=2), Do.FINISH),
]


def draining(ago: int, **members: Any) -> Entry:
    return begun(at=DRAINING, ago=ago, operation="drains", **members)


DRAINED = draining(MIN, drained=True)
LOST = replace(DRAINED, operation="op9")
IS_DRAINED = [
    row("the default", draining(HOURS), Do.DRAIN, Do.BACK_OFF),
    always("more than the default", draining(HOURS + 1), Do.BACK_OFF),
    row("drained", DRAINED, Do.EXECUTE, Do.BACK_OFF, EMPTY),
    row("drained, no node any more", DRAINED, Do.EXECUTE, Do.BACK_OFF, OUTSIDE),
    row("something moves still", DRAINED, Do.DRAIN, Do.BACK_OFF, MOVING),
    row("its drain is on the way", DRAINED, Do.DRAIN, Do.BACK_OFF, replace(HERE, moving=True)),
    always("put back by somebody", DRAINED, Do.BACK_OFF),
    always("healed meanwhile", replace(DRAINED, healthy=True), Do.FINISH, EMPTY),
    row(
        "to be checked since",
        replace(DRAINED, checked_at=NOW - MIN - 1),
        Kind.CHECK_AWAITED,
        Do.BACK_OFF,
        EMPTY,
    ),
    row(
        "checked in time",
        draining(HOURS, drained=True, checked_at=0),
        Kind.CHECK_AWAITED,
        Do.BACK_OFF,
        EMPTY,
    ),
    always(
        "never checked since", draining(HOURS + 1, drained=True, checked_at=0), Do.BACK_OFF, EMPTY
    ),
    always("no procedure any more", LOST, Do.FINISH, EMPTY),
    always("no procedure, and it runs", LOST, Kind.NO_PROCEDURE, RUNNING),
]


def backing_off(left: int, **members: Any) -> Entry:
    return begun(operation="drains", backoffs=1, backoff_until=NOW + left, **members)


BACKS_OFF = [
    always("drained by us", backing_off(1, drained=True), Do.RELEASE, EMPTY),
    always("not drained", backing_off(1), Kind.BACKS_OFF),
    row("over", backing_off(0), Do.DRAIN, Kind.QUEUE_DISABLED),
    row("over, and drained", backing_off(0, drained=True), Do.EXECUTE, Do.RELEASE, EMPTY),
    always(
        "over, in a window", backing_off(0, drained=True), Do.RELEASE, replace(EMPTY, shut=WINDOW)
    ),
]


def watched(ago: int, index: int = 0, **members: Any) -> Entry:
    return begun(index, at=WATCHING, ago=ago, **{"operation": "watches", **members})


def unanswered(one: Entry, ago: int = DAY) -> Entry:
    return replace(one, unanswered="exit code 75", unanswered_since=NOW - ago)


LONG = watched(DAY, checked_at=0)
WATCHED = [
    always("30 s of 60", watched(30_000), Kind.WATCHED),
    always("60 s of 60", watched(60_000), Kind.WATCHED),
    row("more than 60 s", watched(60_001), Do.EXECUTE, Kind.QUEUE_DISABLED),
    row("without a watch", begun(at=WATCHING), Do.EXECUTE, Kind.QUEUE_DISABLED),
    always("the last step", watched(2 * MIN, step=1), Do.FINISH),
    always("healthy", watched(0, healthy=True), Do.FINISH),
    always("its command runs", watched(DAY), None, RUNNING),
    always("shut", watched(2 * MIN), Do.WAIT, SHUT),
    always("shut at the last step", watched(2 * MIN, step=1), Do.WAIT, SHUT),
    always(
        "checked just before its end",
        watched(2 * MIN, checked_at=NOW - MIN - 1),
        Kind.CHECK_AWAITED,
    ),
    row(
        "checked since its end",
        watched(2 * MIN, checked_at=NOW - MIN),
        Do.EXECUTE,
        Kind.QUEUE_DISABLED,
    ),
    # A check is waited for as long as nobody could make it: who was not there for a day would else
    # give up at once what he finds.
    always("nobody asked", LONG, Kind.CHECK_AWAITED),
    always("asked for in vain for 4 h", unanswered(LONG, HOURS), Kind.CHECK_AWAITED),
    always("for longer", unanswered(LONG, HOURS + 1), Do.BACK_OFF),
    always(
        "for a day, of which the watch was a part",
        unanswered(watched(HOURS + 59_000, checked_at=0)),
        Kind.CHECK_AWAITED,
    ),
    always("at the last step", unanswered(replace(LONG, step=1)), Do.FINISH),
    always("at the last step in a window", unanswered(replace(LONG, step=1)), Do.BACK_OFF, SHUT),
]


def telling(**members: Any) -> Entry:
    return begun(operation="tells", **members)


HEALED = telling(at=WATCHING, healthy=True)
OVER = entry(status=SUCCEEDED, drained=True)
ENDS = [
    always("succeeded, drained by us", OVER, Do.RELEASE, EMPTY),
    always("failed, drained by us", replace(OVER, status=FAILED), Do.RELEASE, EMPTY),
    always("something moves still", OVER, Kind.RETURNS_AFTER_MOVES, MOVING),
    always("others are at work there", OVER, Do.RELEASE, THEIRS),
    always("drained by somebody else", entry(status=SUCCEEDED), None, EMPTY),
    always("failed", entry(status=FAILED), None),
    always("deleted", entry(deleted=True), Do.DEQUEUE),
    always("deleted in work", watched(0, deleted=True), Do.DEQUEUE),
    always("deleted, and runs", watched(0, deleted=True), Kind.DELETED, RUNNING),
    always("deleted, and moves", draining(0, deleted=True, drained=True), Kind.DELETED, MOVING),
    always("its success is told", HEALED, Do.SUCCEED),
    always("its success is told later", HEALED, Kind.COMMAND_LATER, THEIRS),
    always(
        "telling was refused", telling(ending=True, not_before=NOW + 1), Kind.COMMAND_SOON, HERE
    ),
    always("telling may be tried", telling(ending=True, not_before=NOW), Do.SUCCEED, HERE),
    # The retry of a repair is nothing to wait for.
    always("healed before a retry", telling(healthy=True, not_before=NOW + DAY), Do.SUCCEED, HERE),
]


def test_what_an_entry_does() -> None:
    for name, one, machine, does, disabled in (*QUEUED, *IS_DRAINED, *BACKS_OFF, *WATCHED, *ENDS):
        for enabled, expected in ((True, does), (False, disabled)):
            done = turns(one, machine=machine, enabled=enabled)
            held = [kind for kind, _ in whys(done)]
            if isinstance(expected, Do):
                assert [do for do, _ in did(done)] == [expected], (name, enabled)
            else:
                assert did(done) == [], (name, enabled)
                assert held[:1] == ([expected] if expected else []), (name, enabled)


# Several entries.


CANDIDATE = Machine("n1", candidate=True)
TWO = how(max_concurrent_repairs=2)


NEXT: list[tuple[str, list[Machine], Procedures, list[int], list[AnyKind]]] = [
    ("the oldest", [HERE, OTHER], how(), [0], [Kind.AT_MOST]),
    ("a candidate first", [HERE, CANDIDATE], how(), [1], [Kind.AT_MOST]),
    ("and a worker", [HERE, CANDIDATE, OTHER], TWO, [1, 0], [Kind.AT_MOST]),
    ("one of two", [Machine("n2", candidate=True), CANDIDATE], TWO, [0], [Kind.CANDIDATE]),
    # CKE's map that should see to this is never written.
    ("once a machine", [HERE, HERE], TWO, [0], [Kind.SAME_MACHINE]),
    ("no place taken", [replace(HERE, taken=WINDOW), OTHER], how(), [1], [Kind.IN_WINDOW]),
]


def test_who_is_next() -> None:
    for name, machines, procedures, expected, held in NEXT:
        queued = [entry(n) for n in range(len(machines))]
        done = turns(*queued, machines=dict(enumerate(machines)), procedures=procedures)
        assert did(done) == [(Do.EXECUTE, n) for n in expected], name
        assert [kind for kind, _ in whys(done)] == held, name


KEEPS_WAITING: list[tuple[str, Entry, Entry, Machine, list[tuple[Do, int]]]] = [
    ("begun before queued", entry(0), begun(1), CANDIDATE, [(Do.EXECUTE, 1)]),
    (
        "at work before postponed",
        begun(0, backoffs=1, backoff_until=NOW - 1),
        watched(0, index=1),
        CANDIDATE,
        [],
    ),
    ("a command that runs", watched(0), entry(1), RUNNING, []),
    ("backing off", backing_off(MIN), entry(1), HERE, [(Do.EXECUTE, 1)]),
    # With CKE it stays queued for ever, and eats the limit.
    ("no operation", replace(entry(0), operation="op9"), entry(1), HERE, [(Do.EXECUTE, 1)]),
    ("not checked", entry(0, checked_at=0), entry(1), HERE, [(Do.EXECUTE, 1)]),
]


def test_who_keeps_others_waiting() -> None:
    for name, first, second, machine, expected in KEEPS_WAITING:
        done = turns(first, second, machines={0: machine, 1: OTHER})
        assert did(done) == expected, name


def test_what_is_at_work_keeps_its_place_when_another_need_not_wait_any_more() -> None:
    waited = begun(0, backoffs=1, backoff_until=NOW - 1)
    ends = begun(1, ending=True)
    running = {0: replace(CANDIDATE, name="n5"), 1: RUNNING}
    done = turns(waited, ends, machines=running)
    assert did(done) == []
    assert done.held == [(waited, because(Kind.AT_MOST, most=1))]


def test_between_two_tries_a_check_is_not_waited_for_for_ever() -> None:
    """Its node is drained, and its place is kept."""
    waits = unanswered(begun(0, ago=DAY, attempt=1, not_before=NOW - HOURS, checked_at=0))
    other, places = entry(1), {0: HERE, 1: OTHER}
    done = turns(waits, other, machines=places)
    assert (did(done), done.held[0][0]) == ([], waits)
    (turn,) = turns(replace(waits, not_before=NOW - HOURS - 1), other, machines=places).turns
    assert (turn.do, turn.entry.step) == (Do.BACK_OFF, 0)
    off = replace(waits, backoffs=1, backoff_until=NOW - 1)
    assert did(turns(off, other, machines=places)) == [(Do.EXECUTE, 1)]


@pytest.mark.parametrize("over", [{"status": FAILED}, {"deleted": True}])
def test_the_next_entry_takes_a_node_as_the_one_before_gives_it_back(
    over: dict[str, object],
) -> None:
    """Drained and empty as it is, the next runs its command at once, and does not drain it."""
    old, new = replace(begun(0, drained=True), **over), entry(1, operation="drains")  # type: ignore[arg-type]
    gone = [(Do.DEQUEUE, 0)] if old.deleted else []
    assert did(turns(old, machine=EMPTY)) == [(Do.RELEASE, 0), *gone]
    done = did(turns(old, new, machine=EMPTY))
    assert (done[0], done[-1]) == ((Do.RELEASE, 0), (Do.EXECUTE, 1))
    moving = turns(old, new, machines={0: MOVING, 1: EMPTY})
    assert (did(moving), whys(moving)[-1]) == ([], (Kind.SAME_MACHINE, ""))


# Who is checked first.


def checked(*entries: Entry, **members: Any) -> list[int]:
    return [one.index for one in turns(*entries, **members).checks]


def test_whose_check_was_longest_ago_is_checked_first_and_nobody_who_runs() -> None:
    three = entry(0), entry(1, checked_at=NOW - 3), entry(2, checked_at=NOW - 9)
    assert checked(*three) == checked(*three, enabled=False) == [2, 1, 0]
    assert checked(entry(0, checked_at=3, asked_at=9), entry(1, checked_at=5)) == [1, 0]
    assert checked(watched(0), entry(1), machines={0: RUNNING, 1: OTHER}) == [1]


def test_what_waits_for_nothing_but_a_check_is_asked_for_first() -> None:
    """A thousand others are in the queue, and its node is drained."""
    waits = draining(5000, drained=True, checked_at=NOW - 6000, asked_at=NOW - 6000)
    others = [entry(n, checked_at=NOW - 10**7) for n in (1, 2)]
    places = {0: EMPTY, 1: OTHER, 2: Machine("n6")}
    assert checked(waits, *others, machines=places) == [0, 1, 2]
    asked = replace(waits, asked_at=NOW - 5000)
    found = checked(asked, *others, machines=places)
    assert found == [1, 2, 0], "but once, if nobody answers"


# What is saved with a turn.


def test_back_off_grows_and_is_capped() -> None:
    """CKE's lower bound never grows, and its upper bound does without end."""
    waits, one = [], draining(0)
    for _ in range(6):
        (turn,) = turns(one, enabled=False).turns
        waits.append((turn.entry.backoff_until - NOW) // 1000)
        one = replace(turn.entry, step_status=DRAINING)
    assert waits == [300, 600, 1200, 2400, 3600, 3600]
    assert one.backoffs == 6


def test_a_drain_that_was_done_ends_the_count_of_back_offs() -> None:
    (turn,) = turns(draining(0, backoffs=4), machine=EMPTY).turns
    assert (turn.entry.backoffs, turn.entry.step_status) == (0, WATCHING)


def test_the_next_step_is_taken_in_the_same_round_unless_somebody_has_the_machine() -> None:
    (turn,) = turns(begun(at=WATCHING, attempt=2)).turns
    assert (turn.entry.step, turn.entry.step_status, turn.entry.attempt) == (1, WATCHING, 0)
    for one, step in ((watched(2 * MIN), 1), (watched(2 * MIN, step=1), 1)):
        done = turns(one, machine=SHUT)
        (turn,) = done.turns
        assert (turn.do, turn.entry.step, turn.entry.step_status) == (Do.WAIT, step, WAITING)
        assert whys(done) == [(Kind.IN_WINDOW, "n4")]


@pytest.mark.parametrize("operation", ["op1", "drains"])
def test_when_a_repair_began_is_kept(operation: str) -> None:
    for one, at in ((entry(), NOW), (begun(begun_at=NOW - DAY), NOW - DAY)):
        (turn,) = turns(replace(one, operation=operation)).turns
        assert (turn.entry.begun_at, turn.entry.changed_at) == (at, NOW)


def test_the_success_command_comes_before_success() -> None:
    (turn,) = turns(replace(HEALED, tries=4), enabled=False).turns
    assert (turn.do, turn.entry.status, turn.entry.ending) == (Do.SUCCEED, PROCESSING, True)
    assert turn.entry.tries == 0, "those of the repair are over"
    (again,) = turns(replace(turn.entry, tries=3)).turns
    assert again.entry.tries == 3


WHYS: list[tuple[Entry, Machine, str]] = [
    (begun(step=2), HERE, "there is no step 3 in its procedure (any more)"),
    (DRAINED, HERE, "somebody put n4 back into service"),
    (draining(HOURS + 1), HERE, "n4 was not evacuated after 14400 s"),
    (draining(HOURS + 1, checked_at=0), EMPTY, "check does not answer"),
    (LOST, EMPTY, "no operation 'op9' is configured for machines of 'type1' (any more)"),
    (watched(2 * MIN, step=1), HERE, "the machine is not healthy after the last step"),
    (
        unanswered(replace(LONG, step=1)),
        HERE,
        "the last step is over, and check does not answer: exit code 75",
    ),
]


def test_an_entry_says_why() -> None:
    for one, machine, why in WHYS:
        (turn,) = turns(one, machine=machine).turns
        assert turn.entry.why == why, (one, machine)


def test_what_no_procedure_is_for_says_so() -> None:
    (held,) = turns(replace(entry(), machine_type="type9")).held
    none = "no repair procedure is configured for machines of 'type9'"
    assert held[1] == because(Kind.NO_PROCEDURE, why=none)
    assert did(turns(entry(), procedures=Procedures())) == []


def test_what_is_held_says_for_how_long() -> None:
    ((_, why),) = turns(watched(50_000, step=1)).held
    assert details([why], Kind.WATCHED) == {"it": "", "step": "2", "left": 10_000}
    ((_, why),) = turns(entry(not_before=NOW + 1000, why="refused")).held
    assert why == because(Kind.COMMAND_SOON, command="try-1", left=1000, why="refused")


# How much work a round is.


def work(*entries: Entry) -> int:
    """How much a round does over these, and one that is at work."""
    queue = Queue((*entries, begun(len(entries))), len(entries) + 1)
    return counted.lines(lambda: take_turns(queue, {}, how(), NOW))


def test_a_round_over_twice_as_many_entries_is_twice_the_work() -> None:
    """And what is only remembered costs next to nothing."""
    few, many = (work(*map(begun, range(size))) for size in (1000, 2000))
    assert many < 2.2 * few
    few, many = (work(*(entry(n, status=FAILED) for n in range(size))) for size in (500, 1000))
    assert many - few < 10 * 500
