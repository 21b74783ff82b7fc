"""Weekly windows: their rule, and the progress of each machine. Pure."""

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
