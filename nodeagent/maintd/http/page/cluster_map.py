"""The cluster as a picture: place and colour of each node, and the running moves. Pure.

Few nodes are cards with names; many are small squares. If there are very many, it draws only the
unhealthy ones, and counts the others.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, hypot, inf

from nodeagent.maintd.http.view import NodeState, NodeView, View
from nodeagent.maintd.planning.resources import target_of
from nodeagent.model.action import MoveSecondary, describe, move_of

WIDTH = 1000.0
BIG = 40  # nodes drawn as cards
_SQUARES = 300  # nodes drawn as squares with marks
MOST = 1000  # nodes drawn at all
_CLIP = 15  # characters of a name on a card

STATES = {
    NodeState.HEALTHY: "healthy",
    NodeState.UNHEALTHY: "unhealthy",
    NodeState.FAILED: "repair failed",
    NodeState.DONE: "maintd is done",
    NodeState.SILENT: "not answering",
    NodeState.DISTRUSTED: "distrusted",
    NodeState.IN_DOUBT: "in doubt",
    NodeState.OFFLINE: "offline",
}
WORDS = STATES | {
    NodeState.FAILED: "failed",
    NodeState.DONE: "done",
    NodeState.SILENT: "no answer",
}
MARKS = {
    NodeState.UNHEALTHY: "!",
    NodeState.FAILED: "✕",
    NodeState.DONE: "✓",
    NodeState.SILENT: "?",
    NodeState.DISTRUSTED: "≠",
    NodeState.IN_DOUBT: "~",
}


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes in the picture's own units.

    `gap` is the least space between two nodes, `head` the room above them for the group's name,
    `foot` that below, `bow` how far the longest arrow leaves its row.
    """

    width: float
    height: float
    gap: float
    pad: float
    head: float
    foot: float
    bow: float


CARDS = Shape(124, 62, 40, 16, 60, 38, 50)
CALM = Shape(124, 62, 16, 16, 36, 16, 50)
SQUARES = Shape(26, 26, 10, 14, 34, 14, 0)
DOTS = Shape(16, 16, 5, 12, 30, 12, 0)
_APART = 14.0  # between groups


@dataclass(frozen=True, slots=True)
class MapSpot:
    name: str
    label: str
    x: float
    y: float
    state: NodeState
    service: str
    mark: str
    master: bool
    paused: bool
    load: str
    told: str
    title: str


@dataclass(frozen=True, slots=True)
class Box:
    """One group. `left_out` counts its healthy nodes that are not drawn."""

    name: str
    x: float
    y: float
    width: float
    height: float
    spots: tuple[MapSpot, ...]
    count: int
    left_out: int


@dataclass(frozen=True, slots=True)
class Arrow:
    path: str
    kind: str
    label: str
    x: float
    y: float
    title: str


@dataclass(frozen=True, slots=True)
class Picture:
    """The whole picture; `counts` has the number of nodes in each state, hidden ones included."""

    width: float
    height: float
    shape: Shape
    big: bool
    boxes: tuple[Box, ...] = ()
    arrows: tuple[Arrow, ...] = ()
    counts: Mapping[NodeState, int] = field(default_factory=dict)


def draw(view: View, nodes: Sequence[NodeView]) -> Picture:
    """Draw these nodes, and the moves of the view's intents."""
    moves = _moves(view)
    at_work = {name for pair in moves for name in pair[:2]}
    few = len(nodes) <= MOST
    drawn = [
        node for node in nodes if few or node.state is not NodeState.HEALTHY or node.name in at_work
    ][:MOST]
    big = len(drawn) <= BIG
    cards = CARDS if moves else CALM
    shape = cards if big else SQUARES if len(drawn) <= _SQUARES else DOTS
    groups: dict[str, list[NodeView]] = {node.group: [] for node in nodes}
    for node in drawn:
        groups[node.group].append(node)
    boxes, height = _lay_out(groups, Counter(node.group for node in nodes), shape)
    spots = {spot.name: spot for box in boxes for spot in box.spots}
    totals = Counter(node.state for node in nodes)
    counts = {state: totals[state] for state in STATES if totals[state]}
    arrows = _arcs(moves, spots) if big else _bows(moves, spots, shape)
    return Picture(WIDTH, height, shape, big, tuple(boxes), tuple(arrows), counts)


def _lay_out(
    groups: Mapping[str, list[NodeView]],
    totals: Mapping[str, int],
    shape: Shape,
) -> tuple[list[Box], float]:
    """Put the groups in equal boxes, as many in a row as make the picture lowest.

    For cards a box first has as few lines as possible: arrows need room between them.
    """
    sizes = [len(nodes) for nodes in groups.values()]
    abreast = min(range(1, len(groups) + 1), key=lambda k: _cost(sizes, k, shape), default=1)
    columns = _columns(abreast, shape)
    width = (WIDTH - (abreast - 1) * _APART) / abreast
    if len(groups) == 1:
        width = max(_inner(min(columns, sizes[0]), shape) + 2 * shape.pad, 300)
        columns = max(1, min(columns, sizes[0]))  # of too many nodes the healthy are not drawn
    gap = (width - 2 * shape.pad - columns * shape.width) / max(1, columns - 1)
    gap = shape.gap if len(groups) == 1 else min(gap, 2.5 * shape.gap)
    boxes: list[Box] = []
    y = 0.0
    named = list(groups.items())
    for first in range(0, len(named), abreast):
        line = named[first : first + abreast]
        height = max(_box_height(len(nodes), columns, shape) for _, nodes in line)
        for place, (name, nodes) in enumerate(line):
            x = place * (width + _APART)
            spots = tuple(
                _spot(
                    node,
                    x + shape.pad + n % columns * (shape.width + gap),
                    y + shape.head + n // columns * (shape.height + shape.gap),
                )
                for n, node in enumerate(nodes)
            )
            left_out = totals[name] - len(nodes)
            boxes.append(Box(name, x, y, width, height, spots, totals[name], left_out))
        y += height + _APART
    return boxes, max(0.0, y - _APART)


def _columns(abreast: int, shape: Shape) -> int:
    """The number of nodes in a row of a box, with this many boxes in a row."""
    width = (WIDTH - (abreast - 1) * _APART) / abreast - 2 * shape.pad
    return max(1, int((width + shape.gap) // (shape.width + shape.gap)))


def _inner(columns: int, shape: Shape) -> float:
    return columns * (shape.width + shape.gap) - shape.gap


def _box_height(count: int, columns: int, shape: Shape) -> float:
    lines = ceil(count / columns)
    nodes = lines * (shape.height + shape.gap) - shape.gap if lines else 0.0
    return shape.head + nodes + shape.foot


def _cost(sizes: Sequence[int], abreast: int, shape: Shape) -> tuple[float, float]:
    """The lines of the fullest box, for cards, and the height of the picture; both to minimize."""
    if (WIDTH - (abreast - 1) * _APART) / abreast < max(150, shape.width + 2 * shape.pad):
        return inf, inf
    columns = _columns(abreast, shape)
    heights = [_box_height(size, columns, shape) for size in sizes]
    lines = (heights[first : first + abreast] for first in range(0, len(heights), abreast))
    fullest = max(ceil(size / columns) for size in sizes) if shape.bow else 0
    return fullest, sum(max(line) + _APART for line in lines)


def _spot(node: NodeView, x: float, y: float) -> MapSpot:
    short = node.name.partition(".")[0] or node.name
    state = node.state
    return MapSpot(
        name=node.name,
        label=short if len(short) <= _CLIP else short[: _CLIP - 1] + "…",
        x=x,
        y=y,
        state=state,
        service=node.role,
        mark=MARKS.get(state, ""),
        master=node.is_master,
        paused=node.paused is not None,
        load=f"{node.primaries} run, {node.secondaries} secondary",
        told=_told_state(node, state),
        title="\n".join(_words(node, state)),
    )


def shows_role(node: NodeView, state: NodeState) -> bool:
    """Tell whether a node's role says more than its state."""
    return node.role != "online" and state is not NodeState.OFFLINE


def _told_state(node: NodeView, state: NodeState) -> str:
    """The state and the role, if a card has room for both; the card's edge shows the role too."""
    word = f"{MARKS.get(state, '')} {WORDS[state]}".strip()
    both = f"{word}, {node.role}"
    return both if shows_role(node, state) and len(both) <= _CLIP else word


def _words(node: NodeView, state: NodeState) -> Iterable[str]:
    service = f", {node.role}" if shows_role(node, state) else ""
    master = " (master)" if node.is_master else ""
    yield f"{node.name}{master}: {STATES[state]}{service}"
    if node.requested is not None:
        yield f"requests {node.requested.wire}"
    yield f"{node.primaries} primary instances, {node.secondaries} secondary"
    if words := node.look_why or node.doubt:
        yield words
    if node.paused is not None:
        yield str(node.paused)
    yield from (describe(intent.action) for intent in node.intents[:10])


# From, to, kind.
Move = tuple[str, str, str]


def _moves(view: View) -> dict[Move, list[str]]:
    moves: dict[Move, list[str]] = {}
    for intent in view.ledger.intents:
        action = move_of(intent.action)
        target = target_of(intent.action, view.observed.snapshot)
        if action is None or target is None or target == intent.node:
            continue
        kind = "mirror" if isinstance(action, MoveSecondary) else "move"
        moves.setdefault((action.node, target, kind), []).append(action.instance)
    return moves


def _arcs(moves: Mapping[Move, list[str]], spots: Mapping[str, MapSpot]) -> Iterable[Arrow]:
    """Arrows between cards: in the room above or below their rows, side by side on each edge."""
    shape = CARDS
    known = [move for move in sorted(moves) if move[0] in spots and move[1] in spots]
    edges: dict[tuple[str, bool], list[tuple[bool, float, Move, str]]] = {}
    for move in known:
        spot, other = spots[move[0]], spots[move[1]]
        above, below = _sides(spot, other, move[2])
        # In one row the shorter of two arrows lies within the longer one, so that none cross.
        nested = -1 if spot.y == other.y else 1
        edges.setdefault((spot.name, above), []).append(
            (other.x > spot.x, nested * other.x, move, "from")
        )
        edges.setdefault((other.name, below), []).append(
            (spot.x > other.x, nested * spot.x, move, "to")
        )
    place: dict[tuple[Move, str], float] = {}
    for (name, _), ends in edges.items():
        for n, (*_, move, end) in enumerate(sorted(ends), 1):
            place[move, end] = spots[name].x + shape.width * n / (len(ends) + 1)
    for move in known:
        spot, other = spots[move[0]], spots[move[1]]
        leaves_above, comes_above = _sides(spot, other, move[2])
        ax, bx = place[move, "from"], place[move, "to"]
        ay = spot.y - 2 if leaves_above else spot.y + shape.height + 2
        by = other.y - 4 if comes_above else other.y + shape.height + 4
        far = abs(bx - ax) / WIDTH
        bow = shape.bow * (0.35 + far) if spot.y == other.y else max(22, abs(by - ay) / 2)
        acy = ay - bow if leaves_above else ay + bow
        bcy = by - bow if comes_above else by + bow
        path = f"M{ax:.1f} {ay:.1f}C{ax:.1f} {acy:.1f} {bx:.1f} {bcy:.1f} {bx:.1f} {by:.1f}"
        x, y = _at(0.7, ax, ax, bx, bx), _at(0.7, ay, acy, bcy, by)
        count = str(len(moves[move])) if len(moves[move]) > 1 else ""
        yield Arrow(path, move[2], count, round(x, 1), round(y, 1), _told_move(move, moves[move]))


def _at(t: float, a: float, b: float, c: float, d: float) -> float:
    u = 1 - t
    return u * u * u * a + 3 * u * u * t * b + 3 * u * t * t * c + t * t * t * d


def _sides(spot: MapSpot, other: MapSpot, kind: str) -> tuple[bool, bool]:
    """Return whether an arrow starts at an upper edge, and whether it ends at one."""
    if spot.y == other.y:
        above = kind == "move"
        return above, above
    return spot.y > other.y, spot.y < other.y


def _told_move(move: Move, instances: list[str]) -> str:
    verb = "instance" if move[2] == "move" else "secondary"
    plural = "" if len(instances) == 1 else "s"
    names = ", ".join(instances[:20]) + ("…" if len(instances) > 20 else "")
    return f"{len(instances)} {verb}{plural} from {move[0]} to {move[1]}: {names}"


def _bows(
    moves: Mapping[Move, list[str]], spots: Mapping[str, MapSpot], shape: Shape
) -> Iterable[Arrow]:
    """Arrows between squares, which have no text to cover."""
    for move, instances in sorted(moves.items()):
        spot, other = spots.get(move[0]), spots.get(move[1])
        if spot is None or other is None:
            continue
        side = 1 if move[2] == "move" else -1
        yield Arrow(_bow(spot, other, shape, side), move[2], "", 0, 0, _told_move(move, instances))


def _bow(spot: MapSpot, other: MapSpot, shape: Shape, side: int) -> str:
    ax, ay = spot.x + shape.width / 2, spot.y + shape.height / 2
    bx, by = other.x + shape.width / 2, other.y + shape.height / 2
    dx, dy = bx - ax, by - ay
    distance = hypot(dx, dy) or 1.0
    bend = side * min(0.25 * distance, 60)
    cx, cy = (ax + bx) / 2 - dy / distance * bend, (ay + by) / 2 + dx / distance * bend
    sx, sy = _edge(ax, ay, cx, cy, shape, 1)
    ex, ey = _edge(bx, by, cx, cy, shape, 3)
    return f"M{sx:.1f} {sy:.1f}Q{cx:.1f} {cy:.1f} {ex:.1f} {ey:.1f}"


def _edge(
    x: float, y: float, towards_x: float, towards_y: float, shape: Shape, away: float
) -> tuple[float, float]:
    """The point where a line from a square's middle leaves it, and a little further."""
    dx, dy = towards_x - x, towards_y - y
    length = hypot(dx, dy) or 1.0
    across = min(
        shape.width / 2 / abs(dx) if dx else inf, shape.height / 2 / abs(dy) if dy else inf
    )
    part = min(1.0, across + away / length)
    return x + dx * part, y + dy * part
