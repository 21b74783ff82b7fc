"""Builders for a small world: nodes, instances, incidents, observations."""

from collections.abc import Mapping

from nodeagent.model.diagnosis import Diagnosis, Need
from nodeagent.model.incident import Incident, Status
from nodeagent.model.ledger import Ledger, Outcome
from nodeagent.model.snapshot import Instance, Node, Observed, Snapshot
from nodeagent.protocol.canonical import canonical

NOW = 1_795_000_000_000


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


def snapshot(*nodes: Node, **instances: tuple[str, str | None]) -> Snapshot:
    return Snapshot(
        "c",
        {n.name: n for n in nodes},
        {name: Instance(name, *places) for name, places in instances.items()},
    )


def six(*special: Node, **instances: tuple[str, str | None]) -> Snapshot:
    """n1 to n6, some of them special."""
    names = {n.name: n for n in special}
    return snapshot(*(names.get(f"n{i}", node(f"n{i}")) for i in range(1, 7)), **instances)


def seen(
    world: Snapshot,
    said: Mapping[str, Diagnosis] | None = None,
    doubts: Mapping[str, str] | None = None,
    outcomes: Mapping[str, Outcome] | None = None,
) -> Observed:
    """Every node that is neither mentioned nor doubted says Ok."""
    everyone = {n: OK for n in world.nodes if n not in (doubts or {})}
    return Observed(world, {**everyone, **(said or {})}, doubts or {}, outcomes or {})


def incident(
    node: str = "n1",
    diagnosis: Diagnosis = EVACUATE,
    status: Status = Status.NOTED,
    **members: object,
) -> Incident:
    return Incident(f"id-{node}", node, diagnosis, NOW, status, **members)  # type: ignore[arg-type]


def ledger(*incidents: Incident, **members: object) -> Ledger:
    return Ledger(incidents=incidents, **members)  # type: ignore[arg-type]
