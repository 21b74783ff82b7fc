"""The repair queue in whole rounds: a simulated cluster, agents that run its commands."""

import json
from dataclasses import replace

import pytest

from nodeagent.maintd.planning.times import rfc3339
from nodeagent.maintd.queue.entries import add, delete_all, entry_json
from nodeagent.model.action import RunCommand
from nodeagent.model.ledger import Intent, Ledger, Result
from nodeagent.model.queue import Entry, EntryStatus, Queue, RepairStep
from nodeagent.model.snapshot import Snapshot
from nodeagent.model.units import Ms
from nodeagent.model.wish import AddEntry, DeleteEntry
from tests.maintd.http.routes import DOCUMENT
from tests.maintd.queue.mender import ADD, Mender, policy
from tests.maintd.rig import fleet
from tests.maintd.rounds import ticks
from tests.maintd.world import NOW, snapshot


def test_the_commands_run_on_the_masters_own_agent_with_the_entry_on_stdin() -> None:
    rig = Mender(policy())
    rig.add()
    rig.until(EntryStatus.SUCCEEDED)
    orders = [intent for _, _, intent in rig.agents.ran.values()]
    assert {intent.action.node for intent in orders} == {"n1"}  # type: ignore[union-attr]
    (repair,) = (i for i in orders if i.purpose.text == "queue:0:repair")
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
        if intent.purpose.text.endswith(":repair"):
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
    other = replace(ADD, address="10.9.9.9", serial="")
    assert isinstance(entered(ledger, replace(other, serial="S4")), Ledger)
    nameless = entered(Ledger(), replace(ADD, serial=""))
    assert isinstance(nameless, Ledger)
    assert isinstance(entered(nameless, other), Ledger), "no serial is nobody's"
    (entry,) = ledger.queue.entries
    for over in (replace(entry, status=EntryStatus.FAILED), replace(entry, deleted=True)):
        after = entered(replace(ledger, queue=ledger.queue.put(over)), ADD)
        assert isinstance(after, Ledger), over
        assert [one.index for one in after.queue.entries] == [0, 1], over


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


@pytest.mark.parametrize("does", ["check", "repair"])
def test_what_was_ordered_of_a_master_that_is_offline_now_is_not_waited_for(does: str) -> None:
    """The new master's agent is asked about the health; how far a repair came nobody can tell."""
    rig = Mender(policy())
    rig.add()
    while not any(i.purpose.text == f"queue:0:{does}" and i.job for i in rig.ledger.intents):
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
