"""Pairs of instances whose nodes might be exchanged, judged at once. Pure.

As in `move_outcomes`, a spread comes from sums; each of the two nodes adds the difference of the
two instances. Memory reserved for peers is not a sum: of each node the three largest peers are
known, and an exchange changes two. Only the trial checks tags.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from nodeagent.placement.balance.departures import TOTAL
from nodeagent.placement.layout import arrays as at
from nodeagent.placement.layout.arrays import Bools, Floats, Grid, Ints
from nodeagent.placement.layout.layout import Place

GAIN = 1e-6  # a smaller gain does not count


class Judged(NamedTuple):
    """Pairs of rows, whether their primary nodes are exchanged, and the change of the score."""

    one: Ints
    other: Ints
    primary: Bools
    changes: Floats
    farther: Ints  # further moves


class Pairs:
    """Pairs of rows of a grid, at `origin` at first; call `read` when the grid has changed."""

    def __init__(self, grid: Grid, origin: Sequence[Place]) -> None:
        self.grid = grid
        self.first_p = np.array([grid.column[place.primary] for place in origin], np.intp)
        self.first_s = np.array([grid.column.get(place.secondary, -1) for place in origin], np.intp)
        self.added = np.stack([grid.added(primary=False), grid.added(primary=True)])
        able = grid.can_migrate
        past_secondary = able[self.first_p, self.first_s][:, None] & able[self.first_s]
        # (rows, columns): whether a move can make it run there.
        self.can_come = None if able.all() else able[self.first_p] | past_secondary
        self.read()

    def moved(self) -> Bools:
        grid = self.grid
        moved: Bools = (grid.primary != self.first_p) | (grid.secondary != self.first_s)
        return moved

    def judge(self, one: Ints, other: Ints, spare: int) -> Judged:
        """Return pairs that gain and are at most so many moves farther from their origin."""
        judged = [self._judge(one, other, spare, primary=primary) for primary in (False, True)]
        return Judged(*map(np.concatenate, zip(*judged, strict=True)))

    def _judge(self, one: Ints, other: Ints, spare: int, *, primary: bool) -> Judged:
        """Judge exchanges of their secondary or primary nodes; keep those that gain."""
        grid = self.grid
        ends = (grid.primary, grid.secondary) if primary else (grid.secondary, grid.primary)
        a, b, stays, stays_too = ends[0][one], ends[0][other], ends[1][one], ends[1][other]
        good = (a != b) & (b != stays) & (a != stays_too) & grid.online[a] & grid.online[b]
        good &= one < other
        if primary:
            good &= stays != stays_too
            if self.can_come is not None:
                good &= self.can_come[one, b] & self.can_come[other, a]
        one, other, a, b, stays, stays_too = (
            part[good] for part in (one, other, a, b, stays, stays_too)
        )
        size, size_too = grid.size[one], grid.size[other]
        added = self.added[int(primary)]
        more = added[:, size_too] - added[:, size]
        at_a, at_b = more * grid.part[:, a], -more * grid.part[:, b]
        mirrors = (stays, stays_too) if primary else (a, b)
        reserved = self._reserved(one, other, a, b, stays, stays_too, primary=primary)
        steps = [
            (after - grid.reserved[node]) * grid.memory_part[node]
            for after, node in zip(reserved, mirrors, strict=True)
        ]
        squares = at_a * (2.0 * self.values[:, a] + at_a) + at_b * (2.0 * self.values[:, b] + at_b)
        sums = at_a + at_b
        squares[-1] = sum(
            step * (2.0 * self.values[-1, node] + step)
            for step, node in zip(steps, mirrors, strict=True)
        )
        sums[-1] = steps[0] + steps[1]
        n = grid.online_count
        change = (squares - (2.0 * self.total[:, None] + sums) * sums / n) / n
        after = np.sqrt(np.maximum(self.variance[:, None] + change, 0.0))
        changes = grid.weights @ after - self.spread + TOTAL * sums[-1]
        good = self._fits(size, size_too, a, b, mirrors, reserved, primary=primary)
        farther = self._farther(one, other, a, b, primary=primary)
        good &= (changes < -GAIN) & (farther <= spare)
        which = np.flatnonzero(good)
        return Judged(
            one[which], other[which], np.full(len(which), primary), changes[which], farther[which]
        )

    def _reserved(
        self,
        one: Ints,
        other: Ints,
        a: Ints,
        b: Ints,
        stays: Ints,
        stays_too: Ints,
        *,
        primary: bool,
    ) -> tuple[Floats, Floats]:
        """Return the memory that both instances' secondary nodes reserve then."""
        peers, sizes = self.grid.peers, self.grid.sizes
        need, need_too = sizes.reserved[self.grid.size[one]], sizes.reserved[self.grid.size[other]]
        if primary:
            exchanged = np.maximum(peers[stays, a] - need, peers[stays, b] + need)
            exchanged_too = np.maximum(
                peers[stays_too, b] - need_too, peers[stays_too, a] + need_too
            )
            first = np.maximum(self._others(stays, a, b), exchanged)
            return first, np.maximum(self._others(stays_too, a, b), exchanged_too)
        same = stays == stays_too
        swap = np.maximum(peers[a, stays] - need, peers[a, stays_too] + need_too)
        swap = np.where(same, peers[a, stays] - need + need_too, swap)
        swap_too = np.maximum(peers[b, stays_too] - need_too, peers[b, stays] + need)
        swap_too = np.where(same, peers[b, stays] - need_too + need, swap_too)
        first = np.maximum(self._others(a, stays, stays_too), swap)
        return first, np.maximum(self._others(b, stays, stays_too), swap_too)

    def _others(self, node: Ints, peer: Ints, peer_too: Ints) -> Floats:
        """Return the most memory reserved for any other peer than these two."""
        reserved = self.grid.foreign[node]
        for rank in range(2, -1, -1):
            by = self.most_by[node, rank]
            apart = (by != peer) & (by != peer_too)
            reserved = np.where(
                apart, np.maximum(self.most[node, rank], self.grid.foreign[node]), reserved
            )
        return reserved

    def _fits(
        self,
        size: Ints,
        size_too: Ints,
        a: Ints,
        b: Ints,
        mirrors: tuple[Ints, Ints],
        reserved: tuple[Floats, Floats],
        *,
        primary: bool,
    ) -> Bools:
        """Check quickly the likeliest obstacles."""
        grid = self.grid
        amounts = grid.sizes.primary if primary else grid.sizes.secondary
        more = amounts[:, size_too] - amounts[:, size]
        good = np.ones(len(a), bool)
        for node, sign in ((a, 1.0), (b, -1.0)):
            after = grid.state[:, node] + sign * more
            for amount in (at.FREE, at.DISK, at.P_MEMORY, at.P_DISK):
                good &= after[amount] > 0
            if primary:
                good &= after[at.FREE] > grid.reserved[node]
        for node, after in zip(mirrors, reserved, strict=True):
            good &= after < grid.state[at.FREE, node]
        return good

    def _farther(self, one: Ints, other: Ints, a: Ints, b: Ints, *, primary: bool) -> Ints:
        """Return the number of further moves."""
        grid, farther = self.grid, np.zeros(len(one), np.intp)
        for row, new in ((one, b), (other, a)):
            p, s = grid.primary[row], grid.secondary[row]
            now = self._distance(row, p, s)
            then = self._distance(row, new, s) if primary else self._distance(row, p, new)
            farther += then - now
        return farther

    def _distance(self, row: Ints, p: Ints, s: Ints) -> Ints:
        first_p, first_s = self.first_p[row], self.first_s[row]
        same = (p == first_p) & (s == first_s)
        shares = (p == first_p) | (p == first_s) | (s == first_p) | (s == first_s)
        distance: Ints = np.where(same, 0, np.where(shares, 1, 2))
        return distance

    def read(self) -> None:
        """Read sums, and of each node the three peers it reserves most memory for."""
        grid = self.grid
        n = grid.online_count
        self.values = grid.values
        self.total = self.values.sum(axis=1)
        centred = np.where(grid.online, self.values - self.total[:, None] / n, 0.0)
        self.variance = (centred * centred).sum(axis=1) / n
        self.spread = float(grid.weights @ np.sqrt(self.variance))
        ranks = min(3, grid.count)
        order = np.argpartition(-grid.peers, ranks - 1, axis=1)[:, :ranks]
        largest = np.take_along_axis(grid.peers, order, axis=1)
        ranked = np.argsort(-largest, axis=1)
        self.most_by = np.full((grid.count, 3), -1)
        self.most = np.zeros((grid.count, 3))
        self.most_by[:, :ranks] = np.take_along_axis(order, ranked, axis=1)
        self.most[:, :ranks] = np.take_along_axis(largest, ranked, axis=1)
