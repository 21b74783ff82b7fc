"""Moments, their text for programs, and the names of weekdays. Pure."""

from datetime import UTC, datetime, timedelta

from nodeagent.model.units import Ms

WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_WHOLE = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_LATEST = Ms(253_402_300_799_999)  # the end of the year 9999


def rfc3339(ms: Ms) -> str:
    """Unix ms as UTC in whole seconds; 0 gives the zero of CKE's clock."""
    if not ms:
        return "0001-01-01T00:00:00Z"
    ms = max(Ms(0), min(ms, _LATEST))  # a damaged ledger may have any
    return f"{datetime.fromtimestamp(ms // 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"


def moment(seconds: float) -> datetime:
    """A unix time in UTC; a later one than there can be is the last."""
    try:
        return datetime.fromtimestamp(0, UTC) + timedelta(seconds=seconds)
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC)


def weekday_of(name: str) -> int | None:
    """The number of a weekday by its name, `sat` or `Saturday`; Monday is 0."""
    name = name.lower()
    names = WEEKDAYS if len(name) == len(WEEKDAYS[0]) else _WHOLE
    return names.index(name) if name in names else None
