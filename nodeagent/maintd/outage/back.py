"""The way of nodes back to the state that they had: proved, put back, incidents closed. Pure.

1. On a fenced node the check for stale instances comes first, while Ganeti still has it offline and
   starts nothing there: the agent takes the order all the same.
2. maintd brings an offline node back drained, as it polls no offline node.
3. The node owes a proof: a repaired one Ok for `return-after` without a break, and success of
   `return-check`; one whose incident was withdrawn Ok now; one whose window is over no fault.
4. Only then the node takes instances again, and maintd removes the tags of its ended incidents, and
   of its fencing.

What maintd undoes without a person's report is only its own work. If it is unknown whether somebody
else has changed the node since, the node stays as it is, and a line shows the command that helps.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from nodeagent.maintd.outage.claims import Claims, why_under_repair
from nodeagent.maintd.outage.job_queue import doubt, touched
from nodeagent.maintd.outage.waiting import is_anothers, state_of, waiting
from nodeagent.maintd.planning.admission import no_orders
from nodeagent.maintd.planning.intents import tags_under_way
from nodeagent.maintd.planning.outcomes import TRIES
from nodeagent.maintd.planning.resources import Taken
from nodeagent.maintd.planning.situation import Situation
from nodeagent.model.action import Action, Power, Restore, Retag, RunCommand, Scope
from nodeagent.model.diagnosis import Need
from nodeagent.model.fencing import fenced_tags
from nodeagent.model.incident import Incident, Status
from nodeagent.model.ledger import Intent, Ledger, Policy
from nodeagent.model.outage import STALE, Back, Outage, Proof, Way
from nodeagent.model.purpose import OfFencing, OfIncident, OfReturn, claimant
from nodeagent.model.reason import Held, Kind, Reason, RollKind, because
from nodeagent.model.snapshot import Node, Observed
from nodeagent.model.units import Ms
from nodeagent.model.window import Standing
from nodeagent.protocol.canonical import canonical

_GOALS = {
    Standing.SERVING: "put back into service",
    Standing.DRAINED: "brought back and kept drained",
    Standing.OFFLINE: "closed and kept offline",
}

_WHOLE = (Kind.PROVES, Kind.RETURN_FAILED, Kind.RETURN_CONTRADICTED)  # they say it all
_DOUBTS = (Kind.IN_DOUBT, Kind.UNHEARD)


def put_back(ledger: Ledger, situation: Situation) -> tuple[Ledger, list[Held]]:
    """Give each node on its way back its next step, and say what the others wait for."""
    if not (ledger.outages or ledger.incidents):
        return ledger, []
    work = _Work(ledger, situation)
    for outage in ledger.outages:
        work.go_on(outage)
    work.held += waiting(ledger, situation.observed.snapshot)
    return work.ledger, work.held


def closed(ledger: Ledger, observed: Observed) -> dict[str, Reason]:
    """Say why no work starts on nodes whose window is over, by name: they go back first.

    A node that asks for an evacuation waits for that, and so does one with an incident at work.
    Whoever else wants the node out of service has it: its return waits for them.
    """
    nodes, claims = observed.snapshot.by_uuid, Claims(ledger)
    busy = {i.node for i in ledger.incidents if i.status is Status.PENDING}
    return {
        node.name: because(Kind.IN_WINDOW, node.name)
        for outage in ledger.outages
        if outage.ours and outage.back_by(Way.WINDOW) is not None
        if (node := nodes.get(outage.node)) is not None
        and node.uuid not in busy
        and not claims.of(node)
        and not is_faulty(node, observed)
    }


def is_faulty(node: Node, observed: Observed) -> bool:
    """Check whether the node asks for an evacuation."""
    diagnosis = observed.diagnoses.get(node.name)
    return diagnosis is not None and diagnosis.need > Need.LIVE_REPAIR


@dataclass
class _Work:
    ledger: Ledger
    situation: Situation
    held: list[Held] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.observed, self.now = self.situation.observed, self.situation.now
        self.room, self.stops = self.situation.room, self.situation.stops
        self.nodes, self.claims = self.observed.snapshot.by_uuid, Claims(self.ledger)

    def go_on(self, outage: Outage) -> None:
        node, back = self.nodes[outage.node], outage.back
        if back is None:
            self._tell(outage, node)
        elif back.proves:
            self._return(outage, back, node)
        else:
            self._undo(outage, back, node)

    def _why_claimed(self, node: Node, back: Back) -> Reason | None:
        """Say who else wants the node out of service, or works on it.

        What a person reports repaired waits for neither its ended incidents nor its fencing.
        """
        if any(
            scheduled.node == node.uuid and scheduled.begun for scheduled in self.ledger.scheduled
        ):
            return because(Kind.IN_WINDOW, node.name)
        if back.way is not Way.WINDOW and (why := self.stops.windows.get(node.name)):
            return why
        if why := why_under_repair(self.ledger, node):
            return why
        for claim in self.claims.of(node):
            if not (back.reported and isinstance(claim, OfIncident | OfFencing)):
                return because(Kind.UNDER_REPAIR, node.name, repair=claimant(claim.owner))
        return None

    def _put(self, outage: Outage) -> None:
        kept = (outage if old.node == outage.node else old for old in self.ledger.outages)
        self.ledger = replace(self.ledger, outages=tuple(kept))

    def _drop(self, outage: Outage) -> None:
        kept = tuple(old for old in self.ledger.outages if old.node != outage.node)
        self.ledger = replace(self.ledger, outages=kept)

    def _hold(self, node: Node, why: Reason, incident: str) -> None:
        self.held.append(Held(why, node.name, incident))

    # A node that stays.

    def _tell(self, outage: Outage, node: Node) -> None:
        """Show how to put back a node that no incident keeps out of service."""
        if not self.claims.are_over(outage, node):
            return
        incident = self.ledger.incident(outage.incident)
        canceled = incident is not None and incident.status is Status.CANCELED
        why = because(
            Kind.STAYS,
            node.name,
            state=state_of(node),
            did="took it offline" if outage.offline_by else "drained it",
            incident=outage.incident,
            over="" if not outage.incident else "was canceled" if canceled else "is over",
            why=outage.why,
        )
        self._hold(node, why, outage.incident if incident else "")

    # Our own work, undone.

    def _undo(self, outage: Outage, back: Back, node: Node) -> None:
        roles = self.observed.roles
        if back.unless_touched and roles is not None and outage.drained_by:
            if touched(outage, node, roles):
                self._put(outage.disowned)  # it belongs to somebody else now
                return
            if reason := doubt(outage, self.observed.snapshot, roles):
                stays = replace(outage, back=None, why=reason)
                self._put(stays)
                self._tell(stays, node)
                return
        mine = [intent for intent in self.ledger.intents if self._works(intent, outage, node)]
        if any(isinstance(intent.action, Restore) for intent in mine):
            return
        drained = outage.found is Standing.DRAINED
        if not mine and (not outage.ours or _is_as_found(outage, back, node)):
            stays = replace(outage, back=None)
            self._put(stays)
            self._tell(stays, node)
            return
        if mine:
            why: Reason | None = because(Kind.WAITS_FOR_JOB, node.name, job=str(mine[0].job))
        else:
            why = self._why_not_undone(outage, back, node)
        incident = outage.incident
        purpose = OfIncident(incident) if back.unless_touched else OfReturn(node.uuid)
        taken = why or self.room.take(node.name, purpose)
        if isinstance(taken, Taken):
            self.ledger = taken.promise(self.ledger, Restore(node.name, drained), self.now)
            return
        told_as = because(
            Kind.TO_BE_PUT_BACK,
            node.name,
            goal=_GOALS[outage.found],
            back=back.cause,
            why=taken,
        )
        self._hold(node, told_as, incident if self.ledger.incident(incident) else "")

    def _works(self, intent: Intent, outage: Outage, node: Node) -> bool:
        """Check whether an intent is work at the node that must end first."""
        if outage.incident and intent.incident == outage.incident:
            return True
        return intent.node == node.name and not isinstance(intent.action, Retag | Power)

    def _why_not_undone(self, outage: Outage, back: Back, node: Node) -> Reason | None:
        """Say why the node does not return now; None if it does."""
        if why := self._why_not_yet(node, back) or self._why_claimed(node, back):
            return why
        if back.way is not Way.UNDRAINED:
            stop = self.stops.repairs if back.way is Way.WITHDRAWN else self.stops.maintenance
            if why := stop.at(node.name):
                return why
        if back.way in (Way.WITHDRAWN, Way.WINDOW) and (why := self._why_unhealthy(back, node)):
            return why
        if back.unless_touched and (self.observed.roles is None or not outage.drained_by):
            return because(Kind.UNKNOWN_CHANGES, node.name)
        return None

    def _why_unhealthy(self, back: Back, node: Node) -> Reason | None:
        """Say what is wrong with the node; silence counts only after an incident."""
        diagnosis = self.observed.diagnoses.get(node.name)
        if back.way is Way.WINDOW:
            faulty = is_faulty(node, self.observed)
        elif diagnosis is None:
            return because(Kind.UNHEARD, node.name)
        else:
            faulty = diagnosis.need is not Need.OK
        return because(Kind.NOT_WELL, node.name) if faulty else None

    # A node that owes its proof: a person reports it repaired, or its turn in a roll is over.

    def _return(self, outage: Outage, back: Back, node: Node) -> None:
        purpose = OfReturn(outage.node)
        ended = self._ended(node) if back.reported else []
        if any(intent.purpose == purpose for intent in self.ledger.intents):
            return
        if is_anothers(node, outage) and not back.reported:
            return  # the next round gives it up
        policy = self.situation.policy_of(node)
        going = [i for i in self.ledger.intents if self._works(i, outage, node)]
        if going := [intent for intent in going if not isinstance(intent.action, RunCommand)]:
            ends = because(Kind.WAITS_FOR_JOB, node.name, job=str(going[0].job))
            self._hold(node, self._why_waiting(ends, back, node, policy), "")
            return
        step = self._next(outage, back, node, ended, policy)
        if isinstance(step, RunCommand):
            step = no_orders(node.name, self.observed) or step
        if step is None:
            self._drop(outage)
            if back.reported:
                self._close(node)
            return
        why = step if isinstance(step, Reason) else self._obstacle(back, node)
        taken = why or self.room.take(node.name, purpose)
        if isinstance(taken, Taken):
            assert not isinstance(step, Reason)
            self.ledger = taken.promise(self.ledger, step, self.now)
        else:
            reason = self._why_waiting(taken, back, node, policy)
            self._hold(node, reason, ended[-1].id if ended else "")

    def _ended(self, node: Node) -> list[Incident]:
        """The incidents of the node that its return closes."""
        incidents = (i for i in self.ledger.incidents if i.node == node.uuid)
        return [incident for incident in incidents if not incident.status.active]

    def _why_waiting(self, why: Reason, back: Back, node: Node, policy: Policy) -> Reason:
        patience = policy.return_after + policy.unreachable_after
        if back.reported and why.kind in _DOUBTS and self.now - back.at > patience:
            why = because(Kind.RETURN_FAILED, node.name, why=why)
        if why.kind in _WHOLE:
            return why
        if not back.reported:
            goal = _GOALS[back.to]
            return because(Kind.TO_BE_PUT_BACK, node.name, goal=goal, back=back.cause, why=why)
        goal = _GOALS[back.to] if node.is_out else "closed"
        return because(Kind.RETURN_WAITS, node.name, goal=goal, who=back.who, why=why)

    def _next(
        self, outage: Outage, back: Back, node: Node, ended: Sequence[Incident], policy: Policy
    ) -> Action | Reason | None:
        """Return the next step, or the reason to wait for it; None after the last one."""
        if back.fenced and back.to is not Standing.OFFLINE:
            # Nobody can insist: what started elsewhere may still run here.
            return RunCommand(node.name, STALE, _machine(node, self.observed))
        if node.offline and back.to is not Standing.OFFLINE:
            if not back.reported and node.name not in self.observed.answering:
                return because(Kind.UNHEARD, node.name)
            at_once = back.way is Way.FORCED and back.to is Standing.SERVING
            return Restore(node.name, drained=not at_once)
        returns = node.drained and back.to is Standing.SERVING
        if (returns or back.proof) and (owed := self._proof(back, node, policy)):
            return owed
        if returns:
            return Restore(node.name, candidate=outage.candidate)
        return self._untag(back, node, ended) if back.reported else None

    def _untag(self, back: Back, node: Node, ended: Sequence[Incident]) -> Action | Reason | None:
        """Remove the tags of what has ended on the node."""
        tagged = [i for i in ended if i.status in (Status.COMPLETED, Status.FAILED)]
        under_way = tags_under_way(self.ledger)
        changing = {place.tag for place in under_way if place.name == node.name}
        ours = {i.tag for i in tagged}
        if back.to is not Standing.OFFLINE:
            ours |= {*fenced_tags(node.tags)}
        if tags := tuple(sorted(ours & node.tags - changing)):
            return Retag(Scope.NODE, node.name, remove=tags)
        unset = any(i.status is Status.FAILED and not i.tag_seen for i in tagged)
        return because(Kind.TAG_AWAITED, node.name) if unset or changing else None

    def _proof(self, back: Back, node: Node, policy: Policy) -> RunCommand | Reason | None:
        """Return the check to run, or the missing proof; None once the node has proved healthy."""
        if back.way is Way.FORCED:
            return None
        if doubtful := self.observed.doubts.get(node.name):
            return because(Kind.IN_DOUBT, node.name, doubt=doubtful)
        diagnosis = self.observed.diagnoses.get(node.name)
        if diagnosis is None:
            return because(Kind.UNHEARD, node.name)
        proof = back.proof or Proof(policy.return_after, policy.return_check)
        if proof.boot and self.observed.boots.get(node.name, proof.boot) == proof.boot:
            return because(RollKind.NOT_STARTED_ANEW, node.name)
        if diagnosis.need is not Need.OK:
            if not back.reported:
                return because(Kind.NOT_WELL, node.name)
            return because(
                Kind.RETURN_CONTRADICTED, node.name, need=diagnosis.need.wire, who=back.who
            )
        if (remaining := (back.well or self.now) + proof.quiet - self.now) > 0:
            return because(Kind.PROVES, node.name, left=remaining)
        if proof.check and not back.checked:
            machine = canonical({"name": node.name, "uuid": node.uuid})
            return RunCommand(node.name, proof.check, machine)
        return None

    def _obstacle(self, back: Back, node: Node) -> Reason | None:
        if back.tries >= TRIES:
            return because(Kind.RETURN_FAILED, node.name, why=back.failure)
        # Its own turn closes the node to others, and not to its return.
        stop = self.stops.plans if back.reported else self.stops.maintenance
        here = stop.nodes.get(node.name)
        claimed = self._why_claimed(node, back)
        return stop.everywhere or claimed or here or self._why_not_yet(node, back)

    def _why_not_yet(self, node: Node, back: Back) -> Reason | None:
        if (remaining := back.not_before - self.now) > 0:
            return because(Kind.TRY_AGAIN, node.name, left=remaining, why=back.failure)
        return None

    def _close(self, node: Node) -> None:
        """Close the incidents of a node that stays offline: maintd polls no offline node."""
        if not node.offline:
            return
        kept = (i for i in self.ledger.incidents if i.node != node.uuid or i.status.active)
        self.ledger = replace(self.ledger, incidents=tuple(kept))


def _is_as_found(outage: Outage, back: Back, node: Node) -> bool:
    """Check whether a node is out of service as it was found, and no person wants it back."""
    if outage.found is Standing.OFFLINE:
        return node.offline and not back.unless_touched
    return outage.found is Standing.DRAINED and not node.offline


def _machine(node: Node, observed: Observed) -> str:
    """The node, and which instances may run there, for the check for stale instances."""
    instances = observed.snapshot.instances.values()
    here = sorted(instance.name for instance in instances if instance.primary == node.name)
    mirrors = sorted(i.name for i in instances if node.name in i.others)
    return canonical(
        {"name": node.name, "uuid": node.uuid, "instances": here, "secondaries": mirrors}
    )


def expected(back: Back, policy: Policy) -> Ms | None:
    """Return when (unix ms) the node returns if it stays healthy; None if unknown."""
    proves = back.to is Standing.SERVING and back.online and back.well
    return back.well + policy.return_after if proves and back.way is Way.DONE else None
