"""Which owners are asked whether their machines may go away, and what their answers hold. Pure.

As Mesos' inverse offers: each owner of instances on a machine that is draining is asked once, and
again when its filter is over, whatever it has answered. Unlike there, what is answered is kept
until the machine's interval changes, and where an operator has said so it counts.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias
from uuid import NAMESPACE_URL, uuid5

from nodeagent.maintd.queue.entries import rfc3339
from nodeagent.model.ledger import Ledger
from nodeagent.model.offer import Answer, AnswerOffers, Offer, Reply, Told
from nodeagent.model.snapshot import Instance, Node, Snapshot
from nodeagent.model.window import Consent, Mode, Scheduled, Unavailability, Weight

OWNER_TAG = "maintd:owner:"
_NAMESPACE = uuid5(NAMESPACE_URL, "nodeagent offer")


# Whose.


def owners_of(instance: Instance, snapshot: Snapshot) -> frozenset[str]:
    """Who owns it: by its own tags, else its primary node's, its group's, or the cluster's.

    The nearest that says anything decides; an empty name says that nobody does.
    """
    node = snapshot.nodes.get(instance.primary)
    group = snapshot.groups.get(node.group) if node else None
    places = (instance.tags, node.tags if node else (), group.tags if group else (), snapshot.tags)
    for tags in places:
        named = {tag.removeprefix(OWNER_TAG) for tag in tags if tag.startswith(OWNER_TAG)}
        if named:
            return frozenset(named - {""})
    return frozenset()


def holdings(snapshot: Snapshot, names: frozenset[str]) -> Mapping[str, Mapping[str, list[str]]]:
    """By node and owner, the instances that have a side on one of these nodes."""
    found: dict[str, dict[str, list[str]]] = {name: {} for name in names}
    for instance in snapshot.instances.values():
        here = names & {instance.primary, instance.secondary}
        for owner in owners_of(instance, snapshot) if here else ():
            for name in here:
                found[name].setdefault(owner, []).append(instance.name)
    return found


# Asking.


def ask(ledger: Ledger, snapshot: Snapshot, now: int) -> Ledger:
    """Ask whom there is to ask; what is not to be asked any more is rescinded."""
    nodes = {node.uuid: node for node in snapshot.nodes.values()}
    draining = [
        (one, nodes[one.node])
        for one in ledger.scheduled
        if one.mode is Mode.DRAINING and one.node in nodes
    ]
    if not (draining or ledger.offers):
        return ledger
    there = holdings(snapshot, frozenset(node.name for _, node in draining))
    known: dict[str, dict[str, Offer]] = {}
    for offer in ledger.offers:
        known.setdefault(offer.node, {})[offer.owner] = offer
    offers: list[Offer] = []
    for one, node in draining:
        when = ledger.schedule.of(one.machine)
        before, here = known.get(node.uuid, {}), there[node.name]
        for owner in sorted({*before, *here} if when else ()):
            assert when is not None
            instances = tuple(sorted(here.get(owner, ())))
            asked = _asked(before.get(owner), owner, node, instances, when, now)
            offers += [asked] if asked else []
    return replace(ledger, offers=tuple(offers))


def _asked(
    old: Offer | None,
    owner: str,
    node: Node,
    instances: tuple[str, ...],
    when: Unavailability,
    now: int,
) -> Offer | None:
    if old is None or old.unavailability != when:
        generation = old.generation + 1 if old else 1
        new = Offer("", owner, node.uuid, instances, when, now, now, generation)
        return _question(new, now) if instances else None
    if not instances:  # there is nothing left to ask for; what was answered stays known
        return replace(old, instances=(), open=False) if old.answer else None
    said = old.answer
    asked_about = old.instances if old.open or said is None else said.about
    more = not set(instances) <= set(asked_about)
    other = said is not None and said.reply is Reply.DECLINE and set(instances) != set(asked_about)
    over = said is not None and not old.open and said.at < now and said.until <= now
    old = replace(old, instances=instances)
    return _question(old, now) if more or over or (other and not old.open) else old


def _question(offer: Offer, now: int) -> Offer:
    """Ask, or ask again: under another id, so that no answer is taken for one to this."""
    what = f"{offer.node} {offer.owner} {offer.generation} {offer.since} {now}"
    return replace(offer, id=str(uuid5(_NAMESPACE, what)), asked_at=now, open=True, told=Told())


def rewind(ledger: Ledger, now: int) -> Ledger:
    """Where the clock was put back, nobody has to wait longer to be asked again."""
    if all(o.asked_at <= now and (not o.answer or o.answer.at <= now) for o in ledger.offers):
        return ledger
    return replace(ledger, offers=tuple(_rewound(offer, now) for offer in ledger.offers))


def _rewound(offer: Offer, now: int) -> Offer:
    said = offer.answer
    if said is not None and said.at > now:
        said = replace(said, at=now, until=now + said.until - said.at)
    asked, since = min(offer.asked_at, now), min(offer.since, now)
    return replace(offer, asked_at=asked, since=since, answer=said)


# Answering.


def grant(ledger: Ledger, asked: AnswerOffers, who: str, now: int) -> Ledger | str:
    """The ledger with these answers, all of them, or why that cannot be."""
    offers = {offer.id: offer for offer in ledger.offers if offer.instances}
    for identity in asked.ids:
        offer = offers.get(identity)
        if offer is None:
            return f"there is no offer {identity}, or it is rescinded: list the offers again"
        if asked.owners is not None and offer.owner not in asked.owners:
            return f"offer {identity} is made to owner {offer.owner}, for whom {who} cannot answer"
        answer = Answer(
            *(asked.reply, who, now, offer.instances, now + asked.refuse),
            *(asked.reason, asked.eta, asked.earliest),
        )
        offers[identity] = replace(offer, open=False, answer=answer)
    return replace(ledger, offers=tuple(offers.get(o.id, o) for o in ledger.offers))


# Holding.


def deadline(one: Scheduled, when: Unavailability) -> int | None:
    """When (unix ms) the owners are waited for no longer, or were to have accepted."""
    weighs = one.consent.weight is not Weight.ADVISORY
    return when.start_ms - one.consent.before if weighs else None


def holds(
    one: Scheduled, ledger: Ledger, now: int, made: "ByNode | None" = None
) -> Iterator[tuple[Offer, str]]:
    """The owners that keep a machine from being emptied or taken down, each with the reason.

    Who asks of many machines has the offers `by_node`.
    """
    when = ledger.schedule.of(one.machine)
    until = deadline(one, when) if when and one.mode is Mode.DRAINING and one.node else None
    if until is None or (until <= now and one.consent.ends):
        return
    for offer in about(ledger, one) if made is None else made.get(one.node, ()):
        if offer.instances and (why := _why(offer, one.consent)):
            yield (
                offer,
                f"owner {offer.owner} {why}; {_end(one.consent, until, passed=until <= now)}",
            )


def _why(offer: Offer, consent: Consent) -> str:
    said = offer.answer
    if said is not None and said.reply is Reply.DECLINE:
        parts = [f"declines ({said.who})", f": {said.reason}" if said.reason else ""]
        parts += [f", done by {rfc3339(said.eta)}"] if said.eta is not None else []
        parts += [f", suits from {rfc3339(said.earliest)}"] if said.earliest is not None else []
        return "".join(parts)
    if consent.weight is not Weight.REQUIRED or offer.accepted:
        return ""
    if said is None:
        return f"has not answered since {rfc3339(offer.since)}"
    new = sorted(set(offer.instances) - set(said.about))
    return f"has accepted, but not for {', '.join(new[:3])}{' and more' if new[3:] else ''}"


def _end(consent: Consent, until: int, *, passed: bool) -> str:
    if consent.ends:
        return f"it goes on at {rfc3339(until)} whatever they say"
    what = "had to accept" if passed else "must accept"
    return f"owners {what} by {rfc3339(until)}, and it waits until they do"


def hold(one: Scheduled, ledger: Ledger, now: int, made: "ByNode | None" = None) -> str:
    """Why the owners let nothing be done to empty a machine; "" if they do."""
    return next((why for _, why in holds(one, ledger, now, made)), "")


ByNode: TypeAlias = Mapping[str, Sequence[Offer]]


def by_node(ledger: Ledger) -> ByNode:
    """The offers by the UUID of the node that they are about."""
    found: dict[str, list[Offer]] = {}
    for offer in ledger.offers:
        found.setdefault(offer.node, []).append(offer)
    return found


# Telling.


class Book:
    """What there is to tell of the offers, for which everything is looked at once."""

    def __init__(self, ledger: Ledger, snapshot: Snapshot, now: int) -> None:
        self.cluster, self.now = snapshot.cluster, now
        self.nodes = {node.uuid: node.name for node in snapshot.nodes.values()}
        self.made = by_node(ledger)
        self._ledger = ledger
        self._machines = {one.node: one for one in reversed(ledger.scheduled) if one.node}
        self._whys: dict[str, Mapping[str, str]] = {}

    def machine(self, offer: Offer) -> Scheduled | None:
        """The machine that it is about, if that is in the schedule."""
        return self._machines.get(offer.node)

    def why(self, offer: Offer) -> str | None:
        """What it holds its machine by."""
        one = self.machine(offer)
        if offer.node not in self._whys:
            found = holds(one, self._ledger, self.now, self.made) if one else ()
            self._whys[offer.node] = {held.id: why for held, why in found}
        return self._whys[offer.node].get(offer.id)


def offer_json(offer: Offer, book: Book) -> dict[str, Any]:
    """One offer, with the newest answer; unix seconds, but the interval, which is as Mesos'."""
    one, now, when = book.machine(offer), book.now, offer.unavailability
    until = deadline(one, when) if one else None
    duration = {} if when.duration is None else {"duration": {"nanoseconds": when.duration}}
    return {
        "id": offer.id,
        "owner": offer.owner,
        "node": book.nodes.get(offer.node, offer.node),
        "instances": list(offer.instances),
        "unavailability": {"start": {"nanoseconds": when.start}, **duration},
        "asked_at": offer.asked_at / 1000,
        "open": offer.open,
        "status": offer.status,
        "age": max(0, now - (offer.answer.at if offer.answer else offer.since)) / 1000,
        "generation": offer.generation,
        "answer": _answer_json(offer.answer),
        "policy": (one.consent if one else Consent()).weight.value,
        "deadline": None if until is None else until / 1000,
        "holds": book.why(offer),
    }


def question_json(offer: Offer, book: Book) -> dict[str, Any]:
    """What an owner is told by itself: always the same of the same question."""
    told = offer_json(offer, book)
    passing = ("age", "holds", "open")
    return {"cluster": book.cluster} | {k: v for k, v in told.items() if k not in passing}


def _answer_json(said: Answer | None) -> dict[str, Any] | None:
    if said is None:
        return None
    return {
        "who": said.who,
        "at": said.at / 1000,
        "again": said.until / 1000,
        "about": list(said.about),
        "reason": said.reason,
        "eta": None if said.eta is None else said.eta / 1000,
        "earliest": None if said.earliest is None else said.earliest / 1000,
    }


def consent_json(consent: Consent) -> dict[str, Any]:
    """What the answers of owners weigh for a machine."""
    return {
        "policy": consent.weight.value,
        "deadline_seconds": consent.before / 1000,
        "at_deadline": "proceed" if consent.ends else "hold",
    }


def about(ledger: Ledger, one: Scheduled) -> list[Offer]:
    """The offers about one machine."""
    return [offer for offer in ledger.offers if one.node and offer.node == one.node]


def listed(ledger: Ledger, owners: Iterable[str] | None = None) -> list[Offer]:
    """The offers, or those to these owners: by when they begin, node by node."""
    wanted = None if owners is None else frozenset(owners)
    found = (o for o in ledger.offers if wanted is None or o.owner in wanted)
    return sorted(found, key=lambda o: (o.unavailability.start, o.node, o.owner))
