"""The situation of a round, as all its planners are given it, and what stops their work. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from nodeagent.maintd.planning.holds import paused
from nodeagent.maintd.planning.resources import Room
from nodeagent.maintd.planning.tag_settings import faults, with_tags
from nodeagent.model.ledger import Ledger, Policy
from nodeagent.model.offer import Work
from nodeagent.model.reason import Reason
from nodeagent.model.snapshot import Node, Observed, Snapshot
from nodeagent.model.units import Ms


def paused_nodes(ledger: Ledger, snapshot: Snapshot) -> dict[str, Reason]:
    """Say why no work starts on nodes, by name: people have paused them, or a tag is wrong."""
    return {**faults(snapshot), **paused(ledger, snapshot)}


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

    - `pauses`: nodes that people have paused, or that have a wrong tag, by name.
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


@dataclass(frozen=True, slots=True)
class Situation:
    """All that a round's planners need beside the ledger; it stays the same for all of them.

    - `observed`: the cluster and its nodes, with the nodes' power among the evidence.
    - `policy`: the settings, with the cluster's tags.
    - `now`: the moment of the round.
    - `room`: the nodes, memory and budgets that are left. Each planner takes its part from it.
    - `stops`: why work does not start.
    - `owners`: why instances' owners block a node (a UUID), by the work that they block.
    """

    observed: Observed
    policy: Policy
    now: Ms
    room: Room
    stops: Stops
    owners: Mapping[Work, Mapping[str, Reason]]

    def policy_of(self, node: Node) -> Policy:
        """Return the settings of a node: its own tags and its group's come first."""
        return with_tags(self.policy, self.observed.snapshot, node)
