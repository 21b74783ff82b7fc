"""Effects of tags: score and forbidden moves, many at once. Pure. Needs NumPy.

Columns are nodes and rows instances as in `arrays`; instances with the same tags share an entry of
each table here.
"""

from collections.abc import Sequence

import numpy as np

from nodeagent.placement.layout.arrays import WEIGHT, Bools, Floats, Grid, Ints
from nodeagent.placement.layout.layout import Layout

_TAGS = WEIGHT["pri_tags_score"]
_PLACES = WEIGHT["location_score"]
_PAIRS = WEIGHT["location_exclusion_score"]


class Marks:
    """`excluding` and `placing` tell whether there are such tags at all."""

    def __init__(self, grid: Grid) -> None:
        self.grid = grid
        layout = grid.layout
        demands = [layout.demands[index] for index in grid.rows]
        exclusions = sorted({demand.exclusion for demand in demands})
        desires = sorted({demand.desired for demand in demands}, key=sorted)
        tags = sorted({tag for tuple_ in exclusions for tag in tuple_})
        self._tags = {tag: place for place, tag in enumerate(tags)}
        self.excluding = bool(tags)
        hosts = [node.host for node in layout.group_nodes()]
        locations = sorted({place for host in hosts for place in host.locations})
        self.placing = bool(locations) or any(desires)
        self.real = np.array([not demand.forthcoming for demand in demands], bool)
        self.exclusion = _places([demand.exclusion for demand in demands], exclusions)
        self.desire = _places([demand.desired for demand in demands], desires)
        self.times = np.array([[t.count(tag) for tag in tags] for t in exclusions], float)
        self.times = self.times.reshape(len(exclusions), len(tags))
        at = [[place in host.locations for place in locations] for host in hosts]
        self.at = np.array(at, float).reshape(grid.count, len(locations))
        self.common = self.at @ self.at.T
        self.missing = np.array(
            [[len(desired - host.locations) for host in hosts] for desired in desires], float
        ).reshape(len(desires), grid.count)
        self._counts = np.zeros((2, len(tags), grid.count))
        # The number of primaries with a tag at a location, on nodes that are not off.
        self.crowd = np.zeros((len(locations), len(tags)))
        self.read_nodes(layout, range(grid.count))

    def read_nodes(self, layout: Layout, columns: Sequence[int]) -> Bools:
        """Read these nodes' present state; return the rows affected beyond these nodes."""
        nobody = np.zeros(len(self.real), bool)
        if not self.excluding:
            return nobody
        for column in columns:
            node = layout.nodes[self.grid.members[column]]
            self._counts[:, :, column] = 0
            for which, counts in enumerate((node.promised.exclusion, node.present.exclusion)):
                for tag, count in counts.items():
                    if tag in self._tags:
                        self._counts[which, self._tags[tag], column] = count
        here = self._counts[0]
        has = (self.times > 0).astype(float)  # products count, those of truth values do not
        online = self.grid.online
        self.present = (has @ (here > 0)) > 0
        self.arriving = (self.times.sum(axis=1)[:, None] - has @ (here == 0)) * online * _TAGS
        times = sorted(set(self.times[has > 0].tolist()))
        last = sum((self.times == n).astype(float) @ (here == n) for n in times)
        self.leaving = -(self.times.sum(axis=1)[:, None] - last) * online * _TAGS
        if self.placing:
            before, self.crowd = self.crowd, self.at.T @ (self._counts[1] * online).T
            changed: Bools = np.any(before != self.crowd, axis=0)
            affected: Bools = np.any(self.times[:, changed] > 0, axis=1)[self.exclusion]
            return affected
        return nobody

    def clash(self, rows: Ints, columns: Ints) -> Bools:
        """Tell whether a node has one of the instance's exclusion tags; not for its own node."""
        clashes: Bools = self.present[self.exclusion[rows], columns] & self.real[rows]
        return clashes

    def misplaced(self, rows: Ints, columns: Ints) -> Floats:
        """Return the weighed number of desired locations that a node lacks; 0 if off."""
        on = self.grid.online[columns] & self.real[rows]
        weighed: Floats = self.missing[self.desire[rows], columns] * on * _PLACES
        return weighed

    def sharing(self, rows: Ints, primary: Ints, secondary: Ints) -> Floats:
        """Return the weighed number of a pair's common locations; 0 if the first is off."""
        on = self.grid.online[primary] & self.real[rows]
        weighed: Floats = self.common[primary, secondary] * on * _PLACES
        return weighed

    def kept(self, rows: Ints, primary: Ints) -> Floats:
        """Return the same for the instance's present pair, as counted at its arrival."""
        on = self.grid.online[primary] & self.real[rows]
        weighed: Floats = self.grid.shared[rows] * on * _PLACES
        return weighed

    def crowding(self, rows: Ints, source: Ints, target: Ints) -> Floats:
        """Return the weighed change of clashes at locations for a target (-1: none)."""
        change = np.zeros(len(rows))
        times = self.times[self.exclusion[rows]]
        some = np.flatnonzero(times.any(axis=1) & self.real[rows])
        if not len(some):
            return change
        times = times[some]
        online = self.grid.online
        at_source = self.at[source[some]] * online[source[some], None]
        at_target = self.at[target[some]] * (online[target[some]] & (target[some] >= 0))[:, None]
        for tag in np.flatnonzero(times.any(axis=0)):
            now = self.crowd[:, tag][None, :]
            after = now + (at_target - at_source) * times[:, tag, None]
            excess = np.maximum(after - 1, 0) - np.maximum(now - 1, 0)
            change[some] += excess.sum(axis=1) * _PAIRS
        return change

    def least(self, rows: Ints, runs: Bools, old: Ints, any_: Bools) -> Floats:
        """Return the least change of the score by a move's tags, whatever its target.

        `runs`: the target becomes primary; `old` is the other node of the new pair; `any_`: the
        pair's locations count unchanged.
        """
        least = np.zeros(len(rows))
        if not self.placing:
            return least
        grid = self.grid
        shared = self.common[:, grid.online].min(axis=1)[old] * (runs | grid.online[old])
        least += np.where(any_, grid.shared[rows], shared)
        least += runs * self.missing[:, grid.online].min(axis=1)[self.desire[rows]]
        least *= self.real[rows] * _PLACES
        if self.excluding:
            some = np.flatnonzero(runs)
            nowhere = np.full(len(some), -1)
            least[some] += self.crowding(rows[some], grid.primary[rows[some]], nowhere)
        return least


def _places(things: Sequence[object], among: Sequence[object]) -> Ints:
    place = {thing: n for n, thing in enumerate(among)}
    return np.array([place[thing] for thing in things], np.intp)
