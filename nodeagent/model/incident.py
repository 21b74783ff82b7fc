"""One diagnosis on one node, from detection until it is closed. Pure."""

from dataclasses import dataclass, replace
from enum import Enum, auto

from nodeagent.model.diagnosis import Diagnosis, Need
from nodeagent.model.timed_id import moment_of, timed_id
from nodeagent.model.units import Ms


class Status(Enum):
    """How far the handling of an incident has come; the words are the design's."""

    NOTED = "noted"
    PENDING = "pending"
    CANCELED = "canceled"
    FAILED = "failed"
    COMPLETED = "completed"

    @property
    def active(self) -> bool:
        """Tell whether anything is still to be done for it."""
        return self in (Status.NOTED, Status.PENDING)


class StatusEvent(Enum):
    """Events that change an incident's status."""

    STARTED = auto()
    CANCELED = auto()
    JOB_FAILED = auto()
    ALL_DONE = auto()


TRANSITIONS: dict[Status, dict[StatusEvent, Status]] = {
    Status.NOTED: {StatusEvent.STARTED: Status.PENDING, StatusEvent.CANCELED: Status.CANCELED},
    Status.PENDING: {
        StatusEvent.STARTED: Status.PENDING,
        StatusEvent.CANCELED: Status.CANCELED,
        StatusEvent.JOB_FAILED: Status.FAILED,
        StatusEvent.ALL_DONE: Status.COMPLETED,
    },
    Status.CANCELED: {},
    Status.FAILED: {StatusEvent.CANCELED: Status.CANCELED},
    Status.COMPLETED: {StatusEvent.CANCELED: Status.CANCELED},
}

UNKNOWN = Diagnosis(Need.OK, None, "")
"""The diagnosis of an incident that was rebuilt and whose node has not yet said it again."""

SUPERSEDED = "superseded by "

# The beginnings of an incident's tags, before its id.
MARK_TAG = "maintd:repairing:"
READY_TAG = "maintd:repairready:"
FAILED_TAG = "maintd:repairfailed:"
CANCELED_TAG = "maintd:canceled:"
_TAGS = {Status.FAILED: FAILED_TAG, Status.CANCELED: CANCELED_TAG}
_SHOWN = {
    MARK_TAG: Status.PENDING,
    READY_TAG: Status.COMPLETED,
    FAILED_TAG: Status.FAILED,
    CANCELED_TAG: Status.CANCELED,
}


@dataclass(frozen=True, slots=True)
class Incident:
    """One diagnosis on one node. Times are unix milliseconds.

    `node` is the node's UUID, `name` its last name. `repaired`: its live repair has reported
    success. `drained`: we drained the node for it. `tag_seen`: the node has shown its tag, so that
    a missing tag now closes it.

    `seen_at` is when it was last observed. `missed_at` is, for a started incident, since when it is
    not observed (else 0); for a completed or failed one, since when its node has said Ok.
    `not_before` is the next permitted try, `tries` the delays in a row. `attempt` counts how often
    its repair command has run and asked for another try. `why` is the reason it failed or was
    canceled, `heir` the id of the incident that replaces it.

    `restless` is since when its node has asked for the same need in other and other words (0: it
    has not), `changes` how often they have changed, `differs` whose and where.
    """

    id: str
    node: str
    name: str
    diagnosis: Diagnosis
    noted_at: Ms
    status: Status = Status.NOTED
    jobs: tuple[str, ...] = ()
    repaired: bool = False
    drained: bool = False
    tag_seen: bool = False
    seen_at: Ms = Ms(0)
    missed_at: Ms = Ms(0)
    changed_at: Ms = Ms(0)
    not_before: Ms = Ms(0)
    tries: int = 0
    attempt: int = 0
    why: str = ""
    heir: str = ""
    restless: Ms = Ms(0)
    changes: int = 0
    differs: str = ""

    @property
    def tag(self) -> str:
        """The tag of its status; maintd sets a ready or failed tag at the end."""
        return f"{_TAGS.get(self.status, READY_TAG)}{self.id}"

    @property
    def earlier_tags(self) -> frozenset[str]:
        """The tags of the ends that it has had before it was canceled."""
        ends = (READY_TAG, FAILED_TAG) if self.status is Status.CANCELED else ()
        return frozenset(f"{end}{self.id}" for end in ends)

    @property
    def superseded(self) -> bool:
        """Tell whether it ended because another incident goes on with its work: its `heir`."""
        return self.status is Status.CANCELED and self.heir != ""

    @property
    def by_hand(self) -> bool:
        """Tell whether a person repairs its node, which runs on: maintd starts nothing for it."""
        diagnosis = self.diagnosis
        return (
            self.status is Status.NOTED
            and diagnosis.need is Need.LIVE_REPAIR
            and not diagnosis.command
        )

    @property
    def mark(self) -> str:
        """Return the tag that shows a running live repair."""
        return f"{MARK_TAG}{self.id}"

    def after(self, event: StatusEvent, now: Ms, why: str = "") -> "Incident":
        """Return the incident after an event; an impossible one is a bug and raises KeyError."""
        status = TRANSITIONS[self.status][event]
        if status is self.status:
            return self
        # Another status has another tag, which the node has not shown yet.
        seen = self.tag_seen and _TAGS.get(status) == _TAGS.get(self.status)
        return replace(self, status=status, changed_at=now, why=why, tag_seen=seen)


def shown_by(tag: str) -> tuple[Status | None, str]:
    """Read the status that a tag shows, and the incident's id; None if it is no such tag."""
    kind, _, identity = tag.rpartition(":")
    return _SHOWN.get(f"{kind}:"), identity


def incident_id(node: str, diagnosis: Diagnosis, noted_at: Ms) -> str:
    """Derive an incident's id from its node's UUID, its diagnosis, and when it was detected.

    So a maintd that has lost its ledger reads from an incident's tag alone when it was detected,
    and whether the node still reports the same.
    """
    return timed_id(noted_at, f"{node}\n{diagnosis.text}")


def is_same(identity: str, node: str, diagnosis: Diagnosis) -> bool:
    """Tell whether the id belongs to this diagnosis on this node, whenever it was detected."""
    return incident_id(node, diagnosis, moment_of(identity)) == identity
