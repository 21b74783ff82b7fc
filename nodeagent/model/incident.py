"""One diagnosis on one node, from detection until it is closed. Pure."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import Any
from uuid import UUID

from nodeagent.model.diagnosis import Diagnosis, Need
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
        """Whether anything is still to be done for it."""
        return bool(TRANSITIONS[self])


class Event(Enum):
    """Events that change an incident's status."""

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

UNKNOWN = Diagnosis(Need.OK, None, "")
"""The diagnosis of an incident that was rebuilt and whose node has not yet said it again."""


SUPERSEDED = "superseded by "


def _heir_before(members: Mapping[str, Any]) -> str:
    """The heir of an incident that an earlier release has kept: it told that in words alone."""
    why: str = members["why"]
    return why.removeprefix(SUPERSEDED) if why.startswith(SUPERSEDED) else ""


@dataclass(frozen=True, slots=True)
class Incident:
    """One diagnosis on one node. Times are unix milliseconds.

    `node` is the node's UUID, `name` what it was last called. `repaired`: its live repair has
    reported success. `drained`: we drained the node for it; `was_drained`: somebody else had done
    so before it was begun. `tag_seen`: its tag has been seen on the node, so its absence now means
    acknowledgement. `seen_at` is when it was last observed, `missed_at` since when a begun one is
    not (else 0) or, of a completed or failed one, since when its node has said Ok; `not_before`
    when it may next be tried, `tries` how often it was put off in a row, `attempt` how often its
    repair command has run and asked to be tried again, `why` the reason it failed or was canceled,
    `heir` the id of the incident that goes on in its stead.
    """

    id: str
    node: str
    name: str
    diagnosis: Diagnosis
    noted_at: int
    status: Status = Status.NOTED
    jobs: tuple[str, ...] = ()
    repaired: bool = False
    drained: bool = False
    tag_seen: bool = False
    seen_at: int = 0
    missed_at: int = 0
    changed_at: int = 0
    not_before: int = 0
    tries: int = 0
    attempt: int = 0
    why: str = ""
    heir: str = field(default="", metadata={"later": _heir_before})
    was_drained: bool = field(default=False, metadata={"later": True})

    @property
    def tag(self) -> str:
        """The tag that is, or on success will be, set on the node."""
        return f"maintd:{_TAGS.get(self.status, 'repairready')}:{self.id}"

    @property
    def by_hand(self) -> bool:
        """Whether a person is to repair its node, which runs on: nothing is begun for it."""
        told = self.diagnosis
        return self.status is Status.NOTED and told.need is Need.LIVE_REPAIR and not told.command

    @property
    def mark(self) -> str:
        """The tag that tells, while a live repair is under way, that it was begun."""
        return f"maintd:repairing:{self.id}"

    def after(self, event: Event, now: Ms, why: str = "") -> "Incident":
        """The incident after an event; an impossible one is a bug and raises KeyError."""
        status = TRANSITIONS[self.status][event]
        if status is self.status:
            return self
        # Another status has another tag, which nobody has seen yet.
        seen = self.tag_seen and _TAGS.get(status) == _TAGS.get(self.status)
        return replace(self, status=status, changed_at=now, why=why, tag_seen=seen)


_TAGS = {Status.FAILED: "repairfailed", Status.CANCELED: "canceled"}


def incident_id(node: str, diagnosis: Diagnosis, noted_at: Ms) -> str:
    """Derived, not drawn, so that deciding stays pure; and to be known again from itself.

    A UUID of version 8 (RFC 9562): 48 bits of unix milliseconds, and 74 bits of the digest of
    the node's UUID and the diagnosis text. So an incident's tag alone tells, to a maintd that
    has lost its memory, when it was noted and whether what a node says now is the same.
    """
    digest = hashlib.sha256(f"{node}\n{diagnosis.text}".encode()).digest()
    bits = int.from_bytes(digest[:10], "big") >> 6  # 74 bits
    value = (noted_at & (2**48 - 1)) << 80 | 8 << 76 | (bits >> 62) << 64
    return str(UUID(int=value | 0b10 << 62 | bits & (2**62 - 1)))


def noted_when(identity: str) -> Ms:
    """When an incident was noted, unix ms, by its id."""
    return Ms(UUID(identity).int >> 80)


def is_same(identity: str, node: str, diagnosis: Diagnosis) -> bool:
    """Whether the id is that of this diagnosis on this node, whenever it was noted."""
    return incident_id(node, diagnosis, noted_when(identity)) == identity
