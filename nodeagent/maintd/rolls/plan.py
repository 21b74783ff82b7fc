"""Rolling maintenance: nodes leave in turn, run a command, prove healthy, and return. Pure.

1. A node begins only while nothing speaks against it (`obstacles`), and never more than asked for.
2. Once it is empty its agent runs the command. An order that may or may not have run is never given
   again: where the command reboots, the machine's new start proves it; else a person decides.
3. It owes its proof, and goes back as it was found, like every node out of service (`outage/back`).
4. The first node that fails, or does not return in time, stops the roll. Then, and when it is
   canceled, those that are still leaving go back.
"""

from dataclasses import dataclass, field, replace

from nodeagent.maintd.outage.back import is_faulty
from nodeagent.maintd.outage.claims import Claims, release, why_under_repair
from nodeagent.maintd.outage.leave import Leaving, StepFailure, fault, leave
from nodeagent.maintd.planning.admission import no_orders
from nodeagent.maintd.planning.evacuation import NodeToEvacuate, why_not_wholly
from nodeagent.maintd.planning.outcomes import BACK_OFF, TRIES, is_cut_off
from nodeagent.maintd.planning.resources import Taken
from nodeagent.maintd.planning.situation import Situation
from nodeagent.maintd.planning.tag_settings import with_tags
from nodeagent.maintd.rolls.obstacles import Obstacles
from nodeagent.model.action import RunCommand, SetOffline
from nodeagent.model.asked import some_of
from nodeagent.model.incident import Status
from nodeagent.model.ledger import Intent, Ledger, Outcome, Policy
from nodeagent.model.outage import Outage, Proof, Way
from nodeagent.model.purpose import OfRoll, claimant
from nodeagent.model.reason import Held, Kind, Reason, RollKind, because
from nodeagent.model.roll import MINUTE, Phase, Roll, RollNode
from nodeagent.model.snapshot import Node, Observed, Snapshot
from nodeagent.model.units import Ms
from nodeagent.model.window import Standing
from nodeagent.protocol.canonical import canonical

_DEGRADED = Ms(2 * MINUTE)  # until the next try of a move whose secondary may be degraded
_LEAST = 2  # moves of a node at once: one runs, and one waits for its locks

# Remember.


def remember(ledger: Ledger, observed: Observed, policy: Policy, now: Ms) -> Ledger:
    """Record what became of moves and commands, before the jobs are settled."""
    if ledger.open_roll is None:
        return ledger
    nodes, snapshot = observed.snapshot.by_uuid, observed.snapshot
    for intent in ledger.intents:
        member = _roll(ledger).member(intent.purpose.roll) if intent.purpose.roll else None
        if member is None:
            continue
        if isinstance(intent.action, RunCommand):
            ledger = _with_answer(ledger, member, intent, observed, now)
        elif (failed := fault(intent, observed)) is not None:
            ledger = _with_fault(ledger, member, failed, now)
    roll = _roll(ledger)
    looked_at = tuple(
        member
        if member.phase.over
        else _looked_at(member, nodes.get(member.node), ledger, snapshot, policy, now)
        for member in roll.nodes
    )
    ledger = replace(ledger, roll=replace(roll, nodes=looked_at))
    return _with_late(_with_return(ledger), now)


def _roll(ledger: Ledger) -> Roll:
    assert ledger.roll is not None
    return ledger.roll


def _put(ledger: Ledger, member: RollNode) -> Ledger:
    return replace(ledger, roll=_roll(ledger).put(member))


def _with_fault(ledger: Ledger, member: RollNode, failed: StepFailure, now: Ms) -> Ledger:
    """Fold in a failed step; where secondaries stay, a failed move is tried again.

    The secondaries on a node that has rebooted are degraded until Ganeti's watcher, which runs
    every five minutes, activates them: until then nothing migrates there.
    """
    again = replace(member, not_before=now + BACK_OFF, why=failed.why)
    secondaries_stay = _roll(ledger).terms.keep_secondaries
    if failed.ends and secondaries_stay:
        counted = member.not_before > now
        tries = member.tries if counted else member.tries + 1
        again = replace(again, not_before=now + _DEGRADED, tries=tries)
    ends = failed.ends and not (secondaries_stay and again.tries < TRIES)
    return _put(ledger, member.at(Phase.FAILED, now, failed.why) if ends else again)


def _looked_at(
    member: RollNode,
    node: Node | None,
    ledger: Ledger,
    snapshot: Snapshot,
    policy: Policy,
    now: Ms,
) -> RollNode:
    """Record that a node is gone, out of service, used again, or back."""
    if node is None:
        return member.at(Phase.SKIPPED, now, "it is no longer in the cluster")
    outage = ledger.outage(node.uuid)
    if member.phase is Phase.LEAVING and member.begun:
        if node.offline and not _is_offline_for_roll(node, outage, ledger):
            return member.at(Phase.SKIPPED, now, "somebody has marked it offline")
        is_away = node.offline and outage is not None and outage.offline_by
        if is_away and (used_by := _instances_of(node, snapshot, policy)):
            return member.at(Phase.FAILED, now, f"it is offline, and has {some_of(used_by)}")
        return replace(member, drained=True) if node.is_out else member
    if member.phase is Phase.RETURNING and (outage is None or outage.back is None):
        if node.offline:
            return member.at(Phase.SKIPPED, now, "somebody has marked it offline")
        if outage is not None and outage.wanted is None and _is_drained_anew(node, outage):
            return member.at(Phase.SKIPPED, now, "somebody has drained it")
        return member.at(Phase.DONE, now)
    return member


def _is_offline_for_roll(node: Node, outage: Outage | None, ledger: Ledger) -> bool:
    """Check whether our own job has marked the node offline, or is about to."""
    if outage is not None and outage.offline_by:
        return True
    return any(
        intent.node == node.name and isinstance(intent.action, SetOffline)
        for intent in ledger.intents
    )


def _instances_of(node: Node, snapshot: Snapshot, policy: Policy) -> list[str]:
    """Return who keeps its command back; with `degraded` secondaries do not."""
    stay = with_tags(policy, snapshot, node).degraded
    return sorted(
        instance.name
        for instance in snapshot.instances.values()
        if instance.primary == node.name or (node.name in instance.others and not stay)
    )


def _is_drained_anew(node: Node, outage: Outage) -> bool:
    return node.drained and outage.found is Standing.SERVING


def _with_answer(
    ledger: Ledger, member: RollNode, intent: Intent, observed: Observed, now: Ms
) -> Ledger:
    """Fold in the result of a node's command."""
    if intent.id in observed.absent:
        again = replace(member, not_before=now + BACK_OFF, why=observed.absent[intent.id])
        return _put(ledger, replace(again, phase=Phase.LEAVING, since=now))
    result = observed.results.get(intent.id)
    if result is not None and result.outcome is Outcome.LOST:
        kept = tuple(other for other in ledger.intents if other.id != intent.id)
        return _unknown(replace(ledger, intents=kept), member, "its result is unknown", now)
    if result is None or result.outcome is Outcome.RUNNING:
        return ledger
    match result.outcome:
        case Outcome.SUCCESS:
            return _returning(ledger, member, now)
        case Outcome.LATER if member.tries + 1 < TRIES:
            again = replace(member, tries=member.tries + 1, not_before=now + BACK_OFF)
            return _put(ledger, replace(again, phase=Phase.LEAVING, since=now, why=result.why))
        case _ if is_cut_off(result):  # as a reboot does it
            return _unknown(ledger, member, result.why, now)
        case _:
            return _put(ledger, member.at(Phase.FAILED, now, result.why or "it failed"))


def _unknown(ledger: Ledger, member: RollNode, why: str, now: Ms) -> Ledger:
    """Only a new start of the machine tells that a command of unknown result has run."""
    if _roll(ledger).terms.reboots and member.boot:
        return _returning(ledger, member, now)
    return _put(ledger, member.at(Phase.FAILED, now, why))


def _returning(ledger: Ledger, member: RollNode, now: Ms) -> Ledger:
    terms = _roll(ledger).terms
    boot = member.boot if terms.reboots else ""
    proof = Proof(terms.quiet, terms.check, boot)
    ledger = _put(ledger, member.at(Phase.RETURNING, now))
    return release(ledger, member.node, Way.ROLL, now, proof)


def _with_return(ledger: Ledger) -> Ledger:
    """Record when the last node has returned."""
    roll = _roll(ledger)
    done = (roll_node.since for roll_node in roll.nodes if roll_node.phase is Phase.DONE)
    return replace(ledger, roll=replace(roll, returned_at=max(done, default=Ms(0))))


def _with_late(ledger: Ledger, now: Ms) -> Ledger:
    """Stop the roll at the first node that has failed, or has not returned in time."""
    roll = _roll(ledger)
    patience = roll.terms.return_within
    for member in roll.nodes:
        runs = member.phase in (Phase.RUNNING, Phase.RETURNING)
        if runs and not member.why and now - member.ran_at > patience:
            roll = roll.put(replace(member, why=f"not back after {patience // MINUTE} minutes"))
    failed = next(
        (
            roll_node
            for roll_node in roll.nodes
            if roll_node.phase is Phase.FAILED or roll_node.late
        ),
        None,
    )
    if failed is not None and not roll.stopped:
        roll = replace(roll, stopped=f"{failed.name}: {failed.why}")
    return ledger if roll == ledger.roll else replace(ledger, roll=roll)


def closed(ledger: Ledger, observed: Observed) -> dict[str, Reason]:
    """Why no other work starts on nodes whose command runs, or that return, by name.

    They are silent for a while, as expected. One that is late, or asks for an evacuation, is not
    protected.
    """
    if ledger.open_roll is None:
        return {}
    nodes = observed.snapshot.by_uuid
    busy = {i.node for i in ledger.incidents if i.status is Status.PENDING} | ledger.returning()
    return {
        node.name: because(RollKind.IN_ROLL, node.name)
        for member in ledger.roll_nodes
        if member.phase in (Phase.RUNNING, Phase.RETURNING) and not member.late
        if (node := nodes.get(member.node)) is not None
        and node.uuid not in busy
        and not is_faulty(node, observed)
    }


def to_ask(ledger: Ledger, snapshot: Snapshot) -> frozenset[str]:
    """The nodes that were marked offline for their turn, and may answer again.

    They return even if their turn was taken back, and after the roll is over.
    """
    returning = {outage.node for outage in ledger.outages if outage.back_by(Way.ROLL)}
    nodes = snapshot.nodes.values()
    return frozenset(node.name for node in nodes if node.offline and node.uuid in returning)


# Act.


def go_on(ledger: Ledger, situation: Situation) -> tuple[Ledger, list[Held]]:
    """Give each node its next step, and let further ones begin; say what the others wait for."""
    if ledger.open_roll is None:
        return ledger, []
    work = _Work(ledger, situation)
    work.all()
    return work.ledger, work.held


@dataclass
class _Work:
    ledger: Ledger
    situation: Situation
    held: list[Held] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.observed, self.now = self.situation.observed, self.situation.now
        self.nodes, self.claims = self.observed.snapshot.by_uuid, Claims(self.ledger)

    @property
    def roll(self) -> Roll:
        return _roll(self.ledger)

    def all(self) -> None:
        ends = bool(self.roll.stopped or self.roll.canceled)
        for member in self.roll.nodes:
            if member.phase is Phase.LEAVING and ends:
                self._give_back(member)
            elif member.phase is Phase.LEAVING and member.begun:
                self._leave(member)
        obstacles = Obstacles(self.ledger, self.situation, self._why_stays)
        begin = obstacles.begin()
        for member in self.roll.nodes:
            if member.phase is Phase.LEAVING and member.in_line and member not in begin:
                self._put(RollNode(member.node, member.name, since=self.now))
        for member in begin:
            self._begin(member)
        self.held += obstacles.held
        self._end()

    def _why_stays(self, node: Node) -> Reason | None:
        """Say why a node cannot be emptied to its end now."""
        if not node.in_service:
            return None
        secondaries = not self.roll.terms.keep_secondaries
        wanted = NodeToEvacuate(OfRoll(node.uuid).owner, node, begun=True, secondaries=secondaries)
        return why_not_wholly(wanted, self.situation.room, self.situation.policy_of(node))

    def _begin(self, member: RollNode) -> None:
        """Let a node leave, or try once more with one that could not leave yet."""
        if member.phase is Phase.WAITING:
            boot = self.observed.boots.get(member.name, "")
            member = replace(member.at(Phase.LEAVING, self.now), left_at=self.now, boot=boot)
            self._put(member)
        self._leave(member)

    def _put(self, member: RollNode) -> None:
        self.ledger = _put(self.ledger, member)

    def _hold(self, member: RollNode, why: Reason) -> None:
        self.held.append(Held(why, member.name))

    def _give_back(self, member: RollNode) -> None:
        """Return a node whose command has not begun: it waits for its turn again."""
        waits = RollNode(member.node, member.name, since=self.now)
        self._put(waits if self.roll.stopped else waits.at(Phase.SKIPPED, self.now, "canceled"))
        if member.begun:
            self.ledger = release(self.ledger, member.node, Way.ROLL, self.now, Proof())

    def _leave(self, member: RollNode) -> None:
        node, terms = self.nodes[member.node], self.roll.terms
        obstacle = self._obstacle(member, node)
        leaving = Leaving(
            node,
            OfRoll(node.uuid),
            offline=terms.offline,
            begun=member.begun,
            drained=member.drained,
            obstacle=obstacle,
            secondaries=not terms.keep_secondaries,
        )
        outcome = leave(leaving, self.ledger, self._shared())
        self.ledger = outcome.ledger
        for why in outcome.held:
            self._hold(member, why)
        if outcome.begun and not member.begun:
            member = replace(member, begun=True)
            self._put(member)
        if not (outcome.done and node.is_out):
            return
        if obstacle is not None:  # an offline node has left whatever stops its steps
            self._hold(member, obstacle)
        else:
            self._order(member, node)

    def _shared(self) -> Situation:
        """Return the situation of one node, with the moves shared by all nodes that leave.

        Jobs off one node wait for each other's locks, and Ganeti counts them among the twenty that
        it runs: all of one node's would keep the others waiting, and with them a node's return.
        """
        leaving = sum(member.phase is Phase.LEAVING for member in self.roll.nodes)
        policy = self.situation.policy
        moves = max(policy.moves // max(leaving, 1), min(policy.moves, _LEAST))
        return replace(self.situation, policy=replace(policy, moves=moves))

    def _obstacle(self, member: RollNode, node: Node) -> Reason | None:
        if why := why_under_repair(self.ledger, node):
            return why
        for claim in self.claims.of(node):  # somebody may have a hand in the machine
            if not isinstance(claim, OfRoll):
                return because(Kind.CLAIMED, node.name, who=claimant(claim.owner))
        if (remaining := member.not_before - self.now) > 0:
            return because(Kind.TRY_AGAIN, node.name, left=remaining, why=member.why)
        return self.situation.stops.maintenance.at(node.name)

    def _order(self, member: RollNode, node: Node) -> None:
        """Have the agent of an empty node run the command."""
        if why := no_orders(node.name, self.observed):
            self._hold(member, why)
            return
        boot = self.observed.boots.get(node.name, member.boot)
        if self.roll.terms.reboots and not boot:
            self._hold(member, because(RollKind.ROLL_START_UNKNOWN, node.name))
            return
        taken = self.situation.room.take(node.name, OfRoll(node.uuid))
        if not isinstance(taken, Taken):
            self._hold(member, taken)
            return
        terms = self.roll.terms
        details = {"name": node.name, "uuid": node.uuid, "roll": self.roll.number, "why": terms.why}
        order = RunCommand(node.name, terms.command, canonical(details))
        self.ledger = taken.promise(self.ledger, order, self.now)
        running = replace(member.at(Phase.RUNNING, self.now), boot=boot, ran_at=self.now)
        self._put(running)

    def _end(self) -> None:
        """End the roll once all its nodes are over, or it is canceled and none is away."""
        roll = self.roll
        if roll.canceled:
            for member in roll.nodes:
                if member.phase is Phase.WAITING:
                    self._put(member.at(Phase.SKIPPED, self.now, "canceled"))
        if all(member.phase.over for member in self.roll.nodes):
            self.ledger = replace(self.ledger, roll=replace(self.roll, over_at=self.now))
