"""Notifications: lasting conditions, the messages about them, and the sinks they go to. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from nodeagent.model.units import Seconds


class Severity(Enum):
    """Urgency of a notification, the least first."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"

    @property
    def rank(self) -> int:
        return tuple(Severity).index(self)


class Occasion(Enum):
    """Occasions to notify, by their names in settings and messages."""

    DETECTED = "detected"
    STARTED = "started"
    COMPLETED = "completed"
    FAILED = "failed"
    CLOSED = "closed"
    NEEDS_YOU = "needs-you"
    STORM = "storm"
    STORM_OVER = "storm-over"
    UNREACHABLE = "unreachable"
    REACHABLE = "reachable"
    WINDOW_STARTED = "window-started"
    WINDOW_OVERDUE = "window-overdue"
    WINDOW_OVER = "window-over"
    OWNER_DECLINED = "owner-declined"
    QUEUE_FAILED = "queue-failed"
    SETTINGS_WRONG = "settings-wrong"
    TEST = "test"

    @property
    def severity(self) -> Severity:
        if self in _CRITICAL:
            return Severity.CRITICAL
        return Severity.WARNING if self in _WARNING else Severity.INFO


_CRITICAL = {Occasion.FAILED, Occasion.STORM, Occasion.QUEUE_FAILED}
_WARNING = {
    *(Occasion.DETECTED, Occasion.NEEDS_YOU, Occasion.UNREACHABLE, Occasion.WINDOW_OVERDUE),
    *(Occasion.OWNER_DECLINED, Occasion.SETTINGS_WRONG),
}
ENDS: Mapping[Occasion, Occasion] = {
    Occasion.DETECTED: Occasion.CLOSED,
    Occasion.STORM: Occasion.STORM_OVER,
    Occasion.UNREACHABLE: Occasion.REACHABLE,
    Occasion.WINDOW_STARTED: Occasion.WINDOW_OVER,
}
"""The occasion that the end of a condition is."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition that lasts: an occasion, and its subject.

    The subject is an incident's id, a node, a machine, an entry's index or a reason. `node` is the
    name of the node that it is about, or empty; `since` (unix ms) when maintd first saw it, and
    `gone` since when it is not seen any more, while that may pass.
    """

    occasion: Occasion
    subject: str
    node: str
    since: int
    gone: int = 0

    @property
    def key(self) -> tuple[Occasion, str]:
        return self.occasion, self.subject


@dataclass(frozen=True, slots=True)
class Notice:
    """One line of a message: what happened at `at` (unix ms).

    If it is `over`, a condition that had begun then.
    """

    occasion: Occasion
    subject: str
    node: str
    at: int
    text: str
    over: bool = False


@dataclass(frozen=True, slots=True)
class Message:
    """Notices that go out together, made at `made` (unix ms).

    `counts` tells by occasion how many were put together, of which `notices` are the shown ones;
    `lost` is how many before could not be delivered. It has failed `tries` times, last because of
    `why`, and is tried next at `after`. `intent` is the order that delivers it now, if one does.
    """

    id: str
    made: int
    notices: tuple[Notice, ...]
    counts: Mapping[str, int]
    lost: int = 0
    tries: int = 0
    after: int = 0
    why: str = ""
    intent: str = ""

    @property
    def total(self) -> int:
        return sum(self.counts.values())


@dataclass(frozen=True, slots=True)
class Mailbox:
    """A sink's message under way, and the notices that wait for it to end.

    `made` is when its newest message was made, `ended` when a delivery last succeeded (unix ms),
    `lost` how many notices were given up since then.
    """

    sink: str
    message: Message | None = None
    waiting: tuple[Notice, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    made: int = 0
    ended: int = 0
    lost: int = 0


@dataclass(frozen=True, slots=True)
class Notices:
    """All that is remembered of notifications: conditions that were told, and a box by sink."""

    conditions: tuple[Condition, ...] = ()
    boxes: tuple[Mailbox, ...] = ()


class Way(Enum):
    """The kinds of sinks."""

    WEBHOOK = "webhook"
    ALERTMANAGER = "alertmanager"
    SMTP = "smtp"
    COMMAND = "command"


@dataclass(frozen=True, slots=True)
class Sink:
    """Where notifications go, without any secret; times are in ms.

    Of `events` (all, where it is empty) those of at least this severity. Messages are at least
    `interval` apart; one is given up after `give_up`. `title` and `body` are templates, of the
    way's own where empty. `command` of the master's own agent may take `seconds`.
    """

    name: str
    kind: Way
    events: tuple[str, ...] = ()
    severity: Severity = Severity.INFO
    interval: int = 60_000
    give_up: int = 86_400_000
    title: str = ""
    body: str = ""
    command: str = ""
    seconds: Seconds = Seconds(30)

    def takes(self, occasion: Occasion) -> bool:
        """Whether it is told of this."""
        if occasion is Occasion.TEST:
            return True
        named = not self.events or occasion.value in self.events
        return named and occasion.severity.rank >= self.severity.rank
