"""One diagnosis on one node, from its noting to its being forgotten. Pure."""

from dataclasses import dataclass, replace
from enum import Enum, auto
from uuid import NAMESPACE_URL, uuid5

from nodeagent.model.diagnosis import Diagnosis

_NAMESPACE = uuid5(NAMESPACE_URL, "nodeagent incident")


class Status(Enum):
    """How far the handling of an incident has come; the words are the design's."""

    NOTED = "noted"
    PENDING = "pending"
    CANCELED = "canceled"
    FAILED = "failed"
    COMPLETED = "completed"

    @property
    def active(self) -> bool:
        """Whether anything is still to be done for it."""
        return bool(TRANSITIONS[self])


class Event(Enum):
    """What can happen to an incident."""

    STARTED = auto()
    CANCELED = auto()
    JOB_FAILED = auto()
    ALL_DONE = auto()


TRANSITIONS: dict[Status, dict[Event, Status]] = {
    Status.NOTED: {Event.STARTED: Status.PENDING, Event.CANCELED: Status.CANCELED},
    Status.PENDING: {
        Event.STARTED: Status.PENDING,
        Event.CANCELED: Status.CANCELED,
        Event.JOB_FAILED: Status.FAILED,
        Event.ALL_DONE: Status.COMPLETED,
    },
    Status.CANCELED: {},
    Status.FAILED: {},
    Status.COMPLETED: {},
}


@dataclass(frozen=True, slots=True)
class Incident:
    """`noted_at` is unix milliseconds. `repaired`: its live repair has reported success.

    `tag_seen`: its tag has been seen on the node, so its absence now means acknowledgement.
    """

    id: str
    node: str
    diagnosis: Diagnosis
    noted_at: int
    status: Status = Status.NOTED
    jobs: tuple[str, ...] = ()
    repaired: bool = False
    tag_seen: bool = False

    @property
    def tag(self) -> str:
        """The tag that is, or on success will be, set on the node."""
        kind = "repairfailed" if self.status is Status.FAILED else "repairready"
        return f"maintd:{kind}:{self.id}"

    def after(self, event: Event) -> "Incident":
        """The incident after an event; an impossible one is a bug and raises KeyError."""
        return replace(self, status=TRANSITIONS[self.status][event])


def incident_id(node: str, diagnosis: Diagnosis, noted_at: int) -> str:
    """Derived, not drawn, so that deciding stays pure: the same noting has the same name."""
    return str(uuid5(_NAMESPACE, f"{node}\n{diagnosis.text}\n{noted_at}"))
