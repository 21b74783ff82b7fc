"""OK is never said beside a node that waits for a person.

A table has what waits for a person. Then states are reached in whole rounds, and `gnt-maint check`
and `status`, the page, the metrics and the notifications either all name the node, or none does.
That a node out of service waits for a person, or somebody has it, `tests/maintd/lives` shows.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest

from nodeagent.cli.maint.console.client import Where
from nodeagent.maintd.notices.needs_you import LATE, NeedsYou, Sort, needs_you
from nodeagent.model.action import Drain, MovePrimary
from nodeagent.model.incident import Incident, Status
from nodeagent.model.ledger import Intent, Ledger, Policy
from nodeagent.model.notice import Sink
from nodeagent.model.outage import Back, Outage, Way
from nodeagent.model.purpose import OfIncident
from nodeagent.model.queue import Entry, EntryStatus, Queue
from nodeagent.model.reason import (
    AnyKind,
    BalanceKind,
    BudgetKind,
    Detail,
    FencingKind,
    Held,
    Kind,
    StageKind,
    because,
)
from nodeagent.model.snapshot import Instance
from nodeagent.model.stage import ADVISE, OBSERVE
from nodeagent.model.units import Ms, Nanoseconds
from nodeagent.model.window import Machine, Schedule, Unavailability, Window
from nodeagent.model.wish import SetSchedule, TakeDown
from tests.cli.fixtures import in_utc
from tests.cli.live import Live
from tests.cli.run import gnt_maint
from tests.maintd.leaving import HOUR, in_windows, window
from tests.maintd.rig import QUICK, Rig, fleet, mirrored
from tests.maintd.world import EVACUATE, NOW, incident, ledger, seen, six

__all__ = ["in_utc"]  # a fixture

SINK = Sink("ops", "webhook", interval=Ms(0))
POLICY = replace(QUICK, notify=(SINK,), return_after=Ms(120_000), unreachable_after=Ms(60_000))


class Case:
    """A rig in which n3 gets into the state of a test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.start(POLICY)

    def start(self, policy: Policy) -> None:
        places = mirrored(("n3", "n4"), ("n3", "n5"), ("n2", "n3"))
        self.rig = Rig(fleet(), places, policy)

    def says(self, said: object, rounds: int = 0) -> None:
        self.rig.agents.says["n3"] = said  # type: ignore[assignment]
        self.rounds(rounds)

    def rounds(self, count: int, seconds: float = 10.0) -> None:
        for _ in range(count):
            self.rig.tick(seconds)

    def until_drained(self) -> None:
        self.says(EVACUATE)
        while not self.rig.cluster.nodes["n3"].drained:
            self.rig.tick()

    def window(self, start: float, seconds: float) -> None:
        machine = Machine("n3")
        at = Nanoseconds(round((self.rig.time + start) * 1e9))
        when = Unavailability(at, Nanoseconds(round(seconds * 1e9)))
        schedule = Schedule((Window((machine,), when),))
        self.rig.wish(SetSchedule(schedule, consents=(None,)))


def untouched(case: Case) -> None:
    case.rounds(2)


def under_evacuation(case: Case) -> None:
    case.rig.cluster.takes = lambda action: 1000.0 if isinstance(action, MovePrimary) else 1.0
    case.until_drained()
    case.rounds(2)


def failed(case: Case) -> None:
    case.rig.cluster.fails = lambda action: isinstance(action, Drain)
    case.says(EVACUATE, 10)


def unreachable(case: Case) -> None:
    case.says(None, 10)


def stuck(case: Case) -> None:
    """An instance whose disks are on n3 alone, beside two that move."""
    plain = Instance("i9", "n3", None, "plain", memory=64, disk=64)
    case.rig.cluster.put(plain)
    case.says(EVACUATE, 120)


def overdue(case: Case) -> None:
    case.window(30, 600)
    case.rounds(12)
    case.rig.wish(TakeDown((Machine("n3"),)))
    case.rounds(30, 60)


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(tmp_path)


def list_of(rig: Rig) -> list[NeedsYou]:
    """The list after one more round."""
    done = rig.tick()
    nodes = {node.uuid: node for node in done.observed.snapshot.nodes.values()}
    silent = [
        nodes[one.node].name
        for one in done.decision.ledger.unreachable
        if not nodes[one.node].offline and done.at - one.since >= done.policy.unreachable_after
    ]
    ledger = done.decision.ledger
    return list(needs_you(ledger, done.observed, done.decision.held, silent, done.at))


SHOWN = (untouched, under_evacuation, stuck, failed, unreachable, overdue)


@pytest.mark.parametrize("state", SHOWN)
def test_all_surfaces_name_a_node_that_waits_for_a_person(
    case: Case, state: Callable[[Case], None]
) -> None:
    state(case)
    sorts = [one.sort for one in list_of(case.rig) if one.node == "n3"]
    live = Live(case.rig, case.folder)
    try:

        def run(*words: str) -> str:
            return gnt_maint("--socket", live.socket, *words).out

        check = gnt_maint("--socket", live.socket, "check")
        reach = Where(socket=live.socket).reach()
        page = reach.get_raw("/status").decode()
        metrics = reach.get_raw("/metrics").decode()
        status = run("status").partition("\nNeeds your action\n")[2]
        (count,) = re.findall(r" needs_action=(\d+);", check.out)
    finally:
        live.close()
    listed = page.partition("<h2>Needs you</h2>")[2].partition("</section>")[0]
    told = unescape(listed)
    by_name = {
        "check": re.search(r"\bn3\b", check.out.partition("; out of service")[0]) is not None,
        "status": re.search(r"^n3\b", status, re.M) is not None,
        "page": 'id="node-n3"' in told,
        "metrics": 'gnt_maint_node_trouble{kind="needs-you",node="n3"} 1.0' in metrics,
    }
    waits = bool(sorts)
    assert by_name == dict.fromkeys(by_name, waits)
    assert (check.code == 0) is (not waits)
    assert f'<a href="#needs-you"><b>{count}</b>' in page
    assert len(status.splitlines()) == (int(count) + 1 if waits else 0), "a line each, and a header"
    notified = {
        one.occasion.value
        for one in case.rig.ledger.notices.conditions
        if one.node == "n3" and not one.gone
    }
    wanted = {
        Sort.FAILED: "failed",
        Sort.COMPLETED: "completed",
        Sort.UNREACHABLE: "unreachable",
        Sort.REASON: "needs-you",
        Sort.OVERDUE: "window-overdue",
    }
    assert {wanted[sort] for sort in sorts} <= notified
    if not waits:
        assert not notified & {"failed", "needs-you", "unreachable", "window-overdue"}


# The rules, without the surfaces.


def sick(status: Status, ago: int = 0) -> Incident:
    at = Ms(NOW - ago)
    return replace(incident("n1", EVACUATE, status), noted_at=at, changed_at=at)


def held(kind: AnyKind, *, of: str = "", **details: Detail) -> Held:
    return Held(because(kind, "n1", **details), "n1", of)


NOTED, LATELY = sick(Status.NOTED, LATE), sick(Status.NOTED, LATE - 1)
FAILED, COMPLETED = sick(Status.FAILED), sick(Status.COMPLETED)
OTHER = replace(COMPLETED, name="n2", node="uuid-n2")
SOON = because(FencingKind.QUIET_TIME, left=Ms(60_000))
DOWN, NEVER = because(BudgetKind.BUDGET_DOWN, "a"), because(BudgetKind.BUDGET_NEVER, "a")
MOVING = Intent("1", OfIncident(NOTED.id), "n1", Drain("n1"))
OLD = replace(window("n1", -LATE, None), since=Ms(NOW - LATE - HOUR))
WAITS: list[tuple[Ledger, tuple[Held, ...], list[Sort]]] = [
    (ledger(FAILED), (), [Sort.FAILED]),
    (ledger(COMPLETED), (), [Sort.COMPLETED]),
    (
        ledger(FAILED, replace(COMPLETED, name="n2", node="uuid-n2")),
        (),
        [Sort.FAILED, Sort.COMPLETED],
    ),
    (ledger(NOTED), (), []),
    (ledger(sick(Status.CANCELED)), (), []),
    (ledger(replace(FAILED, node="uuid-gone")), (), []),
    # Another incident of the node is worked on; the node is on its way back.
    (ledger(FAILED, NOTED), (), []),
    (ledger(COMPLETED, outages=(Outage("uuid-n1", back=Back(Way.DONE, NOW)),)), (), []),
    (ledger(), (held(Kind.STAYS),), [Sort.REASON]),
    (ledger(), (held(Kind.SETTLING),), []),
    (ledger(), (held(Kind.WRONG_TAG),), [Sort.SETTING]),
    (ledger(), (held(StageKind.WOULD_EVACUATE, stage=ADVISE),), [Sort.REASON]),
    (ledger(), (held(StageKind.WOULD_EVACUATE, stage=OBSERVE),), []),
    (ledger(), (held(StageKind.WOULD_BALANCE, stage=ADVISE),), []),
    # The minutes after a start of maintd pass.
    (ledger(), (held(FencingKind.FENCING_WAITS, why=SOON),), []),
    (ledger(), (held(FencingKind.FENCING_WAITS, why=DOWN),), [Sort.REASON]),
    # An evacuation in which nothing has gone on for long.
    (ledger(NOTED), (held(Kind.CANNOT_MOVE, of=NOTED.id),), [Sort.REASON]),
    (ledger(LATELY), (held(Kind.CANNOT_MOVE, of=LATELY.id),), []),
    (
        ledger(replace(NOTED, not_before=Ms(NOW - 1))),
        (held(Kind.CANNOT_MOVE, of=NOTED.id),),
        [],
    ),
    (ledger(NOTED, intents=(MOVING,)), (held(Kind.CANNOT_MOVE, of=NOTED.id),), []),
    (ledger(), (held(Kind.CANNOT_MOVE, of="gone"),), []),
    (ledger(), (held(Kind.CANNOT_MOVE),), []),
    # A disruption budget that does not end by itself.
    (ledger(), (held(Kind.CANNOT_MOVE, why=DOWN),), [Sort.REASON]),
    (ledger(LATELY), (held(Kind.CANNOT_MOVE, of=LATELY.id, why=DOWN),), []),
    (ledger(LATELY), (held(Kind.CANNOT_MOVE, of=LATELY.id, why=NEVER),), [Sort.REASON]),
    (ledger(), (held(BalanceKind.NOT_BALANCED, why=DOWN),), []),
    (in_windows(OLD), (held(Kind.LATE_DRAINING),), [Sort.OVERDUE]),
    (in_windows(replace(OLD, since=NOW)), (held(Kind.LATE_DRAINING),), []),
    (ledger(queue=Queue((Entry(0, "a", "t", "o", status=EntryStatus.FAILED),))), (), [Sort.ENTRY]),
    (ledger(queue=Queue((Entry(0, "a", "t", "o", status=EntryStatus.SUCCEEDED),))), (), []),
]


def test_what_waits_for_a_person() -> None:
    for before, reasons, sorts in WAITS:
        found = list(needs_you(before, seen(six()), reasons, (), NOW))
        assert [one.sort for one in found] == sorts, (before, reasons)
        assert all(one.node == "n1" for one in found if one.held), reasons
    (silent,) = needs_you(ledger(), seen(six()), (), ("n2",), NOW)
    assert (silent.sort, silent.node) == (Sort.UNREACHABLE, "n2")
