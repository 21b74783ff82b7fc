"""Checks of `node` before a node takes an instance, many of both at once. Pure. Needs NumPy.

`after` are the resulting amounts, one row for each as in `arrays`, of any shape that fits the other
arrays.
"""

import numpy as np

from nodeagent.placement.layout import arrays as at
from nodeagent.placement.layout.arrays import Bools, Floats, Grid, Ints, Sizes


def takes_primary(
    grid: Grid,
    columns: Ints,
    after: Floats,
    sizes: Sizes,
    which: Ints,
    *,
    breaks: Bools,
    forced: Bools,
    clash: Bools | None = None,
) -> Bools:
    """Tell which nodes can be primaries of instances; `breaks`: N+1 holds before and not after."""
    local, forthcoming = sizes.local[which], sizes.forthcoming[which]
    possible = is_possible(grid, columns, after, sizes, which)
    soft = ~breaks & _within(grid, columns, after[at.CPUS])
    soft &= ~local | _roomy(grid, columns, after[at.DISK], after[at.PRESSURE])
    if clash is not None:
        soft &= ~clash
    promised = (after[at.P_MEMORY] > 0) & _within(grid, columns, after[at.P_CPUS])
    disks = (after[at.P_DISK] > 0) & _roomy(grid, columns, after[at.P_DISK], after[at.P_PRESSURE])
    disks &= _has_spindles(grid, columns, after[at.P_SPINDLES], sizes.unknown[which])
    promised &= ~local | disks
    passes = possible & (forced | (soft & promised))
    allowed: Bools = np.where(forthcoming, forced | promised, passes)
    return allowed


def takes_secondary(
    grid: Grid,
    columns: Ints,
    after: Floats,
    sizes: Sizes,
    which: Ints,
    *,
    breaks: Bools,
    forced: Bools,
    has_disks: Bools | bool = False,
) -> Bools:
    kept = sizes.kept[which]
    unknown = sizes.unknown[which]
    possible = (after[at.DISK] > 0) | has_disks
    possible &= _has_spindles(grid, columns, after[at.SPINDLES], unknown)
    soft = ~breaks & (kept < after[at.FREE])
    soft &= _roomy(grid, columns, after[at.DISK], after[at.PRESSURE])
    promised = (after[at.P_DISK] > 0) & (kept < after[at.P_MEMORY])
    promised &= _roomy(grid, columns, after[at.P_DISK], after[at.P_PRESSURE])
    promised &= _has_spindles(grid, columns, after[at.P_SPINDLES], unknown)
    passes = possible & (forced | (soft & promised))
    allowed: Bools = np.where(sizes.forthcoming[which], forced | promised, passes)
    return allowed


def is_possible(grid: Grid, columns: Ints, after: Floats, sizes: Sizes, which: Ints) -> Bools:
    """Apply the checks of a primary node that hold even when forced."""
    disks = after[at.DISK] > 0
    disks &= _has_spindles(grid, columns, after[at.SPINDLES], sizes.unknown[which])
    possible: Bools = (after[at.FREE] > 0) & (~sizes.local[which] | disks)
    return possible


def _has_spindles(grid: Grid, columns: Ints, spindles: Floats, unknown: Bools) -> Bools:
    """Tell whether the node has the physical disks, if it gives them to one instance each."""
    enough: Bools = ~grid.exclusive[columns] | ((spindles >= 0) & ~unknown)
    return enough


def _roomy(grid: Grid, columns: Ints, disk: Floats, pressure: Floats) -> Bools:
    roomy: Bools = disk >= grid.low_disk[columns]
    return roomy & (pressure <= grid.pressure_limit[columns])


def _within(grid: Grid, columns: Ints, cpus: Floats) -> Bools:
    ratio = grid.cpu_ratio[columns]
    with np.errstate(divide="ignore", invalid="ignore"):
        within: Bools = (ratio < 0) | ~(cpus / grid.cpus[columns] > ratio)
    return within
