"""gnt-maint capacity: how many more instances fit, today and with nodes away."""

import time
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from nodeagent.cli.maint.console.client import Where
from nodeagent.cli.maint.console.cluster_source import (
    GROUP,
    LUXI,
    OWN_MEMORY,
    TEXT_DATA,
    check,
    known,
    leaving,
    named,
)
from nodeagent.cli.maint.console.completion import complete
from nodeagent.cli.maint.console.options import as_json, cli, duration, filled
from nodeagent.cli.maint.console.screen import Json, Progress, Screen, emit, progress, screen
from nodeagent.cli.maint.console.text import counted
from nodeagent.model.asked import some_of
from nodeagent.model.units import Ms, Seconds

if TYPE_CHECKING:
    from nodeagent.model.departure import Departure
    from nodeagent.placement.cluster.cluster import Cluster, Group, Known, Template

_TIME = 60  # s
_MOST = 1000  # instances of a size that are counted


@cli.command(short_help="Show how many more instances fit, also with nodes away.")
@TEXT_DATA
@LUXI
@GROUP
@click.option(
    "--away",
    metavar="NODE",
    multiple=True,
    callback=filled,
    shell_complete=complete("node"),
    help="Count without NODE, too, instead of the nodes that leave next.",
)
@click.option(
    "--disk-template",
    metavar="TEMPLATE",
    help="Count instances with these disks [those of most instances of the group].",
)
@click.option(
    "--most",
    metavar="N",
    type=click.IntRange(min=1),
    default=_MOST,
    help=f"Count no further than N [{_MOST}].",
)
@click.option(
    "--time",
    "seconds",
    metavar="DURATION",
    callback=duration,
    help=f"Limit the count: 30s, 10m [{_TIME}s].",
)
@OWN_MEMORY
@as_json
def capacity(
    where: Where,
    *,
    text_data: str | None,
    luxi: str | None,
    group: str | None,
    away: tuple[str, ...],
    disk_template: str | None,
    most: int,
    seconds: Seconds | None,
    static_kvm_node_memory: int,
    as_json: bool,
) -> None:
    """Show how many more instances of the policy's sizes fit into each group.

    Counts as hspace does: instances are allocated until none fits while any one node may still
    fail (N+1). Also with the worst node evacuated, and with the nodes that leave next for a window
    or a roll. Changes nothing.
    """
    from nodeagent.maintd.balancing.ratings import parts
    from nodeagent.placement.layout.layout import group_of

    check(where, text_data, luxi)
    template = None if disk_template is None else _template(disk_template)
    stock = known(where, text_data, luxi, static_kvm_node_memory)
    cluster, names = stock.cluster, [node.name for node in stock.cluster.nodes]
    chosen = named("--away", "node", away, names)
    soon = {} if away else leaving(where, text_data, luxi)
    used = {node.group for node in cluster.nodes}
    groups = (
        {cluster_group.uuid for cluster_group in cluster.groups} & used
        if group is None
        else {group_of(cluster, group).uuid}
    )
    end = _TIME if seconds is None else seconds
    surveys = []
    with progress(quiet=True) as on:
        clock = _Clock(on, end)
        pairs = list(parts(cluster, groups))
        for number, (cluster_group, part) in enumerate(pairs):
            clock.share(cluster_group.name, len(pairs) - number)
            counts = _survey(part, cluster_group, stock, template, chosen, soon, most, clock)
            surveys.append(counts)
    document = {
        "groups": surveys,
        "most": most,
        "doubts": [{"node": name, "why": why} for name, why in sorted(stock.doubts.items())],
    }
    if as_json:
        emit(document)
    else:
        _show(document)


def _survey(
    part: "Cluster",
    group: "Group",
    stock: "Known",
    template: "Template | None",
    chosen: Collection[str],
    soon: "Mapping[str, Departure]",
    limit: int,
    clock: "_Clock",
) -> Json:
    from nodeagent.model.departure import next_absence
    from nodeagent.placement.headroom.survey import document, survey

    here = [node.name for node in part.nodes if node.group == group.uuid]
    coming = next_absence(soon, here, Ms(int(time.time() * 1000)))
    headroom = survey(
        part,
        group,
        template=template,
        away=chosen or (coming[1] if coming else ()),
        most=limit,
        spent=clock.spent,
        doubts=stock.doubts,
    )
    return document(headroom, coming[0] if coming else None)


class _Clock:
    """The used part of a group's share of the time."""

    def __init__(self, on: Progress, seconds: float) -> None:
        self._on, self._seconds = on, max(seconds, 0.001)
        self._end = time.monotonic() + self._seconds
        self._began, self._until = time.monotonic(), self._end

    def share(self, group: str, groups: int) -> None:
        """Begin with this group, the first of so many that are left."""
        self._on.tell(f"counting in group {group}")
        self._began = time.monotonic()
        self._until = self._began + max(0.001, (self._end - self._began) / groups)

    def spent(self) -> float:
        return (time.monotonic() - self._began) / (self._until - self._began)


def _template(name: str) -> "Template":
    from nodeagent.placement.cluster.cluster import Template

    if name not in list(Template):
        raise click.UsageError(f"--disk-template: {name!r} is not one of {', '.join(Template)}")
    return Template(name)


def _show(document: Json) -> None:
    on = screen()
    for doubt in document["doubts"]:
        on.line(f"In doubt, and no target: {doubt['why']}.")
    for group in document["groups"]:
        _show_group(on, group)
    if any(
        _is_capped(size["today"], document["most"])
        for group in document["groups"]
        for size in group["sizes"]
    ):
        on.line(f"Counted no further than {document['most']} of a size; --most counts further.")


def _is_capped(count: Json, limit: int) -> bool:
    return bool(count["fits"] >= limit and not count["exact"])


def _show_group(on: Screen, group: Json) -> None:
    nodes = counted(group["nodes"], "node", "nodes")
    on.heading(
        f"Group {group['group']}: {nodes} in service; disk template {group['disk-template']}"
    )
    rows = []
    for size in group["sizes"]:
        worst, away = size["worst"], size["away"]
        disks = f"{size['disks']}x" if size["disks"] > 1 else ""
        rows.append(
            (
                ", ".join(size["names"]),
                _amount(size["memory"]),
                disks + _amount(size["disk"]),
                size["vcpus"],
                _number(size["today"]),
                size["today"]["limit"] or "-",
                "-" if worst is None else _least(worst, group),
                "-" if worst is None else _blamed(worst, size["today"]),
                "-" if away is None else _number(away),
            )
        )
    columns = ("size", "memory", "disk", "cpus", "today", "limit", "worst", "without")
    asked = group["next"] is None and any(size["away"] for size in group["sizes"])
    on.table((*columns, "away" if asked else "next"), rows)
    for line in _remarks(group):
        on.line(line)


def _remarks(group: Json) -> Sequence[str]:
    """Say what the table has no room for."""
    lines = []
    absences = [size[kind] for size in group["sizes"] for kind in ("worst", "away") if size[kind]]
    unique = {tuple(absence["without"]): absence for absence in absences}
    for without, absence in unique.items():
        nodes = some_of([_short(name) for name in without])
        if absence["homeless"]:
            instances = some_of(absence["homeless"])
            lines.append(f"Without {nodes} there is no room for {instances}: nothing more fits.")
        if absence["stopped"]:
            instances = some_of(absence["stopped"])
            lines.append(f"Without {nodes} these stop, as they cannot be moved: {instances}.")
    away = next((size["away"] for size in group["sizes"] if size["away"]), None)
    if away is not None:
        nodes, coming = some_of([_short(name) for name in away["without"]]), group["next"]
        when = f", which leave at {_moment(coming)} {coming['why']}" if coming else ", as asked"
        lines.append(f"{'Next' if coming else 'Away'} is without {nodes}{when}.")
    if group["tried"] < group["nodes"]:
        lines.append(
            f"The time was over after {group['tried']} of {group['nodes']} nodes: another one may"
            " be worse. --time gives more."
        )
    return lines


def _moment(coming: Json) -> str:
    """Return the time in UTC; the screen shows it in local time."""
    return f"{datetime.fromtimestamp(coming['leaves'], UTC):%Y-%m-%dT%H:%M:%SZ}"


def _number(count: Json) -> str:
    return f"{'' if count['exact'] else '>='}{count['fits']}"


def _least(worst: Json, group: Json) -> str:
    """Return the least of the nodes that were tried; another one may have less."""
    if group["tried"] == group["nodes"]:
        return _number(worst)
    return f"{'<=' if worst['exact'] else '~'}{worst['fits']}"


def _blamed(worst: Json, today: Json) -> str:
    """Return the node without which fewest fit, unless it costs nothing."""
    costs = worst["fits"] < today["fits"] or worst["homeless"]
    return _short(worst["without"][0]) if costs else "-"


def _amount(mib: int) -> str:
    """Return memory or disk as Ganeti's lists do: 512M, 4.0G, 1.5T."""
    for unit, size in (("T", 1024 * 1024), ("G", 1024)):
        if mib >= size:
            return f"{mib / size:.1f}{unit}"
    return f"{mib}M"


def _short(name: str) -> str:
    return name.partition(".")[0]
