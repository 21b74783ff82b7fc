"""Nodes that leave soon, as maintd tells the programs on the master beside it. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime

from nodeagent.model.departure import Cause, Departure
from nodeagent.model.units import Ms
from nodeagent.placement.cluster.json_reader import Object

MOST = 4 * 2**20  # bytes of the file
_LATEST = 253_402_300_799_999  # ms: the end of the year 9999


def read_leaving(document: object, now: Ms) -> dict[str, Departure]:
    """Read the nodes that are not back by now, or raise MessageError."""
    departures = Object(document, "").objects("departures")
    read = ((name, _departure(of)) for name, of in departures)
    return {
        name: departure
        for name, departure in read
        if departure.returns is None or departure.returns > now
    }


def _departure(of: Object) -> Departure:
    leaves = _moment(of, "leaves")
    returns = None if of.lacks("returns") else _moment(of, "returns")
    cause = {member.value: member for member in Cause}.get(of.text("cause"))
    if cause is None:
        of.wrong("cause", "is unknown")
    return Departure(leaves, returns, cause)


def _moment(of: Object, key: str) -> Ms:
    ms = of.count(key)
    if ms > _LATEST:
        of.wrong(key, f"{ms} is too late")
    return Ms(ms)


def in_words(names: Iterable[str], departures: Mapping[str, Departure]) -> Iterator[str]:
    """Say of each of these nodes that leaves when, and why."""
    for name in names:
        if (departure := departures.get(name)) is not None:
            moment = datetime.fromtimestamp(departure.leaves // 1000, UTC)
            at = f"{moment:%Y-%m-%dT%H:%M:%SZ}"
            yield f"{name} leaves service at {at} {departure.cause.value}"
