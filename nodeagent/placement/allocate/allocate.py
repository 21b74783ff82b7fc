"""A place for a new instance: one group's best, and the best group. Pure.

With exclusive storage (`dedicated`) the least loss decides, elsewhere the score afterwards. A place
counts only if any one node may still fail afterwards (`redundancy`). These are hail's choices, by
its rules.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from nodeagent.placement.allocate.candidates import Pick, Selection, Terms
from nodeagent.placement.allocate.compliance import violation
from nodeagent.placement.allocate.dedicated import Judge, choose_one, choose_pair
from nodeagent.placement.allocate.groups import Site, online
from nodeagent.placement.allocate.request import Newcomer
from nodeagent.placement.allocate.scored_places import ScoredPlaces
from nodeagent.placement.cluster.cluster import Allocation, Group, Template
from nodeagent.placement.layout.node import Filled, remove_primary

_RANK = list(Allocation)


@dataclass(frozen=True, slots=True)
class Settled:
    """The chosen place, with the findings of each group; without a best there is no place."""

    selection: Selection
    log: tuple[str, ...]
    group: Group | None = None


Search = Callable[[Site, Group, Newcomer, Terms], Selection | str]
"""What a group has; a text is why it has no places at all."""


def dedicated_in_group(
    site: Site, group: Group, newcomer: Newcomer, terms: Terms
) -> Selection | str:
    """Find the place in a group that costs least of the possible later placements."""
    if why := _disconnected(group, newcomer):
        return f"The {why}"
    nodes = online(site.of(group), terms.only)
    if why := _too_few(nodes, newcomer):
        return why

    def search(nodes: Sequence[Filled]) -> Selection:
        allowed, selection = _allowed(site, nodes, newcomer)
        judge = Judge(site.demand(newcomer.instance), group.policy, force=terms.ignore_soft)
        if newcomer.nodes == 1:
            selection.add(choose_one(allowed, judge))
        else:
            selection.add(choose_pair(allowed, nodes, judge))
        return selection

    return _least_soon(site, nodes, search)


def scored_in_group(site: Site, group: Group, newcomer: Newcomer, terms: Terms) -> Selection | str:
    """Find the place in a group after which the score of the site is least."""
    nodes = online(site.of(group), terms.only)
    if why := _too_few(nodes, newcomer):
        return why

    def search(nodes: Sequence[Filled]) -> Selection:
        allowed, selection = _allowed(site, nodes, newcomer)
        if allowed:
            choice = ScoredPlaces(site, newcomer, terms)
            selection.add(
                choice.one(allowed) if newcomer.nodes == 1 else choice.pair(allowed, nodes)
            )
        return selection

    return _least_soon(site, nodes, search)


def _least_soon(
    site: Site, nodes: Sequence[Filled], search: Callable[[Sequence[Filled]], Selection]
) -> Selection:
    """Search among as few of the nodes that leave soon as possible, the best of them first.

    A place among some nodes is also one among more, so the fewest are found by bisection.
    """
    ranks = {node.host.index: site.rank([node.host.index]) for node in nodes}
    limits = sorted({0, *ranks.values()})

    def within(limit: int) -> Selection:
        return search([node for node in nodes if ranks[node.host.index] <= limit])

    selection = within(limits[0])
    if selection.best is not None or len(limits) == 1:
        return selection
    selection = within(limits[-1])
    low, high = 0, len(limits) - 1
    while selection.best is not None and high - low > 1:
        middle = (low + high) // 2
        fewer = within(limits[middle])
        if fewer.best is None:
            low = middle
        else:
            selection, high = fewer, middle
    return selection


def in_group(
    site: Site, group: Group, newcomer: Newcomer, terms: Terms, search: Search
) -> Settled | str:
    """Find a place in this group, even one closed to new instances; a text says why not."""
    if why := _disconnected(group, newcomer):
        return f"The {why}"
    selection = search(site.of(group), group, newcomer, terms)
    if isinstance(selection, str):
        return selection
    return Settled(selection, (f"{_title(group)}: {selection.summary()}",), group)


def in_any_group(
    site: Site,
    newcomer: Newcomer,
    terms: Terms,
    search: Search,
    groups: Sequence[Group] | None = None,
) -> Settled:
    """Find the best place of these groups, or all.

    Their allocation policy decides, then whether nodes of the place leave soon, then the metric.
    """
    log: list[str] = []
    apart: list[str] = []
    best: tuple[tuple[int, int], Pick, Group, Selection] | None = None
    for group in site.groups() if groups is None else groups:
        why = _disconnected(group, newcomer)
        if why and search is scored_in_group:
            apart.append(why)
            continue
        selection = search(site, group, newcomer, terms)
        if isinstance(selection, str):
            log.append(f"Group {group.name}: error {selection}")
            continue
        log.append(f"{_title(group)}: {selection.summary()}")
        pick = selection.best
        if pick is None or group.allocation is Allocation.UNALLOCABLE:
            continue
        soon = site.rank(node.host.index for node in pick.nodes)
        rank = _RANK.index(group.allocation), soon
        # Of equals the later group.
        if best is None or not (best[0], best[1].metric) < (rank, pick.metric):
            best = rank, pick, group, selection
    whole_log = (*apart, *log)
    if best is None:
        return Settled(Selection(), whole_log)
    return Settled(best[3], whole_log, best[2])


def second_node(site: Site, instance: int, terms: Terms, *, hail: bool) -> Selection | str:
    """Find the best secondary node for an instance that needs one and has none.

    `hail` keeps offline nodes in: their own reports decide.
    """
    layout = site.layout
    at = layout.places[instance]
    if at.secondary != -1:
        return "Instance already has a secondary"
    here = remove_primary(layout.nodes[at.primary], layout.demands[instance], at.shared)
    without = replace(site, layout=layout.with_changes({at.primary: here}, {}))
    mirrored = replace(site.cluster.instances[instance], template=Template.DRBD)
    group = site.cluster.nodes[at.primary].group
    others = [
        node
        for node in without.layout.group_nodes()
        if node is not here
        and site.cluster.nodes[node.host.index].group == group
        and (hail or not node.host.offline)
    ]
    if not hail and not others:
        return "Not enough online nodes"
    newcomer = Newcomer(mirrored, site.disks[instance], (), 2)
    policy, exclusive = site.policy(at.primary), here.host.exclusive
    if why := violation(mirrored, newcomer.disks, policy, exclusive=exclusive):
        selection = Selection()
        selection.refuse(why, len(others))
        return selection

    def search(nodes: Sequence[Filled]) -> Selection:
        return ScoredPlaces(without, newcomer, terms, resident=True).pair([here], nodes)

    return _least_soon(site, others, search)


def _title(group: Group) -> str:
    return f"Group {group.name} ({group.allocation})"


def _disconnected(group: Group, newcomer: Newcomer) -> str | None:
    if set(newcomer.networks) <= set(group.networks):
        return None
    return (
        f"group {group.name} is not connected to a network required by instance "
        f"{newcomer.instance.name}"
    )


def _too_few(nodes: Sequence[Filled], newcomer: Newcomer) -> str | None:
    if newcomer.nodes not in (1, 2):
        return "Unsupported number of nodes, only one or two  supported"
    if len(nodes) < newcomer.nodes:
        return "No online nodes" if newcomer.nodes == 1 else "Not enough online nodes"
    return None


def _allowed(
    site: Site, nodes: Sequence[Filled], newcomer: Newcomer
) -> tuple[list[Filled], Selection]:
    """Return the nodes whose policy allows it as primary instance, and the others' reasons."""
    selection = Selection()
    allowed = []
    for node in nodes:
        index, exclusive = node.host.index, node.host.exclusive
        why = violation(newcomer.instance, newcomer.disks, site.policy(index), exclusive=exclusive)
        if why is None:
            allowed.append(node)
        else:
            selection.refuse(why, 1 if newcomer.nodes == 1 else len(nodes) - 1)
    return allowed, selection
