"""Telling owners what they are asked, by a command of the master's own agent. Pure.

The open offers that nobody has told of are on its standard input, as many at once as it takes: the
agent runs one command at a time, and one mail is read rather than twenty.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from nodeagent.maintd.owners.offers import Book, listed, question_json
from nodeagent.model.action import RunCommand
from nodeagent.model.ledger import Held, Intent, Ledger, Outcome
from nodeagent.model.offer import Announcing, Offer, Told
from nodeagent.model.snapshot import Observed
from nodeagent.protocol.canonical import canonical
from nodeagent.protocol.messages import MOST_STDIN

ENTRY = "offers::told"
TRIES = 5  # times that it may fail
BACK_OFF = 60_000  # ms, doubled each time


@dataclass
class Announced:
    """What a round makes of it."""

    ledger: Ledger
    held: list[Held] = field(default_factory=list)


def is_for_owners(intent: Intent) -> bool:
    """Whether it tells owners what they are asked."""
    return intent.entry == ENTRY


def rewind(ledger: Ledger, now: int) -> Ledger:
    """Where the clock was put back, nobody waits longer to be told."""
    if all(offer.told.after <= now + _wait(offer.told.tries) for offer in ledger.offers):
        return ledger
    return replace(ledger, offers=tuple(_rewound(offer, now) for offer in ledger.offers))


def _rewound(offer: Offer, now: int) -> Offer:
    told = offer.told
    after = min(told.after, now + _wait(told.tries))
    return replace(offer, told=replace(told, after=after))


def _wait(tries: int) -> int:
    return BACK_OFF << max(0, tries - 1)


def remember(ledger: Ledger, observed: Observed, now: int) -> Ledger:
    """Note which owners were told, and why others were not."""
    for intent in filter(is_for_owners, ledger.intents):
        why = _ended(intent, observed)
        if why is not None:
            offers = tuple(_after(o, intent, why, now) for o in ledger.offers)
            kept = tuple(other for other in ledger.intents if other is not intent)
            ledger = replace(ledger, offers=offers, intents=kept)
    return ledger


def _ended(intent: Intent, observed: Observed) -> str | None:
    """Why it failed, "" if it did not; None if it has not ended."""
    if intent.id in observed.absent:
        return observed.absent[intent.id]
    result = observed.results.get(intent.id)
    if result is None or result.outcome is Outcome.RUNNING:
        return None
    if result.outcome is Outcome.LOST:
        return "its agent knows nothing of it any more"
    return "" if result.outcome is Outcome.SUCCESS else result.why or result.outcome.value


def _after(offer: Offer, intent: Intent, why: str, now: int) -> Offer:
    told = offer.told
    if told.intent != intent.id:
        return offer
    if not why:
        return replace(offer, told=Told(done=True))
    tries = told.tries + 1
    return replace(offer, told=Told("", tries >= TRIES, tries, now + _wait(tries), why))


def announce(ledger: Ledger, observed: Observed, by: Announcing, now: int) -> Announced:
    """Order it, if there is something to tell and the agent is free for that."""
    done = Announced(ledger)
    if not by.command:
        return done
    new = [o for o in listed(ledger) if o.open and o.instances and not o.told.done]
    waiting = (o for o in listed(ledger) if o.open and o.instances and o.told.why)
    done.held = [_held(offer, by, observed) for offer in waiting]
    due = [o for o in new if o.told.after <= now and not o.told.intent]
    master = observed.snapshot.master
    busy = any(isinstance(i.action, RunCommand) and i.action.node == master for i in ledger.intents)
    if not due or busy or master not in observed.snapshot.nodes or master in observed.doubts:
        return done
    book = Book(ledger, observed.snapshot, now)
    told = fitting(question_json(offer, book) for offer in due)
    action = RunCommand(master, by.command, canonical({"offers": told}), seconds=by.seconds)
    ledger = ledger.promise("", "", action, now, entry=ENTRY)
    number, ids = ledger.intents[-1].id, {question["id"] for question in told}
    offers = (
        replace(o, told=replace(o.told, intent=number)) if o.id in ids else o for o in ledger.offers
    )
    done.ledger = replace(ledger, offers=tuple(offers))
    return done


def fitting(questions: Iterable[dict[str, Any]], most: int = MOST_STDIN) -> list[dict[str, Any]]:
    """As many as an order brings; of one that alone is too long, the first of its instances."""
    left, found = most - len(canonical({"offers": []})), list[dict[str, Any]]()
    for question in questions:
        left -= len(canonical(question)) + 1
        if left < 0 and found:
            break
        found.append(question)
        if left < 0:
            return [_shortened(question, -left)]
    return found


def _shortened(question: dict[str, Any], excess: int) -> dict[str, Any]:
    """Without the last of its instances, which are told of by their number as `more`.

    What its answer so far was about it can ask for.
    """
    if (said := question.get("answer")) is not None:
        short = {**question, "answer": {**said, "about": []}}
        excess -= len(canonical(question)) - len(canonical(short))
        question = short
    instances: list[str] = list(question["instances"])
    total, excess = len(instances), excess + len(',"more":100000')
    while instances and excess > 0:
        excess -= len(canonical(instances.pop())) + 1
    return {**question, "instances": instances, "more": total - len(instances)}


def _held(offer: Offer, by: Announcing, observed: Observed) -> Held:
    nodes = {node.uuid: node.name for node in observed.snapshot.nodes.values()}
    why = f"owner {offer.owner} is not told of its offer by {by.command}: {offer.told.why}"
    if offer.told.done:
        why += f", {offer.told.tries} times: tell it yourself"
    return Held(nodes.get(offer.node, ""), "", why)
