"""Find the best of all moves without examining most of them. Pure. Needs NumPy.

A move changes a variance by a part of the nodes it leaves and a part of its target. A spread is the
root of that, and on any range the root lies above its chord, which is linear. So a sum of two parts
bounds the score from below, and one pass over the targets serves all instances of a size.

Entries whose bound is no worse than the best move found are bounded again, each on its own range
and for each target, by a parabola that lies close to the root and is the product of two matrices.
Only the remaining entries are examined.

Memory to reserve depends on a pair of nodes. More of it may make its spread smaller, but hardly by
as much as its sum costs; so at first it counts as none.
"""

from typing import NamedTuple

import numpy as np

from nodeagent.placement.balance.bound import Bound
from nodeagent.placement.balance.departures import ORDER, TOTAL
from nodeagent.placement.layout.arrays import Bools, Floats, Ints
from nodeagent.placement.layout.moves import Kind

_FIRST = 32  # entries, and moves, examined at first, for comparison
_CHUNK = 256  # entries bounded at once
# Near zero the root is too steep for sums of large parts; less is a bound as well. No range is
# narrower than rounding, which grows with the variance: a chord needs two ends.
_NARROW, _ROUNDING, _STEEP = 1e-8, 1e-12, 1e6
# Segments are cut by so many terms, into so many parts, and not with so many sizes; a chord may lie
# below the root by this part of the possible gain.
_LEAST_GAIN = 1e-4
_CUT, _BINS, _PAIRS, _FAR, _EDGE = 2, 24, 2000, 0.1, 1e-9
# At most so many terms, whose chords lie so far below, are computed instead of bounded.
_EXACT, _NEAR = 3, 0.02


class _Bins(NamedTuple):
    """Parts of segments.

    Each has its segment and its range. Each of its pairs and entries has its part; each pair
    itself, and each entry its place among the pairs here. There are also the terms with the widest
    ranges, and the others.
    """

    segment: Ints
    least: Floats
    most: Floats
    of_pair: Ints
    pair: Ints
    of_entry: Ints
    pair_of_entry: Ints
    wide: Ints
    near: Ints


class GoodMoves(NamedTuple):
    """Moves by entry and target (-1: none), and by how much each changes the score."""

    entries: Ints
    targets: Ints
    changes: Floats


def best(bound: Bound, tolerance: float) -> GoodMoves:
    """The moves that lower the score most, with all that are as good within `tolerance`."""
    return _Look(bound, tolerance).all()


def near(bound: Bound, part: float, more: int) -> GoodMoves:
    """Return the best move and some that gain less by this part at most, the best first.

    After so many `more` it only examines possible best moves.
    """
    moves = _Look(bound, 0.0, part, more).all()
    order = np.argsort(moves.changes, kind="stable")
    return GoodMoves(moves.entries[order], moves.targets[order], moves.changes[order])


class _Look:
    """One search for the best move, and for those worse by `tolerance` or by a part of its gain."""

    def __init__(self, bound: Bound, tolerance: float, part: float = 0.0, more: int = 0) -> None:
        self.b, self.o, self.grid = bound, bound.o, bound.o.grid
        self.tolerance, self.part, self.more, self.best = tolerance, part, more, 0.0
        self.kept: list[GoodMoves] = []
        o, grid = self.o, self.grid
        n = self.n = grid.online_count
        # (terms, columns): a target's addition to a variance, by the amount and by its square.
        self.pull = (2.0 / n) * o.above * grid.part
        self.push = (1.0 - 1.0 / n) / n * grid.part**2
        pull, push = self.pull[:, grid.online], self.push[:, grid.online]
        self.pulls = pull.min(axis=1)[:, None], pull.max(axis=1)[:, None]
        self.pushes = push.min(axis=1)[:, None], push.max(axis=1)[:, None]
        self.largest_part = grid.part.max(axis=1)[:, None]
        # The distance from the mean of a node that may reserve more memory.
        mean = float(o.drift[-1]) * n
        levels = o.leavings.level[o.leavings.by_old] - mean
        above = o.above[-1, grid.online]
        self.below = max(0.0, -float(above.min()), -float(levels.min(initial=0.0)))
        self.beyond = max(0.0, float(above.max()))

    @property
    def good(self) -> float:
        """The largest change of the score by a move that is kept."""
        return (1.0 - self.part) * self.best + self.tolerance

    @property
    def limit(self) -> float:
        """The largest bound whose moves the search still looks at."""
        return self.good if self.more > 0 else self.best + self.tolerance

    def all(self) -> GoodMoves:
        """Examine the moves without a target, then the others."""
        entries = self.b.failovers
        self._keep(entries, np.full(len(entries), -1), self.o.failovers(entries))
        if len(self.b.entries):
            self.others()
        self.b.gain = max(-self.best, _LEAST_GAIN)
        entries, targets, changes = (np.concatenate(part) for part in zip(*self.kept, strict=True))
        good = np.flatnonzero(changes <= self.good)
        return GoodMoves(entries[good], targets[good], changes[good])

    def others(self) -> None:
        """Examine those with a target that may be as good as the best, the most promising first."""
        least = self._coarse()
        first = _lowest(least, _FIRST)
        self._look(first)
        least[first] = np.inf
        some = np.flatnonzero(least <= self.limit)
        some = some[np.argsort(least[some], kind="stable")]
        for place in range(0, len(some), _CHUNK):
            chunk = some[place : place + _CHUNK]
            chunk = chunk[least[chunk] <= self.limit]
            if not len(chunk):
                return
            self._look(chunk)

    def _look(self, places: Ints) -> None:
        bounds = self._fine(places)
        columns, bounds = bounds.shape[1], bounds.ravel()
        some = np.flatnonzero(bounds <= self.limit)
        count = _FIRST
        while len(some):
            which = _lowest(bounds[some], count)
            chosen, some = some[which], np.delete(some, which)
            entries, targets = self.b.entries[places[chosen // columns]], chosen % columns
            self._keep(entries, targets, self.o.change(entries, targets))
            self.more -= len(chosen)
            some = some[bounds[some] <= self.limit]
            count *= 4

    def _keep(self, entries: Ints, targets: Ints, changes: Floats) -> None:
        self.best = min(self.best, float(changes.min(initial=0.0)))
        good = np.flatnonzero(changes <= self.good)
        self.kept.append(GoodMoves(entries[good], targets[good], changes[good]))

    def _coarse(self) -> Floats:
        """Return for each place the least score change of any of its moves."""
        b, o, grid, pairs = self.b, self.o, self.grid, self.b.pairs
        terms = len(o.variance)
        low, high, crossing = self._by_target(pairs.added, pairs.size, mirrored=pairs.mirrored)
        sums = np.maximum(np.abs(b.least[terms:]), np.abs(b.most[terms:]))
        crossed = np.maximum.reduceat(crossing, pairs.first, axis=1) * sums
        drift = np.abs(2.0 * o.drift[:, None] * sums)
        middle = o.variance[:, None] - crossed
        bins = self.bins = self._bins(b.least[:terms], b.most[:terms])
        segment = bins.segment
        bottom = (
            bins.least + (middle - drift + np.minimum.reduceat(low, pairs.first, 1))[:, segment]
        )
        top = bins.most + (middle + drift + np.maximum.reduceat(high, pairs.first, 1))[:, segment]
        # Below zero there is no root, and a chord from there would lie above it.
        bottom = np.maximum(bottom, 0.0)
        root, slope = _chord(bottom, top, grid.weights[:, None])
        constant = (root + slope * (middle[:, segment] - bottom)).sum(axis=0) - o.spread
        constant = constant[bins.of_pair]
        slopes, pair = slope[:, bins.of_pair], bins.pair
        amounts = slopes[:-1] * pairs.added[:-1, pair]
        bounds = amounts.T @ self.pull[:-1] + (amounts * pairs.added[:-1, pair]).T @ self.push[:-1]
        fit, role = grid.fit_of_size[pairs.size[pair]], pairs.primary[pair].astype(np.intp)
        bounds += o.primary_n1[fit] * role[:, None]
        forced = b.forced[segment[bins.of_pair]].astype(np.intp)
        bounds[~(o.fits[role, forced, fit] & grid.online)] = np.inf
        cheap = TOTAL * self.n < 2.0 * slopes[-1] * self.below
        at_best = bounds.min(axis=1) + constant + cheap * slopes[-1] * low[-1, pair]
        part = np.concatenate([slope, -2.0 * slope * o.drift[:, None]])
        linear = np.einsum("te,te->e", part[:, bins.of_entry], b.parts)
        least: Floats = b.steps + linear + at_best[bins.pair_of_entry]
        return least

    def _bins(self, least: Floats, most: Floats) -> "_Bins":
        """Return the segments; cut them by the entries where chords would lie far below the roots.

        It cuts by the terms that matter most: those whose range is wide for their spread.
        """
        b, o, pairs = self.b, self.o, self.b.pairs
        low = np.sqrt(np.maximum(o.variance + least.min(axis=1), 0.0))
        high = np.sqrt(np.maximum(o.variance + most.max(axis=1), 0.0))
        gap = self.grid.weights * (high - low) ** 2 / (4.0 * (high + low) + 1e-30)
        cuts, remaining = [], _BINS if len(pairs.size) <= _PAIRS else 1
        # Reserved memory, the last term, is not a sum.
        order = np.argsort(-gap[:-1])
        for term in order[:_CUT]:
            count = min(remaining, int(np.sqrt(gap[term] / (_FAR * b.gain))) + 1)
            if count > 1:
                cuts.append((int(term), count))
                remaining //= count
        code, number = np.zeros(len(b.entries), np.intp), 1
        for term, count in cuts:
            value = np.sqrt(np.maximum(o.variance[term] + b.parts[term], 0.0))
            step = (high[term] - low[term]) / count
            code = code * count + np.clip((value - low[term]) / step, 0, count - 1).astype(np.intp)
            number *= count
        code += b.segment * number
        used = np.flatnonzero(np.bincount(code, minlength=len(pairs.first) * number))
        place = np.zeros(len(pairs.first) * number, np.intp)
        place[used] = np.arange(len(used))
        segment, code_left = used // number, used % number
        least, most = least[:, segment], most[:, segment]
        for term, count in reversed(cuts):
            step = (high[term] - low[term]) / count
            n, code_left = code_left % count, code_left // count
            floor = np.maximum(low[term] + n * step - _EDGE, 0.0) ** 2 - o.variance[term]
            ceiling = (low[term] + (n + 1) * step + _EDGE) ** 2 - o.variance[term]
            least[term] = np.where(n > 0, np.maximum(least[term], floor), least[term])
            most[term] = np.where(n < count - 1, np.minimum(most[term], ceiling), most[term])
        counts = pairs.each[segment]
        first = np.cumsum(counts) - counts
        of_pair = np.repeat(np.arange(len(used)), counts)
        pair = np.arange(len(of_pair)) + np.repeat(pairs.first[segment] - first, counts)
        of_entry = place[code]
        pair_of_entry = b.pair - pairs.first[b.segment] + first[of_entry]
        exact = int((gap[order[:_EXACT]] > _NEAR * b.gain).sum())
        wide, near = order[:exact], order[exact:]
        return _Bins(segment, least, most, of_pair, pair, of_entry, pair_of_entry, wide, near)

    def _fine(self, places: Ints) -> Floats:
        """(places, columns): a bound for each move; infinite where the node takes no such size."""
        b, o, grid, leavings = self.b, self.o, self.grid, self.o.leavings
        terms, size, entries = len(o.variance), b.size[places], b.entries[places]
        role = leavings.to_primary[entries].astype(np.intp)
        mirrored = leavings.kind[entries] != ORDER[Kind.FAILOVER_ANY]
        own, sums = b.parts[:terms, places], b.parts[terms:, places]
        added = o.added[role, :, size].T
        low, high, crossing = self._by_target(added, size, mirrored=mirrored)
        middle = o.variance[:, None] + own - 2.0 * o.drift[:, None] * sums
        lower = middle - crossing * np.abs(sums)
        bottom = np.maximum(lower + low, 0.0)
        low = bottom - lower
        top = _apart(bottom, lower + high)
        high = top - lower
        weights = grid.weights[:, None]
        root, slope = _chord(bottom, top, weights)
        bend = np.minimum(_bend(bottom, top, weights), _STEEP / (low * low + high * high))
        cheap = TOTAL * self.n < 2.0 * slope[-1] * self.below
        reserved = np.where(cheap, root[-1], root[-1] - slope[-1] * low[-1])
        exact = self.bins.wide
        near = self.bins.near
        low, high, a, slope, bend = (x[near] for x in (low, high, added, slope, bend))
        first, second = slope + bend * (low + high), -bend
        constant = (root[near] - slope * low - bend * low * high).sum(axis=0) + reserved
        rows = [first * a, first * a**2, second * a**2, 2.0 * second * a**3, second * a**4]
        pull, push = self.pull[near], self.push[near]
        columns = [pull, push, pull * pull, pull * push, push * push]
        bounds: Floats = np.concatenate(rows).T @ np.concatenate(columns)
        bounds += (constant + b.steps[places] - o.spread)[:, None]
        for term in exact:
            a, part = added[term][:, None], grid.part[term]
            after = a * (self.pull[term] + a * self.push[term]) + middle[term][:, None]
            after -= (2.0 / self.n**2 * sums[term][:, None] * a) * part
            bounds += grid.weights[term] * np.sqrt(np.maximum(after, 0.0))
        fit, forced = grid.fit_of_size[size], leavings.forced[entries].astype(np.intp)
        bounds += o.primary_n1[fit] * role[:, None]
        bounds[~(o.fits[role, forced, fit] & grid.online)] = np.inf
        return bounds

    def _by_target(
        self, added: Floats, sizes: Ints, *, mirrored: Bools | bool
    ) -> tuple[Floats, Floats, Floats]:
        """Return per (terms, sizes) the least and the most that a target can add to a variance.

        Also return the most that the product of both parts' sums can subtract, by the entry's sum.
        """
        n = self.n
        pulls, squares = (added * self.pulls[0], added * self.pulls[1]), added * added
        low = np.minimum(*pulls) + squares * self.pushes[0]
        high = np.maximum(*pulls) + squares * self.pushes[1]
        crossing = np.abs(added) * self.largest_part
        more = self.grid.sizes.reserved[sizes] * self.largest_part[-1] * mirrored
        dip = np.minimum(self.below**2 / max(1.0 - 1.0 / n, 0.5), 2.0 * self.below * more)
        low[-1], high[-1] = -dip / n, (more + 2.0 * self.beyond) * more / n
        crossing[-1] = more
        return low, high, 2.0 / n**2 * crossing


def _lowest(values: Floats, count: int) -> Ints:
    if count >= len(values):
        return np.arange(len(values))
    return np.argpartition(values, count - 1)[:count]


def _chord(bottom: Floats, top: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Return the weighed root at the bottom of a range and its mean slope over the range."""
    top = _apart(bottom, top)
    root = np.sqrt(bottom)
    return weights * root, weights * (np.sqrt(top) - root) / (top - bottom)


def _apart(bottom: Floats, top: Floats) -> Floats:
    """Return the top of a range that is wide enough for a chord."""
    apart: Floats = np.maximum(top, bottom + np.maximum(_NARROW, _ROUNDING * bottom))
    return apart


def _bend(bottom: Floats, top: Floats, weights: Floats) -> Floats:
    """Return how far the root lies above its chord, by the distances to both ends of the range."""
    low, high = np.sqrt(bottom), np.sqrt(top)
    bend: Floats = weights / (2.0 * high * (low + high) ** 2)
    return bend
