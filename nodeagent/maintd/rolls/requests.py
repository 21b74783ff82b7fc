"""Requests about the rolling maintenance: begin, hold, leave out, try again, end. Pure."""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from nodeagent.maintd.outage.claims import release
from nodeagent.maintd.planning.intents import without_lost
from nodeagent.maintd.planning.names import no_such
from nodeagent.maintd.rolls.members import chosen, members
from nodeagent.model.action import RunCommand
from nodeagent.model.ledger import Intent, Ledger
from nodeagent.model.outage import Proof, Way
from nodeagent.model.roll import Phase, Roll, RollNode
from nodeagent.model.snapshot import Observed
from nodeagent.model.units import Ms
from nodeagent.model.wish import CancelRoll, PauseRoll, ResumeRoll, RetryNode, SkipNode, StartRoll

_NONE = "no roll is active: gnt-maint roll start begins one"
Request: TypeAlias = StartRoll | PauseRoll | ResumeRoll | SkipNode | RetryNode | CancelRoll


def grant(ledger: Ledger, asked: Request, who: str, observed: Observed, now: Ms) -> Ledger | str:
    """Return the ledger after a request, or why it is refused."""
    if isinstance(asked, StartRoll):
        return _start(ledger, asked, who, observed, now)
    roll = ledger.open_roll
    if roll is None:
        return _NONE
    match asked:
        case PauseRoll():
            return replace(ledger, roll=replace(roll, paused=who))
        case ResumeRoll():
            return _resume(ledger, roll)
        case CancelRoll():
            ledger = without_lost(ledger, observed, lambda intent: bool(intent.purpose.roll))
            return replace(ledger, roll=replace(roll, canceled=who))
        case SkipNode(node):
            return _at(
                roll,
                node,
                observed,
                lambda member: _skip(ledger, roll, member, who, observed, now),
            )
        case RetryNode(node):
            return _at(roll, node, observed, lambda roll_node: _retry(ledger, roll, roll_node, now))


def _start(ledger: Ledger, asked: StartRoll, who: str, observed: Observed, now: Ms) -> Ledger | str:
    before = ledger.roll
    if before is not None and not before.over:
        return f"a roll of {before.who} is active: see gnt-maint roll status"
    hours = asked.terms.hours
    if hours is not None and hours.zone not in observed.zones:
        return f"time zone {hours.zone} is unknown here"
    nodes = chosen(asked, observed)
    if isinstance(nodes, str):
        return nodes
    command, runs = asked.terms.command, observed.runs
    without = [n.name for n in nodes if n.name in runs and command not in runs[n.name]]
    if without:
        return (
            f"the agent of {without[0]} takes no orders to run {command}: list it under"
            " repair.queue-commands there, and reload nodeagent"
        )
    if asked.terms.keep_secondaries and asked.terms.offline:
        return "a node with secondaries must not be marked offline: leave out one of the two"
    number = 1 if before is None else before.number + 1
    return replace(ledger, roll=Roll(number, who, now, asked.terms, members(nodes, now)))


def _resume(ledger: Ledger, roll: Roll) -> Ledger | str:
    if roll.canceled:
        return f"{roll.canceled} has canceled it: its nodes return"
    if not (roll.paused or roll.stopped):
        return "the roll is neither paused nor stopped"
    failed = next((roll_node for roll_node in roll.nodes if roll_node.phase is Phase.FAILED), None)
    if failed is not None:
        name = failed.name
        return f"{name} has failed: first run gnt-maint roll retry {name}, or skip {name}"
    late = next((member for member in roll.nodes if member.late), None)
    if late is not None:
        name = late.name
        return f"{name} has not returned: mend it, or run gnt-maint roll skip {name}"
    return replace(ledger, roll=replace(roll, paused="", stopped=""))


def _at(
    roll: Roll,
    name: str,
    observed: Observed,
    change: Callable[[RollNode], Ledger | str],
) -> Ledger | str:
    node = observed.snapshot.nodes.get(name)
    if node is None:
        return no_such("node", name)
    member = roll.member(node.uuid)
    return f"{name} is not in the roll" if member is None else change(member)


def _skip(
    ledger: Ledger, roll: Roll, member: RollNode, who: str, observed: Observed, now: Ms
) -> Ledger | str:
    """Leave a node out: it returns if it has left, once it reports Ok."""
    if member.phase.over:
        return f"{member.name} is {member.phase.value} already"
    if member.phase is Phase.RUNNING and not member.late:
        return f"{member.name} runs {roll.terms.command}: wait for it"
    skipped = replace(member.at(Phase.SKIPPED, now, f"left out by {who}"))
    ledger = without_lost(ledger, observed, lambda intent: intent.purpose.roll == member.node)
    after = replace(ledger, roll=roll.put(skipped))
    if member.phase is Phase.RETURNING:
        return _with_less_proof(after, member)
    if not member.claims:
        return after
    # Nobody waits for its order any more, and it is never given again.
    intents = tuple(intent for intent in after.intents if not _is_order(intent, member))
    return release(replace(after, intents=intents), member.node, Way.ROLL, now, Proof())


def _with_less_proof(ledger: Ledger, member: RollNode) -> Ledger:
    """Let a node that returns owe no more than Ok: its machine may never start anew."""
    outage = ledger.outage(member.node)
    if outage is None or outage.back is None or outage.back.way is not Way.ROLL:
        return ledger
    return ledger.with_outage(replace(outage, back=replace(outage.back, proof=Proof())))


def _is_order(intent: Intent, member: RollNode) -> bool:
    return intent.purpose.roll == member.node and isinstance(intent.action, RunCommand)


def _retry(ledger: Ledger, roll: Roll, member: RollNode, now: Ms) -> Ledger | str:
    """Give a failed node its turn once more, from where it stands."""
    if member.late:
        name = member.name
        return f"{name} is only late: mend it, and it returns; or run gnt-maint roll skip {name}"
    if member.phase is not Phase.FAILED:
        return f"{member.name} has not failed: it is {member.phase.value}"
    again = replace(member.at(Phase.LEAVING, now), tries=0, ran_at=Ms(0))
    return replace(ledger, roll=replace(roll.put(again), stopped=""))
