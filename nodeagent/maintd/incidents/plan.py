"""Planner of incidents: give each node with an incident its next steps. Pure.

Admission decides whether work may start or continue, and the Room holds the nodes left for it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from nodeagent.maintd.incidents import lifecycle, referral
from nodeagent.maintd.incidents.steps import next_steps
from nodeagent.maintd.outage.claims import begin
from nodeagent.maintd.planning import admission
from nodeagent.maintd.planning.evacuation_moves import NextSteps
from nodeagent.maintd.planning.holds import held_incidents
from nodeagent.maintd.planning.outcomes import worst_per_node
from nodeagent.maintd.planning.resources import Room
from nodeagent.maintd.planning.tag_settings import with_tags
from nodeagent.model.action import (
    Action,
    Drain,
    MovePrimary,
    MoveSecondary,
    Retag,
    RunCommand,
    describe,
)
from nodeagent.model.diagnosis import Need
from nodeagent.model.incident import Incident, Status, StatusEvent
from nodeagent.model.ledger import Begun, Intent, Ledger, Outcome, Policy, Result
from nodeagent.model.purpose import (
    OfEntry,
    OfIncident,
    OfNotices,
    OfOwners,
    OfPerson,
    OfRoll,
    OfWindow,
)
from nodeagent.model.queue import INCIDENTS
from nodeagent.model.reason import Held, Kind, Reason, StageKind, because
from nodeagent.model.sick import Sick
from nodeagent.model.snapshot import Node, Observed
from nodeagent.model.stage import DRAIN
from nodeagent.model.units import Ms


def _lost(intent: Intent, result: Result, ledger: Ledger) -> Reason:
    action, then, what = intent.action, _let_go(intent, ledger), describe(intent.action)
    # A check of the repair queue belongs to no node.
    node = action.node if isinstance(action, RunCommand) else intent.node
    if isinstance(action, RunCommand) and result.why:
        return because(Kind.LOST_ORDER, node, what=what, why=result.why, then=then)
    return because(Kind.LOST_JOB, node, job=intent.job, what=what, then=then)


def _let_go(intent: Intent, ledger: Ledger) -> str:
    match intent.purpose:
        case OfOwners():
            return "wait: maintd tells owners again"
        case OfNotices():
            return "wait: maintd sends the notification again"
        case OfWindow(node) if any(scheduled.node == node for scheduled in ledger.scheduled):
            return "change its window"
        case OfEntry(index):
            return f"gnt-maint queue delete {index}"
        case OfRoll(node) if _is_in_roll(node, ledger):
            return f"gnt-maint roll skip {intent.node}"
        case OfPerson():
            return f"gnt-maint evacuate {intent.node} again, or gnt-maint done {intent.node}"
        case OfRoll() | OfWindow():
            return f"gnt-maint done {intent.node}"
        case _:
            return "gnt-maint retry or cancel"


def _is_in_roll(node: str, ledger: Ledger) -> bool:
    member = None if ledger.roll is None else ledger.roll.member(node)
    return member is not None and member.claims


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


@dataclass
class Planner:
    """The incidents of one round. `paused` are the nodes without new work: reasons by name.

    `owners` says why owners of instances block the evacuation of a node (a UUID).

    Nodes in work at the start of the round stay `busy`, whatever earlier planners do.
    """

    ledger: Ledger
    observed: Observed
    policy: Policy
    now: Ms
    room: Room
    paused: Mapping[str, Reason]
    owners: Mapping[str, Reason]

    def __post_init__(self) -> None:
        self.held: list[Held] = []
        self.nodes = self.observed.snapshot.by_uuid
        self.holds = held_incidents(self.ledger, self.observed.snapshot)
        # A node with a running job is in work, whatever its incident's state.
        names = self.observed.snapshot.nodes
        self.busy = {
            names[intent.node].uuid
            for intent in self.ledger.intents
            if intent.incident and intent.node in names and not self._unheard(intent)
        }

    def _unheard(self, intent: Intent) -> bool:
        """Check whether the state is unknown: a lost job, or an order to a node in doubt."""
        result = self.observed.results.get(intent.id)
        if result is not None:
            return result.outcome is Outcome.LOST
        action = intent.action
        return isinstance(action, RunCommand) and action.node in self.observed.doubts

    def referred(self) -> Mapping[str, tuple[Sick, ...]]:
        """The incidents that are left to the repair queue, and on which work may start."""
        if not self.policy.procedures.incidents:
            return {}
        snapshot = self.observed.snapshot
        worst = sorted(worst_per_node(self.ledger).values(), key=lambda i: (i.noted_at, i.id))
        return {
            INCIDENTS: tuple(
                referral.report(incident, rule, snapshot)
                for incident in worst
                if (rule := referral.referral_of(incident, snapshot, self.policy)) is not None
                and self._why_not(incident) is None
            )
        }

    def plan(self, ledger: Ledger) -> Ledger:
        """Plan started incidents first: nobody else gets what they need."""
        self.ledger = ledger
        self._tell_lost()
        order = sorted(worst_per_node(self.ledger).values(), key=lambda i: (i.noted_at, i.id))
        for incident in order:
            if incident.status is Status.PENDING:
                self._go_on(incident)
        for incident in order:
            if incident.status is Status.NOTED:
                self._begin(incident)
        return self.ledger

    def _tell_lost(self) -> None:
        for intent in self.ledger.intents:
            result = self.observed.results.get(intent.id)
            if result is not None and result.outcome is Outcome.LOST:
                self._hold(intent.node, intent.incident, _lost(intent, result, self.ledger))
            elif self._unheard(intent) and not intent.purpose.roll:  # silence is expected there
                assert isinstance(intent.action, RunCommand)
                node, what = intent.action.node, describe(intent.action)
                doubt = self.observed.doubts[node]
                why = because(Kind.SILENT_ORDER, node, what=what, doubt=doubt)
                self._hold(intent.node, intent.incident, why)

    def _hold(self, node: str, incident: str, why: Reason) -> None:
        self.held.append(Held(why, node, incident))

    def _go_on(self, incident: Incident) -> None:
        mine = [i for i in self.ledger.intents if i.incident == incident.id]
        theirs = [
            i for i in self.ledger.intents if i.node == incident.name and i.incident != incident.id
        ]
        if theirs:
            job = str(theirs[0].job)
            why = because(Kind.WAITS_FOR_JOB, incident.name, job=job, there="there")
            self._hold(incident.name, incident.id, why)
            return
        if any(not isinstance(i.action, MovePrimary | MoveSecondary) for i in mine):
            return  # nothing runs beside it
        # A pause stops new work: running moves end, and no more start.
        stop = (
            admission.may_go_on(incident, self.observed, self.holds)
            or _to_be_tried_again(incident, self.now)
            or self.paused.get(incident.name)
        )
        if stop is None and incident.node not in self.busy:
            node = self.nodes[incident.node]
            stop = admission.no_room_in_work(node, self.busy, self.nodes, self.policy)
        if stop:
            self._hold(incident.name, incident.id, stop)
            return
        self._take(incident, self._next(incident, len(mine)))

    def _begin(self, incident: Incident) -> None:
        node = self.nodes[incident.node]
        why = (
            self._why_not(incident)
            or self._left_to_queue(incident, node)
            or admission.no_room_in_work(node, self.busy, self.nodes, self.policy)
            or self.room.why_claimed(node.name, incident.id)
        )
        if why:
            self._hold(incident.name, incident.id, why)
            return
        self._take(incident, self._next(incident, 0))

    def _why_not(self, incident: Incident) -> Reason | None:
        """Why work on a detected incident may not start, no matter who would do it."""
        rule = referral.referral_of(incident, self.observed.snapshot, self.policy)
        referred = rule is not None
        return (
            admission.may_go_on(incident, self.observed, self.holds)
            or admission.may_begin_there(incident, self.ledger, self.observed, referred=referred)
            or admission.failed_before(incident, self.ledger, self.policy)
            or admission.may_begin(incident, self.ledger, self.policy, self.paused, self.now)
            or self.owners.get(incident.node)
        )

    def _left_to_queue(self, incident: Incident, node: Node) -> Reason | None:
        rule = referral.referral_of(incident, self.observed.snapshot, self.policy)
        return referral.reason_of(rule, node, self.ledger.queue) if rule is not None else None

    def _next(self, incident: Incident, under_way: int) -> NextSteps:
        node = self.nodes[incident.node]
        policy = with_tags(self.policy, self.observed.snapshot, node)
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
            self._hold(incident.name, incident.id, why)
        if not steps.steps:
            return
        if any(isinstance(step.action, RunCommand) for step in steps.steps):
            refused = admission.no_orders(incident.name, self.observed)
            if refused is not None:
                self._hold(incident.name, incident.id, refused)
                return
        taken = self.room.take(incident.name, OfIncident(incident.id))
        if isinstance(taken, Reason):
            self._hold(incident.name, incident.id, taken)
            return
        self.busy.add(incident.node)
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
