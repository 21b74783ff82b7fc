"""Planned unavailability: machines, their windows and the one schedule, in Mesos' words. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property

from nodeagent.model.units import Ms, Nanoseconds

NANOSECONDS = 1_000_000  # in a millisecond


class Mode(Enum):
    """How far maintenance of a machine has come; only an operator changes it."""

    UP = "up"
    DRAINING = "draining"
    DOWN = "down"


class Standing(Enum):
    """A node's state in Ganeti: its flag, or none."""

    SERVING = "in service"
    DRAINED = "drained"
    OFFLINE = "offline"


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine by its host name, its IP address, or both; what is not given is empty."""

    hostname: str = ""
    ip: str = ""

    @property
    def key(self) -> tuple[str, str]:
        """The machine's identity; the case of a host name does not count."""
        return self.hostname.lower(), self.ip

    def __str__(self) -> str:
        return " ".join(filter(None, (self.hostname, self.ip))) or "without hostname and ip"


@dataclass(frozen=True, slots=True)
class Unavailability:
    """From when (nanoseconds since the epoch) and for how many; without a duration for ever."""

    start: Nanoseconds
    duration: Nanoseconds | None = None

    @property
    def start_ms(self) -> Ms:
        """When it begins, unix ms."""
        return Ms(self.start // NANOSECONDS)

    @property
    def end_ms(self) -> Ms | None:
        """When it is to be over, unix ms."""
        return None if self.duration is None else Ms((self.start + self.duration) // NANOSECONDS)


@dataclass(frozen=True, slots=True)
class Window:
    machines: tuple[Machine, ...]
    unavailability: Unavailability


@dataclass(frozen=True)
class Schedule:
    """All windows; a machine is in one of them at most."""

    windows: tuple[Window, ...] = ()

    def of(self, machine: Machine) -> Unavailability | None:
        return self._when.get(machine.key)

    @cached_property
    def _when(self) -> Mapping[tuple[str, str], Unavailability]:
        return {one.key: each.unavailability for each in self.windows for one in each.machines}


class Weight(Enum):
    """The weight of answers from owners with instances on a machine."""

    ADVISORY = "advisory"
    VETO = "veto"
    REQUIRED = "require-accept"


@dataclass(frozen=True, slots=True)
class Consent:
    """How far a window waits for the owners of instances.

    Whoever vetoes, or has not accepted where that is required, holds it until `before` ms before
    its start; then it `proceeds` all the same, or where accepting is required may wait on.
    """

    weight: Weight = Weight.ADVISORY
    before: int = 0
    proceeds: bool = False

    @property
    def ends(self) -> bool:
        """Whether nobody holds it any more once the deadline has passed."""
        return self.weight is Weight.VETO or self.proceeds


@dataclass(frozen=True, slots=True)
class Scheduled:
    """How a machine stands: in the schedule, or (up) taken from it and to be put back.

    `since` is when its mode began (unix ms). `found` is how the node (a UUID) stood before
    anything was done for the window; None as long as nothing was. `drained`: it was seen out of
    service since. `stopped` is the failure that ends the work until an operator changes its
    window or mode, `not_before` when what was refused may be tried again (unix ms), and `why`.
    `consent` is what the answers of owners weigh. `was_down`: it is up, and was not only canceled.
    `taken`: if it is offline, then by us; nobody knows better of a ledger from before.
    """

    machine: Machine
    mode: Mode
    since: int
    node: str = ""
    found: Standing | None = None
    drained: bool = False
    stopped: str = ""
    not_before: int = 0
    why: str = ""
    consent: Consent = field(default=Consent(), metadata={"later": True})
    was_down: bool = field(default=False, metadata={"later": True})
    taken: bool = field(default=True, metadata={"later": True})


@dataclass(frozen=True, slots=True)
class Pace:
    """How long (ms) a move of so many MiB took, from its promise to its end."""

    disk: bool
    mib: int
    ms: int
