"""Where everything on one node goes, all of it together, with the room there is now. Pure.

What is placed elsewhere already counts as being there, and whoever is not free is no place: so
this asks nothing of the room that other repairs count on. It costs 0.1 ms for each place that is
tried, of which a round has only so many; without them each instance goes where the most is free.
"""

from collections.abc import Mapping
from dataclasses import replace

from nodeagent.errors import MessageError
from nodeagent.maintd.planning.resources import Room
from nodeagent.model.snapshot import Capacity, Instance, Node, Size, Snapshot
from nodeagent.placement.cluster.from_ganeti import assess
from nodeagent.placement.evacuate.evacuate import Way, evacuate
from nodeagent.placement.layout.rules import Rules

_TRIES = 3  # of which the second and third put in front what found no place before
# Of a node that nothing is brought to nobody asks what it has.
_PLENTY = Capacity(10**9, 10**12, Size(2 * 10**9, 0, 10**12, 10**6))


def together(node: Node, room: Room, owner: str) -> Mapping[str, str]:
    """Where each instance, by name, is brought to when the node is emptied: its new node.

    It lacks those that have no place by all of the htools' checks, on nodes that say how large
    they are; and is empty where too much would have to be tried.
    """
    free = room.fit.get(node.group, [])
    here = sum(len(there.get(node.name, ())) for there in (room.primaries, room.mirrors))
    if not 0 < here * len(free) <= room.tries or node.group not in room.snapshot.groups:
        return {}
    fit = [name for name in free if _is_place(name, room, owner)]
    room.tries -= here * len(fit)
    members = {name: one for name, one in room.snapshot.nodes.items() if one.group == node.group}
    doubts = dict.fromkeys(members.keys() - {*fit, node.name}, "")
    capacity = {name: room.capacity[name] for name in fit}
    capacity |= {name: _PLENTY for name in doubts if name not in room.unreachable}
    try:
        seen = assess(_of(room, members), capacity, doubts=doubts)
    except MessageError:  # a policy that is none: other ways make do without
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
    """A mirror's new node, or where it runs."""
    return way.after.primary if way.after.secondary < 0 else way.after.secondary


def _of(room: Room, members: Mapping[str, Node]) -> Snapshot:
    """One group, as it will be when what is under way and planned is done.

    What its nodes have free is without the room of forthcoming instances.
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
