"""A node's diagnosis of itself, and the possible results of its commands. Pure."""

from dataclasses import dataclass, field
from enum import IntEnum

from nodeagent.model.units import Ms


class Need(IntEnum):
    """The action that a node requests; a larger value is more invasive.

    The four words are those of Ganeti's maintenance daemon design.
    """

    OK = 0
    LIVE_REPAIR = 1
    EVACUATE = 2
    EVACUATE_FAILOVER = 3

    @property
    def wire(self) -> str:
        """Return the word used in JSON."""
        return _WIRE[self]

    @classmethod
    def from_wire(cls, text: str) -> "Need":
        """Read the word; an unknown one is a KeyError, never a silent Ok."""
        return _NEED[text]


_WIRE = {
    Need.OK: "Ok",
    Need.LIVE_REPAIR: "live-repair",
    Need.EVACUATE: "evacuate",
    Need.EVACUATE_FAILOVER: "evacuate-failover",
}
_NEED = {text: need for need, text in _WIRE.items()}


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """A node's requested action, and the canonical JSON text that requests it.

    Two diagnoses are the same exactly when their texts are equal. The agent signs, stores and feeds
    to a repair command this very text.
    """

    need: Need
    command: str | None
    text: str


@dataclass(frozen=True, slots=True)
class Unusable:
    """A command's run without a usable diagnosis; `why` is one readable line.

    `private` is for the administrator of this node only: why a file may not run.
    """

    why: str
    private: str = ""

    def __str__(self) -> str:
        return f"{self.why}: {self.private}" if self.private else self.why


@dataclass(frozen=True, slots=True)
class Steady:
    """The settled state of one command: the confirmed diagnosis, and a challenger.

    `times` counts how often in a row the command has returned the challenger. `unequal` counts how
    often it has changed since the last settled result. Times are unix milliseconds: `checked` is
    the last usable run, `changed` the moment when `current` became confirmed. `why` says why the
    last run was unusable, or that nothing settles; else it is None. `lost` tells that the diagnosis
    of before a restart could not be read; nothing has been confirmed since.
    """

    current: Diagnosis | None = None
    challenger: Diagnosis | None = None
    times: int = 0
    unequal: int = 0
    checked: Ms | None = None
    changed: Ms | None = None
    why: str | None = None
    lost: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict of the whole node, merged from all its commands.

    `diagnosis` is None until every command is confirmed once or some command requests an action.
    `unusable` names the commands whose last run gave no usable diagnosis. `firm` tells whether the
    diagnosis rests on none of these, and none is lost: doubt never acts.
    """

    diagnosis: Diagnosis | None
    checked: Ms | None
    changed: Ms | None
    unusable: dict[str, str] = field(default_factory=dict)
    firm: bool = True
