"""Estimate how long an evacuation takes, from the speed of past moves. Pure."""

from collections.abc import Iterator, Sequence

from nodeagent.model.action import MovePrimary, MoveSecondary
from nodeagent.model.ledger import Ledger, Outcome
from nodeagent.model.snapshot import Node, Observed, Snapshot
from nodeagent.model.units import Ms
from nodeagent.model.window import Pace

PACES = 100  # moves whose durations are remembered
_ENOUGH = 4  # durations that make a sample
MARGIN = 600_000  # ms between the end of an evacuation and the start of its window
_SAFETY = 1.5  # times the expected duration
_EACH = 30_000  # ms for each move besides its copying
_DISK, _MEMORY = 0.03, 0.05  # MiB a ms without measurements: DRBD's 30 MiB/s; 50 MiB/s
_SLOWEST = 0.1  # of these: slower moves waited for something else


def measured(ledger: Ledger, observed: Observed, now: Ms) -> Iterator[Pace]:
    """Durations of the moves that have just ended.

    Moves that ran at the same time share it equally.
    """
    moving = [i for i in ledger.intents if isinstance(i.action, MovePrimary | MoveSecondary)]
    for intent in moving:
        result = observed.results.get(intent.id)
        if result is None or result.outcome is not Outcome.SUCCESS or intent.ended:
            continue
        action = intent.action
        assert isinstance(action, MovePrimary | MoveSecondary)
        instance = observed.snapshot.instances.get(action.instance)
        disk = isinstance(action, MoveSecondary)
        stopped = isinstance(action, MovePrimary) and not action.live
        if instance is None or stopped:
            continue
        beside = sum(other.node == intent.node for other in moving)
        took = max(1, now - intent.promised) // beside
        yield Pace(disk, instance.disk if disk else instance.memory, Ms(max(1, took)))


class Leads:
    """Times before their windows at which nodes' evacuations must start, for all nodes at once."""

    def __init__(self, snapshot: Snapshot, paces: Sequence[Pace]) -> None:
        self._takes: dict[str, float] = {}
        disk, memory = _speed(paces, disk=True), _speed(paces, disk=False)
        for instance in snapshot.instances.values():
            mirror = _EACH + instance.disk / disk if instance.secondary is not None else 0.0
            runs = _EACH + (instance.memory / memory if instance.running else 0)
            self._add(instance.primary, runs + mirror)
            if instance.secondary is not None:
                self._add(instance.secondary, mirror)

    def _add(self, node: str, ms: float) -> None:
        self._takes[node] = self._takes.get(node, 0.0) + ms

    def of(self, node: Node) -> int:
        """The ms that an evacuation in time takes."""
        return MARGIN + round(_SAFETY * self._takes.get(node.name, 0.0))


def _speed(paces: Sequence[Pace], *, disk: bool) -> float:
    """Speed in MiB a ms that three in four moves exceeded.

    A move may have waited in Ganeti's queue for days, or the clock was set meanwhile: maintd would
    evacuate nodes weeks before their windows.
    """
    known = sorted(pace.mib / pace.ms for pace in paces if pace.disk is disk and pace.mib)
    usual = _DISK if disk else _MEMORY
    return max(known[len(known) // 4], _SLOWEST * usual) if len(known) >= _ENOUGH else usual
