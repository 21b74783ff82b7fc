"""Instances leaving nodes or their group: the target of each, and Ganeti's jobs for it. Pure.

One after another, each goes to the place after which its group's score is least; the next one sees
the nodes as the last has left them. A failure of one is reported and does not stop the rest (hail's
node-evacuate and change-group).
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from nodeagent.placement.allocate.allocate import in_any_group, scored_in_group
from nodeagent.placement.allocate.candidates import Terms
from nodeagent.placement.allocate.groups import Site
from nodeagent.placement.allocate.request import Leaving, Newcomer
from nodeagent.placement.cluster.cluster import Group, Instance, Template
from nodeagent.placement.layout.moves import Kind, Move, Moved, attempt
from nodeagent.placement.layout.score import Metrics

Job = list[dict[str, Any]]
_UNMOVABLE = (Template.PLAIN, Template.FILE)


@dataclass(slots=True)
class Relocation:
    """The result for each instance, by index: new group and nodes, or why not; and the jobs."""

    site: Site
    moved: list[tuple[int, Group, tuple[int, ...]]] = field(default_factory=list)
    failed: list[tuple[int, str]] = field(default_factory=list)
    jobs: list[Job] = field(default_factory=list)

    def take(self, instance: int, after: "tuple[Site, list[Move]] | str") -> None:
        """Record one instance's new place or why there is none."""
        if isinstance(after, str):
            self.failed.append((instance, after))
            return
        self.site, moves = after
        at = self.site.layout.places[instance]
        mirrored = self.site.cluster.instances[instance].template is Template.DRBD
        nodes = at[:2] if mirrored else at[:1]
        self.moved.append((instance, _group_at(self.site, at.primary), nodes))
        self.jobs.append([step for move in moves for step in opcodes(self.site, move)])


def leave_nodes(
    site: Site, instances: Sequence[int], leaving: Leaving, *, hail: bool
) -> Relocation:
    """Move instances off their primary nodes, their secondary nodes, or both.

    `hail` lets one fail over to a drained node, which Ganeti refuses.
    """
    relocation = Relocation(site)
    away = {node.host.index for node in site.layout.nodes if node.host.offline}
    for instance in instances:
        away.update(_nodes_left(site, instance, leaving))
    for instance in instances:
        at = site.layout.places[instance]
        group = _group_at(site, at.primary)
        targets = _members(site, group, away | {at.primary})
        relocation.take(
            instance, _leave(relocation.site, instance, group, targets, leaving, hail=hail)
        )
    return relocation


def change_group(
    site: Site, instances: Sequence[int], groups: Collection[str], terms: Terms, *, hail: bool
) -> Relocation:
    """Move instances to the best of these groups (UUIDs), or of all other groups.

    `hail` as for `leave_nodes`.
    """
    relocation = Relocation(site)
    old = {_group_at(site, site.layout.places[instance].primary).uuid for instance in instances}
    chosen = [
        group
        for group in site.groups()
        if group.uuid not in old and (not groups or group.uuid in groups)
    ]
    away = {node.host.index for node in site.layout.nodes if node.host.offline}
    for instance in instances:
        relocation.take(
            instance, _to_group(relocation.site, instance, chosen, away, terms, hail=hail)
        )
    return relocation


def opcodes(site: Site, move: Move) -> Job:
    instance = site.cluster.instances[move.instance]
    target = site.layout.nodes[move.target].host.name if move.target >= 0 else None
    if move.kind is Kind.REPLACE:
        return [
            {
                "OP_ID": "OP_INSTANCE_REPLACE_DISKS",
                "instance_name": instance.name,
                "early_release": False,
                "ignore_ipolicy": False,
                "mode": "replace_new_secondary",
                "disks": [],
                "remote_node": target,
            }
        ]
    assert move.kind in (Kind.FAILOVER, Kind.FAILOVER_ANY)
    return [_switch(instance, target)]


def _switch(instance: Instance, target: str | None) -> dict[str, Any]:
    aim = {"target_node": target} if target else {}
    if instance.forthcoming:
        return {
            "OP_ID": "OP_INSTANCE_FAILOVER",
            "instance_name": instance.name,
            "shutdown_timeout": 120,
            "ignore_consistency": False,
            **aim,
            "ignore_ipolicy": False,
            "cleanup": False,
        }
    return {
        "OP_ID": "OP_INSTANCE_MIGRATE",
        "instance_name": instance.name,
        **aim,
        "allow_runtime_changes": False,
        "ignore_ipolicy": False,
        "cleanup": False,
        "allow_failover": True,
        "ignore_hvversions": True,
    }


def _group_at(site: Site, node: int) -> Group:
    uuid = site.cluster.nodes[node].group
    return next(group for group in site.cluster.groups if group.uuid == uuid)


def _members(site: Site, group: Group, without: Collection[int]) -> list[int]:
    nodes = enumerate(site.cluster.nodes)
    return [n for n, node in nodes if node.group == group.uuid and n not in without]


def _nodes_left(site: Site, instance: int, leaving: Leaving) -> set[int]:
    at = site.layout.places[instance]
    mirrored = site.cluster.instances[instance].template is Template.DRBD
    secondary = {at.secondary} if mirrored else set()
    match leaving:
        case Leaving.PRIMARY:
            return {at.primary}
        case Leaving.SECONDARY:
            return secondary
        case Leaving.ALL:
            return secondary | {at.primary}


def _to_group(
    site: Site,
    instance: int,
    groups: Sequence[Group],
    away: Collection[int],
    terms: Terms,
    *,
    hail: bool,
) -> tuple[Site, list[Move]] | str:
    if not groups:
        return "no groups for evacuation: none is left that has nodes and is not its own"
    known = site.cluster.instances[instance]
    nodes = 2 if known.template is Template.DRBD else 1
    newcomer = Newcomer(known, site.disks[instance], site.networks[instance], nodes)
    terms = replace(terms, leaves_from=site.layout.places[instance])
    settled = in_any_group(site, newcomer, terms, scored_in_group, groups)
    if settled.group is None:
        return ", ".join(settled.log)
    targets = _members(site, settled.group, away)
    rules = site.layout.rules
    after = _leave(
        site.under(replace(rules, ignore_soft=False)),
        instance,
        settled.group,
        targets,
        Leaving.ALL,
        hail=hail,
    )
    return after if isinstance(after, str) else (after[0].under(rules), after[1])


def _leave(
    site: Site,
    instance: int,
    group: Group,
    targets: Sequence[int],
    leaving: Leaving,
    *,
    hail: bool,
) -> tuple[Site, list[Move]] | str:
    template = site.cluster.instances[instance].template
    if template in _UNMOVABLE:
        return f"Instances of type {template} cannot be relocated"
    if template is not Template.DRBD:
        if leaving is Leaving.SECONDARY:
            return f"Instances with disk template '{template}' can't execute change secondary"
        return _best(
            site, instance, group, [[Move(instance, Kind.FAILOVER_ANY, t)] for t in targets]
        )
    match leaving:
        case Leaving.PRIMARY:
            after = _fail_over(site, instance, hail=hail)
            return after if isinstance(after, str) else (after, [Move(instance, Kind.FAILOVER)])
        case Leaving.SECONDARY:
            return _best(
                site, instance, group, [[Move(instance, Kind.REPLACE, t)] for t in targets]
            )
        case Leaving.ALL:
            return _both(site, instance, group, targets, hail=hail)


def _best(
    site: Site, instance: int, group: Group, ways: Sequence[list[Move]]
) -> tuple[Site, list[Move]] | str:
    """Choose the way after which the group's score is least; of equals the last.

    A node that leaves soon is a target only without any other, least soon first.
    """
    metrics = Metrics(site.of(group).layout.group_nodes())
    best: tuple[tuple[int, float], Moved, list[Move]] | None = None
    failures = ""
    for moves in ways:
        (move,) = moves
        after = attempt(site.layout, move)
        if not isinstance(after, Moved):
            failures += f" Node {site.layout.nodes[move.target].host.name} failed: {after};"
            continue
        metric = site.rank([move.target]), metrics.score(after.nodes)
        if best is None or not best[0] < metric:
            best = metric, after, moves
    if best is None:
        return f"Can't find any good node: {failures}"
    return site.moved(instance, best[1].nodes, best[1].place), best[2]


_FIRST = ("Failing over to the secondary",)
_STEPS = (
    "Changing secondary to new primary",
    "Failing over to new primary",
    "Changing secondary to final secondary",
)


def _both(
    site: Site, instance: int, group: Group, targets: Sequence[int], *, hail: bool
) -> tuple[Site, list[Move]] | str:
    """Find new primary and secondary nodes: replace, fail over, replace.

    The failover comes first if the primary node is off. The steps before the last replacement are
    tried once for each primary.
    """
    at = site.layout.places[instance]
    off = site.layout.nodes[at.primary].host.offline
    failover = Move(instance, Kind.FAILOVER)
    start = _fail_over(site, instance, _FIRST, hail=hail) if off else site
    first = [failover] if off else []
    best: tuple[tuple[int, int, float], Site, Moved, list[Move]] | None = None
    failure = "no nodes available"
    for primary in targets if len(targets) > 1 else ():
        moves = [*first, Move(instance, Kind.REPLACE, primary), failover]
        midway = start if isinstance(start, str) else _play(start, moves[len(first) :], _STEPS)
        if isinstance(midway, str):
            failure = f"Allocation failed: {midway}"
            continue
        metrics = Metrics(midway.of(group).layout.group_nodes())
        for secondary in targets:
            if secondary == primary:
                continue
            last = Move(instance, Kind.REPLACE, secondary)
            after = attempt(midway.layout, last)
            if not isinstance(after, Moved):
                failure = f"Allocation failed: {_STEPS[2]}: {after}"
                continue
            ranks = site.rank([primary]), site.rank([secondary])
            metric = max(ranks), min(ranks), metrics.score(after.nodes)
            if best is None or not best[0] < metric:
                best = metric, midway, after, [*moves, last]
    if best is None:
        return f"Can't find any good nodes for relocation: {failure}"
    _, midway, after, moves = best
    return midway.moved(instance, after.nodes, after.place), moves


def _fail_over(site: Site, instance: int, steps: Sequence[str] = (), *, hail: bool) -> Site | str:
    """Return the site with the instance on its secondary node, or why that is not possible."""
    mirror = site.layout.nodes[site.layout.places[instance].secondary].host
    if mirror.offline and not hail:
        return f"its secondary node {mirror.name} is drained or offline"
    return _play(site, [Move(instance, Kind.FAILOVER)], steps)


def _play(site: Site, moves: Sequence[Move], steps: Sequence[str]) -> Site | str:
    """Return the site after these moves, or the failing step."""
    for number, move in enumerate(moves):
        after = attempt(site.layout, move)
        if not isinstance(after, Moved):
            return f"{steps[number]}: {after}" if steps else str(after)
        site = site.moved(move.instance, after.nodes, after.place)
    return site
