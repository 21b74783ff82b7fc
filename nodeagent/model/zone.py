"""A time zone as a table of its changes, for code that may not read the zone database. Pure."""

from dataclasses import dataclass

from nodeagent.model.units import Seconds


@dataclass(frozen=True, slots=True)
class Change:
    """From `at` (unix seconds) on clocks are `offset` seconds ahead of UTC.

    That is called `name`, and `summer` is whether it is daylight saving time.
    """

    at: Seconds
    offset: int
    name: str
    summer: bool = False


@dataclass(frozen=True, slots=True)
class Zone:
    """The clock of a place from the first change until `until` (unix seconds).

    There is at least one change; what the first one says holds before it too.
    """

    name: str
    changes: tuple[Change, ...]
    until: Seconds

    def offset(self, at: Seconds) -> int:
        """How many seconds clocks are ahead of UTC at a moment (unix seconds)."""
        past = [change for change in self.changes if change.at <= at]
        return (past or self.changes)[-1 if past else 0].offset

    def moment(self, local: Seconds) -> Seconds:
        """When clocks show a local time (seconds since 1970-01-01 there), in unix seconds.

        As RFC 5545 (3.3.5) has it: of a time that is shown twice the first, and for one that is
        never shown the moment it would be at had the clocks not been changed yet.
        """
        ends = (*(change.at for change in self.changes[1:]), None)
        before = self.changes[0].offset
        for change, end in zip(self.changes, ends, strict=True):
            if local - change.offset < change.at and change is not self.changes[0]:
                return local - before  # skipped by this change: it was not shown before it
            if end is None or local - change.offset < end:
                return local - change.offset
            before = change.offset
        raise AssertionError("the last change has no end")
