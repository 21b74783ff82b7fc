"""Lives of a maintd: rounds that break off, kills, lost answers and ledgers, whatever it does."""

import os
from collections import Counter
from dataclasses import replace
from typing import ClassVar

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from nodeagent.errors import Unavailable
from nodeagent.maintd.engine.failpoint import NAMES, arm
from tests.maintd.rig import Rig

NODES = ("n2", "n3", "n4")
SECONDS = st.sampled_from([1.0, 10.0, 70.0, 400.0])


class Life(RuleBasedStateMachine):
    """Rounds of a rig, and how often each thing happened in all lives of a kind."""

    counted: ClassVar[Counter[str]]
    rig: Rig

    def rounds(self, seconds: float) -> None:
        try:
            self.rig.tick(seconds)
        except Unavailable:
            self.counted["broken off"] += 1


class HardLife(Life):
    """Nodes go and come, answers are lost, and maintd is killed anywhere."""

    lossy, late = False, 0.0

    def can_be_lost(self) -> None:
        """Answers of the rig's cluster are lost while `lossy`, and its jobs arrive `late`."""
        self.rig.cluster.loses_answer = lambda _: self.lossy
        self.rig.cluster.arrives = lambda _: self.late

    @rule(node=st.sampled_from(NODES), offline=st.booleans(), seconds=SECONDS)
    def take_out(self, node: str, offline: bool, seconds: float) -> None:
        there = self.rig.cluster.nodes[node]
        self.rig.cluster.put(replace(there, offline=offline, drained=not offline, candidate=False))
        self.rounds(seconds)

    @rule(node=st.sampled_from(NODES), seconds=SECONDS)
    def put_back(self, node: str, seconds: float) -> None:
        self.rig.cluster.undrain(node)
        self.rounds(seconds)

    @rule(late=st.sampled_from([0.0, 3.0]), seconds=SECONDS)
    def lose_answers(self, late: float, seconds: float) -> None:
        self.lossy, self.late = True, late
        self.rounds(1.0)
        self.lossy = False
        self.rounds(seconds)

    @rule(ledger=st.booleans(), seconds=SECONDS)
    def crash(self, ledger: bool, seconds: float) -> None:
        if ledger:
            self.rig.crash()
        else:
            self.rig.lose_ledger()
        self.rounds(seconds)

    @rule(name=st.sampled_from(NAMES), nth=st.integers(1, 2), ledger=st.booleans())
    def power_cut(self, name: str, nth: int, ledger: bool) -> None:
        arm(f"{name}:raise:{nth}")
        try:
            for _ in range(4):
                self.rounds(10.0)
        finally:
            arm("")
        self.crash(ledger, 1.0)

    @rule(seconds=SECONDS, times=st.integers(1, 6))
    def wait(self, seconds: float, times: int) -> None:
        for _ in range(times):
            self.rounds(seconds)

    @invariant()
    def each_reason_once(self) -> None:
        if hasattr(self, "rig"):
            reasons = Counter(job.reason for job in self.rig.cluster.jobs.values() if job.ours)
            assert all(times == 1 for times in reasons.values()), reasons.most_common(1)


def at_random(setting: str, usual: int, steps: int) -> settings:
    """As many lives as the environment's `setting` says, else the usual ones, always the same.

    A failure is shrunk where LIFECYCLE_SHRINK is set.
    """
    return settings(
        derandomize=setting not in os.environ or "CI" in os.environ,
        max_examples=int(os.environ.get(setting, str(usual))),
        stateful_step_count=steps,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, *([Phase.shrink] if "LIFECYCLE_SHRINK" in os.environ else [])],
        report_multiple_bugs=False,
    )
