"""Sorts of subjects that reasons are about, and the form of their kinds. Pure."""

from dataclasses import dataclass
from enum import Enum


class Of(Enum):
    """Subjects of reasons."""

    CLUSTER = "cluster"
    GROUP = "group"
    NODE = "node"
    INSTANCE = "instance"
    ENTRY = "entry"
    WINDOW = "window"


@dataclass(frozen=True, slots=True)
class Form:
    """The form of a kind: label of the metric, usual subject, sentence, and helping command.

    A `private` kind may name an owner, a window or a series, which not everybody may see. The
    `personal` details are the name `who` and the words of a person: the rest may be seen.
    """

    metric: str
    of: Of
    sentence: str
    command: str
    private: bool
    personal: tuple[str, ...]


def kind(
    metric: str,
    of: Of,
    sentence: str,
    *,
    command: str = "",
    private: bool = False,
    personal: tuple[str, ...] = (),
) -> Form:
    """Return the form of a kind, for the classes below: `command` is the one that helps."""
    return Form(metric, of, sentence, command, private, personal)


class AnyKind(Enum):
    """A kind of reasons, by the members of its form."""

    def __init__(self, form: Form) -> None:
        self.metric = form.metric
        self.of = form.of
        self.sentence = form.sentence
        self.command = form.command
        self.private = form.private
        self.personal = form.personal

    @property
    def word(self) -> str:
        """Its name in JSON and docs."""
        return self.name.lower().replace("_", "-")
