"""How many more instances of one size fit while any one node may still fail (N+1). Pure.

They go where the allocator puts them (hail's search) until it finds no place, as for hspace. That
search looks at all pairs of nodes. So in larger groups most go to the best node, and the best
secondary of that one, which takes one look at all nodes each (`targets`); only then the allocator
goes on. It has the last word, and the reason is its.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from nodeagent.placement.allocate.allocate import scored_in_group
from nodeagent.placement.allocate.candidates import NOT_REDUNDANT, Pick, Terms
from nodeagent.placement.allocate.compliance import violation
from nodeagent.placement.allocate.groups import Site
from nodeagent.placement.allocate.redundancy import Redundancy
from nodeagent.placement.allocate.request import Newcomer
from nodeagent.placement.cluster.cluster import Allocation, Group
from nodeagent.placement.evacuate.targets import Scores
from nodeagent.placement.layout.arrays import FREE
from nodeagent.placement.layout.node import Filled, Refused, add_primary, add_secondary

_FEW = 10  # nodes up to which hail's search alone is quick enough
_PAIRS = 40_000  # pairs of nodes beyond which it takes too long
Spent = Callable[[], float]
"""The used part of the time; from 1 on the work stops."""


class Count(NamedTuple):
    """So many instances fit, or, unless `exact`, at least so many.

    `limit` is hail's word for what most nodes lack for another one, empty if that is unknown.
    """

    fits: int
    exact: bool
    limit: str = ""


NONE = Count(0, exact=True)
CLOSED = "closed"  # the group takes no new instances


def count(site: Site, group: Group, newcomer: Newcomer, maximum: int, spent: Spent) -> Count:
    """Count up to `maximum` of these in the group; `site` has its nodes only."""
    return counted(site, group, newcomer, maximum, spent)[0]


def counted(
    site: Site, group: Group, newcomer: Newcomer, maximum: int, spent: Spent
) -> tuple[Count, Site]:
    """Count them, and return the site with all of them."""
    if group.allocation is Allocation.UNALLOCABLE:
        return NONE._replace(limit=CLOSED), site
    if not is_redundant(site):
        return NONE._replace(limit=NOT_REDUNDANT), site
    members = sum(not node.host.offline for node in site.layout.group_nodes())
    fits, limit = 0, ""
    if members > _FEW:
        quick = _Quick(site, newcomer)
        picks: list[Pick] = []
        for pick in quick.picks():
            picks.append(pick)
            if len(picks) >= maximum or spent() >= 1:
                break
        fits, site = _redundant_part(site, newcomer, picks)
        limit = quick.limit()
    while fits < maximum:
        if spent() >= 1 or (newcomer.nodes == 2 and members * members > _PAIRS):
            return Count(fits, exact=False, limit=limit), site
        selection = scored_in_group(site, group, newcomer, Terms())
        if isinstance(selection, str):  # too few nodes
            return Count(fits, exact=True), site
        if selection.best is None:
            return Count(fits, exact=True, limit=_most_common(selection.failures)), site
        fits, site = fits + 1, site.placed(newcomer, selection.best.nodes)
    return Count(fits, exact=False), site


def is_redundant(site: Site) -> bool:
    """Tell whether any one node of the site may fail."""
    failing = any(node.failing and not node.host.offline for node in site.layout.group_nodes())
    return not failing and Redundancy(site).holds({})


def _redundant_part(site: Site, newcomer: Newcomer, picks: Sequence[Pick]) -> tuple[int, Site]:
    """Place as many of them, in their order, as leave the site redundant."""

    def placed(number: int) -> Site:
        return site.placed(newcomer, *(pick.nodes for pick in picks[:number]))

    low, best, high = 0, site, len(picks) + 1
    number = len(picks)
    while low < number < high:
        trial = placed(number)
        if Redundancy(trial).holds({}):
            low, best = number, trial
        else:
            high = number
        number = (low + high) // 2
    return low, best


def _most_common(failures: Counter[str]) -> str:
    return failures.most_common(1)[0][0] if failures else ""


class _Quick:
    """Places one after another. Nodes only become fuller: one that refuses once refuses again."""

    def __init__(self, site: Site, newcomer: Newcomer) -> None:
        self._newcomer = newcomer
        self._demand = site.demand(newcomer.instance)
        self._nodes = site.layout.group_nodes()
        self._scores = Scores(self._nodes) if self._nodes else None
        self._refused: list[str | None] = [self._why_not(site, node) for node in self._nodes]
        self._open = np.array([why is None for why in self._refused], bool)
        # The memory in use, by secondary node, that each node would fail over there. The checks of
        # a node reserve none for instances without auto-balance; `Redundancy` counts these, too.
        self._moving = np.zeros((len(self._nodes), len(self._nodes)))
        for demand, at in zip(site.layout.demands, site.layout.places, strict=True):
            if demand.mirrored and not demand.forthcoming:
                self._fail_over(at.primary, at.secondary, demand.used)

    def _fail_over(self, primary: int, secondary: int, memory: int) -> None:
        columns = self._scores.column if self._scores else {}
        if primary in columns and secondary in columns:
            self._moving[columns[secondary], columns[primary]] += memory

    def _why_not(self, site: Site, node: Filled) -> str | None:
        if node.host.offline:
            return ""
        instance, disks = self._newcomer.instance, self._newcomer.disks
        policy = site.policy(node.host.index)
        return violation(instance, disks, policy, exclusive=node.host.exclusive)

    def limit(self) -> str:
        """Return the most common reason of the nodes that have refused."""
        return _most_common(Counter(why for why in self._refused if why))

    def picks(self) -> Iterator[Pick]:
        while (pick := self._next()) is not None:
            for node in pick.nodes:
                assert self._scores is not None
                self._scores.read(node)
                self._nodes[self._scores.column[node.host.index]] = node
            if len(pick.nodes) == 2:
                primary, secondary = (node.host.index for node in pick.nodes)
                self._fail_over(primary, secondary, self._demand.used)
            yield pick

    def _next(self) -> Pick | None:
        if self._scores is None or not self._open.any():
            return None
        scores = self._scores.as_primary(self._demand, None)
        no = self._scores.no_primary(self._demand, lenient=False)
        no |= self._scores.state[FREE] - self._demand.used <= self._moving.max(axis=1)
        for column in np.argsort(scores, kind="stable"):
            if not self._open[column]:
                continue
            pick = Refused.MEMORY if no[column] else self._at(self._nodes[column])
            if isinstance(pick, Pick):
                return pick
            self._open[column], self._refused[column] = False, pick
        return None

    def _at(self, node: Filled) -> Pick | str:
        """Place it with this primary node."""
        after = add_primary(node, self._demand)
        if isinstance(after, Refused):
            return after
        if self._newcomer.nodes == 1:
            return Pick((after,), 0.0)
        assert self._scores is not None
        refused = Counter[str]()
        index = node.host.index
        scores = self._scores.as_secondary(self._demand, after)
        no = self._scores.no_secondary(self._demand, index, lenient=False)
        moving = self._moving[:, self._scores.column[index]] + self._demand.used
        no |= self._scores.state[FREE] <= moving
        for column in np.argsort(scores, kind="stable"):
            other = self._nodes[column]
            if other is node or other.host.offline:
                continue
            if no[column]:
                full = other.free_disk - self._demand.disk <= 0
                refused[Refused.DISK if full else Refused.MEMORY] += 1
                continue
            mirror = add_secondary(other, self._demand, index)
            if isinstance(mirror, Refused):
                refused[mirror] += 1
                continue
            shared = len(node.host.locations & other.host.locations)
            primary = after._replace(misplaced=after.misplaced + shared)
            return Pick((primary, mirror), 0.0)
        return _most_common(refused)
