"""Offers to owners to give up instances on a machine: Mesos' inverse offers. Pure."""

from dataclasses import dataclass
from enum import Enum

from nodeagent.model.units import Ms, Seconds
from nodeagent.model.window import Unavailability

UNKNOWN = "UNKNOWN"


class Work(Enum):
    """The kind of maintenance for which a node is evacuated; the words are shown."""

    WINDOW = "window"
    ROLL = "roll"
    INCIDENT = "incident"


class Reply(Enum):
    """An owner's possible answers, in Mesos' words."""

    ACCEPT = "ACCEPT"
    DECLINE = "DECLINE"


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer that `who` gave at `at` for an owner; times are unix ms.

    `about` are the instances in question, `until` is when we may ask the owner again. Optional:
    `reason`, when it will be done (`eta`), and the `earliest` time that would suit.
    """

    reply: Reply
    who: str
    at: Ms
    about: tuple[str, ...]
    until: Ms
    reason: str = ""
    eta: Ms | None = None
    earliest: Ms | None = None

    def suits(self, now: Ms) -> bool:
        """Tell whether an owner that has declined proposed a time that has come."""
        return self.earliest is not None and self.earliest <= now


@dataclass(frozen=True, slots=True)
class Announcing:
    """The command of the master's own agent that notifies owners, if any; `seconds` it may take."""

    command: str = ""
    seconds: Seconds = Seconds(30)


@dataclass(frozen=True, slots=True)
class Sending:
    """The delivery of a question or a milestone in one way.

    `intent` is the intent that does it, if it is a command; `done` tells that it is over. `tries`
    counts the failures, `why` is the last reason, `after` when to try again (unix ms).
    """

    intent: str = ""
    done: bool = False
    tries: int = 0
    after: Ms = Ms(0)
    why: str = ""


class Progress(Enum):
    """The progress of the maintenance that an owner was asked about; the words are shown."""

    STARTED = "started"
    FINISHED = "finished"
    CANCELED = "canceled"


@dataclass(frozen=True, slots=True)
class Milestone:
    """A progress to report to an owner that was asked: at which node (a UUID), and when (unix ms).

    A start stays until the maintenance is over; then that is reported, too. `told` and `posted` are
    its deliveries by the command and by a webhook.
    """

    id: str
    owner: str
    node: str
    progress: Progress
    instances: tuple[str, ...]
    unavailability: Unavailability
    at: Ms
    told: Sending = Sending()
    posted: Sending = Sending()
    work: Work = Work.WINDOW


@dataclass(frozen=True, slots=True)
class Offer:
    """A question to an owner: give up its instances on a node (a UUID) while the node is away.

    `id` is the newest question's, which is `open` until its answer. `asked_at` is when it was put,
    `since` when this interval was first asked about (unix ms); `generation` counts the intervals.
    `answer` is the newest one to this interval, `instances` are those on the node now. `told` and
    `posted` are the deliveries of the newest question by the command and by a webhook, `work` is
    what the node is evacuated for.
    """

    id: str
    owner: str
    node: str
    instances: tuple[str, ...]
    unavailability: Unavailability
    asked_at: Ms
    since: Ms
    generation: int = 1
    open: bool = True
    answer: Answer | None = None
    told: Sending = Sending()
    posted: Sending = Sending()
    work: Work = Work.WINDOW

    @property
    def status(self) -> str:
        """Return the answer's status; UNKNOWN without an answer."""
        return self.answer.reply.value if self.answer else UNKNOWN

    def accepted(self, now: Ms) -> bool:
        """Tell whether all instances that are there now may go; the time that suits has come."""
        answer = self.answer
        agrees = answer is not None and (answer.reply is Reply.ACCEPT or answer.suits(now))
        return answer is not None and agrees and set(self.instances) <= set(answer.about)
