"""A time zone as a table of its changes, for code that may not read the zone database. Pure."""

from dataclasses import dataclass

from nodeagent.model.units import Seconds


@dataclass(frozen=True, slots=True)
class Change:
    """A change of the clocks: from `at` (unix seconds) on they are `offset` seconds ahead of UTC.

    `name` is that time's name, and `summer` tells whether it is daylight saving time.
    """

    at: Seconds
    offset: int
    name: str
    summer: bool = False


@dataclass(frozen=True, slots=True)
class Zone:
    """The clock of a place from the first change until `until` (unix seconds).

    There is at least one change; the first one also holds before it.
    """

    name: str
    changes: tuple[Change, ...]
    until: Seconds

    def offset(self, at: Seconds) -> int:
        """Return how many seconds clocks are ahead of UTC at a moment (unix seconds)."""
        past = [change for change in self.changes if change.at <= at]
        return (past or self.changes)[-1 if past else 0].offset

    def moment(self, local: Seconds) -> Seconds:
        """Convert a local time (seconds since 1970-01-01 there) into unix seconds.

        As RFC 5545 (3.3.5) has it: an ambiguous time means the first; a skipped one moves forward
        by the gap.
        """
        ends = (*(change.at for change in self.changes[1:]), None)
        before = self.changes[0].offset
        for change, end in zip(self.changes, ends, strict=True):
            if local - change.offset < change.at and change is not self.changes[0]:
                return local - before  # this change skips it: it was not shown before it
            if end is None or local - change.offset < end:
                return local - change.offset
            before = change.offset
        raise AssertionError("the last change has no end")
