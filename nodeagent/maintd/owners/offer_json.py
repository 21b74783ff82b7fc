"""Offers, questions and answers as JSON. Pure."""

from collections.abc import Mapping
from typing import Any

from nodeagent.maintd.owners.offers import by_window, deadline, holds
from nodeagent.model.ledger import Ledger
from nodeagent.model.offer import Answer, Ending, Offer
from nodeagent.model.snapshot import Snapshot
from nodeagent.model.units import Ms
from nodeagent.model.window import Consent, Scheduled, Unavailability


class Book:
    """The facts to show about the offers, looked up once for all of them."""

    def __init__(self, ledger: Ledger, snapshot: Snapshot, now: Ms) -> None:
        self.cluster, self.now = snapshot.cluster, now
        self.nodes = {node.uuid: node.name for node in snapshot.nodes.values()}
        self.made = by_window(ledger)
        self._ledger = ledger
        self._windows = {
            offer.id: one
            for one in reversed(ledger.scheduled)
            for offer in self.made.get((one.node, one.when), ())
        }
        self._whys: dict[Scheduled, Mapping[str, str]] = {}

    def window(self, offer: Offer) -> Scheduled | None:
        """The machine in the window that an offer is about, if it is in the schedule."""
        return self._windows.get(offer.id)

    def why(self, offer: Offer) -> str | None:
        """Say why an offer blocks its machine."""
        one = self.window(offer)
        if one is None:
            return None
        if one not in self._whys:
            found = holds(one, self._ledger, self.now, self.made)
            self._whys[one] = {held.id: why for held, why in found}
        return self._whys[one].get(offer.id)


def offer_json(offer: Offer, book: Book) -> dict[str, Any]:
    """One offer, with the newest answer; in unix seconds, but the interval as in Mesos."""
    one, now, when = book.window(offer), book.now, offer.unavailability
    until = deadline(one, when) if one else None
    return {
        "id": offer.id,
        "owner": offer.owner,
        "node": book.nodes.get(offer.node, offer.node),
        "instances": list(offer.instances),
        "unavailability": _interval_json(when),
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
    """Return the notice for an owner: always the same for the same question."""
    told = offer_json(offer, book)
    passing = ("age", "holds", "open")
    return {"cluster": book.cluster} | {k: v for k, v in told.items() if k not in passing}


def ending_json(ending: Ending, book: Book) -> dict[str, Any]:
    """Return the notice for an owner of how a question, or the maintenance after it, ended."""
    return {
        "cluster": book.cluster,
        "id": ending.id,
        "event": ending.end.value,
        "owner": ending.owner,
        "node": book.nodes.get(ending.node, ending.node),
        "instances": list(ending.instances),
        "unavailability": _interval_json(ending.unavailability),
        "at": ending.at / 1000,
    }


def _interval_json(when: Unavailability) -> dict[str, Any]:
    duration = {} if when.duration is None else {"duration": {"nanoseconds": when.duration}}
    return {"start": {"nanoseconds": when.start}, **duration}


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
    """Return how owners' answers count for a machine."""
    return {
        "policy": consent.weight.value,
        "deadline_seconds": consent.before / 1000,
        "at_deadline": "proceed" if consent.ends else "hold",
    }
