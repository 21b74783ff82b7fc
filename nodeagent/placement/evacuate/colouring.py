"""Colouring a graph: no two neighbours of one colour, and few colours. Pure.

Three greedy ways (Welsh and Powell 1967; Brélaz 1979; by coloured neighbours), each in hroller's
order: of equals the last vertex is coloured first, with the least colour that none of its
neighbours has.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import TypeAlias

Graph: TypeAlias = Mapping[int, Sequence[int]]
"""The neighbours of each vertex, in both directions.

One may be there several times, which counts for how many there are; and the vertex itself.
"""

Colours: TypeAlias = Sequence[Sequence[int]]
"""The vertices of each colour, in their order."""


def largest_first(graph: Graph) -> Colours:
    order = sorted(graph, key=lambda vertex: (len(graph[vertex]), vertex), reverse=True)
    colour: dict[int, int] = {}
    for vertex in order:
        colour[vertex] = _least(graph, colour, vertex)
    return _classes(colour)


def by_saturation(graph: Graph) -> Colours:
    """Colour vertices first whose neighbours have the most colours, and of these as above."""
    seen: dict[int, set[int]] = {vertex: set() for vertex in graph}

    def note(vertex: int, colour: int) -> int:
        seen[vertex].add(colour)
        return len(seen[vertex])

    return _dynamic(graph, note)


def by_coloured(graph: Graph) -> Colours:
    """Colour vertices first with the most coloured neighbours, and of these as above."""
    count = dict.fromkeys(graph, 0)

    def note(vertex: int, _: int) -> int:
        count[vertex] += 1
        return count[vertex]

    return _dynamic(graph, note)


# By hroller's names; of those with the fewest colours the first is taken.
WAYS: Mapping[str, Callable[[Graph], Colours]] = {
    "LF": largest_first,
    "Dsatur": by_saturation,
    "Dcolor": by_coloured,
}


def best(coloured: Iterable[Colours]) -> Colours:
    return min(coloured, key=len)


def _dynamic(graph: Graph, note: Callable[[int, int], int]) -> Colours:
    """Colour each time the vertex of the highest rank; `note` ranks it as neighbours get one."""
    colour: dict[int, int] = {}
    waiting = [(0, -len(beside), -vertex) for vertex, beside in graph.items()]
    heapify(waiting)
    while waiting:  # a vertex is there once for each rank it ever had, the highest comes first
        vertex = -heappop(waiting)[2]
        if vertex in colour:
            continue
        colour[vertex] = _least(graph, colour, vertex)
        for other in graph[vertex]:
            if other not in colour:
                rank = note(other, colour[vertex])
                heappush(waiting, (-rank, -len(graph[other]), -other))
    return _classes(colour)


def _least(graph: Graph, colour: Mapping[int, int], vertex: int) -> int:
    taken = {colour[other] for other in graph[vertex] if other in colour}
    return next(number for number in range(len(taken) + 1) if number not in taken)


def _classes(colour: Mapping[int, int]) -> Colours:
    classes: list[list[int]] = [[] for _ in set(colour.values())]
    for vertex in sorted(colour):
        classes[colour[vertex]].append(vertex)
    return classes
