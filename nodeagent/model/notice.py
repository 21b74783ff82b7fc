"""Notifications: lasting conditions, the messages about them, and their sinks. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from nodeagent.model.units import Ms, Seconds


class Severity(Enum):
    """Urgency of a notification, lowest first."""

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
    FENCING = "fencing"
    FENCING_OVER = "fencing-over"
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
    Occasion.DETECTED,
    Occasion.NEEDS_YOU,
    Occasion.UNREACHABLE,
    Occasion.WINDOW_OVERDUE,
    Occasion.OWNER_DECLINED,
    Occasion.SETTINGS_WRONG,
    Occasion.FENCING,
}
ENDS: Mapping[Occasion, Occasion] = {
    Occasion.DETECTED: Occasion.CLOSED,
    Occasion.STORM: Occasion.STORM_OVER,
    Occasion.UNREACHABLE: Occasion.REACHABLE,
    Occasion.FENCING: Occasion.FENCING_OVER,
    Occasion.WINDOW_STARTED: Occasion.WINDOW_OVER,
}
"""The occasion that the end of a condition is."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition that lasts: an occasion, and its subject.

    The subject is an incident's id, a node, a machine, an entry's index or a reason. `node` is the
    name of its node, or empty. `since` (unix ms) is when maintd first saw it, `gone` since when
    maintd does not see it, while that may pass.
    """

    occasion: Occasion
    subject: str
    node: str
    since: Ms
    gone: Ms = Ms(0)

    @property
    def key(self) -> tuple[Occasion, str]:
        return self.occasion, self.subject


@dataclass(frozen=True, slots=True)
class Notice:
    """One line of a message: the event at `at` (unix ms).

    If `over`, a condition that started then has ended.
    """

    occasion: Occasion
    subject: str
    node: str
    at: Ms
    text: str
    over: bool = False


@dataclass(frozen=True, slots=True)
class Message:
    """Notices in one message, made at `made` (unix ms).

    `counts` has by occasion the number of notices, of which `notices` are shown; `lost` is how many
    before could not be delivered. It has failed `tries` times, last because of `why`; the next try
    is at `after`. `intent` is the order that delivers it now, if any.
    """

    id: str
    made: Ms
    notices: tuple[Notice, ...]
    counts: Mapping[str, int]
    lost: int = 0
    tries: int = 0
    after: Ms = Ms(0)
    why: str = ""
    intent: str = ""

    @property
    def total(self) -> int:
        return sum(self.counts.values())


@dataclass(frozen=True, slots=True)
class Mailbox:
    """A sink's message in delivery, and the notices that wait for its end.

    `made` is when its newest message was made, `ended` when a delivery last succeeded (unix ms),
    `lost` how many notices were dropped since then.
    """

    sink: str
    message: Message | None = None
    waiting: tuple[Notice, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    made: Ms = Ms(0)
    ended: Ms = Ms(0)
    lost: int = 0


@dataclass(frozen=True, slots=True)
class Notices:
    """The memory of notifications: reported conditions, and a box by sink."""

    conditions: tuple[Condition, ...] = ()
    boxes: tuple[Mailbox, ...] = ()


@dataclass(frozen=True, slots=True)
class Sink:
    """A sink of notifications, without any secret; times are in ms.

    It takes the `events` listed (all, if empty) of at least this severity. Messages are at least
    `interval` apart; maintd gives up on one after `give_up`. `title` and `body` are templates;
    empty ones mean the kind's own. If it `repeats`, each message has all present conditions, and
    the ends of others. A `command` of the master's own agent delivers to it, and may take
    `seconds`; to a sink without one a thread does.
    """

    name: str
    kind: str
    events: tuple[str, ...] = ()
    severity: Severity = Severity.INFO
    interval: Ms = Ms(60_000)
    give_up: Ms = Ms(86_400_000)
    title: str = ""
    body: str = ""
    command: str = ""
    seconds: Seconds = Seconds(30)
    repeats: bool = False

    def takes(self, occasion: Occasion) -> bool:
        """Tell whether it takes this occasion."""
        if occasion is Occasion.TEST:
            return True
        named = not self.events or occasion.value in self.events
        return named and occasion.severity.rank >= self.severity.rank
