"""Make offers to owners of instances, and apply their answers to maintenance. Pure.

They are like Mesos' inverse offers: maintd asks each owner of instances on a node that is to be
evacuated once, and again after its filter, whatever it has answered. Unlike Mesos it keeps an
answer until the node's interval changes, and an operator can make answers count.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias
from uuid import NAMESPACE_URL, uuid5

from nodeagent.maintd.owners import milestones
from nodeagent.maintd.owners.absences import Absence, Key, absences, key_of
from nodeagent.maintd.planning.times import rfc3339
from nodeagent.model.instance_tags import OWNER_TAG
from nodeagent.model.ledger import Ledger, Policy
from nodeagent.model.offer import Answer, Offer, Reply, Sending, Work
from nodeagent.model.reason import Kind, Reason, because
from nodeagent.model.snapshot import Instance, Snapshot
from nodeagent.model.units import Ms
from nodeagent.model.window import Consent, Weight
from nodeagent.model.wish import AnswerOffers

_NAMESPACE = uuid5(NAMESPACE_URL, "nodeagent offer")


# Owners.


def owners_of(instance: Instance, snapshot: Snapshot) -> frozenset[str]:
    """Find its owners: by its own tags, else its primary node's, its group's, or the cluster's.

    The nearest with such a tag decides; an empty name means no owner.
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
    """By node and owner, the instances with their primary or secondary on these nodes."""
    by_node: dict[str, dict[str, list[str]]] = {name: {} for name in names}
    for instance in snapshot.instances.values():
        here = names & instance.nodes
        for owner in owners_of(instance, snapshot) if here else ():
            for name in here:
                by_node[name].setdefault(owner, []).append(instance.name)
    return by_node


# Offers.


def ask(ledger: Ledger, snapshot: Snapshot, policy: Policy, now: Ms) -> Ledger:
    """Make the offers that are due, and rescind those that no longer apply."""
    foreseen = absences(ledger, snapshot, policy)
    if not (foreseen or ledger.offers or ledger.milestones):
        return ledger
    asking = [absence for absence in foreseen if absence.asks]
    nodes = snapshot.by_uuid
    by_node = holdings(snapshot, frozenset(nodes[absence.key.node].name for absence in asking))
    known: dict[Key, dict[str, Offer]] = {}
    generations: dict[tuple[str, str], int] = {}
    for offer in ledger.offers:
        known.setdefault(key_of(offer), {})[offer.owner] = offer
        asked = offer.node, offer.owner
        generations[asked] = max(offer.generation, generations.get(asked, 0))
    offers: list[Offer] = []
    for absence in asking:
        key = absence.key
        before, here = known.get(key, {}), by_node[nodes[key.node].name]
        for owner in sorted({*before, *here}):
            instances = tuple(sorted(here.get(owner, ())))
            if owner in before:
                again = _asked_again(before[owner], instances, now)
                offers += [again] if again else []
            else:
                asked = key.node, owner
                number = generations[asked] = generations.get(asked, 0) + 1
                new = Offer(
                    id="",
                    owner=owner,
                    node=key.node,
                    instances=instances,
                    unavailability=key.when,
                    asked_at=now,
                    since=now,
                    generation=number,
                    work=key.work,
                )
                offers.append(_question(new, now))
    after = replace(ledger, offers=tuple(offers))
    return milestones.note(ledger, after, foreseen, now)


def _asked_again(old: Offer, instances: tuple[str, ...], now: Ms) -> Offer | None:
    if not instances:  # nothing left to ask; keep the answer
        return replace(old, instances=(), open=False) if old.answer else None
    answer = old.answer
    asked_about = old.instances if old.open or answer is None else answer.about
    more = not set(instances) <= set(asked_about)
    other = (
        answer is not None and answer.reply is Reply.DECLINE and set(instances) != set(asked_about)
    )
    over = answer is not None and not old.open and answer.at < now and answer.until <= now
    old = replace(old, instances=instances)
    return _question(old, now) if more or over or (other and not old.open) else old


def _question(offer: Offer, now: Ms) -> Offer:
    """Ask, or ask again: under a new id, so that an old answer does not count for this offer."""
    what = f"{offer.node} {offer.owner} {offer.generation} {offer.since} {now}"
    identity, unsent = str(uuid5(_NAMESPACE, what)), Sending()
    return replace(offer, id=identity, asked_at=now, open=True, told=unsent, posted=unsent)


# Answers.


def grant(ledger: Ledger, asked: AnswerOffers, who: str, now: Ms) -> Ledger | str:
    """The ledger with all of these answers, or why they are refused."""
    offers = {offer.id: offer for offer in ledger.offers if offer.instances}
    for identity in asked.ids:
        offer = offers.get(identity)
        if offer is None:
            return missing(identity)
        if asked.owners is not None and offer.owner not in asked.owners:
            return f"offer {identity} is made to owner {offer.owner}, for whom {who} cannot answer"
        answer = Answer(
            reply=asked.reply,
            who=who,
            at=now,
            about=offer.instances,
            until=now + asked.refuse,
            reason=asked.reason,
            eta=asked.eta,
            earliest=asked.earliest,
        )
        offers[identity] = replace(offer, open=False, answer=answer)
    return replace(ledger, offers=tuple(offers.get(o.id, o) for o in ledger.offers))


def missing(identity: str) -> str:
    """Why an id cannot be answered that belongs to no offer."""
    return f"there is no offer {identity}, or it was rescinded: list the offers again"


# Blocking.


def holds(absence: Absence, made: "ByAbsence", now: Ms) -> Iterator[tuple[Offer, str]]:
    """The owners that block the work for an absence, each with the reason.

    `made` are all offers, `by_absence`.
    """
    if not absence.asks or not absence.key.node:
        return
    early, until, consent = absence.not_before, absence.deadline, absence.consent
    weighs = until is not None and not (until <= now and consent.ends)
    for offer in made.get(absence.key, ()) if weighs or now < early else ():
        if not offer.instances:
            continue
        if until is not None and weighs and (why := _why(offer, consent, now)):
            yield offer, f"owner {offer.owner} {why}; {_end(consent, until, passed=until <= now)}"
        elif now < early and not offer.accepted(now):
            yield offer, f"owner {offer.owner} has time to answer until {rfc3339(early)}"


def _why(offer: Offer, consent: Consent, now: Ms) -> str:
    answer = offer.answer
    if answer is not None and answer.reply is Reply.DECLINE and not answer.suits(now):
        parts = [f"declines ({answer.who})", f": {answer.reason}" if answer.reason else ""]
        parts += [f", done by {rfc3339(answer.eta)}"] if answer.eta is not None else []
        parts += [f", suits from {rfc3339(answer.earliest)}"] if answer.earliest is not None else []
        return "".join(parts)
    if consent.weight is not Weight.REQUIRED or offer.accepted(now):
        return ""
    if answer is None:
        return f"has not answered since {rfc3339(offer.since)}"
    new = sorted(set(offer.instances) - set(answer.about))
    return f"has accepted, but not for {', '.join(new[:3])}{' and more' if new[3:] else ''}"


def _end(consent: Consent, until: Ms, *, passed: bool) -> str:
    if consent.ends:
        return f"it goes on at {rfc3339(until)} whatever they say"
    what = "had to accept" if passed else "must accept"
    return f"owners {what} by {rfc3339(until)}, and it waits until they do"


def hold(absence: Absence, made: "ByAbsence", now: Ms) -> str:
    """Why an owner blocks the work for an absence; "" if none does."""
    return next((why for _, why in holds(absence, made, now)), "")


def waiting(
    ledger: Ledger, snapshot: Snapshot, policy: Policy, now: Ms
) -> Mapping[Work, Mapping[str, Reason]]:
    """Why owners block work that has not begun, by its kind and the node's UUID."""
    reasons: dict[Work, dict[str, Reason]] = {work: {} for work in Work}
    made = by_absence(ledger)
    if made:
        for absence in absences(ledger, snapshot, policy):
            if why := hold(absence, made, now):
                name = snapshot.by_uuid[absence.key.node].name
                reasons[absence.key.work][absence.key.node] = because(
                    Kind.OWNER_WAITS, name, why=why
                )
    return reasons


ByAbsence: TypeAlias = Mapping[Key, Sequence[Offer]]


def by_absence(ledger: Ledger) -> ByAbsence:
    """The offers by the absence that they are about.

    Until owners are asked about a window that has moved, their answers to its old time count.
    """
    by_key: dict[Key, list[Offer]] = {}
    windows = {
        Key(scheduled.node, Work.WINDOW, scheduled.when)
        for scheduled in ledger.scheduled
        if scheduled.node
    }
    moved: dict[str, list[Offer]] = {}
    for offer in ledger.offers:
        key = key_of(offer)
        if key.work is not Work.WINDOW or key in windows:
            by_key.setdefault(key, []).append(offer)
        else:
            moved.setdefault(offer.node, []).append(offer)
    for key in windows if moved else ():
        by_key.setdefault(key, moved.get(key.node, []))
    return by_key


# Lists.


def listed(ledger: Ledger, owners: Iterable[str] | None = None) -> list[Offer]:
    """All offers, or those of these owners: by start, then by node."""
    wanted = None if owners is None else frozenset(owners)
    offers = (o for o in ledger.offers if wanted is None or o.owner in wanted)
    return sorted(offers, key=lambda o: (o.unavailability.start, o.node, o.owner))
