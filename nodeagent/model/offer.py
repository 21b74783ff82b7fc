"""Offers to owners to give up instances on a machine: Mesos' inverse offers. Pure."""

from dataclasses import dataclass
from enum import Enum

from nodeagent.model.units import Ms, Seconds
from nodeagent.model.window import Unavailability

UNKNOWN = "UNKNOWN"


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


@dataclass(frozen=True, slots=True)
class Announcing:
    """The command of the master's own agent that notifies owners, if any; `seconds` it may take."""

    command: str = ""
    seconds: Seconds = Seconds(30)


@dataclass(frozen=True, slots=True)
class Told:
    """The delivery of a question by a command.

    `intent` is the intent that does it, `done` tells that it is over. `tries` counts the failures,
    `why` is the last reason, `after` when to try again (unix ms).
    """

    intent: str = ""
    done: bool = False
    tries: int = 0
    after: Ms = Ms(0)
    why: str = ""


class End(Enum):
    """How the question to an owner ended, or the maintenance after it."""

    RESCINDED = "rescinded"
    DOWN = "down"
    UP = "up"


@dataclass(frozen=True, slots=True)
class Ending:
    """The end to report to an owner that was asked: of which node (a UUID), and when (unix ms).

    An ending that is `down` stays until the machine is up again, and that end is reported, too.
    """

    id: str
    owner: str
    node: str
    end: End
    instances: tuple[str, ...]
    unavailability: Unavailability
    at: Ms
    told: Told = Told()


@dataclass(frozen=True, slots=True)
class Offer:
    """A question to an owner: give up its instances on a node (a UUID) while the node is away.

    `id` is the newest question's, which is `open` until its answer. `asked_at` is when it was put,
    `since` when this interval was first asked about (unix ms); `generation` counts the intervals.
    `answer` is the newest one to this interval, `instances` are those on the node now. `told` is
    about the newest question.
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
    told: Told = Told()

    @property
    def status(self) -> str:
        """Return the answer's status; UNKNOWN without an answer."""
        return self.answer.reply.value if self.answer else UNKNOWN

    @property
    def accepted(self) -> bool:
        """Tell whether all instances that are there now may go."""
        said = self.answer
        return (
            said is not None
            and said.reply is Reply.ACCEPT
            and set(self.instances) <= set(said.about)
        )
