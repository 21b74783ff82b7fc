"""Questions to a decision: its new actions, and the reasons of what it holds."""

from collections.abc import Iterable

from nodeagent.model.action import Action
from nodeagent.model.ledger import Decision, Policy
from nodeagent.model.reason import AnyKind, Held, Reason
from nodeagent.model.units import Ms

POLICY = Policy(settle=Ms(0), cooldown=Ms(0), storm=1.0)


def new(decision: Decision) -> list[Action]:
    return [intent.action for intent in decision.ledger.intents if intent.job is None]


def reasons(decision: Decision) -> list[str]:
    return [held.reason for held in decision.held]


def kinds(held: Iterable[Held]) -> list[tuple[AnyKind, str]]:
    """The kind and the subject's name of each reason, and of the reasons among its details."""
    return [one for each in held for one in within(each.why)]


def within(why: Reason) -> list[tuple[AnyKind, str]]:
    return [(why.kind, why.subject.name), *(one for part in why.parts for one in within(part))]
