"""Offers, questions and answers as JSON. Pure."""

from collections.abc import Mapping
from typing import Any

from nodeagent.maintd.owners.absences import Absence, absences
from nodeagent.maintd.owners.offers import by_absence, holds
from nodeagent.maintd.planning.departures import turns
from nodeagent.model.ledger import Ledger, Policy
from nodeagent.model.offer import Answer, Milestone, Offer, Work
from nodeagent.model.snapshot import Snapshot
from nodeagent.model.units import Ms
from nodeagent.model.window import Consent, Unavailability


class Book:
    """The facts to show about the offers, looked up once for all of them."""

    def __init__(self, ledger: Ledger, snapshot: Snapshot, policy: Policy, now: Ms) -> None:
        self.cluster, self.now = snapshot.cluster, now
        self.nodes = {node.uuid: node.name for node in snapshot.nodes.values()}
        self.made = by_absence(ledger)
        self.turns = {} if ledger.roll is None else turns(ledger.roll, now)
        self._absences = {
            offer.id: absence
            for absence in absences(ledger, snapshot, policy)
            for offer in self.made.get(absence.key, ())
        }
        self._whys: dict[Absence, Mapping[str, str]] = {}

    def absence(self, offer: Offer) -> Absence | None:
        """The absence that an offer is about, if it is still foreseen."""
        return self._absences.get(offer.id)

    def why(self, offer: Offer) -> str | None:
        """Say why an offer blocks its node."""
        absence = self.absence(offer)
        if absence is None:
            return None
        if absence not in self._whys:
            reasons = holds(absence, self.made, self.now)
            self._whys[absence] = {held.id: why for held, why in reasons}
        return self._whys[absence].get(offer.id)

    def expected(self, offer: Offer) -> Ms:
        """When (unix ms) the node is expected to leave."""
        turn = self.turns.get(offer.node) if offer.work is Work.ROLL else None
        return offer.unavailability.start_ms if turn is None else turn.leaves


def offer_json(offer: Offer, book: Book) -> dict[str, Any]:
    """One offer, with the newest answer; in unix seconds, but the interval as in Mesos."""
    absence, now = book.absence(offer), book.now
    until = absence.deadline if absence else None
    return {
        "id": offer.id,
        "owner": offer.owner,
        "node": book.nodes.get(offer.node, offer.node),
        "instances": list(offer.instances),
        "unavailability": _interval_json(offer.unavailability),
        "work": offer.work.value,
        "why": absence.why if absence else "",
        "expected_at": book.expected(offer) / 1000,
        "asked_at": offer.asked_at / 1000,
        "open": offer.open,
        "status": offer.status,
        "age": max(0, now - (offer.answer.at if offer.answer else offer.since)) / 1000,
        "generation": offer.generation,
        "answer": _answer_json(offer.answer),
        "policy": (absence.consent if absence else Consent()).weight.value,
        "deadline": None if until is None else until / 1000,
        "holds": book.why(offer),
    }


def question_json(offer: Offer, book: Book) -> dict[str, Any]:
    """Return the notice for an owner: always the same for the same question."""
    document = offer_json(offer, book)
    passing = ("age", "expected_at", "holds", "open")
    return {"cluster": book.cluster} | {k: v for k, v in document.items() if k not in passing}


def milestone_json(reached: Milestone, book: Book) -> dict[str, Any]:
    """Return the notice for an owner of what became of the maintenance that it was asked about."""
    return {
        "cluster": book.cluster,
        "id": reached.id,
        "event": reached.progress.value,
        "owner": reached.owner,
        "node": book.nodes.get(reached.node, reached.node),
        "instances": list(reached.instances),
        "unavailability": _interval_json(reached.unavailability),
        "work": reached.work.value,
        "at": reached.at / 1000,
    }


def _interval_json(when: Unavailability) -> dict[str, Any]:
    duration = {} if when.duration is None else {"duration": {"nanoseconds": when.duration}}
    return {"start": {"nanoseconds": when.start}, **duration}


def _answer_json(answer: Answer | None) -> dict[str, Any] | None:
    if answer is None:
        return None
    return {
        "who": answer.who,
        "at": answer.at / 1000,
        "again": answer.until / 1000,
        "about": list(answer.about),
        "reason": answer.reason,
        "eta": None if answer.eta is None else answer.eta / 1000,
        "earliest": None if answer.earliest is None else answer.earliest / 1000,
    }


def consent_json(consent: Consent) -> dict[str, Any]:
    """Return how owners' answers count for a machine."""
    return {
        "policy": consent.weight.value,
        "deadline_seconds": consent.before / 1000,
        "at_deadline": "proceed" if consent.ends else "hold",
    }
