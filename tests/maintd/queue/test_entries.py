"""The repair queue in whole rounds: a simulated cluster, agents that run its commands."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from nodeagent.cluster.backend import Answer
from nodeagent.maintd.planning.times import rfc3339
from nodeagent.maintd.queue.entries import add, delete_all, entry_json
from nodeagent.model.action import Action, Drain, MovePrimary, RunCommand, Scope
from nodeagent.model.incident import Status
from nodeagent.model.ledger import PAUSE_TAG, Intent, Ledger, Policy, Result
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
from nodeagent.model.reason import AnyKind, Kind
from nodeagent.model.snapshot import Instance, Snapshot
from nodeagent.model.units import Ms, Seconds
from nodeagent.model.wish import AddEntry, DeleteEntry, Pause, ResetBackOff, SetQueue
from tests.maintd.http.routes import DOCUMENT
from tests.maintd.queue.mender import ADD, BROKEN, Mender, policy
from tests.maintd.rig import QUICK, Between, fleet, mirrored
from tests.maintd.rounds import ticks
from tests.maintd.world import EVACUATE, NOW, OK, REPAIR, snapshot


def test_the_first_step_does_not_heal_and_the_second_does() -> None:
    rig = Mender(
        policy(RepairStep("try-1", watch_seconds=Seconds(60)), RepairStep("try-2")), "try-2"
    )
    rig.add()
    entry = rig.until(EntryStatus.SUCCEEDED)
    assert rig.commands() == ["try-1", "try-2"]
    assert (entry.step, entry.why) == (1, "the machine is healthy")


def test_the_commands_run_on_the_masters_own_agent_with_the_entry_on_stdin() -> None:
    rig = Mender(policy())
    rig.add()
    rig.until(EntryStatus.SUCCEEDED)
    orders = [intent for _, _, intent in rig.agents.ran.values()]
    assert {intent.action.node for intent in orders} == {"n1"}  # type: ignore[union-attr]
    (repair,) = (i for i in orders if i.purpose.entry == "queue:0:repair")
    assert isinstance(repair.action, RunCommand)
    said = json.loads(repair.action.stdin)
    assert said["nodename"] == repair.node == "n3"
    assert (said["index"], said["address"], said["serial"]) == ("0", "127.0.0.3", "S3")
    assert (said["status"], said["step"], said["step_status"]) == ("processing", 0, "watching")
    assert repair.action.seconds == 30


def test_need_drain_empties_the_node_and_gives_it_back() -> None:
    rig = Mender(policy(RepairStep("try-1", need_drain=True)))
    empty: list[bool] = []

    def tell(intent: Intent) -> Result:
        if intent.purpose.entry.endswith(":repair"):
            there = rig.cluster.snapshot().instances.values()
            here = [i for i in there if "n3" in (i.primary, i.secondary)]
            empty.append(rig.node().drained and not here)
        return rig.tell(intent)

    rig.agents.tells = tell
    rig.add()
    rig.until(EntryStatus.SUCCEEDED)
    ticks(rig, 5)
    assert empty == [True]
    assert not rig.node().drained
    assert rig.jobs()[0].startswith("Drain")
    assert rig.jobs()[-1] == "Restore(node='n3', drained=False, candidate=False)"


@pytest.mark.parametrize("had_effect", [False, True], ids=["before", "after its effect"])
@pytest.mark.parametrize("kind", [Drain, MovePrimary])
def test_what_the_change_of_master_cut_off_fails_no_entry(
    kind: type[Action], *, had_effect: bool
) -> None:
    rig = Mender(policy(RepairStep("try-1", need_drain=True)))
    rig.cluster.takes = lambda action: 30.0 if isinstance(action, kind) else 1.0
    rig.cluster.cut_late = lambda _: had_effect
    rig.add()
    while not any(isinstance(job.action, kind) for job in rig.cluster.jobs.values()):
        rig.tick(5)
    rig.tick(3)
    rig.cluster.set_master("n1")
    rig.cluster.takes = lambda _: 1.0
    rig.until(EntryStatus.SUCCEEDED)
    ticks(rig, 10)
    assert not rig.node().drained, "it is given back"
    assert len([one for one in rig.commands() if one == "try-1"]) == 1


def unwell(rig: Mender, name: str) -> None:
    rig.agents.says[name] = None


def closed(rig: Mender, name: str) -> None:
    rig.cluster.put(replace(rig.node(name), offline=True))


@pytest.mark.parametrize(
    "hinder",
    [
        pytest.param(lambda rig: closed(rig, "n4"), id="its other node is offline"),
        pytest.param(lambda rig: unwell(rig, "n4"), id="its other node does not answer"),
        pytest.param(
            lambda rig: rig.cluster.put(Instance("large", "n3", "n4", memory=10**9, disk=1)),
            id="its other node has no room",
        ),
        pytest.param(
            lambda rig: setattr(rig.cluster, "fails", lambda a: isinstance(a, MovePrimary)),
            id="its migration fails",
        ),
    ],
)
def test_what_cannot_leave_puts_the_entry_off(hinder: Callable[[Mender], object]) -> None:
    rig = Mender(policy(RepairStep("try-1", need_drain=True)), instances=mirrored(("n3", "n4")))
    hinder(rig)
    rig.add()
    while not rig.entry.backoffs:
        rig.tick()
    assert rig.entry.step_status is StepStatus.WAITING
    assert rig.commands() == []
    rig.tick()
    rig.tick()
    assert not rig.node().drained


def test_what_cannot_be_emptied_backs_off_and_stays_in_service() -> None:
    """CKE's workload with a budget of zero; `reset-backoff` has it tried again."""
    rig = Mender(policy(RepairStep("try-1", need_drain=True)))
    stays = Instance("stays", "n3", template="plain")
    rig.cluster.world.put(stays)
    rig.add()
    ticks(rig, 6)
    assert (rig.entry.status, rig.entry.step_status) == (EntryStatus.PROCESSING, StepStatus.WAITING)
    assert (rig.entry.backoffs, rig.entry.backoff_until > rig.now()) == (1, True)
    assert (Kind.BACKS_OFF, "") in rig.whys()
    assert rig.jobs() == []
    rig.cluster.world.drop("stays")
    assert rig.ask(ResetBackOff()) == ""
    assert (rig.entry.backoffs, rig.entry.backoff_until) == (0, 0)
    rig.until(EntryStatus.SUCCEEDED)


REFUSED: list[tuple[AddEntry, str]] = [
    (
        replace(ADD, machine_type="t9"),
        "no repair procedure is configured for machines of 't9'; there may be: r640",
    ),
    (
        replace(ADD, operation="x"),
        "no operation 'x' is configured for machines of 'r640'; there may be: unreachable",
    ),
    (replace(ADD, address="n9"), "'n9' is neither an address nor a node"),
    (ADD, "queue entry 0 is about 127.0.0.3 already"),
    (replace(ADD, address="n3"), "queue entry 0 is about 127.0.0.3 already"),
    (replace(ADD, address="10.9.9.9"), "queue entry 0 is about S3 already"),
    (replace(ADD, serial="S4"), "queue entry 0 is about 127.0.0.3 already"),
]


def test_what_is_refused_when_it_is_entered() -> None:
    """A machine is queued again once its entry is over or deleted."""
    world = Snapshot("c", {node.name: node for node in fleet()})
    procedures = policy().procedures

    def entered(ledger: Ledger, asked: AddEntry) -> Ledger | str:
        return add(ledger, asked, "root", world, procedures, NOW)

    ledger = entered(Ledger(), ADD)
    assert isinstance(ledger, Ledger)
    for asked, why in REFUSED:
        assert entered(ledger, asked) == why, asked
    (entry,) = ledger.queue.entries
    for over in (replace(entry, status=EntryStatus.FAILED), replace(entry, deleted=True)):
        after = entered(replace(ledger, queue=ledger.queue.put(over)), ADD)
        assert isinstance(after, Ledger), over
        assert [one.index for one in after.queue.entries] == [0, 1], over


def test_the_limit_of_nodes_in_work_is_one_for_all() -> None:
    rig = Mender(replace(policy(), nodes_in_work=1))
    rig.agents.says["n5"] = EVACUATE
    rig.cluster.takes = lambda _: 10_000.0
    while not rig.ledger.incidents or rig.status("n5") is Status.NOTED:
        rig.tick()
    rig.add()
    assert (Kind.NODES_IN_WORK, "") in rig.whys(4)
    limits = {"count": 1, "most": 1, "nodes": ("n5",)}
    assert rig.details(Kind.NODES_IN_WORK) == {"it": "", **limits}


def tagged(rig: Mender) -> None:
    rig.cluster.world.tags |= {PAUSE_TAG}


@pytest.mark.parametrize(
    ("pause", "address", "why"),
    [
        (lambda rig: rig.ask(Pause(Scope.NODE, "n3", "ours")), "n3", (Kind.PAUSED, "n3")),
        (lambda rig: rig.ask(Pause(Scope.CLUSTER, "", "x")), "10.9.9.9", (Kind.PAUSED, "")),
        (tagged, "10.9.9.9", (Kind.TAGGED, "")),
    ],
    ids=["a node", "the cluster", "its tag"],
)
def test_what_is_paused_is_left_alone_though_it_is_no_node(
    pause: Callable[[Mender], object], address: str, why: tuple[AnyKind, str]
) -> None:
    rig = Mender(policy())
    pause(rig)
    rig.add(replace(ADD, address=address))
    assert rig.whys(4) == [(Kind.ENTRY_WAITS, "0"), why]
    assert rig.commands() == []


def test_while_a_command_runs_only_other_commands_of_that_agent_wait() -> None:
    """An incident is worked off; another entry waits, and its health is not even asked for."""
    rig = Mender(policy())
    rig.add()
    rig.until_true(lambda: rig.at(StepStatus.WATCHING))
    rig.agents.takes = 10**8
    rig.agents.says["n6"] = EVACUATE
    rig.add(replace(ADD, address="n5", serial=""))
    whys = rig.whys(6)
    assert rig.status("n6") is Status.COMPLETED
    assert [one.status for one in rig.entries] == [EntryStatus.PROCESSING, EntryStatus.QUEUED]
    assert {(Kind.ENTRY_WAITS, "1"), (Kind.AGENT_RUNS, "n1")} <= set(whys)
    ran = [order.purpose.entry for _, _, order in rig.agents.ran.values()]
    assert "queue:1:check" not in ran


def test_a_candidate_is_not_begun_while_another_reboots() -> None:
    """Its own live repair is under way."""
    rig = Mender(policy())
    rig.agents.takes = 10**8
    rig.agents.says["n2"] = REPAIR
    ticks(rig, 4)
    rig.add()
    assert (Kind.OTHER_CANDIDATE, "n2") in rig.whys(6)
    assert (rig.entry.status, rig.commands()) == (EntryStatus.QUEUED, ["fix-nic"])


def test_one_silent_candidate_of_three_is_repaired_and_with_two_nothing_is_done() -> None:
    rig = Mender(policy(), instances=[], nodes=fleet(3))
    rig.add()
    rig.agents.says |= {"n3": None, "n2": None}
    assert "the vote is undecided: 1 of 3 nodes say that n1" in str(ticks(rig, 6).idle)
    assert (rig.entry.status, rig.commands()) == (EntryStatus.QUEUED, [])
    del rig.agents.says["n2"]
    rig.until(EntryStatus.SUCCEEDED)


def test_nothing_is_ordered_of_a_master_whose_agent_is_in_doubt() -> None:
    rig = Mender(policy())
    rig.add()
    rig.agents.says["n1"] = None
    assert (Kind.AGENT_IN_DOUBT, "n1") in rig.whys(8)
    rig.agents.says["n1"] = OK
    rig.until(EntryStatus.SUCCEEDED)


MOMENTS: list[tuple[int, str]] = [
    (0, "0001-01-01T00:00:00Z"),
    (951_782_400_000, "2000-02-29T00:00:00Z"),
    (1_078_012_799_999, "2004-02-28T23:59:59Z"),
    (1_609_459_199_000, "2020-12-31T23:59:59Z"),
    (4_107_542_400_000, "2100-03-01T00:00:00Z"),
]


def test_times_are_written_as_rfc_3339() -> None:
    for ms, text in MOMENTS:
        assert rfc3339(Ms(ms)) == text, (ms, text)


def test_an_entry_is_told_in_ckes_words() -> None:
    """And each member is described."""
    schema = DOCUMENT["components"]["schemas"]["QueueEntry"]
    entry = Entry(4, "10.0.0.9", "r640", "unreachable", changed_at=Ms(951_782_400_000))
    assert entry_json(entry, snapshot()) == {
        "index": "4",
        "address": "10.0.0.9",
        "nodename": "",
        "serial": "",
        "machine_type": "r640",
        "operation": "unreachable",
        "status": "queued",
        "step": 0,
        "step_status": "waiting",
        "deleted": False,
        "last_transition_time": "2000-02-29T00:00:00Z",
        "drain_backoff_count": 0,
        "drain_backoff_expire": "0001-01-01T00:00:00Z",
        "why": "",
    }
    told = set(entry_json(entry, snapshot()))
    assert told == set(schema["properties"]) == set(schema["required"])
    unknown = replace(entry, unanswered="exit code 75")
    assert entry_json(unknown, snapshot())["why"] == "its health is unknown: exit code 75"
    assert entry_json(replace(unknown, why="failed"), snapshot())["why"] == "failed"


def test_an_entry_that_is_not_there_cannot_be_deleted() -> None:
    assert Mender(policy()).ask(DeleteEntry(0)) == "there is no queue entry 0"


def test_the_finished_entries_are_deleted_or_all_others() -> None:
    rows = tuple(
        Entry(n, f"10.0.0.{n}", "r640", "unreachable", status=status)
        for n, status in enumerate(EntryStatus)
    )
    ledger = Ledger(queue=Queue(rows, len(rows)))
    for finished in (True, False):
        after = delete_all(ledger, finished=finished).queue.entries
        deleted = [entry.status for entry in after if entry.deleted]
        assert deleted == [status for status in EntryStatus if status.finished is finished]


# Several checks at once.


def many(count: int, policy: Policy) -> Mender:
    """A coordinator with so many machines in its queue, none of them a node."""
    rig = Mender(policy)
    for number in range(count):
        rig.wish(replace(ADD, address=f"192.0.2.{number}", serial=f"S{number}"))
    rig.agents.lists = rig.agents.checks = ("check",)
    return rig


def asked(rig: Mender) -> int:
    """How many checks have been ordered."""
    return sum(intent.purpose.entry.endswith(":check") for _, _, intent in rig.agents.ran.values())


def test_as_many_are_checked_in_a_round_as_the_agent_takes() -> None:
    """Sixteen rounds for a thousand: minutes, where one a round would take 17 hours."""
    rig = many(10, policy(RepairStep("try-1")))
    rig.agents.taken = 4
    rig.ask(SetQueue(enabled=False))
    assert asked(rig) == 4
    rig.tick()
    rig.tick()
    assert asked(rig) == 3 * 4
    rig.tick()
    assert all(entry.checked_at for entry in rig.ledger.queue.entries)
    assert rig.agents.refused == 0


def test_an_agent_that_says_nothing_of_checks_is_asked_for_one_at_a_time() -> None:
    rig = many(5, policy(RepairStep("try-1")))
    rig.agents.checks = rig.agents.lists = ()
    rig.ask(SetQueue(enabled=False))
    ticks(rig, 5)
    assert all(entry.checked_at for entry in rig.ledger.queue.entries)
    assert (rig.agents.refused, asked(rig)) == (0, 6)


def test_what_an_agent_refuses_as_it_is_busy_is_asked_later() -> None:
    """An older one put back, or one whose settings have changed since its report."""
    rig = many(4, policy(RepairStep("try-1")))
    rig.agents.lists = ()
    rig.ask(SetQueue(enabled=False))
    assert (asked(rig), rig.agents.refused) == (1, 3)
    rig.agents.checks = ()
    ticks(rig, 5)
    assert all(entry.checked_at and not entry.unanswered for entry in rig.ledger.queue.entries)
    assert {entry.status for entry in rig.ledger.queue.entries} == {EntryStatus.QUEUED}


def test_a_repair_waits_for_the_checks_that_run_and_no_other_is_begun_before_it() -> None:
    rig = many(3, policy(RepairStep("try-1"), max_concurrent_repairs=3))
    rig.agents.takes = 25_000  # more than two rounds
    rig.tick()
    assert asked(rig) == 3
    rig.wish(replace(ADD, address="192.0.2.99", serial="S99"))
    rig.tick()
    assert asked(rig) == 4, "beside those that run"
    told = [rig.whys() for _ in range(40)]
    assert any((Kind.CHECKS_FIRST, "") in each for each in told)
    assert rig.agents.refused == 0
    assert set(rig.commands()) == {"try-1"}
    assert {entry.status for entry in rig.ledger.queue.entries} == {EntryStatus.SUCCEEDED}


def test_a_check_that_is_not_listed_has_its_turn_beside_many_that_are() -> None:
    operations = tuple(
        Operation(name, (RepairStep("try-1"),), check, Seconds(30))
        for name, check in (("unreachable", "check"), ("odd", "other"))
    )
    rig = many(20, replace(QUICK, procedures=Procedures((Procedure(("r640",), operations),))))
    rig.wish(AddEntry("odd", "r640", "192.0.2.99", "S99"))
    rig.ask(SetQueue(enabled=False))
    ticks(rig, 6)
    assert rig.agents.refused == 0
    assert all(entry.checked_at for entry in rig.ledger.queue.entries)
    assert asked(rig) > 60


def test_a_live_repair_of_the_master_has_its_turn_beside_checks_without_end() -> None:
    rig = many(5, policy(RepairStep("try-1")))
    rig.agents.takes = 25_000
    rig.ask(SetQueue(enabled=False))
    for number in range(100, 103):  # so that in every round some of them run
        rig.wish(replace(ADD, address=f"192.0.2.{number}", serial=f"S{number}"))
        rig.tick()
    rig.agents.says["n1"] = REPAIR
    for _ in range(60):
        rig.tick()
        if rig.commands():
            break
    assert rig.commands() == ["fix-nic"]
    (incident,) = rig.ledger.incidents
    assert incident.status is Status.PENDING


def test_few_orders_are_on_their_way_to_one_agent_at_once() -> None:
    """Its front passes on four, and lets the others wait for seconds only."""
    rig = many(30, policy(RepairStep("try-1")))
    there, most, submit = 0, 0, rig.agents.submit

    async def slowly(intent: Intent, snapshot: Snapshot) -> Answer:
        nonlocal there, most
        there += 1
        most = max(most, there)
        for _ in range(5):
            await asyncio.sleep(0)
        there -= 1
        return await submit(intent, snapshot)

    rig.agents.submit = slowly  # type: ignore[method-assign]
    rig.ask(SetQueue(enabled=False))
    assert (asked(rig), most) == (30, 4)


# What keeps others waiting, and whose a drained node is.


HOURLY = RepairStep("try-1", need_drain=True, command_retries=1, command_interval=Seconds(3600))


def to_be_tried_again() -> Mender:
    """Its node is drained, its command has failed, and may run again in an hour."""
    rig = Mender(policy(HOURLY))
    rig.fates["try-1"] = [BROKEN]
    rig.add()
    for _ in range(30):
        rig.tick()
        if rig.entry.attempt and not rig.ledger.intents:
            break
    assert rig.node().drained
    assert rig.entry.not_before > rig.now() + 3_000_000
    return rig


def given_back(rig: Mender) -> bool:
    """Whether the node is in service, before long."""
    ticks(rig, 5)
    return not rig.node().drained


@pytest.mark.parametrize(
    "ends",
    [
        pytest.param(lambda rig: rig.ask(DeleteEntry(0)), id="deleted"),
        pytest.param(lambda rig: setattr(rig, "healed", True), id="healthy"),
        pytest.param(lambda rig: rig.ask(SetQueue(enabled=False)), id="disabled"),
    ],
)
def test_an_entry_that_waits_for_a_retry_gives_its_node_back(
    ends: Callable[[Mender], object],
) -> None:
    rig = to_be_tried_again()
    ends(rig)
    assert given_back(rig)


@pytest.mark.parametrize("does", ["check", "repair"])
def test_what_was_ordered_of_a_master_that_is_offline_now_is_not_waited_for(does: str) -> None:
    """The new master's agent is asked about the health; how far a repair came nobody can tell."""
    rig = Mender(policy())
    rig.add()
    while not any(i.purpose.entry == f"queue:0:{does}" and i.job for i in rig.ledger.intents):
        rig.tick(1)
    rig.agents.says["n1"] = None
    rig.agents.master = rig.me = "n2"
    rig.cluster.set_master("n2")
    rig.cluster.put(replace(rig.node("n1"), offline=True))
    rig.crash()
    if does == "check":
        rig.until(EntryStatus.SUCCEEDED)
    else:
        assert "how far it came is unknown" in rig.until(EntryStatus.FAILED).why
        assert rig.commands() == ["try-1"]


def test_what_was_put_off_before_anything_was_done_is_no_repair_that_counts() -> None:
    rig = Mender(policy(RepairStep("try-1", need_drain=True)))
    rig.cluster.world.put(Instance("stays", "n3", template="plain"))
    rig.add()
    ticks(rig, 8)
    assert (rig.entry.backoffs, rig.entry.begun_at, rig.jobs()) == (1, 0, [])
    rig.ask(DeleteEntry(0))
    assert rig.ledger.queue.attempts == ()


@dataclass
class Meddling(Between):
    """Somebody drains n3 himself, after our drain was promised and before it was submitted."""

    rig: list[Mender] = field(default_factory=list)

    def snapshot(self) -> Snapshot:
        promised = self.rig and any(
            isinstance(i.action, Drain) and i.job is None for i in self.rig[0].ledger.intents
        )
        if promised:
            node = self.cluster.snapshot().nodes["n3"]
            self.cluster.world.nodes["n3"] = replace(node, drained=True)
        return self.cluster.snapshot()


def test_a_node_that_somebody_drains_just_before_we_do_stays_drained() -> None:
    there: list[Mender] = []
    rig = Mender(policy(RepairStep("try-1", need_drain=True)), through=lambda c: Meddling(c, there))
    there.append(rig)
    rig.add()
    ticks(rig, 12, 60)
    assert rig.entry.status is EntryStatus.SUCCEEDED
    assert rig.node().drained
    assert not [job for job in rig.jobs() if job.startswith("Restore")]
