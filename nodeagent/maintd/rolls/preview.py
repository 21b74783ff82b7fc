"""Try a roll before it begins: which nodes can be away together, and which cannot be emptied. Pure.

Each set is tried whole with the room there is now, as if the nodes before it were back with their
instances. The roll itself looks again before each node.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

from nodeagent.maintd.planning.departures import departures
from nodeagent.maintd.planning.evacuation import NodeToEvacuate, why_not_together
from nodeagent.maintd.planning.resources import Room, open_room
from nodeagent.maintd.planning.situation import paused_nodes
from nodeagent.model.ledger import Ledger, Policy
from nodeagent.model.purpose import OfRoll
from nodeagent.model.reason import Reason
from nodeagent.model.roll import Roll
from nodeagent.model.snapshot import Node, Observed, Snapshot
from nodeagent.model.units import Ms

_LOOKED = 3  # nodes tried for each place in a set


@dataclass(frozen=True, slots=True)
class Preview:
    """The sets of nodes that can be away together, in the roll's order.

    `stuck` are the nodes that cannot be emptied, each with the reason; `untried` are those that
    there was no time for.
    """

    sets: tuple[tuple[str, ...], ...]
    stuck: tuple[tuple[str, Reason], ...]
    untried: tuple[str, ...] = ()


def preview(
    roll: Roll,
    ledger: Ledger,
    observed: Observed,
    policy: Policy,
    now: Ms,
    is_late: Callable[[], bool] = lambda: False,
) -> Preview:
    """Try the nodes of a roll that has not begun, until it is late.

    `observed` has the free room of the nodes.
    """
    snapshot = observed.snapshot
    pauses, leaving = paused_nodes(ledger, snapshot), departures(ledger, snapshot, policy, now)
    room = replace(open_room(ledger, observed, pauses, {}, leaving), searches=count())
    nodes = observed.snapshot.by_uuid
    search = _Search(roll, snapshot, room, policy)
    members = [nodes[member.node] for member in roll.nodes if member.node in nodes]
    rest = search.all(members, is_late)
    untried = tuple(node.name for node in rest)
    return Preview(tuple(search.sets), tuple(search.stuck), untried)


@dataclass
class _Search:
    roll: Roll
    snapshot: Snapshot
    room: Room
    policy: Policy
    sets: list[tuple[str, ...]] = field(default_factory=list)
    stuck: list[tuple[str, Reason]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.pairs = {
            frozenset({instance.primary, name})
            for instance in self.snapshot.instances.values()
            for name in instance.others
        }

    def all(self, rest: list[Node], is_late: Callable[[], bool]) -> list[Node]:
        """Try them in turn; return the rest."""
        while rest and not is_late():
            first = rest[0]
            if (why := self._why_not([first])) is not None:
                self.stuck.append((first.name, why))
                rest = rest[1:]
                continue
            together = self._together(first, rest[1 : 1 + _LOOKED * self.roll.terms.at_once])
            self.sets.append(tuple(node.name for node in together))
            rest = [node for node in rest if node not in together]
        return rest

    def _together(self, first: Node, others: Sequence[Node]) -> list[Node]:
        chosen = [first]
        for node in others:
            if len(chosen) == self.roll.terms.at_once:
                break
            shared = any(frozenset({node.name, other.name}) in self.pairs for other in chosen)
            is_master = node.name == self.snapshot.master  # it comes last, alone
            if not (shared or is_master) and self._why_not([*chosen, node]) is None:
                chosen.append(node)
        return chosen

    def _why_not(self, nodes: Sequence[Node]) -> Reason | None:
        secondaries = not self.roll.terms.keep_secondaries
        owner = OfRoll(nodes[0].uuid).owner
        wanted = [
            NodeToEvacuate(owner, node, begun=False, secondaries=secondaries) for node in nodes
        ]
        return why_not_together(wanted, self.room, self.policy)
