"""Balancing beside everybody else: administrators' jobs, wishes, growth, and clocks set wrong.

P1 what is submitted Ganeti would do at that moment, once what of ours runs already is done.
P2 nothing is begun with an instance that somebody else's job is at work on.
P3 what is advised leaves no node without room for another one's failure that had it.
P4 what was moved rests, but for what somebody asks for by name.
P5 at a node is one of us at a time: who moves something there, repairs or empties it.
P6 balancing alone never ends with a higher score than it began with, and ends.
"""

import copy
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from nodeagent.cluster.backend import Answer, Submission
from nodeagent.maintd.planning.resources import needs_memory, target_of
from nodeagent.model.action import MovePrimary, MoveSecondary, RunCommand, move_of
from nodeagent.model.balance import FAILED_TAG, Shift, Spot
from nodeagent.model.ledger import Outcome
from nodeagent.model.snapshot import Capacity, Group, Instance
from nodeagent.model.units import Ms
from nodeagent.model.wish import Balance, StopBalancing
from nodeagent.placement.cluster.cluster import Load
from simulation.world import World
from tests.maintd.lives.life import Coordinated, at_random, hold_that_it_was
from tests.maintd.rig import QUICK, Between, Rig, fleet
from tests.maintd.world import EVACUATE, OK, REPAIR

COOLDOWN = 400
ON = replace(
    QUICK,
    balance=True,
    balance_settle=Ms(20_000),
    balance_cooldown=Ms(COOLDOWN * 1000),
    balance_load=True,
    withdraw=Ms(30_000),
)
NODES = tuple(f"n{n}" for n in range(1, 7))
SECONDS = st.sampled_from([1.0, 10.0, 10.0, 70.0, 500.0])
TEMPLATES = ("drbd", "drbd", "drbd", "ext", "plain", "diskless")
counted: Counter[str] = Counter()


def is_ours(reason: str) -> bool:
    return reason.startswith("balance:")


def owner(reason: str) -> str:
    """For whom a job is: all but its number."""
    return reason.rpartition(":")[0]


def short(world: World) -> set[str]:
    """The nodes that could not take over what the failure of some other one would bring."""
    brought: Counter[tuple[str, str]] = Counter()
    for one in world.instances.values():
        if one.secondary is not None and one.auto_balance:
            brought[one.secondary, one.primary] += needs_memory(one)
    free = world.free(world.nodes)
    return {n for (n, _), mib in brought.items() if n in free and mib > free[n].memory}


class Watched(Between):
    """Looks at every submission, as it is made."""

    rig: Rig
    moved: dict[str, float]

    def submit(self, batch: Sequence[Submission]) -> Sequence[Answer]:
        ahead, beside = copy.deepcopy(self.cluster._now()), self.cluster.busy()
        running = [j for j in self.cluster.jobs.values() if j.outcome is Outcome.RUNNING and j.ours]
        for job in running:
            ahead.apply(job.action)
        before = short(ahead)
        listed = {a.group for a in self.rig.ledger.agenda if a.listed}
        asked = False
        for submission in batch:
            self._one_at_a_node(submission, [(j.reason, j.action) for j in running])
            said = ahead.apply(submission.action)
            if not is_ours(submission.reason):
                continue
            move = move_of(submission.action)
            assert move is not None
            counted[type(submission.action).__name__] += 1
            assert not said, f"P1: {submission.action}: {said}"
            asked = asked or submission.reason.split(":")[1] in listed
            if submission.after is None:
                assert move.instance not in beside, f"P2: {submission.action}"
                last = self.moved.get(move.instance, -1e12)
                rests = self.rig.time - last < COOLDOWN and not asked
                assert not rests, f"P4: {submission.action}"
        followed = any(s.after is not None for s in batch)
        if not asked and not followed and all(is_ours(s.reason) for s in batch):
            self._after_all_of_it(ahead, before)
        return super().submit(batch)

    def _after_all_of_it(self, ahead: World, before: set[str]) -> None:
        """What is to follow is promised already."""
        for intent in self.rig.ledger.intents:
            if intent.purpose.group and intent.after is not None:
                ahead.apply(intent.action)
        assert short(ahead) <= before, f"P3: {short(ahead) - before}"

    def _one_at_a_node(self, submission: Submission, running: Sequence[tuple[str, Any]]) -> None:
        seen = self.cluster.snapshot()
        mine = places(submission.action, seen)
        for reason, action in running:
            if owner(reason) != owner(submission.reason) and is_ours(reason) | is_ours(
                submission.reason
            ):
                both = mine & places(action, seen)
                assert not both, f"P5: {submission.action} beside {action}"


def places(action: Any, seen: Any) -> set[str]:
    """The nodes that it takes."""
    if isinstance(action, RunCommand):
        return {action.node}
    move = move_of(action)
    if move is None:
        return {name for name in (getattr(action, "node", ""),) if name}
    return {name for name in (move.node, target_of(action, seen)) if name}


class Beside(Coordinated):
    counted = counted

    @initialize(
        takes=st.sampled_from([1.0, 25.0, 400.0]),
        sizes=st.lists(st.integers(0, 8), min_size=3, max_size=9),
        data=st.data(),
    )
    def begin(self, takes: float, sizes: list[int], data: st.DataObject) -> None:
        world = self.set_up(Rig(fleet(6), [], ON), takes).world
        world.size = Capacity(memory=1000, disk=1000)
        world.groups = {"default": Group("default", "default"), "other": Group("other", "other")}
        self.loads: dict[str, Load] = {}
        self.doubt = ""
        self.rig.measure = lambda _, asked: (
            self.loads,
            {q.group: self.doubt for q in asked} if self.doubt else {},
        )
        self.moved: dict[str, float] = {}
        self.rig._through = self._watched
        self.rig.crash()
        self.number = 0
        for size in sizes:
            self.create(data, size, 1.0)
        self.rounds(10.0)

    def _watched(self, _: object) -> Watched:
        watched = Watched(self.rig.cluster)
        watched.rig, watched.moved = self.rig, self.moved
        return watched

    # What others do.

    @rule(data=st.data(), size=st.integers(0, 8), seconds=SECONDS)
    def create(self, data: st.DataObject, size: int, seconds: float) -> None:
        self.number += 1
        name, template = f"i{self.number}", data.draw(st.sampled_from(TEMPLATES))
        first, second = data.draw(st.permutations(NODES))[:2]
        new = Instance(
            name,
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

    def _some(self, data: st.DataObject) -> Instance | None:
        there = self.rig.cluster.instances
        return there[data.draw(st.sampled_from(sorted(there)))] if there else None

    @rule(data=st.data(), what=st.sampled_from(["stop", "start", "remove", "grow"]))
    def change(self, data: st.DataObject, what: str) -> None:
        one = self._some(data)
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

    @rule(data=st.data(), there=st.sampled_from(NODES), mirror=st.booleans(), seconds=SECONDS)
    def move_by_hand(self, data: st.DataObject, there: str, mirror: bool, seconds: float) -> None:
        one = self._some(data)
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

    @rule(node=st.sampled_from(NODES[1:]), how=st.sampled_from(["drained", "offline", "group"]))
    def change_node(self, node: str, how: str) -> None:
        there = self.rig.cluster.nodes[node]
        if how == "group":
            to = "other" if there.group == "default" else "default"
            self.rig.cluster.put(replace(there, group=to))
        else:
            flags = {how: not getattr(there, how), "candidate": False}
            self.rig.cluster.put(replace(there, **flags))  # type: ignore[arg-type]
        self.rounds(10.0)

    @rule(node=st.sampled_from(NODES[1:]), said=st.sampled_from([EVACUATE, REPAIR, None, OK, OK]))
    def say(self, node: str, said: Any) -> None:
        self.rig.agents.says[node] = said
        self.rounds(10.0)

    @rule(data=st.data(), seconds=SECONDS)
    def load(self, data: st.DataObject, seconds: float) -> None:
        """Noise: another one works, and perhaps nobody knows."""
        self.doubt = data.draw(st.sampled_from(["", "", "the load of n2 is unknown"]))
        for name in self.rig.cluster.instances:
            busy = float(data.draw(st.integers(0, 4)))
            self.loads[name] = Load(busy, 1.0, 1.0, 1.0)
        self.rounds(seconds)

    @rule(data=st.data(), seconds=SECONDS)
    def ask(self, data: st.DataObject, seconds: float) -> None:
        """A list of moves, possible or not; or whatever is advised; or no more of it."""
        shifts = []
        for _ in range(data.draw(st.integers(0, 3))):
            one = self._some(data)
            if one is not None:
                to = data.draw(st.permutations(NODES))[: 2 if one.secondary else 1]
                shifts.append(Shift(one.name, Spot(one.primary, one.secondary), Spot(*to)))
        stop = data.draw(st.integers(0, 3)) == 0
        group = data.draw(st.sampled_from(["default", "other"]))
        self.rig.wish(StopBalancing(group) if stop else Balance(group, tuple(shifts)))
        self.rounds(seconds)

    @rule(seconds=st.sampled_from([-4000.0, -100.0, 90_000.0]))
    def set_the_clock(self, seconds: float) -> None:
        """Forward by a day all rests are over; P4 is not for that."""
        self.rig.skew += seconds
        if seconds > 0:
            self.moved.clear()
        counted["clock"] += 1
        self.rounds(10.0)

    @rule(ledger=st.booleans(), seconds=SECONDS)
    def crash(self, ledger: bool, seconds: float) -> None:
        self.restart(ledger=ledger)
        self.rounds(seconds)

    @rule(seconds=SECONDS, times=st.integers(1, 5))
    def wait(self, seconds: float, times: int) -> None:
        self.some_rounds(times, seconds)

    def rounds(self, seconds: float) -> None:
        super().rounds(seconds)
        for job in self.rig.cluster.jobs.values():
            move = move_of(job.action)
            if is_ours(job.reason) and move is not None and job.outcome is not Outcome.RUNNING:
                began = self.moved.get(move.instance, 0.0)
                if job.number not in self.counted_jobs():
                    self._counted.add(job.number)
                    self.moved[move.instance] = max(began, job.ends)

    def counted_jobs(self) -> set[str]:
        self._counted: set[str] = getattr(self, "_counted", set())
        return self._counted

    def teardown(self) -> None:
        """P6."""
        if not hasattr(self, "rig"):
            return
        rig = self.rig
        rig.agents.says.clear()
        self.loads.clear()
        self.doubt = "the load is no longer known"
        self.some_rounds(30, 500.0)
        for node in list(rig.cluster.nodes):
            rig.cluster.undrain(node)
            rig.cluster.untag(node, *rig.cluster.nodes[node].tags)
        for group in list(rig.cluster.world.groups.values()):
            told = {tag for tag in group.tags if tag.startswith(FAILED_TAG)}
            rig.cluster.put(replace(group, tags=group.tags - told))
            rig.wish(StopBalancing(group.name))
        scores: dict[str, list[float]] = {}
        for _ in range(80):
            self.rounds(500.0)
            for uuid, advice in rig.engine._adviser.advice().items():
                if not advice.why and not any(i.purpose.group == uuid for i in rig.ledger.intents):
                    scores.setdefault(uuid, []).append(advice.score)
        for uuid, each in scores.items():
            assert each[-1] <= each[0] + 1e-9, f"P6: {uuid}: {each[0]} to {each[-1]}"
            counted["even"] += 1
        self.rests("P6", 500.0)


TestBeside = pytest.mark.timeout(600)(Beside.TestCase)
TestBeside.settings = at_random("BALANCE_EXAMPLES", usual=8, steps=20)


def test_the_machine_was_where_it_matters() -> None:
    hold_that_it_was(counted, ["MovePrimary", "MoveSecondary", "by hand", "clock", "even"])
