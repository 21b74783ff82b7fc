"""Limits a minute: of a node's lines in the journal, and of requests of users who may only answer.

A node that reports something new in every round would otherwise fill the master's disk. Refused
requests are counted, and the history gets one line a minute and user.
"""

from collections import OrderedDict, deque
from collections.abc import Callable

from nodeagent.model.event import Event, happened
from nodeagent.model.units import Ms
from nodeagent.protocol.canonical import printable

LINES = 60  # a minute and node; a node with many instances needs some forty at once
MOST_BYTES = 64 * 1024  # of one request
_MINUTE = 60.0
_A_MINUTE = 20
_USERS = 4096
_WHY = 300  # characters


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


class Rations:
    """The requests of each user. `clock` gives seconds of a steady clock.

    Bounded: the user who asked longest ago is dropped first.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._asked: OrderedDict[str, deque[float]] = OrderedDict()
        self._refused: dict[str, tuple[float, int, str]] = {}  # since, how many, the last reason

    def wait(self, user: str) -> float:
        """Take one request from the user's ration; if it is empty, return the seconds to wait."""
        now = self._clock()
        times = self._asked.setdefault(user, deque(maxlen=_A_MINUTE))
        self._asked.move_to_end(user)
        if len(self._asked) > _USERS:
            self._asked.popitem(last=False)
        if len(times) == _A_MINUTE and (seconds := times[0] + _MINUTE - now) > 0:
            return seconds
        times.append(now)
        return 0.0

    def refused(self, user: str, why: str) -> None:
        since, count, _ = self._refused.get(user, (self._clock(), 0, ""))
        if count or len(self._refused) < _USERS:
            self._refused[user] = since, count + 1, why

    def due(self, now: Ms) -> tuple[Event, ...]:
        """The events (at `now`, unix ms) of users whose first refusal is a minute ago.

        Their counts start again at 0.
        """
        latest = self._clock() - _MINUTE
        over = [user for user, (since, _, _) in self._refused.items() if since <= latest]
        return tuple(_event(now, user, *self._refused.pop(user)[1:]) for user in over)


def _event(now: Ms, user: str, count: int, why: str) -> Event:
    answers = "1 answer" if count == 1 else f"{count} answers"
    details = {"answers": answers, "user": user, "why": printable(why, _WHY)}
    return happened(now, "answers-refused", **details)
