"""Weekly windows: their rule, the clock of its zone, and the progress of each machine. Pure."""

from bisect import bisect_right
from dataclasses import dataclass, field

from nodeagent.model.units import Seconds
from nodeagent.model.window import Consent, Machine


@dataclass(frozen=True, slots=True)
class Weekly:
    """Days and times of a series.

    `weekdays` are 0 (Monday) to 6, in order; `minute` is of the day on the clocks of `zone`, for
    `seconds` that pass. Days are proleptic Gregorian ordinals. They begin at `first`, a day of the
    series, in every `every`th week (weeks begin on Monday), until `until` (0: for ever). At most
    `times` (0: any number) of them take place, those `skipped` counted.
    """

    weekdays: tuple[int, ...]
    minute: int
    zone: str
    seconds: Seconds
    first: int
    every: int = 1
    until: int = 0
    times: int = 0
    skipped: tuple[int, ...] = ()


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
    """The clock of a place as a table, for code that may not read the zone database.

    The table is from the first change until `until` (unix seconds). There is at least one change;
    the first one also holds before it.
    """

    name: str
    changes: tuple[Change, ...]
    until: Seconds

    def offset(self, at: Seconds) -> int:
        """Return how many seconds clocks are ahead of UTC at a moment (unix seconds)."""
        later = bisect_right(self.changes, at, key=lambda change: change.at)
        return self.changes[max(later - 1, 0)].offset

    def moment(self, local: Seconds) -> Seconds:
        """Convert a local time (seconds since 1970-01-01 there) into unix seconds.

        As RFC 5545 (3.3.5) has it: an ambiguous time means the first; a skipped one moves forward
        by the gap.
        """
        offset = self.changes[0].offset
        for change in self.changes[1:]:
            if local >= change.at + max(offset, change.offset):
                offset = change.offset
        return Seconds(local - offset)


@dataclass(frozen=True, slots=True)
class Member:
    """A machine of a series.

    `day` is the newest processed occurrence; it is `placed` while the machine is in the schedule
    for it. `late` is the newest one that could not be placed, and `why`.
    """

    machine: Machine
    day: int = 0
    placed: bool = False
    late: int = 0
    why: str = ""


@dataclass(frozen=True, slots=True)
class Series:
    """Some machines and the weekly times of their absence; `uid` is never reused.

    `consent` is the weight of owners' answers in the windows to come.
    """

    number: int
    uid: str
    who: str
    rule: Weekly
    members: tuple[Member, ...] = field(default=())
    consent: Consent = field(default=Consent())

    @property
    def name(self) -> str:
        """Return the series' name; no machine can have it."""
        return f"series/{self.number}"
