"""The cluster score: twenty components, each with its weight (htools' cluster metrics). Pure.

A spread is the standard deviation over all online nodes. Sums add one value after another, as the
htools do: equal layouts then have equal scores to the last bit, and scores that differ by rounding
alone differ in the same direction.
"""

from collections.abc import Iterable, Sequence
from enum import Enum, auto
from math import sqrt
from typing import NamedTuple

from nodeagent.placement.layout.layout import Layout
from nodeagent.placement.layout.node import Filled, ratio


class Sort(Enum):
    """The way from the nodes' values to the component's."""

    SPREAD = auto()
    SUM = auto()
    SUM_OFFLINE = auto()
    CLASHES = auto()


class Component(NamedTuple):
    """One term of the score."""

    name: str
    weight: float
    sort: Sort


COMPONENTS = (
    Component("free_mem_cv", 0.5, Sort.SPREAD),
    Component("free_disk_cv", 0.5, Sort.SPREAD),
    Component("n1_cnt", 1.0, Sort.SUM),
    Component("reserved_mem_cv", 1.0, Sort.SPREAD),
    Component("offline_all_cnt", 4.0, Sort.SUM_OFFLINE),
    Component("offline_pri_cnt", 16.0, Sort.SUM_OFFLINE),
    Component("vcpu_ratio_cv", 0.5, Sort.SPREAD),
    Component("cpu_load_cv", 1.0, Sort.SPREAD),
    Component("mem_load_cv", 1.0, Sort.SPREAD),
    Component("disk_load_cv", 1.0, Sort.SPREAD),
    Component("net_load_cv", 1.0, Sort.SPREAD),
    Component("pri_tags_score", 2.0, Sort.SUM),
    Component("spindles_cv", 0.5, Sort.SPREAD),
    Component("free_mem_cv_forth", 0.5, Sort.SPREAD),
    Component("free_disk_cv_forth", 0.5, Sort.SPREAD),
    Component("vcpu_ratio_cv_forth", 0.5, Sort.SPREAD),
    Component("spindles_cv_forth", 0.5, Sort.SPREAD),
    Component("location_score", 1.0, Sort.SUM),
    Component("location_exclusion_score", 1.0, Sort.CLASHES),
    Component("reserved_mem_rtotal", 0.25, Sort.SUM),
)
_RESERVED_TOTAL = COMPONENTS[-1].weight


def measure(node: Filled) -> tuple[float, ...]:
    """Return one node's value for each component; 0 for the clashes, which are not a node's own."""
    host, load = node.host, node.load
    disk, promised_disk = (
        (node.free_spindles, node.promised_free_spindles)
        if host.exclusive
        else (node.free_disk, node.promised_disk)
    )
    whole = host.spindles if host.exclusive else host.disk
    instances = node.primaries + node.secondaries
    reserved = ratio(node.reserved, host.memory)
    return (
        ratio(node.free_memory, host.memory),
        disk / whole if whole else 1.0,
        instances if node.failing else 0,
        reserved,
        instances,
        node.primaries,
        ratio(ratio(node.used_cpus, host.cpus), host.speed),
        *load,
        sum(node.exclusion.values()) - len(node.exclusion),
        ratio(node.used_spindles, host.spindle_limit),
        ratio(node.promised_memory, host.memory),
        promised_disk / whole if whole else 1.0,
        ratio(ratio(node.promised_cpus, host.cpus), host.speed),
        ratio(node.promised_spindles, host.spindle_limit),
        node.misplaced,
        0,
        reserved,
    )


def components(nodes: Sequence[Filled]) -> list[float]:
    """Return every component's value; none at all if no node is online."""
    online = [measure(node) for node in nodes if not node.host.offline]
    if not online:
        return []
    offline = [measure(node) for node in nodes if node.host.offline]
    found = []
    for place, part in enumerate(COMPONENTS):
        if part.sort is Sort.CLASHES:
            found.append(float(clashes(node for node in nodes if not node.host.offline)))
        elif part.sort is Sort.SPREAD:
            found.append(spread([values[place] for values in online]))
        else:
            chosen = offline if part.sort is Sort.SUM_OFFLINE else online
            found.append(total(values[place] for values in chosen))
    return found


def weigh(values: Iterable[float]) -> float:
    """Return the score of these components."""
    return total(part.weight * value for part, value in zip(COMPONENTS, values, strict=False))


def score(layout: Layout) -> float:
    """Return the group's distance from balance; 0 is perfect, a group that is off scores 0."""
    return weigh(components(layout.group_nodes()))


def total(values: Iterable[float]) -> float:
    """Add one after another, not as `sum` does since Python 3.12."""
    added = 0.0
    for value in values:
        added += value
    return added


def least(layout: Layout) -> float:
    """Return a lower bound of the score: memory must be reserved somewhere."""
    nodes = layout.group_nodes()
    if len(nodes) <= 1:
        return 0.0
    memory = total(node.host.memory for node in nodes)
    without_largest = memory - max(node.host.memory for node in nodes)
    if without_largest <= 0:
        return 0.0
    needed = float(sum(sum(node.reserved_for.values()) for node in nodes))
    return _RESERVED_TOTAL * (needed / without_largest - needed / memory)


def clashes(nodes: Iterable[Filled]) -> int:
    """Count the instances that share a location with one of the same exclusion tag."""
    pairs: dict[tuple[str, str], int] = {}
    for node in nodes:
        for tag, count in node.settled.items():
            for location in node.host.locations:
                pairs[location, tag] = pairs.get((location, tag), 0) + count
    return sum(pairs.values()) - len(pairs)


def spread(values: Sequence[float]) -> float:
    """Return the standard deviation of the whole population."""
    return sqrt(variance(values, total(values)))


def variance(values: Sequence[float], added: float) -> float:
    """Return the variance of the whole population; `added` is its sum."""
    mean = added / len(values)
    return total([(value - mean) * (value - mean) for value in values]) / len(values)
