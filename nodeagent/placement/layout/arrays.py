"""A layout and its score as arrays, for searches over many moves at once. Pure. Needs NumPy.

A node has a column, by its place among the group's members; an instance that may move has a row. A
node's sums consist of *amounts*: an instance adds one vector of them to its primary node and
another to its secondary. Only memory reserved for peers is not a sum.

The layout is the master copy: after a move its columns are read from it again.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nodeagent.placement.layout.layout import Layout
from nodeagent.placement.layout.node import Demand, Filled, migrates
from nodeagent.placement.layout.score import COMPONENTS, Sort, clashes, measure, weigh

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]
Bools = NDArray[np.bool_]

# Amounts, the rows of `state`.
FREE, DISK, CPUS, LOAD_CPU, LOAD_MEMORY, LOAD_DISK, LOAD_NET, PRESSURE = range(8)
P_MEMORY, P_DISK, P_CPUS, P_PRESSURE, PRIMARIES, SECONDARIES, SPINDLES, P_SPINDLES = range(8, 16)
AMOUNTS = 16
# Components that are spreads of amounts, and the amount of each; reserved memory is apart.
_SPREAD_OF = {
    "free_mem_cv": FREE,
    "free_disk_cv": DISK,
    "vcpu_ratio_cv": CPUS,
    "cpu_load_cv": LOAD_CPU,
    "mem_load_cv": LOAD_MEMORY,
    "disk_load_cv": LOAD_DISK,
    "net_load_cv": LOAD_NET,
    "spindles_cv": PRESSURE,
    "free_mem_cv_forth": P_MEMORY,
    "free_disk_cv_forth": P_DISK,
    "vcpu_ratio_cv_forth": P_CPUS,
    "spindles_cv_forth": P_PRESSURE,
}
# With exclusive storage.
_SPREAD_OF_DEDICATED = _SPREAD_OF | {"free_disk_cv": SPINDLES, "free_disk_cv_forth": P_SPINDLES}
WEIGHT = {part.name: part.weight for part in COMPONENTS}
PLACE = {part.name: place for place, part in enumerate(COMPONENTS)}


def _of_sort(sort: Sort) -> list[int]:
    return [place for place, part in enumerate(COMPONENTS) if part.sort is sort]


SPREADS = _of_sort(Sort.SPREAD)
_SUMS, _OFFLINE_SUMS, _CLASHES = map(_of_sort, (Sort.SUM, Sort.SUM_OFFLINE, Sort.CLASHES))
_ROUNDING = 1e-12


class Sizes(NamedTuple):
    """Demands of instances, one entry for each different one."""

    primary: Floats  # (amounts, sizes): its addition to its primary node
    secondary: Floats
    used: Floats
    reserved: Floats  # 0 for a forthcoming one: it reserves nothing
    kept: Floats  # as `reserved`, but for every one
    local: Bools
    forthcoming: Bools
    unknown: Bools  # its number of spindles, so no node with exclusive storage takes it


class Columns:
    """A group's nodes, by column; `online` masks them.

    `measured` has their values for each component. The memory of a node reserved for each peer is a
    row of `peers`.
    """

    def __init__(self, nodes: Sequence[Filled]) -> None:
        hosts = [node.host for node in nodes]
        self.nodes = list(nodes)
        self.count = len(nodes)
        self.column = {host.index: place for place, host in enumerate(hosts)}
        self.online = np.array([not host.offline for host in hosts], bool)
        self.online_count = int(self.online.sum())
        self.exclusive = np.array([host.exclusive for host in hosts], bool)
        self.pressure_limit = _floats(host.spindle_limit for host in hosts)
        self.placing = any(host.locations for host in hosts)
        self.parts = {name: _part_of(name, nodes) for name in _SPREAD_OF}
        self.state = np.empty((AMOUNTS, self.count))
        self.reserved = np.empty(self.count)
        self.failing = np.empty(self.count, bool)
        self.peers = np.zeros((self.count, self.count))
        self.most, self.second = np.zeros(self.count), np.zeros(self.count)
        self.most_by = np.zeros(self.count, np.intp)
        self.foreign = np.zeros(self.count)
        self.measured = np.empty((len(COMPONENTS), self.count))
        for node in nodes:
            self.read(node)

    def read(self, node: Filled) -> None:
        """Read a node's present state."""
        column = self.column[node.host.index]
        self.nodes[column] = node
        self.state[:, column] = _amounts(node)
        self.reserved[column] = node.reserved
        self.failing[column] = node.failing
        self.measured[:, column] = measure(node)
        row = self.peers[column]
        row[:] = 0.0
        foreign = 0.0  # the primaries are another group's, and stay there
        for primary, memory in node.reserved_for.items():
            if primary in self.column:
                row[self.column[primary]] = memory
            else:
                foreign = max(foreign, memory)
        self.foreign[column] = foreign
        self._rank(column, row, foreign)

    def _rank(self, column: int, row: Floats, foreign: float) -> None:
        """Return the most that one peer needs, that peer, and the most that any other does."""
        by = int(row.argmax())
        largest, row[by] = float(row[by]), -1.0
        second, row[by] = max(float(row.max()), foreign), largest
        if foreign >= largest:
            largest, by, second = foreign, -1, foreign
        self.most[column], self.most_by[column], self.second[column] = largest, by, second

    def score(self, changed: Mapping[int, Filled]) -> float:
        """Return the score with these nodes changed, by their index: `score.score`'s very number.

        It adds in the same order.
        """
        if not self.online_count:
            return 0.0
        measured = self.measured.copy()
        for index, node in changed.items():
            measured[:, self.column[index]] = measure(node)
        online, offline = measured[:, self.online], measured[:, ~self.online]
        values = np.zeros(len(COMPONENTS))
        values[_SUMS] = online[_SUMS].cumsum(axis=1)[:, -1]
        if offline.shape[1]:
            values[_OFFLINE_SUMS] = offline[_OFFLINE_SUMS].cumsum(axis=1)[:, -1]
        spreads, count = online[SPREADS], self.online_count
        above = spreads - (spreads.cumsum(axis=1)[:, -1] / count)[:, None]
        values[SPREADS] = np.sqrt((above * above).cumsum(axis=1)[:, -1] / count)
        if self.placing:
            nodes = (changed.get(node.host.index, node) for node in self.nodes)
            values[_CLASHES] = clashes(node for node in nodes if not node.host.offline)
        return weigh(values.tolist())

    def changes(self, demand: Demand, *, primary: bool) -> Floats:
        """Return (components, columns): the addition of one more instance to each spread.

        It would be each node's primary instance or its secondary one. The memory reserved for it is
        left out.
        """
        sizes = _sizes([demand], dedicated=False)
        amounts = (sizes.primary if primary else sizes.secondary)[:, 0]
        changes = np.zeros_like(self.measured)
        for name, amount in _SPREAD_OF.items():
            changes[PLACE[name]] = amounts[amount] * self.parts[name]
        return changes


class Grid(Columns):
    """The columns and rows of a layout; nodes that are off have no weight in any spread.

    `dedicated`: the nodes that are not off have exclusive storage. Spindles count there as disks do
    elsewhere.
    """

    def __init__(self, layout: Layout) -> None:
        nodes = layout.group_nodes()
        super().__init__(nodes)
        hosts = [node.host for node in nodes]
        self.dedicated = bool((self.exclusive & self.online).any())
        self.spread_of = _SPREAD_OF_DEDICATED if self.dedicated else _SPREAD_OF
        if self.dedicated:
            whole = parts_of(host.spindles for host in hosts)
            self.parts |= {"free_disk_cv": whole, "free_disk_cv_forth": whole}
        self.layout = layout
        self.members = layout.members
        self.low_disk = _floats(host.low_disk for host in hosts)
        self.cpu_ratio = _floats(host.cpu_ratio for host in hosts)
        self.cpus = _floats(host.cpus for host in hosts)
        self.memory_part = np.where(self.online, parts_of(host.memory for host in hosts), 0.0)
        self.can_migrate = np.ones((self.count, self.count), bool)
        for place, host in enumerate(hosts):
            if host.sends:
                self.can_migrate[place] = [migrates(host, other) for other in hosts]
        self._read_instances()
        self._choose_terms()

    def _read_instances(self) -> None:
        layout = self.layout
        self.rows = layout.movable
        self.row = {index: place for place, index in enumerate(self.rows)}
        demands = [layout.demands[index] for index in self.rows]
        apart = bool(self.exclusive.any())
        amounts = [_amounts_key(demand, spindles=apart) for demand in demands]
        self.size, sizes = _distinct(amounts, demands)
        self.sizes = _sizes(sizes, dedicated=self.dedicated)
        # The same facts decide whether a node takes it for many instances with different loads.
        checked = [_fit_key(demand, spindles=apart) for demand in demands]
        self.fit, fits = _distinct(checked, demands)
        self.fits = _sizes(fits, dedicated=self.dedicated)
        self.fit_of_size = np.zeros(len(sizes), np.intp)
        self.fit_of_size[self.size] = self.fit
        self.mirrored = np.array([demand.mirrored for demand in demands], bool)
        self.primary = np.empty(len(self.rows), np.intp)
        self.secondary = np.empty(len(self.rows), np.intp)
        self.shared = np.empty(len(self.rows))
        for row in range(len(self.rows)):
            self._read_row(row)

    def take(self, layout: Layout, columns: Iterable[int], rows: Iterable[int]) -> None:
        """Take the present layout; these nodes, and these rows' places, have changed."""
        self.layout = layout
        for column in columns:
            self.read(layout.nodes[self.members[column]])
        for row in rows:
            self._read_row(row)

    def _read_row(self, row: int) -> None:
        place = self.layout.places[self.rows[row]]
        self.primary[row] = self.column[place.primary]
        self.secondary[row] = self.column[place.secondary] if place.secondary >= 0 else -1
        self.shared[row] = place.shared

    def _choose_terms(self) -> None:
        """Merge spreads that are and stay alike, with the sum of their weights."""
        online = self.online
        chosen: list[tuple[Floats, Floats, Floats, int, float]] = []
        for name, amount in self.spread_of.items():
            values = self.measured[PLACE[name]]
            centred = np.where(online, values - values[online].mean(), 0.0)
            part = np.where(online, self.parts[name], 0.0)
            added = np.stack([self.sizes.primary[amount], self.sizes.secondary[amount]])
            for n, (other, other_part, other_added, first, weight) in enumerate(chosen):
                if (
                    np.abs(other - centred).max() <= _ROUNDING
                    and np.array_equal(other_part, part)
                    and np.array_equal(other_added, added)
                ):
                    chosen[n] = (other, other_part, other_added, first, weight + WEIGHT[name])
                    break
            else:
                chosen.append((centred, part, added, amount, WEIGHT[name]))
        by_amount = {amount: PLACE[name] for name, amount in self.spread_of.items()}
        self.term_amounts = [first for *_, first, _ in chosen]
        self.term_components = [by_amount[first] for first in self.term_amounts]
        self.term_components.append(PLACE["reserved_mem_cv"])
        self.weights = np.array([*(weight for *_, weight in chosen), WEIGHT["reserved_mem_cv"]])
        self.part = np.stack([*(part for _, part, *_ in chosen), self.memory_part])
        values = self.measured[self.term_components]
        self.centre = values[:, online].mean(axis=1)

    @property
    def values(self) -> Floats:
        """Return (terms, columns): the spreads' values less a constant; 0 for offline nodes."""
        values = self.measured[self.term_components] - self.centre[:, None]
        return np.where(self.online, values, 0.0)

    def added(self, *, primary: bool) -> Floats:
        """Return (terms, sizes): an instance's addition to the terms; to reserved memory 0."""
        amounts = self.sizes.primary if primary else self.sizes.secondary
        nothing = np.zeros((1, amounts.shape[1]))
        return np.concatenate([amounts[self.term_amounts], nothing])


def _amounts(node: Filled) -> list[float]:
    return [
        node.present.memory,
        node.present.disk,
        node.present.cpus,
        *node.load,
        node.present.pressure,
        node.promised.memory,
        node.promised.disk,
        node.promised.cpus,
        node.promised.pressure,
        node.primaries,
        node.secondaries,
        node.present.spindles,
        node.promised.spindles,
    ]


def _sizes(demands: Sequence[Demand], *, dedicated: bool) -> Sizes:
    primary, secondary = [], []
    for demand in demands:
        real = not demand.forthcoming
        disk = demand.disk if demand.local else 0
        pressure = demand.spindle_use if demand.local and not dedicated else 0
        spindles = (demand.spindles or 0) if dedicated else 0
        on_spindles = [-spindles if real else 0, -spindles]
        promised = [-demand.memory, -disk, demand.vcpus, pressure]
        present = [-demand.used, -disk, demand.vcpus, *demand.load, pressure]
        primary.append([*(present if real else [0] * 8), *promised, real, 0, *on_spindles])
        promised = [0, -disk, 0, pressure]
        present = [0, -disk, 0, 0, 0, demand.load.disk, 0, pressure]
        secondary.append([*(present if real else [0] * 8), *promised, 0, real, *on_spindles])
    return Sizes(
        np.array(primary, float).reshape(-1, AMOUNTS).T.copy(),
        np.array(secondary, float).reshape(-1, AMOUNTS).T.copy(),
        _floats(demand.used for demand in demands),
        _floats(0 if demand.forthcoming else demand.reserved for demand in demands),
        _floats(demand.reserved for demand in demands),
        np.array([demand.local for demand in demands], bool),
        np.array([demand.forthcoming for demand in demands], bool),
        np.array([demand.spindles is None for demand in demands], bool),
    )


def _part_of(name: str, nodes: Sequence[Filled]) -> Floats:
    """Return the growth of a node's value for a component with one more of its amount."""
    if "mem" in name and "load" not in name:
        return parts_of(node.host.memory for node in nodes)
    if "disk" in name and "load" not in name:
        return parts_of(node.host.disk for node in nodes)
    if name.startswith("vcpu"):
        return parts_of(node.host.cpus * node.host.speed for node in nodes)
    if name.startswith("spindles"):
        return parts_of(node.host.spindle_limit for node in nodes)
    return np.ones(len(nodes))


def _amounts_key(demand: Demand, *, spindles: bool) -> tuple[Any, ...]:
    return (*_fit_key(demand, spindles=spindles), demand.load)


def _fit_key(demand: Demand, *, spindles: bool) -> tuple[Any, ...]:
    d = demand
    return (
        d.memory,
        d.used,
        d.reserved,
        d.disk,
        d.vcpus,
        d.local,
        d.mirrored,
        d.spindle_use,
        d.forthcoming,
        d.spindles if spindles else None,
    )


def _distinct(keys: Sequence[Any], things: Sequence[Demand]) -> tuple[Ints, list[Demand]]:
    """Return each thing's index among the different ones, and these."""
    places: dict[Any, int] = {}
    demands: list[Demand] = []
    for key, thing in zip(keys, things, strict=True):
        if key not in places:
            places[key] = len(demands)
            demands.append(thing)
    return np.array([places[key] for key in keys], np.intp), demands


def _floats(values: Iterable[float]) -> Floats:
    return np.array(list(values), float)


def parts_of(wholes: Iterable[float]) -> Floats:
    return np.array([1.0 / whole if whole else 0.0 for whole in wholes])
