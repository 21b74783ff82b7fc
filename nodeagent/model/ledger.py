"""All that is remembered between rounds, and what a round decides. Pure."""

from dataclasses import dataclass
from enum import Enum

from nodeagent.model.action import Action
from nodeagent.model.incident import Incident


class Outcome(Enum):
    """How a job stands. LOST: it cannot be found any more, and nobody knows how it ended."""

    RUNNING = "running"
    SUCCESS = "success"
    ERROR = "error"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Intent:
    """An action promised on disk; `job` is None until we know that it was submitted."""

    id: str
    incident: str
    node: str
    action: Action
    job: str | None = None

    @property
    def reason(self) -> str:
        """What is written into the job's reason trail, and found there after a crash."""
        return f"{self.incident}:{self.id}"


@dataclass(frozen=True, slots=True)
class Held:
    """Something wanted, and the reason it is not done this round."""

    node: str
    incident: str
    reason: str


@dataclass(frozen=True, slots=True)
class Ledger:
    """Everything maintd remembers. `round` counts the rounds that promised something."""

    round: int = 0
    incidents: tuple[Incident, ...] = ()
    intents: tuple[Intent, ...] = ()


@dataclass(frozen=True, slots=True)
class Policy:
    """Limits on what is done at once.

    `storm` is a share of all nodes. `settle` is how long, in ms, an incident stays noted
    before anything is done: time for a person to see it, and for a passing fault to pass.
    """

    settle: int = 0
    nodes_in_work: int = 1
    storm: float = 0.3
    offline: bool = True


@dataclass(frozen=True, slots=True)
class Decision:
    """What to remember and what was held; the intents without a job are what to do."""

    ledger: Ledger
    held: tuple[Held, ...] = ()
