"""Tell owners of offers, and what became of others: by a command, and by their webhooks. Pure.

Both ways are independent of each other. A failed try is repeated after the pauses of all sinks,
until it has failed `TRIES` times in about an hour, or the offer was answered, renewed or rescinded.

The command is one of the master's own agent. Its standard input has the open offers without a
notification, as many at once as it takes: the agent runs one command at a time, and people would
rather read one mail than twenty. What became of other offers follows.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

from nodeagent.maintd.notices.delivery import Delivered, Delivery, Refused, Retry, Sent, pause
from nodeagent.maintd.owners import milestones
from nodeagent.maintd.owners.offer_json import Book, milestone_json, question_json
from nodeagent.maintd.owners.offers import listed
from nodeagent.maintd.planning.admission import no_orders
from nodeagent.maintd.planning.intents import without_claim
from nodeagent.maintd.planning.situation import Situation
from nodeagent.model.action import RunCommand
from nodeagent.model.ledger import Intent, Ledger, Outcome, Policy
from nodeagent.model.offer import Announcing, Milestone, Offer, Sending
from nodeagent.model.purpose import OfOwners
from nodeagent.model.reason import Held, Kind, because
from nodeagent.model.snapshot import Observed, Snapshot
from nodeagent.model.units import Ms
from nodeagent.protocol.canonical import canonical
from nodeagent.protocol.messages import MOST_STDIN

TRIES = 8  # failures before maintd gives up
ANY = "*"  # the owners without a webhook of their own
T = TypeVar("T", Offer, Milestone)


def is_for_owners(intent: Intent) -> bool:
    """Check whether an intent notifies owners."""
    return isinstance(intent.purpose, OfOwners)


def delivery_of(intent: Intent, observed: Observed) -> Delivery | None:
    """Return how the delivery by a command ended; None while it runs."""
    if intent.id in observed.absent:
        return Retry(observed.absent[intent.id])
    result = observed.results.get(intent.id)
    if result is None or result.outcome is Outcome.RUNNING:
        return None
    if result.outcome is Outcome.LOST:
        return Retry("its agent no longer knows it")
    if result.outcome is Outcome.SUCCESS:
        return Delivered()
    return Retry(result.why or result.outcome.value)


def agent_is_free(ledger: Ledger, observed: Observed) -> bool:
    """Check whether the master's own agent can take an order."""
    master = observed.snapshot.master
    busy = any(isinstance(i.action, RunCommand) and i.action.node == master for i in ledger.intents)
    if busy or master not in observed.snapshot.nodes or master in observed.doubts:
        return False
    return no_orders(master, observed) is None


class _Change(Protocol):
    def __call__(self, item: T, /) -> T: ...


def _each(ledger: Ledger, change: _Change) -> Ledger:
    """Return the ledger with each offer and milestone changed so."""
    offers = tuple(map(change, ledger.offers))
    reached = tuple(map(change, ledger.milestones))
    if (offers, reached) == (ledger.offers, ledger.milestones):
        return ledger
    return replace(ledger, offers=offers, milestones=reached)


def _open(ledger: Ledger) -> list[Offer]:
    return [offer for offer in listed(ledger) if offer.open and offer.instances]


def _is_due(sending: Sending, now: Ms) -> bool:
    return not (sending.done or sending.intent) and sending.after <= now


def _after(sending: Sending, result: Delivery, now: Ms) -> Sending:
    """Return the state after a try with this result."""
    if isinstance(result, Delivered):
        return Sending(done=True)
    tries = sending.tries + 1
    return Sending(
        done=isinstance(result, Refused) or tries >= TRIES,
        tries=tries,
        after=Ms(now + pause(sending.tries, result.wait if isinstance(result, Retry) else Ms(0))),
        why=result.why,
    )


# By the command.


def remember(ledger: Ledger, observed: Observed, now: Ms) -> Ledger:
    """Record which owners the command has notified, and why others were not."""
    for intent in filter(is_for_owners, ledger.intents):
        result = delivery_of(intent, observed)
        if result is not None:
            ledger = _ended(ledger, intent, result, now)
            kept = tuple(other for other in ledger.intents if other is not intent)
            ledger = replace(ledger, intents=kept)
    return ledger


def _ended(ledger: Ledger, intent: Intent, result: Delivery, now: Ms) -> Ledger:
    def settled(item: T) -> T:
        if item.told.intent != intent.id:
            return item
        return replace(item, told=_after(item.told, result, now))

    return _each(ledger, settled)


def announce(ledger: Ledger, situation: Situation) -> tuple[Ledger, list[Held]]:
    """Order a notification, if one is due and the agent is free for it; tell the failures."""
    observed, policy, now = situation.observed, situation.policy, situation.now
    by = policy.announcing
    held = list(_failures(ledger, by, observed.snapshot))
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

    def order(item: T) -> T:
        if item.id not in ids:
            return item
        return replace(item, told=replace(item.told, intent=number))

    return _each(ledger, order), held


def _failures(ledger: Ledger, by: Announcing, snapshot: Snapshot) -> Iterator[Held]:
    """Say why owners were not told of open offers."""
    for offer in _open(ledger):
        ways = [(by.command, offer.told)] if by.command else []
        for way, sending in (*ways, ("the webhook", offer.posted)):
            if sending.why:
                name, tries = (
                    snapshot.name_of(offer.node),
                    str(sending.tries) if sending.done else "",
                )
                details = {"owner": offer.owner, "command": way, "why": sending.why}
                yield Held(because(Kind.OWNER_NOT_TOLD, name, **details, tries=tries), name)


def due_offers(ledger: Ledger, by: Announcing, now: Ms) -> list[Offer]:
    """The offers to notify of now by the command."""
    return [o for o in _open(ledger) if _is_due(o.told, now)] if by.command else []


def due_milestones(ledger: Ledger, by: Announcing, now: Ms) -> list[Milestone]:
    """The milestones to notify of now by the command."""
    waiting = milestones.to_tell(ledger, now) if by.command else []
    return [milestone for milestone in waiting if _is_due(milestone.told, now)]


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


# By webhooks.


@dataclass(frozen=True, slots=True)
class OwnerLetter:
    """An offer or a milestone as an owner's webhook gets it, after `tries` failures."""

    id: str
    tries: int
    body: str


_OWNER = "owner "  # no sink's name has a space


def target_of(owner: str) -> str:
    """Return the name of an owner's webhook among all targets."""
    return f"{_OWNER}{owner}"


def is_of_owner(target: str) -> bool:
    """Tell whether this target is an owner's webhook."""
    return target.startswith(_OWNER)


def posted(ledger: Ledger, results: Mapping[str, Sent], now: Ms) -> Ledger:
    """Record which owners were notified by their webhooks, and why others were not."""

    def settled(item: T) -> T:
        sent = results.get(item.id)
        if sent is None or sent.tries != item.posted.tries or item.posted.done:
            return item
        return replace(item, posted=_after(item.posted, sent.result, now))

    return _each(ledger, settled) if results else ledger


def unsent(
    ledger: Ledger, targets: Collection[str], now: Ms
) -> list[tuple[str, Offer | Milestone]]:
    """Return what these targets do not have yet, each with its target; questions first."""
    rows = list[tuple[str, Offer | Milestone]]()
    items: list[Offer | Milestone] = [*_open(ledger), *milestones.to_tell(ledger, now)]
    for item in items:
        own = target_of(item.owner)
        name = own if own in targets else target_of(ANY)
        if name in targets and not item.posted.done:
            rows.append((name, item))
    return rows


def letters(
    ledger: Ledger, targets: Collection[str], snapshot: Snapshot, policy: Policy, now: Ms
) -> dict[str, list[OwnerLetter]]:
    """Return what is due to these targets now."""
    due = [row for row in unsent(ledger, targets, now) if _is_due(row[1].posted, now)]
    written: dict[str, list[OwnerLetter]] = {}
    if not due:
        return written
    book = Book(ledger, snapshot, policy, now)
    for name, item in due:
        if isinstance(item, Offer):
            document = question_json(item, book)
        else:
            document = milestone_json(item, book)
        letter = OwnerLetter(item.id, item.posted.tries, canonical(document))
        written.setdefault(name, []).append(letter)
    return written
