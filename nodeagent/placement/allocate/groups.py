"""A cluster as an allocator fills it: the layout of all groups, with their policies. Pure."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from nodeagent.placement.allocate.request import Newcomer, Request
from nodeagent.placement.cluster.cluster import Cluster, Group, Instance, Policy
from nodeagent.placement.cluster.tags import TagRules, rules_of
from nodeagent.placement.layout.layout import Layout, Place, demand_of, lay_out
from nodeagent.placement.layout.node import Demand, Filled
from nodeagent.placement.layout.rules import Rules


@dataclass(frozen=True, slots=True)
class Site:
    """Never changed in place. `disks` and `networks` go with the layout's instances."""

    layout: Layout
    disks: tuple[tuple[int, ...], ...]
    networks: tuple[tuple[str, ...], ...]
    tags: TagRules
    policies: Mapping[str, Policy]

    @property
    def cluster(self) -> Cluster:
        return self.layout.cluster

    def policy(self, index: int) -> Policy:
        return self.policies[self.cluster.nodes[index].group]

    def demand(self, instance: Instance) -> Demand:
        return demand_of(instance, self.layout.rules, self.tags)

    def under(self, rules: Rules) -> "Site":
        return replace(self, layout=replace(self.layout, rules=rules))

    def of(self, group: Group) -> "Site":
        """Return the site with one group's nodes only."""
        nodes = self.cluster.nodes
        members = tuple(n for n, node in enumerate(nodes) if node.group == group.uuid)
        return replace(self, layout=replace(self.layout, members=members, group=group))

    def rank(self, nodes: Iterable[int]) -> int:
        """Return the worst rank of these nodes as targets; 0 if none of them leaves soon."""
        leaving = self.layout.rules.leaving
        return max((leaving.get(self.cluster.nodes[index].name, 0) for index in nodes), default=0)

    def groups(self) -> list[Group]:
        """List the groups with nodes, in their order."""
        used = {self.cluster.nodes[index].group for index in self.layout.members}
        return [group for group in self.cluster.groups if group.uuid in used]

    def placed(self, newcomer: Newcomer, *places: Sequence[Filled]) -> "Site":
        """Return the site with a new instance at each of these places, one after another.

        The nodes of a place come with their instance.
        """
        changed: dict[int, Filled] = {}
        instances, spots = [], []
        for nodes in places:
            changed.update((node.host.index, node) for node in nodes)
            primary, *rest = (node.host for node in nodes)
            secondary = rest[0] if rest else None
            instances.append(
                replace(
                    newcomer.instance,
                    primary=primary.name,
                    secondary=secondary.name if secondary else None,
                )
            )
            shared = len(primary.locations & secondary.locations) if secondary else 0
            spots.append(Place(primary.index, secondary.index if secondary else -1, shared))
        layout = self.layout.with_changes(changed, {})
        demand, count = self.demand(newcomer.instance), len(places)
        return replace(
            self,
            layout=replace(
                layout,
                cluster=replace(self.cluster, instances=(*self.cluster.instances, *instances)),
                demands=(*layout.demands, *[demand] * count),
                places=(*layout.places, *spots),
            ),
            disks=(*self.disks, *[newcomer.disks] * count),
            networks=(*self.networks, *[newcomer.networks] * count),
        )

    def moved(self, instance: int, nodes: Mapping[int, Filled], at: Place) -> "Site":
        return replace(self, layout=self.layout.with_changes(nodes, {instance: at}))


def open_site(
    request: Request, *, ignore_soft: bool, leaving: Mapping[str, int] = MappingProxyType({})
) -> Site:
    cluster = request.cluster
    rules = Rules(ignore_soft=ignore_soft, leaving=leaving)
    nobody = Group("", "")
    layout = lay_out(cluster, nobody, rules)
    return Site(
        replace(layout, members=tuple(range(len(cluster.nodes)))),
        request.disks,
        request.networks,
        rules_of(cluster.tags),
        {group.uuid: group.policy for group in cluster.groups},
    )


def online(site: Site, only: Collection[str] | None) -> list[Filled]:
    """List the nodes that may take something, in their order."""
    nodes = site.layout.group_nodes()
    return [
        node for node in nodes if not node.host.offline and (only is None or node.host.name in only)
    ]
