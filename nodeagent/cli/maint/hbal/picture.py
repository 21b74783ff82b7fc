"""A balancing as a picture: every node before and after, with the moves between them.

On the left the nodes as they are, on the right as they would be, each in its row. Between them run
the instances that change their primary node, with a width of their size, and as dashed lines the
copied disks. Below are the score's course and its parts.
"""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import isfinite

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from nodeagent.cli.maint.console.text import harmless
from nodeagent.cli.maint.hbal.lines import domain
from nodeagent.cli.maint.hbal.picture_ribbons import Ribbon, changed, copies, memory, ribbons
from nodeagent.placement.balance.search import Plan
from nodeagent.placement.layout.layout import Layout
from nodeagent.placement.layout.node import Filled, ratio
from nodeagent.placement.layout.score import COMPONENTS, components

_FULL = 270.0  # the length of a full bar
_TOP = 150.0
_HIGH, _LOW, _ROOM = 34.0, 2.5, 680.0  # rows: the highest, the lowest, all together if possible
_NAMED, _DETAILED = 10.0, 17.0  # rows of this height have names, and all their bars
_CURVE = 150.0  # the height of the score's course
_PARTS = 6  # parts of the score shown
_CLIP = 16  # characters of a name
_LOADS = ("cpu_load_cv", "mem_load_cv", "net_load_cv")
_LABELS = {
    "free_mem_cv": "free memory",
    "free_disk_cv": "free disk",
    "n1_cnt": "nodes that could not take over",
    "reserved_mem_cv": "reserved memory",
    "offline_all_cnt": "left on offline nodes",
    "offline_pri_cnt": "running on offline nodes",
    "vcpu_ratio_cv": "virtual CPUs",
    "cpu_load_cv": "CPU load",
    "mem_load_cv": "memory load",
    "disk_load_cv": "disk load",
    "net_load_cv": "net load",
    "pri_tags_score": "exclusion tags on one node",
    "spindles_cv": "pressure on disks",
    "free_mem_cv_forth": "free memory, with planned moves",
    "free_disk_cv_forth": "free disk, with planned moves",
    "vcpu_ratio_cv_forth": "virtual CPUs, with planned moves",
    "spindles_cv_forth": "pressure on disks, with planned moves",
    "location_score": "locations shared or unwanted",
    "location_exclusion_score": "exclusion tags at one location",
    "reserved_mem_rtotal": "reserved memory in all",
}


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of a bar."""

    kind: str
    x: float
    width: float


@dataclass(frozen=True, slots=True)
class Side:
    """A node at one time: the parts of its memory, its disk's and CPUs' bars."""

    stretches: tuple[Stretch, ...]
    disk: Stretch
    cpus: Stretch
    fails: bool
    percent: str
    title: str


@dataclass(frozen=True, slots=True)
class Row:
    """A node; `y` is the middle of its bar."""

    label: str
    y: float
    offline: bool
    before: Side
    after: Side


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the score, weighed, before and after; the lengths are those of bars."""

    label: str
    before: str
    after: str
    long: float
    short: float


@dataclass(frozen=True, slots=True)
class Way:
    """The score after each move: a line, the area below it, its two ends, marks."""

    line: str
    area: str
    ends: tuple[tuple[float, float], tuple[float, float]]
    marks: tuple[tuple[float, str], ...]


@dataclass(frozen=True, slots=True)
class Picture:
    """The whole picture, in its own units."""

    height: float
    bar: float
    foot: float
    named: bool
    detailed: bool
    rows: tuple[Row, ...]
    moves: tuple[Ribbon, ...]
    copies: tuple[Ribbon, ...]
    average: tuple[float, float]
    title: str
    subtitle: str
    score: tuple[str, str]
    facts: str
    way: "Way | None"
    parts: tuple[Part, ...]


def draw(plan: Plan, after: Layout) -> str:
    folder = os.path.join(os.path.dirname(__file__), "templates")
    environment = Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["zip"] = zip
    environment.filters["at"] = lambda value: f"{value:.1f}".removesuffix(".0")
    return environment.get_template("balance.svg").render(picture=_picture(plan, after))


def _picture(plan: Plan, after: Layout) -> Picture:
    before = plan.layout
    nodes = list(zip(before.group_nodes(), after.group_nodes(), strict=True))
    high = min(_HIGH, max(_LOW, _ROOM / max(1, len(nodes))))
    bar = high * (0.5 if high >= _DETAILED else 0.72)
    middles = {
        old.host.index: _TOP + high * (place + 0.5) - (0.14 * high if high >= _DETAILED else 0)
        for place, (old, _) in enumerate(nodes)
    }
    changes = changed(before, after)
    gone, come = memory(before, changes)
    ending = domain(before.cluster)
    rows = tuple(
        Row(
            _clipped(old.host.name.removesuffix(ending)),
            middles[old.host.index],
            old.host.offline,
            _side(old, gone.get(old.host.index, 0), "before"),
            _side(new, come.get(old.host.index, 0), "after"),
        )
        for old, new in nodes
    )
    foot = _TOP + high * len(nodes) + 64
    moves = len(plan.steps)
    counted = f"{len(nodes)} nodes, {len(before.residents)} instances"
    way, parts = _way(plan, foot), tuple(_parts(before, after))
    return Picture(
        height=foot + (_CURVE + 80 if way or parts else 70),
        bar=bar,
        foot=foot,
        named=high >= _NAMED,
        detailed=high >= _DETAILED,
        rows=rows,
        moves=tuple(ribbons(before, changes, middles, bar)),
        copies=tuple(copies(before, changes, middles, high)),
        average=(_average(old for old, _ in nodes), _average(new for _, new in nodes)),
        title=f"Group {_clipped(before.group.name, 40)}",
        subtitle=counted,
        score=(_told(plan.initial), _told(plan.final)),
        facts=f"{moves} move{'' if moves == 1 else 's'}, {plan.copied:,.0f} GiB to copy"
        if moves
        else "nothing to move",
        way=way,
        parts=parts,
    )


def _clipped(name: str, most: int = _CLIP) -> str:
    name = harmless(name)
    return name if len(name) <= most else f"{name[: most - 1]}…"


def _told(value: float) -> str:
    if not isfinite(value):
        return "?"
    return f"{value:,.2f}" if value >= 0.1 else f"{value:.4f}" if value else "0"


def _side(node: Filled, moving: int, when: str) -> Side:
    """Return a node's side; moving parts are next to the middle of the picture."""
    host = node.host
    used = int(host.memory) - node.free_memory
    parts = (
        ("moving", moving),
        ("instances", max(0, used - moving - host.own_memory - max(0, host.missing))),
        ("own", host.own_memory + max(0, host.missing)),
        ("reserved", max(0, min(node.reserved, node.free_memory))),
    )
    scale = _FULL / host.memory if host.memory else 0.0
    stretches, x = [], 0.0
    for kind, amount in parts:
        width = min(amount * scale, _FULL - x)
        if width > 0:
            stretches.append(Stretch(kind, x, width))
            x += width
    disk = 1 - node.free_disk / host.disk if host.disk else 0.0
    cpus = ratio(node.used_cpus, host.cpus * abs(host.cpu_ratio)) if host.cpus else 0.0
    share = used / host.memory if host.memory else 0.0
    return Side(
        tuple(stretches),
        Stretch("disk", 0, _FULL * min(1.0, max(0.0, disk))),
        Stretch("cpus", 0, _FULL * min(1.0, max(0.0, cpus))),
        node.failing and not host.offline,
        f"{share:.0%}" if host.memory else "",
        f"{harmless(host.name)}, {when}: {node.primaries} instances run,"
        f" {node.secondaries} have it as secondary node\n"
        f"memory {used / 1024:,.1f} of {host.memory / 1024:,.1f} GiB in use,"
        f" {node.reserved / 1024:,.1f} to be kept free for those\n"
        f"disk {disk:.0%} in use, {node.used_cpus} virtual CPUs on {host.cpus:g}",
    )


def _average(nodes: Iterable[Filled]) -> float:
    """Return the end of the average node's memory in use, in a bar."""
    shares = [
        1 - node.free_memory / node.host.memory
        for node in nodes
        if not node.host.offline and node.host.memory
    ]
    return _FULL * min(1.0, max(0.0, sum(shares) / len(shares))) if shares else 0.0


def _way(plan: Plan, foot: float) -> Way | None:
    scores = [plan.initial, *(step.score for step in plan.steps)]
    most = max(scores)
    if not isfinite(most) or most <= 0 or len(scores) < 2:
        return None
    x0, width, base = 40.0, 480.0, foot + 40 + _CURVE
    points = [
        (x0 + width * place / (len(scores) - 1), base - (_CURVE - 10) * max(0.0, value) / most)
        for place, value in enumerate(scores)
    ]
    line = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    marked = sorted({0, (len(scores) - 1) // 2, len(scores) - 1})
    return Way(
        f"M{line}",
        f"M{x0} {base}L{line}L{x0 + width} {base}Z",
        (points[0], points[-1]),
        tuple((points[mark][0], str(mark)) for mark in marked),
    )


def _parts(before: Layout, after: Layout) -> Iterator[Part]:
    """Yield the largest parts of the score; equal ones together."""
    old, new = components(before.group_nodes()), components(after.group_nodes())
    sums: dict[str, tuple[float, float]] = {}
    for part, *values in zip(COMPONENTS, old, new, strict=False):
        label = _label(before, part.name)
        was, now = sums.get(label, (0.0, 0.0))
        sums[label] = was + part.weight * values[0], now + part.weight * values[1]
    largest = sorted(sums.items(), key=lambda item: -max(item[1]))[:_PARTS]
    most = max((max(pair) for _, pair in largest), default=0.0)
    for label, (was, now) in largest:
        if isfinite(most) and max(was, now) >= 5e-5:
            yield Part(label, _told(was), _told(now), 260 * was / most, 260 * now / most)


def _label(layout: Layout, part: str) -> str:
    """Name a part of the score; without own loads and forthcoming instances some are the same."""
    if not any(demand.forthcoming for demand in layout.demands):
        part = part.removesuffix("_forth")
    if not layout.rules.loads and not layout.rules.idle:
        if part in _LOADS:
            return "number of instances"
        if part == "disk_load_cv":
            return "instances and secondaries"
    return _LABELS[part]
