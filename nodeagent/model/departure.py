"""When a node leaves service, and when it returns: the order of targets for instances. Pure."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from math import inf
from typing import Any

from nodeagent.model.units import Ms

_NAME = "departures.json"
FILE = f"/run/maintd/{_NAME}"  # tells other programs on the master of them (ADR 33)


class Cause(Enum):
    """Why a node leaves service, in words."""

    WINDOW = "for a maintenance window"
    PERSON = "because somebody wants it evacuated"
    INCIDENT = "because it asks to be evacuated"
    ENTRY = "for the repair queue"
    FENCING = "because it is fenced"
    ROLL = "for rolling maintenance"


@dataclass(frozen=True, slots=True)
class Departure:
    """A node leaves service at `leaves` and returns at `returns` (unix ms; None: unknown)."""

    leaves: Ms
    returns: Ms | None = None
    cause: Cause = Cause.WINDOW

    @property
    def preference(self) -> tuple[float, float]:
        """Sort nodes that leave, the best target first: it leaves last, then returns first."""
        return -self.leaves, inf if self.returns is None else self.returns

    def is_away(self, now: Ms) -> bool:
        """Tell whether it has left."""
        return self.leaves <= now

    def overlaps(self, other: "Departure") -> bool:
        """Tell whether both nodes are away at one time."""
        return _before(self.leaves, other.returns) and _before(other.leaves, self.returns)


def _before(leaves: Ms, returns: Ms | None) -> bool:
    return returns is None or leaves < returns


def joined(departures: Collection[Departure]) -> Departure:
    """Return the first of a node's absences, with those that overlap it."""
    first, *others = sorted(
        departures, key=lambda departure: (departure.leaves, departure.cause.value)
    )
    for other in others:
        if first.overlaps(other):
            first = replace(first, returns=_later(first.returns, other.returns))
    return first


def _later(first: Ms | None, second: Ms | None) -> Ms | None:
    return None if first is None or second is None else max(first, second)


def ranks(departures: Mapping[str, Departure], names: Collection[str]) -> dict[str, int]:
    """Rank those of the nodes that leave: 1 is the best target; a node that stays has no rank.

    Nodes that leave and return together have the same rank.
    """
    leaving = {name: departures[name].preference for name in departures.keys() & set(names)}
    order = {place: rank for rank, place in enumerate(sorted(set(leaving.values())), 1)}
    return {name: order[place] for name, place in leaving.items()}


def stay_longest(departures: Mapping[str, Departure], names: Collection[str]) -> list[str]:
    """Return those that stay; without any, those that leave last and of these return first."""
    known = ranks(departures, names)
    least = min((known.get(name, 0) for name in names), default=0)
    return [name for name in names if known.get(name, 0) == least]


def next_absence(
    departures: Mapping[str, Departure], names: Collection[str], now: Ms
) -> tuple[Departure, frozenset[str]] | None:
    """Return the next of these nodes to leave, and all of them that are away at that moment."""
    mine = {name: departures[name] for name in departures.keys() & set(names)}
    coming = [departure for departure in mine.values() if not departure.is_away(now)]
    if not coming:
        return None
    first = min(coming, key=lambda departure: (departure.leaves, departure.cause.value))
    together = {
        name
        for name, departure in mine.items()
        if departure.is_away(first.leaves) and _before(first.leaves, departure.returns)
    }
    return first, frozenset(together)


def document(departures: Mapping[str, Departure]) -> dict[str, Any]:
    """Return them as JSON: `{"departures": {NODE: {"leaves": MS, "returns": MS, "cause": …}}}`."""
    return {
        "departures": {
            name: {
                "leaves": departure.leaves,
                "returns": departure.returns,
                "cause": departure.cause.value,
            }
            for name, departure in sorted(departures.items())
        }
    }


def file_beside(socket: str) -> str:
    """Return the path of the file that tells of them, in the folder of maintd's admin socket."""
    folder, slash, _ = socket.rpartition("/")
    return f"{folder}{slash}{_NAME}"
