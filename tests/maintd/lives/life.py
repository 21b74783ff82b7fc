"""A simulated cluster's jobs whatever they are for, and how many lives of it are tried."""

import os
from collections import Counter
from collections.abc import Iterable

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant

from nodeagent.model.ledger import Outcome
from simulation.cluster import Job
from tests.cluster.by_hand import ByHand


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


def at_random(lives: int, *, steps: int) -> settings:
    """So many lives, always the same; LIFE_TIMES as many, other ones, where that is set.

    A failure is shrunk where LIFE_SHRINK is set.
    """
    return settings(
        derandomize="LIFE_TIMES" not in os.environ or "CI" in os.environ,
        max_examples=lives * int(os.environ.get("LIFE_TIMES", "1")),
        stateful_step_count=steps,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, *([Phase.shrink] if "LIFE_SHRINK" in os.environ else [])],
        report_multiple_bugs=False,
    )


def hold_that_it_was(counted: Counter[str], what: Iterable[str], *, least: int = 1) -> None:
    """After all lives: a machine that idles finds nothing."""
    if not counted:
        pytest.skip("the machine was left out")
    if "LIFE_SHOW" in os.environ:
        print("\n", dict(counted.most_common()))
    for name in what:
        assert counted[name] >= least, (name, counted)
