"""Metrics of Ganeti itself: nodes, instances, balance and jobs."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from prometheus_client.core import GaugeMetricFamily

from nodeagent.maintd.balancing.ratings import Rating
from nodeagent.maintd.http.metrics.families import NAMED, gauges
from nodeagent.maintd.http.status import Json
from nodeagent.maintd.http.view import View
from nodeagent.model.snapshot import Instance, Node, Snapshot

ROLES = ("master", "candidate", "regular", "drained", "offline")
STATES = ("up", "down", "offline", "forthcoming")
OLDEST = 1_800_000  # ms for which a rating is shown
_MIB = 2**20


def of_ganeti(
    view: View,
    ratings: Mapping[str, Rating],
    unfinished: Mapping[str, int],
    capacity: Sequence[Json],
) -> Any:
    snapshot = view.observed.snapshot
    names = _names(snapshot)
    yield _nodes(snapshot, names)
    yield _instances(snapshot, names)
    yield gauges(
        "gnt_maint_ganeti_jobs", "Ganeti jobs that are not over, by status.", "status", unfinished
    )
    shown = {
        names[uuid]: rating
        for uuid, rating in ratings.items()
        if names.get(uuid) and view.at - rating.at < OLDEST
    }
    yield from _balance(shown)
    yield from _capacity([row for row in capacity if names.get(row["uuid"])])


def _names(snapshot: Snapshot) -> dict[str, str]:
    """The groups by UUID, as labels; those beyond the limit share one empty label."""
    named = sorted(group.name for group in snapshot.groups.values())[:NAMED]
    return {g.uuid: g.name if g.name in named else "" for g in snapshot.groups.values()}


def _nodes(snapshot: Snapshot, names: Mapping[str, str]) -> GaugeMetricFamily:
    nodes = snapshot.nodes.values()
    counts = Counter((names.get(node.group, ""), _role(node, snapshot)) for node in nodes)
    family = GaugeMetricFamily(
        "gnt_maint_ganeti_nodes", "Ganeti's nodes, by group and role.", labels=["group", "role"]
    )
    return _all(family, names, ROLES, counts)


def _role(node: Node, snapshot: Snapshot) -> str:
    """Ganeti's own roles: M, C, R, D and O of gnt-node list."""
    if node.name == snapshot.master:
        return "master"
    if node.offline or node.drained:
        return "offline" if node.offline else "drained"
    return "candidate" if node.candidate else "regular"


def _instances(snapshot: Snapshot, names: Mapping[str, str]) -> GaugeMetricFamily:
    group_of = {node.name: names.get(node.group, "") for node in snapshot.nodes.values()}
    counts = Counter((group_of[i.primary], _state(i)) for i in snapshot.instances.values())
    counts += Counter((group_of[i.primary], "forthcoming") for i in snapshot.forthcoming.values())
    documentation = "Instances by the group of their primary node, and by what is wanted of them."
    family = GaugeMetricFamily(
        "gnt_maint_ganeti_instances", documentation, labels=["group", "state"]
    )
    return _all(family, names, STATES, counts)


def _state(instance: Instance) -> str:
    if instance.running:
        return "up"
    return "offline" if instance.offline else "down"


def _all(
    family: GaugeMetricFamily,
    names: Mapping[str, str],
    words: tuple[str, ...],
    counts: Counter[tuple[str, str]],
) -> GaugeMetricFamily:
    for group in sorted(set(names.values())):
        for word in words:
            family.add_metric([group, word], counts[group, word])
    return family


def _balance(shown: Mapping[str, Rating]) -> Any:
    yield gauges(
        "gnt_maint_ganeti_score",
        "hbal's score of a group: 0 is perfect balance.",
        "group",
        {name: rating.score for name, rating in shown.items()},
    )
    yield gauges(
        "gnt_maint_ganeti_n1_failures",
        "Nodes that could not run the instances of another one, should it fail.",
        "group",
        {name: rating.failing for name, rating in shown.items()},
    )
    yield gauges(
        "gnt_maint_ganeti_memory_free_bytes",
        "Free memory of nodes in service.",
        "group",
        {name: rating.memory * _MIB for name, rating in shown.items()},
    )
    yield gauges(
        "gnt_maint_ganeti_disk_free_bytes",
        "Free disk of nodes in service.",
        "group",
        {name: rating.disk * _MIB for name, rating in shown.items()},
    )
    family = GaugeMetricFamily(
        "gnt_maint_ganeti_instance_status",
        "Instances, by Ganeti's word for how they are.",
        labels=["group", "status"],
    )
    for name, rating in shown.items():
        for status, count in rating.instances.items():
            family.add_metric([name, status], count)
    yield family
    yield gauges(
        "gnt_maint_ganeti_looked_timestamp_seconds",
        "When the nodes of the group said what they have.",
        "group",
        {name: rating.at / 1000 for name, rating in shown.items()},
    )


def _capacity(rows: Sequence[Json]) -> Any:
    """How much more fits, as `gnt-maint capacity` shows it."""
    fits = GaugeMetricFamily(
        "gnt_maint_ganeti_capacity_instances",
        "How many more instances of a size fit while any one node may fail, by nodes away.",
        labels=["group", "size", "away"],
    )
    homeless = GaugeMetricFamily(
        "gnt_maint_ganeti_capacity_homeless_instances",
        "Instances without room elsewhere if these nodes are evacuated.",
        labels=["group", "away"],
    )
    for row in rows:
        group, kinds = row["group"], {"none": "today", "worst": "worst", "next": "away"}
        for away, kind in kinds.items():
            counts = [(size, size[kind]) for size in row["sizes"] if size[kind]]
            for size, count in counts:
                for name in size["names"]:
                    fits.add_metric([group, name, away], count["fits"])
            if counts and away != "none":
                most_homeless = max(len(count["homeless"]) for _, count in counts)
                homeless.add_metric([group, away], most_homeless)
    yield fits
    yield homeless
    yield gauges(
        "gnt_maint_ganeti_capacity_timestamp_seconds",
        "When this was counted.",
        "group",
        {row["group"]: row["at"] for row in rows},
    )
