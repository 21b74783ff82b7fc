"""Targets for all instances of one node together, with the room there is now. Pure.

A planned instance already counts at its target, and a node that is not free is no target. So this
uses no room that other repairs count on.
"""

from collections.abc import Mapping
from dataclasses import replace

from nodeagent.errors import MessageError
from nodeagent.maintd.planning.resources import Room
from nodeagent.model.snapshot import Capacity, Instance, Node, Size, Snapshot
from nodeagent.placement.cluster.from_ganeti import assess
from nodeagent.placement.evacuate.evacuate import Way, evacuate
from nodeagent.placement.layout.rules import Rules

_TRIES = 8  # ways to evacuate one node, each round anew: a person's question gets more of them
# The room of a node that receives no instance is irrelevant: it must not stop a move off another.
_PLENTY = Capacity(10**9, 10**12, Size(2 * 10**9, 0, 10**12, 10**6))


def together(node: Node, room: Room, owner: str) -> Mapping[str, str]:
    """The new node of each instance, by name, when the node is evacuated.

    It lacks the instances without a place by all checks of the htools, on nodes that report their
    size.
    """
    free = room.fit.get(node.group, [])
    here = sum(len(there.get(node.name, ())) for there in (room.primaries, room.mirrors))
    if not (here and free) or node.group not in room.snapshot.groups:
        return {}
    fit = [name for name in free if _is_place(name, room, owner)]
    members = {name: one for name, one in room.snapshot.nodes.items() if one.group == node.group}
    doubts = dict.fromkeys(members.keys() - {*fit, node.name}, "")
    capacity = {name: room.capacity[name] for name in fit}
    capacity |= {name: _PLENTY for name in doubts if name not in room.unreachable}
    try:
        seen = assess(_of(room, members), capacity, doubts=doubts)
    except MessageError:  # an invalid policy: other methods do without it
        return {}
    found = evacuate(seen.cluster, [node.name], Rules(), seen.doubts, _TRIES)
    nodes, instances = seen.cluster.nodes, seen.cluster.instances
    return {
        instances[way.instance].name: nodes[_end(way)].name
        for way in found.ways
        if way.instance not in found.left
    }


def _is_place(name: str, room: Room, owner: str) -> bool:
    said = room.capacity.get(name)
    return said is not None and said.size is not None and room.why_not(name, owner) is None


def _end(way: Way) -> int:
    """The new node of a secondary, or of the instance itself."""
    return way.after.primary if way.after.secondary < 0 else way.after.secondary


def _of(room: Room, members: Mapping[str, Node]) -> Snapshot:
    """One group as it will be after all running and planned moves.

    The free room of its nodes excludes the room of forthcoming instances.
    """
    whole = room.snapshot
    instances: dict[str, Instance] = {}
    for name in members:
        for there in (room.primaries, room.mirrors):
            for one in there.get(name, ()):
                instances[one.name] = _as_placed(one, room)
    inside = {
        name: one
        for name, one in instances.items()
        if one.primary in members and (one.secondary is None or one.secondary in members)
    }
    groups = {node.group: whole.groups[node.group] for node in members.values()}
    return replace(whole, nodes=members, instances=inside, groups=groups, forthcoming={})


def _as_placed(instance: Instance, room: Room) -> Instance:
    if instance.name not in room.placed:
        return instance
    primary, secondary = room.placed[instance.name]
    return replace(instance, primary=primary, secondary=secondary)
