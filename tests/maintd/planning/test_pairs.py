"""Two of incidents, entries of the repair queue and windows at one node: who waits for whom.

docs/repair-queue-cases.md names the test of each rule in docs/repair-queue.md. That a node has one
owner and ends as it was found, whatever order things happen in, `tests/maintd/lives` shows.
"""

from dataclasses import dataclass, replace

from nodeagent.maintd.deciding.decide import decide
from nodeagent.model.action import Action, Drain, Retag, RunCommand
from nodeagent.model.incident import Incident, Status
from nodeagent.model.ledger import Ledger
from nodeagent.model.queue import Entry, Queue
from nodeagent.model.reason import AnyKind, Kind
from nodeagent.model.window import Scheduled
from tests.maintd.decided import POLICY, kinds
from tests.maintd.leaving import HOUR, in_windows, window
from tests.maintd.queue.turns import DRAINING, WATCHING, begun, entry, how
from tests.maintd.world import EVACUATE, NOW, OK, REPAIR, incident, node, seen, six

N4 = replace(node("n4"), address="10.0.0.0")
QUEUED = entry()
AT_WORK = begun(at=WATCHING, operation="watches")
IS_DRAINED = begun(at=DRAINING, operation="drains", drained=True)
BETWEEN = begun(operation="drains", backoffs=1, backoff_until=NOW + HOUR)
DUE, BEGUN = window("n4", 0, HOUR), window("n4", 0, HOUR, begun=True)
SICK, MENDS = incident("n4", EVACUATE), incident("n4", REPAIR)
PENDING = replace(SICK, status=Status.PENDING)


@dataclass
class Case:
    """Who wants the node, to why one of them waits, and what is done there."""

    why: AnyKind | None
    does: list[type[Action]]
    entry: Entry | None = None
    incident: Incident | None = None
    window: Scheduled | None = None
    drained: bool = False


CASES = {
    "a queued entry, then a window": Case(Kind.IN_WINDOW, [Drain], QUEUED, window=DUE),
    "a queued entry, an incident at work": Case(
        Kind.INCIDENT_THERE, [Drain], QUEUED, incident=PENDING
    ),
    "an entry at work, then a window": Case(Kind.WINDOW_WAITS, [], AT_WORK, window=DUE),
    "an entry at work, then an incident": Case(Kind.CLAIMED, [], AT_WORK, incident=SICK),
    "an entry has drained the node, then a window": Case(
        Kind.WINDOW_WAITS, [RunCommand], IS_DRAINED, window=DUE, drained=True
    ),
    "an entry between steps, then a window": Case(None, [Drain], BETWEEN, window=DUE),
    "an entry between steps, then an incident": Case(None, [Retag], BETWEEN, incident=MENDS),
    "an incident at work, then a window": Case(
        Kind.WINDOW_WAITS, [Drain], incident=PENDING, window=DUE
    ),
    "a window, then an incident": Case(Kind.IN_WINDOW, [Drain], incident=SICK, window=BEGUN),
}


def test_who_waits_for_whom() -> None:
    for name, case in CASES.items():
        ledger = Ledger() if case.window is None else in_windows(case.window)
        entries = () if case.entry is None else (case.entry,)
        incidents = () if case.incident is None else (case.incident,)
        ledger = replace(ledger, queue=Queue(entries, len(entries)), incidents=incidents)
        world = replace(six(replace(N4, drained=case.drained)), master="n1")
        said = OK if case.incident is None else case.incident.diagnosis
        policy = replace(POLICY, procedures=how(), nodes_in_work=9, group_in_work=9)
        decision = decide(ledger, seen(world, {"n4": said}), policy, NOW)
        whys = [kind for kind, _ in kinds(decision.held)]
        does = [type(intent.action) for intent in decision.ledger.intents if intent.node == "n4"]
        assert does == case.does, (name, whys)
        assert case.why is None or case.why in whys, (name, whys)
