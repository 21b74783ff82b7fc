"""Builders for a small world: nodes, instances, incidents, observations."""

from collections.abc import Mapping

from nodeagent.model.diagnosis import Diagnosis, Need
from nodeagent.model.incident import Incident, Status, incident_id
from nodeagent.model.ledger import Ledger, Outcome, Result
from nodeagent.model.snapshot import Capacity, Instance, Node, Observed, Snapshot
from nodeagent.model.units import Ms
from nodeagent.protocol.canonical import canonical

NOW = Ms(1_795_000_000_000)


def need(status: str, **members: object) -> Diagnosis:
    document = {"status": status, **members}
    command = members.get("command")
    return Diagnosis(Need.from_wire(status), str(command) if command else None, canonical(document))


OK = need("Ok")
REPAIR = need("live-repair", command="fix-nic")
EVACUATE = need("evacuate")
FAILOVER = need("evacuate-failover")


def node(name: str, **members: object) -> Node:
    return Node(name, f"uuid-{name}", "127.0.0.1", **members)  # type: ignore[arg-type]


def instance(name: str, primary: str, secondary: str | None, **members: object) -> Instance:
    template = "drbd" if secondary else "plain"
    return Instance(name, primary, secondary, **{"template": template, **members})  # type: ignore[arg-type]


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


PLENTY = Capacity(memory=1_000_000, disk=10_000_000)


def seen(
    world: Snapshot,
    said: Mapping[str, Diagnosis] | None = None,
    doubts: Mapping[str, str] | None = None,
    results: Mapping[str, Outcome] | None = None,
    **members: object,
) -> Observed:
    """Every node in the cluster that is neither mentioned, doubted nor offline says Ok."""
    everyone = {
        n: OK for n, one in world.nodes.items() if n not in (doubts or {}) and not one.offline
    }
    capacity = members.pop("capacity", dict.fromkeys(world.nodes, PLENTY))
    return Observed(
        world,
        {**everyone, **(said or {})},
        doubts or {},
        {i: Result(outcome, "told so") for i, outcome in (results or {}).items()},
        capacity=capacity,  # type: ignore[arg-type]
        **members,  # type: ignore[arg-type]
    )


def incident(
    name: str = "n1",
    diagnosis: Diagnosis = EVACUATE,
    status: Status = Status.NOTED,
    **members: object,
) -> Incident:
    """An incident noted just now at a node."""
    identity = incident_id(f"uuid-{name}", diagnosis, NOW)
    times = {"seen_at": NOW, "changed_at": NOW}
    return Incident(
        identity,
        f"uuid-{name}",
        name,
        diagnosis,
        NOW,
        status,
        **{**times, **members},  # type: ignore[arg-type]
    )


def ledger(*incidents: Incident, **members: object) -> Ledger:
    return Ledger(incidents=incidents, **members)  # type: ignore[arg-type]
