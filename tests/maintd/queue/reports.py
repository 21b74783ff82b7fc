"""Reports of sick machines, and one round of the guards over them."""

from collections.abc import Mapping
from dataclasses import replace

from nodeagent.maintd.queue.guards import Admitted, admit
from nodeagent.model.constraints import Constraints
from nodeagent.model.ledger import Ledger, Policy
from nodeagent.model.queue import Entry, Operation, Procedure, Procedures, Queue, RepairStep
from nodeagent.model.reason import Kind
from nodeagent.model.sick import Sick
from nodeagent.model.snapshot import Node, Observed, Snapshot
from nodeagent.model.stage import FULL
from nodeagent.model.units import Ms, Seconds
from tests.build import situation
from tests.maintd.world import NOW, OK

S = 1000
BOTH = tuple(
    Operation(word, (RepairStep("try-1"),), "check") for word in ("unreachable", "unhealthy")
)
PROCEDURES = Procedures((Procedure(("type1",), BOTH),))
CKE = Constraints(maximum_repair_queue_entries=3, wait_seconds_to_repair_rebooting=Seconds(300))


def address(n: int) -> str:
    return f"10.0.0.{n}"


def sick(n: int, state: str, ago: int, **members: object) -> Sick:
    given: dict[str, object] = {"serial": f"S{n}", "state": state, "since": NOW - ago * S}
    one = {**given, **members}
    return Sick("sabakan", address(n), "type1", state.lower(), **one)  # type: ignore[arg-type]


M0 = replace(sick(0, "UNHEALTHY", 30), address="")
M1 = sick(1, "UNREACHABLE", 30)
M2 = sick(2, "UNHEALTHY", 30)
M3 = sick(3, "UNREACHABLE", 3000)
M4 = sick(4, "UNREACHABLE", 30)


def node(n: int, **members: object) -> Node:
    return Node(f"n{n}", f"uuid-n{n}", address(n), **members)  # type: ignore[arg-type]


ALL = tuple(map(node, range(1, 6)))


def entry(n: int, index: int = 0, **members: object) -> Entry:
    return Entry(index, address(n), "type1", **{"operation": "unhealthy", **members})  # type: ignore[arg-type]


def queue(*entries: Entry, **members: object) -> Queue:
    rows = tuple(replace(one, index=index) for index, one in enumerate(entries))
    return Queue(rows, len(rows), **members)  # type: ignore[arg-type]


def world(
    *reports: Sick, nodes: tuple[Node, ...] = ALL, answering: tuple[str, ...] = (), why: str = ""
) -> Observed:
    """No node answers, unless it is said to."""
    snapshot = Snapshot("c", {one.name: one for one in nodes})
    doubts = {one.name: "silent" for one in nodes if one.name not in answering}
    said: Mapping[str, tuple[Sick, ...] | str] = {"sabakan": why or reports}
    return Observed(snapshot, dict.fromkeys(answering, OK), doubts, sick=said)


def round_of(
    *reports: Sick,
    limits: Constraints = CKE,
    ledger: Ledger | None = None,
    entries: tuple[Entry, ...] = (),
    observed: Observed | None = None,
    now: int = NOW,
) -> Admitted:
    policy = Policy(stage=FULL, procedures=PROCEDURES, constraints=limits)
    before = ledger or Ledger(queue=queue(*entries))
    given = observed or world(*reports)
    return admit(before, situation(before, given, policy, Ms(now)), given.sick)


def made(done: Admitted, there: int = 0) -> list[int]:
    """The machines of the entries that are new."""
    return [int(e.address.rpartition(".")[2]) for e in done.ledger.queue.entries[there:]]


def told(done: Admitted) -> dict[str, str]:
    """Why which machines are refused."""
    refused = {Kind.REFUSED, Kind.REFUSED_IN_WINDOW}
    details = [dict(held.why.details) for held in done.held if held.why.kind in refused]
    return {str(said["of"]): str(said["why"]) for said in details}


def kinds(done: Admitted) -> dict[str, int]:
    return {refusal.reason: refusal.machines for refusal in done.ledger.queue.refusals}


def as_incident(one: Sick, **members: object) -> Sick:
    given = {"source": "incidents", "domain": "group g", "serial": "", **members}
    return replace(one, **given)  # type: ignore[arg-type]


def both(sabakan: list[Sick], incidents: list[Sick]) -> dict[str, tuple[Sick, ...]]:
    return {"incidents": tuple(incidents), "sabakan": tuple(sabakan)}


RACK = {"domain": "rack 7"}


def rack(*numbers: int) -> list[Sick]:
    return [sick(n, "UNREACHABLE", 3000, **RACK) for n in numbers]
