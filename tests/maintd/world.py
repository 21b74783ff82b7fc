"""Builders of what is seen and remembered: diagnoses, incidents, observations.

Those of nodes and instances are in tests/build.py, and can be had from here.
"""

from collections.abc import Mapping

from nodeagent.model.diagnosis import Diagnosis, Need
from nodeagent.model.incident import Incident, Status, incident_id
from nodeagent.model.ledger import Ledger, Outcome, Result
from nodeagent.model.snapshot import Capacity, Observed, Snapshot
from nodeagent.model.units import Ms
from nodeagent.protocol.canonical import canonical
from tests.build import in_parts as in_parts
from tests.build import instance as instance
from tests.build import node as node
from tests.build import six as six
from tests.build import snapshot as snapshot
from tests.build import with_instances as with_instances

NOW = Ms(1_795_000_000_000)


def need(status: str, **members: object) -> Diagnosis:
    document = {"status": status, **members}
    command = members.get("command")
    return Diagnosis(Need.from_wire(status), str(command) if command else None, canonical(document))


OK = need("Ok")
REPAIR = need("live-repair", command="fix-nic")
EVACUATE = need("evacuate")
FAILOVER = need("evacuate-failover")


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
