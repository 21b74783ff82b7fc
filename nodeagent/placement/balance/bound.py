"""Entries in an order in which they can be bounded together. Pure. Needs NumPy.

For all entries of one kind and of similar sizes the additions to a variance lie in a small range:
such entries form a *segment*. See `best_move`, which makes bounds of it.
"""

from typing import NamedTuple

import numpy as np

from nodeagent.placement.balance.departures import TO_PRIMARY
from nodeagent.placement.balance.move_outcomes import Outcomes
from nodeagent.placement.layout.arrays import Bools, Floats, Ints
from nodeagent.placement.layout.moves import Kind

TARGETED = tuple(kind for kind in Kind if kind is not Kind.FAILOVER)
_SEGMENTS = 12  # of a kind, at most


class Segment(NamedTuple):
    """Entries of one kind and of similar sizes, as many as `entries`; and these sizes."""

    kind: Kind
    entries: int
    sizes: Ints


class Pairs(NamedTuple):
    """A segment and one of its sizes each, by segment.

    `first` is the index of a segment's first pair, `each` its number of pairs.
    """

    first: Ints
    each: Ints
    segment: Ints
    size: Ints
    primary: Bools  # their targets become primary nodes
    mirrored: Bools
    added: Floats  # (terms, pairs)


class Bound:
    """Bounds of the outcomes' entries; call `read` with the rows that have changed.

    Everything is in the order of the segments; `entries` has the entry at each place, `segment` and
    `pair` its own. `parts` holds each entry's own addition to the variances, then to the sums;
    `least` and `most` are their range in each segment. `steps` bounds all but the spreads; infinite
    if the move does not exist. `forced`: some entry skips its target's soft checks. `gain` is the
    gain of the last best move.
    """

    def __init__(self, outcomes: Outcomes) -> None:
        self.o = outcomes
        leavings, terms = outcomes.leavings, len(outcomes.grid.weights)
        segments, self.entries = _segments(outcomes)
        self.pairs = _pairs(outcomes, segments)
        self.gain = 1.0
        self._place = np.zeros(len(leavings.row), np.intp)
        self._place[self.entries] = np.arange(len(self.entries))
        lengths = [segment.entries for segment in segments]
        self.segment = np.repeat(np.arange(len(lengths)), lengths)
        self.size = outcomes.grid.size[leavings.row[self.entries]]
        self.pair = _pair_of(self.pairs, self.segment, self.size, len(outcomes.grid.fit_of_size))
        self.failovers = leavings.entries(Kind.FAILOVER, leavings.rows_of[Kind.FAILOVER])
        self.parts = np.zeros((2 * terms, len(self.entries)))
        self.steps = np.full(len(self.entries), np.inf)
        self.least = np.full((2 * terms, len(lengths)), np.inf)
        self.most = np.full((2 * terms, len(lengths)), -np.inf)
        self.forced = np.zeros(len(lengths), bool)
        self.read(np.arange(len(outcomes.grid.rows)))

    def read(self, rows: Ints) -> None:
        """Read these rows' leavings again. Ranges only grow."""
        leavings, mirrored = self.o.leavings, self.o.grid.mirrored[rows]
        shared, drbd = rows[~mirrored], rows[mirrored]
        entries = np.concatenate(
            [leavings.entries(k, shared if k is Kind.FAILOVER_ANY else drbd) for k in TARGETED]
        )
        if not len(entries):
            return
        places = self._place[entries]
        order = np.argsort(places)
        entries, places = entries[order], places[order]
        parts = np.concatenate([leavings.own[:, entries], leavings.sums[:, entries]])
        self.parts[:, places] = parts
        steps = leavings.steps[entries] + self.o.least_marks(entries)
        self.steps[places] = np.where(leavings.allowed[entries], steps, np.inf)
        segments = self.segment[places]
        starts = np.flatnonzero(np.diff(segments, prepend=-1))
        which = segments[starts]
        low = np.minimum.reduceat(parts, starts, axis=1)
        high = np.maximum.reduceat(parts, starts, axis=1)
        self.least[:, which] = np.minimum(self.least[:, which], low)
        self.most[:, which] = np.maximum(self.most[:, which], high)
        self.forced[which] |= np.logical_or.reduceat(leavings.forced[entries], starts)


def _segments(outcomes: Outcomes) -> tuple[list[Segment], Ints]:
    grid, leavings = outcomes.grid, outcomes.leavings
    # The size of its largest change, in units of the spreads: 2 to the power of `rank`.
    change = np.abs(outcomes.added[1]) * grid.part.max(axis=1)[:, None]
    reach: Floats = (change / (np.sqrt(outcomes.variance)[:, None] + 1e-3)).max(axis=0)
    rank = np.floor(np.log2(np.maximum(reach, 1e-9)))
    rank = np.maximum(rank, rank.max(initial=0.0) - _SEGMENTS + 1)
    segments, parts = [], [np.zeros(0, np.intp)]
    for kind in TARGETED:
        rows = leavings.rows_of[kind]
        ranks = rank[grid.size[rows]]
        # Not by numpy.unique, which imports masked arrays.
        for unique_rank in sorted(set(ranks.tolist())):
            some = rows[ranks == unique_rank]
            sizes = np.flatnonzero(np.bincount(grid.size[some]))
            segments.append(Segment(kind, len(some), sizes))
            parts.append(leavings.entries(kind, some))
    return segments, np.concatenate(parts)


def _pairs(outcomes: Outcomes, segments: list[Segment]) -> Pairs:
    count = np.array([len(segment.sizes) for segment in segments], np.intp)
    segment = np.repeat(np.arange(len(segments)), count)
    size = np.concatenate([np.zeros(0, np.intp), *(segment.sizes for segment in segments)])
    primary = np.array([segment.kind in TO_PRIMARY for segment in segments], bool)[segment]
    mirrored = np.array([s.kind is not Kind.FAILOVER_ANY for s in segments], bool)[segment]
    added = outcomes.added[primary.astype(np.intp), :, size].T.copy()
    return Pairs(np.cumsum(count) - count, count, segment, size, primary, mirrored, added)


def _pair_of(pairs: Pairs, segment: Ints, size: Ints, sizes: int) -> Ints:
    """Return the pair of each entry's segment and size."""
    return np.searchsorted(pairs.segment * sizes + pairs.size, segment * sizes + size)
