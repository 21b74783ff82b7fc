"""Work on incidents: give each node with an incident its next steps. Pure.

Admission decides whether work may start or continue, and the Room holds the nodes left for it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from nodeagent.maintd.incidents import lifecycle, referral
from nodeagent.maintd.incidents.steps import next_steps
from nodeagent.maintd.outage.claims import begin
from nodeagent.maintd.planning import admission
from nodeagent.maintd.planning.evacuation_moves import NextSteps
from nodeagent.maintd.planning.outcomes import worst_per_node
from nodeagent.maintd.planning.situation import Situation
from nodeagent.model.action import Action, Drain, MovePrimary, MoveSecondary, Retag
from nodeagent.model.diagnosis import Need
from nodeagent.model.incident import Incident, Status, StatusEvent
from nodeagent.model.ledger import Begun, Ledger
from nodeagent.model.offer import Work
from nodeagent.model.purpose import OfIncident
from nodeagent.model.queue import INCIDENTS
from nodeagent.model.reason import Held, Kind, Reason, StageKind, because
from nodeagent.model.sick import Sick
from nodeagent.model.snapshot import Node
from nodeagent.model.stage import DRAIN
from nodeagent.model.units import Ms


def _to_be_tried_again(incident: Incident, now: Ms) -> Reason | None:
    remaining = incident.not_before - now
    return (
        because(Kind.TRY_AGAIN, incident.name, left=remaining, why=incident.why)
        if remaining > 0
        else None
    )


def _within_stage(incident: Incident, planned: NextSteps, stage: str) -> NextSteps:
    """Leave the steps that a stage below full allows; the others are told instead of done."""
    steps = [step for step in planned.steps if _allowed(incident, step.action, stage)]
    if len(steps) == len(planned.steps):
        return planned
    name, diagnosis = incident.name, incident.diagnosis
    if diagnosis.need >= Need.EVACUATE:
        why = because(StageKind.WOULD_EVACUATE, name, stage=stage)
    else:
        why = because(StageKind.WOULD_REPAIR, name, stage=stage, command=diagnosis.command)
    return replace(planned, steps=steps, obstacles=[*planned.obstacles, why], beyond=[])


def _allowed(incident: Incident, action: Action, stage: str) -> bool:
    match action:
        case Drain():
            return stage == DRAIN
        case Retag(add=add):  # a started incident may end
            return incident.status is Status.PENDING and incident.tag in add
        case _:
            return False


def work_on(ledger: Ledger, situation: Situation) -> tuple[Ledger, list[Held]]:
    """Plan started incidents first, and the oldest: nobody else gets what they need."""
    planner = _Planner(ledger, situation)
    order = _in_order(ledger)
    for incident in order:
        if incident.status is Status.PENDING:
            planner.go_on(incident)
    for incident in order:
        if incident.status is Status.NOTED:
            planner.begin(incident)
    return planner.ledger, planner.held


def referred(ledger: Ledger, situation: Situation) -> Mapping[str, tuple[Sick, ...]]:
    """Return the incidents that are left to the repair queue, and on which work may start."""
    policy, snapshot = situation.policy, situation.observed.snapshot
    if not policy.procedures.incidents:
        return {}
    planner = _Planner(ledger, situation)
    return {
        INCIDENTS: tuple(
            referral.report(incident, rule, snapshot)
            for incident in _in_order(ledger)
            if (rule := referral.referral_of(incident, snapshot, policy)) is not None
            and planner.why_not(incident) is None
        )
    }


def _in_order(ledger: Ledger) -> list[Incident]:
    """The worst incident of each node, the oldest first."""
    return sorted(worst_per_node(ledger).values(), key=lambda i: (i.noted_at, i.id))


@dataclass
class _Planner:
    ledger: Ledger
    situation: Situation
    held: list[Held] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.observed, self.now = self.situation.observed, self.situation.now
        self.policy, self.room = self.situation.policy, self.situation.room
        self.stops = self.situation.stops
        self.nodes = self.observed.snapshot.by_uuid

    def _hold(self, incident: Incident, why: Reason) -> None:
        self.held.append(Held(why, incident.name, incident.id))

    def go_on(self, incident: Incident) -> None:
        mine = [i for i in self.ledger.intents if i.incident == incident.id]
        theirs = [
            i for i in self.ledger.intents if i.node == incident.name and i.incident != incident.id
        ]
        if theirs:
            job = str(theirs[0].job)
            why = because(Kind.WAITS_FOR_JOB, incident.name, job=job, there="there")
            self._hold(incident, why)
            return
        if any(not isinstance(i.action, MovePrimary | MoveSecondary) for i in mine):
            return  # nothing runs beside it
        # A pause stops new work: running moves end, and no more start.
        stop = (
            admission.may_go_on(incident, self.observed, self.stops.incidents)
            or _to_be_tried_again(incident, self.now)
            or self.stops.closed.get(incident.name)
        )
        if stop is None and incident.node not in self.room.in_work:
            node = self.nodes[incident.node]
            stop = admission.no_room_in_work(node, self.room, self.policy)
        if stop:
            self._hold(incident, stop)
            return
        self._take(incident, self._next(incident, len(mine)))

    def begin(self, incident: Incident) -> None:
        node = self.nodes[incident.node]
        why = (
            self.why_not(incident)
            or self._left_to_queue(incident, node)
            or admission.no_room_in_work(node, self.room, self.policy)
            or self.room.why_claimed(node.name, incident.id)
        )
        if why:
            self._hold(incident, why)
            return
        self._take(incident, self._next(incident, 0))

    def why_not(self, incident: Incident) -> Reason | None:
        """Why work on a detected incident may not start, no matter who would do it."""
        rule = referral.referral_of(incident, self.observed.snapshot, self.policy)
        referred = rule is not None
        return (
            admission.may_go_on(incident, self.observed, self.stops.incidents)
            or admission.may_begin_there(incident, self.ledger, self.observed, referred=referred)
            or admission.failed_before(incident, self.ledger, self.policy)
            or admission.may_begin(incident, self.ledger, self.policy, self.stops.closed, self.now)
            or self.situation.owners[Work.INCIDENT].get(incident.node)
        )

    def _left_to_queue(self, incident: Incident, node: Node) -> Reason | None:
        rule = referral.referral_of(incident, self.observed.snapshot, self.policy)
        return referral.reason_of(rule, node, self.ledger.queue) if rule is not None else None

    def _next(self, incident: Incident, under_way: int) -> NextSteps:
        node = self.nodes[incident.node]
        policy = self.situation.policy_of(node)
        if policy.acts:
            return next_steps(incident, node, self.room, policy, under_way)
        # A person who lets it evacuate the node decides whether that goes offline.
        steps = next_steps(incident, node, self.room, replace(policy, offline=False), under_way)
        outage = self.ledger.outage(incident.node)
        ordered = outage is not None and outage.wanted is not None
        if ordered and incident.diagnosis.need >= Need.EVACUATE:
            return steps
        return _within_stage(incident, steps, policy.stage)

    def _take(self, incident: Incident, steps: NextSteps) -> None:
        for why in (*steps.obstacles, *steps.beyond):
            self._hold(incident, why)
        if not steps.steps:
            return
        if incident.diagnosis.need is Need.LIVE_REPAIR and not incident.repaired:
            # Its mark, too, waits: a repair that has begun keeps all other work off the node.
            # Ganeti tells a new master of no order: those wait for certainty about the ledger.
            doubt = self.stops.doubt if self.observed.uncertain is not None else None
            refused = doubt or admission.no_orders(incident.name, self.observed)
            if refused is not None:
                self._hold(incident, refused)
                return
        taken = self.room.take(incident.name, OfIncident(incident.id))
        if isinstance(taken, Reason):
            self._hold(incident, taken)
            return
        self.room.in_work.add(incident.node)
        self.ledger = steps.promise(taken, self.ledger, self.now)
        self._started(incident)

    def _started(self, incident: Incident) -> None:
        started = lifecycle.seen_out(incident.after(StatusEvent.STARTED, self.now), self.nodes)
        ledger = self.ledger
        if incident.status is Status.NOTED:
            ledger = begin(ledger, self.nodes[incident.node], OfIncident(incident.id))
            begun = Begun(incident.node, self.now, incident.id, incident.diagnosis.need)
            ledger = replace(ledger, begun=(*ledger.begun, begun))
        self.ledger = ledger.with_incident(started)
