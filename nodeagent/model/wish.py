"""What an administrator asks of maintd; `decide` alone grants it, in the next round. Pure."""

from dataclasses import dataclass, field
from typing import TypeAlias

from nodeagent.model.action import Scope
from nodeagent.model.balance import Shift
from nodeagent.model.offer import AnswerOffers
from nodeagent.model.queue import QueueWish
from nodeagent.model.window import Consent, Machine, Schedule


@dataclass(frozen=True, slots=True)
class Cancel:
    """Take no further action for the incident; forget it once it is no longer observed."""

    incident: str


@dataclass(frozen=True, slots=True)
class Retry:
    """Let go of the incident's jobs that nobody can find any more, and go on from what is seen."""

    incident: str


@dataclass(frozen=True, slots=True)
class Pause:
    """Begin nothing there: on the cluster, a group or a node; or, by id, for one incident.

    `name` is empty for the cluster, and the node's or group's name else; an incident is
    named by `incident` alone.
    """

    scope: Scope
    name: str
    why: str = ""
    incident: str = ""


@dataclass(frozen=True, slots=True)
class Resume:
    """Take back a pause."""

    scope: Scope
    name: str
    incident: str = ""


@dataclass(frozen=True, slots=True)
class ResetStorm:
    """Close the storm brake again."""


@dataclass(frozen=True, slots=True)
class TrustLedger:
    """What is planned in the ledger holds, though another node was the master meanwhile."""


@dataclass(frozen=True, slots=True)
class Balance:
    """Balance a group, by name: by these shifts in their order, or without any as is advised.

    Now, whether balancing is switched on or not.
    """

    group: str
    shifts: tuple[Shift, ...] = ()


@dataclass(frozen=True, slots=True)
class StopBalancing:
    """Begin no more of what was asked for in a group, by name."""

    group: str


@dataclass(frozen=True, slots=True)
class SetSchedule:
    """Have this schedule of maintenance, and no other.

    As with the two below: if the schedule there is is of one of these versions; without any
    whatever it is. `consents` has for each window what the answers of owners weigh; where it has
    none its machines keep what they have.
    """

    schedule: Schedule
    versions: tuple[str, ...] = ()
    consents: tuple[Consent | None, ...] = field(default=(), metadata={"later": True})


@dataclass(frozen=True, slots=True)
class TakeDown:
    """Begin the maintenance of machines that are draining."""

    machines: tuple[Machine, ...]
    versions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BringUp:
    """The maintenance of machines that are down is over."""

    machines: tuple[Machine, ...]
    versions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AddSeries:
    """Have windows of these machines every week: see `model.series` for what the rule is made of.

    The first is the first to come from the day `begins` on, or (0) from now on.
    """

    machines: tuple[Machine, ...]
    weekdays: tuple[int, ...]
    minute: int
    zone: str
    seconds: int
    every: int = 1
    begins: int = 0
    until: int = 0
    times: int = 0
    consent: Consent = field(default=Consent(), metadata={"later": True})


@dataclass(frozen=True, slots=True)
class EditSeries:
    """Have a series otherwise: what is None, 0 or empty stays as it is.

    `skip` are days on which it is not to take place, `keep` those on which it is after all.
    """

    number: int
    add: tuple[Machine, ...] = ()
    remove: tuple[Machine, ...] = ()
    weekdays: tuple[int, ...] = ()
    minute: int | None = None
    zone: str = ""
    seconds: int = 0
    every: int = 0
    begins: int = 0
    until: int | None = None
    times: int | None = None
    skip: tuple[int, ...] = ()
    keep: tuple[int, ...] = ()
    consent: Consent | None = field(default=None, metadata={"later": True})


@dataclass(frozen=True, slots=True)
class EndSeries:
    """Have a series no more; who is down for it stays in the schedule until it is up."""

    number: int


Asked: TypeAlias = (
    Cancel
    | Retry
    | Pause
    | Resume
    | ResetStorm
    | TrustLedger
    | Balance
    | StopBalancing
    | SetSchedule
    | TakeDown
    | BringUp
    | AnswerOffers
    | AddSeries
    | EditSeries
    | EndSeries
    | QueueWish
)


@dataclass(frozen=True, slots=True)
class Wish:
    """One wish: `who` asked for it, at `at` (unix ms)."""

    id: str
    who: str
    at: int
    asked: Asked
