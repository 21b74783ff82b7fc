"""Why no work starts in a round, for those who plan it. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from nodeagent.model.reason import Reason


@dataclass(frozen=True, slots=True)
class Stop:
    """Why one kind of work does not start: at some nodes, by name, or at none at all."""

    nodes: Mapping[str, Reason]
    everywhere: Reason | None = None

    def at(self, node: str) -> Reason | None:
        """Return why it does not start at this node; what stops it everywhere comes first."""
        return self.everywhere or self.nodes.get(node)


@dataclass(frozen=True)
class Stops:
    """All that stops work in a round, and for each kind of work what stops that.

    - `pauses`: nodes that people have paused, by name.
    - `incidents`: incidents that people have paused, by id.
    - `outside`: the pause of the whole cluster, for machines that are not nodes.
    - `windows`, `rolls`: nodes that a window or a roll closes to other work, by name.
    - `storm`: the storm brake.
    - `doubt`: the doubt about the ledger.
    """

    pauses: Mapping[str, Reason] = field(default_factory=dict)
    incidents: Mapping[str, Reason] = field(default_factory=dict)
    outside: Reason | None = None
    windows: Mapping[str, Reason] = field(default_factory=dict)
    rolls: Mapping[str, Reason] = field(default_factory=dict)
    storm: Reason | None = None
    doubt: Reason | None = None

    @cached_property
    def closed(self) -> Mapping[str, Reason]:
        """Nodes that are closed to each kind of work, but for that of their own windows or roll."""
        return {**self.pauses, **self.windows, **self.rolls}

    @cached_property
    def repairs(self) -> Stop:
        """The stop of what a fault asks for: it goes on in doubt about the ledger."""
        return Stop(self.closed, self.storm)

    @cached_property
    def plans(self) -> Stop:
        """The stop of what only the ledger asks for."""
        return Stop(self.closed, self.doubt or self.storm)

    @cached_property
    def maintenance(self) -> Stop:
        """The stop of windows and rolls: their own do not close a node to them."""
        return Stop(self.pauses, self.doubt or self.storm)
