"""A whole coordinator under everything that can happen to it, and what is promised throughout.

Rules are what others do, and what goes wrong. What is promised of each submission is in `watched`,
of incidents (P1 to P4) in `promises`. And always:

P5 without its ledger maintd ends up with what it would have had with it.
P6 a round ends within a bound.
P7 no instance is started while its old node may still run it.
P8 never more nodes than the limits are fenced.
P9 a wrong or missing BMC, or that of another node, ends in a reason, never in an action.
P10 no node that answers is powered off by its control, however late its power-off comes.
P11 no instance is started on a mirror that has missed writes of a node that answered.
O1 never do two owners have jobs at one node.
O2 what was acknowledged is known, whoever is the master.
O3 a node that maintd took out is somebody's, who is told, or work goes on that will put it back.
E1 rounds come to rest when nothing happens any more, and no repair of what is well is pending.
E2 a group gets even, and balancing never ends with a higher score than it began with.
E3 every node ends as it was found, where none was dying.

Each life is about one or two of the subjects: these choose what maintd is to do, and the rules.
"""

import copy
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, TypeVar
from unittest.mock import patch

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule, run_state_machine_as_test

from nodeagent.errors import Unavailable
from nodeagent.maintd.engine.failpoint import NAMES as FAILPOINTS
from nodeagent.maintd.engine.failpoint import arm
from nodeagent.maintd.engine.round import Round
from nodeagent.maintd.notices.needs_you import needs_you
from nodeagent.maintd.windows.recurrence import EPOCH
from nodeagent.model.action import (
    Action,
    Drain,
    Guarded,
    MovePrimary,
    MoveSecondary,
    Power,
    PowerCommand,
    Reinstall,
    Restore,
    Retag,
    RunCommand,
    Scope,
    SetOffline,
    move_of,
)
from nodeagent.model.balance import FAILED_TAG, Shift, Spot
from nodeagent.model.diagnosis import Diagnosis
from nodeagent.model.incident import Status
from nodeagent.model.ledger import Outcome, Policy
from nodeagent.model.purpose import OfFencing, purpose_of
from nodeagent.model.queue import RepairStep
from nodeagent.model.reason import Kind
from nodeagent.model.snapshot import Capacity, Group, Instance
from nodeagent.model.units import Ms, Nanoseconds, Seconds
from nodeagent.model.window import Machine, Mode, Schedule, Unavailability, Window
from nodeagent.model.wish import (
    AddEntry,
    AddSeries,
    Balance,
    BringUp,
    Cancel,
    DeleteEntries,
    Pause,
    PulledPlug,
    ResetBackOff,
    ResetStorm,
    Resume,
    Retry,
    SetQueue,
    SetSchedule,
    StopBalancing,
    TakeDown,
)
from nodeagent.placement.cluster.cluster import Load
from nodeagent.store.sqlite import MEMORY, SqliteStore
from simulation.machines import Control
from tests.cluster.by_hand import ByHand
from tests.maintd.driver import CLUSTER
from tests.maintd.lives.life import Life, at_random, hold_that_it_was
from tests.maintd.lives.masters import HOUR, procedures
from tests.maintd.lives.promises import Promises
from tests.maintd.lives.site import Site
from tests.maintd.lives.watched import COOLDOWN, FOREIGN, RULES, TYPES, Watched
from tests.maintd.queue.test_entries import BROKEN
from tests.maintd.rig import QUICK, Rig, fleet, mirrored
from tests.maintd.world import EVACUATE, FAILOVER, OK, REPAIR, need

INCIDENTS, REPAIRS, BALANCING, BESIDE, FENCING, OUTAGES = SUBJECTS = (
    "incidents",
    "repairs",
    "balancing",
    "others beside balancing",
    "fencing",
    "outages",
)
LIVES = {  # how many lives are about what
    frozenset({INCIDENTS}): 12,
    frozenset({INCIDENTS, REPAIRS}): 6,
    frozenset({INCIDENTS, BALANCING}): 5,
    frozenset({REPAIRS}): 10,
    frozenset({REPAIRS, FENCING}): 4,
    frozenset({FENCING}): 8,
    frozenset({BALANCING}): 5,
    frozenset({BALANCING, BESIDE}): 6,
    frozenset({OUTAGES}): 10,
    frozenset({OUTAGES, INCIDENTS}): 8,
}
EVERY = tuple(f"n{n}" for n in range(1, 8))
SICK = ("n2", "n3", "n4")  # the others stay well, or there would be no majority and no room
MASTERS = ("n1", "n5", "n6")
REWORDED = need("evacuate", details="other words")
OTHER = need("live-repair", command="other")
BAD = (REPAIR, EVACUATE, FAILOVER, REWORDED, OTHER)
PLACES = (("n2", "n3"), ("n2", "n4"), ("n3", "n5"), ("n4", "n2"), ("n5", "n1"), ("n1", "n3"))
NAMED = ("mirrored", "shared", "plain", "stopped")
TEMPLATES = ("drbd", "drbd", "drbd", "ext", "plain", "diskless")
KINDS = (Drain, MovePrimary, MoveSecondary, SetOffline, Retag)
OWNED = (Drain, MovePrimary, MoveSecondary, Restore, SetOffline, RunCommand)
ROUND = 5.0  # s of our own CPU time that a round may take
STEP = 20.0  # s between two rounds where machines die
STEPS = (
    RepairStep(
        "try-1",
        need_drain=True,
        watch_seconds=Seconds(60),
        command_retries=2,
        command_interval=Seconds(60),
    ),
    RepairStep("try-2", need_drain=True, watch_seconds=Seconds(60)),
)
CONTROLS = {
    "good": (Control(),),
    "two": (Control(), Control("apc_snmp")),
    "dead": (Control(dead=True),),
    "lies-off": (Control(says="off", ignores=True),),
    "lies-on": (Control(says="on"),),
    "ignores": (Control(ignores=True),),
}
SWAPPED = (("n3", "n6"), ("n5", "n4"), ("n2", "n3"))
SLOW: dict[str, Callable[[Action], bool]] = {
    "none": lambda _: False,
    "power": lambda action: isinstance(action, Power),
    "power-off": lambda action: isinstance(action, Power) and action.command is PowerCommand.OFF,
    "offline": lambda action: isinstance(action, SetOffline),
    "failovers": lambda action: isinstance(action, MovePrimary),
    "all": lambda _: True,
}

ANY_SICK = st.sampled_from(SICK)
ANY_NODE = st.sampled_from(EVERY[:6])
DYING = st.sampled_from(["n3", "n5", "n3", "n5", "n4", "n6", "n2", "n1"])  # mostly with DRBD disks
OUT = st.sampled_from(["n3", "n3", "n3", "n4"])  # whose machine is repaired, or in a window
ANY_NAMED = st.sampled_from(NAMED)
SECONDS = st.sampled_from([1.0, 1.0, 10.0, 70.0, 400.0])
HOW = st.sampled_from(["off", "hung", "cut"])
counted: Counter[str] = Counter()
T = TypeVar("T")


def about(*subjects: str) -> Callable[[T], T]:
    """Say that a rule is for lives about one of these."""

    def concerns(life: Any) -> bool:
        return bool(life.subjects & set(subjects))

    return precondition(concerns)  # type: ignore[return-value]


def except_in(*subjects: str) -> Callable[[T], T]:
    """Say that a rule is not for lives about any of these."""

    def concerns(life: Any) -> bool:
        return not life.subjects & set(subjects)

    return precondition(concerns)  # type: ignore[return-value]


class Coordinator(Life):
    """One life; `done` is the newest round that did not break off."""

    subjects: frozenset[str] = frozenset()
    rig: Site
    done: Round | None = None
    lossy, late = False, 0.0

    @property
    def cluster(self) -> ByHand | None:
        return self.rig.cluster if hasattr(self, "rig") else None

    @initialize(
        takes=st.sampled_from([1.0, 25.0, 150.0]),
        order=st.sampled_from([1000, 45_000]),
        at_once=st.sampled_from([1, 10]),
        data=st.data(),
    )
    def begin(self, takes: float, order: int, at_once: int, data: st.DataObject) -> None:
        self.rig = Site(self._policy(at_once, data), self._instances(data))
        self.failing, self.late_failing = set[type](), set[type]()
        rig, cluster = self.rig, self.rig.cluster
        self.watched = Watched(cluster, rig, counted, meddled=BESIDE in self.subjects)
        rig._through = lambda _: self.watched
        cluster.takes = lambda _: takes
        cluster.loses_answer = lambda _: self.lossy
        cluster.arrives = lambda _: self.late
        cluster.fails = lambda action: type(action) in self.failing
        cluster.fails_late = lambda action: type(move_of(action)) in self.late_failing
        rig.agents.takes = order
        rig.agents.loses = lambda _: self.lossy
        rig.agents.ends = lambda _: (
            Outcome.ERROR if RunCommand in self.failing else Outcome.SUCCESS
        )
        self.promises = Promises(rig, counted)
        self.asked = 0
        self.acknowledged: set[int] = set()
        self.loads: dict[str, Load] = {}
        self.doubt = ""
        self.dying = False
        rig.crash()
        self._begin_with(data)

    def _policy(self, at_once: int, data: st.DataObject) -> Policy:
        policy = replace(QUICK, nodes_in_work=at_once, group_in_work=at_once)
        if REPAIRS in self.subjects:
            policy = replace(policy, autorepair="safe", repairs=4)
        if BALANCING in self.subjects:
            policy = replace(
                policy,
                balance=True,
                balance_settle=Ms(20_000),
                balance_cooldown=Ms(COOLDOWN * 1000),
                balance_load=BESIDE in self.subjects,
                withdraw=Ms(30_000),
            )
        if FENCING in self.subjects:
            revive, burst = data.draw(st.booleans()), data.draw(st.integers(1, 3))
            policy = replace(policy, dead_nodes="restart", revive=revive, fence_burst=burst)
        if OUTAGES in self.subjects:
            policy = replace(policy, procedures=procedures(*STEPS))
        return policy

    def _instances(self, data: st.DataObject) -> Iterable[Instance]:
        common: dict[str, Any] = {"memory": 100, "disk": 100}
        if INCIDENTS in self.subjects:
            yield from mirrored(*PLACES)
        elif BALANCING in self.subjects and BESIDE not in self.subjects:
            places = st.sampled_from([("n2", "n3"), ("n2", "n4"), ("n3", "n2"), ("n5", "n6")])
            yield from mirrored(*data.draw(st.lists(places, min_size=3, max_size=7)))
        elif OUTAGES in self.subjects:
            yield from mirrored(("n3", "n4"), ("n3", "n5"), ("n2", "n3"))
        if REPAIRS in self.subjects:
            yield Instance("mirrored", "n2", "n3", **common)
            yield Instance("shared", "n2", template="rbd", **common)
            yield Instance("plain", "n3", template="plain", **common)
            yield Instance("stopped", "n4", "n2", running=False, **common)
        if FENCING in self.subjects:
            yield Instance("drbd", "n3", "n4", **common)
            yield Instance("other", "n5", "n6", **common)
            for n in range(2, 7):
                yield Instance(f"shared{n}", f"n{n}", template="rbd", memory=100)

    def _begin_with(self, data: st.DataObject) -> None:
        """What each subject begins with: something is wrong already."""
        if INCIDENTS in self.subjects:
            broken = st.dictionaries(ANY_SICK, st.sampled_from(BAD), min_size=1, max_size=2)
            self.rig.agents.says.update(data.draw(broken))
        if BESIDE in self.subjects:
            self._begin_beside(data)
        if FENCING in self.subjects:
            self._begin_fencing(data)
        if REPAIRS in self.subjects:
            self._begin_repairs(data)
        if OUTAGES in self.subjects:
            self._begin_outages(data)

    def _begin_beside(self, data: st.DataObject) -> None:
        world = self.rig.cluster.world
        world.size = Capacity(memory=1000, disk=1000)
        world.groups = {"default": Group("default", "default"), "other": Group("other", "other")}
        self.rig.measure = lambda _, asked: (
            self.loads,
            {question.group: self.doubt for question in asked} if self.doubt else {},
        )
        self.rig.crash()
        self.number = 0
        for size in data.draw(st.lists(st.integers(0, 8), min_size=3, max_size=9)):
            self.create(data, size, 1.0)

    def _begin_fencing(self, data: st.DataObject) -> None:
        wrong = st.dictionaries(ANY_NODE, st.sampled_from(sorted(CONTROLS)), max_size=4)
        controls = data.draw(wrong)
        swapped = data.draw(st.none() | st.sampled_from(SWAPPED))
        self.said: set[str] = set()  # whose plug a person has pulled
        self.never = {name for name, kind in controls.items() if kind in ("dead", "lies-off")}
        for name, kind in controls.items():
            self.rig.machines.controls[name] = CONTROLS[kind]
        self.swapped = set(swapped or ())
        for one, two in (swapped, swapped[::-1]) if swapped else ():
            self.never.discard(one)
            self.rig.machines.controls[one] = (Control(of=two),)
        self.some_rounds(12, 61.0)

    def _begin_repairs(self, data: st.DataObject) -> None:
        tag = data.draw(st.sampled_from((*TYPES, "reinstall", "reinstall")))
        self.rig.cluster.world.tags |= {RULES + tag}
        if self.subjects & {FENCING, INCIDENTS}:
            return
        out = data.draw(st.dictionaries(ANY_SICK, st.booleans(), min_size=1, max_size=2))
        if data.draw(st.booleans()):
            out["n3"] = True  # what is plain has its data nowhere else
        for node, offline in out.items():
            self.take_out(node, offline, 1.0)

    def _begin_outages(self, data: st.DataObject) -> None:
        """An entry is under way, and a window comes or its command fails."""
        self.rounds(10.0)
        drained = data.draw(st.sets(OUT, max_size=1)) if INCIDENTS not in self.subjects else set()
        for name in drained:
            node = self.rig.cluster.nodes[name]
            self.rig.cluster.put(replace(node, drained=True, candidate=False))
        self.found = {name: name in drained for name in EVERY}
        self.add_entry("n3")
        self.some_rounds(data.draw(st.integers(2, 24)), 30.0)
        if data.draw(st.booleans()):
            self.plan("n3", 0)
        else:
            self.rig.fates = (BROKEN,)
        self.some_rounds(data.draw(st.integers(0, 12)), 30.0)

    # What the nodes say.

    @about(INCIDENTS, BALANCING)
    @rule(node=ANY_SICK, said=st.sampled_from((OK, *BAD, None)), seconds=SECONDS)
    def says(self, node: str, said: Diagnosis | None, seconds: float) -> None:
        self.rig.agents.says[node] = said
        self.rounds(seconds)

    @about(OUTAGES)
    @rule(node=OUT, said=st.sampled_from((REPAIR, OK, OK)), rounds=st.integers(0, 6))
    def needs_a_repair(self, node: str, said: Diagnosis, rounds: int) -> None:
        self.rig.agents.says[node] = said
        self.some_rounds(rounds, 30.0)

    @about(OUTAGES)
    @rule(node=OUT, said=st.sampled_from((EVACUATE, None)), rounds=st.integers(0, 6))
    def is_dying(self, node: str, said: Diagnosis | None, rounds: int) -> None:
        self.dying = True
        self.rig.agents.says[node] = said
        self.some_rounds(rounds, 30.0)

    @about(INCIDENTS)
    @rule(node=ANY_SICK, said=st.sampled_from(BAD), rounds=st.integers(1, 4), seconds=SECONDS)
    def breaks(self, node: str, said: Diagnosis, rounds: int, seconds: float) -> None:
        """A fault, and some time for it to be worked on."""
        self.rig.agents.says[node] = said
        self.some_rounds(rounds, seconds)

    @about(INCIDENTS)
    @rule(node=ANY_SICK, rounds=st.integers(1, 3), seconds=SECONDS)
    def falls_silent(self, node: str, rounds: int, seconds: float) -> None:
        before = self.rig.agents.says.get(node, OK)
        self.rig.agents.says[node] = None
        self.some_rounds(rounds, seconds)
        self.rig.agents.says[node] = before

    @about(INCIDENTS)
    @rule(node=ANY_SICK)
    def is_mended(self, node: str) -> None:
        """The administrator mends it, acknowledges it and puts it back into service."""
        self.rig.agents.says[node] = OK
        self.rounds(10.0)
        self.promises.acknowledge(node)
        self.rig.cluster.undrain(node)
        self.rounds(10.0)

    # Time.

    @rule(seconds=SECONDS, rounds=st.integers(1, 6))
    def time_passes(self, seconds: float, rounds: int) -> None:
        self.some_rounds(rounds, seconds)

    @about(FENCING)
    @rule(rounds=st.integers(1, 40))
    def much_time_passes(self, rounds: int) -> None:
        self.some_rounds(rounds, STEP)

    @about(INCIDENTS)
    @rule()
    def archived(self) -> None:
        """Seven hours: all finished jobs are archived."""
        self.rounds(7 * 3600.0)

    @about(BESIDE)
    @rule(seconds=st.sampled_from([-4000.0, -100.0, 90_000.0]))
    def set_the_clock(self, seconds: float) -> None:
        """Forward by a day all rests are over; G4 is not for that."""
        self.rig.skew += seconds
        if seconds > 0:
            self.watched.moved.clear()
        counted["clock"] += 1
        self.rounds(10.0)

    # What happens to us.

    @rule(seconds=SECONDS)
    def crash(self, seconds: float) -> None:
        self.rig.crash()
        self.rounds(seconds)

    @rule(name=st.sampled_from(FAILPOINTS), nth=st.integers(1, 2), times=st.integers(1, 4))
    def power_cut(self, name: str, nth: int, times: int) -> None:
        """Rounds, one of which breaks off there, and the end of the process."""
        arm(f"{name}:raise:{nth}")
        try:
            self.some_rounds(times, 10.0)
        finally:
            arm("")
        self.crash(1.0)

    @except_in(OUTAGES)
    @rule(seconds=SECONDS)
    def ledger_lost(self, seconds: float) -> None:
        if INCIDENTS not in self.subjects or self.promises.all_is_told(late=self.late):
            self.rig.lose_ledger()
            self.promises.lost = True
            counted["ledger lost"] += 1
        self.rounds(seconds)

    @about(INCIDENTS)
    @except_in(OUTAGES)
    @rule(
        node=ANY_SICK,
        said=st.sampled_from([EVACUATE, FAILOVER, REPAIR]),
        kind=st.sampled_from([Drain, MovePrimary, MoveSecondary, SetOffline]),
        rounds=st.integers(2, 5),
        seconds=st.sampled_from([1.0, 10.0]),
    )
    def a_failure_and_the_ledger_lost(
        self, node: str, said: Diagnosis, kind: type, rounds: int, seconds: float
    ) -> None:
        """Perhaps before the failure was told."""
        self.rig.agents.says[node] = said
        self.failing = {kind}
        self.some_rounds(rounds, seconds)
        self.ledger_lost(1.0)
        self.failing = set()
        self.rounds(seconds)

    @rule(seconds=SECONDS, late=st.sampled_from([0.0, 3.0]), again=SECONDS)
    def answers_are_lost(self, seconds: float, late: float, again: float) -> None:
        """A round whose answers are lost, and one that finds out."""
        self.lossy, self.late = True, late
        self.rounds(seconds)
        self.lossy = False
        self.rounds(again)

    @about(INCIDENTS, BALANCING)
    @rule(kinds=st.sets(st.sampled_from([*KINDS, RunCommand]), max_size=2), seconds=SECONDS)
    def jobs_fail(self, kinds: set[type], seconds: float) -> None:
        self.failing = kinds
        self.rounds(seconds)

    @about(REPAIRS, BALANCING)
    @rule(kind=st.sampled_from((MovePrimary, MoveSecondary, Reinstall)), seconds=SECONDS)
    def jobs_fail_late(self, kind: type, seconds: float) -> None:
        self.late_failing ^= {kind}
        self.rounds(seconds)

    @rule()
    def disk_is_full_for_a_round(self) -> None:
        def full(*_: object) -> None:
            raise Unavailable("disk full")

        with patch.object(self.rig.store, "save", full):
            self.rounds(10.0)

    @rule()
    def queue_is_drained_for_a_while(self) -> None:
        self.rig.cluster.queue_drained = True
        self.rounds(10.0)
        self.rig.cluster.queue_drained = False

    # The master and its ledger.

    @about(OUTAGES)
    @rule(name=st.sampled_from(MASTERS), times=st.integers(1, 3))
    def fail_over(self, name: str, times: int) -> None:
        self.rig.fail_over(name)
        counted["failovers"] += 1
        self.some_rounds(times, 10.0)

    @about(OUTAGES)
    @rule(how=st.sampled_from(["", "is refused", "loses its answer"]))
    def ask(self, how: str) -> None:
        """Add a series that begins in a year; once Ganeti has it, it is there for ever."""
        self.asked += 1
        begins = self.rig.now() // 86_400_000 + EPOCH + 365
        machines, minute = (Machine("n6"),), self.asked
        asked = AddSeries(machines, (6,), minute, "UTC", Seconds(60), begins=begins)
        self.rig.cluster.keeps = lambda _: "no" if how == "is refused" else ""
        self.rig.cluster.loses_rule = lambda _: how == "loses its answer"
        wish = self.rig.wish(asked)
        self.rounds(10.0)
        if self.rig.store.answer(wish) == "" and not self.rig.engine.memory.only_here():
            counted["acknowledged"] += 1
            self.acknowledged.add(self.asked)
        self.rig.cluster.keeps = lambda _: ""
        self.rig.cluster.loses_rule = lambda _: False

    @about(OUTAGES)
    @rule(name=st.sampled_from(MASTERS))
    def lose_disk(self, name: str) -> None:
        """The disk of a node that is not the master is lost, or the master's while it is down."""
        self.rig.disks[name] = SqliteStore(MEMORY)
        if name == self.rig.me:
            self.rig.wake(name)
        self.rounds(10.0)

    @about(OUTAGES)
    @rule(text=st.sampled_from([None, "", "rubbish"]))
    def change_rule(self, text: str | None) -> None:
        """Somebody changes it beside a maintd that runs, which mends it."""
        self.rounds(10.0)
        self.rig.cluster.world.ledger_rule = text
        self.rounds(10.0)

    # What administrators ask for.

    @about(INCIDENTS, OUTAGES)
    @precondition(lambda self: self.rig.ledger.incidents)
    @rule(data=st.data(), seconds=SECONDS, rounds=st.integers(1, 2))
    def cancel(self, data: st.DataObject, seconds: float, rounds: int) -> None:
        known = self.rig.ledger.incidents  # rather one that can still be canceled
        under_way = tuple(incident for incident in known if incident.status.active)
        incident = data.draw(st.sampled_from(under_way or known))
        self.promises.asked[self.rig.wish(Cancel(incident.id))] = incident
        self.some_rounds(rounds, seconds)

    @about(INCIDENTS)
    @precondition(lambda self: self.rig.ledger.incidents)
    @rule(data=st.data())
    def retry(self, data: st.DataObject) -> None:
        self.rig.wish(Retry(data.draw(st.sampled_from(self.rig.ledger.incidents)).id))

    @about(INCIDENTS, OUTAGES)
    @rule(node=ANY_SICK, on=st.booleans())
    def pause(self, node: str, on: bool) -> None:
        self.rig.wish(Pause(Scope.NODE, node, "later") if on else Resume(Scope.NODE, node))

    @about(BALANCING)
    @rule(seconds=SECONDS)
    def pause_all_by_a_tag(self, seconds: float) -> None:
        world = self.rig.cluster.world
        world.tags = world.tags ^ {"maintd:pause:yes"}
        self.rounds(seconds)

    @about(INCIDENTS)
    @rule()
    def calm(self) -> None:
        self.rig.wish(ResetStorm())

    @about(INCIDENTS)
    @rule(node=ANY_SICK, seconds=SECONDS)
    def acknowledge(self, node: str, seconds: float) -> None:
        self.promises.acknowledge(node)
        self.rounds(seconds)

    @about(BALANCING)
    @rule(seconds=SECONDS)
    def acknowledge_balancing(self, seconds: float) -> None:
        """Somebody removes the tags that tell of failures."""
        for group in list(self.rig.cluster.world.groups.values()):
            told = {tag for tag in group.tags if tag.startswith(FAILED_TAG)}
            if told:
                counted["balancing acknowledged"] += 1
                self.rig.cluster.put(replace(group, tags=group.tags - told))
                self.watched.forgiven |= {
                    job.number
                    for job in self.rig.cluster.jobs.values()
                    if job.outcome is Outcome.ERROR
                }
        self.rounds(seconds)

    @about(BESIDE)
    @rule(data=st.data(), seconds=SECONDS)
    def ask_for_moves(self, data: st.DataObject, seconds: float) -> None:
        """A list of moves, possible or not; or whatever is advised; or no more of it."""
        shifts = []
        for _ in range(data.draw(st.integers(0, 3))):
            one = self._some_instance(data)
            if one is not None:
                to = data.draw(st.permutations(EVERY[:6]))[: 2 if one.secondary else 1]
                shifts.append(Shift(one.name, Spot(one.primary, one.secondary), Spot(*to)))
        stop = data.draw(st.integers(0, 3)) == 0
        group = data.draw(st.sampled_from(["default", "other"]))
        self.rig.wish(StopBalancing(group) if stop else Balance(group, tuple(shifts)))
        self.rounds(seconds)

    @about(OUTAGES)
    @rule(node=OUT)
    def add_entry(self, node: str) -> None:
        self.rig.wish(AddEntry("unreachable", "r640", node))

    @about(OUTAGES)
    @rule(finished=st.booleans())
    def delete_entries(self, finished: bool) -> None:
        self.rig.wish(DeleteEntries(finished=finished))

    @about(OUTAGES)
    @rule(enabled=st.sampled_from([True, True, False]))
    def switch_queue(self, enabled: bool) -> None:
        self.rig.wish(SetQueue(enabled=enabled))
        self.rig.wish(ResetBackOff())

    @about(OUTAGES)
    @rule(healed=st.booleans(), fails=st.booleans())
    def heal(self, healed: bool, fails: bool) -> None:
        self.rig.healed = healed
        self.rig.fates = (BROKEN,) if fails else ()

    @about(OUTAGES)
    @rule(node=OUT, ahead=st.sampled_from([0, 0, 7200]), rounds=st.integers(0, 6))
    def plan(self, node: str, ahead: float, rounds: int = 0) -> None:
        start = Nanoseconds(round((self.rig.time + ahead) * 1e9))
        when = Unavailability(start, Nanoseconds(HOUR * 10**9))
        self.rig.wish(SetSchedule(Schedule((Window((Machine(node),), when),))))
        self.some_rounds(rounds, 30.0)

    @about(OUTAGES)
    @rule(rounds=st.integers(0, 6))
    def unplan(self, rounds: int) -> None:
        self.rig.wish(SetSchedule(Schedule(())))
        self.some_rounds(rounds, 30.0)

    @about(OUTAGES)
    @rule(node=OUT, down=st.booleans(), rounds=st.integers(0, 6))
    def take_down_or_bring_up(self, node: str, down: bool, rounds: int) -> None:
        machines = (Machine(node),)
        self.rig.wish(TakeDown(machines) if down else BringUp(machines))
        self.some_rounds(rounds, 30.0)

    # What they do themselves.

    @about(REPAIRS, BALANCING)
    @except_in(FENCING, INCIDENTS)
    @rule(node=ANY_SICK, offline=st.booleans(), seconds=SECONDS)
    def take_out(self, node: str, offline: bool, seconds: float) -> None:
        there = self.rig.cluster.nodes[node]
        self.rig.cluster.put(replace(there, offline=offline, drained=not offline, candidate=False))
        if offline:  # it is dead: maintd repairs no instance of one that is only marked so
            self.rig.agents.says[node] = None
        else:
            self._wakes(node)
        self.rounds(seconds)

    @about(REPAIRS, BALANCING)
    @except_in(FENCING, INCIDENTS)
    @rule(node=ANY_SICK, seconds=SECONDS)
    def bring_back(self, node: str, seconds: float) -> None:
        self.rig.cluster.undrain(node)
        self._wakes(node)
        self.rounds(seconds)

    def _wakes(self, node: str) -> None:
        if self.rig.agents.says.get(node, OK) is None:
            del self.rig.agents.says[node]

    @about(INCIDENTS)
    @rule(node=ANY_SICK, words=st.sampled_from([None, REWORDED, FAILOVER]), seconds=SECONDS)
    def put_back(self, node: str, words: Diagnosis | None, seconds: float) -> None:
        """In the midst of it, the node perhaps putting it in other words at the same time."""
        busy = [
            i
            for i in self.rig.ledger.incidents
            if i.name == node and i.status is Status.PENDING and i.drained
        ]
        said = self.rig.agents.says.get(node, OK)
        if busy and said is not None and said == busy[0].diagnosis:
            self.promises.put_back_by_hand[node] = said
        self.rig.cluster.undrain(node)
        if words is not None and said is not None and said.need >= EVACUATE.need:
            self.rig.agents.says[node] = words
        self.rounds(seconds)

    @about(INCIDENTS)
    @precondition(lambda self: self.running())
    @rule(data=st.data(), seconds=SECONDS)
    def cancel_job(self, data: st.DataObject, seconds: float) -> None:
        self.rig.cluster.cancel(data.draw(st.sampled_from([job.number for job in self.running()])))
        self.rounds(seconds)

    @about(INCIDENTS)
    @rule(name=st.sampled_from([f"i{n}" for n in range(1, len(PLACES) + 1)]), seconds=SECONDS)
    def somebody_moves_an_instance(self, name: str, seconds: float) -> None:
        instance = self.rig.cluster.instances[name]
        aim = instance.secondary
        fit = aim is not None and aim not in SICK and self.rig.cluster.nodes[aim].in_service
        busy = any(getattr(job.action, "instance", "") == name for job in self.running())
        if aim is not None and fit and not busy:
            self.watched.meddled = True
            self.rig.cluster.put(replace(instance, primary=aim, secondary=instance.primary))
        self.rounds(seconds)

    @about(BESIDE)
    @rule(data=st.data(), size=st.integers(0, 8), seconds=SECONDS)
    def create(self, data: st.DataObject, size: int, seconds: float) -> None:
        self.number += 1
        template = data.draw(st.sampled_from(TEMPLATES))
        first, second = data.draw(st.permutations(EVERY[:6]))[:2]
        new = Instance(
            f"i{self.number}",
            first,
            second if template == "drbd" else None,
            template,
            memory=50 * size,
            disk=20 * size,
            running=data.draw(st.integers(0, 4)) > 0,
            auto_balance=data.draw(st.integers(0, 6)) > 0,
            always_failover=data.draw(st.integers(0, 6)) == 0,
        )
        world = self.rig.cluster.world
        there = world.free(tuple(filter(None, (first, new.secondary))))
        fits = len(there) == 1 + (new.secondary is not None)
        fits = fits and all(has.disk >= new.disk for has in there.values())
        if fits and there[first].memory >= new.memory:
            world.put(new)
        self.rounds(seconds)

    def _some_instance(self, data: st.DataObject) -> Instance | None:
        there = self.rig.cluster.instances
        return there[data.draw(st.sampled_from(sorted(there)))] if there else None

    @about(BESIDE)
    @rule(data=st.data(), what=st.sampled_from(["stop", "start", "remove", "grow"]))
    def change(self, data: st.DataObject, what: str) -> None:
        one = self._some_instance(data)
        if one is None:
            return
        busy = str([j.action for j in self.rig.cluster.jobs.values() if j.began and j.locks])
        if f"'{one.name}'" in busy:
            return  # whoever changes it waits for its lock
        if what == "remove":
            self.rig.cluster.remove_instance(one.name)
        elif what == "grow":
            self.rig.cluster.put(replace(one, memory=one.memory + 100))
        else:
            self.rig.cluster.put(replace(one, running=what == "start"))
        self.rounds(10.0)

    @about(BESIDE)
    @rule(data=st.data(), there=ANY_NODE, mirror=st.booleans(), seconds=SECONDS)
    def move_by_hand(self, data: st.DataObject, there: str, mirror: bool, seconds: float) -> None:
        one = self._some_instance(data)
        if one is None:
            return
        if mirror and one.secondary is not None:
            action: MovePrimary | MoveSecondary = MoveSecondary(one.name, one.secondary, there)
        else:
            to = there if one.shared else one.secondary
            action = MovePrimary(one.name, one.primary, True, to)
        self.rig.cluster.submit_foreign(action)
        counted["by hand"] += 1
        self.rounds(seconds)

    @about(BESIDE)
    @rule(node=st.sampled_from(EVERY[1:6]), how=st.sampled_from(["drained", "offline", "group"]))
    def change_node(self, node: str, how: str) -> None:
        there = self.rig.cluster.nodes[node]
        if how == "group":
            to = "other" if there.group == "default" else "default"
            self.rig.cluster.put(replace(there, group=to))
        else:
            flags: dict[str, Any] = {how: not getattr(there, how), "candidate": False}
            self.rig.cluster.put(replace(there, **flags))
        self.rounds(10.0)

    @about(BESIDE)
    @rule(data=st.data(), seconds=SECONDS)
    def load(self, data: st.DataObject, seconds: float) -> None:
        """Noise: another one works, and perhaps nobody knows."""
        self.doubt = data.draw(st.sampled_from(["", "", "the load of n2 is unknown"]))
        for name in self.rig.cluster.instances:
            self.loads[name] = Load(float(data.draw(st.integers(0, 4))), 1.0, 1.0, 1.0)
        self.rounds(seconds)

    # Tags of repairs.

    @about(REPAIRS)
    @rule(name=ANY_NAMED, tag=st.sampled_from(TYPES), seconds=SECONDS)
    def allow(self, name: str, tag: str, seconds: float) -> None:
        self._tag(name, RULES + tag)
        self.rounds(seconds)

    @about(REPAIRS)
    @rule(name=ANY_NAMED, until=st.sampled_from(["", ":", ":bad", 5, 90]))
    def suspend(self, name: str, until: str | int) -> None:
        end = f":{int(self.rig.time) + until}" if isinstance(until, int) else until
        self._tag(name, f"{RULES}suspend{end}")
        self.rounds(1.0)

    @about(REPAIRS)
    @rule(name=ANY_NAMED, kind=st.sampled_from(TYPES))
    def ask_for_a_repair(self, name: str, kind: str) -> None:
        """A repair once, whatever is allowed."""
        self.asked += 1
        self._tag(name, f"{RULES}pending:{kind}:{FOREIGN}{self.asked:03}:{int(self.rig.time)}:")
        self.rounds(1.0)

    @about(REPAIRS)
    @rule(name=ANY_NAMED, seconds=SECONDS)
    def clear(self, name: str, seconds: float) -> None:
        """Somebody removes all tags, pending ones too."""
        self.rig.cluster.put(replace(self.rig.cluster.instances[name], tags=frozenset()))
        self.rounds(seconds)

    @about(REPAIRS)
    @rule(name=ANY_NAMED, data=st.data())
    def remove_one(self, name: str, data: st.DataObject) -> None:
        instance = self.rig.cluster.instances[name]
        if instance.tags:
            tag = data.draw(st.sampled_from(sorted(instance.tags)))
            self.rig.cluster.put(replace(instance, tags=instance.tags - {tag}))
        self.rounds(1.0)

    @about(REPAIRS)
    @rule(name=ANY_NAMED)
    def malform(self, name: str) -> None:
        self._tag(name, f"{RULES}pending:nonsense")
        self.rounds(1.0)

    @about(REPAIRS)
    @rule(name=ANY_NAMED)
    def vanish(self, name: str) -> None:
        """A job that is over cannot be found any more."""
        cluster = self.rig.cluster
        for job in list(cluster.jobs.values()):
            repairs = isinstance(job.action, Guarded) and job.action.then.instance == name
            if repairs and job.outcome is not Outcome.RUNNING:
                cluster._reasons.pop(job.reason, None)
                job.ends = -cluster.forgets_after - 1
        self.rounds(1.0)

    def _tag(self, name: str, tag: str) -> None:
        instance = self.rig.cluster.instances[name]
        self.rig.cluster.put(replace(instance, tags=instance.tags | {tag}))

    # Machines.

    @about(FENCING)
    @rule(node=DYING, how=HOW, alone=st.integers(0, 3))
    def die(self, node: str, how: str, alone: int) -> None:
        """Mostly alone, and for a while: many that die together are the brakes' case."""
        for name in sorted(self.rig.cluster.nodes) if alone else ():
            if name != node and not self.rig.cluster.nodes[name].offline:
                self.be_well(name)
        if how == "off":
            self.rig.machines.switch_off(node)
        else:
            getattr(self.rig.machines, how).add(node)
        self.some_rounds(40 if alone else 4, STEP)

    @about(FENCING)
    @rule(node=ANY_NODE)
    def be_well(self, node: str) -> None:
        """The network is back, or a person presses the button."""
        machines = self.rig.machines
        if node in self.swapped and self.rig.cluster.nodes[node].offline:
            return  # known: a power-off hits it, and nobody asks whether it still answers
        for broken in (machines.unplugged, machines.cut, machines.hung, machines.apart):
            broken.discard(node)
        if node in machines.off or self.rig.time % 3 == 0:
            machines.switch_on(node)
        self.rounds(STEP)

    @about(FENCING)
    @rule(node=ANY_NODE, soon=st.booleans())
    def pull_the_plug(self, node: str, soon: bool) -> None:
        """A person cuts the power of a node that does not answer, and says so."""
        machines = self.rig.machines
        if node in machines.off | machines.hung | machines.cut:
            machines.switch_off(node)
            machines.unplugged.add(node)
            self.some_rounds(0 if soon else 2, STEP)
            machines.switch_off(node)
            wish = self.rig.wish(PulledPlug(node))
            self.rounds(STEP)
            if self.rig.store.answer(wish) == "":
                self.said.add(node)
            self.some_rounds(2, STEP)

    @about(FENCING)
    @rule(kind=st.sampled_from(sorted(SLOW)), times=st.integers(1, 12))
    def hold_jobs_in_the_queue(self, kind: str, times: int) -> None:
        """Until another kind of them is held there, behind jobs that are stuck."""
        self.rig.cluster.pauses = SLOW[kind]
        self.some_rounds(times, STEP)

    @about(FENCING)
    @rule(node=ANY_NODE, how=HOW, kind=st.sampled_from(sorted(SLOW)), crash=st.booleans())
    def recover_while_jobs_wait(self, node: str, how: str, kind: str, *, crash: bool) -> None:
        self.rig.cluster.pauses = SLOW[kind]
        self.die(node, how, 1)
        if crash:
            self.rig.lose_ledger()
        self.be_well(node)
        self.some_rounds(2, STEP)
        self.hold_jobs_in_the_queue("none", 4)

    @about(FENCING)
    @rule(node=ANY_NODE)
    def part(self, node: str) -> None:
        """Its DRBD network fails as well; then nothing contradicts a control that lies."""
        if self.rig.machines.controls[node] != CONTROLS["lies-off"]:
            self.rig.machines.apart.add(node)

    @about(FENCING)
    @rule(node=st.sampled_from(["n3", "n5"]), how=HOW, rounds=st.integers(1, 8))
    def die_some_time_after_the_link(self, node: str, how: str, rounds: int) -> None:
        """Its disks on the secondary miss writes, and are up to date to DRBD."""
        self.part(node)
        self.some_rounds(rounds, STEP)
        self.die(node, how, 1)

    @about(FENCING)
    @rule(node=ANY_NODE)
    def restart_agent(self, node: str) -> None:
        """It forgets when it saw its disks connected."""
        known = self.rig.mirrors.complete
        self.rig.mirrors.complete = {at: seen for at, seen in known.items() if at[0] != node}

    @about(FENCING)
    @rule(node=ANY_NODE, kind=st.sampled_from(sorted(CONTROLS)))
    def change_control(self, node: str, kind: str) -> None:
        """Only DRBD contradicts one that has worked, and lies now."""
        mirrored_there = {
            name
            for instance in self.rig.cluster.instances.values()
            if instance.secondary
            for name in (instance.primary, instance.secondary)
        }
        apart = node in self.rig.machines.apart
        if kind == "lies-off" and (apart or node not in mirrored_there):
            return
        if node in self.swapped:
            return
        if kind != "dead":
            self.never.discard(node)
        self.rig.machines.controls[node] = CONTROLS[kind]

    @about(FENCING)
    @rule(node=ANY_NODE, checked=st.booleans())
    def return_to_service(self, node: str, checked: bool) -> None:
        """A person looks at the machine, powers it on, and takes it back.

        Unless it was `checked`, it is still tagged as fenced, as after `gnt-node add --readd`.
        """
        machines = self.rig.machines
        if node in machines.off | machines.hung | machines.cut:
            return
        if self.rig.cluster.nodes[node].offline:
            self.rig.cluster.undrain(node)
            if checked:
                here = self.rig.cluster.nodes[node]
                self.rig.cluster.put(replace(here, tags=frozenset()))
            self.rounds(STEP)

    # One round, and all that is promised of it.

    def some_rounds(self, times: int, seconds: float) -> None:
        for _ in range(times):
            self.rounds(seconds)

    def rounds(self, seconds: float) -> None:
        rig = self.rig
        rig.pass_by(min(seconds, 61.0) if FENCING in self.subjects else seconds)
        before, known = self.promises.before(), len(rig.machines.commands)
        began = time.thread_time()
        done: Round | None = None
        try:
            done = rig.round()
            self.done = done
        except Unavailable:
            counted["broken off"] += 1
        assert time.thread_time() - began < ROUND, "P6: a round takes too long"
        assert done is None or done.idle is None
        rig.after_round(known)
        self.watched.note_moves()
        self.promises.after(before, held=done is not None)
        self.one_owner_a_node()

    def one_owner_a_node(self) -> None:
        """O1: by the jobs under way, the entries at work and the incidents that have begun.

        One incident may wait at a node for what another has begun.
        """
        one = "" if self.subjects == {OUTAGES} else "an incident"
        owners: dict[str, set[str]] = {}
        by_address = {node.address: node.name for node in self.rig.cluster.nodes.values()}
        ledger = self.rig.ledger
        for entry in ledger.queue.entries:
            if entry.at_work:
                owners.setdefault(by_address[entry.address], set()).add(entry.owner)
        for incident in ledger.incidents:
            if incident.status is Status.PENDING:
                owners.setdefault(incident.name, set()).add(one or incident.id)
        for intent in ledger.intents:
            if isinstance(intent.action, OWNED) and intent.node:
                who = one if one and intent.incident else intent.owner
                owners.setdefault(intent.node, set()).add(who)
        assert all(len(found) == 1 for found in owners.values()), f"O1: {owners}"

    @about(OUTAGES)
    @invariant()
    def o2_what_was_acknowledged_is_known(self) -> None:
        there = {series.rule.minute for series in self.rig.ledger.series}
        assert self.acknowledged <= there, "O2"
        assert self.rig.doubtful is None
        assert not self.rig.ledger.away

    @invariant()
    def o3_a_node_that_maintd_took_out_is_somebody_s(self) -> None:
        if (done := self.done) is None:
            return
        ledger, observed = done.decision.ledger, done.observed
        theirs = list(needs_you(ledger, observed, done.decision.held, observed.unanswered, done.at))
        told = {one.node for one in theirs}
        told |= {one.incident.name for one in theirs if one.incident is not None}
        work = {one.node for one in ledger.returning} | {one.node for one in ledger.fencing}
        work |= {one.node for one in ledger.scheduled if one.mode is not Mode.UP}
        work |= {one.node for one in ledger.incidents if one.status.active}
        restores = (one.action for one in ledger.intents if isinstance(one.action, Restore))
        told |= {restore.node for restore in restores}
        whys = [held.why for held in done.decision.held]
        told |= {why.subject.name for why in whys if why.kind is Kind.TO_BE_PUT_BACK}
        for one in ledger.drained:
            node = next((n for n in observed.snapshot.nodes.values() if n.uuid == one.node), None)
            if node is None or node.in_service or node.uuid in work:
                continue
            assert node.name in told, f"O3: {node.name}: {whys}: {ledger.intents}"

    @about(FENCING)
    @invariant()
    def p7_no_instance_runs_twice(self) -> None:
        assert not self.rig.machines.twice(), self.rig.cluster.jobs

    @about(FENCING)
    @invariant()
    def p8_no_more_than_the_limits(self) -> None:
        rig = self.rig
        going = [one for one in rig.ledger.fencing if not (one.stage.over or one.who)]
        assert len(going) <= rig.policy.fence_limit
        offs = rig.powered_off()
        lately = {node for at, node in offs if rig.time - at < HOUR - 60}
        assert len(lately) <= rig.policy.fence_burst, offs
        assert rig.cluster.world.master not in {node for _, node in offs}

    @about(FENCING)
    @invariant()
    def p9_a_wrong_control_ends_in_a_reason(self) -> None:
        fenced = {
            job.action.node
            for job in self.ours()
            if isinstance(job.action, SetOffline)
            and isinstance(purpose_of(job.reason.rpartition(":")[0]), OfFencing)
        }
        counted["fenced"] += len(fenced)
        assert not ((self.never | self.swapped) - self.said) & fenced

    @about(FENCING)
    @invariant()
    def p10_no_node_that_answers_is_powered_off(self) -> None:
        assert not self.rig.hit

    @about(FENCING)
    @invariant()
    def p11_no_instance_starts_on_a_mirror_that_missed_writes(self) -> None:
        assert not self.rig.cluster.world.outdated, self.rig.ledger

    # Nothing happens any more.

    def teardown(self) -> None:
        if self.cluster is None:
            return
        cluster = self.rig.cluster
        cluster.queue_drained, cluster.pauses = False, SLOW["none"]
        self.failing, self.late_failing, self.lossy = set(), set(), False
        if self.subjects == {INCIDENTS}:
            self._ends_as_without_ledger()
        elif BALANCING in self.subjects:
            self._gets_even()
        elif REPAIRS in self.subjects:
            self._rests()
        elif OUTAGES in self.subjects:
            self._ends_as_found()

    def _rests(self) -> None:
        """E1."""
        self.some_rounds(20, 310.0)
        self._submits_nothing()
        seen = self.rig.cluster.snapshot()
        for instance in seen.instances.values():
            places = [seen.nodes[name] for name in (instance.primary, instance.secondary) if name]
            well = all(node.in_service for node in places)
            suspended = any(f"{RULES}suspend" in tag for tag in instance.tags)
            unclear = any("nonsense" in tag or ":failure:" in tag for tag in instance.tags)
            pending = any(f"{RULES}pending" in tag for tag in instance.tags)
            assert not (well and pending) or suspended or unclear, f"E1: {instance}"

    def _submits_nothing(self) -> None:
        jobs = self.rig.cluster.jobs
        known = set(jobs)
        self.some_rounds(5, 310.0)
        fresh = [job for number, job in jobs.items() if number not in known]
        fresh = [job for job in fresh if not isinstance(job.action, Retag | Power)]
        assert not fresh, f"E1: it never rests: {fresh}"

    def _gets_even(self) -> None:
        """E2."""
        rig = self.rig
        rig.cluster.world.tags -= {"maintd:pause:yes"}
        rig.agents.says.clear()
        self.loads.clear()
        self.doubt = "the load is no longer known"
        self.some_rounds(20, 500.0)
        for node in list(rig.cluster.nodes):
            rig.cluster.undrain(node)
            self.promises.acknowledge(node)
            rig.cluster.untag(node, *rig.cluster.nodes[node].tags)
        for group in list(rig.cluster.world.groups.values()):
            rig.wish(StopBalancing(group.name))
        self.acknowledge_balancing(500.0)
        scores: dict[str, list[float]] = {}
        for _ in range(30):
            self.rounds(500.0)
            for uuid, advice in rig.engine._adviser.advice().items():
                if not advice.why and not any(i.purpose.group == uuid for i in rig.ledger.intents):
                    scores.setdefault(uuid, []).append(advice.score)
        for uuid, each in scores.items():
            assert each[-1] <= each[0] + 1e-9, f"E2: {uuid}: {each[0]} to {each[-1]}"
        self._submits_nothing()
        if rig.ledger.incidents or rig.ledger.halts or self.watched.meddled:
            return
        last = rig.engine._adviser.advice()["default"]
        assert not last.why, f"E2: {last}"
        assert last.score - last.final < rig.policy.balance_threshold, f"E2: {last}"
        counted["even"] += 1

    def _ends_as_found(self) -> None:
        """E3: everything is taken back, and whatever goes on ends."""
        rig = self.rig
        rig.cluster.takes = lambda _: 1.0
        for name in SICK:
            rig.agents.says[name] = OK
            rig.wish(Resume(Scope.NODE, name))
            self.rounds(10.0)
            rig.wish(BringUp((Machine(name),)))
            self.rounds(10.0)
        rig.wish(SetSchedule(Schedule(())))
        rig.wish(SetQueue(enabled=True))
        for incident in rig.ledger.incidents:
            rig.wish(Cancel(incident.id))
        rig.wish(DeleteEntries(finished=True))
        rig.wish(DeleteEntries(finished=False))
        for n in range(200):
            if n % 20 == 0:  # a pause is a tag, which may have been on its way when it was ended
                for name in SICK:
                    rig.wish(Resume(Scope.NODE, name))
            self.rounds(60.0)
            if not (rig.ledger.queue.entries or rig.ledger.scheduled or rig.ledger.intents):
                break
        else:
            raise AssertionError(f"E1: {rig.ledger}")
        if self.dying or INCIDENTS in self.subjects:
            return
        counted["as found"] += 1
        for name, node in rig.cluster.nodes.items():
            assert (node.drained, node.offline) == (self.found[name], False), f"E3: {name}"

    def _ends_as_without_ledger(self) -> None:
        """P5."""
        rig = self.rig
        for node, said in rig.agents.says.items():
            rig.agents.says[node] = said or OK
        rig.time += 10.0
        rig.round()
        told = self.promises.all_is_told(late=self.late)
        other = self._without_ledger() if told else None
        rest = _rest(rig)
        if other is None:
            return
        counted["compared"] += 1
        differs = _rest(other) ^ rest
        # Ganeti does not tell whether a fault was gone for a while after its repair was
        # acknowledged: it is taken for a new one. Nor does it tell of which incident
        # somebody has undone the draining, where one has gone on in the name of another.
        lasting = {
            i.name
            for i in rig.ledger.incidents
            if i.status is Status.COMPLETED and i.diagnosis == rig.agents.says.get(i.name, OK)
            if i.mark not in rig.cluster.nodes[i.name].tags
        }
        differs -= lasting | self.promises.put_back_by_hand.keys()
        # That is held, and may hold others whose mirrors are there.
        held = rig.round().decision.held
        undone = any(one.why.kind is Kind.PUT_BACK_BY_OTHERS for one in held)
        assert undone or not differs, f"P5: {differs}: {other.ledger} and not {rig.ledger}"

    def _without_ledger(self) -> Rig:
        rig, other = self.rig, Rig(fleet(7), [], self.rig.policy)
        other.time = rig.time
        kept = {name: getattr(rig.cluster, name) for name in CLUSTER}
        for name, value in copy.deepcopy(kept).items():
            setattr(other.cluster, name, value)
        other.cluster.world.ledger_rule = None
        other.cluster.takes = rig.cluster.takes
        other.agents.ran, other.agents.says = dict(rig.agents.ran), dict(rig.agents.says)
        other.agents.takes = rig.agents.takes
        return other


def _rest(rig: Rig) -> set[str]:
    """The nodes with something still to be done, long after all has been said.

    Without the ledger nobody knows what an offline node had: it is not asked.
    """
    for _ in range(2):
        rig.settle(300, 100.0)
        rig.tick(rig.policy.withdraw / 1000)
    left: set[str] = set()
    for incident in rig.ledger.incidents:
        said = rig.agents.says.get(incident.name, OK)
        asked = not rig.cluster.nodes[incident.name].offline
        over = asked and said != incident.diagnosis and not incident.repaired
        assert not (over and incident.status.active), f"{incident} though it says {said}"
        if incident.status.active and asked:
            left.add(incident.name)
    return left


@pytest.mark.timeout(600)
@pytest.mark.parametrize("subjects", LIVES, ids=lambda subjects: "+".join(sorted(subjects)))
def test_whatever_happens_what_is_promised_holds(subjects: frozenset[str]) -> None:
    class About(Coordinator):
        pass

    About.subjects = subjects
    run = at_random(LIVES[subjects], steps=25)
    run_state_machine_as_test(About, settings=run)  # type: ignore[no-untyped-call]


def test_the_machine_was_where_it_matters() -> None:
    moves = ("MovePrimary", "MoveSecondary")
    repaired = [f"repaired by {move}" for move in (*moves, "Reinstall")]
    balanced = [f"balanced by {move}" for move in moves]
    seen = [kind.__name__ for kind in (*KINDS, RunCommand)]
    seen += ["cancels", "ledger lost", "broken off", "compared", "clock", "by hand", "even"]
    seen += ["fenced", "acknowledged", "failovers", "as found", "balancing acknowledged"]
    hold_that_it_was(counted, [*seen, *repaired, *balanced])
