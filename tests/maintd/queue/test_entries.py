"""The repair queue in whole rounds: a simulated cluster, agents that run its commands."""

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from nodeagent.cluster.backend import Answer
from nodeagent.maintd.planning.times import rfc3339
from nodeagent.maintd.queue.entries import entry_json
from nodeagent.model.action import Action, Drain, MovePrimary, RunCommand, Scope
from nodeagent.model.asked import Asked
from nodeagent.model.incident import Status
from nodeagent.model.ledger import PAUSE_TAG, Intent, Outcome, Policy, Result
from nodeagent.model.queue import (
    Entry,
    EntryStatus,
    Operation,
    Procedure,
    Procedures,
    RepairStep,
    StepStatus,
)
from nodeagent.model.reason import AnyKind, Detail, Kind, Reason
from nodeagent.model.snapshot import Instance, Node, Snapshot
from nodeagent.model.units import Ms, Nanoseconds, Seconds
from nodeagent.model.window import Machine, Schedule, Unavailability, Window
from nodeagent.model.wish import (
    AddEntry,
    DeleteEntries,
    DeleteEntry,
    Pause,
    ResetBackOff,
    Resume,
    SetQueue,
    SetSchedule,
)
from nodeagent.protocol.messages import INTERRUPTED, UNREAD
from tests.maintd.decided import details, kinds, whole
from tests.maintd.rig import QUICK, Rig, fleet, mirrored
from tests.maintd.world import EVACUATE, OK, REPAIR, snapshot

PLACES = (("n3", "n4"), ("n3", "n5"), ("n2", "n3"))
NO = Result(Outcome.SUCCESS, code=0, said="false")
YES = Result(Outcome.SUCCESS, code=0, said="true")
BROKEN = Result(Outcome.ERROR, "exit code 1", 1)
ADD = AddEntry("unreachable", "r640", "127.0.0.3", "S3")


def policy(*steps: RepairStep, success: str = "", **members: Any) -> Policy:
    operation = Operation(
        "unreachable", steps or (RepairStep("try-1"),), "check", Seconds(30), success
    )
    return replace(QUICK, procedures=Procedures((Procedure(("r640",), (operation,)),), **members))


class Mender(Rig):
    """A coordinator over six nodes, the first of them the master; n3 is to be repaired."""

    def __init__(
        self,
        policy: Policy,
        heals: str = "try-1",
        instances: list[Instance] | None = None,
        **members: Any,
    ) -> None:
        super().__init__(fleet(), instances or mirrored(*PLACES), policy, **members)
        self.heals = heals
        self.healed = False
        self.fates: dict[str, list[Result]] = {}
        self.agents.tells = self.tell

    def tell(self, intent: Intent) -> Result:
        assert isinstance(intent.action, RunCommand)
        command = intent.action.command
        if fates := self.fates.get(command):
            return fates.pop(0)
        if command == "check":
            return YES if self.healed else NO
        self.healed = self.healed or command == self.heals
        return Result(Outcome.SUCCESS, "exit code 0", 0)

    def ask(self, asked: Asked) -> str:
        identity = self.wish(asked)
        self.tick()
        return self.store.answer(identity) or ""

    def add(self, asked: AddEntry = ADD) -> None:
        assert self.ask(asked) == ""

    @property
    def entry(self) -> Entry:
        return self.ledger.queue.entries[-1]

    def until(self, status: EntryStatus, rounds: int = 60) -> Entry:
        """Hold rounds until the entry has come so far and nothing is under way for it."""
        for _ in range(rounds):
            self.tick()
            if self.entry.status is status and not self.ledger.intents:
                return self.entry
        raise AssertionError(f"never {status}: {self.entry}")

    def commands(self) -> list[str]:
        """What has run, in order, but for the checks."""
        ran = sorted(self.agents.ran.values(), key=lambda row: row[0])
        names = [i.action.command for _, _, i in ran if isinstance(i.action, RunCommand)]
        return [name for name in names if name != "check"]

    def whole(self) -> list[Reason]:
        """What the next round holds, with the reasons among their details."""
        return [one for held in self.tick().decision.held for one in whole(held.why)]

    def details(self, kind: AnyKind) -> dict[str, Detail]:
        """The details of the one reason of this kind that the next round holds."""
        return details(self.tick().decision.held, kind)

    def whys(self, rounds: int = 1) -> list[tuple[AnyKind, str]]:
        """What the last of these rounds holds, by kind and subject."""
        return [kinds(self.tick().decision.held) for _ in range(rounds)][-1]

    def node(self, name: str = "n3") -> Node:
        return self.cluster.snapshot().nodes[name]


def test_the_first_step_does_not_heal_and_the_second_does() -> None:
    rig = Mender(
        policy(RepairStep("try-1", watch_seconds=Seconds(60)), RepairStep("try-2")), "try-2"
    )
    rig.add()
    entry = rig.until(EntryStatus.SUCCEEDED)
    assert rig.commands() == ["try-1", "try-2"]
    assert (entry.step, entry.why) == (1, "the machine is healthy")


def test_an_entry_from_before_is_its_nodes_however_its_address_was_spelt_then() -> None:
    rig = Mender(policy(RepairStep("try-1", need_drain=True)))
    rig.cluster.put(replace(rig.node(), address="2001:db8::3"))
    rig.add(replace(ADD, address="n3"))
    queue = rig.ledger.queue
    old = replace(queue, entries=(replace(rig.entry, address="2001:DB8:0:0::3"),))
    rig.store.save(replace(rig.ledger, queue=old))
    rig.crash()
    rig.until(EntryStatus.SUCCEEDED)
    drains = [job for job in rig.cluster.jobs.values() if isinstance(job.action, Drain)]
    assert [job.action.node for job in drains] == ["n3"]  # type: ignore[union-attr]


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


def test_a_machine_that_is_healthy_is_not_repaired() -> None:
    rig = Mender(policy(success="tell"))
    rig.healed = True
    rig.add()
    rig.until(EntryStatus.SUCCEEDED)
    assert rig.commands() == ["tell"]


@pytest.mark.parametrize("why", [INTERRUPTED, UNREAD])
def test_a_check_that_was_cut_off_has_not_said_no(why: str) -> None:
    """The master's own agent was killed; what has run out of time has said no, as in CKE."""
    rig = Mender(policy())
    rig.healed = True
    rig.fates["check"] = [Result(Outcome.ERROR, f"{why}; how far it came is unknown")]
    rig.add()
    rig.tick()
    assert why in rig.entry.unanswered
    rig.until(EntryStatus.SUCCEEDED)
    assert rig.commands() == []
    rig = Mender(policy())
    rig.fates["check"] = [Result(Outcome.ERROR, "timed out after 30 s")]
    rig.add()
    rig.tick()
    assert (rig.entry.checked_at > 0, rig.entry.unanswered) == (True, "")


def test_a_success_command_that_fails_fails_the_entry() -> None:
    rig = Mender(policy(success="tell"))
    rig.fates["tell"] = [BROKEN]
    rig.add()
    assert rig.until(EntryStatus.FAILED).why == "its success command failed: exit code 1"


def test_a_repair_command_that_does_nothing_fails_the_entry() -> None:
    rig = Mender(policy(), heals="nothing")
    rig.add()
    assert rig.until(EntryStatus.FAILED).why == "the machine is not healthy after the last step"


def test_a_health_check_counts_only_by_exit_code_0_and_the_word_true() -> None:
    rig = Mender(policy(), heals="nothing")
    odd = [replace(YES, said="True"), replace(YES, code=None), replace(BROKEN, said="true")]
    rig.fates["check"] = [*odd, replace(YES, said="true\ntrue"), replace(YES, said="")]
    rig.add()
    rig.until(EntryStatus.FAILED)


def test_a_command_that_fails_is_run_again_as_often_as_configured() -> None:
    rig = Mender(policy(RepairStep("try-1", command_retries=2, command_interval=Seconds(30))))
    rig.fates["try-1"] = [BROKEN, BROKEN]
    rig.add()
    rig.until(EntryStatus.SUCCEEDED)
    assert rig.commands() == ["try-1"] * 3
    rig = Mender(policy(RepairStep("try-1", command_retries=1), RepairStep("try-2")))
    rig.fates["try-1"] = [BROKEN] * 9
    rig.add()
    assert rig.until(EntryStatus.FAILED).why == "try-1 failed: exit code 1"
    assert rig.commands() == ["try-1"] * 2, "later steps are never tried"


@pytest.mark.parametrize("fate", [Result(Outcome.ERROR, "the agent ended while it ran")])
def test_a_command_that_was_cut_off_is_never_run_again(fate: Result) -> None:
    rig = Mender(policy(RepairStep("try-1", command_retries=5)))
    rig.fates["try-1"] = [fate]
    rig.add()
    assert rig.until(EntryStatus.FAILED).why == "try-1 failed: the agent ended while it ran"
    assert rig.commands() == ["try-1"]


def test_a_command_whose_agent_has_forgotten_it_is_never_run_again() -> None:
    rig = Mender(policy(RepairStep("try-1", command_retries=5)))
    rig.agents.takes = 100_000
    rig.add()
    while not rig.entry.processing:
        rig.tick(60)
    rig.agents.forgets = True
    assert "how far it came is unknown" in rig.until(EntryStatus.FAILED).why
    assert rig.commands() == ["try-1"]


@pytest.mark.parametrize("at", range(12))
def test_nothing_runs_twice_and_nothing_stays_wherever_maintd_stops(at: int) -> None:
    """Answers are lost too: what was ordered then is found by asking."""
    rig = Mender(policy(RepairStep("try-1", need_drain=True), success="tell"))
    rig.agents.loses = lambda _: True
    rig.add()
    for n in range(80):
        if n >= at and n % 3 == at % 3:
            rig.crash()
        rig.tick()
        if rig.entry.status.finished and not rig.ledger.intents and not rig.node().drained:
            break
    assert rig.entry.status is EntryStatus.SUCCEEDED
    assert rig.commands() == ["try-1", "tell"]
    assert rig.jobs().count(rig.jobs()[0]) == 1


def test_need_drain_empties_the_node_and_gives_it_back() -> None:
    rig = Mender(policy(RepairStep("try-1", need_drain=True)))
    empty: list[bool] = []

    def tell(intent: Intent) -> Result:
        if intent.purpose.entry.endswith(":repair"):
            there = rig.cluster.snapshot().instances.values()
            empty.append(rig.node().drained and "n3" not in {i.primary for i in there})
        return rig.tell(intent)

    rig.agents.tells = tell
    rig.add()
    rig.until(EntryStatus.SUCCEEDED)
    for _ in range(5):
        rig.tick()
    assert empty == [True]
    assert not rig.node().drained
    assert rig.jobs()[0].startswith("Drain")
    assert rig.jobs()[-1] == "Restore(node='n3', drained=False)"


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
    for _ in range(10):
        rig.tick()
    assert not rig.node().drained, "it is given back"
    assert len([one for one in rig.commands() if one == "try-1"]) == 1


def test_a_drain_of_somebody_else_outlives_the_repair() -> None:
    rig = Mender(policy(RepairStep("try-1", need_drain=True)))
    rig.cluster.world.nodes["n3"] = replace(rig.node(), drained=True)
    rig.add()
    rig.until(EntryStatus.SUCCEEDED)
    for _ in range(5):
        rig.tick()
    assert rig.node().drained
    assert not [job for job in rig.jobs() if job.startswith(("Drain", "Restore"))]


def test_without_need_drain_what_runs_there_stays() -> None:
    rig = Mender(policy())
    rig.add()
    rig.until(EntryStatus.SUCCEEDED)
    assert rig.jobs() == []


def test_what_cannot_be_emptied_backs_off_and_stays_in_service() -> None:
    """CKE's workload with a budget of zero; `reset-backoff` has it tried again."""
    rig = Mender(policy(RepairStep("try-1", need_drain=True)))
    stays = Instance("stays", "n3", template="plain")
    rig.cluster.world.put(stays)
    rig.add()
    for _ in range(6):
        rig.tick()
    assert (rig.entry.status, rig.entry.step_status) == (EntryStatus.PROCESSING, StepStatus.WAITING)
    assert (rig.entry.backoffs, rig.entry.backoff_until > rig.now()) == (1, True)
    assert (Kind.BACKS_OFF, "") in rig.whys()
    assert rig.jobs() == []
    rig.cluster.world.drop("stays")
    assert rig.ask(ResetBackOff()) == ""
    assert (rig.entry.backoffs, rig.entry.backoff_until) == (0, 0)
    rig.until(EntryStatus.SUCCEEDED)


def test_a_disabled_queue_repairs_nothing_and_still_forgets() -> None:
    rig = Mender(policy())
    assert rig.ask(SetQueue(enabled=False)) == ""
    rig.add()
    assert (Kind.QUEUE_DISABLED, "") in rig.whys(4)
    assert rig.commands() == []
    rig.ask(DeleteEntries(finished=False))
    assert rig.ledger.queue.entries == ()
    assert rig.ask(SetQueue(enabled=True)) == ""
    rig.add()
    assert rig.entry.index == 1
    rig.until(EntryStatus.SUCCEEDED)
    rig.ask(DeleteEntries(finished=True))
    assert rig.ledger.queue.entries == ()


def test_a_disabled_queue_gives_up_the_drain_that_is_under_way() -> None:
    rig = Mender(policy(RepairStep("try-1", need_drain=True)))
    rig.add()
    while not rig.node().drained:
        rig.tick()
    rig.ask(SetQueue(enabled=False))
    for _ in range(20):
        rig.tick()
    assert not rig.node().drained
    assert rig.entry.backoffs == 1
    assert rig.commands() == []


def test_a_deleted_entry_leaves_its_node_as_it_was() -> None:
    rig = Mender(
        policy(RepairStep("try-1", need_drain=True, watch_seconds=Seconds(600))), "nothing"
    )
    rig.add()
    while not rig.commands():
        rig.tick()
    assert rig.ask(DeleteEntry(0)) == ""
    for _ in range(10):
        rig.tick()
    assert rig.ledger.queue.entries == ()
    assert not rig.node().drained
    assert rig.ask(DeleteEntry(0)) == "there is no queue entry 0"


@pytest.mark.parametrize(
    ("asked", "why"),
    [
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
    ],
)
def test_what_is_refused_when_it_is_entered(asked: AddEntry, why: str) -> None:
    rig = Mender(policy())
    rig.add()
    assert rig.ask(asked) == why
    assert len(rig.ledger.queue.entries) == 1


def test_without_procedures_there_is_none_to_be_named() -> None:
    rig = Mender(replace(QUICK, procedures=Procedures()))
    assert rig.ask(ADD) == "no repair procedure is configured for machines of 'r640'"


def test_a_machine_outside_of_the_cluster_is_repaired_without_a_drain() -> None:
    rig = Mender(policy(RepairStep("try-1", need_drain=True)))
    rig.add(replace(ADD, address="10.9.9.9"))
    rig.until(EntryStatus.SUCCEEDED)
    assert (rig.commands(), rig.jobs()) == (["try-1"], [])


def test_a_machine_under_an_incidents_repair_is_left_alone() -> None:
    rig = Mender(policy())
    rig.agents.says["n3"] = EVACUATE
    rig.cluster.takes = lambda _: 10_000.0
    while not rig.ledger.incidents or rig.status("n3") is Status.NOTED:
        rig.tick()
    rig.add()
    assert (Kind.INCIDENT_THERE, "n3") in rig.whys(4)
    assert rig.commands() == []


def test_a_machine_whose_failed_repair_is_the_past_is_repaired() -> None:
    """Its node says Ok; before, the tag that nobody had removed held up the entry for ever."""
    rig = Mender(policy())
    rig.cluster.fails = lambda action: isinstance(action, Drain)
    rig.agents.says["n3"] = EVACUATE
    rig.settle()
    assert rig.status("n3") is Status.FAILED
    rig.add()
    rig.tick()
    assert rig.entry.status is EntryStatus.QUEUED
    rig.agents.says["n3"] = OK
    assert rig.until(EntryStatus.SUCCEEDED).step == 0


def test_an_incident_waits_for_the_entry_that_has_its_node() -> None:
    rig = Mender(policy(RepairStep("try-1", watch_seconds=Seconds(600))), heals="nothing")
    rig.add()
    while not rig.commands():
        rig.tick()
    rig.agents.says["n3"] = EVACUATE
    assert (Kind.CLAIMED, "n3") in rig.whys(4)
    assert (rig.status("n3"), rig.jobs()) == (Status.NOTED, [])


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


def test_a_paused_node_is_left_alone() -> None:
    rig = Mender(policy())
    rig.ask(Pause(Scope.NODE, "n3", "ours"))
    rig.add()
    assert (Kind.PAUSED, "n3") in rig.whys(4)
    assert rig.commands() == []


def test_a_pause_of_the_cluster_is_one_of_machines_that_are_no_nodes_too() -> None:
    rig = Mender(policy())
    rig.ask(Pause(Scope.CLUSTER, "", "night"))
    rig.add(replace(ADD, address="10.9.9.9"))
    assert rig.whys(4) == [(Kind.ENTRY_WAITS, "0"), (Kind.PAUSED, "")]
    assert rig.commands() == []
    assert rig.ask(Resume(Scope.CLUSTER, "")) == ""
    rig.until(EntryStatus.SUCCEEDED)


def test_so_is_its_tag() -> None:
    rig = Mender(policy())
    rig.cluster.world.tags |= {PAUSE_TAG}
    rig.add(replace(ADD, address="10.9.9.9"))
    assert rig.whys(4) == [(Kind.ENTRY_WAITS, "0"), (Kind.TAGGED, "")]
    assert rig.commands() == []


def test_a_machine_in_a_window_is_left_alone_by_the_queue() -> None:
    rig = Mender(policy())
    window = Window((Machine("n3"),), Unavailability(Nanoseconds(rig.now() * 10**6)))
    rig.cluster.takes = lambda _: 10_000.0
    assert rig.ask(SetSchedule(Schedule((window,)))) == ""
    rig.tick()
    rig.add()
    assert (Kind.IN_WINDOW, "n3") in rig.whys(4)
    assert rig.commands() == []


def test_nothing_is_ordered_of_a_master_whose_agent_is_in_doubt() -> None:
    rig = Mender(policy())
    rig.add()
    rig.agents.says["n1"] = None
    assert (Kind.AGENT_IN_DOUBT, "n1") in rig.whys(8)
    rig.agents.says["n1"] = OK
    rig.until(EntryStatus.SUCCEEDED)


def test_what_the_agent_refuses_is_tried_again_and_told() -> None:
    rig = Mender(policy())
    rig.agents.refuses = lambda intent: intent.purpose.entry.endswith(":repair")
    rig.add()
    assert (Kind.COMMAND_SOON, "") in rig.whys(6)
    assert rig.entry.step_status is StepStatus.WAITING
    rig.agents.refuses = lambda _: False
    rig.until(EntryStatus.SUCCEEDED)


def test_two_machines_are_repaired_one_after_the_other() -> None:
    rig = Mender(policy(RepairStep("try-1", watch_seconds=Seconds(30))))
    rig.add(replace(ADD, serial=""))
    rig.add(replace(ADD, address="n4", serial=""))
    for _ in range(40):
        rig.tick()
        assert sum(e.processing for e in rig.ledger.queue.entries) <= 1
    assert {e.status for e in rig.ledger.queue.entries} == {EntryStatus.SUCCEEDED}


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0001-01-01T00:00:00Z"),
        (951_782_400_000, "2000-02-29T00:00:00Z"),
        (1_078_012_799_999, "2004-02-28T23:59:59Z"),
        (1_609_459_199_000, "2020-12-31T23:59:59Z"),
        (4_107_542_400_000, "2100-03-01T00:00:00Z"),
    ],
)
def test_times_are_written_as_rfc_3339(ms: int, text: str) -> None:
    assert rfc3339(Ms(ms)) == text


def test_an_entry_is_told_in_ckes_words() -> None:
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
    unknown = replace(entry, unanswered="exit code 75")
    assert entry_json(unknown, snapshot())["why"] == "its health is unknown: exit code 75"
    assert entry_json(replace(unknown, why="failed"), snapshot())["why"] == "failed"


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
    rig = many(150, policy(RepairStep("try-1")))
    rig.ask(SetQueue(enabled=False))
    assert asked(rig) == 64
    rig.tick()
    rig.tick()
    assert asked(rig) == 3 * 64
    rig.tick()
    assert all(entry.checked_at for entry in rig.ledger.queue.entries)
    assert rig.agents.refused == 0


def test_an_agent_that_says_nothing_of_checks_is_asked_for_one_at_a_time() -> None:
    rig = many(5, policy(RepairStep("try-1")))
    rig.agents.checks = rig.agents.lists = ()
    rig.ask(SetQueue(enabled=False))
    for _ in range(5):
        rig.tick()
    assert all(entry.checked_at for entry in rig.ledger.queue.entries)
    assert (rig.agents.refused, asked(rig)) == (0, 6)


def test_what_an_agent_refuses_as_it_is_busy_is_asked_later() -> None:
    """An older one put back, or one whose settings have changed since its report."""
    rig = many(4, policy(RepairStep("try-1")))
    rig.agents.lists = ()
    rig.ask(SetQueue(enabled=False))
    assert (asked(rig), rig.agents.refused) == (1, 3)
    rig.agents.checks = ()
    for _ in range(5):
        rig.tick()
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
    for _ in range(6):
        rig.tick()
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
