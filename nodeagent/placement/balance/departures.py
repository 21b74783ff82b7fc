"""Effects of moves on an instance's present nodes, whatever the target: many at once. Pure.

An *entry* is one kind of move of one instance. Its steps are those of `moves`; P is the primary
node, S the secondary. Spreads come from sums, for each term

    variance = squares / n - (sum / n)^2

so an entry is described by its own addition to the variance, and to the sum.
"""

import numpy as np

from nodeagent.placement.balance.capacity_checks import is_possible, takes_primary, takes_secondary
from nodeagent.placement.balance.tag_terms import Marks
from nodeagent.placement.layout import arrays as at
from nodeagent.placement.layout.arrays import WEIGHT, Bools, Floats, Grid, Ints
from nodeagent.placement.layout.moves import Kind, copied

N1, OFF, OFF_PRIMARY = WEIGHT["n1_cnt"], WEIGHT["offline_all_cnt"], WEIGHT["offline_pri_cnt"]
TOTAL = WEIGHT["reserved_mem_rtotal"]
KINDS = tuple(Kind)
ORDER = {kind: place for place, kind in enumerate(KINDS)}
FAILOVER = ORDER[Kind.FAILOVER]
# The target becomes the primary node; the others' targets become the secondary.
TO_PRIMARY = (Kind.REPLACE_FAILOVER, Kind.REPLACE_PRIMARY, Kind.FAILOVER_ANY)
# The future secondary node already holds the instance.
MIRRORED_BY_OLD = (Kind.REPLACE_FAILOVER, Kind.REPLACE_PRIMARY)
_Change = tuple[Ints, Floats | None, Floats | None]


class Leavings:
    """All entries, by kind and then by row; `first` and `rows` give a kind's place.

    `own` and `sums` have a row for each term. `steps` is the change of all other components,
    weighed, with a `toll` for the copied data. `forced`: the target's soft checks are skipped.
    `node` is the old node that stays in the new pair: the secondary, if `by_old`, or the peer that
    it reserves memory for.

    For a secondary `by_old`: the memory `base` it reserves before, its part of the term (`level`),
    its `free` memory, whether it is `failing` then, and whether its soft checks are skipped
    (`lenient`).
    """

    def __init__(self, grid: Grid, price: float) -> None:
        mirrored = np.flatnonzero(grid.mirrored)
        shared = np.flatnonzero(~grid.mirrored)
        self.rows_of = {k: shared if k is Kind.FAILOVER_ANY else mirrored for k in KINDS}
        self.first: dict[Kind, int] = {}
        count = 0
        for kind in KINDS:
            self.first[kind] = count
            count += len(self.rows_of[kind])
        self.row = np.concatenate([self.rows_of[kind] for kind in KINDS])
        self.kind = np.concatenate(
            [np.full(len(self.rows_of[kind]), ORDER[kind]) for kind in KINDS]
        )
        # The place of each row among those of its sort.
        self.place = np.empty(len(grid.rows), np.intp)
        self.place[mirrored], self.place[shared] = np.arange(len(mirrored)), np.arange(len(shared))
        kinds = np.array([kind in TO_PRIMARY for kind in KINDS])
        self.to_primary = kinds[self.kind]
        self.by_old = np.array([kind in MIRRORED_BY_OLD for kind in KINDS])[self.kind]
        terms = len(grid.weights)
        self.own, self.sums = np.zeros((terms, count)), np.zeros((terms, count))
        self.steps, self.base, self.level, self.free = (np.zeros(count) for _ in range(4))
        self.allowed, self.forced, self.failing, self.lenient = (
            np.zeros(count, bool) for _ in range(4)
        )
        self.toll = np.zeros(count)
        for kind in KINDS if price else ():
            some = self.rows_of[kind]
            data = [copied(grid.layout.demands[grid.rows[row]], kind) for row in some]
            self.toll[self.first[kind] : self.first[kind] + len(some)] = np.array(data) * price
        self.node = np.zeros(count, np.intp)
        self.sender = np.zeros(count, np.intp)

    def entries(self, kind: Kind, rows: Ints) -> Ints:
        """Return the entries of this kind and these rows, all of the kind's sort."""
        entries: Ints = self.first[kind] + self.place[rows]
        return entries


class Departure:
    """The nodes of these rows' instances without them; `write` records each kind of move.

    `values` are the grid's, (terms, columns). The rows are all DRBD instances, or none is.
    """

    def __init__(self, grid: Grid, marks: Marks, values: Floats, rows: Ints) -> None:
        self.grid, self.marks, self.values, self.rows = grid, marks, values, rows
        self.rules, sizes = grid.layout.rules, grid.sizes
        self.p, self.s = grid.primary[rows], grid.secondary[rows]
        self.which = grid.size[rows]
        self.primary = sizes.primary[:, self.which]
        self.secondary = sizes.secondary[:, self.which]
        self.at_p, self.at_s = grid.state[:, self.p], grid.state[:, self.s]
        self.reserved = sizes.reserved[self.which]
        others = np.where(grid.most_by[self.s] == self.p, grid.second[self.s], grid.most[self.s])
        self.s_base = np.maximum(others, grid.peers[self.s, self.p] - self.reserved)
        self.s_less = self.s_base - grid.reserved[self.s]
        self.real = real = ~sizes.forthcoming[self.which]
        self.p_free = self.at_p[at.FREE] - self.primary[at.FREE]
        p_fails, s_fails = self.p_free <= grid.reserved[self.p], self.at_s[at.FREE] <= self.s_base
        self.p_failing = np.where(real, p_fails, grid.failing[self.p])
        self.s_failing = np.where(real, s_fails, grid.failing[self.s])
        self.p_off, self.s_off = ~grid.online[self.p], ~grid.online[self.s]
        self.p_forced = self.p_off | self.rules.ignore_soft
        self.s_forced = self.s_off | self.rules.ignore_soft

    def write(self, into: Leavings) -> None:
        rules, grid = self.rules, self.grid
        if not grid.mirrored[self.rows[0]]:
            tried = self.p_off | (not rules.evacuate)
            self._failover_any(into, tried & rules.instance_moves)
            return
        tried = self.p_off | self.s_off | (not rules.evacuate)
        moves = tried & rules.instance_moves
        replaces = moves & rules.disk_moves & (self.p_off | (not rules.restricted))
        over = ~self.s_off & grid.can_migrate[self.p, self.s]
        s_runs, self.s_fails = self._s_runs()
        over &= s_runs
        self.p_marks, self.s_marks = self._marks()
        self._failover(into, moves & over)
        self._replace(into, tried & rules.disk_moves)
        self._replace_failover(into, replaces)
        self._replace_primary(into, replaces & over & (not rules.restricted))
        self._failover_replace(into, replaces & over)

    def _failover(self, into: Leavings, offered: Bools) -> None:
        base = self.grid.reserved[self.p]
        p_reserves = np.maximum(base, self.grid.peers[self.p, self.s] + self.reserved)
        p_fails = np.where(self.real, self.p_free <= p_reserves, self.p_failing)
        p_change = self.secondary - self.primary
        fits = takes_secondary(
            self.grid,
            self.p,
            self.at_p + p_change,
            self.grid.sizes,
            self.which,
            breaks=p_fails & ~self.p_failing,
            forced=self.p_forced,
            has_disks=self.p_off,
        )
        steps = self._counted(self.p, p_change, p_fails)
        steps += self._counted(self.s, -p_change, self.s_fails) + self.p_marks + self.s_marks
        steps += self.marks.kept(self.rows, self.s)
        entries = into.entries(Kind.FAILOVER, self.rows)
        into.allowed[entries] = offered & fits
        p_change_of_reserved = (self.p, p_change, p_reserves - base)
        self._sum(into, entries, steps, p_change_of_reserved, (self.s, -p_change, self.s_less))

    def _replace(self, into: Leavings, offered: Bools) -> None:
        here = is_possible(self.grid, self.p, self.at_p, self.grid.sizes, self.which)
        fits = ~self.real | here
        p_fails = self.at_p[at.FREE] <= self.grid.reserved[self.p]
        p_fails = np.where(self.real, p_fails, self.p_failing)
        steps = self._counted(self.p, np.zeros_like(self.primary), p_fails)
        steps += self._counted(self.s, -self.secondary, self.s_failing)
        entries = into.entries(Kind.REPLACE, self.rows)
        into.allowed[entries], into.forced[entries] = offered & fits, self.s_forced
        into.node[entries] = self.p
        steps -= self.marks.kept(self.rows, self.p)
        self._sum(into, entries, steps, (self.s, -self.secondary, self.s_less))

    def _replace_failover(self, into: Leavings, offered: Bools) -> None:
        p_change = self.secondary - self.primary
        fits = takes_secondary(
            self.grid,
            self.p,
            self.at_p + p_change,
            self.grid.sizes,
            self.which,
            breaks=np.zeros_like(self.real),
            forced=self.s_forced,
        )
        steps = self._counted(self.p, p_change, self.p_failing) + self.p_marks
        steps += self._counted(self.s, -self.secondary, self.s_failing)
        entries = into.entries(Kind.REPLACE_FAILOVER, self.rows)
        into.allowed[entries], into.forced[entries] = offered & fits, self.rules.ignore_soft
        base = self.grid.reserved[self.p]
        self._mirror(into, entries, self.p, base, self.p_free, self.p_failing, self.s_forced)
        into.sender[entries] = self.p
        left_node = (self.s, -self.secondary, self.s_less)
        self._sum(into, entries, steps, (self.p, p_change, None), left_node)

    def _replace_primary(self, into: Leavings, offered: Bools) -> None:
        fits = takes_secondary(
            self.grid,
            self.s,
            self.at_s,
            self.grid.sizes,
            self.which,
            breaks=np.zeros_like(self.real),
            forced=self.p_forced,
        )
        steps = self._counted(self.p, -self.primary, self.p_failing) + self.p_marks
        steps += self._counted(self.s, np.zeros_like(self.primary), self.s_failing)
        entries = into.entries(Kind.REPLACE_PRIMARY, self.rows)
        into.allowed[entries], into.forced[entries] = offered & fits, self.p_forced
        free = self.at_s[at.FREE]
        self._mirror(into, entries, self.s, self.s_base, free, self.s_failing, self.p_forced)
        into.sender[entries] = self.s
        left_node = (self.p, -self.primary, None)
        self._sum(into, entries, steps, left_node, (self.s, None, self.s_less))

    def _failover_replace(self, into: Leavings, offered: Bools) -> None:
        s_change = self.primary - self.secondary
        steps = self._counted(self.p, -self.primary, self.p_failing)
        steps += self._counted(self.s, s_change, self.s_fails) + self.p_marks + self.s_marks
        entries = into.entries(Kind.FAILOVER_REPLACE, self.rows)
        into.allowed[entries], into.forced[entries] = offered, self.p_forced
        into.node[entries] = self.s
        left_node = (self.p, -self.primary, None)
        self._sum(into, entries, steps, left_node, (self.s, s_change, self.s_less))

    def _failover_any(self, into: Leavings, offered: Bools) -> None:
        steps = self._counted(self.p, -self.primary, self.p_failing) + self._marks()[0]
        entries = into.entries(Kind.FAILOVER_ANY, self.rows)
        into.allowed[entries], into.forced[entries] = offered, self.p_forced
        into.sender[entries] = into.node[entries] = self.p
        self._sum(into, entries, steps, (self.p, -self.primary, None))

    def _mirror(
        self,
        into: Leavings,
        entries: Ints,
        node: Ints,
        base: Floats,
        free: Floats,
        failing: Bools,
        lenient: Bools,
    ) -> None:
        """Let one of the two nodes become the secondary for a target that is not known yet."""
        into.node[entries], into.base[entries], into.free[entries] = node, base, free
        into.failing[entries], into.lenient[entries] = failing, lenient
        less = (base - self.grid.reserved[node]) * self.grid.memory_part[node]
        into.level[entries] = self.values[-1, node] + less

    def _s_runs(self) -> tuple[Bools, Bools]:
        """Tell whether the secondary node can run the instance, and whether it fails N+1 then."""
        after = self.at_s - self.secondary + self.primary
        fails = np.where(self.real, after[at.FREE] <= self.s_base, self.s_failing)
        clash = self.marks.clash(self.rows, self.s) if self.marks.excluding else None
        fits = takes_primary(
            self.grid,
            self.s,
            after,
            self.grid.sizes,
            self.which,
            breaks=fails & ~self.s_failing,
            forced=self.p_forced,
            clash=clash,
        )
        return fits, fails

    def _marks(self) -> tuple[Floats, Floats]:
        """Return the tags that leave P as primary node, and those that come to S."""
        marks, rows = self.marks, self.rows
        leave = -marks.kept(rows, self.p) - marks.misplaced(rows, self.p)
        come = marks.misplaced(rows, self.s)
        if marks.excluding:
            leave += marks.leaving[marks.exclusion[rows], self.p]
            come += marks.arriving[marks.exclusion[rows], self.s]
            if marks.placing:
                come += marks.crowding(rows, self.p, self.s)
        return leave, come

    def _counted(self, node: Ints, change: Floats, fails: Bools) -> Floats:
        """Return the weighed number of instances on nodes that are off, or that fail N+1."""
        grid = self.grid
        primaries = change[at.PRIMARIES]
        instances = primaries + change[at.SECONDARIES]
        before = grid.state[at.PRIMARIES, node] + grid.state[at.SECONDARIES, node]
        n1 = fails * (before + instances) - grid.failing[node] * before
        off = OFF * instances + OFF_PRIMARY * primaries
        weighed: Floats = np.where(grid.online[node], n1 * N1, off)
        return weighed

    def _sum(self, into: Leavings, entries: Ints, steps: Floats, *changes: _Change) -> None:
        """Write the sums of these changes of nodes' amounts and reserved memory."""
        grid = self.grid
        squares = np.zeros((len(grid.weights), len(self.rows)))
        sums = np.zeros_like(squares)
        for node, amounts, reserved in changes:
            if amounts is not None:
                step = amounts[grid.term_amounts] * grid.part[:-1, node]
                squares[:-1] += step * (2.0 * self.values[:-1, node] + step)
                sums[:-1] += step
            if reserved is not None:
                less = reserved * grid.memory_part[node]
                squares[-1] += less * (2.0 * self.values[-1, node] + less)
                sums[-1] += less
                steps = steps + TOTAL * less
        n = grid.online_count
        into.own[:, entries] = (squares - sums * sums / n) / n
        into.sums[:, entries] = sums
        into.steps[entries] = steps + into.toll[entries]
