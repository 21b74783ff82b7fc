"""Builders: nodes, instances and snapshots of a small cluster, one set for all rooms."""

from dataclasses import replace

from nodeagent.maintd.planning.resources import open_room
from nodeagent.maintd.planning.situation import Situation, Stops
from nodeagent.model.ledger import Ledger, Policy
from nodeagent.model.offer import Work
from nodeagent.model.snapshot import Instance, Node, Observed, Snapshot
from nodeagent.model.units import Ms


def node(name: str, **members: object) -> Node:
    return Node(name, f"uuid-{name}", "127.0.0.1", **members)  # type: ignore[arg-type]


def instance(name: str, primary: str, secondary: str | None, **members: object) -> Instance:
    template = "drbd" if secondary else "plain"
    return Instance(name, primary, secondary, **{"template": template, **members})  # type: ignore[arg-type]


def in_parts(name: str, primary: str, *others: str, **members: object) -> Instance:
    """An instance with some of its disks on other nodes, as LUXI shows it."""
    of = {"template": "mixed", "disks": 0, **members}
    return Instance(name, primary, partly_on=frozenset(others), **of)  # type: ignore[arg-type]


def snapshot(*nodes: Node, **instances: tuple[str, str | None]) -> Snapshot:
    return Snapshot(
        "c",
        {n.name: n for n in nodes},
        {name: instance(name, *places) for name, places in instances.items()},
        master="n6",
    )


def six(*special: Node, **instances: tuple[str, str | None]) -> Snapshot:
    """n1 to n6, some of them special; n6 is the master."""
    names = {n.name: n for n in special}
    return snapshot(*(names.get(f"n{i}", node(f"n{i}")) for i in range(1, 7)), **instances)


def with_instances(world: Snapshot, *instances: Instance) -> Snapshot:
    """The cluster with these instances instead of its own."""
    return replace(world, instances={one.name: one for one in instances})


def fleet(count: int = 6) -> list[Node]:
    """n1 to nN, all of them master candidates; n1 is to be the master."""
    return [
        Node(f"n{i}", f"{i:08x}-0000-4000-8000-000000000000", f"127.0.0.{i}", candidate=True)
        for i in range(1, count + 1)
    ]


def mirrored(*places: tuple[str, str]) -> list[Instance]:
    """i1 to iN at these nodes, which have DRBD."""
    return [
        Instance(f"i{n}", primary, secondary, memory=100, disk=100)
        for n, (primary, secondary) in enumerate(places, 1)
    ]


def situation(
    ledger: Ledger, observed: Observed, policy: Policy, now: Ms, stops: Stops = Stops()
) -> Situation:
    """The situation of a round in which no owner blocks anything."""
    room = open_room(ledger, observed, {})
    return Situation(observed, policy, now, room, stops, {work: {} for work in Work})
