"""Lives of a maintd: rounds that break off, kills, lost answers and ledgers, whatever it does.

A `Life` has a simulated cluster and promises of its jobs; a `Coordinated` one a whole coordinator;
to a `HardLife` happens what may happen to each.
"""

import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from nodeagent.errors import Unavailable
from nodeagent.maintd.engine.failpoint import NAMES, arm
from nodeagent.maintd.engine.round import Round
from nodeagent.maintd.notices.needs_you import needs_you
from nodeagent.model.ledger import Outcome
from nodeagent.model.window import Mode
from simulation.cluster import Job
from tests.cluster.by_hand import ByHand
from tests.maintd.rig import Rig

NODES = ("n2", "n3", "n4")
SECONDS = st.sampled_from([1.0, 10.0, 70.0, 400.0])


class Life(RuleBasedStateMachine):
    """A simulated cluster, and what is promised of our jobs whatever they are for."""

    @property
    def cluster(self) -> ByHand | None:
        """The cluster; None before it is set up."""
        raise NotImplementedError

    def ours(self) -> list[Job]:
        return [] if self.cluster is None else [j for j in self.cluster.jobs.values() if j.ours]

    def running(self) -> list[Job]:
        return [job for job in self.ours() if job.outcome is Outcome.RUNNING]

    @invariant()
    def each_reason_once(self) -> None:
        """One promise is one job at most."""
        reasons = Counter(job.reason for job in self.ours())
        assert all(times == 1 for times in reasons.values()), reasons.most_common(2)


class Coordinated(Life):
    """Rounds of a rig, and how often each thing happened in all lives of a kind."""

    counted: ClassVar[Counter[str]]
    rig: Rig
    done: Round | None = None  # the newest round that did not break off
    lossy, late = False, 0.0

    @property
    def cluster(self) -> ByHand | None:
        return self.rig.cluster if hasattr(self, "rig") else None

    def set_up(self, rig: Rig, takes: float) -> ByHand:
        """Take a rig whose answers are lost while `lossy`, and whose jobs arrive `late`."""
        self.rig, self.failing = rig, set[type]()
        rig.cluster.takes = lambda _: takes
        rig.cluster.loses_answer = lambda _: self.lossy
        rig.cluster.arrives = lambda _: self.late
        return rig.cluster

    @invariant()
    def a_node_that_maintd_took_out_is_somebody_s(self) -> None:
        """It waits for a person who is told, or something is going on that will put it back."""
        if (done := self.done) is None:
            return
        ledger, observed = done.decision.ledger, done.observed
        silent = observed.unanswered
        theirs = list(needs_you(ledger, observed, done.decision.held, silent, done.at))
        told = {one.node for one in theirs}
        told |= {one.incident.name for one in theirs if one.incident is not None}
        work = {one.node for one in ledger.returning} | {one.node for one in ledger.fencing}
        work |= {one.node for one in ledger.scheduled if one.mode is not Mode.UP}
        work |= {one.node for one in ledger.incidents if one.status.active}
        for one in ledger.drained:
            node = next((n for n in observed.snapshot.nodes.values() if n.uuid == one.node), None)
            if node is None or node.in_service or node.uuid in work:
                continue
            assert node.name in told, (one, done.decision.held)

    def rounds(self, seconds: float) -> None:
        try:
            self.done = self.rig.tick(seconds)
        except Unavailable:
            self.counted["broken off"] += 1

    def some_rounds(self, times: int, seconds: float) -> None:
        for _ in range(times):
            self.rounds(seconds)

    def rounds_losing(self, late: float, seconds: float, then: float) -> None:
        """A round whose answers are lost, and one that finds out."""
        self.lossy, self.late = True, late
        self.rounds(seconds)
        self.lossy = False
        self.rounds(then)

    def cut(self, name: str, nth: int, times: int, seconds: float) -> None:
        """Rounds, one of which breaks off there."""
        arm(f"{name}:raise:{nth}")
        try:
            self.some_rounds(times, seconds)
        finally:
            arm("")

    def restart(self, *, ledger: bool) -> None:
        if ledger:
            self.rig.crash()
        else:
            self.rig.lose_ledger()

    def rests(self, promise: str, seconds: float, *beside: type) -> None:
        """No job is submitted in five more rounds; those `beside` do not count."""
        before = self._but(beside)
        self.some_rounds(5, seconds)
        assert before == self._but(beside), f"{promise}: it never rests"

    def _but(self, beside: tuple[type, ...]) -> list[str]:
        jobs = self.rig.cluster.jobs.values()
        return [job.number for job in jobs if not isinstance(job.action, beside)]


class HardLife(Coordinated):
    """Nodes go and come, answers are lost, and maintd is killed anywhere."""

    @rule(node=st.sampled_from(NODES), offline=st.booleans(), seconds=SECONDS)
    def take_out(self, node: str, offline: bool, seconds: float) -> None:
        there = self.rig.cluster.nodes[node]
        self.rig.cluster.put(replace(there, offline=offline, drained=not offline, candidate=False))
        if offline:  # it is dead: maintd repairs no instance of one that is only marked so
            self.rig.agents.says[node] = None
        else:
            self._wakes(node)
        self.rounds(seconds)

    @rule(node=st.sampled_from(NODES), seconds=SECONDS)
    def put_back(self, node: str, seconds: float) -> None:
        self.rig.cluster.undrain(node)
        self._wakes(node)
        self.rounds(seconds)

    def _wakes(self, node: str) -> None:
        if node in self.rig.agents.says and self.rig.agents.says[node] is None:
            del self.rig.agents.says[node]

    @rule(late=st.sampled_from([0.0, 3.0]), seconds=SECONDS)
    def lose_answers(self, late: float, seconds: float) -> None:
        self.rounds_losing(late, 1.0, seconds)

    @rule(ledger=st.booleans(), seconds=SECONDS)
    def crash(self, ledger: bool, seconds: float) -> None:
        self.restart(ledger=ledger)
        self.rounds(seconds)

    @rule(name=st.sampled_from(NAMES), nth=st.integers(1, 2), ledger=st.booleans())
    def power_cut(self, name: str, nth: int, ledger: bool) -> None:
        self.cut(name, nth, 4, 10.0)
        self.crash(ledger, 1.0)

    @rule(seconds=SECONDS, times=st.integers(1, 6))
    def wait(self, seconds: float, times: int) -> None:
        self.some_rounds(times, seconds)


def at_random(setting: str, usual: int, steps: int) -> settings:
    """As many lives as the environment's `setting` says, else the usual ones, always the same.

    A failure is shrunk where LIFECYCLE_SHRINK is set.
    """
    return settings(
        derandomize=setting not in os.environ or "CI" in os.environ,
        max_examples=int(os.environ.get(setting, str(usual))),
        stateful_step_count=steps,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, *([Phase.shrink] if "LIFECYCLE_SHRINK" in os.environ else [])],
        report_multiple_bugs=False,
    )


def hold_that_it_was(counted: Counter[str], what: Iterable[str], *, least: int = 1) -> None:
    """After all lives: a machine that idles finds nothing."""
    if not counted:
        pytest.skip("the machine was left out")
    if "LIFECYCLE_SHOW" in os.environ:
        print("\n", dict(counted.most_common()))
    for name in what:
        assert counted[name] >= least, counted
