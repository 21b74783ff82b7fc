"""Why no work starts in a round, for those who plan it. Pure.

Each of these gives reasons by the name of a node, of a group, or of an incident; "" stands for
everywhere.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from nodeagent.model.reason import Reason


@dataclass(frozen=True)
class Stops:
    """The pauses of people, closed nodes of windows and rolls, the storm brake, and doubt.

    `doubt` is that about the ledger.
    """

    pauses: Mapping[str, Reason]
    windows: Mapping[str, Reason]
    rolls: Mapping[str, Reason]
    storm: Reason | None
    doubt: Reason | None

    @cached_property
    def closed(self) -> dict[str, Reason]:
        """Nodes that are closed to each kind of work, but for that of their own windows or roll."""
        return {**self.pauses, **self.windows, **self.rolls}

    @cached_property
    def repairs(self) -> dict[str, Reason]:
        """Stops of what a fault asks for: it goes on in doubt about the ledger."""
        return {**self.closed, **_everywhere(self.storm)}

    @cached_property
    def plans(self) -> dict[str, Reason]:
        """Stops of what only the ledger asks for."""
        return {**self.repairs, **self.in_doubt}

    @cached_property
    def maintenance(self) -> dict[str, Reason]:
        """Stops of windows and rolls: their own do not close a node to them."""
        return {**self.pauses, **_everywhere(self.storm), **self.in_doubt}

    @cached_property
    def in_doubt(self) -> dict[str, Reason]:
        """The doubt about the ledger alone."""
        return _everywhere(self.doubt)


def _everywhere(why: Reason | None) -> dict[str, Reason]:
    return {} if why is None else {"": why}
