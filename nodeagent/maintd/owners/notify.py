"""Notify owners of offers by a command of the master's own agent. Pure.

Its standard input has the open offers without a notification, as many at once as it takes: the
agent runs one command at a time, and people would rather read one mail than twenty. What became of
other offers follows.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, TypeVar

from nodeagent.maintd.owners import milestones
from nodeagent.maintd.owners.offer_json import Book, milestone_json, question_json
from nodeagent.maintd.owners.offers import listed
from nodeagent.maintd.planning.intents import without_claim
from nodeagent.model.action import RunCommand
from nodeagent.model.ledger import Intent, Ledger, Outcome, Policy
from nodeagent.model.offer import Announcing, Milestone, Offer, Told
from nodeagent.model.purpose import OfOwners
from nodeagent.model.reason import Held, Kind, because
from nodeagent.model.snapshot import Observed
from nodeagent.model.units import Ms
from nodeagent.protocol.canonical import canonical
from nodeagent.protocol.messages import MOST_STDIN

TRIES = 5  # failures before maintd gives up
BACK_OFF = 60_000  # ms, doubled each time
T = TypeVar("T", Offer, Milestone)


def is_for_owners(intent: Intent) -> bool:
    """Check whether an intent notifies owners."""
    return isinstance(intent.purpose, OfOwners)


def remember(ledger: Ledger, observed: Observed, now: Ms) -> Ledger:
    """Record which owners were notified, and why others were not."""
    for intent in filter(is_for_owners, ledger.intents):
        why = how_ended(intent, observed)
        if why is not None:
            offers = tuple(_after(o, intent, why, now) for o in ledger.offers)
            reached = tuple(_after(milestone, intent, why, now) for milestone in ledger.milestones)
            kept = tuple(other for other in ledger.intents if other is not intent)
            ledger = replace(ledger, offers=offers, milestones=reached, intents=kept)
    return ledger


def how_ended(intent: Intent, observed: Observed) -> str | None:
    """The reason why it failed, "" after success; None while it runs."""
    if intent.id in observed.absent:
        return observed.absent[intent.id]
    result = observed.results.get(intent.id)
    if result is None or result.outcome is Outcome.RUNNING:
        return None
    if result.outcome is Outcome.LOST:
        return "its agent no longer knows it"
    return "" if result.outcome is Outcome.SUCCESS else result.why or result.outcome.value


def _after(offer: T, intent: Intent, why: str, now: Ms) -> T:
    delivery = offer.told
    if delivery.intent != intent.id:
        return offer
    if not why:
        return replace(offer, told=Told(done=True))
    tries = delivery.tries + 1
    return replace(
        offer, told=Told("", tries >= TRIES, tries, now + (BACK_OFF << (tries - 1)), why)
    )


def announce(
    ledger: Ledger, observed: Observed, policy: Policy, now: Ms
) -> tuple[Ledger, list[Held]]:
    """Order a notification, if one is due and the agent is free for it; tell the failures."""
    by = policy.announcing
    if not by.command:
        return ledger, []
    waiting = (o for o in listed(ledger) if o.open and o.instances and o.told.why)
    held = [_held(offer, by, observed) for offer in waiting]
    due, reached = due_offers(ledger, by, now), due_milestones(ledger, by, now)
    if not (due or reached) or not agent_is_free(ledger, observed):
        return ledger, held
    book = Book(ledger, observed.snapshot, policy, now)
    if due:
        notices = fitting(question_json(offer, book) for offer in due)
        document: dict[str, Any] = {"offers": notices}
    else:
        room = MOST_STDIN - len(',"events":[]')
        notices = fitting((milestone_json(milestone, book) for milestone in reached), room)
        document = {"offers": [], "events": notices}
    master = observed.snapshot.master
    action = RunCommand(master, by.command, canonical(document), seconds=by.seconds)
    ledger = without_claim(ledger, OfOwners(), action, now)
    number, ids = ledger.intents[-1].id, {notice["id"] for notice in notices}
    ledger = replace(
        ledger,
        offers=tuple(_ordered(offer, ids, number) for offer in ledger.offers),
        milestones=tuple(_ordered(milestone, ids, number) for milestone in ledger.milestones),
    )
    return ledger, held


def _ordered(milestone: T, ids: set[str], number: str) -> T:
    return (
        replace(milestone, told=replace(milestone.told, intent=number))
        if milestone.id in ids
        else milestone
    )


def agent_is_free(ledger: Ledger, observed: Observed) -> bool:
    """Check whether the master's own agent can take an order."""
    master = observed.snapshot.master
    busy = any(isinstance(i.action, RunCommand) and i.action.node == master for i in ledger.intents)
    return not busy and master in observed.snapshot.nodes and master not in observed.doubts


def due_offers(ledger: Ledger, by: Announcing, now: Ms) -> list[Offer]:
    """The offers to notify of now."""
    if not by.command:
        return []
    new = [o for o in listed(ledger) if o.open and o.instances and not o.told.done]
    return [o for o in new if o.told.after <= now and not o.told.intent]


def due_milestones(ledger: Ledger, by: Announcing, now: Ms) -> list[Milestone]:
    """The milestones to notify of now."""
    waiting = milestones.to_tell(ledger, now) if by.command else []
    new = [milestone for milestone in waiting if not milestone.told.done]
    return [
        milestone for milestone in new if milestone.told.after <= now and not milestone.told.intent
    ]


def fitting(questions: Iterable[dict[str, Any]], limit: int = MOST_STDIN) -> list[dict[str, Any]]:
    """As many as fit into an order; a single one that is too long loses instances at its end."""
    room, kept = limit - len(canonical({"offers": []})), list[dict[str, Any]]()
    for question in questions:
        room -= len(canonical(question)) + 1
        if room < 0 and kept:
            break
        kept.append(question)
        if room < 0:
            return [_shortened(question, -room)]
    return kept


def _shortened(question: dict[str, Any], excess: int) -> dict[str, Any]:
    """Remove instances from its end; `more` is their number.

    It also removes the instances of the earlier answer, which the command can request.
    """
    if (answer := question.get("answer")) is not None:
        short = {**question, "answer": {**answer, "about": []}}
        excess -= len(canonical(question)) - len(canonical(short))
        question = short
    instances: list[str] = list(question["instances"])
    total, excess = len(instances), excess + len(',"more":100000')
    while instances and excess > 0:
        excess -= len(canonical(instances.pop())) + 1
    return {**question, "instances": instances, "more": total - len(instances)}


def _held(offer: Offer, by: Announcing, observed: Observed) -> Held:
    nodes = {node.uuid: node.name for node in observed.snapshot.nodes.values()}
    delivery, name = offer.told, nodes.get(offer.node, "")
    tries = str(delivery.tries) if delivery.done else ""
    details = {"owner": offer.owner, "command": by.command, "why": delivery.why, "tries": tries}
    return Held(because(Kind.OWNER_NOT_TOLD, name, **details), name)
