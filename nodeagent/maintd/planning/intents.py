"""Intents and their jobs; which intents are orders, and which are repeated. Pure."""

from collections.abc import Callable
from dataclasses import replace

from nodeagent.model.action import Power, PowerCommand, Retag, RunCommand, TagPlace
from nodeagent.model.incident import Incident, Status
from nodeagent.model.ledger import Intent, Ledger, Outcome, Result
from nodeagent.model.purpose import OfIncident, Purpose
from nodeagent.model.snapshot import Observed, Snapshot
from nodeagent.model.units import Ms


def is_order(intent: Intent) -> bool:
    return isinstance(intent.action, RunCommand)


def without_claim(
    ledger: Ledger, purpose: Purpose, action: Retag | Power | RunCommand, now: Ms, node: str = ""
) -> Ledger:
    """Return the ledger with one more intent that touches nobody's node or instance.

    These are tags, readings of the power, and commands on the master that are about no node. For
    all else `Room.take` the node.
    """
    reads = isinstance(action, Power) and action.command is PowerCommand.STATUS
    about_none = isinstance(action, RunCommand) and not node
    assert reads or about_none or isinstance(action, Retag), action
    return ledger.promise(purpose, node, action, now)


def tags_set(ledger: Ledger) -> set[TagPlace]:
    """The tags that planned and running jobs set."""
    return {TagPlace(at.scope, at.name, tag) for at in _retags(ledger) for tag in at.add}


def tags_removed(ledger: Ledger) -> set[TagPlace]:
    """The tags that planned and running jobs remove."""
    return {TagPlace(at.scope, at.name, tag) for at in _retags(ledger) for tag in at.remove}


def tags_under_way(ledger: Ledger) -> set[TagPlace]:
    """The tags that planned and running jobs set or remove."""
    return tags_set(ledger) | tags_removed(ledger)


def _retags(ledger: Ledger) -> list[Retag]:
    return [intent.action for intent in ledger.intents if isinstance(intent.action, Retag)]


def with_job(ledger: Ledger, intent: Intent, job: str) -> Ledger:
    """The ledger with the job that an intent has become."""
    noted = replace(intent, job=job)
    return replace(ledger, intents=tuple(noted if i.id == intent.id else i for i in ledger.intents))


def without_lost(ledger: Ledger, observed: Observed, concerns: Callable[[Intent], bool]) -> Ledger:
    """Give up on the lost jobs that this concerns: work goes on from the observed state."""
    lost = {name for name, result in observed.results.items() if result.outcome is Outcome.LOST}
    kept = tuple(i for i in ledger.intents if not (i.id in lost and concerns(i)))
    return ledger if len(kept) == len(ledger.intents) else replace(ledger, intents=kept)


def with_unheard(ledger: Ledger, observed: Observed) -> Observed:
    """The observation in which orders to offline nodes without a result count as lost.

    Somebody has given up the node, and maintd does not poll it, so it is never in doubt.
    """
    offline = {name for name, node in observed.snapshot.nodes.items() if node.offline}
    lost = {
        intent.id: Result(Outcome.LOST, f"{intent.action.node} is offline")
        for intent in ledger.intents
        if isinstance(intent.action, RunCommand)
        and intent.action.node in offline
        and intent.id not in observed.results
    }
    return replace(observed, results={**observed.results, **lost}) if lost else observed


def marked(ledger: Ledger, snapshot: Snapshot) -> list[Incident]:
    """Incidents with a possible order, by the marks on their nodes.

    This excludes incidents with an intent, and those that reported success.
    """
    working = {intent.incident for intent in ledger.intents}
    return [
        i
        for i in ledger.incidents
        if i.status is Status.PENDING
        and not i.repaired
        and i.id not in working
        and (node := snapshot.nodes.get(i.name)) is not None
        and node.uuid == i.node
        and i.mark in node.tags
    ]


def next_order(incident: Incident) -> Intent:
    """The next order for an incident; it is not an intent yet."""
    command = incident.diagnosis.command or "its repair command"  # rebuilt: without it
    action = RunCommand(incident.name, command, incident.diagnosis.text, incident.attempt)
    return Intent("", OfIncident(incident.id), incident.name, action)


def one_more(order: Intent) -> Intent:
    """The order that follows this one, for one more attempt."""
    assert isinstance(order.action, RunCommand)
    return replace(order, action=replace(order.action, attempt=order.action.attempt + 1))


def with_order(ledger: Ledger, order: Intent, job: str, now: Ms) -> Ledger:
    """The ledger with an order that was given but that it does not contain."""
    assert isinstance(order.action, RunCommand)
    ledger = ledger.promise(order.purpose, order.node, order.action, now)
    if (incident := ledger.incident(order.incident)) is not None:
        ledger = ledger.with_incident(replace(incident, attempt=order.action.attempt))
    return with_job(ledger, ledger.intents[-1], job)
