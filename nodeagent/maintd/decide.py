"""One round of deciding: the table of contents of the coordinator. Pure.

remember → settle → forget → absorb → withdraw → wishes → series → offers → guards → queue →
admission → steps → windows → auto-repair → balance. Each planner takes what it needs from the room
and hands on what it leaves; a node claimed by an unfinished intent is not free.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from nodeagent.maintd import admission
from nodeagent.maintd.autorepair.jobs import instance_of, remember, survey_of
from nodeagent.maintd.autorepair.survey import place
from nodeagent.maintd.balancing import past_moves as shifted
from nodeagent.maintd.balancing.plan import balance
from nodeagent.maintd.incidents.lifecycle import (
    absorb,
    back_off,
    by_uuid,
    forget,
    rewind,
    settle,
    withdraw,
    worst_per_node,
)
from nodeagent.maintd.ledger import other_master as away
from nodeagent.maintd.owners import notify as announce
from nodeagent.maintd.owners import offers
from nodeagent.maintd.planning.evacuation_moves import Next
from nodeagent.maintd.planning.intents import with_unheard
from nodeagent.maintd.planning.preconditions import others_job
from nodeagent.maintd.planning.resources import Room, open_room
from nodeagent.maintd.planning.tag_settings import faults, with_tags
from nodeagent.maintd.queue import entries, guards, referral
from nodeagent.maintd.queue import plan as turns
from nodeagent.maintd.queue.handover import hand_over
from nodeagent.maintd.steps import next_steps
from nodeagent.maintd.windows import occurrences as recur
from nodeagent.maintd.windows import plan as downtime
from nodeagent.maintd.windows import timing as due
from nodeagent.maintd.wishes import (
    grant,
    held_incidents,
    keep_tags,
    paused,
    release,
    wholly_paused,
)
from nodeagent.model.action import Guarded, MovePrimary, MoveSecondary, RunCommand, describe
from nodeagent.model.diagnosis import Need
from nodeagent.model.incident import Event, Incident, Status
from nodeagent.model.ledger import Begun, Decision, Held, Intent, Ledger, Outcome, Policy, Result
from nodeagent.model.sick import Sick
from nodeagent.model.snapshot import Node, Observed


def decide(ledger: Ledger, observed: Observed, policy: Policy, now: int) -> Decision:
    """Choose this round's intents. Reads no clock, socket, file or global."""
    observed = with_unheard(ledger, observed)
    ledger = back_off(_rewound(ledger, now), observed, now)
    ledger = downtime.remember(ledger, observed, now)
    ledger = shifted.remember(remember(ledger, observed, now), observed, now)
    ledger = announce.remember(ledger, observed, now)
    ledger = entries.remember(ledger, observed, policy, now)
    ledger = settle(ledger, observed, now)
    ledger = forget(ledger, observed, now)
    ledger = absorb(ledger, observed, now)
    policy = with_tags(policy, observed.snapshot)
    ledger = withdraw(ledger, observed, policy, now)
    ledger = out_of_service(ledger, observed)
    ledger = shifted.acknowledge(release(ledger, observed.snapshot), observed.snapshot, now)
    ledger, refused = grant(ledger, observed, now, policy)
    ledger = admission.brake(ledger, observed, policy, now)
    outdated = away.doubt(ledger)
    advanced = recur.Advanced(ledger)
    if outdated is None:
        advanced = recur.advance(ledger, observed, policy, now)
    ledger = downtime.recognise(advanced.ledger, observed.snapshot)
    if outdated is None:
        ledger = offers.ask(ledger, observed.snapshot, now)
    ledger = hand_over(ledger, observed.snapshot, now)
    pauses = {**faults(observed.snapshot), **paused(ledger, observed.snapshot)}
    still = {**pauses, **due.closed(ledger, observed.snapshot, now)}
    work = _Work(ledger, observed, policy, now, open_room(ledger, observed, still), still)
    sick = {**observed.sick, **work.referred()}
    work.announce()
    work.queue(sick)
    work.all()
    work.maintain(pauses)
    work.repair()
    done = balance(work.ledger, observed, policy, work.room, work.unplanned, now)
    ledger = keep_tags(done.ledger, observed, now)
    ledger = shifted.keep_tags(ledger, observed.snapshot, now)
    doubted = () if outdated is None else (Held("", "", outdated),)
    held = (*doubted, *advanced.held, *work.held, *done.held)
    return Decision(_pruned(ledger, policy, now), held, refused, tuple(done.questions), sick)


def _rewound(ledger: Ledger, now: int) -> Ledger:
    ledger = downtime.rewind(rewind(ledger, now), now)
    return announce.rewind(offers.rewind(ledger, now), now)


def out_of_service(ledger: Ledger, observed: Observed) -> Ledger:
    """Note which nodes that are being emptied are out of service, whoever has seen to that.

    One that is back in service after this was put there by somebody, and is not drained again.
    """
    if not ledger.incidents:
        return ledger
    nodes = by_uuid(observed)
    return replace(ledger, incidents=tuple(_seen_out(i, nodes) for i in ledger.incidents))


def _seen_out(incident: Incident, nodes: Mapping[str, Node]) -> Incident:
    node = nodes.get(incident.node)
    emptied = incident.status is Status.PENDING and incident.diagnosis.need >= Need.EVACUATE
    if incident.drained or not emptied or node is None or not (node.drained or node.offline):
        return incident
    return replace(incident, drained=True)


def _pruned(ledger: Ledger, policy: Policy, now: int) -> Ledger:
    kept = tuple(
        b for b in ledger.begun if now - b.at < max(policy.attempts_within, policy.cooldown)
    )
    return ledger if kept == ledger.begun else replace(ledger, begun=kept)


def _lost(intent: Intent, result: Result) -> str:
    what = describe(intent.action)
    if isinstance(intent.action, RunCommand) and result.why:
        return f"no word of what became of {what}: {result.why}"
    return f"job {intent.job} ({what}) cannot be found any more and its effect is not seen"


def _let_go(intent: Intent) -> str:
    if announce.is_for_owners(intent):
        return "wait: owners are told again"
    if intent.window:
        return "change its window"
    index = intent.owner.rpartition(":")[2]
    return f"gnt-maint queue delete {index}" if intent.entry else "gnt-maint retry or cancel"


@dataclass
class _Work:
    """Giving each sick node its next steps, as far as admission and room let it."""

    ledger: Ledger
    observed: Observed
    policy: Policy
    now: int
    room: Room
    paused: dict[str, str]

    def __post_init__(self) -> None:
        self.held: list[Held] = []
        self.nodes = by_uuid(self.observed)
        self.holds = held_incidents(self.ledger, self.observed.snapshot)
        self.failed = {i.node: i.tag for i in self.ledger.incidents if i.status is Status.FAILED}
        # A node that somebody still works on is in work, whatever has become of the incident.
        uuids = {node.name: uuid for uuid, node in self.nodes.items()}
        self.busy = {
            uuids[intent.node]
            for intent in self.ledger.intents
            if intent.incident and intent.node in uuids and not self._unheard(intent)
        }

    @property
    def stopped(self) -> dict[str, str]:
        """The nodes where nothing is begun, with the reason; "" stands for all."""
        storm = self.ledger.storm
        return self.paused | ({} if storm is None else {"": f"storm brake: {storm.why}"})

    @property
    def unplanned(self) -> dict[str, str]:
        """The same for what operators have planned."""
        why = away.doubt(self.ledger)
        return self.stopped if why is None else self.stopped | {"": why}

    def _unheard(self, intent: Intent) -> bool:
        """Whether nobody can tell how it stands: a lost job, or an order to a node in doubt."""
        result = self.observed.results.get(intent.id)
        if result is not None:
            return result.outcome is Outcome.LOST
        action = intent.action
        return isinstance(action, RunCommand) and action.node in self.observed.doubts

    def all(self) -> None:
        """Those begun first: what they need is not given to anybody else."""
        self._tell_lost()
        order = sorted(worst_per_node(self.ledger).values(), key=lambda i: (i.noted_at, i.id))
        for incident in order:
            if incident.status is Status.PENDING:
                self._go_on(incident)
        for incident in order:
            if incident.status is Status.NOTED:
                self._begin(incident)

    def referred(self) -> Mapping[str, tuple[Sick, ...]]:
        """The incidents that are left to the repair queue, and of which something may be begun."""
        if not self.policy.procedures.incidents:
            return {}
        snapshot = self.observed.snapshot
        worst = sorted(worst_per_node(self.ledger).values(), key=lambda i: (i.noted_at, i.id))
        return {
            referral.INCIDENTS: tuple(
                referral.report(incident, left, snapshot)
                for incident in worst
                if (left := referral.referral_of(incident, snapshot, self.policy)) is not None
                and self._why_not(incident) is None
            )
        }

    def queue(self, sick: Mapping[str, tuple[Sick, ...] | str]) -> None:
        """Repair the machines that are reported broken, as far as no incident is at work there."""
        ledger = referral.give_up(self.ledger, self.observed.snapshot)
        admitted = guards.admit(ledger, replace(self.observed, sick=sick), self.policy, self.now)
        self.ledger, shut = admitted.ledger, admitted.shut
        self.held += admitted.held
        if away.doubt(self.ledger) is not None:
            turns.keep_off(self.ledger, self.observed, self.room, self.busy)
            return
        outside = wholly_paused(self.ledger, self.observed.snapshot)
        stopped = turns.Stopped(self.stopped, outside, self.holds)
        done = turns.work_off(
            *(self.ledger, self.observed, self.policy, self.room),
            *(stopped, self.busy, shut, self.now),
        )
        self.ledger = done.ledger
        self.held += done.held

    def maintain(self, pauses: Mapping[str, str]) -> None:
        """Empty, take down and put back the nodes that operators have planned to."""
        storm, outdated = self.ledger.storm, away.doubt(self.ledger)
        braked = {} if storm is None else {"": f"storm brake: {storm.why}"}
        if outdated is not None:
            braked = {"": outdated}
        done = downtime.maintain(
            self.ledger, self.observed, self.policy, self.room, {**pauses, **braked}, self.now
        )
        self.ledger = done.ledger
        self.held += done.held

    def announce(self) -> None:
        """Tell owners what they are asked, when the master's agent runs nothing.

        The queue, which wants it in every round, comes after: all that there is to tell is told
        at once, and a few times at most.
        """
        told = announce.announce(self.ledger, self.observed, self.policy.announcing, self.now)
        self.ledger = told.ledger
        self.held += told.held

    def repair(self) -> None:
        """Repair instances on the nodes that no incident is about."""
        if self.policy.autorepair == "off" or self.ledger.repairs_after > self.now:
            return
        # Whatever a repair has begun there ends, and no other begins; neither where somebody has
        # to look at what has failed.
        for incident in self.ledger.incidents:
            node = self.nodes.get(incident.node)
            if node is not None and (incident.status.active or incident.status is Status.FAILED):
                self.room.claim(node.name, incident.id)
        surveyed = survey_of(self.ledger, self.observed, self.policy, self.now)
        moving = sum(isinstance(i.action, Guarded) for i in self.ledger.intents)
        theirs = {name: others_job(job) for name, job in self.observed.busy.items()}
        stopped = {**theirs, **self.stopped}
        found = place(surveyed, self.room, stopped, self.policy.repairs - moving)
        for one in found.proposed:
            self.ledger = self.ledger.promise("", one.node, one.action, self.now, repair=one.repair)
        under_way = {intent.action for intent in self.ledger.intents}
        for retag in surveyed.expired if self.ledger.tags_after <= self.now else ():
            if retag not in under_way:
                self.ledger = self.ledger.promise("", "", retag, self.now)
        # What nobody has allowed is no matter of ours, what has its job waits for nothing else:
        # `explain` tells of these.
        moved = {instance_of(intent) for intent in self.ledger.intents if intent.repair}
        wanted = [r.instance for r in surveyed.rows if r.wanted and r.instance.name not in moved]
        ours = {instance.name: instance.primary for instance in wanted}
        self.held += [
            Held(ours[name], "", f"instance {name}: {why}")
            for name, why in found.held
            if name in ours
        ]

    def _tell_lost(self) -> None:
        for intent in self.ledger.intents:
            result = self.observed.results.get(intent.id)
            if result is not None and result.outcome is Outcome.LOST:
                why = f"{_lost(intent, result)}: look at {intent.node}, then {_let_go(intent)}"
                self._hold(intent.node, intent.incident, why)
            elif self._unheard(intent):
                assert isinstance(intent.action, RunCommand)
                why = self.observed.doubts[intent.action.node]
                what = describe(intent.action)
                self._hold(intent.node, intent.incident, f"no word of what became of {what}: {why}")

    def _hold(self, node: str, incident: str, why: str) -> None:
        self.held.append(Held(node, incident, why))

    def _go_on(self, incident: Incident) -> None:
        mine = [i for i in self.ledger.intents if i.incident == incident.id]
        theirs = [
            i for i in self.ledger.intents if i.node == incident.name and i.incident != incident.id
        ]
        if theirs:
            self._hold(incident.name, incident.id, f"waiting for job {theirs[0].job} there to end")
            return
        if any(not isinstance(i.action, MovePrimary | MoveSecondary) for i in mine):
            return  # nothing goes beside it
        why = admission.may_go_on(incident, self.observed, self.holds)
        if incident.not_before > self.now:
            seconds = (incident.not_before - self.now) / 1000
            why = why or f"to be tried again in {seconds:.0f} s: {incident.why}"
        if why:
            self._hold(incident.name, incident.id, why)
            return
        # A pause begins nothing new; what moves may arrive, and no more is set off.
        why = self.paused.get(incident.name)
        if why is None and incident.node not in self.busy:
            why = admission.no_room_in_work(incident, self.busy, self.nodes, self.policy)
        if why:
            self._hold(incident.name, incident.id, why)
            return
        self._take(incident, self._next(incident, len(mine)))

    def _begin(self, incident: Incident) -> None:
        node = self.nodes[incident.node]
        why = (
            self._why_not(incident)
            or self._left_to_queue(incident, node)
            or admission.no_room_in_work(incident, self.busy, self.nodes, self.policy)
        )
        if why is None and self.room.claims.get(node.name) is not None:
            why = f"{node.name} is taking part in another repair"
        if why:
            self._hold(incident.name, incident.id, why)
            return
        self._take(incident, self._next(incident, 0))

    def _why_not(self, incident: Incident) -> str | None:
        """Why nothing may be begun for a noted incident, whoever would do it."""
        return (
            admission.may_go_on(incident, self.observed, self.holds)
            or admission.may_begin_there(incident, self.observed)
            or self._failed_before(incident)
            or admission.may_begin(incident, self.ledger, self.policy, self.paused, self.now)
        )

    def _left_to_queue(self, incident: Incident, node: Node) -> str | None:
        left = referral.referral_of(incident, self.observed.snapshot, self.policy)
        return referral.told(left, node, self.ledger.queue) if left is not None else None

    def _failed_before(self, incident: Incident) -> str | None:
        tag = self.failed.get(incident.node)
        return f"an earlier repair failed: remove its tag {tag} first" if tag else None

    def _next(self, incident: Incident, under_way: int) -> Next:
        node = self.nodes[incident.node]
        policy = with_tags(self.policy, self.observed.snapshot, node)
        return next_steps(incident, node, self.room, policy, under_way)

    def _take(self, incident: Incident, found: Next) -> None:
        for why in found.obstacles:
            self._hold(incident.name, incident.id, why)
        if not found.steps:
            return
        self.busy.add(incident.node)
        self.room.claim(incident.name, incident.id)
        ids: list[str] = []
        for step in found.steps:
            after = None if step.after is None else ids[step.after]
            self.ledger = self.ledger.promise(
                incident.id, incident.name, step.action, self.now, after
            )
            ids.append(self.ledger.intents[-1].id)
        self._started(incident)

    def _started(self, incident: Incident) -> None:
        started = _seen_out(incident.after(Event.STARTED, self.now), self.nodes)
        ledger = self.ledger
        if incident.status is Status.NOTED:
            begun = Begun(incident.node, self.now, incident.id, incident.diagnosis.need)
            ledger = replace(ledger, begun=(*ledger.begun, begun))
        self.ledger = replace(
            ledger,
            incidents=tuple(started if i.id == incident.id else i for i in ledger.incidents),
        )
