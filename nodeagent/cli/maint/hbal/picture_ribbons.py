"""Ribbons for moves between the two sides of a balancing's picture. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from nodeagent.cli.maint.console.text import harmless
from nodeagent.placement.layout.layout import Layout
from nodeagent.placement.layout.moves import distance

_LEFT, _RIGHT = 444.0, 756.0  # their two ends
_FEW = 12  # names in a title


@dataclass(frozen=True, slots=True)
class Ribbon:
    path: str
    width: float
    title: str


# An instance with a new place: its index, its old and its new place.
Change = tuple[int, tuple[int, int], tuple[int, int]]


def changed(before: Layout, after: Layout) -> list[Change]:
    pairs = enumerate(zip(before.places, after.places, strict=True))
    return [(index, was[:2], now[:2]) for index, (was, now) in pairs if distance(was, now)]


def memory(layout: Layout, changes: Iterable[Change]) -> tuple[dict[int, int], dict[int, int]]:
    """Return the memory that leaves each node, and that comes to each, in MiB."""
    gone: dict[int, int] = defaultdict(int)
    come: dict[int, int] = defaultdict(int)
    for index, was, now in changes:
        if was[0] != now[0]:
            gone[was[0]] += layout.demands[index].used
            come[now[0]] += layout.demands[index].used
    return gone, come


def ribbons(
    layout: Layout, changes: Iterable[Change], middles: dict[int, float], bar: float
) -> Iterator[Ribbon]:
    """Ribbons for changes of primaries; at each node they lie beside each other, none crossing."""
    routes: dict[tuple[int, int], list[int]] = defaultdict(list)
    for index, was, now in changes:
        if was[0] != now[0] and was[0] in middles and now[0] in middles:
            routes[was[0], now[0]].append(index)
    sizes = {route: _size(layout, indices) for route, indices in routes.items()}
    most = max((max(_sums(sizes, 0).values()), max(_sums(sizes, 1).values()))) if sizes else 1
    width = {route: max(0.6, bar * size / most) for route, size in sizes.items()}
    starts, ends = _stacked(width, middles, 0), _stacked(width, middles, 1)
    for route, indices in sorted(routes.items(), key=lambda item: -width[item[0]]):
        path = _curve(starts[route], ends[route])
        yield Ribbon(path, width[route], _told(layout, route, indices, "instance", "instances"))


def _size(layout: Layout, indices: Iterable[int]) -> int:
    return sum(max(1, layout.demands[index].memory) for index in indices)


def _sums(sizes: dict[tuple[int, int], int], end: int) -> dict[int, int]:
    found: dict[int, int] = defaultdict(int)
    for route, size in sizes.items():
        found[route[end]] += size
    return found


def _stacked(
    width: dict[tuple[int, int], float], middles: dict[int, float], end: int
) -> dict[tuple[int, int], float]:
    """Return the middle of each ribbon at this end of it."""
    found: dict[tuple[int, int], float] = {}
    for node in {route[end] for route in width}:
        here = sorted(
            (route for route in width if route[end] == node),
            key=lambda route: middles[route[1 - end]],
        )
        y = middles[node] - sum(width[route] for route in here) / 2
        for route in here:
            found[route] = y + width[route] / 2
            y += width[route]
    return found


def copies(
    layout: Layout, changes: Iterable[Change], middles: dict[int, float], high: float
) -> Iterator[Ribbon]:
    """Yield the moves of disks: the node that loses them and the node that gets them."""
    routes: dict[tuple[int, int], list[int]] = defaultdict(list)
    for index, was, now in changes:
        lost, won = sorted({*was} - {*now, -1}), sorted({*now} - {*was, -1})
        if layout.demands[index].mirrored:
            for route in zip(lost, won, strict=False):
                if middles.keys() >= {*route}:
                    routes[route].append(index)
    for route, indices in sorted(routes.items()):
        width = min(0.5 + 0.35 * len(indices), 0.2 * high)
        path = _curve(middles[route[0]], middles[route[1]])
        yield Ribbon(
            path, width, _told(layout, route, indices, "instance's disks", "instances' disks")
        )


def _curve(start: float, end: float) -> str:
    middle = (_LEFT + _RIGHT) / 2
    return (
        f"M{_LEFT:.0f} {start:.1f}C{middle:.0f} {start:.1f}"
        f" {middle:.0f} {end:.1f} {_RIGHT:.0f} {end:.1f}"
    )


def _told(
    layout: Layout, route: tuple[int, int], indices: Sequence[int], one: str, many: str
) -> str:
    here, there = (layout.nodes[index].host.name for index in route)
    names = ", ".join(layout.cluster.instances[index].name for index in indices[:_FEW])
    more = f" and {len(indices) - _FEW} more" if len(indices) > _FEW else ""
    what = one if len(indices) == 1 else many
    return harmless(f"{len(indices)} {what} from {here} to {there}: {names}{more}")
