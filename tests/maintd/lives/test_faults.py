"""F1-F20: the faults that a coordinator has to live with, each by its name.

| id  | here, or where else |
|-----|---------------------|
| F03 | a job's archive as Ganeti keeps it: tests/real |
| F06 | what becomes of a damaged file is the store's: tests/store |
| F12 | LUXI's own errors: tests/cluster/ganeti |
| F20 | the lock is the command's; the part with etcd is not built |
"""

import asyncio
import gc
import json
import multiprocessing
import os
import re
import signal
import socket
import sys
import tracemalloc
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from subprocess import PIPE, Popen
from unittest.mock import patch

import psutil
import pytest
from click.testing import CliRunner
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from nodeagent import service
from nodeagent.cli.maintd import _lock as lock
from nodeagent.cli.maintd import cli
from nodeagent.cli.maintd_parts import reload_settings
from nodeagent.cluster.backend import Answer, Submission
from nodeagent.errors import NotMaster, Unavailable
from nodeagent.maintd.daemon import Maintd
from nodeagent.maintd.engine import failpoint
from nodeagent.maintd.engine.failpoint import NAMES
from nodeagent.maintd.engine.poll import poll
from nodeagent.maintd.helper_settings import PollSettings
from nodeagent.maintd.settings import Settings
from nodeagent.model.action import Drain, MovePrimary
from nodeagent.model.diagnosis import Diagnosis
from nodeagent.model.incident import Status
from nodeagent.model.ledger import Outcome, Removal, Result, Trail
from nodeagent.model.reason import Kind
from nodeagent.model.snapshot import Capacity, Snapshot
from nodeagent.model.units import Ms
from nodeagent.model.wish import Cancel, ResetStorm
from nodeagent.protocol.envelope import Key, Purpose, seal
from nodeagent.protocol.look import Distrusted, Expected, Look, Seen, Silent, judge_answer
from nodeagent.protocol.messages import Report
from nodeagent.store.sqlite import SqliteStore
from tests import counted
from tests.agent.place import safe_folder
from tests.maintd.decided import kinds
from tests.maintd.driver import Lasting, one_life
from tests.maintd.rig import ID, QUICK, Between, Rig, fleet, mirrored
from tests.maintd.world import EVACUATE, FAILOVER, NOW, OK, REPAIR, need
from tests.patience import PATIENCE, dawdle, until_async

FORK = multiprocessing.get_context("fork")
EFFECTS = ("promised", "submitted", "remembered", "ordered")
# At how many reaches of the other places it is killed, if there are so many.
REACHES = int(os.environ.get("FAULTS_REACHES", "2"))


# F1: killed anywhere.


def killed(folder: Path, at: str) -> bool:
    """Whether a process was killed there; else it has lived to the end."""
    process = FORK.Process(target=one_life, args=(folder, at))
    process.start()
    process.join(60)
    assert process.exitcode in (0, -9), at
    return process.exitcode == -9


def begin(folder: Path, said: Diagnosis) -> Path:
    folder.mkdir()
    lasting = Lasting(folder, said)
    lasting.save()
    lasting.rig.store.close()
    return folder


def live(folder: Path) -> tuple[list[str], list[str], dict[str, int]]:
    """Live to the end. The jobs, as they happened to the node one after another, and the orders."""
    lasting = Lasting(folder)
    last = lasting.rig
    lasting.until_forgotten()
    last.store.close()
    # Where to a mirror goes depends on what has gone before it.
    aims = re.compile(f"{ID.pattern}|(?<=, target=)'n.'")
    jobs = [aims.sub("<any>", str(job.action)) for job in last.cluster.jobs.values()]
    # Moves go at once, in no order.
    kinds = [re.sub("Primary|Secondary", "", job.partition("(")[0]) for job in jobs]
    order = [kind for n, kind in enumerate(kinds) if n == 0 or kinds[n - 1] != kind]
    return sorted(jobs), order, dict(last.agents.asked)


@dataclass(frozen=True)
class Undisturbed:
    """What is done where nobody kills it, and how often it is at each place meanwhile."""

    jobs: list[str]
    order: list[str]
    reached: Counter[str]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Undisturbed]:
    found = {}
    for said in (EVACUATE, FAILOVER, REPAIR):
        folder = begin(tmp_path_factory.mktemp("undisturbed") / "life", said)
        reached: list[str] = []
        with patch.object(failpoint, "reach", reached.append):
            jobs, order, _ = live(folder)
        found[said.text] = Undisturbed(jobs, order, Counter(reached))
    return found


@pytest.mark.parametrize("said", [EVACUATE, FAILOVER, REPAIR], ids=lambda said: said.need.wire)
@pytest.mark.parametrize("name", NAMES)
def test_F01_killed_at_any_point_the_jobs_are_as_undisturbed(
    name: str, said: Diagnosis, undisturbed: dict[str, Undisturbed], tmp_path: Path
) -> None:
    """At every effect, each time; elsewhere the first few times."""
    quiet = undisturbed[said.text]
    times = quiet.reached[name] if name in EFFECTS else min(quiet.reached[name], REACHES)
    deaths = [[f"{name}:kill:{nth}"] for nth in range(1, times + 1)]
    if name == "adopted":  # only after another death there is something to be found
        deaths = [["submitted:kill:1", "adopted:kill:1"]]
    for n, places in enumerate(deaths):
        folder = begin(tmp_path / str(n), said)
        assert all(killed(folder, at) for at in places), places
        jobs, order, orders = live(folder)
        assert (jobs, order) == (quiet.jobs, quiet.order), places
        assert all(times == 1 for times in orders.values()), orders
    assert deaths or (name == "ordered" and said != REPAIR), "the place was reached"


# F2 to F4: what becomes of jobs.


def broken(**members: object) -> Rig:
    rig = Rig(fleet(), mirrored(("n3", "n4"), ("n3", "n5"), ("n2", "n3")), **members)  # type: ignore[arg-type]
    rig.agents.says["n3"] = EVACUATE
    return rig


def bare(rig: Rig) -> list[str]:
    """What was done, in no order; where to a mirror goes depends on what has gone before it."""
    return sorted(re.sub(", target='n.'", "", job) for job in rig.jobs())


def quiet() -> list[str]:
    rig = broken()
    rig.settle()
    return bare(rig)


@pytest.mark.parametrize("late", [0.0, 4.0], ids=["at once", "within the grace"])
@pytest.mark.parametrize("nth", range(1, 6))
def test_F02_a_submission_whose_answer_was_lost_is_never_repeated(nth: int, late: float) -> None:
    rig = broken()
    asked: list[object] = []

    def loses(action: object) -> bool:
        asked.append(action)
        return len(asked) == nth

    rig.cluster.takes = lambda _: 100.0
    rig.cluster.loses_answer = loses
    rig.cluster.arrives = lambda _: late
    for _ in range(60):
        rig.tick(3.0)
    rig.settle(300)
    assert rig.status("n3") is Status.COMPLETED
    assert Counter(job.partition("(")[0] for job in rig.jobs()) == Counter(
        job.partition("(")[0] for job in quiet()
    )


def _deleted(rig: Rig, seconds: float) -> None:
    """Nobody looks for so long that finished jobs are deleted."""
    rig.time += seconds


def test_F03_a_job_that_is_archived_counts_and_one_deleted_by_its_effect() -> None:
    archived, deleted = broken(), broken()
    for rig, seconds in ((archived, 7 * 3600.0), (deleted, 22 * 86400.0)):
        rig.tick()
        _deleted(rig, seconds)
        rig.settle()
        assert rig.status("n3") is Status.COMPLETED
        assert sum("Drain" in job for job in rig.jobs()) == 1


def test_F03_a_job_of_which_nothing_is_known_or_seen_holds_and_is_not_repeated() -> None:
    rig = broken()
    rig.cluster.fails = lambda action: isinstance(action, Drain)
    rig.tick()
    _deleted(rig, 22 * 86400.0)
    for _ in range(20):
        done = rig.tick(60.0)
    assert rig.status("n3") is Status.PENDING
    assert len(rig.cluster.jobs) == 1
    assert kinds(done.decision.held)[0] == (Kind.LOST_JOB, "n3")


@pytest.mark.parametrize("how", ["cancel", "kill"])
def test_F04_a_job_that_a_person_ends_stops_its_incident(how: str) -> None:
    rig = broken()
    rig.cluster.takes = lambda _: 100.0
    rig.cluster.pauses = lambda _: how == "cancel"
    rig.tick()
    getattr(rig.cluster, how)("1")
    rig.cluster.pauses = lambda _: False
    rig.settle()
    assert rig.status("n3") is Status.FAILED
    assert rig.cluster.nodes["n3"].tags == {rig.incident("n3").tag}
    assert [job.partition("(")[0] for job in rig.jobs()] == ["Drain", "Retag"]


def test_F04_a_job_that_waits_for_ever_is_waited_for_and_others_go_on() -> None:
    rig = broken()
    rig.cluster.pauses = lambda action: isinstance(action, Drain)
    rig.tick()
    rig.agents.says["n2"] = REPAIR
    for _ in range(30):
        rig.tick(3600.0)
    assert rig.status("n3") is Status.PENDING
    assert rig.status("n2") is Status.COMPLETED
    assert sum("Drain" in job for job in rig.jobs()) == 1


# F5: two masters.


@dataclass
class OnMaster(Between):
    """LUXI as one node has it: it answers on the master alone."""

    me: str = ""

    def _here(self) -> None:
        if self.cluster.world.master != self.me:
            raise Unavailable(f"{self.me} has no LUXI: it is not the master")

    def master(self) -> str:
        return self.cluster.world.master  # ssconf is there, and may be old

    def snapshot(self) -> Snapshot:
        self._here()
        return super().snapshot()

    def submit(self, batch: Sequence[Submission]) -> Sequence[Answer]:
        self._here()
        return super().submit(batch)

    def find(self, reasons: Collection[str]) -> Mapping[str, str]:
        self._here()
        return super().find(reasons)

    def results(self, jobs: Collection[str]) -> Mapping[str, Result]:
        self._here()
        return super().results(jobs)

    def busy(self) -> Mapping[str, str]:
        self._here()
        return super().busy()

    def trails(self) -> Sequence[Trail]:
        self._here()
        return super().trails()

    def removals(self) -> Sequence[Removal]:
        self._here()
        return super().removals()


class Two:
    """Two coordinators that both believe they are to act, each with its own ledger."""

    def __init__(self, said: Diagnosis) -> None:
        self.rigs = {}
        first = broken(through=lambda cluster: OnMaster(cluster, "n1"))
        first.agents.says["n3"] = said
        second = broken(me="n2", through=lambda _: OnMaster(first.cluster, "n2"))
        second.agents = first.agents
        self.first, self.rigs = first, {"n1": first, "n2": second}
        for rig in self.rigs.values():
            rig.crash()
        second._check_master = first._check_master = lambda: None  # type: ignore[method-assign]
        for rig in self.rigs.values():
            rig.crash()
        self.moves: list[str] = []
        self.kills = False

    def hook(self, name: str) -> None:
        """Between any two lines of a round the master may have moved."""
        if name in self.moves:
            self.moves.remove(name)
            self.fail_over()

    def fail_over(self) -> None:
        cluster = self.first.cluster
        new = "n2" if cluster.world.master == "n1" else "n1"
        if self.kills:
            cluster.set_master(new)
        else:
            cluster.world.master = new

    def round(self, who: str, seconds: float, at: Sequence[str]) -> None:
        rig = self.rigs[who]
        self.first.time += seconds
        self.rigs["n2"].time = self.first.time
        self.first.agents.master = self.first.cluster.world.master
        self.moves = list(at)
        before = len(self.first.cluster.jobs)
        with patch.object(failpoint, "reach", self.hook):
            try:
                rig.round()
            except (NotMaster, Unavailable):
                rig.crash()  # it ends, and is started again
        if not at and self.first.cluster.world.master != who:
            assert len(self.first.cluster.jobs) == before, f"{who} is not the master"


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["n1", "n2"]),
        st.sampled_from([1.0, 10.0, 70.0]),
        st.lists(st.sampled_from(NAMES), max_size=2),
    ),
    min_size=4,
    max_size=15,
)


@settings(max_examples=40, derandomize=True, phases=[Phase.generate])
@given(said=st.sampled_from([EVACUATE, REPAIR]), takes=st.sampled_from([1.0, 30.0]), steps=STEPS)
def test_F05_two_coordinators_never_both_act_wherever_the_master_moves(
    said: Diagnosis, takes: float, steps: list[tuple[str, float, list[str]]]
) -> None:
    two = Two(said)
    two.first.cluster.takes = lambda _: takes
    for who, seconds, at in steps:
        two.round(who, seconds, at)
    for _ in range(40):
        for who in ("n1", "n2"):
            two.round(who, 10.0, [])
    jobs = Counter(bare(two.first))
    effects = {job: times for job, times in jobs.items() if times > 1}
    assert not effects, effects
    assert len(two.first.agents.ran) <= 1
    assert two.first.cluster.nodes["n3"].offline is (said == EVACUATE)


def test_F05_jobs_that_the_failover_ended_are_planned_anew() -> None:
    two = Two(EVACUATE)
    two.kills = True
    two.first.cluster.takes = lambda _: 30.0
    two.round("n1", 10.0, [])
    two.round("n1", 1.0, ["observed"])  # the drain runs, and dies with the old master
    for _ in range(80):
        two.round("n2", 10.0, [])
    jobs = [job.partition("(")[0] for job in two.first.jobs()]
    assert jobs[:2] == ["Drain", "Drain"], "it had no effect"
    assert jobs.count("Drain") == 2
    assert two.rigs["n2"].status("n3") is Status.COMPLETED


# F6: the ledger.


@pytest.mark.parametrize("name", ["decided", "submitted", "remembered", "adopted"])
def test_F06_a_full_disk_stops_submitting_and_doubles_nothing(name: str) -> None:
    for nth in range(1, 6):
        rig = broken()
        left = [nth]
        save = rig.store.save

        def full(*_: object) -> None:
            raise Unavailable("the disk is full")

        def hook(at: str, left: list[int] = left, rig: Rig = rig) -> None:
            left[0] -= at == name
            if left[0] == 0:
                rig.store.save = full  # type: ignore[method-assign, assignment]

        with patch.object(failpoint, "reach", hook):
            for _ in range(20):
                with suppress(Unavailable):
                    rig.tick()
            count = len(rig.cluster.jobs)
            for _ in range(5):
                rig.tick_quietly()
            if left[0] <= 0:
                assert len(rig.cluster.jobs) == count, "nothing is submitted from memory"
        rig.store.save = save  # type: ignore[method-assign]
        rig.settle()
        assert bare(rig) == quiet()


@pytest.mark.parametrize("back", [1, 2, 3, 5])
@pytest.mark.parametrize("said", [EVACUATE, REPAIR], ids=lambda said: said.need.wire)
def test_F06_an_older_ledger_restored_does_nothing_twice(
    said: Diagnosis, back: int, tmp_path: Path
) -> None:
    for at in range(back, 12, 2):
        undone, rig = broken(), broken(path=str(tmp_path / f"{at}.sqlite"))
        undone.agents.says["n3"] = rig.agents.says["n3"] = said
        undone.settle()
        copies = []
        for _ in range(at + 1):
            rig.tick(3.0)
            copies.append(rig.store.load())
        rig.lose_ledger()
        rig.store.save(copies[at - back])
        rig.crash()
        rig.settle()
        assert bare(rig) == bare(undone), f"{back} rounds back after {at}"
        assert len(rig.agents.ran) == (said == REPAIR)
        assert rig.status("n3") is Status.COMPLETED


@pytest.mark.parametrize("ends", [Outcome.SUCCESS, Outcome.ERROR])
def test_F06_what_was_acknowledged_is_not_rebuilt(ends: Outcome) -> None:
    rig = broken()
    rig.agents.says["n3"] = REPAIR
    rig.agents.ends = lambda _: ends
    rig.settle()
    identity = rig.incident("n3").id
    rig.time += 3600.0
    rig.cluster.untag("n3", *rig.cluster.nodes["n3"].tags)
    if ends is Outcome.ERROR:
        rig.agents.says["n3"] = OK
    rig.lose_ledger()
    rig.settle()
    told = [job for job in rig.cluster.jobs.values() if identity in job.reason]
    assert len(told) == 2, "its mark and its end"
    if ends is Outcome.ERROR:
        assert len(rig.agents.ran) == 1
        assert not rig.ledger.incidents
    else:
        # Nobody knows whether the fault has lasted: it is taken for a new one, once.
        assert len(rig.agents.ran) == 2
        assert rig.incident("n3").id != identity
        assert rig.status("n3") is Status.COMPLETED


# F7: clocks.


@pytest.mark.parametrize("jump", [3600.0, -3600.0])
@pytest.mark.parametrize("after", range(1, 8))
def test_F07_a_clock_that_jumps_changes_nothing_that_is_done(jump: float, after: int) -> None:
    rig = broken()
    rig.cluster.loses_answer = lambda action: "Drain" in str(action)
    rig.cluster.arrives = lambda _: 4.0
    for n in range(1, 9):
        if n == after:
            rig.skew += jump
        rig.tick(1.0)
    rig.settle()
    assert bare(rig) == quiet()


def test_F07_no_wait_gets_longer_where_the_clock_is_put_back() -> None:
    rig = broken()
    rig.cluster.queue_drained = True
    rig.tick()
    rig.tick()
    rig.cluster.queue_drained = False
    rig.skew -= 3600.0
    for _ in range(20):
        rig.tick()
    assert rig.status("n3") is Status.COMPLETED


def test_F07_where_only_our_clock_is_wrong_everybody_is_in_doubt() -> None:
    rig = broken()
    rig.oldest = 600_000
    rig.agents.now = lambda: Ms(round(rig.time * 1000))
    rig.crash()
    rig.tick()
    rig.skew = 3600.0
    count = len(rig.cluster.jobs)
    for _ in range(10):
        done = rig.tick()
    assert len(rig.cluster.jobs) == count
    assert kinds(done.decision.held)[0] == (Kind.DOUBT, "n3")
    rig.skew = 0.0
    rig.settle()
    assert bare(rig) == quiet()


# F8 to F11: what nodes say.


def test_F08_flapping_neither_begins_nor_piles_up() -> None:
    rig = Rig(fleet(), policy=replace(QUICK, settle=Ms(60_000)))
    for n in range(200):
        rig.agents.says["n3"] = (EVACUATE, OK)[n % 2]
        rig.tick(20.0)
        assert len(rig.ledger.incidents) <= 1
    assert not rig.cluster.jobs


def test_F08_ever_other_words_are_worked_on_no_oftener_than_allowed() -> None:
    rig = Rig(
        fleet(), policy=replace(QUICK, attempts=3, attempts_within=Ms(86_400_000), burst=1000)
    )
    for n in range(60):
        rig.agents.says["n3"] = need("live-repair", command="fix", counter=n)
        for _ in range(6):
            rig.tick(60.0)
    assert len(rig.agents.ran) == 3
    assert len(rig.ledger.incidents) <= 4


@pytest.mark.parametrize(
    "look",
    [
        pytest.param(Silent("timed out"), id="away"),
        pytest.param(Distrusted("forged"), id="forged"),
        pytest.param(None, id="stands by nothing after its restart"),
    ],
)
def test_F09_an_agent_that_is_away_changes_nothing(look: Look | None) -> None:
    rig = broken()
    rig.tick()
    plain = rig.agents.look

    async def odd(snapshot: Snapshot) -> Mapping[str, Look]:
        looks = dict(await plain(snapshot))
        seen = looks["n3"]
        assert isinstance(seen, Seen)
        looks["n3"] = look or Seen(replace(seen.report, diagnosis=None), None)
        return looks

    rig.agents.look = odd  # type: ignore[method-assign]
    rig.crash()
    count = len(rig.cluster.jobs)
    for _ in range(30):
        rig.tick(60.0)
    assert len(rig.cluster.jobs) == count
    assert rig.status("n3") is Status.PENDING
    rig.agents.look = plain  # type: ignore[method-assign]
    rig.crash()
    rig.settle()
    assert bare(rig) == quiet()


def test_F09_what_an_agent_of_a_newer_version_says_beyond_ours_is_passed_over() -> None:
    key, expected = Key(b"k" * 40), Expected("c", "n3", "uuid-n3", "salt")
    more = {"future": {"deep": [1, None]}, "diagnosis": EVACUATE.text[:-1] + ',"zone":"b"}'}
    report = Report(
        "c", "uuid-n3", "n3", "e", 1, NOW, EVACUATE.text, NOW, NOW, {}, True, "n1", "", "9"
    )

    def look(**more: object) -> Look:
        sealed = json.loads(seal(key, Purpose.REPORT, "salt", report.body() | more))
        body = {"name": "diagnose", "data": sealed, "future": 1}
        return judge_answer(200, json.dumps(body).encode(), key, expected, NOW)

    found = look(**more)
    assert isinstance(found, Seen)
    assert found.diagnosis is not None
    assert found.diagnosis.need is EVACUATE.need
    assert '"zone":"b"' in found.diagnosis.text
    assert replace(found.report, diagnosis=report.diagnosis) == report
    assert look(v=2) == Distrusted('report of version "2"; we speak 1')


def test_F10_a_node_that_ganeti_has_offline_is_not_asked_and_nothing_begun() -> None:
    rig = broken()
    rig.cluster.put(replace(rig.cluster.nodes["n3"], offline=True))
    for _ in range(10):
        rig.tick()
    assert not rig.cluster.jobs
    assert rig.ledger.incidents == ()


def test_F10_a_node_whose_agent_lives_and_whose_noded_is_dead_fails_and_stops() -> None:
    rig = broken()
    rig.tick()
    rig.tick()
    rig.cluster.power_off("n3")
    rig.settle()
    assert rig.status("n3") is Status.FAILED
    assert not rig.cluster.nodes["n3"].offline


def test_F11_a_mass_failure_opens_the_brake_and_what_is_begun_ends() -> None:
    rig = Rig(
        fleet(10),
        mirrored(("n3", "n4")),
        replace(QUICK, storm=0.3),
        through=lambda cluster: cluster,
    )
    rig.cluster.takes = lambda _: 30.0
    rig.agents.says["n3"] = EVACUATE
    rig.tick()
    rig.agents.says |= dict.fromkeys((f"n{i}" for i in range(4, 8)), EVACUATE)
    rig.agents.says["n2"] = REPAIR
    done = rig.settle()
    assert done.decision.ledger.storm is not None
    assert not rig.agents.ran
    drained = {
        job.action.node for job in rig.cluster.jobs.values() if isinstance(job.action, Drain)
    }
    assert drained == {"n3"}, "the begun one goes on as far as it can, and nobody else is begun"
    rig.agents.says |= dict.fromkeys((f"n{i}" for i in range(4, 8)), OK)
    rig.wish(ResetStorm())
    rig.settle()
    assert rig.status("n3") is Status.COMPLETED
    assert rig.status("n2") is Status.COMPLETED


# F12 to F16: the cluster and its people.


@pytest.mark.parametrize("what", ["down", "queue_drained"])
def test_F12_a_cluster_in_trouble_changes_nothing_and_is_waited_for(what: str) -> None:
    for after in range(6):
        rig = broken()
        for _ in range(after):
            rig.tick()
        setattr(rig.cluster, what, True)
        count = len(rig.cluster.jobs)
        for _ in range(10):
            rig.tick_quietly()
        assert len(rig.cluster.jobs) == count
        setattr(rig.cluster, what, False)
        rig.settle()
        assert bare(rig) == quiet()


def test_F13_what_finds_no_room_holds_with_its_name_and_nothing_loops() -> None:
    rig = broken()
    rig.cluster.world.sizes["n4"] = Capacity(50, 10_000)
    done = rig.settle()
    assert rig.status("n3") is Status.PENDING
    assert (Kind.CANNOT_MOVE, "i1") in kinds(done.decision.held)
    assert not any("'i1'" in job for job in rig.jobs())
    assert rig.cluster.instances["i2"].primary == "n5", "the rest moves on"
    count = len(rig.cluster.jobs)
    rig.settle()
    assert len(rig.cluster.jobs) == count
    rig.cluster.world.sizes["n4"] = Capacity(5000, 100_000)
    rig.settle()
    assert rig.status("n3") is Status.COMPLETED


@pytest.mark.parametrize("after", range(1, 7))
def test_F14_a_node_removed_in_mid_incident_and_added_again_is_another(after: int) -> None:
    rig = broken()
    rig.cluster.takes = lambda _: 5.0
    for _ in range(after):
        rig.tick()
    old = rig.cluster.nodes["n3"]
    for name, one in dict(rig.cluster.instances).items():
        if "n3" in (one.primary, one.secondary):
            rig.cluster.remove_instance(name)
    rig.cluster.remove_node("n3")
    rig.tick()
    assert rig.ledger.incidents == ()
    rig.cluster.put(replace(old, uuid="another", drained=False, offline=False, tags=frozenset()))
    rig.agents.says["n3"] = OK
    count = len(rig.cluster.jobs)
    rig.settle()
    assert len(rig.cluster.jobs) == count
    assert not rig.cluster.nodes["n3"].drained


@pytest.mark.parametrize("after", range(1, 7))
def test_F14_a_node_renamed_in_mid_incident_keeps_it(after: int) -> None:
    rig = broken()
    for _ in range(after):
        rig.tick()
    identity = rig.incident("n3").id
    rig.time += 5.0  # what was submitted under the old name ends
    rig.cluster.rename_node("n3", "n3b")
    rig.agents.says["n3b"] = EVACUATE
    rig.settle()
    assert rig.incident("n3b").id == identity
    assert rig.status("n3b") is Status.COMPLETED
    assert sum("Drain" in job for job in rig.jobs()) == 1


@pytest.mark.parametrize("after", range(1, 5))
def test_F14_what_somebody_moves_meanwhile_is_left_where_it_is(after: int) -> None:
    rig = broken()
    rig.cluster.pauses = lambda action: isinstance(action, MovePrimary)
    for _ in range(after):
        rig.tick()
    moved = rig.cluster.instances["i1"]
    rig.cluster.put(replace(moved, primary="n4", secondary="n6"))
    rig.cluster.pauses = lambda _: False
    rig.settle()
    assert rig.cluster.instances["i1"].secondary != "n3"
    assert "n3" not in (rig.cluster.instances["i1"].primary, rig.cluster.instances["i2"].primary)
    assert rig.status("n3") in (Status.COMPLETED, Status.FAILED)


def test_F14_a_node_drained_by_a_person_before_stays_so() -> None:
    rig = broken()
    rig.cluster.put(replace(rig.cluster.nodes["n3"], drained=True))
    rig.tick()
    rig.wish(Cancel(rig.incident("n3").id))
    rig.agents.says["n3"] = OK
    rig.settle()
    assert rig.cluster.nodes["n3"].drained
    assert not any("Drain" in job for job in rig.jobs())


def test_F15_tags_of_others_are_left_alone_and_both_tags_end_it() -> None:
    rig = broken()
    odd = ("maintd:repairready:nonsense", "maintd:repairfailed:", "owner:me", "maintd:repairready")
    rig.cluster.tag("n4", *odd)
    rig.settle()
    assert rig.cluster.nodes["n4"].tags == set(odd)
    identity = rig.incident("n3").id
    rig.cluster.tag("n3", f"maintd:repairfailed:{identity}")
    rig.lose_ledger()
    count = len(rig.cluster.jobs)
    rig.settle()
    assert len(rig.cluster.jobs) == count
    assert not rig.status("n3").active


def test_F15_a_ready_tag_that_somebody_sets_while_we_work_is_not_the_end() -> None:
    rig = broken()
    rig.tick()
    rig.cluster.tag("n3", rig.incident("n3").tag)
    rig.tick()
    rig.cluster.untag("n3", rig.incident("n3").tag)
    rig.settle()
    assert bare(rig) == quiet()


@pytest.mark.parametrize("ends", [Outcome.SUCCESS, Outcome.ERROR])
@pytest.mark.parametrize("after", range(1, 6))
def test_F16_a_worse_diagnosis_waits_for_the_command_that_runs(after: int, ends: Outcome) -> None:
    rig = Rig(fleet(), mirrored(("n3", "n4")))
    rig.agents.says["n3"] = REPAIR
    rig.agents.takes = 30_000
    rig.agents.ends = lambda _: ends
    for _ in range(after):
        rig.tick()
    rig.agents.says["n3"] = FAILOVER
    for _ in range(60):
        rig.tick()
        busy = any(rig.now() < began + 30_000 for began, _, _ in rig.agents.ran.values())
        assert not (busy and any("Drain" in job for job in rig.jobs())), "both at once"
    assert len(rig.agents.ran) <= 1
    failed = ends is Outcome.ERROR and rig.agents.ran and after > 1
    worst = rig.incident("n3")
    assert worst.diagnosis == FAILOVER
    assert worst.status is (Status.NOTED if failed else Status.COMPLETED)


# F17: the process.


@contextmanager
def daemon(folder: Path, said: Diagnosis = EVACUATE, **env: str) -> Iterator[Popen[str]]:
    Lasting(folder, said).save()
    command = [sys.executable, "-m", "tests.maintd.driver", str(folder)]
    process = Popen(
        command,
        stdout=PIPE,
        stderr=PIPE,
        text=True,
        env=os.environ | env,
        cwd=Path(__file__).parents[3],
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdout, process.stderr):
            assert pipe is not None
            pipe.close()


def lines(process: Popen[str], count: int, word: str = "round") -> None:
    assert process.stdout is not None
    for line in process.stdout:
        count -= line.startswith(word)
        if count <= 0:
            return
    raise AssertionError("it has ended")


@pytest.mark.parametrize("after", [1, 2, 3, 6])
def test_F17_sigterm_ends_it_cleanly_in_each_phase(after: int, tmp_path: Path) -> None:
    with daemon(tmp_path) as process:
        lines(process, after)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
    assert SqliteStore(str(tmp_path / "ledger.sqlite")).load().incidents


def test_F17_sighup_with_bad_settings_keeps_the_old_ones(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rig = broken()
    maintd = Maintd(rig.engine, rig.store, 5.0, rig.now)
    with safe_folder() as folder:
        config = folder / "maintd.toml"
        config.write_text("[policy]\nmoves = 'many'\n")
        reload_settings(maintd, str(config), Settings())
        assert rig.engine.policy == QUICK
        assert maintd.every == 5.0
        assert "policy.moves is 'many'" in caplog.text
        config.write_text("[policy]\nmoves = 7\n[maintd]\nevery = '9s'\n")
        reload_settings(maintd, str(config), Settings())
    assert (rig.engine.policy.moves, maintd.every) == (7, 9.0)


def test_F17_a_frozen_process_feeds_no_watchdog(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as box:
        box.bind(str(tmp_path / "notify"))
        box.settimeout(10)
        where = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "200000"}
        with daemon(tmp_path, OK, **where) as process:
            while box.recv(1000) != b"WATCHDOG=1":
                pass
            lines(process, 1)
            process.send_signal(signal.SIGSTOP)
            dawdle(0.2)
            box.setblocking(False)
            with suppress(BlockingIOError):
                while box.recv(1000):
                    pass
            dawdle(0.5)
            with pytest.raises(BlockingIOError):
                box.recv(1000)
            process.send_signal(signal.SIGCONT)
            box.settimeout(10)
            assert box.recv(1000) == b"WATCHDOG=1"


def test_F17_a_round_stuck_in_a_call_feeds_no_watchdog() -> None:
    """The watchdog is fed by the loop itself: what holds it starves it."""

    async def stuck() -> None:
        fed = 0

        def healthy() -> bool:
            nonlocal fed
            fed += 1
            return False

        with patch.dict(os.environ, {"WATCHDOG_USEC": "100000"}):
            beat = asyncio.create_task(service.keep_alive(healthy))
            await until_async(lambda: fed)
            before = fed
            dawdle(0.5)  # the call
            assert fed == before
            await until_async(lambda: fed > before)
            beat.cancel()

    asyncio.run(stuck())


# F18, F19: many, and long.


def crowd(sick: int, silent: int, count: int) -> Rig:
    places = [(f"n{i}", f"n{i % count + 1}") for i in range(2, count)]
    policy = replace(QUICK, nodes_in_work=20, group_in_work=20)
    rig = Rig(fleet(count), mirrored(*places), policy)
    rig.agents.says |= dict.fromkeys((f"n{i * 4 + 2}" for i in range(sick)), EVACUATE)
    rig.agents.says |= dict.fromkeys(f"n{i * 20 + 5}" for i in range(silent))
    return rig


def test_F18_a_round_over_ten_times_the_nodes_is_ten_times_the_work() -> None:
    """All but choosing places, of which a round tries only so many."""

    def work(count: int) -> int:
        rig = crowd(sick=count // 5, silent=count // 20, count=count)
        rig.engine.policy = replace(QUICK, nodes_in_work=count // 50, spare=False)
        rig.cluster.takes = lambda _: 100.0
        worst = max(counted.lines(rig.tick) for _ in range(3))
        assert len(rig.ledger.incidents) == count // 5
        assert rig.cluster.jobs
        return worst

    work(100)  # what is worked out once
    assert work(1000) < 11 * work(100)


@pytest.mark.measures
def test_F18_memory_stays_flat_with_all_that_in_work() -> None:
    rig = crowd(sick=60, silent=15, count=300)
    for _ in range(20):
        rig.tick()
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for _ in range(20):
        rig.tick()
    gc.collect()
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown < 3_000_000, grown


def test_F19_many_rounds_leave_no_descriptor_thread_or_byte(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    rig = Rig(fleet(3), path=str(path))
    rig.store.close()
    rig.store = SqliteStore(str(path), keep=200)
    rig.crash()

    def rounds(count: int) -> tuple[int, int, int, int]:
        for n in range(count):
            rig.agents.says["n3"] = (need("live-repair", command="fix", n=n // 2), OK)[n % 2]
            rig.tick()
        gc.collect()
        process = psutil.Process()
        size = sum(p.stat().st_size for p in tmp_path.iterdir())
        return process.num_fds(), process.num_threads(), process.memory_info().rss, size

    rounds(100)
    first = rounds(150)
    last = rounds(300)
    assert last[0] <= first[0]
    assert last[1] <= first[1]
    assert last[2] - first[2] < 8_000_000
    assert last[3] < max(2 * first[3], 8_000_000)


def test_F19_a_thousand_polls_leave_no_descriptor() -> None:
    async def polls() -> tuple[int, int]:
        async def refuse(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 404 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(refuse, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        nodes = {f"n{i}": replace(fleet(1)[0], name=f"n{i}") for i in range(200)}
        snapshot = Snapshot("c", nodes, {})
        where = PollSettings(port=port, seconds=5.0, tls=False)
        counts = []
        for _ in range(5):
            looks = await poll(snapshot, Key(b"k" * 40), where, lambda: Ms(0))
            assert {type(look) for look in looks.values()} == {Silent}
            await asyncio.sleep(0.05)
            counts.append(psutil.Process().num_fds())
        server.close()
        return counts[0], counts[-1]

    first, last = asyncio.run(polls())
    assert last <= first


# F20: two by mistake.


def test_F20_a_second_maintd_with_the_same_state_refuses(tmp_path: Path) -> None:
    handle = lock(str(tmp_path))
    with pytest.raises(Unavailable, match="another maintd is at work"):
        lock(str(tmp_path))
    os.close(handle)
    os.close(lock(str(tmp_path)))


def test_F20_voting_is_left_out_only_by_two_words() -> None:
    done = CliRunner().invoke(cli, ["run", "--no-voting"])
    assert done.exit_code == 2
    assert "--yes-do-it" in done.output
