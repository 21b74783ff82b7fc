"""OK is never said beside a node that waits for a person: states beside surfaces.

Each state is reached in whole rounds. Then `gnt-maint check` and `status`, the page, the metrics
and the notifications either all name its node, or none does and something else holds the node out
of service.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest

from nodeagent.cli.maint.console.client import Where
from nodeagent.maintd.notices.needs_you import NeedsYou, Sort, needs_you
from nodeagent.model.action import Drain, MovePrimary, Restore, RunCommand
from nodeagent.model.incident import Status
from nodeagent.model.ledger import Ledger, Outcome, Policy
from nodeagent.model.notice import Sink
from nodeagent.model.reason import FencingKind, Held, because
from nodeagent.model.snapshot import Capacity, Instance, Observed, Snapshot
from nodeagent.model.units import Ms, Nanoseconds
from nodeagent.model.window import Machine, Schedule, Unavailability, Window
from nodeagent.model.wish import Cancel, Done, SetSchedule, TakeDown
from tests.cli.fixtures import Run, anywhere, in_utc
from tests.cli.live import Live
from tests.maintd.rig import QUICK, Rig, fleet, mirrored
from tests.maintd.world import EVACUATE, NOW, OK, REPAIR

__all__ = ["anywhere", "in_utc"]  # fixtures

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

    def evacuated(self) -> None:
        self.says(EVACUATE)
        self.rig.settle()

    def put(self, **members: object) -> None:
        """Somebody else changes the node."""
        node = self.rig.cluster.nodes["n3"]
        self.rig.cluster.put(replace(node, candidate=False, **members))  # type: ignore[arg-type]

    def cancel(self, *, undrain: bool = False) -> None:
        self.rig.wish(Cancel(self.rig.incident("n3").id, undrain))
        self.rounds(3)

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


def evacuated(case: Case) -> None:
    case.evacuated()


def failed(case: Case) -> None:
    case.rig.cluster.fails = lambda action: isinstance(action, Drain)
    case.says(EVACUATE, 10)


def live_repaired(case: Case) -> None:
    case.says(REPAIR)
    case.rig.settle()


def canceled(case: Case) -> None:
    case.rig.cluster.takes = lambda action: 100.0 if isinstance(action, MovePrimary) else 1.0
    case.until_drained()
    case.cancel()
    case.rounds(30)


def canceled_and_mended(case: Case) -> None:
    canceled(case)
    case.says(OK, 30)
    assert case.rig.ledger.incidents == ()
    assert case.rig.cluster.nodes["n3"].drained


def withdrawn(case: Case) -> None:
    """It went away, and maintd is told not to put such a node back."""
    case.start(replace(POLICY, return_withdrawn=False))
    case.rig.cluster.takes = lambda action: 100.0 if isinstance(action, MovePrimary) else 1.0
    case.until_drained()
    case.says(OK, 150)
    assert case.rig.cluster.nodes["n3"].drained


def tag_removed(case: Case) -> None:
    case.evacuated()
    for tag in case.rig.cluster.nodes["n3"].tags:
        case.rig.cluster.untag("n3", tag)
    case.rounds(3)


def proves(case: Case) -> None:
    case.evacuated()
    case.says(OK)
    case.rig.wish(Done("n3"))
    case.rounds(6)


def contradicted(case: Case) -> None:
    """Somebody says it is repaired; it is offline and not asked, so nothing objects."""
    case.evacuated()
    case.rig.wish(Done("n3"))
    case.rounds(8)
    assert case.rig.cluster.nodes["n3"].drained


def in_doubt_at_its_return(case: Case) -> None:
    proves(case)
    case.says(None, 30)


def check_fails(case: Case) -> None:
    case.start(replace(POLICY, return_check="burn-in"))
    case.rig.agents.ends = lambda intent: (
        Outcome.ERROR if isinstance(intent.action, RunCommand) else Outcome.SUCCESS
    )
    proves(case)
    case.rounds(80)


def return_job_fails(case: Case) -> None:
    case.rig.cluster.fails = lambda action: isinstance(action, Restore)
    proves(case)
    case.rounds(60)


def unreachable(case: Case) -> None:
    case.says(None, 10)


def put_back_by_others(case: Case) -> None:
    under_evacuation(case)
    case.rig.cluster.undrain("n3")
    case.rounds(3)


def taken_offline_by_others(case: Case) -> None:
    case.rig.cluster.takes = lambda action: 30.0 if isinstance(action, Drain) else 1.0
    case.says(EVACUATE, 1)
    case.put(offline=True)
    case.rounds(12)


def marked_offline(case: Case) -> None:
    """Its agent answers all the same, so its instances may run there."""
    case.start(replace(POLICY, autorepair="safe"))
    case.rig.cluster.world.tags = frozenset({"ganeti:watcher:autorepair:failover"})
    case.rounds(3)
    case.put(offline=True)
    case.rounds(5)


def drained_by_others(case: Case) -> None:
    case.put(drained=True)
    case.rounds(3)


def in_a_window(case: Case) -> None:
    case.window(30, 36_000)
    case.rounds(12)
    case.rig.wish(TakeDown((Machine("n3"),)))
    case.rounds(2)


def with_a_plain_one(case: Case) -> None:
    """An instance whose disks are on n3 alone, beside two that move."""
    plain = Instance("i9", "n3", None, "plain", memory=64, disk=64)
    case.rig.cluster.put(plain)
    case.says(EVACUATE, 20)


def stuck(case: Case) -> None:
    with_a_plain_one(case)
    case.rounds(100)


def without_room(case: Case) -> None:
    """No other node can take over what n3 has."""
    case.rig.cluster.world.size = Capacity(100, 100)
    case.says(EVACUATE, 120)


def overdue(case: Case) -> None:
    case.window(30, 600)
    case.rounds(12)
    case.rig.wish(TakeDown((Machine("n3"),)))
    case.rounds(30, 60)


TABLE: list[tuple[Callable[[Case], None], Sort | str]] = [
    (untouched, "in service"),
    (under_evacuation, "incident"),
    (with_a_plain_one, "incident"),
    (stuck, Sort.REASON),
    (without_room, Sort.REASON),
    (evacuated, Sort.COMPLETED),
    (failed, Sort.FAILED),
    (live_repaired, Sort.COMPLETED),
    (canceled, Sort.REASON),
    (canceled_and_mended, Sort.REASON),
    (withdrawn, Sort.REASON),
    (tag_removed, Sort.REASON),
    (proves, "return"),
    (contradicted, Sort.REASON),
    (in_doubt_at_its_return, Sort.UNREACHABLE),
    (check_fails, Sort.REASON),
    (return_job_fails, Sort.REASON),
    (unreachable, Sort.UNREACHABLE),
    (put_back_by_others, Sort.REASON),
    (taken_offline_by_others, Sort.REASON),
    (marked_offline, Sort.REASON),
    (drained_by_others, "person"),
    (in_a_window, "window"),
    (overdue, Sort.OVERDUE),
]


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


def holders(rig: Rig) -> Iterator[str]:
    """Who else keeps n3 out of service, worked out from the ledger alone."""
    node, ledger = rig.cluster.nodes["n3"], rig.ledger
    if node.in_service:
        yield "in service"
    if any(one.node == node.uuid and one.status.active for one in ledger.incidents):
        yield "incident"
    if any(one.node == node.uuid for one in ledger.scheduled):
        yield "window"
    if node.uuid in ledger.returning():
        yield "return"
    ours = (outage := ledger.outage(node.uuid)) is not None and outage.ours
    if not (ours or any(one.node == node.uuid for one in ledger.incidents)):
        yield "person"


def test_a_node_out_of_service_waits_for_a_person_or_somebody_has_it(tmp_path: Path) -> None:
    for state, expected in TABLE:
        case = Case(tmp_path)
        state(case)
        sorts = [one.sort for one in list_of(case.rig) if one.node == "n3"]
        if isinstance(expected, str):
            assert not sorts, state
            assert expected in set(holders(case.rig)), state
        else:
            assert expected in sorts, state


# One of each sort, and of each that has the node without a person.
SHOWN = (
    *(untouched, under_evacuation, stuck, evacuated, failed, proves),
    *(unreachable, drained_by_others, in_a_window, overdue),
)


@pytest.mark.parametrize("state", SHOWN)
def test_all_surfaces_name_a_node_that_waits_for_a_person(
    case: Case, anywhere: Run, state: Callable[[Case], None]
) -> None:
    state(case)
    sorts = [one.sort for one in list_of(case.rig) if one.node == "n3"]
    live = Live(case.rig, case.folder)
    try:

        def run(*words: str) -> str:
            return anywhere("--socket", live.socket, *words).out

        check = anywhere("--socket", live.socket, "check")
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


def test_a_node_under_work_again_does_not_wait_for_its_old_incident() -> None:
    rig = Rig(fleet(), mirrored(("n3", "n4")), POLICY)
    rig.agents.says["n3"] = REPAIR
    rig.settle()
    assert rig.status("n3") is Status.COMPLETED
    rig.cluster.takes = lambda _: 1000.0
    rig.agents.says["n3"] = EVACUATE
    rig.tick()
    rig.tick()
    assert not [one for one in list_of(rig) if one.node == "n3"]


def test_the_minutes_after_a_start_need_nobody() -> None:
    soon = because(FencingKind.QUIET_TIME, left=Ms(60_000))
    stays = because(FencingKind.MANY_SILENT, count=3, nodes=6)
    for why, needs in ((soon, 0), (stays, 1)):
        held = Held(because(FencingKind.FENCING_WAITS, "n3", why=why), "n3")
        found = needs_you(Ledger(), Observed(Snapshot("c", {}), {}), [held], (), NOW)
        assert len(list(found)) == needs
