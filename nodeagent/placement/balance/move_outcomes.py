"""Outcomes of many moves at once: the change of the score, or a refusal. Pure.

A move changes two or three nodes. Its effect on the instance's present nodes is computed once for
each instance and kind, as an entry of `departures`; the target's part, once for each size and node.
The two are put together only for the examined moves. The checks are those of `moves`, which decides
whether a move is allowed: a search tries there the moves it has found here.
"""

from typing import NamedTuple

import numpy as np

from nodeagent.placement.balance.capacity_checks import takes_primary, takes_secondary
from nodeagent.placement.balance.departures import KINDS, N1, ORDER, TOTAL, Departure, Leavings
from nodeagent.placement.balance.tag_terms import Marks
from nodeagent.placement.layout import arrays as at
from nodeagent.placement.layout.arrays import Bools, Floats, Grid, Ints
from nodeagent.placement.layout.moves import Kind, Move

_AT_ONCE = 16  # columns
_ANY = ORDER[Kind.FAILOVER_ANY]


class Parts(NamedTuple):
    """Moves' effects on each term's variance by itself, and on its sum; (terms, moves).

    `steps` is the change of all other components, weighed; infinite if a move is not allowed.
    """

    own: Floats
    sums: Floats
    steps: Floats


class Outcomes:
    """Outcomes for the present grid; `read` takes its changes.

    Variances are larger by the square of `soft`, (terms,): then the root is not steep near zero. A
    move costs `price` for each GiB it copies.
    """

    def __init__(self, grid: Grid, soft: Floats | None = None, price: float = 0.0) -> None:
        self.grid = grid
        self.marks = Marks(grid)
        self.leavings = Leavings(grid, price)
        # (role, terms, sizes): as secondary, as primary.
        self.added = np.stack([grid.added(primary=False), grid.added(primary=True)])
        shape = (2, 2, grid.fits.used.size, grid.count)
        self.fits = np.zeros(shape, bool)  # the role, and whether soft checks are skipped
        self.primary_n1 = np.zeros(shape[2:])
        for first in range(0, grid.count, _AT_ONCE):
            self._read_targets(np.arange(first, min(first + _AT_ONCE, grid.count)))
        self.soften(soft)
        self._read_leavings(np.arange(len(grid.rows)))

    def soften(self, soft: Floats | None) -> None:
        """Enlarge the variances by another `soft`."""
        self._soft = np.zeros(len(self.grid.weights)) if soft is None else soft * soft
        self._read_sums()

    def read(self, columns: Ints) -> Ints:
        """Read the changed columns of the grid; return the rows that they affect."""
        grid = self.grid
        elsewhere = self.marks.read_nodes(grid.layout, columns.tolist())
        self._read_targets(columns)
        self._read_sums()
        touched = np.zeros(grid.count + 1, bool)  # the last is for those without secondary
        touched[columns] = True
        rows = np.flatnonzero(touched[grid.primary] | touched[grid.secondary] | elsewhere)
        self._read_leavings(rows)
        return rows

    def move(self, entry: int, target: int) -> Move:
        """Return the move of an entry to the column of a target (-1: none)."""
        grid, leavings = self.grid, self.leavings
        index = grid.members[target] if target >= 0 else -1
        return Move(grid.rows[leavings.row[entry]], KINDS[leavings.kind[entry]], index)

    def change_of_any(self, entries: Ints, targets: Ints) -> Floats:
        """As `change`, also of moves without a target (-1)."""
        changes = np.empty(len(entries))
        without = targets < 0
        changes[without] = self.failovers(entries[without])
        changes[~without] = self.change(entries[~without], targets[~without])
        return changes

    def change(self, entries: Ints, targets: Ints) -> Floats:
        """Return the score change of each of these moves; infinite if not allowed."""
        return self.changes(self.parts(entries, targets))

    def parts(self, entries: Ints, targets: Ints) -> Parts:
        """Return the effects of these moves on the parts of the score."""
        grid, leavings = self.grid, self.leavings
        rows, to_primary = leavings.row[entries], leavings.to_primary[entries]
        role = to_primary.astype(np.intp)
        allowed = leavings.allowed[entries] & grid.online[targets]
        forced = leavings.forced[entries].astype(np.intp)
        fit = grid.fit[rows]
        allowed &= self.fits[role, forced, fit, targets]
        allowed &= (targets != grid.primary[rows]) & (targets != grid.secondary[rows])
        allowed &= ~to_primary | grid.can_migrate[leavings.sender[entries], targets]
        added = self.added[role, :, grid.size[rows]].T * grid.part[:, targets]
        own, sums = leavings.own[:, entries], leavings.sums[:, entries]
        steps = leavings.steps[entries] + to_primary * self.primary_n1[fit, targets]
        squares = added * (2.0 * self.values[:, targets] + added)
        if len(self.leavings.rows_of[Kind.FAILOVER]):
            step, level = self._mirror(entries, rows, targets, steps, allowed)
            squares[-1], added[-1] = step * (2.0 * level + step), step
        if self.marks.excluding or self.marks.placing:
            self._mark(entries, rows, targets, steps, allowed)
        n = grid.online_count
        more = (squares - added * added / n) / n - 2.0 / n**2 * sums * added
        return Parts(own + more, sums + added, np.where(allowed, steps, np.inf))

    def failovers(self, entries: Ints) -> Floats:
        """Return the score change of each of these moves without a target."""
        return self.changes(self.parts_of_failovers(entries))

    def parts_of_failovers(self, entries: Ints) -> Parts:
        """As `parts`, for moves without a target."""
        of = self.leavings
        steps = np.where(of.allowed[entries], of.steps[entries], np.inf)
        return Parts(of.own[:, entries], of.sums[:, entries], steps)

    def changes(self, parts: Parts) -> Floats:
        after = self.variance[:, None] + parts.own - 2.0 * self.drift[:, None] * parts.sums
        after = np.sqrt(np.maximum(after, 0.0))
        return np.asarray(self.grid.weights @ after) - self.spread + parts.steps

    def _mirror(
        self, entries: Ints, rows: Ints, targets: Ints, steps: Floats, allowed: Bools
    ) -> tuple[Floats, Floats]:
        """Reserve memory on the future secondary node: both ends matter."""
        grid, leavings = self.grid, self.leavings
        size, by_old, old = grid.size[rows], leavings.by_old[entries], leavings.node[entries]
        node, peer = np.where(by_old, old, targets), np.where(by_old, targets, old)
        base = np.where(by_old, leavings.base[entries], grid.reserved[targets])
        level = np.where(by_old, leavings.level[entries], self.values[-1, targets])
        free = np.where(by_old, leavings.free[entries], grid.state[at.FREE, targets])
        failing = np.where(by_old, leavings.failing[entries], grid.failing[targets])
        lenient = np.where(by_old, leavings.lenient[entries], leavings.forced[entries])
        mirrored = leavings.kind[entries] != _ANY
        real = ~grid.sizes.forthcoming[size] & mirrored
        after = np.maximum(base, grid.peers[node, peer] + grid.sizes.reserved[size])
        fails = np.where(real, free <= after, failing)
        allowed &= lenient | failing | ~fails
        step = np.where(real, (after - base) * grid.memory_part[node], 0.0)
        instances = self.instances[node]
        n1 = np.where(by_old, (fails ^ failing) * instances, fails * (instances + 1))
        n1 -= np.where(by_old, 0.0, grid.failing[node] * instances)
        steps += n1 * (grid.online[node] & real) * N1 + TOTAL * step
        return step, level

    def _mark(
        self, entries: Ints, rows: Ints, targets: Ints, steps: Floats, allowed: Bools
    ) -> None:
        grid, marks, leavings = self.grid, self.marks, self.leavings
        runs, kind, old = (
            leavings.to_primary[entries],
            leavings.kind[entries],
            leavings.node[entries],
        )
        if marks.excluding:
            allowed &= ~runs | leavings.forced[entries] | ~marks.clash(rows, targets)
            steps += runs * marks.arriving[marks.exclusion[rows], targets]
        if marks.placing:
            primary, secondary = np.where(runs, targets, old), np.where(runs, old, targets)
            pair = marks.sharing(rows, primary, secondary)
            steps += np.where(kind == _ANY, marks.kept(rows, targets), pair)
            steps += runs * marks.misplaced(rows, targets)
        if marks.excluding and marks.placing:
            some = np.flatnonzero(runs)
            rows = rows[some]
            steps[some] += marks.crowding(rows, grid.primary[rows], targets[some])

    def least_marks(self, entries: Ints) -> Floats:
        """Return the least score changes by these moves' tags, whatever the targets."""
        of = self.leavings
        any_ = of.kind[entries] == _ANY
        return self.marks.least(of.row[entries], of.to_primary[entries], of.node[entries], any_)

    def _read_sums(self) -> None:
        grid = self.grid
        self.values = grid.values
        n = grid.online_count
        total = self.values.sum(axis=1)
        self.drift = total / n**2
        centred = np.where(grid.online, self.values - total[:, None] / n, 0.0)
        self.above = centred
        self.variance = (centred * centred).sum(axis=1) / n + self._soft
        self.spread = float(grid.weights @ np.sqrt(self.variance))
        self.instances = grid.state[at.PRIMARIES] + grid.state[at.SECONDARIES]

    def _read_targets(self, columns: Ints) -> None:
        grid, fits = self.grid, self.grid.fits
        state = grid.state[:, columns]
        instances = state[at.PRIMARIES] + state[at.SECONDARIES]
        reserved, failing = grid.reserved[columns], grid.failing[columns]
        every = np.arange(fits.used.size)[:, None]
        primary = state[:, None, :] + fits.primary[:, :, None]
        fails = primary[at.FREE] <= reserved
        real = ~fits.forthcoming[:, None] & grid.online[columns]
        n1 = fails * (instances + 1) - failing * instances
        self.primary_n1[:, columns] = np.where(real, n1 * N1, 0.0)
        secondary = state[:, None, :] + fits.secondary[:, :, None]
        # For any peer it will reserve no less than this.
        least = np.maximum(reserved, fits.reserved[:, None])
        fails_too = secondary[at.FREE] <= least
        for forced in (False, True):
            left_out = np.array(forced or grid.layout.rules.ignore_soft)
            self.fits[0, int(forced)][:, columns] = takes_secondary(
                grid, columns, secondary, fits, every, breaks=fails_too & ~failing, forced=left_out
            )
            self.fits[1, int(forced)][:, columns] = takes_primary(
                grid, columns, primary, fits, every, breaks=fails & ~failing, forced=left_out
            )

    def _read_leavings(self, rows: Ints) -> None:
        for mirrored in (False, True):
            some = rows[self.grid.mirrored[rows] == mirrored]
            if len(some):
                Departure(self.grid, self.marks, self.values, some).write(self.leavings)
