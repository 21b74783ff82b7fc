"""A group's headroom: how many instances of each size fit, also with some of its nodes away. Pure.

A node that is away has been evacuated, as far as its instances can move at all. If there is no room
for one that can, nothing more fits. The others stop with their node, and take no room elsewhere.

With nodes away never more fits than today: an evacuation may end a failure of N+1 that now prevents
all allocations, and nobody should count on that.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from nodeagent.model.departure import Departure
from nodeagent.placement.allocate.groups import Site
from nodeagent.placement.cluster.cluster import Cluster, Group, Template
from nodeagent.placement.cluster.tags import rules_of
from nodeagent.placement.evacuate.evacuate import Emptier, Evacuation
from nodeagent.placement.headroom.counting import Count, Spent, count
from nodeagent.placement.headroom.sizes import NamedSize, sizes, usual_template
from nodeagent.placement.layout.layout import EVERYBODY, Layout, lay_out
from nodeagent.placement.layout.rules import Rules

_WORDS = {
    "FailMem": "memory",
    "FailDisk": "disk",
    "FailCPU": "CPUs",
    "FailN1": "N+1",
    "FailTags": "tags",
    "FailMig": "migration",
    "FailDiskCount": "disk count",
    "FailSpindles": "spindles",
}
MOST = 1000  # instances of a size that are counted
NO_ROOM = "no room"  # for instances of the nodes that are away
_CROWDED = Count(0, exact=True, limit=NO_ROOM)


@dataclass(frozen=True, slots=True)
class Away:
    """The headroom without some nodes: of each size how many fit.

    `homeless` are the instances of these nodes that find no room elsewhere, `stopped` those that
    cannot move at all.
    """

    nodes: tuple[str, ...]
    counts: tuple[Count, ...]
    homeless: tuple[str, ...] = ()
    stopped: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Worst:
    """The least headroom of each size with one node away, and that node: `tried` of `nodes`.

    Unless all nodes were tried, another one may be worse.
    """

    nodes: int
    tried: int
    found: tuple[Away, ...]


@dataclass(frozen=True, slots=True)
class Headroom:
    """A group's headroom for instances of one disk template; `worst` is None with no node online.

    `chosen` is without the nodes that the caller named, if any of the group are online.
    """

    group: Group
    template: Template
    sizes: tuple[NamedSize, ...]
    today: tuple[Count, ...]
    worst: Worst | None = None
    chosen: Away | None = None


def survey(
    cluster: Cluster,
    group: Group,
    *,
    template: Template | None = None,
    away: Collection[str] = (),
    most: int = MOST,
    spent: Spent,
    doubts: Mapping[str, str],
) -> Headroom:
    """Count up to `most` of each size.

    `away` names nodes of any group. When the time is spent, some counts are too low, and say it.
    """
    kind = template or usual_template(cluster, group)
    surveyor = _Surveyor(cluster, group, kind, spent, doubts)
    today = tuple(surveyor.count(surveyor.layout, size, most) for size in surveyor.sizes)
    headroom = Headroom(group, kind, surveyor.sizes, today)
    members = surveyor.online()
    mine = [name for name in members if name in away]
    if mine:
        headroom = replace(headroom, chosen=surveyor.without(mine, today))
    return replace(headroom, worst=surveyor.worst(members, today)) if members else headroom


def site_of(layout: Layout, group: Group, leaving: Collection[int] = ()) -> Site:
    """Return a group of the layout as an allocator sees it, without the nodes that leave.

    These are in no group then: they are not even a reserve for N+1, as other drained nodes are.
    """
    nodes = tuple(
        replace(node, group="") if index in leaving else node
        for index, node in enumerate(layout.cluster.nodes)
    )
    cluster = replace(layout.cluster, nodes=nodes)
    disks = tuple((instance.disk,) for instance in cluster.instances)
    policies = {cluster_group.uuid: cluster_group.policy for cluster_group in cluster.groups}
    tags = rules_of(cluster.tags)
    site = Site(replace(layout, cluster=cluster), disks, ((),) * len(disks), tags, policies)
    return site.of(group)


class _Surveyor:
    def __init__(
        self,
        cluster: Cluster,
        group: Group,
        template: Template,
        spent: Spent,
        doubts: Mapping[str, str],
    ) -> None:
        self.layout = lay_out(cluster, EVERYBODY, Rules())
        self.sizes = tuple(sizes(group.policy))
        self._group, self._template, self._spent = group, template, spent
        self._emptier = Emptier(cluster, Rules(), doubts, self.layout.demands)

    def online(self) -> list[str]:
        """List the group's nodes in service, the largest first: as a rule it leaves most behind."""
        nodes = self.layout.nodes
        inside = [
            nodes[index].host
            for index, node in enumerate(self.layout.cluster.nodes)
            if node.group == self._group.uuid and not nodes[index].host.offline
        ]
        inside.sort(key=lambda host: (-host.memory, -host.disk, -host.cpus))
        return [host.name for host in inside]

    def count(
        self, layout: Layout, size: NamedSize, maximum: int, leaving: Collection[int] = ()
    ) -> Count:
        site = site_of(layout, self._group, leaving)
        return count(site, self._group, size.newcomer(self._template), maximum, self._spent)

    def without(self, names: Sequence[str], limits: Sequence[Count]) -> Away:
        """Count with these nodes away, up to so many of each size."""
        evacuation = self._emptier.empty(names)
        homeless, stopped = _staying(evacuation)
        if homeless:
            counts = (_CROWDED,) * len(self.sizes)
        else:
            counts = tuple(
                _at_most(limit, self.count(evacuation.after, size, limit.fits, evacuation.leaving))
                for size, limit in zip(self.sizes, limits, strict=True)
            )
        return Away(tuple(names), counts, homeless, stopped)

    def worst(self, names: Sequence[str], today: Sequence[Count]) -> Worst:
        """Take the nodes away one after another, and keep the worst for each size.

        A node without room for its instances ends it: nothing is worse. This is looked for first,
        in half of the time. Then they are counted in the order of a guess, the worst first.
        """
        guesses: list[tuple[int, str]] = []
        half = (1 + self._spent()) / 2
        for name in names:
            if self._spent() >= half:
                break
            evacuation = self._emptier.empty([name])
            homeless, stopped = _staying(evacuation)
            if homeless:
                return self._nowhere(name, len(names), homeless, stopped)
            guesses.append((self._guess(evacuation.after, evacuation.leaving), name))
        least = list(today)
        worst: list[Away | None] = [None] * len(today)
        tried = 0
        for _, name in sorted(guesses):
            if tried and not any(count.fits for count in least):
                tried = len(names)
                break
            away = self.without([name], least)
            if self._spent() >= 1:
                break  # its counts may have ended early
            tried += 1
            for place, new_count in enumerate(away.counts):
                if worst[place] is None or new_count.fits < least[place].fits:
                    least[place], worst[place] = new_count, away
        return Worst(len(names), tried, tuple(away for away in worst if away is not None))

    def _nowhere(
        self, name: str, nodes: int, homeless: tuple[str, ...], stopped: tuple[str, ...]
    ) -> Worst:
        away = Away((name,), (_CROWDED,) * len(self.sizes), homeless, stopped)
        return Worst(nodes, nodes, (away,) * len(self.sizes))

    def _guess(self, layout: Layout, leaving: Collection[int]) -> int:
        """Guess how much memory is left for new instances, beside that for failovers."""
        return sum(
            max(0, node.present.memory - node.reserved)
            for node, known in zip(layout.nodes, layout.cluster.nodes, strict=True)
            if known.group == self._group.uuid
            and not node.host.offline
            and node.host.index not in leaving
        )


def _at_most(limit: Count, count: Count) -> Count:
    """Return the count, or `limit` if it has come so far: it was not counted any further."""
    return limit if count.fits >= limit.fits else count


def _staying(evacuation: Evacuation) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Name the instances without room elsewhere, and those that cannot move at all."""
    instances = evacuation.before.cluster.instances
    stopped = {index for index in evacuation.left if evacuation.exits.unmovable(index)}
    homeless = sorted(instances[index].name for index in evacuation.left if index not in stopped)
    return tuple(homeless), tuple(sorted(instances[index].name for index in stopped))


def document(headroom: Headroom, coming: Departure | None) -> dict[str, Any]:
    """Return it as JSON, times in unix seconds; `coming` is the departure of the `chosen` nodes."""
    worst, chosen = headroom.worst, headroom.chosen
    return {
        "group": headroom.group.name,
        "uuid": headroom.group.uuid,
        "disk-template": str(headroom.template),
        "tried": worst.tried if worst else 0,
        "nodes": worst.nodes if worst else 0,
        "next": _departure(coming) if chosen and coming else None,
        "sizes": [
            {
                "names": list(size.names),
                "memory": size.memory,
                "disk": size.disk,
                "disks": size.disks,
                "vcpus": size.vcpus,
                "spindles": size.spindles,
                "today": _count(headroom.today[place]),
                "worst": _away(worst.found[place], place) if worst and worst.found else None,
                "away": _away(chosen, place) if chosen else None,
            }
            for place, size in enumerate(headroom.sizes)
        ],
    }


def _departure(coming: Departure) -> dict[str, Any]:
    return {"leaves": coming.leaves / 1000, "why": coming.cause.value}


def _away(away: Away, place: int) -> dict[str, Any]:
    return {
        **_count(away.counts[place]),
        "without": list(away.nodes),
        "homeless": list(away.homeless),
        "stopped": list(away.stopped),
    }


def _count(count: Count) -> dict[str, Any]:
    return {
        "fits": count.fits,
        "exact": count.exact,
        "limit": _WORDS.get(count.limit, count.limit) or None,
    }
