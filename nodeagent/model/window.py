"""Planned unavailability: machines, their windows and the one schedule, in Mesos' words. Pure."""

from dataclasses import dataclass
from enum import Enum

from nodeagent.model.units import Ms, Nanoseconds

NANOSECONDS = 1_000_000  # in a millisecond


class Mode(Enum):
    """The mode of a machine's maintenance; only an operator changes it."""

    DRAINING = "draining"
    DOWN = "down"


class Standing(Enum):
    """A node's state in Ganeti: its flag, or none."""

    SERVING = "in service"
    DRAINED = "drained"
    OFFLINE = "offline"


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine by its host name, its IP address, or both; a missing one is empty."""

    hostname: str = ""
    ip: str = ""

    @property
    def key(self) -> tuple[str, str]:
        """Return the machine's identity; the case of a host name does not count."""
        return self.hostname.lower(), self.ip

    def __str__(self) -> str:
        return " ".join(filter(None, (self.hostname, self.ip))) or "without hostname and ip"


@dataclass(frozen=True, slots=True)
class Unavailability:
    """A start (nanoseconds since the epoch) and a duration; without a duration for ever."""

    start: Nanoseconds
    duration: Nanoseconds | None = None

    @property
    def start_ms(self) -> Ms:
        """Return its start, unix ms."""
        return Ms(self.start // NANOSECONDS)

    @property
    def end_ms(self) -> Ms | None:
        """Return its planned end, unix ms."""
        return None if self.duration is None else Ms((self.start + self.duration) // NANOSECONDS)


@dataclass(frozen=True, slots=True)
class Window:
    machines: tuple[Machine, ...]
    unavailability: Unavailability


@dataclass(frozen=True, slots=True)
class Schedule:
    """All windows; a machine may be in several, but not in two of the same times."""

    windows: tuple[Window, ...] = ()


class Weight(Enum):
    """The weight of answers from owners with instances on a machine."""

    ADVISORY = "advisory"
    VETO = "veto"
    REQUIRED = "require-accept"


@dataclass(frozen=True, slots=True)
class Consent:
    """The time that a window waits for the owners of instances.

    An owner blocks it with a veto, or without acceptance where that is required, until `before` ms
    before its start. Then it `proceeds` all the same, or where acceptance is required may wait on.
    """

    weight: Weight = Weight.ADVISORY
    before: Ms = Ms(0)
    proceeds: bool = False

    @property
    def ends(self) -> bool:
        """Tell whether no owner blocks it any more after the deadline."""
        return self.weight is Weight.VETO or self.proceeds


@dataclass(frozen=True, slots=True)
class Scheduled:
    """A machine in one of its windows; it is down in one of them at most.

    `since` is when its mode began (unix ms). `begun` tells that work on the node (a UUID) has begun
    for the window, `drained` that it was seen out of service since. `stopped` is the failure that
    ends the work until an operator changes its window or mode. `not_before` is when to try a
    refused action again (unix ms), and `why`. `consent` is the weight of owners' answers. `series`
    is the number of the series that this window is an occurrence of, or 0.
    """

    machine: Machine
    when: Unavailability
    mode: Mode
    since: Ms
    node: str = ""
    begun: bool = False
    drained: bool = False
    stopped: str = ""
    not_before: Ms = Ms(0)
    why: str = ""
    consent: Consent = Consent()
    series: int = 0

    @property
    def key(self) -> tuple[tuple[str, str], Unavailability]:
        """Return the identity of this machine in this window."""
        return self.machine.key, self.when

    @property
    def urgency(self) -> tuple[bool, bool, Nanoseconds]:
        """Sort a machine's windows: the one it is down for, then those begun, then by start."""
        return self.mode is not Mode.DOWN, not self.begun, self.when.start


@dataclass(frozen=True, slots=True)
class Pace:
    """The duration (ms) of a move of so many MiB, from its plan to its end."""

    disk: bool
    mib: int
    ms: Ms
