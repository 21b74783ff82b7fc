"""Lives about balancing, alone or beside others who move instances."""

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule

from nodeagent.model.action import MovePrimary, MoveSecondary
from nodeagent.model.balance import FAILED_TAG, Shift, Spot
from nodeagent.model.ledger import Outcome
from nodeagent.model.snapshot import Capacity, Group, Instance
from nodeagent.model.wish import Balance, StopBalancing
from nodeagent.placement.cluster.cluster import Load
from tests.maintd.lives.coordinator import (
    ANY_NODE,
    BALANCING,
    BESIDE,
    EVERY,
    SECONDS,
    Coordinator,
    about,
    counted,
)

TEMPLATES = ("drbd", "drbd", "drbd", "ext", "plain", "diskless")


class Balancing(Coordinator):
    """What others do to instances, groups and the clock."""

    def begin_with(self, data: st.DataObject) -> None:
        super().begin_with(data)
        if BESIDE in self.subjects:
            self._begin_beside(data)

    def ends(self) -> None:
        super().ends()
        if BALANCING in self.subjects:
            self._gets_even()

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

    @about(BALANCING)
    @rule(seconds=SECONDS)
    def pause_all_by_a_tag(self, seconds: float) -> None:
        world = self.rig.cluster.world
        world.tags = world.tags ^ {"maintd:pause:yes"}
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

    @about(BALANCING)
    @rule(rounds=st.integers(2, 8))
    def moves_fail_for_a_while(self, rounds: int) -> None:
        """Till somebody looks, and says so."""
        self.failing = {MovePrimary, MoveSecondary}
        self.some_rounds(rounds, 400.0)
        self.failing = set()
        self.acknowledge_balancing(10.0)

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
        self.submits_nothing()
        if rig.ledger.incidents or rig.ledger.halts or self.watched.meddled:
            return
        last = rig.engine._adviser.advice()["default"]
        assert not last.why, f"E2: {last}"
        assert last.score - last.final < rig.policy.balance_threshold, f"E2: {last}"
        counted["even"] += 1
