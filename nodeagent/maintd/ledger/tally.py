"""Count since the start of maintd the ends, their durations, and requests. Pure."""

from collections import Counter
from dataclasses import dataclass, replace

from nodeagent.maintd.ledger.fencing_events import BRAKED, braked_nodes, fencings
from nodeagent.model.asked import Asked
from nodeagent.model.diagnosis import Need
from nodeagent.model.incident import UNKNOWN, Incident, Status
from nodeagent.model.ledger import Decision, Ledger
from nodeagent.model.snapshot import Observed
from nodeagent.model.units import Ms

RESULTS = ("completed", "failed", "canceled", "superseded", "passed")
FENCING = ("suspected-dead", "fenced", "revived", "came-back", "fencing-failed", BRAKED)
_MINUTE, _HOUR, _DAY = 60, 3600, 86400
BOUNDS = (
    _MINUTE,
    2 * _MINUTE,
    5 * _MINUTE,
    10 * _MINUTE,
    20 * _MINUTE,
    30 * _MINUTE,
    _HOUR,
    2 * _HOUR,
    4 * _HOUR,
    8 * _HOUR,
    _DAY,
    3 * _DAY,
    7 * _DAY,
)


@dataclass(frozen=True, slots=True)
class Times:
    """A histogram: how many took up to each of BOUNDS seconds, in all, and their sum."""

    upto: tuple[int, ...] = (0,) * len(BOUNDS)
    count: int = 0
    seconds: float = 0.0

    def plus(self, seconds: float) -> "Times":
        upto = tuple(n + (seconds <= bound) for n, bound in zip(self.upto, BOUNDS, strict=True))
        return replace(self, upto=upto, count=self.count + 1, seconds=self.seconds + seconds)


class Tally:
    """Counters of one run of maintd: they start at 0, as Prometheus expects after a restart."""

    def __init__(self) -> None:
        self.ended = Counter(dict.fromkeys(RESULTS, 0))
        self.evacuated = Times()
        self.repaired = {need.wire: Times() for need in Need if need is not Need.OK}
        self.requests: Counter[tuple[str, str]] = Counter()
        self.fencing = Counter(dict.fromkeys(FENCING, 0))
        self._braked: set[str] = set()

    def take(self, before: Ledger, decision: Decision, observed: Observed, now: Ms) -> None:
        """Count the changes of a round that was executed."""
        for wish in observed.wishes:
            result = "refused" if wish.id in decision.refused else "granted"
            self.requests[verb(type(wish.asked)), result] += 1
        known = {incident.id: incident for incident in before.incidents}
        for incident in decision.ledger.incidents:
            old = known.pop(incident.id, None)
            if incident.status is not (old.status if old else Status.NOTED):
                self._changed(incident, now)
        self._fenced(before, decision, observed, now)
        for incident in known.values():
            self._closed(incident, now, there=incident.node in observed.snapshot.by_uuid)

    def _fenced(self, before: Ledger, decision: Decision, observed: Observed, now: Ms) -> None:
        for event in fencings(before, decision.ledger, observed, now):
            if event.kind in FENCING:
                self.fencing[event.kind] += 1
        braked = braked_nodes(decision.held)
        self.fencing[BRAKED] += len(braked - self._braked)
        self._braked = braked

    def _changed(self, incident: Incident, now: Ms) -> None:
        if incident.status.active:
            return
        self.ended["superseded" if incident.heir else incident.status.value] += 1
        if incident.status is not Status.COMPLETED:
            return
        if incident.diagnosis.need is Need.LIVE_REPAIR:
            self._repaired(incident, now)
        elif incident.diagnosis.need > Need.LIVE_REPAIR:
            self.evacuated = self.evacuated.plus(_took(incident, now))

    def _closed(self, incident: Incident, now: Ms, *, there: bool) -> None:
        if incident.status.active:
            self.ended["passed"] += 1
        live = incident.diagnosis.need is Need.LIVE_REPAIR
        done = incident.status is Status.COMPLETED and not live
        if there and (done or incident.status is Status.FAILED or incident.by_hand):
            self._repaired(incident, now)

    def _repaired(self, incident: Incident, now: Ms) -> None:
        if incident.diagnosis != UNKNOWN:  # rebuilt, before its node has reported its diagnosis
            wire = incident.diagnosis.need.wire
            self.repaired[wire] = self.repaired[wire].plus(_took(incident, now))


def verb(asked: type[Asked]) -> str:
    """The name of a request's class, as a label: set-schedule."""
    letters = (f"-{letter.lower()}" if letter.isupper() else letter for letter in asked.__name__)
    return "".join(letters).removeprefix("-")


def _took(incident: Incident, now: Ms) -> float:
    return max(0, now - incident.noted_at) / 1000
