"""Options of a search for an instance's place, and its findings so far. Pure.

Among equals it takes the one offered last, as the htools do.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from nodeagent.placement.layout.layout import Place
from nodeagent.placement.layout.node import Filled

Metric = float | tuple[tuple[int, ...], int]
"""What is to be least: the score, or lost allocations and the disk left over."""

NOBODY = -1  # the index of no node
NOT_REDUNDANT = "FailN1"
DISK_COUNT = "FailDiskCount"
# Reasons in hail's order.
_REASONS = (
    "FailMem",
    "FailDisk",
    "FailCPU",
    NOT_REDUNDANT,
    "FailTags",
    "FailMig",
    DISK_COUNT,
    "FailSpindles",
    "FailInternal",
)


@dataclass(frozen=True, slots=True)
class Terms:
    """The limits on places: hail's options.

    `capacity`: only places after which the cluster is redundant. `only`: names of the permitted
    nodes, if not None. `leaves_from` is the place of an instance that only changes its group: hail
    lets it leave its new node from there.
    """

    ignore_soft: bool = False
    capacity: bool = True
    only: frozenset[str] | None = None
    leaves_from: Place | None = None


class Pick(NamedTuple):
    """A place: the primary node and perhaps the secondary, in their state with it."""

    nodes: tuple[Filled, ...]
    metric: Metric


@dataclass(slots=True)
class Selection:
    """The best place, how many were possible, and how often each reason forbade one."""

    best: Pick | None = None
    successes: int = 0
    failures: Counter[str] = field(default_factory=Counter)

    def offer(self, pick: Pick) -> None:
        self.successes += 1
        self.prefer(pick)

    def prefer(self, pick: Pick) -> None:
        """Take a place that is already counted, unless there is a better one."""
        if self.best is None or not self.best.metric < pick.metric:  # type: ignore[operator]
            self.best = pick

    def refuse(self, why: str, times: int = 1) -> None:
        self.failures[why] += times

    def add(self, other: "Selection") -> None:
        """Add another, later selection's findings."""
        self.successes += other.successes
        self.failures.update(other.failures)
        if other.best is not None:
            self.prefer(other.best)

    def summary(self) -> str:
        counted = [f"{why}: {self.failures[why]}" for why in _REASONS if self.failures[why]]
        reasons = ", ".join(counted)
        if self.best is None:
            return f"No valid allocation solutions, failure reasons: {reasons or 'unknown reasons'}"
        names = "/".join(node.host.name for node in self.best.nodes)
        return (
            f"score: {written(self.best.metric)}, successes {self.successes}, "
            f"failures {self.failures.total()} ({reasons}) for node(s) {names}"
        )


def written(metric: Metric) -> str:
    if isinstance(metric, tuple):
        lost, remaining = metric
        return f"([{','.join(map(str, lost))}],{remaining})"
    return "NaN" if metric != metric else f"{metric:.8f}"
