"""One round of deciding: the table of contents of the coordinator. Pure.

settle → forget → absorb → admission → steps. Each planner takes nodes from `free` and
hands on what it leaves; a node claimed by an unfinished intent is not free.
"""

from dataclasses import replace

from nodeagent.maintd.incidents import absorb, forget, settle, worst_per_node
from nodeagent.maintd.steps import next_steps
from nodeagent.model.action import Action, AddTag, MoveSecondary
from nodeagent.model.diagnosis import Need
from nodeagent.model.incident import Event, Incident, Status
from nodeagent.model.ledger import Decision, Held, Intent, Ledger, Policy
from nodeagent.model.snapshot import Observed


def decide(ledger: Ledger, observed: Observed, policy: Policy, now: int) -> Decision:
    """Choose this round's intents. Reads no clock, socket, file or global."""
    ledger = settle(ledger, observed.outcomes)
    ledger = forget(ledger, observed)
    ledger = absorb(ledger, observed.diagnoses, now)
    free = _free(ledger, observed)
    ledger, held, free = _work(ledger, observed, policy, free, now)
    return Decision(_tag_failures(ledger, observed), held)


def _free(ledger: Ledger, observed: Observed) -> frozenset[str]:
    """Nodes in service that say they are well and that nobody has claimed."""
    sick = {i.node for i in ledger.incidents if i.status is not Status.CANCELED}
    taken = _claimed(ledger) | sick
    return frozenset(
        name
        for name, node in observed.snapshot.nodes.items()
        if not node.drained and not node.offline
        # Silent, distrusted and doubtful nodes are in no state to be given anything.
        if name in observed.diagnoses and name not in taken
    )


def _claimed(ledger: Ledger) -> set[str]:
    """Nodes that unfinished intents work on, or move something to."""
    targets = {i.action.target for i in ledger.intents if isinstance(i.action, MoveSecondary)}
    return {intent.node for intent in ledger.intents} | targets


def _work(
    ledger: Ledger, observed: Observed, policy: Policy, free: frozenset[str], now: int
) -> tuple[Ledger, tuple[Held, ...], frozenset[str]]:
    """Give each sick node its next steps, as far as admission lets it."""
    worst = worst_per_node(ledger, observed.snapshot)
    busy = {incident.node for incident in worst.values() if incident.status is Status.PENDING}
    claimed = _claimed(ledger)
    failed = {i.node: i.tag for i in ledger.incidents if i.status is Status.FAILED}
    # The storm brake counts whoever nobody has acknowledged yet, emptied or not.
    sick = {i.node for i in ledger.incidents if i.status is not Status.CANCELED}
    held: list[Held] = []
    for incident in sorted(worst.values(), key=lambda i: (i.node not in busy, i.noted_at, i.node)):
        if incident.node in claimed:
            continue
        why = _not_admitted(incident, busy, len(sick), observed, policy, now)
        if incident.node in failed:
            why = f"an earlier repair failed: remove its tag {failed[incident.node]} first"
        if why:
            held.append(Held(incident.node, incident.id, why))
            continue
        busy.add(incident.node)
        steps = next_steps(incident, observed.snapshot, free, policy)
        held += [Held(incident.node, incident.id, why) for why in steps.obstacles]
        if steps.actions:
            ledger = _promise(ledger, incident, steps.actions)
            free -= {a.target for a in steps.actions if isinstance(a, MoveSecondary)}
    return ledger, tuple(held), free


def _not_admitted(
    incident: Incident, busy: set[str], sick: int, observed: Observed, policy: Policy, now: int
) -> str | None:
    if incident.node in observed.doubts and incident.diagnosis.need is Need.LIVE_REPAIR:
        return f"not to be repaired while in doubt: {observed.doubts[incident.node]}"
    if incident.node in busy:
        return None
    if incident.node in observed.doubts:
        return f"not begun while in doubt: {observed.doubts[incident.node]}"
    if incident.noted_at + policy.settle > now:
        return f"settling: noted less than {policy.settle / 1000:g} s ago"
    total = len(observed.snapshot.nodes)
    if sick > max(1, policy.storm * total):
        return f"storm: {sick} of {total} nodes are sick, more than {policy.storm:.0%}"
    if len(busy) >= policy.nodes_in_work:
        return f"{len(busy)} of {policy.nodes_in_work} nodes in work: {', '.join(sorted(busy))}"
    return None


def _promise(ledger: Ledger, incident: Incident, actions: tuple[Action, ...]) -> Ledger:
    number = ledger.round + 1
    intents = tuple(
        Intent(f"{number}.{position}", incident.id, incident.node, action)
        for position, action in enumerate(actions, 1)
    )
    started = incident.after(Event.STARTED)
    incidents = tuple(started if i.id == incident.id else i for i in ledger.incidents)
    return replace(ledger, round=number, incidents=incidents, intents=(*ledger.intents, *intents))


def _tag_failures(ledger: Ledger, observed: Observed) -> Ledger:
    """Tag the nodes of incidents that have failed; the tag is all that is still done for them."""
    for incident in ledger.incidents:
        unfinished = any(intent.incident == incident.id for intent in ledger.intents)
        if incident.status is not Status.FAILED or incident.tag_seen or unfinished:
            continue
        if incident.node in observed.snapshot.nodes:
            number = ledger.round + 1
            tag = AddTag(incident.node, incident.tag)
            intent = Intent(f"{number}.1", incident.id, incident.node, tag)
            ledger = replace(ledger, round=number, intents=(*ledger.intents, intent))
    return ledger
