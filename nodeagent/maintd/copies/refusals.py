"""Refusals of a candidate's agent that the hand-over expects. Pure."""

from nodeagent.errors import NodeAgentError
from nodeagent.model.copies import Holding


class Refused(NodeAgentError):
    """The agent did not take a part; `holding` is what it has."""

    def __init__(self, holding: Holding, why: str = "") -> None:
        super().__init__(why)
        self.holding = holding


class WholeWanted(Refused):
    """It has not the part that this one is on top of."""


class Outbid(Refused):
    """It has promised a higher epoch to another maintd."""
