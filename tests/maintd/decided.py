"""Questions to a decision: its new actions, and the reasons of what it holds."""

from nodeagent.model.action import Action
from nodeagent.model.ledger import Decision, Policy
from nodeagent.model.units import Ms

POLICY = Policy(settle=Ms(0), cooldown=Ms(0), storm=1.0)


def new(decision: Decision) -> list[Action]:
    return [intent.action for intent in decision.ledger.intents if intent.job is None]


def reasons(decision: Decision) -> list[str]:
    return [held.reason for held in decision.held]
