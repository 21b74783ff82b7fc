"""Asking owners to give up what they have on a machine: Mesos' inverse offers. Pure."""

from dataclasses import dataclass
from enum import Enum

from nodeagent.model.window import Unavailability

UNKNOWN = "UNKNOWN"


class Reply(Enum):
    """What an owner may answer, in Mesos' words."""

    ACCEPT = "ACCEPT"
    DECLINE = "DECLINE"


@dataclass(frozen=True, slots=True)
class Answer:
    """What `who` has answered at `at` for an owner; times are unix ms.

    `about` are the instances that were asked about, `until` when it may be asked again. Of its
    own account: why, when it will be done (`eta`), and the earliest time that would suit.
    """

    reply: Reply
    who: str
    at: int
    about: tuple[str, ...]
    until: int
    reason: str = ""
    eta: int | None = None
    earliest: int | None = None


@dataclass(frozen=True, slots=True)
class Announcing:
    """By which command of the master's own agent owners are told, if any; `seconds` it may take."""

    command: str = ""
    seconds: int = 30


@dataclass(frozen=True, slots=True)
class Told:
    """How far telling of a question by a command is: the intent that does it, or whether it is
    done; how often it has failed and why, and when it may next be tried (unix ms)."""

    intent: str = ""
    done: bool = False
    tries: int = 0
    after: int = 0
    why: str = ""


@dataclass(frozen=True, slots=True)
class Offer:
    """An owner is asked to give up its instances on a node (a UUID) while that will not be there.

    `id` is the newest question's, which is `open` until it is answered; `asked_at` when it was
    put, `since` when this interval was first asked about (unix ms), and `generation` counts the
    intervals. `answer` is the newest there is to this interval, `instances` what is there now;
    `told` is about the newest question.
    """

    id: str
    owner: str
    node: str
    instances: tuple[str, ...]
    unavailability: Unavailability
    asked_at: int
    since: int
    generation: int = 1
    open: bool = True
    answer: Answer | None = None
    told: Told = Told()

    @property
    def status(self) -> str:
        """UNKNOWN as long as there is no answer."""
        return self.answer.reply.value if self.answer else UNKNOWN

    @property
    def accepted(self) -> bool:
        """Whether all that is there now may go."""
        said = self.answer
        return (
            said is not None
            and said.reply is Reply.ACCEPT
            and set(self.instances) <= set(said.about)
        )


@dataclass(frozen=True, slots=True)
class AnswerOffers:
    """Answer these offers, all or none, as one who may answer for these owners; None: for any.

    `refuse` is for how many ms none of them is to be asked again.
    """

    ids: tuple[str, ...]
    reply: Reply
    refuse: int
    owners: tuple[str, ...] | None = None
    reason: str = ""
    eta: int | None = None
    earliest: int | None = None
