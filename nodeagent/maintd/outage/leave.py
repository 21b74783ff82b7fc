"""Nodes taken out of service for a window, a person or a roll: drained, evacuated, offline. Pure.

What keeps a node back is told by those who claim it; here are the steps that they share.
"""

from dataclasses import dataclass, field, replace

from nodeagent.maintd.outage.claims import begin, why_under_repair
from nodeagent.maintd.planning.effects import is_seen
from nodeagent.maintd.planning.evacuation import NodeToEvacuate, empty
from nodeagent.maintd.planning.evacuation_moves import NextSteps
from nodeagent.maintd.planning.outcomes import BACK_OFF
from nodeagent.maintd.planning.situation import Situation
from nodeagent.model.action import MovePrimary, MoveSecondary, SetOffline, describe
from nodeagent.model.ledger import Intent, Ledger, Outcome
from nodeagent.model.outage import Wanted
from nodeagent.model.purpose import OfPerson, OfRoll, OfWindow
from nodeagent.model.reason import Held, Kind, Reason, because
from nodeagent.model.snapshot import Node, Observed
from nodeagent.model.units import Ms


@dataclass(frozen=True, slots=True)
class StepFailure:
    """A step that failed, and whether that ends the work at the node."""

    why: str
    ends: bool


def fault(intent: Intent, observed: Observed) -> StepFailure | None:
    """Return the failure of an intent; None if it runs, or has succeeded.

    A failed move ends the work at its node; a refused change of its role is tried again.
    """
    what = describe(intent.action)
    if intent.id in observed.absent:
        return StepFailure(f"{what}: {observed.absent[intent.id]}", ends=False)
    result = observed.results.get(intent.id)
    if result is None or result.outcome not in (Outcome.ERROR, Outcome.LATER):
        return None
    if is_seen(intent.action, observed.snapshot):
        return None  # such as a move of an instance that somebody has removed
    if result.outcome is Outcome.LATER:
        return StepFailure(f"job {intent.job} ({what}): {result.why}", ends=False)
    moves = isinstance(intent.action, MovePrimary | MoveSecondary)
    return StepFailure(f"job {intent.job} ({what}) failed: {result.why}", ends=moves)


@dataclass(frozen=True, slots=True)
class Leaving:
    """A node that leaves service for `claim`, `offline` at the end if so.

    `begun` tells that work there has begun for it, `drained` that the node was seen out of service
    since. `obstacle` says why its steps wait, if they do. Without `secondaries` only what runs
    there moves.
    """

    node: Node
    claim: OfWindow | OfPerson | OfRoll
    offline: bool
    begun: bool
    drained: bool
    obstacle: Reason | None
    secondaries: bool = True


@dataclass
class LeaveOutcome:
    """The ledger after a node's steps of this round, what blocks it, and whether it has begun.

    `done` tells that nothing is left to do.
    """

    ledger: Ledger
    begun: bool = False
    done: bool = False
    held: list[Reason] = field(default_factory=list)


def leave(leaving: Leaving, ledger: Ledger, situation: Situation) -> LeaveOutcome:
    """Take the next steps at a node: drain it, move its instances, take it offline."""
    node, claim, room = leaving.node, leaving.claim, situation.room
    outcome = LeaveOutcome(ledger, leaving.begun)
    mine = [intent for intent in ledger.intents if intent.purpose == claim]
    if any(not isinstance(intent.action, MovePrimary | MoveSecondary) for intent in mine):
        return outcome  # nothing runs beside it
    if node.offline and not mine:
        outcome.done = True
        return _begun(outcome, leaving)
    why = leaving.obstacle or room.why_claimed(node.name, claim.owner)
    if why is None and (doubt := situation.observed.doubts.get(node.name)):
        why = because(Kind.DOUBT, node.name, doubt=doubt)
    if why is not None:
        outcome.held.append(why)
        return outcome
    wanted = NodeToEvacuate(
        claim.owner,
        node,
        begun=leaving.begun,
        drained=leaving.drained,
        secondaries=leaving.secondaries,
    )
    steps = empty(wanted, room, situation.policy_of(node), len(mine))
    outcome.held += steps.obstacles
    if steps.steps:
        return _promised(outcome, leaving, steps, situation)
    if steps.obstacles or mine:
        return outcome
    if not leaving.offline:
        outcome.done = True
        return _begun(outcome, leaving)
    steps.add(SetOffline(node.name, promote=node.candidate))
    return _promised(outcome, leaving, steps, situation)


def _begun(outcome: LeaveOutcome, leaving: Leaving) -> LeaveOutcome:
    outcome.ledger = begin(outcome.ledger, leaving.node, leaving.claim)
    outcome.begun = True
    return outcome


def _promised(
    outcome: LeaveOutcome, leaving: Leaving, steps: NextSteps, situation: Situation
) -> LeaveOutcome:
    taken = situation.room.take(leaving.node.name, leaving.claim)
    if isinstance(taken, Reason):
        outcome.held.append(taken)
        return outcome
    outcome = _begun(outcome, leaving)
    outcome.ledger = steps.promise(taken, outcome.ledger, situation.now)
    return outcome


# Nodes that a person wants evacuated.


def remember_wanted(ledger: Ledger, observed: Observed, now: Ms) -> Ledger:
    """Record how the evacuations that people asked for went, before the jobs settle."""
    if not any(outage.wanted is not None for outage in ledger.outages):
        return ledger
    nodes = observed.snapshot.by_uuid
    faults: dict[str, StepFailure] = {}
    for intent in ledger.intents:
        if intent.purpose.person and (failed := fault(intent, observed)) is not None:
            faults.setdefault(intent.purpose.person, failed)  # its followers fail after it
    outages = tuple(
        replace(
            outage,
            wanted=_remembered(outage.wanted, nodes.get(outage.node), faults.get(outage.node), now),
        )
        if outage.wanted is not None
        else outage
        for outage in ledger.outages
    )
    return replace(ledger, outages=outages)


def _remembered(wanted: Wanted, node: Node | None, failed: StepFailure | None, now: Ms) -> Wanted:
    if node is not None and wanted.begun and node.is_out:
        wanted = replace(wanted, drained=True)
    if failed is None:
        return wanted
    if failed.ends:
        return replace(wanted, stopped=failed.why)
    return replace(wanted, not_before=now + BACK_OFF, failure=failed.why)


def evacuate_wanted(ledger: Ledger, situation: Situation) -> tuple[Ledger, list[Held]]:
    """Take the next steps at every node that a person wants evacuated, the oldest request first."""
    nodes, held = situation.observed.snapshot.by_uuid, list[Held]()
    wanted = [outage for outage in ledger.outages if outage.wanted is not None]
    for outage in sorted(
        wanted, key=lambda outage: (outage.wanted.at if outage.wanted else 0, outage.node)
    ):
        node, person = nodes[outage.node], outage.wanted
        assert person is not None
        why = (
            why_under_repair(ledger, node)
            or _obstacle(person, node, situation.now)
            or situation.stops.maintenance.at(node.name)
        )
        leaving = Leaving(
            node, OfPerson(node.uuid), person.offline, person.begun, person.drained, why
        )
        outcome = leave(leaving, ledger, situation)
        held += [Held(reason, node.name) for reason in outcome.held]
        ledger = outcome.ledger
        if outcome.begun and not person.begun:
            begun = replace(person, begun=True)  # the claim of a person leaves its outage as it is
            ledger = ledger.with_outage(replace(outage, wanted=begun))
    return ledger, held


def _obstacle(wanted: Wanted, node: Node, now: Ms) -> Reason | None:
    if wanted.stopped:
        return because(Kind.EVACUATION_STOPPED, node.name, who=wanted.who, why=wanted.stopped)
    if (remaining := wanted.not_before - now) > 0:
        return because(Kind.TRY_AGAIN, node.name, left=remaining, why=wanted.failure)
    return None
