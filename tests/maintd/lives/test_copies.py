"""Master failovers over one simulated cluster whose master candidates keep copies of the ledger.

The scenarios are numbered as in the list of ADR 20. n1 (M), n2 (B) and n4 (C) are the candidates.
"""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from random import Random

import pytest

from nodeagent.errors import NotMaster
from nodeagent.maintd.copies import body as bodies
from nodeagent.maintd.copies.body import Load, pack, unpack
from nodeagent.maintd.engine import memory
from nodeagent.maintd.engine import round as rounds
from nodeagent.maintd.engine.keeping import Keeping
from nodeagent.maintd.engine.memory import Copies
from nodeagent.maintd.engine.takeover import Takeover
from nodeagent.maintd.ledger import other_master
from nodeagent.maintd.notices import needs_you
from nodeagent.model.action import Drain, Scope
from nodeagent.model.copies import ETCD_TAG, Trouble
from nodeagent.model.event import Event
from nodeagent.model.incident import Status
from nodeagent.model.ledger import PAUSE_TAG, Ledger, Policy
from nodeagent.model.offer import Reply
from nodeagent.model.queue import EntryStatus
from nodeagent.model.reason import CopyKind, Kind, because
from nodeagent.model.snapshot import Snapshot
from nodeagent.model.units import Ms, Seconds
from nodeagent.model.window import Machine
from nodeagent.model.wish import AddSeries, AnswerOffers, Pause, Resume, SetQueue, TrustLedger
from nodeagent.store.contract import Fenced, Revision
from nodeagent.store.entities import Changes, digest, sum_of
from nodeagent.store.sqlite import MEMORY, SqliteStore
from simulation.cluster import Job
from tests.maintd import inline
from tests.maintd.copies.candidates import OLD, SILENT, Candidate, Candidates
from tests.maintd.decided import details
from tests.maintd.planning.test_claims import HOUR, WATCHES, Shared, policy
from tests.maintd.world import EVACUATE

M, B, C, D, E = "n1", "n2", "n4", "n5", "n6"


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_SPREADS", 0.2)
    monkeypatch.setattr(rounds, "_COPIED", 0.2)


class Candidacy(Shared):
    """One cluster, and a maintd with its own disk on each node that becomes the master."""

    def __init__(self, candidates: str = "n1 n2 n4", rules: Policy | None = None) -> None:
        super().__init__(rules or policy(WATCHES), heals="nothing")
        self.elect(*candidates.split())
        uuids = {node.uuid: name for name, node in self.cluster.nodes.items()}
        self.uuid = {name: uuid for uuid, name in uuids.items()}
        self.candidates = Candidates(list(uuids))
        self.copies = self._copies
        self.disks = {name: SqliteStore(MEMORY) for name in self.cluster.nodes}
        self.wake("n1")

    def _copies(self, store: SqliteStore) -> Copies:
        async def pause(_: float) -> None:
            await asyncio.sleep(0.001)

        return Copies(
            store,
            Keeping(self.candidates, self.now, pause),
            Takeover(self.candidates, self.now, 2.0),
        )

    def at_node(self, name: str) -> Candidate:
        return self.candidates[self.uuid[name]]

    def elect(self, *names: str) -> None:
        """Have these as master candidates."""
        for name, node in self.cluster.nodes.items():
            self.cluster.put(replace(node, candidate=name in names))

    def spread(self) -> None:
        """Let the copies be handed over to all who take them."""
        inline.run(self._spread())

    async def _spread(self) -> None:
        for _ in range(100):
            await asyncio.sleep(0.002)
            state = self.engine.memory.state
            behind = {one.node for one in state.on if not one.newest}
            if not state.epoch or all(self.at_node(name).trouble for name in behind):
                return

    def tick(self, seconds: float = 10.0) -> rounds.Round:
        done = super().tick(seconds)
        self.spread()
        return done

    def sleep(self) -> None:
        """The maintd of now dies, wherever it is."""
        self.engine.memory.close()

    def wake(self, name: str) -> None:
        """Start maintd on this node, with its disk as it is."""
        self.me, self.store = name, self.disks[name]
        self.crash()

    def fail_over(
        self, name: str, *, dead: bool = True, overwritten: Snapshot | None = None
    ) -> None:
        """Make this node the master; of the old one nothing is left to hear, unless it lives.

        What Ganeti has changed since it was as `overwritten` is lost.
        """
        if dead:
            self.at_node(self.me).trouble = SILENT
        self.sleep()
        self.cluster.set_master(name, overwritten)
        self.agents.master = name
        self.wake(name)

    def restore(self, ledger: Ledger, at: Revision) -> None:
        """The master's disk goes back to this ledger, while maintd is not running."""
        disk = self.disks[self.me] = SqliteStore(MEMORY)
        disk.begin(at.epoch, ledger, (), {})
        while disk.revision.number < at.number:
            disk.save(ledger)
        assert disk.revision == at

    def kinds(self) -> set[object]:
        return {held.why.kind for held in self.tick().decision.held}

    def told(self, kind: str) -> list[Event]:
        return [event for event in self.store.history() if event.kind == kind]

    @property
    def doubtful(self) -> Trouble | None:
        uncertain = self.engine.memory.uncertain
        return uncertain.trouble if uncertain else None


def reopened(disk: SqliteStore) -> SqliteStore:
    """The same disk, as a new process reads it."""
    fresh = SqliteStore(MEMORY)
    disk._db.backup(fresh._db)
    return fresh


@pytest.fixture
def rig() -> Iterator[Candidacy]:
    one = Candidacy()
    one.tick()
    assert one.store.revision.epoch == 1, "the first use"
    yield one
    one.sleep()


def test_01_after_a_failover_all_is_as_before(rig: Candidacy) -> None:
    owned = next(iter(rig.cluster.instances.values()))
    rig.cluster.put(replace(owned, primary="n5", tags=frozenset({"maintd:owner:db"})))
    rig.plan("n5", ahead=24 * HOUR)
    (offer,) = (one for one in rig.ledger.offers if one.instances)
    assert rig.ask(AnswerOffers((offer.id,), Reply.DECLINE, Ms(0), reason="a release")) == ""
    weekly = AddSeries((Machine("n6"),), (6,), 120, "Europe/Zurich", Seconds(2 * HOUR))
    assert rig.ask(weekly) == ""
    assert rig.ask(Pause(Scope.NODE, "n6", why="new disks")) == ""
    rig.add()
    rig.until_true(lambda: rig.commands() == ["try-1"])
    before = rig.ledger
    assert before.schedule.windows
    assert before.series
    assert [one.answer.reason for one in before.offers if one.answer] == ["a release"]
    history = rig.store.history()
    rig.fail_over(B)
    rig.tick()
    after = rig.ledger
    assert rig.store.revision.epoch == 2
    assert not after.away
    assert after.schedule == before.schedule
    assert after.scheduled == before.scheduled
    assert after.holds == before.holds
    assert after.series == before.series
    assert after.offers == before.offers
    assert after.queue.entries[0].index == before.queue.entries[0].index
    assert after.queue.entries[0].status is EntryStatus.PROCESSING
    assert rig.store.history()[: len(history)] == history
    assert str(rig.told("ledger-taken")[0].details["whose"]).startswith("the copy on n")
    rig.tick()
    assert Kind.OUTDATED not in rig.kinds()
    assert rig.commands() == ["try-1"], "it is not begun again"


def test_01_an_incidents_original_survives(rig: Candidacy) -> None:
    rig.cluster.takes = lambda _: 10_000.0
    rig.agents.says["n5"] = EVACUATE
    rig.until_true(lambda: bool(rig.ledger.incidents) and rig.status("n5") is Status.PENDING)
    before = rig.incident("n5")
    rig.fail_over(B)
    rig.agents.says["n5"] = None
    rig.tick()
    assert rig.incident("n5").diagnosis == before.diagnosis == EVACUATE
    assert rig.incident("n5").id == before.id


def test_01_and_back_again(rig: Candidacy) -> None:
    rig.plan("n5", ahead=24 * HOUR)
    rig.fail_over(B)
    rig.tick()
    assert rig.ask(Pause(Scope.NODE, "n6", why="while B was the master")) == ""
    rig.at_node(M).trouble = None
    rig.tick()
    rig.fail_over(M, dead=False)
    rig.tick()
    assert rig.store.revision.epoch == 3
    assert rig.ledger.schedule.windows
    assert [hold.why for hold in rig.ledger.holds] == ["while B was the master"]
    assert not rig.ledger.away


def test_02_a_job_that_no_copy_knows_shows_a_gap(rig: Candidacy) -> None:
    rig.plan("n5", ahead=24 * HOUR)
    rig.cluster.takes = lambda _: 10_000.0
    for name in (M, B, C):
        rig.at_node(name).trouble = SILENT
    rig.agents.says["n3"] = EVACUATE
    rig.until_true(lambda: any("Drain" in job for job in rig.jobs()))
    for name in (B, C):
        rig.at_node(name).trouble = None
    rig.fail_over(B)
    rig.tick()
    assert rig.ledger.away
    assert rig.ledger.schedule.windows, "a majority's copy is there, and waits"
    assert Kind.OUTDATED in rig.kinds()


def test_03_a_request_is_there_once_a_majority_has_it(rig: Candidacy) -> None:
    for name in (B, C):
        rig.at_node(name).trouble = SILENT
    assert rig.ask(SetQueue(enabled=False)) == ""
    assert not inline.run(rig.engine.memory.safe(0.01)), "kept on this node only, so it is said"
    rig.at_node(C).trouble = None
    rig.tick()
    assert inline.run(rig.engine.memory.safe(1))
    rig.at_node(B).trouble = None
    rig.fail_over(B)
    rig.tick()
    assert not rig.ledger.queue.enabled


def test_04_an_order_waits_for_a_majority_and_is_given_once(rig: Candidacy) -> None:
    for name in (B, C):
        rig.at_node(name).trouble = SILENT
    rig.add()
    for _ in range(3):
        rig.tick()
    assert rig.commands() == []
    assert CopyKind.NOT_COPIED in {h.why.kind for h in rig.tick(300).decision.held}
    for _ in range(5):
        rig.tick(30)
    assert len(rig.told("dropped")) <= 1, "not a line for each try"
    rig.at_node(C).trouble = None
    rig.until_true(lambda: rig.commands() == ["try-1"])
    rig.at_node(B).trouble = None
    rig.fail_over(B)
    for _ in range(3):
        rig.tick()
    assert rig.commands() == ["try-1"]
    assert all(times == 1 for times in rig.agents.asked.values())


def test_04_an_order_waits_longer_for_candidates_that_only_are_slow(rig: Candidacy) -> None:
    """Each round saves something new: else it would be put off for ever."""
    for name in (B, C):
        rig.at_node(name).slow = 0.3
    rig.add()
    rig.until_true(lambda: rig.commands() == ["try-1"])
    assert CopyKind.NOT_COPIED not in {h.why.kind for h in rig.tick().decision.held}


def test_05_a_week_old_copy_alone_is_not_taken(rig: Candidacy) -> None:
    rig.tick()
    rig.at_node(B).trouble = SILENT
    rig.plan("n5", ahead=24 * HOUR)
    rig.at_node(C).trouble = SILENT
    rig.fail_over(B)
    rig.at_node(B).trouble = None
    rig.tick()
    assert rig.doubtful is Trouble.FEW
    told = details(rig.tick().decision.held, CopyKind.FEW_COPIES)
    assert (told["count"], told["missing"]) == (3, ("n1: timed out", "n4: timed out"))
    assert str(told["whose"]).startswith("the copy on n2 of 2")
    rig.at_node(C).trouble = None
    rig.until_true(lambda: rig.doubtful is None)
    assert rig.ledger.schedule.windows, "by itself, once a majority answers"
    assert not rig.ledger.away


def test_06_of_two_candidates_one_waits_for_a_person() -> None:
    rig = Candidacy("n1 n2")
    rig.plan("n5", ahead=24 * HOUR)
    rig.fail_over(B)
    for _ in range(5):
        rig.tick()
    assert rig.doubtful is Trouble.FEW
    assert not rig.ledger.schedule.windows
    assert rig.ask(TrustLedger()) == ""
    rig.tick()
    assert rig.doubtful is None
    assert rig.ledger.schedule.windows
    assert rig.store.revision.epoch == 2
    rig.sleep()


def test_06_incidents_go_on_meanwhile() -> None:
    rig = Candidacy("n1 n2")
    rig.tick()
    rig.fail_over(B)
    rig.agents.says["n5"] = EVACUATE
    rig.until_true(lambda: rig.status("n5") is Status.COMPLETED)
    rig.at_node(M).trouble = None
    rig.until_true(lambda: rig.doubtful is None)
    rig.tick()
    assert rig.status("n5") is Status.COMPLETED, "found again by its tags and jobs"
    assert not rig.ledger.away, "its own jobs meanwhile are no gap"
    rig.sleep()


def test_07_the_old_master_that_still_believes_is_refused(rig: Candidacy) -> None:
    old = rig.engine
    rig.cluster.set_master(B)
    rig.agents.master = B
    rig.me, rig.store = B, rig.disks[B]
    rig.engine = rig._engine()
    rig.tick()
    rig.tick()
    rig.disks[M].save(replace(rig.disks[M].load(), last_series=7))
    inline.run(hears(old.memory))
    with pytest.raises(NotMaster, match="has promised epoch 2 of the ledger to another maintd"):
        inline.run(old.one_round())
    assert rig.at_node(C).newest.epoch == 2  # type: ignore[union-attr]
    old.memory.close()


async def hears(of: memory.Memory) -> None:
    """Wait until it has heard of a higher epoch."""
    with suppress(Fenced):
        while True:
            of.check()
            await asyncio.sleep(0.002)


def test_08_of_two_writers_of_one_epoch_neither_is_believed(rig: Candidacy) -> None:
    rig.tick()
    for name, other in ((B, "x"), (C, "y")):
        part = rig.at_node(name).copies[0][0]
        stamp = part.stamp._replace(epoch=4, writer=other)
        rig.at_node(name).copies.insert(0, [replace(part, stamp=stamp)])
    rig.fail_over(B)
    rig.tick()
    assert rig.doubtful is Trouble.CONFLICT
    assert CopyKind.TWO_WRITERS in rig.kinds()
    assert CopyKind.TWO_WRITERS in needs_you.YOURS, "a person is notified"


def test_09_a_restored_machine_does_not_go_on_with_yesterdays_ledger(rig: Candidacy) -> None:
    rig.plan("n5", ahead=24 * HOUR)
    yesterday = rig.store.load()
    image = rig.at_node(M).image()
    rig.plan()
    assert rig.ask(SetQueue(enabled=False)) == ""
    rig.sleep()
    rig.disks[M] = SqliteStore(MEMORY)
    rig.disks[M].begin(1, yesterday, (), {})
    rig.at_node(M).restore(image)
    rig.wake(M)
    rig.tick()
    assert not rig.ledger.queue.enabled
    assert not rig.ledger.schedule.windows
    assert rig.store.revision.epoch == 2


def restored_alone(rig: Candidacy) -> None:
    """M's machine goes back to before an accepted cancel; B and C do not answer at its start."""
    rig.plan("n5", ahead=24 * HOUR)
    for _ in range(3):
        rig.tick()
    yesterday, at, image = rig.store.load(), rig.store.revision, rig.at_node(M).image()
    rig.plan()
    assert inline.run(rig.engine.memory.kept(1)) == "", "a majority has the cancel"
    rig.sleep()
    rig.restore(yesterday, at)
    rig.at_node(M).restore(image)
    for name in (B, C):
        rig.at_node(name).trouble = SILENT
    rig.wake(M)
    rig.agents.says["n3"] = EVACUATE
    for _ in range(10):
        rig.tick()
    assert rig.doubtful is Trouble.FEW
    assert rig.store.revision.number > rig.at_node(B).newest.number  # type: ignore[union-attr]


def test_09_saves_made_in_doubt_do_not_make_an_old_ledger_the_newest(rig: Candidacy) -> None:
    restored_alone(rig)
    for name in (B, C):
        rig.at_node(name).trouble = None
    rig.until_true(lambda: rig.doubtful is None)
    assert not rig.ledger.schedule.windows, "the cancel that a majority has is in force"
    assert len(rig.told("ledger-taken")) == 1
    rig.until_true(lambda: rig.status("n3") is Status.COMPLETED)
    drains = [job for job in rig.jobs() if job == "Drain n3"]
    assert len(drains) <= 1, "its work in doubt is found again by tags and jobs"


def test_09_nor_do_they_after_a_restart(rig: Candidacy) -> None:
    restored_alone(rig)
    rig.sleep()
    rig.disks[M] = reopened(rig.disks[M])
    for name in (B, C):
        rig.at_node(name).trouble = None
    rig.wake(M)
    rig.tick()
    assert not rig.ledger.schedule.windows
    assert len(rig.told("ledger-taken")) == 1


def test_09_a_ledger_that_is_the_newest_goes_on_with_its_work_in_doubt(rig: Candidacy) -> None:
    rig.plan("n5", ahead=24 * HOUR)
    rig.sleep()
    for name in (B, C):
        rig.at_node(name).trouble = SILENT
    rig.wake(M)
    rig.agents.says["n3"] = EVACUATE
    rig.until_true(lambda: bool(rig.ledger.incidents) and rig.status("n3") is Status.PENDING)
    before = rig.incident("n3")
    for name in (B, C):
        rig.at_node(name).trouble = None
    rig.until_true(lambda: rig.doubtful is None)
    assert not rig.told("ledger-taken")
    assert rig.incident("n3").diagnosis == before.diagnosis
    assert rig.ledger.schedule.windows


def test_13_what_another_ledger_would_undo_is_refused_in_doubt(rig: Candidacy) -> None:
    for name in (M, C):
        rig.at_node(name).trouble = SILENT
    rig.fail_over(B)
    assert "waits for a majority of the 3 master" in rig.ask(SetQueue(enabled=False))
    assert rig.ask(Pause(Scope.NODE, "n6", why="new disks")) == "", "a tag outlives any ledger"
    rig.sleep()
    rig.wake(B)
    rig.tick()
    assert rig.doubtful is Trouble.FEW
    rig.at_node(C).trouble = None
    rig.until_true(lambda: rig.doubtful is None)
    assert rig.ledger.queue.enabled
    assert PAUSE_TAG in rig.cluster.nodes["n6"].tags


def test_10_a_restored_candidate_is_outvoted(rig: Candidacy) -> None:
    rig.tick()
    image = rig.at_node(C).image()
    rig.plan("n5", ahead=24 * HOUR)
    rig.sleep()
    rig.at_node(C).restore(image)
    rig.fail_over(C, dead=False)
    rig.tick()
    assert rig.ledger.schedule.windows


def test_11_a_cluster_restored_as_a_whole_is_consistent(rig: Candidacy) -> None:
    rig.plan("n5", ahead=24 * HOUR)
    ledger = rig.store.load()
    images = {name: rig.at_node(name).image() for name in (M, B, C)}
    rig.plan()
    rig.sleep()
    rig.disks[M] = SqliteStore(MEMORY)
    rig.disks[M].begin(1, ledger, (), {})
    for name, image in images.items():
        rig.at_node(name).restore(image)
    rig.wake(M)
    rig.tick()
    assert rig.ledger.schedule == ledger.schedule


def decide(rig: Candidacy) -> None:
    """Have a person take the copy that only former candidates have."""
    rig.until_true(lambda: rig.doubtful is Trouble.LOST)
    assert rig.ask(TrustLedger()) == ""
    rig.tick()
    assert rig.doubtful is None


def test_12_new_candidates_are_not_enough_without_the_old_ones(rig: Candidacy) -> None:
    rig.plan("n5", ahead=24 * HOUR)
    rig.sleep()
    rig.elect(M, D, E)
    rig.at_node(M).trouble = rig.at_node(C).trouble = SILENT
    rig.fail_over(D, dead=False)
    rig.tick()
    assert rig.doubtful is Trouble.FEW, "D, E and B answer, of which B has a copy"
    rig.at_node(C).trouble = None
    decide(rig)
    assert rig.ledger.schedule.windows
    rig.spread()
    assert {rig.at_node(name).newest for name in (D, E)} == {rig.at_node(D).newest}


def test_12_former_candidates_know_their_successors(rig: Candidacy) -> None:
    """They are the candidates again, and the master dies before its maintd has seen it."""
    rig.plan("n5", ahead=24 * HOUR)
    rig.elect(M, D, E)
    rig.tick()
    rig.plan()
    assert inline.run(rig.engine.memory.kept(1)) == "", "a majority has the cancel"
    rig.elect(M, B, C)
    rig.fail_over(B)
    decide(rig)
    assert not rig.ledger.schedule.windows, "the copies of D and E are found"


def test_12_former_candidates_wait_for_their_successors(rig: Candidacy) -> None:
    rig.elect(M, D, E)
    rig.tick()
    rig.plan("n5", ahead=24 * HOUR)
    assert inline.run(rig.engine.memory.kept(1)) == ""
    assert rig.at_node(B).newest < rig.at_node(D).newest, "B and C are out"  # type: ignore[operator]
    for name in (D, E):
        rig.at_node(name).trouble = SILENT
    rig.elect(M, B, C)
    rig.fail_over(B)
    rig.tick()
    assert rig.doubtful is Trouble.FEW, "what B and C keep is not all"
    rig.at_node(D).trouble = rig.at_node(E).trouble = None
    decide(rig)
    assert rig.ledger.schedule.windows


def test_12_a_chain_of_changes_is_followed(rig: Candidacy) -> None:
    rig.elect(D, E, "n3")
    rig.tick()
    rig.elect(M, "n3", D)
    rig.tick()
    rig.plan("n5", ahead=24 * HOUR)
    assert inline.run(rig.engine.memory.kept(1)) == ""
    rig.elect(M, B, C)
    rig.fail_over(B)
    decide(rig)
    assert rig.ledger.schedule.windows


def test_12_a_take_over_tells_the_candidates_of_then(rig: Candidacy) -> None:
    """Also without a save under the old set: the new epoch's first one names the new set."""
    rig.plan("n5", ahead=24 * HOUR)
    rig.elect(M, D, E)
    rig.fail_over(D, dead=False)
    rig.tick()
    rig.plan()
    assert inline.run(rig.engine.memory.kept(1)) == ""
    rig.elect(M, B, C)
    rig.at_node(D).trouble = rig.at_node(E).trouble = None
    rig.fail_over(B, dead=False)
    rig.tick()
    assert rig.doubtful is None
    assert not rig.ledger.schedule.windows


def test_13_requests_that_never_left_are_said_to_be_not_in_force(rig: Candidacy) -> None:
    for name in (M, B, C):
        rig.at_node(name).trouble = SILENT
    assert rig.ask(SetQueue(enabled=False)) == ""
    assert rig.ask(Pause(Scope.NODE, "n6", why="never left")) == ""
    for name in (M, B, C):
        rig.at_node(name).trouble = None
    rig.sleep()
    rig.fail_over(B, dead=False)
    rig.tick()
    rig.plan("n5", ahead=24 * HOUR)
    rig.fail_over(M, dead=False)
    rig.tick()
    assert rig.ledger.queue.enabled
    assert rig.ledger.schedule.windows
    (told,) = rig.told("requests-dropped")
    assert told.details["count"] == "2"
    assert told.details["requests"][0].startswith("root ")


def test_13_an_answer_counts_no_more_once_another_ledger_does(rig: Candidacy) -> None:
    for name in (M, B, C):
        rig.at_node(name).trouble = SILENT
    wish = rig.wish(SetQueue(enabled=False))
    rig.tick()
    assert rig.store.answer(wish) == ""
    for name in (M, B, C):
        rig.at_node(name).trouble = None
    rig.fail_over(B, dead=False)
    rig.tick()
    rig.fail_over(M, dead=False)
    rig.tick()
    assert rig.ledger.queue.enabled
    assert rig.store.answer(wish) is None, "nobody is told that it was accepted"


def test_14_a_kill_before_the_hand_over_loses_nothing_on_the_same_node(rig: Candidacy) -> None:
    for name in (M, B, C):
        rig.at_node(name).trouble = SILENT
    assert rig.ask(SetQueue(enabled=False)) == ""
    for name in (M, B, C):
        rig.at_node(name).trouble = None
    rig.sleep()
    rig.at_node(B).trouble = SILENT
    rig.wake(M)
    rig.tick()
    assert not rig.ledger.queue.enabled
    assert rig.store.revision.epoch == 2
    assert not rig.told("ledger-taken")


def test_14_what_a_candidate_says_to_keep_and_does_not_is_not_counted_on(rig: Candidacy) -> None:
    """A disk that lies is found at the next change, which it cannot put on top of anything."""
    rig.at_node(B).forgets = True
    rig.at_node(B).lose_disk()
    rig.plan("n5", ahead=24 * HOUR)
    rig.at_node(B).forgets = False
    rig.plan("n6", ahead=24 * HOUR)
    assert rig.at_node(B).copies[0][0].base is None, "it got a whole copy"


def test_14_no_older_copy_speaks_for_a_damaged_newer_one(rig: Candidacy) -> None:
    rig.plan("n5", ahead=24 * HOUR)
    rig.at_node(C).trouble = SILENT
    rig.plan()
    assert inline.run(rig.engine.memory.kept(1)) == "", "M and B have the cancel"
    rig.at_node(B).damage()
    rig.at_node(C).trouble = None
    rig.fail_over(B)
    rig.tick()
    assert rig.doubtful is Trouble.FEW
    missing = details(rig.tick().decision.held, CopyKind.FEW_COPIES)["missing"]
    assert isinstance(missing, tuple)
    assert "n2: it cannot keep copies: its newest part is damaged" in missing
    rig.at_node(M).trouble = None
    rig.until_true(lambda: rig.doubtful is None)
    assert not rig.ledger.schedule.windows
    rig.spread()
    assert rig.at_node(B).newest == rig.at_node(C).newest, "a whole copy has mended it"


def test_15_the_copy_of_a_newer_nodeagent_is_waited_for(rig: Candidacy) -> None:
    rig.plan("n5", ahead=24 * HOUR)
    for name in (M, B, C):
        (whole, *rest) = rig.at_node(name).copies[0]
        load = unpack(whole.body)
        puts = {**load.change.puts, "v": "9"}
        body = pack(Load(Changes(puts), load.events))
        parts = [replace(whole, body=body), *rest]
        merged = bodies.merge(unpack(part.body) for part in parts).change.puts
        total = sum_of(digest(key, text) for key, text in merged.items())
        parts[-1] = replace(parts[-1], digest=total)
        rig.at_node(name).copies[0] = parts
    rig.fail_over(B)
    rig.tick()
    assert rig.doubtful is Trouble.NEWER
    (held,) = rig.tick().decision.held
    assert (held.why.kind, held.reason) == (CopyKind.NEWER_COPY, rig.ask(TrustLedger()))
    assert not rig.ledger.schedule.windows


def lose_jobs(rig: Candidacy, *jobs: Job) -> None:
    """Ganeti does not know these any more."""
    for job in jobs:
        rig.cluster.jobs.pop(job.number)
        rig.cluster._active.pop(job.number, None)
        rig.cluster._reasons.pop(job.reason, None)


def drains(rig: Candidacy) -> list[Job]:
    return [job for job in rig.cluster.jobs.values() if isinstance(job.action, Drain)]


def test_11_a_ledger_that_is_newer_than_a_restored_ganeti_waits(rig: Candidacy) -> None:
    rig.plan("n5", ahead=24 * HOUR)
    was, known = rig.cluster.snapshot(), set(rig.cluster.jobs)
    rig.agents.says["n3"] = EVACUATE
    rig.until_true(lambda: rig.status("n3") is Status.COMPLETED)
    rig.agents.says["n3"] = None
    rig.sleep()
    rig.time += 2 * HOUR
    lost = [job for job in rig.cluster.jobs.values() if job.number not in known]
    jobs = {job.number for job in lost}
    lose_jobs(rig, *lost)
    rig.fail_over(B, overwritten=was)
    rig.tick()
    assert rig.ledger.away
    assert Kind.OUTDATED in rig.kinds()
    (told,) = rig.told("job-unknown")
    assert told.job in jobs
    assert rig.ask(TrustLedger()) == ""
    rig.tick()
    assert not rig.ledger.away
    assert rig.ledger.schedule.windows


@pytest.mark.parametrize("days", [0.3, 22], ids=["archived", "deleted"])
def test_16_a_job_that_is_archived_counts_and_one_deleted_by_its_effect(
    rig: Candidacy, days: float
) -> None:
    rig.plan("n5", ahead=40 * 24 * HOUR)
    rig.agents.says["n3"] = EVACUATE
    rig.until_true(lambda: bool(drains(rig)))
    rig.sleep()
    rig.time += days * 24 * HOUR
    rig.fail_over(B)
    rig.until_true(lambda: rig.status("n3") is Status.COMPLETED)
    assert len(drains(rig)) == 1
    assert not rig.ledger.away, "a job of which Ganeti need not know is no gap"
    assert rig.ledger.schedule.windows


def test_16_a_lost_queue_repeats_nothing(rig: Candidacy) -> None:
    rig.plan("n5", ahead=24 * HOUR)
    rig.cluster.takes = lambda _: 10_000.0
    rig.agents.says["n3"] = EVACUATE
    rig.until_true(lambda: bool(drains(rig)))
    rig.tick()
    lose_jobs(rig, *rig.cluster.jobs.values())
    rig.fail_over(B)
    for _ in range(20):
        rig.tick(60)
    assert rig.cluster.jobs == {}
    assert {Kind.LOST_JOB, Kind.OUTDATED} <= rig.kinds()
    assert len(rig.told("job-unknown")) == 1
    assert rig.ledger.schedule.windows


def test_17_tags_that_are_lost_in_the_failover_are_set_again(rig: Candidacy) -> None:
    was = rig.cluster.snapshot()
    assert rig.ask(Pause(Scope.NODE, "n6", why="new disks")) == ""
    rig.until_true(lambda: PAUSE_TAG in rig.cluster.nodes["n6"].tags)
    rig.tick()
    rig.fail_over(B, overwritten=was)
    assert PAUSE_TAG not in rig.cluster.nodes["n6"].tags
    for _ in range(12):
        rig.tick_quietly(5)
    assert [hold.why for hold in rig.ledger.holds] == ["new disks"], "nobody has resumed it"
    rig.until_true(lambda: PAUSE_TAG in rig.cluster.nodes["n6"].tags)


def test_17_a_tag_that_a_person_removed_stays_removed(rig: Candidacy) -> None:
    assert rig.ask(Pause(Scope.NODE, "n6", why="new disks")) == ""
    rig.until_true(lambda: PAUSE_TAG in rig.cluster.nodes["n6"].tags)
    rig.tick()
    rig.sleep()
    rig.cluster.untag("n6", PAUSE_TAG)
    rig.fail_over(B)
    for _ in range(12):
        rig.tick_quietly(5)
    assert not rig.ledger.holds
    assert PAUSE_TAG not in rig.cluster.nodes["n6"].tags


# Beside the table.


def test_copies_from_before_a_move_to_etcd_count_for_nothing(rig: Candidacy) -> None:
    """M uses etcd for months, and C has still the setting of before when it becomes the master."""
    rig.plan("n5", ahead=24 * HOUR)
    rig.sleep()
    copies, rig.copies = rig.copies, None
    rig.disks[M] = reopened(rig.disks[M])  # as if it were etcd
    rig.wake(M)
    rig.engine.conduct = replace(rig.engine.conduct, in_etcd=True)
    for _ in range(3):
        rig.tick()
    assert ETCD_TAG in rig.cluster.snapshot().tags
    jobs = len(rig.jobs())
    rig.plan()
    assert len(rig.jobs()) == jobs, "the tag is set once"
    rig.copies = copies
    rig.fail_over(C, dead=False)
    rig.tick()
    assert rig.doubtful is Trouble.MOVED
    assert CopyKind.MOVED in rig.kinds()
    assert not rig.ledger.schedule.windows
    assert rig.ask(TrustLedger()) == str(because(CopyKind.MOVED))
    assert inline.run(rig.engine.memory.kept(0.01)), "no request counts there"
    rig.cluster.untag_cluster(ETCD_TAG)
    rig.until_true(lambda: rig.doubtful is None)


def test_old_agents_change_nothing() -> None:
    rig = Candidacy()
    for name in (M, B, C):
        rig.at_node(name).trouble = OLD
    rig.plan("n5", ahead=HOUR)
    rig.tick()
    assert rig.store.revision.epoch == 0
    assert rig.doubtful is None
    assert rig.ask(TrustLedger()) == "no plan waits for that"
    assert inline.run(rig.engine.memory.safe(0.01)), "orders and webhooks wait for nobody"
    assert inline.run(rig.engine.memory.kept(0.01)).startswith("kept on this node only: the agents")
    for name in (M, B):
        rig.at_node(name).trouble = None
    rig.until_true(lambda: rig.store.revision.epoch == 1)
    rig.tick()
    assert rig.ledger.schedule.windows
    assert rig.at_node(B).copies
    state = {one.node: one.able for one in rig.engine.memory.state.on}
    assert state == {M: True, B: True, C: False}
    rig.sleep()


def test_an_unanswered_request_must_be_repeated_after_a_foreign_copy(rig: Candidacy) -> None:
    rig.sleep()
    rig.store = rig.disks[B]
    old = rig.wish(Resume(Scope.CLUSTER, ""))
    rig.fail_over(B)
    rig.time += 1
    rig.tick()
    assert rig.store.answer(old) == other_master.SAY_AGAIN


def test_a_person_may_go_on_before_the_first_ledger_has_spread(rig: Candidacy) -> None:
    rig.plan("n5", ahead=24 * HOUR)
    rig.sleep()

    def put(_: object) -> object:
        raise SILENT

    for name in (B, C):
        rig.at_node(name).put = put  # type: ignore[method-assign, assignment]
    rig.wake(M)
    rig.tick()
    assert rig.doubtful is Trouble.SPREADING
    assert CopyKind.SPREADING in rig.kinds()
    assert rig.ask(TrustLedger()) == ""
    assert rig.doubtful is None


def test_the_first_round_waits_for_no_slow_candidate(
    rig: Candidacy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "_FIRST", 0.1)
    rig.plan("n5", ahead=24 * HOUR)
    rig.at_node(B).slow = rig.at_node(C).slow = 0.6
    rig.fail_over(B)
    assert CopyKind.ASKING in {held.why.kind for held in rig.round().decision.held}
    assert not rig.ledger.schedule.windows
    assert rig.ask(Pause(Scope.NODE, "n6", why="meanwhile")) == ""
    assert inline.run(rig.engine.memory.kept(0.01)).startswith("kept on this node only")
    rig.at_node(B).slow = rig.at_node(C).slow = 0.0
    inline.run(asyncio.sleep(1.5))
    rig.tick()
    assert rig.doubtful is None, "the same questions have been answered"
    assert rig.ledger.schedule.windows
    assert len(rig.told("requests-dropped")) == 1
    assert rig.at_node(C).asked.count("promise") == 2


def test_candidates_without_their_copies_need_a_person(rig: Candidacy) -> None:
    rig.plan("n5", ahead=24 * HOUR)
    rig.sleep()
    for name in (M, B, C):
        rig.at_node(name).lose_disk()
    rig.wake(M)
    rig.tick()
    assert rig.doubtful is Trouble.LOST
    assert rig.ledger.schedule.windows
    assert rig.ask(TrustLedger()) == ""
    rig.tick()
    assert rig.doubtful is None
    assert rig.at_node(C).copies


def test_nothing_is_kept_in_a_dry_run() -> None:
    rig = Candidacy()
    rig.engine.conduct = replace(rig.engine.conduct, dry=True)
    rig.tick()
    assert all(not rig.at_node(name).asked for name in (M, B, C))
    assert rig.store.load() == Ledger()
    rig.sleep()


# Any order of events.

ALL = M, B, C, D, E
WEIGHTS = {
    "ask": 6.0,
    "silent": 2,
    "back": 3,
    "fail over": 2,
    "restart": 1,
    "wait": 2,
    "elect": 3,
    "image": 1,
    "restore": 1,
    "damage": 1,
    "lose": 0.3,
}
DAYS = 7  # of a week, on one of which each added series recurs


class Torture:
    """Random failures of candidates and masters; requests whose acknowledgement must hold.

    A disk that loses something without a trace is a vote that lies. So one at a time does, and only
    while all candidates have the newest save: a majority that answers has one that does not lie.
    """

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.rig = Candidacy()
        self.asked = 0
        self.acknowledged: set[int] = set()
        self.log: list[str] = []
        self.candidates = [M, B, C]
        self.sets = [[M, B, C]]
        self.lying = ""
        self.images: dict[str, tuple[Candidate, SqliteStore]] = {}
        self.rig.tick()

    def step(self) -> None:
        name = self.chance.choice(self.candidates)
        one = self.rig.at_node(name)
        (what,) = self.chance.choices(*zip(*WEIGHTS.items(), strict=True))
        self.log.append(f"{what} {name}")
        if what == "ask":
            self.ask()
        elif what == "silent":
            one.trouble = SILENT
        elif what == "back":
            self.rig.at_node(self.chance.choice(ALL)).trouble = None
        elif what == "fail over":
            self.rig.fail_over(name, dead=False)
            self.rig.tick()
        elif what == "restart":
            self.restart()
        elif what == "elect":
            self.elect(name)
        elif what == "image":
            self.images[name] = one.image(), reopened(self.rig.disks[name])
        elif what == "damage":
            self.damage(name)
        elif what in ("lose", "restore"):
            self.lose(name, restore=what == "restore")
        else:
            self.rig.tick(20)
        self.check()

    def ask(self) -> None:
        """Add a series that only this request can have added; it leaves nothing in Ganeti."""
        self.asked += 1
        weekly = AddSeries(
            (Machine("n6"),), (self.asked % DAYS,), self.asked, "Europe/Zurich", Seconds(60)
        )
        wish = self.rig.wish(weekly)
        self.rig.tick()
        accepted = self.rig.store.answer(wish) == ""
        if accepted and not inline.run(self.rig.engine.memory.kept(0.1)):
            self.acknowledged.add(self.asked)

    def restart(self) -> None:
        self.rig.sleep()
        self.rig.wake(self.rig.me)
        self.rig.tick()

    def elect(self, out: str) -> None:
        """Another candidate in place of this one, or an earlier set; maintd may not see it."""
        me, before = self.rig.me, self.candidates
        earlier = [one for one in self.sets if me in one and one != before]
        others = [name for name in ALL if name not in before]
        if self.lying or out == me:
            return
        if self.chance.random() < 0.3:  # two others, if maintd sees that it works
            self.choose([me, *others])
            self.rig.tick()
            works = self.settled()
            if works:
                self.ask()
            if not works or self.chance.random() < 0.5:
                self.choose(before)
                if works:  # the master dies before it sees that
                    self.rig.at_node(me).trouble = SILENT
                    self.rig.fail_over(out, dead=False)
                    self.rig.tick()
        elif earlier and self.chance.random() < 0.5:
            self.choose(self.chance.choice(earlier))
        else:
            self.choose([*(one for one in before if one != out), self.chance.choice(others)])
        if self.settled():
            self.sets.append(self.candidates)
        if self.chance.random() < 0.3:
            self.rig.tick()

    def choose(self, names: list[str]) -> None:
        self.candidates = sorted(names)
        self.rig.elect(*names)

    def settled(self) -> bool:
        """Tell whether all candidates have the newest save, and no others matter."""
        self.rig.spread()
        on = self.rig.engine.memory.state.on
        newest = {self.rig.at_node(name).newest for name in self.candidates}
        sets = self.rig.engine.memory._copies.keeping._sets  # type: ignore[union-attr]
        same = {one.node for one in on if one.newest} == set(self.candidates) and len(newest) == 1
        return same and len(sets) == 1 and self.rig.doubtful is None

    def lose(self, name: str, *, restore: bool) -> None:
        """A disk is lost, or goes back; of the master's machine the ledger, too."""
        newest = {self.rig.at_node(one).newest for one in (self.lying or name, self.rig.me)}
        if len(newest) == 1:
            self.lying = ""
        if self.lying or not self.settled():
            return
        if restore and name not in self.images:
            self.images[name] = self.rig.at_node(name).image(), reopened(self.rig.disks[name])
        self.lying = name
        if not restore:
            self.rig.at_node(name).lose_disk()
            self.rig.tick()
            return
        if name != self.rig.me:
            self.restore(name)
            return
        if self.chance.random() < 0.5:  # to a moment ago
            self.images[name] = self.rig.at_node(name).image(), reopened(self.rig.disks[name])
            self.ask()
            if not self.settled():
                return
        self.rig.sleep()
        trouble = self.chance.choice((SILENT, None))
        for other in self.candidates:
            self.rig.at_node(other).trouble = None if other == name else trouble
        self.restore(name)
        self.rig.wake(name)
        for _ in range(3):
            self.ask()

    def restore(self, name: str) -> None:
        image, disk = self.images[name]
        self.rig.at_node(name).restore(image.image())
        self.rig.disks[name] = reopened(disk)

    def damage(self, name: str) -> None:
        """A candidate's newest part rots, and perhaps the master dies as another comes back."""
        if any(self.rig.at_node(other).damaged for other in ALL):
            return
        self.rig.at_node(name).damage()
        others = [one for one in self.candidates if one != self.rig.me]
        if self.chance.random() < 0.7:
            self.rig.at_node(self.rig.me).trouble = SILENT
            for other in others:
                self.rig.at_node(other).trouble = None
            self.rig.fail_over(self.chance.choice(others), dead=False)
            self.rig.tick()

    def check(self) -> None:
        if self.rig.doubtful is None and self.rig.store.revision.epoch:
            there = {one.rule.minute for one in self.rig.ledger.series}
            assert self.acknowledged <= there, (self.acknowledged - there, self.log)

    def end(self) -> None:
        """Everybody is back: the last maintd knows all that was acknowledged."""
        for name in ALL:
            self.rig.at_node(name).trouble = None
        self.rig.until_true(lambda: self.rig.doubtful is None)
        self.check()
        self.rig.sleep()


# Without what mends damage, changes of candidates and work in doubt the last three fail.
@pytest.mark.parametrize("seed", [*range(10), 10, 20, 32])
def test_whatever_happens_an_acknowledged_request_is_there(seed: int) -> None:
    torture = Torture(seed)
    for _ in range(40):
        torture.step()
    torture.end()
    assert torture.asked > 3
