"""CKE's cases for its repair queue (strategy_test.go, repair_test.go, mtest), and its faults."""

import sys
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from nodeagent.errors import ConfigError
from nodeagent.maintd.queue.settings import procedures_of
from nodeagent.maintd.queue.state import counts, matrix, rewind
from nodeagent.maintd.queue.strategy import Do, Machine, Turns, take_turns
from nodeagent.model.queue import (
    Entry,
    EntryStatus,
    Operation,
    Procedure,
    Procedures,
    Queue,
    RepairStep,
    StepStatus,
)
from nodeagent.model.reason import AnyKind, Kind, because
from nodeagent.model.units import Seconds
from nodeagent.section import Section
from tests.maintd.decided import within
from tests.maintd.world import NOW

MIN = 60_000
PROCESSING, WAITING = EntryStatus.PROCESSING, StepStatus.WAITING
DRAINING, WATCHING = StepStatus.DRAINING, StepStatus.WATCHING
HERE = Machine("n4")
EMPTY = Machine("n4", out=True, empty=True)


def how(*steps: RepairStep, **members: Any) -> Procedures:
    """type1/op1 with two steps, no drain, no watch, unless said."""
    two = steps or (RepairStep("try-1"), RepairStep("try-2"))
    operations = (Operation("op1", two, "check"),)
    return Procedures((Procedure(("type1",), operations),), **members)


DRAINS = how(RepairStep("try-1", need_drain=True), RepairStep("try-2", need_drain=True))
WATCHES = how(
    RepairStep("try-1", watch_seconds=Seconds(60)), RepairStep("try-2", watch_seconds=Seconds(60))
)


def entry(index: int = 0, **members: object) -> Entry:
    """An entry whose machine was checked just now, and is not healthy."""
    given: dict[str, object] = {"queued_at": NOW - 10 * MIN, "changed_at": NOW - MIN}
    given |= {"checked_at": NOW, **members}
    return Entry(index, f"10.0.0.{index}", "type1", "op1", **given)  # type: ignore[arg-type]


def begun(index: int = 0, at: StepStatus = WAITING, ago: int = 0, **members: object) -> Entry:
    return entry(index, status=PROCESSING, step_status=at, changed_at=NOW - ago, **members)


def turns(
    *entries: Entry,
    machine: Machine = HERE,
    procedures: Procedures | None = None,
    enabled: bool = True,
    machines: dict[int, Machine] | None = None,
) -> Turns:
    queue = Queue(entries, len(entries), enabled)
    places = machines or {e.index: machine for e in entries}
    return take_turns(queue, places, procedures or how(), NOW)


def did(done: Turns) -> list[tuple[Do, int]]:
    return [(turn.do, turn.entry.index) for turn in done.turns]


def whys(done: Turns) -> list[tuple[AnyKind, str]]:
    return [one for _, why in done.held for one in within(why)]


@pytest.mark.parametrize(
    ("one", "machine", "procedures", "expected"),
    [
        pytest.param(entry(), HERE, how(), [Do.EXECUTE], id="worker queued: execute"),
        pytest.param(entry(), Machine(), how(), [Do.EXECUTE], id="out of cluster: execute"),
        pytest.param(entry(), HERE, DRAINS, [Do.DRAIN], id="need_drain: drain-start"),
        pytest.param(
            entry(), Machine(), DRAINS, [Do.EXECUTE], id="need_drain out of cluster: execute"
        ),
        pytest.param(
            begun(at=DRAINING, ago=30_000),
            HERE,
            replace(DRAINS, eviction_timeout_seconds=Seconds(60)),
            [Do.DRAIN],
            id="draining 30 s of 60: goes on",
        ),
        pytest.param(
            begun(at=DRAINING, ago=120_000),
            HERE,
            replace(DRAINS, eviction_timeout_seconds=Seconds(60)),
            [Do.BACK_OFF],
            id="draining 120 s of 60: drain-timeout",
        ),
        pytest.param(
            begun(at=DRAINING, ago=7_200_000), HERE, DRAINS, [Do.DRAIN], id="default, half of it"
        ),
        pytest.param(
            begun(at=DRAINING, ago=28_800_000), HERE, DRAINS, [Do.BACK_OFF], id="default, doubled"
        ),
        pytest.param(
            begun(at=DRAINING, drained=True), EMPTY, DRAINS, [Do.EXECUTE], id="drained: execute"
        ),
        pytest.param(
            begun(backoffs=1, backoff_until=NOW + 1, drained=True),
            EMPTY,
            DRAINS,
            [Do.UNDRAIN],
            id="back-off in the future, drained by us: undrain",
        ),
        pytest.param(
            begun(backoffs=1, backoff_until=NOW + 1), HERE, DRAINS, [], id="back-off, not drained"
        ),
        pytest.param(
            begun(backoffs=1, backoff_until=NOW - 1), HERE, DRAINS, [Do.DRAIN], id="back-off past"
        ),
        pytest.param(begun(at=WATCHING, ago=30_000), HERE, WATCHES, [], id="watching 30 of 60"),
        pytest.param(
            begun(at=WATCHING, ago=120_000), HERE, WATCHES, [Do.EXECUTE], id="watching 120 of 60"
        ),
        pytest.param(begun(at=WATCHING), HERE, how(), [Do.EXECUTE], id="no watch: next step"),
        pytest.param(
            begun(at=WATCHING, ago=120_000, step=1),
            HERE,
            WATCHES,
            [Do.FINISH],
            id="last step expired: failed",
        ),
        pytest.param(begun(step=2), HERE, how(), [Do.FINISH], id="step beyond the end: failed"),
        pytest.param(entry(healthy=True), HERE, how(), [Do.FINISH], id="queued healthy: succeeded"),
        pytest.param(
            begun(at=WATCHING, healthy=True), HERE, WATCHES, [Do.FINISH], id="healthy: succeeded"
        ),
        pytest.param(
            entry(status=EntryStatus.SUCCEEDED, drained=True),
            EMPTY,
            how(),
            [Do.UNDRAIN],
            id="succeeded, drained by us: undrain",
        ),
        pytest.param(
            entry(status=EntryStatus.FAILED, drained=True),
            EMPTY,
            how(),
            [Do.UNDRAIN],
            id="failed, drained by us: undrain",
        ),
        pytest.param(entry(status=EntryStatus.SUCCEEDED), HERE, how(), [], id="succeeded: nothing"),
        pytest.param(entry(status=EntryStatus.FAILED), HERE, how(), [], id="failed: nothing"),
        pytest.param(
            entry(deleted=True, drained=True), EMPTY, how(), [Do.UNDRAIN], id="deleted: undrain"
        ),
        pytest.param(entry(deleted=True), HERE, how(), [Do.DEQUEUE], id="deleted: dequeue"),
        pytest.param(
            begun(at=WATCHING, deleted=True), HERE, WATCHES, [Do.DEQUEUE], id="deleted in work"
        ),
    ],
)
def test_what_cke_does(
    one: Entry, machine: Machine, procedures: Procedures, expected: list[Do]
) -> None:
    assert [do for do, _ in did(turns(one, machine=machine, procedures=procedures))] == expected


@pytest.mark.parametrize(
    ("one", "machine", "procedures", "expected"),
    [
        pytest.param(entry(), HERE, how(), [], id="queued: nothing"),
        pytest.param(entry(), HERE, DRAINS, [], id="need_drain queued: nothing"),
        pytest.param(begun(at=DRAINING), HERE, DRAINS, [Do.BACK_OFF], id="draining in time"),
        pytest.param(
            begun(at=DRAINING, ago=28_800_000), HERE, DRAINS, [Do.BACK_OFF], id="draining expired"
        ),
        pytest.param(begun(at=DRAINING), EMPTY, DRAINS, [Do.BACK_OFF], id="even drained"),
        pytest.param(begun(backoff_until=NOW + 1), HERE, DRAINS, [], id="back-off future"),
        pytest.param(begun(backoff_until=NOW - 1), HERE, DRAINS, [], id="back-off past"),
        pytest.param(begun(at=WATCHING), HERE, WATCHES, [], id="watching"),
        pytest.param(
            begun(at=WATCHING, ago=120_000), HERE, WATCHES, [], id="watch over, another step"
        ),
        pytest.param(
            begun(at=WATCHING, ago=120_000, step=1),
            HERE,
            WATCHES,
            [Do.FINISH],
            id="watch over at the last step: failed",
        ),
        pytest.param(
            begun(at=WATCHING, healthy=True), HERE, WATCHES, [Do.FINISH], id="healthy: succeeded"
        ),
        pytest.param(entry(deleted=True), HERE, how(), [Do.DEQUEUE], id="deleted: dequeue"),
    ],
)
def test_what_a_disabled_queue_still_does(
    one: Entry, machine: Machine, procedures: Procedures, expected: list[Do]
) -> None:
    done = turns(one, machine=machine, procedures=procedures, enabled=False)
    assert [do for do, _ in did(done)] == expected


def test_a_disabled_queue_still_asks_for_health() -> None:
    assert turns(entry(checked_at=0), enabled=False).checks


def test_candidates_come_first_and_one_at_a_time() -> None:
    first, second = entry(0), entry(1)
    candidate = Machine("n1", candidate=True)
    done = turns(first, second, machines={0: HERE, 1: candidate})
    assert did(done) == [(Do.EXECUTE, 1)]
    done = turns(
        first,
        second,
        entry(2),
        machines={0: HERE, 1: candidate, 2: Machine("n5")},
        procedures=how(max_concurrent_repairs=2),
    )
    assert did(done) == [(Do.EXECUTE, 1), (Do.EXECUTE, 0)]
    done = turns(
        first,
        second,
        machines={0: Machine("n2", candidate=True), 1: candidate},
        procedures=how(max_concurrent_repairs=2),
    )
    assert did(done) == [(Do.EXECUTE, 0)]
    assert whys(done) == [(Kind.CANDIDATE, "")]


def test_those_begun_come_before_those_queued() -> None:
    done = turns(entry(0), begun(1), machines={0: Machine("n1", candidate=True), 1: HERE})
    assert did(done) == [(Do.EXECUTE, 1)]
    assert whys(done) == [(Kind.AT_MOST, "")]


def test_one_machine_is_never_handled_by_two_entries_though_it_is_a_worker() -> None:
    """CKE's map that should see to this is never written."""
    twice = (entry(0), replace(entry(1), address="10.0.0.0"))
    done = turns(*twice, procedures=how(max_concurrent_repairs=2))
    assert did(done) == [(Do.EXECUTE, 0)]
    assert whys(done) == [(Kind.SAME_MACHINE, "")]
    outside = turns(*twice, machine=Machine(), procedures=how(max_concurrent_repairs=2))
    assert did(outside) == [(Do.EXECUTE, 0)]


def test_what_no_procedure_is_for_takes_nobody_elses_place() -> None:
    """With CKE it stays queued for ever and eats the limit."""
    done = turns(replace(entry(0), operation="op9"), entry(1))
    assert did(done) == [(Do.EXECUTE, 1)]
    none = because(
        Kind.NO_PROCEDURE, why="no operation 'op9' is configured for machines of 'type1'"
    )
    assert [why for _, why in done.held] == [none]
    done = turns(replace(entry(0), machine_type="type9"), entry(1))
    none = because(
        Kind.NO_PROCEDURE, why="no repair procedure is configured for machines of 'type9'"
    )
    assert [why for _, why in done.held] == [none]
    assert did(turns(entry(), procedures=Procedures())) == []


def test_backing_off_keeps_nobody_waiting() -> None:
    waits = begun(0, backoff_until=NOW + MIN)
    assert did(turns(waits, entry(1), machines={0: HERE, 1: Machine("n5")})) == [(Do.EXECUTE, 1)]


def test_back_off_grows_and_is_capped() -> None:
    """CKE's lower bound never grows, and its upper bound does without end."""
    waits, one = [], begun(at=DRAINING)
    for _ in range(6):
        (turn,) = turns(one, procedures=DRAINS, enabled=False).turns
        waits.append((turn.entry.backoff_until - NOW) // 1000)
        one = replace(turn.entry, step_status=DRAINING)
    assert waits == [300, 600, 1200, 2400, 3600, 3600]
    assert one.backoffs == 6


def test_a_drain_that_was_done_ends_the_count_of_back_offs() -> None:
    (turn,) = turns(begun(at=DRAINING, backoffs=4), machine=EMPTY, procedures=DRAINS).turns
    assert (turn.entry.backoffs, turn.entry.step_status) == (0, WATCHING)


def test_nothing_is_repaired_before_a_health_check_has_said_no() -> None:
    for one in (entry(checked_at=0), entry(checked_at=NOW - 5 * MIN)):
        done = turns(one)
        assert (did(done), whys(done)) == ([], [(Kind.CHECK_AWAITED, "")])
        assert done.checks == [one]


def test_the_next_step_waits_for_a_check_that_is_newer_than_the_watch() -> None:
    late = begun(at=WATCHING, ago=2 * MIN, checked_at=NOW - MIN - 1)
    assert did(turns(late, procedures=WATCHES)) == []
    assert did(turns(replace(late, checked_at=NOW - MIN), procedures=WATCHES)) == [(Do.EXECUTE, 0)]


def test_the_next_step_is_taken_in_the_same_round() -> None:
    (turn,) = turns(begun(at=WATCHING, attempt=2)).turns
    assert (turn.entry.step, turn.entry.step_status, turn.entry.attempt) == (1, WATCHING, 0)


def test_a_drain_of_somebody_else_stays() -> None:
    """With CKE an operator's own earlier cordon is lost after a repair."""
    assert did(turns(entry(status=EntryStatus.SUCCEEDED), machine=EMPTY)) == []


def test_a_node_put_back_into_service_meanwhile_is_left_there() -> None:
    (turn,) = turns(begun(at=DRAINING, drained=True), procedures=DRAINS).turns
    assert (turn.do, turn.entry.why) == (Do.BACK_OFF, "somebody put n4 back into service")


def test_what_runs_is_waited_for() -> None:
    runs = replace(HERE, running=True)
    one = begun(at=WATCHING, ago=10 * MIN)
    done = turns(one, entry(1), machines={0: runs, 1: Machine("n5")})
    assert (did(done), done.checks) == ([], [entry(1)])
    assert (Kind.DELETED, "") in whys(turns(replace(one, deleted=True), machine=runs))
    moving = replace(EMPTY, moving=True)
    assert did(turns(entry(status=EntryStatus.FAILED, drained=True), machine=moving)) == []


def test_a_machine_that_is_somebody_elses_is_left_alone_and_takes_no_place() -> None:
    taken = replace(HERE, taken=because(Kind.IN_WINDOW, "n4"))
    done = turns(entry(0), entry(1), machines={0: taken, 1: Machine("n5")})
    assert did(done) == [(Do.EXECUTE, 1)]
    assert whys(done) == [(Kind.IN_WINDOW, "n4")]


def test_the_success_command_comes_before_success() -> None:
    operation = Operation("op1", (RepairStep("try"),), "check", success_command="tell")
    told = Procedures((Procedure(("type1",), (operation,)),))
    (turn,) = turns(begun(at=WATCHING, healthy=True), procedures=told, enabled=False).turns
    assert (turn.do, turn.entry.status, turn.entry.ending) == (Do.SUCCEED, PROCESSING, True)
    later = replace(turn.entry, not_before=NOW + 1000, why="refused")
    soon = because(Kind.COMMAND_SOON, command="tell", left=1000, why="refused")
    assert [why for _, why in turns(later, procedures=told).held] == [soon]


def test_a_check_that_was_longest_ago_is_made_first() -> None:
    done = turns(entry(0), entry(1, checked_at=NOW - 3), entry(2, checked_at=NOW - 9))
    assert [one.index for one in done.checks] == [2, 1, 0]


def test_a_clock_put_back_lengthens_no_wait() -> None:
    ahead = begun(backoff_until=NOW + 10**10, checked_at=NOW + 10**10, not_before=NOW + 10**10)
    (one,) = rewind(Queue((ahead,)), how(), NOW).entries
    assert (one.backoff_until, one.checked_at) == (NOW + 3_600_000, 0)


def test_indices_are_given_in_order_and_never_twice() -> None:
    queue = Queue().add(entry()).add(entry())
    assert [e.index for e in queue.entries] == [0, 1]
    assert queue.drop(1).drop(9).add(entry()).entries[-1].index == 2
    assert (queue.drop(0).entry(0), queue.enabled) == (None, True)


def calls(entries: Iterable[Entry], also: int) -> int:
    """How much Python does for a round over these, and one that is at work."""
    made = 0

    def count(_frame: object, what: str, _of: object) -> None:
        nonlocal made
        made += what == "call"

    old = tuple(entries)
    queue = Queue((*old, begun(len(old))), len(old) + 1)
    first, last = queue.entries[0], queue.entries[-1]
    sys.setprofile(count)
    try:
        for _ in range(also):
            queue = rewind(queue, how(), NOW).put(first).put(last)
            take_turns(queue, {}, how(), NOW)
    finally:
        sys.setprofile(None)
    return made // also


def test_what_is_only_remembered_costs_next_to_nothing() -> None:
    few, many = (
        calls((entry(n, status=EntryStatus.FAILED) for n in range(size)), 3) for size in (500, 1000)
    )
    assert many - few < 10 * 500


def test_a_round_over_twice_as_many_entries_is_twice_the_work() -> None:
    few, many = (calls(map(begun, range(size)), 1) for size in (1000, 2000))
    assert many < 2.2 * few


@pytest.mark.parametrize("index", range(-1, 8))
def test_an_entry_is_found_put_and_dropped_by_its_index_wherever_it_is(index: int) -> None:
    queue = Queue(tuple(map(entry, (0, 2, 3, 6))), 7)
    there = index in (0, 2, 3, 6)
    found = queue.entry(index)
    assert (found is not None and found.index == index) is there
    changed = entry(index, why="changed")
    assert (changed in queue.put(changed).entries) is there
    assert [e.index for e in queue.put(changed).entries] == [0, 2, 3, 6]
    assert [e.index for e in queue.drop(index).entries] == [n for n in (0, 2, 3, 6) if n != index]


def test_counting_with_one_queued_two_processing_three_succeeded() -> None:
    states = [EntryStatus.QUEUED] + [PROCESSING] * 2 + [EntryStatus.SUCCEEDED] * 3
    queue = Queue(tuple(entry(n, status=status) for n, status in enumerate(states)))
    assert list(counts(queue).values()) == [1, 2, 3, 0]


def test_the_matrix_has_the_nodes_and_foreign_machines() -> None:
    foreign = replace(entry(1, status=EntryStatus.FAILED), address="10.10.10.10")
    rows = list(
        matrix(Queue((replace(entry(), address="1.1.1.1"), foreign)), ["1.1.1.1", "2.2.2.2"])
    )
    assert len(rows) == 12
    assert [(a, s.value) for a, s, so in rows if so] == [
        ("1.1.1.1", "queued"),
        ("10.10.10.10", "failed"),
    ]


STEP = {"repair_command": "try-1", "command_timeout_seconds": 10, "command_retries": 1}
STEP |= {"command_interval": 5, "need_drain": True, "watch_seconds": 60}


def table(**changed: Any) -> dict[str, Any]:
    """A whole table `[queue]`, of which one member is as a test wants it."""
    step = {k: changed.pop(k, v) for k, v in STEP.items()}
    step |= changed.pop("step", {})
    operation: dict[str, Any] = {"operation": "unreachable", "health_check_command": "check"}
    operation = {k: changed.pop(k, v) for k, v in operation.items()}
    operation["repair_steps"] = changed.pop("steps", [step, {"repair_command": "try-2"}])
    operation |= changed.pop("more", {})
    types = changed.pop("machine_types", ["type1", "type2"])
    procedure = {"machine_types": types, "repair_operations": [operation]}
    return {"repair_procedures": [procedure], "max_concurrent_repairs": 2, **changed}


def read(**changed: Any) -> Procedures:
    return procedures_of(Section("queue", table(**changed)))


def test_procedures_are_read_as_cke_reads_them() -> None:
    done = read()
    assert done.max_concurrent_repairs == 2
    found = done.look_up("type2", "unreachable")
    assert isinstance(found, Operation)
    assert found.repair_steps[0] == RepairStep(
        "try-1", Seconds(10), 1, Seconds(5), need_drain=True, watch_seconds=Seconds(60)
    )
    assert found.repair_steps[1] == RepairStep("try-2")
    assert "procedure" in str(done.look_up("type4", "unreachable"))
    assert "operation 'noop'" in str(done.look_up("type1", "noop"))


STEPS = "queue.repair_procedures[0].repair_operations[0].repair_steps[0]"
OPERATION = "queue.repair_procedures[0].repair_operations[0]"


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"max_concurrent_repairs": 0}, "queue.max_concurrent_repairs is 0"),
        ({"bogus": 1}, "queue.bogus is not a known setting"),
        ({"protected_namespaces": {}}, "queue.protected_namespaces is not a known setting"),
        ({"evict_retries": 3}, "queue.evict_retries is not a known setting"),
        ({"repair_command": ""}, f"{STEPS}.repair_command is ''"),
        ({"repair_command": "a b"}, f"{STEPS}.repair_command is 'a b'"),
        ({"repair_command": ["sh", "-c"]}, f"{STEPS}.repair_command is ['sh', '-c']"),
        ({"watch_seconds": -1}, f"{STEPS}.watch_seconds is -1"),
        ({"command_timeout_seconds": 0}, f"{STEPS}.command_timeout_seconds is 0"),
        ({"step": {"watch": 1}}, f"{STEPS}.watch is not a known setting"),
        # A key that CKE's own test cluster misspells, and CKE does not notice.
        (
            {"more": {"success_command_timeout_seconds": 9}},
            f"{OPERATION}.success_command_timeout_seconds is not a known setting",
        ),
        ({"health_check_command": 7}, f"{OPERATION}.health_check_command is 7"),
        ({"steps": []}, f"{OPERATION}.repair_steps is missing or empty"),
        ({"steps": {}}, f"{OPERATION}.repair_steps is {{}}; it must be a list of tables"),
        ({"steps": [1]}, f"{STEPS} must be a table"),
        ({"machine_types": []}, "queue.repair_procedures[0].machine_types is missing or empty"),
        ({"machine_types": ["a", "a"]}, "each once"),
        ({"back_off_seconds": 7200}, "most_back_off_seconds is less than back_off_seconds"),
    ],
)
def test_what_procedures_may_not_say(changed: dict[str, object], complaint: str) -> None:
    with pytest.raises(ConfigError) as error:
        read(**changed)
    assert complaint in str(error.value)
    assert "\n" not in str(error.value)


def test_what_could_never_be_reached_is_refused() -> None:
    one = table()["repair_procedures"][0]
    with pytest.raises(
        ConfigError, match=r"procedures\[1\]\.machine_types has 'type1', which .*\[0\] has"
    ):
        procedures_of(Section("queue", {"repair_procedures": [one, one]}))
    twice = {**one, "repair_operations": [*one["repair_operations"]] * 2}
    with pytest.raises(
        ConfigError, match=r"operations\[1\]\.operation has 'unreachable', which .*\[0\] has"
    ):
        procedures_of(Section("queue", {"repair_procedures": [twice]}))
