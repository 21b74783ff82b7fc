"""CKE's cases for automatic repair (repairer_test.go), and what its guards lack."""

import sys
from dataclasses import replace
from types import FrameType
from typing import Any

import pytest

from nodeagent.errors import ConfigError
from nodeagent.maintd.queue.guards import Admitted
from nodeagent.maintd.queue.refusals import KINDS, TOLD
from nodeagent.maintd.queue.settings import constraints_of
from nodeagent.model.action import RunCommand
from nodeagent.model.constraints import Constraints, wrong
from nodeagent.model.incident import Status
from nodeagent.model.ledger import Intent, Ledger
from nodeagent.model.purpose import OfIncident
from nodeagent.model.queue import Attempt, EntryStatus, Queue, StepStatus
from nodeagent.model.reason import Kind, because
from nodeagent.model.sick import Sick
from nodeagent.model.snapshot import Node
from nodeagent.model.units import Ms, Nanoseconds, Seconds
from nodeagent.model.window import Machine, Mode, Schedule, Scheduled, Unavailability, Window
from nodeagent.section import Section
from tests.maintd.queue.reports import (
    ALL,
    CKE,
    M0,
    M1,
    M3,
    M4,
    S,
    address,
    as_incident,
    both,
    entry,
    queue,
    rack,
    sick,
    world,
)
from tests.maintd.queue.reports import M2 as M2
from tests.maintd.queue.reports import kinds as kinds
from tests.maintd.queue.reports import made as made
from tests.maintd.queue.reports import node as node
from tests.maintd.queue.reports import round_of as round_of
from tests.maintd.queue.reports import told as told
from tests.maintd.world import EVACUATE, NOW, REPAIR, incident

# CKE's own.


@pytest.mark.parametrize(
    ("reports", "there", "expected"),
    [
        pytest.param((), (), [], id="none failed: nothing"),
        pytest.param((M1,), (2,), [1], id="m1 with queue [m2]: m1"),
        pytest.param((M0, M1), (), [1], id="m0 has no address: m1"),
        pytest.param((M1, M2, M3), (2,), [1, 3], id="total is the limit, which is allowed"),
        pytest.param((M1, M2, M3), (2, 4), [], id="2+2 are more than 3: nothing"),
    ],
)
def test_what_cke_admits(
    reports: tuple[Sick, ...], there: tuple[int, ...], expected: list[int]
) -> None:
    done = round_of(*reports, entries=tuple(map(entry, there)))
    assert made(done, len(there)) == expected


def test_an_entry_for_another_operation_counts_as_well() -> None:
    done = round_of(M1, M2, M3, entries=(entry(2, operation="noop"),))
    assert made(done, 1) == [1, 3]


@pytest.mark.parametrize("status", EntryStatus)
@pytest.mark.parametrize("deleted", [False, True])
def test_an_entry_of_any_status_is_recent(status: EntryStatus, *, deleted: bool) -> None:
    there = entry(2, status=status, deleted=deleted)
    assert made(round_of(M2, entries=(there,)), 1) == []
    by_serial = replace(there, address="10.9.9.9", serial="S2")
    assert made(round_of(M2, entries=(by_serial,)), 1) == []


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        pytest.param(M1, [], id="m1 rebooting: nothing"),
        pytest.param(M2, [2], id="m2, unhealthy, rebooting: m2"),
        pytest.param(M3, [3], id="m3, for long, rebooting: m3"),
    ],
)
@pytest.mark.parametrize("how", ["incident", "order"])
def test_what_is_being_repaired_may_be_rebooting(one: Sick, expected: list[int], how: str) -> None:
    name = f"n{one.address[-1]}"
    ledger = Ledger(incidents=(incident(name, REPAIR, Status.PENDING),))
    if how == "order":
        order = Intent("1", OfIncident("i"), name, RunCommand(name, "fix", "{}"))
        ledger = Ledger(intents=(order,))
    assert made(round_of(one, ledger=ledger)) == expected


def test_what_is_only_being_emptied_is_not_rebooting() -> None:
    """m4 with a reboot entry that is only draining: m4."""
    ledger = Ledger(incidents=(incident("n4", EVACUATE, Status.PENDING),))
    assert made(round_of(M4, ledger=ledger)) == [4]


@pytest.mark.parametrize(("one", "expected"), [(M1, []), (M2, [2]), (M3, [3])])
def test_machines_outside_of_the_cluster(one: Sick, expected: list[int]) -> None:
    done = round_of(observed=world(one, nodes=()))
    assert made(done) == expected
    assert ("waiting" in kinds(done)) is (expected == [])


@pytest.mark.parametrize(("ms", "expected"), [(299_999, []), (300_000, [1]), (-5000, [])])
def test_just_as_long_as_is_to_be_waited_proceeds(ms: int, expected: list[int]) -> None:
    one = replace(M1, since=NOW - ms)
    assert made(round_of(observed=world(one, nodes=()))) == expected


def test_without_a_wait_nothing_waits_though_its_clock_is_ahead() -> None:
    limits = replace(CKE, wait_seconds_to_repair_rebooting=Seconds(0))
    one = replace(M1, since=NOW + 10**6)
    assert made(round_of(limits=limits, observed=world(one, nodes=()))) == [1]


@pytest.mark.parametrize("nodes", [ALL, ()], ids=["in the cluster", "outside of it"])
@pytest.mark.parametrize("state", ["UNHEALTHY", "UNREACHABLE"])
def test_whatever_is_reported_waits_if_that_is_asked_for(
    state: str, nodes: tuple[Node, ...]
) -> None:
    """CKE never waits with what is unhealthy, though an inventory may flap."""
    limits = replace(CKE, wait_seconds_to_repair=Seconds(600))
    for ago, expected in ((599, []), (600, [1])):
        done = round_of(limits=limits, observed=world(sick(1, state, ago), nodes=nodes))
        assert made(done) == expected
        assert ("waiting" in kinds(done)) is (expected == [])


def test_a_report_that_does_not_say_since_when_waits() -> None:
    done = round_of(observed=world(replace(M1, since=Ms(0)), nodes=()))
    assert made(done) == []
    assert "does not say since when it is UNREACHABLE" in told(done)["10.0.0.1"]


def test_an_entry_is_as_its_report() -> None:
    one = replace(M2, domain="rack 3", priority=2)
    (new,) = round_of(one).ledger.queue.entries
    assert (new.index, new.address, new.machine_type) == (0, "10.0.0.2", "type1")
    assert (new.operation, new.serial, new.who) == ("unhealthy", "S2", "sabakan")
    assert (new.status, new.step_status) == (EntryStatus.QUEUED, StepStatus.WAITING)
    assert (new.queued_at, new.domain, new.priority) == (NOW, "rack 3", 2)


def test_a_disabled_queue_is_filled_nevertheless() -> None:
    assert made(round_of(M2, ledger=Ledger(queue=queue(enabled=False)))) == [2]


# Beyond.


def test_inert_by_default_and_told() -> None:
    done = round_of(M2, limits=Constraints())
    assert made(done) == []
    assert "maximum-repair-queue-entries is 0" in told(done)["10.0.0.2"]
    assert kinds(done) == {"inert": 1}
    assert kinds(round_of(limits=Constraints())) == {"inert": 0}, "before anything is broken too"
    assert not round_of(observed=replace(world(), sick={}), limits=Constraints()).held


def test_the_limiter_says_so_and_since_when() -> None:
    four = (M1, M2, M3, sick(5, "UNHEALTHY", 3000))
    done = round_of(*four)
    assert made(done) == []
    assert told(done)["4 machines"].startswith("0 entries and 4 reports")
    assert {held.why.kind for held in done.held} == {Kind.REFUSED}
    later = round_of(*four, ledger=done.ledger, now=NOW + 60_000)
    (refusal,) = later.ledger.queue.refusals
    assert (refusal.reason, refusal.machines, refusal.since) == ("limit", 4, NOW)
    assert later.ledger == done.ledger, "nothing is written while nothing changes"
    over = round_of(M1, ledger=later.ledger, now=NOW + 120_000)
    assert (made(over), over.ledger.queue.refusals) == ([1], ())


def test_a_limiter_that_refuses_nothing_says_nothing() -> None:
    """Operators may have entered more than the limit, which holds for reports alone."""
    limits = replace(CKE, maximum_repair_queue_entries=2)
    entries = (entry(1), entry(2), entry(3))
    full = round_of(limits=limits, entries=entries)
    assert (kinds(full), full.held) == ({}, ())
    known = round_of(M1, limits=limits, entries=entries)
    assert (kinds(known), known.held) == ({}, ())


def test_a_disabled_switch_makes_nothing_and_says_so() -> None:
    done = round_of(M2, ledger=Ledger(queue=queue(auto_repair=False)))
    assert (made(done), kinds(done)) == ([], {"disabled": 1})
    assert "automatic repair is disabled" in told(done)["10.0.0.2"]


def test_a_source_that_cannot_be_believed_makes_nothing() -> None:
    done = round_of(observed=world(why="it has answered 500"))
    assert (made(done), kinds(done)) == ([], {"source": 1})
    assert told(done) == {"": "sabakan is not believed: it has answered 500"}


def test_one_source_in_doubt_does_not_silence_another() -> None:
    observed = replace(world(), sick={"a": "stale", "b": (replace(M2, source="b"),)})
    done = round_of(observed=observed)
    assert (made(done), kinds(done)) == ([2], {"source": 1})


def test_what_no_procedure_is_for_is_refused_and_takes_no_room() -> None:
    odd = [replace(sick(n, "UNHEALTHY", 30), machine_type="type9") for n in (1, 3, 4, 5)]
    healthy = replace(M2, operation="healthy", serial="S9", address="10.0.0.9")
    done = round_of(*odd, healthy, M2)
    assert (made(done), kinds(done)) == ([2], {"procedure": 5})
    none = "no repair procedure is configured for machines of 'type9'"
    assert told(done)["4 machines"].startswith(none)
    assert told(done)["10.0.0.9"].startswith("no operation 'healthy' is configured")


def test_two_reports_of_one_address_make_one_entry() -> None:
    assert made(round_of(M2, replace(M2, operation="unreachable", source="other"))) == [2]
    other = replace(M2, address="n2", serial="")
    assert made(round_of(other, M2)) == [2], "a node's name is its address"
    first = replace(M2, priority=1, operation="unreachable", state="")
    assert round_of(M2, first).ledger.queue.entries[0].operation == "unreachable"


def test_two_machines_with_one_address_are_left_alone() -> None:
    """A power cycle of which of them?"""
    done = round_of(M2, replace(M2, serial="S7"), M3)
    assert (made(done), kinds(done)) == ([3], {"contradiction": 1})


def test_what_is_no_address_is_told() -> None:
    done = round_of(M0, replace(M1, address="rack-3-left"))
    assert kinds(done) == {"address": 2}
    assert any("'rack-3-left' is neither an address nor a node" in x for x in told(done).values())


def test_what_answers_is_not_unreachable() -> None:
    done = round_of(observed=world(M3, answering=("n3",)))
    assert (made(done), kinds(done)) == ([], {"contradiction": 1})
    assert made(round_of(observed=world(M2, answering=("n2",)))) == [2], "it may be unhealthy"


def in_window(mode: Mode, start: int = NOW, **members: object) -> Ledger:
    machine = Machine("n3")
    when = Unavailability(Nanoseconds(start * 10**6), Nanoseconds(3600 * 10**9))
    one = Scheduled(machine, mode, NOW, "uuid-n3", **members)  # type: ignore[arg-type]
    return Ledger(schedule=Schedule((Window((machine,), when),)), scheduled=(one,))


@pytest.mark.parametrize("mode", [Mode.DRAINING, Mode.DOWN])
def test_a_machine_in_a_window_is_no_entry_however_long_it_is_unreachable(mode: Mode) -> None:
    done = round_of(M3, M2, ledger=in_window(mode))
    assert (made(done), kinds(done)) == ([2], {"window": 1})
    assert told(done) == {"10.0.0.3": str(because(Kind.IN_WINDOW, "n3"))}


def outside(machine: Machine, mode: Mode = Mode.DOWN, start: int = NOW) -> Ledger:
    """A window of a machine that is not a node."""
    when = Unavailability(Nanoseconds(start * 10**6), Nanoseconds(3600 * 10**9))
    windows = Schedule((Window((machine,), when),))
    return Ledger(schedule=windows, scheduled=(Scheduled(machine, mode, NOW),))


STRANGER = replace(M3, address="10.0.0.77")
BY = {
    "its address": Machine(ip="10.0.0.77"),
    "name and address": Machine("rack3-left", "10.0.0.77"),
    "an address for a name": Machine("::ffff:10.0.0.77"),
    "its serial": Machine("s3"),
}


@pytest.mark.parametrize("mode", [Mode.DRAINING, Mode.DOWN])
@pytest.mark.parametrize("by", BY)
def test_a_machine_that_is_no_node_is_in_its_window_too(by: str, mode: Mode) -> None:
    done = round_of(STRANGER, M2, ledger=outside(BY[by], mode))
    assert (made(done), kinds(done)) == ([2], {"window": 1})
    assert told(done) == {"10.0.0.77": str(because(Kind.IN_WINDOW, str(BY[by])))}
    assert made(round_of(STRANGER, ledger=outside(Machine("rack3-left"), mode))) == [77]


@pytest.mark.parametrize(
    ("mode", "start", "expected"),
    [
        pytest.param(Mode.DRAINING, NOW + 600_001, [77], id="not yet"),
        pytest.param(Mode.DRAINING, NOW + 600_000, [], id="in ten minutes"),
        pytest.param(Mode.DRAINING, NOW - 3_599_999, [], id="still"),
        pytest.param(Mode.DRAINING, NOW - 3_600_000, [77], id="over, and never taken down"),
        pytest.param(Mode.DOWN, NOW - 10**9, [], id="down, though overdue"),
        pytest.param(Mode.DOWN, NOW + 10**9, [], id="down before its time"),
    ],
)
def test_when_a_machine_that_is_no_node_is_in_its_window(
    mode: Mode, start: int, expected: list[int]
) -> None:
    ledger = outside(Machine(ip="10.0.0.77"), mode, start)
    assert made(round_of(STRANGER, ledger=ledger)) == expected


def test_an_entry_of_a_machine_that_is_no_node_begins_nothing_in_its_window() -> None:
    there = queue(entry(1), entry(77), entry(5, serial="S3"))
    for machine, shut in ((Machine(ip="10.0.0.77"), [1]), (Machine("s3"), [2])):
        done = round_of(ledger=replace(outside(machine), queue=there))
        assert list(done.shut) == shut
        assert done.shut[shut[0]] == because(Kind.IN_WINDOW, str(machine))


def test_a_window_that_is_far_away_changes_nothing() -> None:
    assert made(round_of(M3, ledger=in_window(Mode.DRAINING, NOW + 10**9))) == [3]


def test_what_is_planned_does_not_fill_the_limit() -> None:
    limits = replace(CKE, maximum_repair_queue_entries=1)
    assert made(round_of(M3, M2, limits=limits, ledger=in_window(Mode.DOWN))) == [2]


def test_a_machine_in_a_window_is_known_by_its_ipv6_address() -> None:
    """However its inventory spells it."""
    stranger = replace(M3, address="2001:DB8:0::77", serial="S77")
    (entry,) = round_of(stranger).ledger.queue.entries
    assert entry.address == "2001:db8::77"
    held = round_of(stranger, ledger=outside(Machine(ip="2001:db8::77")))
    assert (held.ledger.queue.entries, kinds(held)) == ((), {"window": 1})


def test_partial_admission_takes_the_most_urgent() -> None:
    limits = replace(CKE, maximum_repair_queue_entries=2, partial_admission=1)
    reports = [M1, M2, replace(M3, priority=5), M4]
    done = round_of(*reports, limits=limits)
    assert (made(done), kinds(done)) == ([3, 1], {"limit": 2})
    assert "the most urgent are made" in told(done)["2 machines"]
    full = round_of(M4, limits=limits, entries=(entry(1), entry(2), entry(3)))
    assert (made(full, 3), kinds(full)) == ([], {"limit": 1})


def test_so_many_of_a_domain_at_once() -> None:
    limits = replace(CKE, maximum_repair_queue_entries=10, maximum_repairs_per_domain=2)
    done = round_of(*rack(1, 2, 3), M4, limits=limits)
    assert (made(done), kinds(done)) == ([1, 2, 4], {"domain-limit": 1})
    over = entry(1, domain="rack 7", status=EntryStatus.FAILED)
    assert made(round_of(*rack(2, 3), limits=limits, entries=(over,)), 1) == [2, 3]
    busy = entry(1, domain="rack 7", status=EntryStatus.PROCESSING)
    assert made(round_of(*rack(2, 3), limits=limits, entries=(busy,)), 1) == [2]


def test_a_limit_on_domains_does_not_weaken_the_limit_on_all() -> None:
    """More reports than may be are a storm, though few of them would become entries."""
    limits = replace(CKE, maximum_repairs_per_domain=1)
    assert made(round_of(*rack(1, 2, 3, 4), limits=limits)) == []


def test_a_domain_that_failed_is_not_repaired_and_others_are() -> None:
    limits = replace(CKE, domain_failure_machines=3)
    done = round_of(*rack(1, 3, 4), M2, limits=limits)
    assert (made(done), kinds(done)) == ([2], {"domain-failure": 3})
    failed = because(Kind.DOMAIN_FAILED, machines=3, domain="rack 7")
    assert told(done) == {"3 machines": str(failed)}
    assert made(round_of(*rack(1, 3), M2, limits=limits)) == [1, 3, 2]


def test_what_was_given_up_or_is_planned_is_no_failure_of_its_domain() -> None:
    limits = replace(CKE, domain_failure_machines=2)
    given_up = entry(1, status=EntryStatus.FAILED, domain="rack 7")
    assert made(round_of(*rack(1, 2), limits=limits, entries=(given_up,)), 1) == [2]
    for ledger in (in_window(Mode.DOWN), outside(Machine("S3"))):
        assert made(round_of(*rack(2, 3), limits=limits, ledger=ledger)) == [2]


def test_what_is_queued_when_its_domain_fails_waits() -> None:
    limits = replace(CKE, domain_failure_machines=2)
    there = (entry(1, domain="rack 7"), entry(5))
    done = round_of(*rack(1, 2, 3), limits=limits, entries=there)
    assert list(done.shut) == [0]
    assert done.shut[0] == because(Kind.DOMAIN_FAILED, machines=3, domain="rack 7")


def repaired(done: Admitted, ago: int, number: int = 0) -> Ledger:
    """As if its newest entry had been worked on, and somebody had deleted it."""
    last = done.ledger.queue.entries[-1]
    over = replace(last, status=EntryStatus.FAILED, begun_at=NOW - ago, changed_at=NOW - ago)
    ended = replace(done.ledger, queue=done.ledger.queue.put(over))
    after = round_of(ledger=ended, now=NOW - ago).ledger
    return replace(after, queue=after.queue.drop(last.index))


def test_a_machine_is_repaired_so_often_and_no_more() -> None:
    limits = replace(CKE, maximum_repairs_per_machine=2, repairs_counted_seconds=Seconds(3600))
    ledger = Ledger(queue=queue())
    for ago in (3_000_000, 2_000_000):
        done = round_of(M2, limits=limits, ledger=ledger)
        assert len(done.ledger.queue.entries) == 1
        ledger = repaired(done, ago)
    assert len(ledger.queue.attempts) == 2
    done = round_of(M2, M3, limits=limits, ledger=ledger)
    assert (made(done), kinds(done)) == ([3], {"attempts": 1})
    assert "it was repaired 2 times within" in told(done)["10.0.0.2"]
    moved = replace(M2, address="10.0.0.99")
    assert made(round_of(moved, limits=limits, ledger=ledger)) == [], "it has its serial still"
    later = round_of(M2, limits=limits, ledger=ledger, now=NOW + 700_000)
    assert made(later) == [2]


def test_a_machine_cools_down() -> None:
    limits = replace(CKE, cool_down_seconds=Seconds(600))
    ledger = repaired(round_of(M2, limits=limits), 500_000)
    done = round_of(M2, limits=limits, ledger=ledger)
    assert (made(done), kinds(done)) == ([], {"cool-down": 1})
    assert made(round_of(M2, limits=limits, ledger=ledger, now=NOW + 100_000)) == [2]
    assert made(round_of(M2, ledger=ledger)) == [2], "unless nobody has asked for that"


def test_an_entry_that_was_never_begun_is_no_attempt() -> None:
    over = entry(2, status=EntryStatus.SUCCEEDED)
    assert round_of(entries=(over,)).ledger.queue.attempts == ()


def test_an_attempt_is_noted_once_and_forgotten() -> None:
    over = entry(2, status=EntryStatus.FAILED, begun_at=NOW - 1)
    done = round_of(M3, entries=(over,))
    assert len(done.ledger.queue.attempts) == 1
    again = round_of(ledger=done.ledger, now=NOW + 60_000)
    assert again.ledger.queue.attempts == done.ledger.queue.attempts
    gone = replace(done.ledger, queue=done.ledger.queue.drop(0))
    assert round_of(ledger=gone, now=NOW + 604_800_000).ledger.queue.attempts == ()


def test_finished_entries_age_out_when_asked() -> None:
    long_ago = entry(2, status=EntryStatus.FAILED, changed_at=NOW - 3600 * S)
    begun = entry(3, status=EntryStatus.PROCESSING, changed_at=NOW - 3600 * S)
    kept = round_of(entries=(long_ago, begun))
    assert [one.deleted for one in kept.ledger.queue.entries] == [False, False]
    limits = replace(CKE, finished_entry_ttl_seconds=Seconds(3600))
    gone = round_of(entries=(long_ago, begun), limits=limits)
    assert [one.deleted for one in gone.ledger.queue.entries] == [True, False]
    just = round_of(entries=(long_ago,), limits=limits, now=NOW - 1)
    assert [one.deleted for one in just.ledger.queue.entries] == [False]


def test_what_is_set_by_hand_stands_above_the_file() -> None:
    by_hand = Ledger(queue=queue(overrides={"maximum-repair-queue-entries": 1, "gone": 7}))
    assert made(round_of(M2, M3, ledger=by_hand)) == []
    assert made(round_of(M2, ledger=by_hand)) == [2]


def work(machines: int) -> int:
    """How much a round does with so many reports, each with a reason and a past of its own."""
    reports = [
        replace(sick(n, "UNHEALTHY", n), address=f"10.0.{n // 250}.{n % 250}")
        for n in range(machines)
    ]
    past = tuple(Attempt(n, one.address, one.serial, NOW - n * S) for n, one in enumerate(reports))
    limits = Constraints(
        10, wait_seconds_to_repair=Seconds(machines * S // 2), cool_down_seconds=Seconds(10**6)
    )
    ledger, observed = Ledger(queue=Queue(attempts=past)), world(*reports)
    done = 0

    def count(frame: FrameType, _what: str, _of: object) -> Any:
        nonlocal done
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        done += 1
        return count

    sys.settrace(count)
    try:
        round_of(limits=limits, ledger=ledger, observed=observed)
    finally:
        sys.settrace(None)
    return done


def test_twice_as_many_reports_are_twice_the_work() -> None:
    work(400)  # how an address is read is remembered
    assert work(400) < 2.3 * work(200)


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("maximum-repair-queue-entries", -1, "it must be a whole number from 0 to 1000000000"),
        ("maximum-repair-queue-entries", 10**9 + 1, "it must be a whole number"),
        ("partial-admission", 2, "it must be a whole number from 0 to 1"),
        ("minimum-workers-rate", 80, "there is no constraint 'minimum-workers-rate'; there are"),
        ("maximum_repair_queue_entries", 1, "there is no constraint"),
    ],
)
def test_constraints_that_are_none(name: str, value: int, why: str) -> None:
    assert why in wrong(name, value)
    with pytest.raises(ConfigError, match=f"constraints.{name} is"):
        constraints_of(Section("constraints", {name: value}))


def test_constraints_are_read_by_their_names() -> None:
    every = dict.fromkeys(Constraints().named(), 1)
    assert not any(wrong(name, 1) for name in every)
    assert constraints_of(Section("constraints", every)).named() == every
    assert constraints_of(Section("constraints", {})) == Constraints()


def test_nothing_to_do_changes_nothing() -> None:
    ledger = Ledger(queue=queue())
    done = round_of(ledger=ledger, observed=replace(world(), sick={}))
    assert done.ledger is ledger
    assert done.held == ()


def test_every_kind_of_refusal_is_named_once() -> None:
    assert len(set(KINDS)) == len(KINDS)


def test_one_machine_with_two_addresses_is_left_alone() -> None:
    """In one round it would be two entries, and be repaired by both of them."""
    done = round_of(M2, replace(M2, address=address(9)), M3)
    assert (made(done), kinds(done)) == ([3], {"contradiction": 1})
    (why,) = set(told(done).values())
    assert "it is said to have two addresses: 10.0.0.2, 10.0.0.9" in why


def test_the_serial_that_only_one_of_two_sources_knows_counts() -> None:
    reports = both([M2], [as_incident(M2)])
    done = round_of(observed=replace(world(), sick=reports))
    assert [one.serial for one in done.ledger.queue.entries] == ["S2"]
    elsewhere = replace(entry(9), serial="S2")
    done = round_of(entries=(elsewhere,), observed=replace(world(), sick=reports))
    assert made(done, 1) == []


def test_an_inventory_gone_mad_does_not_fill_the_history() -> None:
    odd = [replace(M2, address=f"odd-{n}") for n in range(1000)]
    done = round_of(*odd, M3)
    assert (made(done), kinds(done)) == ([3], {"address": 1000})
    assert len(done.held) == TOLD + 1
    assert done.held[-1].why == because(Kind.MORE_REFUSED, count=1000 - TOLD, why="address")
