"""Limit the lines that one node can cause in the journal in a minute. Pure.

A node that reports something new in every round would otherwise fill the master's disk.
"""

from collections.abc import Callable

LINES = 60  # a minute and node; a node with many instances needs some forty at once
_MINUTE = 60.0


class Chatter:
    """Count the lines about each node; a minute begins with its first. `clock` gives seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._told: dict[str, tuple[float, int]] = {}  # since when, and how many lines

    def take(self, node: str) -> bool:
        """Check whether one more line about this node is allowed; one without a node always is."""
        if not node:
            return True
        since, lines = self._told.get(node, (self._clock(), 0))
        self._told[node] = since, lines + 1
        return lines < LINES

    def over(self) -> list[tuple[str, int]]:
        """The nodes whose minute is over, with the numbers of suppressed lines."""
        latest = self._clock() - _MINUTE
        ended = [node for node, (since, _) in self._told.items() if since <= latest]
        counts = [(node, self._told.pop(node)[1] - LINES) for node in ended]
        return [(node, left_out) for node, left_out in counts if left_out > 0]
