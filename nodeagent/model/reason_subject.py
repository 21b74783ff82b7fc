"""Sorts of subjects that reasons are about, and the form of their kinds. Pure."""

from enum import Enum


class Of(Enum):
    """Subjects of reasons."""

    CLUSTER = "cluster"
    GROUP = "group"
    NODE = "node"
    INSTANCE = "instance"
    ENTRY = "entry"
    WINDOW = "window"


def kind(metric: str, of: Of, sentence: str, *, command: str = "") -> tuple[str, Of, str, str]:
    """Return the value of a kind, for the classes below: `command` is the one that helps."""
    return metric, of, sentence, command


class AnyKind(Enum):
    """A kind: label of the metric, usual subject, sentence, and the command that helps."""

    def __init__(self, metric: str, of: Of, sentence: str, command: str = "") -> None:
        self.metric = metric
        self.of = of
        self.sentence = sentence
        self.command = command

    @property
    def word(self) -> str:
        """Its name in JSON and docs."""
        return self.name.lower().replace("_", "-")

    @property
    def private(self) -> bool:
        """Whether it may name an owner, a window or a series, which not everybody may see."""
        return False
