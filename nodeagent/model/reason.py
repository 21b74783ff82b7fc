"""Reasons why work is blocked: a kind, a subject and details. Pure.

A reason may have others among its details. Its kind has the sentence and the command that helps.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, Union

from nodeagent.model.agent_kinds import AgentKind
from nodeagent.model.balance_kinds import BalanceKind
from nodeagent.model.budget_kinds import BudgetKind
from nodeagent.model.fencing_kinds import FencingKind
from nodeagent.model.ledger_kinds import LedgerKind
from nodeagent.model.reason_kinds import Kind
from nodeagent.model.reason_subject import AnyKind, Of
from nodeagent.model.roll_kinds import RollKind
from nodeagent.model.sentence import filled
from nodeagent.model.stage_kinds import StageKind
from nodeagent.model.succession_kinds import SuccessionKind

__all__ = [
    "KINDS",
    "MOST_TOLD",
    "AgentKind",
    "AnyKind",
    "BalanceKind",
    "BudgetKind",
    "Detail",
    "FencingKind",
    "Held",
    "Kind",
    "LedgerKind",
    "Of",
    "Reason",
    "RollKind",
    "StageKind",
    "Subject",
    "SuccessionKind",
    "because",
    "first_of",
]

KINDS: tuple[AnyKind, ...] = (
    *Kind,
    *AgentKind,
    *BalanceKind,
    *BudgetKind,
    *FencingKind,
    *LedgerKind,
    *RollKind,
    *StageKind,
    *SuccessionKind,
)
# Details that change while a reason lasts.
_CHANGING = frozenset({"doubt", "whom", "helps", "leaves", "returns"})


@dataclass(frozen=True, slots=True)
class Subject:
    """The subject of a reason; the cluster has no name."""

    of: Of
    name: str = ""


Detail: TypeAlias = Union[str, int, float, None, "Reason", tuple[str, ...], tuple["Reason", ...]]


@dataclass(frozen=True, slots=True)
class Reason:
    """A kind of reason, its subject, and its details by name."""

    kind: AnyKind
    subject: Subject
    details: tuple[tuple[str, Detail], ...] = ()

    def __str__(self) -> str:
        """Say it in a sentence."""
        return filled(self.kind.sentence, self._value)

    @property
    def help(self) -> str:
        """Return the command that helps, or "" if only waiting helps."""
        mine = filled(self.kind.command, self._value)
        return mine or next((why.help for why in self.parts if why.help), "")

    @property
    def parts(self) -> tuple["Reason", ...]:
        """Return the reasons among its details."""
        lists = (value if isinstance(value, tuple) else (value,) for _, value in self.details)
        return tuple(part for several in lists for part in several if isinstance(part, Reason))

    @property
    def kinds(self) -> frozenset[AnyKind]:
        """Return its kind, and those of all reasons among its details."""
        return frozenset({self.kind}).union(*(part.kinds for part in self.parts))

    @property
    def public(self) -> "Reason":
        """Return it for all readers, without private reasons, wherever they are.

        A person who asked for something is there without the name and the words.
        """
        if self.kind.private:
            return because(Kind.NOT_SHOWN)
        if not any(kind.private or kind.personal for kind in self.kinds):
            return self
        hidden = {name: SOMEBODY if name == "who" else "" for name in self.kind.personal}
        details = ((name, hidden.get(name, _public(value))) for name, value in self.details)
        return replace(self, details=tuple(details))

    @property
    def key(self) -> tuple[Any, ...]:
        """Return a key that stays the same while the reason lasts.

        It leaves out numbers and doubts, `whom` and `helps`, which change with the work, and the
        moments of a departure, which a roll foresees anew in each round.
        """
        lasting = ((n, v) for n, v in self.details if not isinstance(v, int | float))
        return self.kind, self.subject, *((n, _key(v)) for n, v in lasting if n not in _CHANGING)

    def _value(self, name: str) -> Detail:
        match name:
            case "it":
                return self.subject.name
            case "help":
                return self.help
            case "what" if name not in dict(self.details):
                name, of = self.subject.name, self.subject.of
                return f"{of.value} {name}" if name else "the cluster"
            case _:
                return dict(self.details).get(name)


@dataclass(frozen=True, slots=True)
class Held:
    """Blocked work and its reason; at a node, for an incident, or neither."""

    why: Reason
    node: str = ""
    incident: str = ""

    @property
    def reason(self) -> str:
        """The reason in a sentence."""
        return str(self.why)

    @property
    def key(self) -> tuple[Any, ...]:
        """Return a key that stays the same while the reason does, whatever changes meanwhile."""
        return self.node, self.incident, self.why.key


def because(kind: AnyKind, name: str = "", of: Of | None = None, /, **details: Detail) -> Reason:
    """Build a reason about the subject of this name, by default of the kind's usual sort."""
    return Reason(kind, Subject(of or kind.of, name), tuple(details.items()))


SOMEBODY = "an administrator"  # as others than users with a role see a person
MOST_TOLD = 20  # of one kind that are told one by one


def first_of(held: Sequence[Held], more: AnyKind) -> tuple[Held, ...]:
    """The first ones, and how many `more` there are."""
    if len(held) <= MOST_TOLD:
        return tuple(held)
    return (*held[:MOST_TOLD], Held(because(more, count=len(held) - MOST_TOLD)))


def _public(value: Detail) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_public, value))
    return value.public if isinstance(value, Reason) else value


def _key(value: Detail) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_key, value))
    return value.key if isinstance(value, Reason) else value
