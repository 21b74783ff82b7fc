"""Promises about nodes out of service, as code: `decide` holds each of its decisions to them. Pure.

1. No node returns while somebody else wants it out of service.
2. No job starts at a node where another owner's work goes on.
3. What somebody else did to a node is not undone without a person's word.
4. A node that is out of service by our own jobs alone is named, with the command that helps.
5. A node that nobody asks anything of is not remembered.
6. No planned job exceeds a disruption budget, but for dead nodes and `evacuate-failover`.
7. No node begins in a roll that has as many away as it may have.
8. A roll's command is ordered at a node that is out of service and empty; with secondaries that
   stay, no instance runs there. With `degraded` those stay that have nowhere to go.
"""

from collections.abc import Iterable, Mapping

from nodeagent.maintd.outage.claims import Claims, away_for
from nodeagent.maintd.planning.budgets import Budgets, budget_tags
from nodeagent.maintd.planning.tag_settings import with_tags
from nodeagent.model.action import (
    Drain,
    MovePrimary,
    MoveSecondary,
    Restore,
    RunCommand,
    SetOffline,
    move_of,
)
from nodeagent.model.diagnosis import Need
from nodeagent.model.incident import Status
from nodeagent.model.ledger import Decision, Intent, Ledger, Policy
from nodeagent.model.purpose import OfFencing, OfIncident, OfReturn
from nodeagent.model.roll import Phase
from nodeagent.model.snapshot import Node, Observed

_OF_ONE_OWNER = (Drain, SetOffline, Restore, MovePrimary, MoveSecondary)


def check_invariants(
    before: Ledger, decision: Decision, observed: Observed, policy: Policy
) -> None:
    """Raise AssertionError if a decision breaks a promise: that is a bug of ours."""
    ledger, known = decision.ledger, {intent.id for intent in before.intents}
    new = [intent for intent in ledger.intents if intent.id not in known]
    nodes, claims = observed.snapshot.nodes, Claims(ledger)
    for intent in new:
        if isinstance(intent.action, Restore) and intent.node in nodes:
            _check_return(intent, nodes[intent.node], ledger, claims)
    _check_owners(new, ledger, nodes)
    _check_told(decision, observed, claims)
    _check_remembered(ledger, observed, claims)
    _check_budgets(new, ledger, observed)
    _check_roll(before, ledger)
    for intent in new:
        if intent.purpose.roll and isinstance(intent.action, RunCommand):
            _check_command(intent, ledger, observed, policy)


def _check_roll(before: Ledger, ledger: Ledger) -> None:
    roll, old = ledger.roll, before.roll
    if roll is None or roll == old:
        return
    waited = roll.nodes if old is None or old.number != roll.number else old.nodes
    in_line = {
        roll_node.node for roll_node in waited if roll_node.in_line or old is None or old.over
    }
    begun = [
        member.name
        for member in roll.nodes
        if member.phase is Phase.LEAVING and member.node in in_line
    ]
    away = [member.name for member in away_for(ledger)]
    assert not (begun and len(away) > roll.terms.at_once), f"{begun} begin in a roll; away: {away}"


def _check_command(intent: Intent, ledger: Ledger, observed: Observed, policy: Policy) -> None:
    node = observed.snapshot.nodes[intent.node]
    assert node.is_out, f"a roll's command is ordered at {node.name}, which is in service"
    stay = ledger.roll is not None and ledger.roll.terms.keep_secondaries
    degraded = with_tags(policy, observed.snapshot, node).degraded
    for instance in observed.snapshot.instances.values():
        here = instance.primary == node.name and (instance.running or not stay)
        here |= node.name in instance.others and not (stay or degraded)
        assert not here, f"a roll's command is ordered at {node.name}, where {instance.name} is"


def _check_return(intent: Intent, node: Node, ledger: Ledger, claims: Claims) -> None:
    outage = ledger.outage(node.uuid)
    assert outage is not None, f"{node.name} returns, and nobody knows from what"
    back = outage.back
    assert back is not None, f"{node.name} returns, and nobody asked for it"
    ends = (OfIncident, OfFencing) if back.reported else ()
    others = [claim for claim in claims.of(node) if not isinstance(claim, ends)]
    assert not others, f"{node.name} returns while others want it out of service: {others}"
    working = [i for i in ledger.incidents if i.node == node.uuid and i.status is Status.PENDING]
    assert not working, f"{node.name} returns while incident {working[0].id} is at work there"
    if back.reported:
        return
    assert isinstance(intent.action, Restore)
    drained = intent.action.drained or outage.drained_by
    assert drained, f"{node.name} returns to service, and somebody else has drained it"
    offline = outage.offline_by or not node.offline
    assert offline, f"{node.name} returns, and somebody else has marked it offline"


def _check_owners(new: Iterable[Intent], ledger: Ledger, nodes: Mapping[str, Node]) -> None:
    at_work: dict[str, set[str]] = {}
    for intent in ledger.intents:
        if isinstance(intent.action, _OF_ONE_OWNER):
            at_work.setdefault(intent.node, set()).add(intent.owner)
    for intent in new:
        node = nodes.get(intent.node)
        fenced = isinstance(intent.purpose, OfFencing) or (node is not None and node.offline)
        if fenced or not isinstance(intent.action, _OF_ONE_OWNER):
            continue  # a dead node has no other owner any more
        owners = at_work[intent.node]
        back = isinstance(intent.purpose, OfReturn)
        assert len(owners) == 1, f"several work at {intent.node}: {owners}, returns: {back}"


def _check_told(decision: Decision, observed: Observed, claims: Claims) -> None:
    ledger, nodes = decision.ledger, observed.snapshot.by_uuid
    held_nodes = {held.node for held in decision.held}
    working = {intent.node for intent in ledger.intents}
    active = {incident.node for incident in ledger.incidents if incident.status.active}
    for outage in ledger.outages:
        node = nodes.get(outage.node)
        if node is None or not (node.is_out and outage.ours):
            continue
        named = node.name in held_nodes or node.name in working
        begun = node.uuid in active
        waits = begun or outage.back is not None or claims.of(node)
        assert named or waits, f"nobody says why {node.name} is out of service"


def _check_remembered(ledger: Ledger, observed: Observed, claims: Claims) -> None:
    nodes = observed.snapshot.by_uuid
    for outage in ledger.outages:
        node = nodes[outage.node]
        needed = claims.need(outage, node)
        assert needed, f"{node.name} is remembered, and nobody asks anything of it"


def _check_budgets(new: Iterable[Intent], ledger: Ledger, observed: Observed) -> None:
    """Count again, in the order of the plans."""
    instances = observed.snapshot.instances
    plans = [(intent, move) for intent in new if (move := move_of(intent.action)) is not None]
    names = {move.instance for _, move in plans} & instances.keys()
    if not any(budget_tags(instances[name].tags) for name in names):
        return
    budgets, planned = Budgets.of(observed), {intent.id for intent, _ in plans}
    for intent in ledger.intents:
        move = move_of(intent.action)
        instance = None if move is None else instances.get(move.instance)
        if move is None or instance is None:
            continue
        if intent.id in planned and not _is_urgent(intent, ledger):
            allowed = budgets.allow(move, instance)
            assert allowed == move, f"{move} for {intent.owner} exceeds a budget: {allowed}"
        budgets.plan(move, instance, intent.owner)


def _is_urgent(intent: Intent, ledger: Ledger) -> bool:
    """Tell whether a job waits for no budget."""
    incident = ledger.incident(intent.incident)
    fails = incident is not None and incident.diagnosis.need is Need.EVACUATE_FAILOVER
    return fails or isinstance(intent.purpose, OfFencing)
