"""Whose a drained node is when its entry ends."""

from dataclasses import dataclass, field, replace

import pytest

from nodeagent.maintd.queue.strategy import Do
from nodeagent.model.action import Drain
from nodeagent.model.ledger import Intent, Outcome, Result
from nodeagent.model.purpose import OfEntry
from nodeagent.model.queue import EntryStatus, Procedures, RepairStep
from nodeagent.model.reason import Kind
from nodeagent.model.snapshot import Snapshot
from nodeagent.model.units import Nanoseconds
from nodeagent.model.window import Machine as Named
from nodeagent.model.window import Schedule, Unavailability, Window
from nodeagent.model.wish import SetSchedule
from tests.maintd.decided import details
from tests.maintd.queue.news import DRAINING, WAITING, folded
from tests.maintd.queue.test_entries import Mender, policy
from tests.maintd.queue.test_strategy import DRAINS, EMPTY, HERE, begun, did, entry, turns, whys
from tests.maintd.rig import Between
from tests.maintd.world import NOW


def test_a_node_that_could_not_be_put_back_is_tried_again_in_a_while() -> None:
    one = begun(backoffs=1, backoff_until=NOW + 9000, drained=True, restore_after=NOW + 5000)
    done = turns(one, machine=EMPTY, procedures=DRAINS)
    assert did(done) == []
    assert details((why for _, why in done.held), Kind.RETURNS_SOON, "n4")["left"] == 5000
    assert did(turns(replace(one, restore_after=NOW), machine=EMPTY, procedures=DRAINS)) == [
        (Do.UNDRAIN, 0)
    ]


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
    for _ in range(12):
        rig.tick(60)
    assert rig.entry.status is EntryStatus.SUCCEEDED
    assert rig.node().drained
    assert not [job for job in rig.jobs() if job.startswith("Restore")]


def test_so_does_one_that_a_window_was_to_drain() -> None:
    there: list[Mender] = []
    rig = Mender(policy(), through=lambda c: Meddling(c, there))
    there.append(rig)
    window = Window((Named("n3"),), Unavailability(Nanoseconds(round(rig.time * 1e9))))
    rig.ask(SetSchedule(Schedule((window,))))
    for _ in range(4):
        rig.tick(60)
    assert not [job for job in rig.jobs() if job.startswith("Drain")]
    rig.ask(SetSchedule(Schedule()))
    for _ in range(4):
        rig.tick(60)
    assert rig.node().drained
    assert not [job for job in rig.jobs() if job.startswith("Restore")]
    assert rig.ledger.scheduled == ()


@pytest.mark.parametrize("fate", ["refused", "failed"])
def test_a_drain_that_was_none_is_not_ours_to_undo(fate: str) -> None:
    drain = Intent("1", OfEntry(0, "empty"), "n4", Drain("n4"), "7")
    one = begun(at=DRAINING, drained=True)
    refused = {"absent": {"1": "full"}} if fate == "refused" else {}
    failed = {"results": {"1": Result(Outcome.ERROR, "no")}} if fate == "failed" else {}
    (after,) = folded(one, drain, **refused, **failed).queue.entries
    assert (after.drained, after.step_status, after.backoffs) == (False, WAITING, 1)
    over = replace(one, status=EntryStatus.FAILED)
    (after,) = folded(over, drain, **refused, **failed).queue.entries
    assert not after.drained, "though it is over by now"
    assert (after.step_status, after.backoffs) == (DRAINING, 0)


def test_what_runs_for_an_entry_that_is_deleted_is_waited_for() -> None:
    drain = Intent("1", OfEntry(0, "empty"), "n4", Drain("n4"), "7")
    one = begun(at=DRAINING, drained=True, deleted=True)
    assert folded(one, drain, results={"1": Result(Outcome.RUNNING)}).intents == (drain,)
    assert not folded(one, drain, results={"1": Result(Outcome.LOST)}).intents


def test_what_was_begun_and_has_no_procedure_any_more_gives_its_node_back() -> None:
    one = begun(at=DRAINING, drained=True)
    none = Procedures()
    (turn,) = turns(one, machine=EMPTY, procedures=none).turns
    assert (turn.do, turn.entry.status) == (Do.FINISH, EntryStatus.FAILED)
    assert turn.entry.why == "no repair procedure is configured for machines of 'type1' (any more)"
    assert did(turns(turn.entry, machine=EMPTY, procedures=none)) == [(Do.UNDRAIN, 0)]
    running = replace(EMPTY, running=True)
    assert did(turns(one, machine=running, procedures=none)) == [], "its command ends first"
    assert did(turns(entry(), procedures=none)) == [], "what is queued waits for one"


@pytest.mark.parametrize("over", [{"status": EntryStatus.FAILED}, {"deleted": True}])
def test_a_node_is_not_put_back_under_the_next_entry_about_it(over: dict[str, object]) -> None:
    """Drained and empty as it is, the next would run its command at once, and not drain it."""
    old, new = replace(begun(0, drained=True), **over), entry(1)  # type: ignore[arg-type]
    done = turns(old, new, machine=EMPTY, procedures=DRAINS)
    assert did(done) == [(Do.UNDRAIN, 0)]
    assert whys(done) == [(Kind.SAME_MACHINE, "")]
    moving = {0: replace(EMPTY, moving=True), 1: EMPTY}
    assert did(turns(old, new, machines=moving, procedures=DRAINS)) == []
    back = {0: HERE, 1: HERE}
    assert (Do.DRAIN, 1) in did(turns(old, new, machines=back, procedures=DRAINS))
