"""CKE's cases for automatic repair (repairer_test.go), and what its guards lack."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import pytest

from nodeagent.errors import ConfigError
from nodeagent.maintd.queue.guards import Admitted
from nodeagent.maintd.queue.settings import constraints_of
from nodeagent.model.action import Drain, RunCommand
from nodeagent.model.constraints import Constraints, wrong
from nodeagent.model.incident import Status
from nodeagent.model.ledger import Intent, Ledger
from nodeagent.model.purpose import OfEntry, OfIncident
from nodeagent.model.queue import Attempt, Entry, EntryStatus, Queue, StepStatus
from nodeagent.model.reason import MOST_TOLD, Kind, because
from nodeagent.model.sick import Sick
from nodeagent.model.snapshot import Node
from nodeagent.model.units import Nanoseconds, Seconds
from nodeagent.model.window import Machine, Mode, Schedule, Scheduled, Unavailability, Window
from nodeagent.section import Section
from tests import counted
from tests.maintd.queue.reports import (
    ALL,
    CKE,
    M0,
    M1,
    M2,
    M3,
    M4,
    S,
    address,
    as_incident,
    both,
    entry,
    kinds,
    made,
    node,
    queue,
    rack,
    round_of,
    sick,
    told,
    world,
)
from tests.maintd.world import EVACUATE, NOW, REPAIR, incident


def because_of(n: int, ms: int) -> Sick:
    """A machine that is unreachable since so many ms."""
    return replace(M1, address=address(n), serial=f"S{n}", since=NOW - ms)


@dataclass
class Case:
    """Reports, and the entries that there are, to the machines of new entries and the refusals."""

    reports: Iterable[Sick] = ()
    there: tuple[Entry, ...] = ()
    limits: Mapping[str, int] = field(default_factory=dict)
    made: list[int] = field(default_factory=list)
    refused: Mapping[str, int] = field(default_factory=dict)
    nodes: tuple[Node, ...] = ALL
    answering: tuple[str, ...] = ()


ODD = [replace(sick(n, "UNHEALTHY", 30), machine_type="type9") for n in (1, 3, 4, 5)]
HEALTHY = replace(M2, operation="healthy", serial="S9", address=address(9))
OTHER_NAME = replace(M2, address="n2", serial="")
URGENT = replace(M3, priority=5)
TWO_AT_MOST = {"maximum_repair_queue_entries": 2}
PARTLY = {**TWO_AT_MOST, "partial_admission": 1}
TEN = {"maximum_repair_queue_entries": 10}
DONE, BUSY = EntryStatus.FAILED, EntryStatus.PROCESSING
CASES = {
    # CKE's own.
    "none failed": Case(),
    "m1 with queue [m2]": Case([M1], (entry(2),), made=[1]),
    "m0 has no address": Case([M0, M1], made=[1], refused={"address": 1}),
    "the total is the limit": Case([M1, M2, M3], (entry(2),), made=[1, 3]),
    "for another operation": Case([M1, M2, M3], (entry(2, operation="noop"),), made=[1, 3]),
    "2 and 2 are more than 3": Case([M1, M2, M3], (entry(2), entry(4)), refused={"limit": 2}),
    "m1 outside": Case([M1], nodes=(), refused={"waiting": 1}),
    "m2 outside": Case([M2], made=[2], nodes=()),
    "m3 outside": Case([M3], made=[3], nodes=()),
    # How long a report waits.
    "1 ms too early": Case([because_of(1, 299_999)], nodes=(), refused={"waiting": 1}),
    "in time": Case([because_of(1, 300_000)], made=[1], nodes=()),
    "its clock is ahead": Case([because_of(1, -5000)], nodes=(), refused={"waiting": 1}),
    "nothing to wait for": Case(
        [because_of(1, -(10**6))],
        limits={"wait_seconds_to_repair_rebooting": 0},
        made=[1],
        nodes=(),
    ),
    "since when is unknown": Case([because_of(1, NOW)], nodes=(), refused={"waiting": 1}),
    # What is no report to go by.
    "no procedure takes no room": Case([*ODD, HEALTHY, M2], made=[2], refused={"procedure": 5}),
    "two sources": Case([M2, replace(M2, operation="unreachable", source="other")], made=[2]),
    "a node's name is its address": Case([OTHER_NAME, M2], made=[2]),
    # A power cycle of which of them?
    "two machines of one address": Case(
        [M2, replace(M2, serial="S7"), M3], made=[3], refused={"contradiction": 1}
    ),
    "one machine at two addresses": Case(
        [M2, replace(M2, address=address(9)), M3], made=[3], refused={"contradiction": 1}
    ),
    "no address": Case([M0, replace(M1, address="rack-3-left")], refused={"address": 2}),
    "it answers": Case([M3], refused={"contradiction": 1}, answering=("n3",)),
    "it answers, and is unhealthy": Case([M2], made=[2], answering=("n2",)),
    # Limits.
    "inert by default": Case(
        [M2], limits={"maximum_repair_queue_entries": 0}, refused={"inert": 1}
    ),
    "inert before anything is broken": Case(
        limits={"maximum_repair_queue_entries": 0}, refused={"inert": 0}
    ),
    # Operators may have entered more than the limit, which holds for reports alone.
    "nobody new is refused": Case((), (entry(1), entry(2), entry(3)), TWO_AT_MOST),
    "nor who is known": Case([M1], (entry(1), entry(2), entry(3)), TWO_AT_MOST),
    "the most urgent": Case([M1, M2, URGENT, M4], (), PARTLY, [3, 1], {"limit": 2}),
    "there is no room": Case([M4], (entry(1), entry(2), entry(3)), PARTLY, [], {"limit": 1}),
    # Failure domains.
    "two of a domain": Case(
        [*rack(1, 2, 3), M4],
        limits={**TEN, "maximum_repairs_per_domain": 2},
        made=[1, 2, 4],
        refused={"domain-limit": 1},
    ),
    "one is over": Case(
        rack(2, 3),
        (entry(1, domain="rack 7", status=DONE),),
        {**TEN, "maximum_repairs_per_domain": 2},
        [2, 3],
    ),
    "one is at work": Case(
        rack(2, 3),
        (entry(1, domain="rack 7", status=BUSY),),
        {**TEN, "maximum_repairs_per_domain": 2},
        [2],
        {"domain-limit": 1},
    ),
    # More reports than may be are a storm, though few of them would become entries.
    "a storm in a domain": Case(
        rack(1, 2, 3, 4), limits={"maximum_repairs_per_domain": 1}, refused={"limit": 4}
    ),
    "a domain has failed": Case(
        [*rack(1, 3, 4), M2],
        limits={"domain_failure_machines": 3},
        made=[2],
        refused={"domain-failure": 3},
    ),
    "a domain has not": Case(
        [*rack(1, 3), M2], limits={"domain_failure_machines": 3}, made=[1, 3, 2]
    ),
    "what was given up is none of it": Case(
        rack(1, 2), (entry(1, status=DONE, domain="rack 7"),), {"domain_failure_machines": 2}, [2]
    ),
}


def test_which_reports_become_entries() -> None:
    for name, case in CASES.items():
        observed = world(*case.reports, nodes=case.nodes, answering=case.answering)
        limits = replace(CKE, **case.limits)  # type: ignore[arg-type]
        done = round_of(limits=limits, entries=case.there, observed=observed)
        assert (made(done, len(case.there)), kinds(done)) == (case.made, case.refused), name


SOURCE = "sabakan is not believed: it has answered 500"
STORM = (
    "0 entries and 4 reports that would become some are more than maximum-repair-queue-entries, 3:"
    " not one is made"
)


WHY_NOT: list[tuple[Admitted, str, str]] = [
    (round_of(M2, limits=Constraints()), address(2), "maximum-repair-queue-entries is 0"),
    (round_of(observed=world(why="it has answered 500")), "", SOURCE),
    (round_of(*ODD), "4 machines", "no repair procedure is configured for machines of 'type9'"),
    (round_of(HEALTHY), address(9), "no operation 'healthy' is configured"),
    (round_of(replace(M1, address="rack-3-left")), "", "'rack-3-left' is neither an address"),
    (
        round_of(M2, replace(M2, address=address(9))),
        "",
        "it is said to have two addresses: 10.0.0.2, 10.0.0.9",
    ),
    (round_of(M1, M2, M3, M4), "4 machines", STORM),
]


def test_why_reports_become_no_entries() -> None:
    for done, of, why in WHY_NOT:
        assert any(why in said for name, said in told(done).items() if of in ("", name)), (done, of)


@pytest.mark.parametrize(
    ("switches", "expected", "refused"),
    [
        ({"auto_repair": False}, [], {"disabled": 1}),
        ({"enabled": False}, [2], {}),  # a queue that is disabled is filled nevertheless
    ],
)
def test_what_is_disabled(
    switches: dict[str, bool], expected: list[int], refused: dict[str, int]
) -> None:
    done = round_of(M2, ledger=Ledger(queue=queue(**switches)))
    assert (made(done), kinds(done)) == (expected, refused)


def test_of_two_reports_of_one_machine_the_more_urgent_counts() -> None:
    first = replace(M2, priority=1, operation="unreachable", state="")
    assert round_of(M2, first).ledger.queue.entries[0].operation == "unreachable"


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
    for ledger in (
        Ledger(incidents=(incident("n4", EVACUATE, Status.PENDING),)),
        Ledger(incidents=(incident("n4", REPAIR, Status.COMPLETED),)),
        Ledger(incidents=(incident("n5", REPAIR, Status.PENDING),)),
        Ledger(intents=(Intent("1", OfIncident("i"), "n4", Drain("n4")),)),
        Ledger(intents=(Intent("1", OfIncident("i"), "n5", RunCommand("n5", "fix", "{}")),)),
        Ledger(intents=(Intent("1", OfEntry(9, "repair"), "n4", RunCommand("n1", "try", "{}")),)),
    ):
        assert made(round_of(M4, ledger=ledger)) == [4], ledger


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


def test_an_entry_is_as_its_report() -> None:
    one = replace(M2, domain="rack 3", priority=2)
    (new,) = round_of(one).ledger.queue.entries
    assert (new.index, new.address, new.machine_type) == (0, "10.0.0.2", "type1")
    assert (new.operation, new.serial, new.who) == ("unhealthy", "S2", "sabakan")
    assert (new.status, new.step_status) == (EntryStatus.QUEUED, StepStatus.WAITING)
    assert (new.queued_at, new.domain, new.priority) == (NOW, "rack 3", 2)


# Beyond.


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


def in_window(mode: Mode, start: int = NOW, **members: object) -> Ledger:
    machine = Machine("n3")
    when = Unavailability(Nanoseconds(start * 10**6), Nanoseconds(3600 * 10**9))
    one = Scheduled(machine, when, mode, NOW, "uuid-n3", **members)  # type: ignore[arg-type]
    return Ledger(schedule=Schedule((Window((machine,), when),)), scheduled=(one,))


@pytest.mark.parametrize(
    ("mode", "start", "expected"),
    [
        (Mode.DRAINING, NOW, [2]),
        (Mode.DOWN, NOW, [2]),
        (Mode.DRAINING, NOW + 10**9, [3, 2]),
    ],
)
def test_a_machine_in_a_window_is_no_entry_however_long_it_is_unreachable(
    mode: Mode, start: int, expected: list[int]
) -> None:
    """What is planned fills neither the limit nor its domain."""
    ledger = in_window(mode, start)
    limits = replace(CKE, maximum_repair_queue_entries=len(expected), domain_failure_machines=2)
    done = round_of(M3, M2, limits=limits, ledger=ledger)
    assert sorted(made(done)) == sorted(expected)
    assert kinds(done) == ({} if 3 in expected else {"window": 1})
    if 3 not in expected:
        assert told(done) == {"10.0.0.3": str(because(Kind.IN_WINDOW, "n3"))}
        assert made(round_of(*rack(2, 3), limits=limits, ledger=ledger)) == [2]


def outside(machine: Machine, mode: Mode = Mode.DOWN, start: int = NOW) -> Ledger:
    """A window of a machine that is not a node."""
    when = Unavailability(Nanoseconds(start * 10**6), Nanoseconds(3600 * 10**9))
    windows = Schedule((Window((machine,), when),))
    return Ledger(schedule=windows, scheduled=(Scheduled(machine, when, mode, NOW),))


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


TIMES: list[tuple[str, Mode, int, list[int]]] = [
    ("not yet", Mode.DRAINING, NOW + 600_001, [77]),
    ("in ten minutes", Mode.DRAINING, NOW + 600_000, []),
    ("still", Mode.DRAINING, NOW - 3_599_999, []),
    ("over, and never taken down", Mode.DRAINING, NOW - 3_600_000, [77]),
    ("down, though overdue", Mode.DOWN, NOW - 10**9, []),
    ("down before its time", Mode.DOWN, NOW + 10**9, []),
]


def test_when_a_machine_that_is_no_node_is_in_its_window() -> None:
    for name, mode, start, expected in TIMES:
        ledger = outside(Machine(ip="10.0.0.77"), mode, start)
        assert made(round_of(STRANGER, ledger=ledger)) == expected, name


def test_an_entry_of_a_machine_that_is_no_node_begins_nothing_in_its_window() -> None:
    there = queue(entry(1), entry(77), entry(5, serial="S3"))
    for machine, shut in ((Machine(ip="10.0.0.77"), [1]), (Machine("s3"), [2])):
        done = round_of(ledger=replace(outside(machine), queue=there))
        assert list(done.shut) == shut
        assert done.shut[shut[0]] == because(Kind.IN_WINDOW, str(machine))


def test_a_machine_in_a_window_is_known_by_its_ipv6_address() -> None:
    """However its inventory spells it."""
    stranger = replace(M3, address="2001:DB8:0::77", serial="S77")
    (entry,) = round_of(stranger).ledger.queue.entries
    assert entry.address == "2001:db8::77"
    held = round_of(stranger, ledger=outside(Machine(ip="2001:db8::77")))
    assert (held.ledger.queue.entries, kinds(held)) == ((), {"window": 1})


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


def test_a_report_becomes_an_entry_by_itself_at_full_only() -> None:
    advised = replace(node(2), tags=frozenset({"maintd:stage:advise"}))
    done = round_of(observed=world(M2, M3, nodes=(advised, node(3))))
    assert (made(done), kinds(done)) == ([3], {"stage": 1})


def test_a_machine_cools_down() -> None:
    limits = replace(CKE, cool_down_seconds=Seconds(600))
    ledger = repaired(round_of(M2, limits=limits), 500_000)
    done = round_of(M2, limits=limits, ledger=ledger)
    assert (made(done), kinds(done)) == ([], {"cool-down": 1})
    assert made(round_of(M2, limits=limits, ledger=ledger, now=NOW + 100_000)) == [2]
    assert made(round_of(M2, ledger=ledger)) == [2], "unless nobody has asked for that"


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


def work(machines: int) -> int:
    """How much a round does with so many reports, each with a reason and a past of its own."""
    reports = [
        replace(sick(n, "UNHEALTHY", n), address=f"10.0.{n // 250}.{n % 250}")
        for n in range(machines)
    ]
    past = tuple(Attempt(n, one.address, one.serial, NOW - n * S) for n, one in enumerate(reports))
    waits = Seconds(machines * S // 2)
    limits = Constraints(10, wait_seconds_to_repair=waits, cool_down_seconds=Seconds(10**6))
    ledger, observed = Ledger(queue=Queue(attempts=past)), world(*reports)
    return counted.lines(lambda: round_of(limits=limits, ledger=ledger, observed=observed))


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
    assert len(done.held) == MOST_TOLD + 1
    assert done.held[-1].why == because(Kind.MORE_REFUSED, count=1000 - MOST_TOLD, why="address")
