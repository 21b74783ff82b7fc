"""What becomes of the repair queue, of offers and of weekly windows, for the event log. Pure."""

from collections.abc import Iterator

from nodeagent.maintd.asked import Line
from nodeagent.maintd.incidents.lifecycle import by_uuid
from nodeagent.maintd.windows.recurrence import day_text
from nodeagent.model.ledger import Ledger
from nodeagent.model.offer import Reply
from nodeagent.model.queue import Entry
from nodeagent.model.snapshot import Observed


def entries(before: Ledger, after: Ledger) -> Iterator[Line]:
    """How far the repair queue has come with each machine."""
    old = {entry.index: entry for entry in before.queue.entries}
    new = {entry.index: entry for entry in after.queue.entries}
    for entry in after.queue.entries:
        known = old.get(entry.index)
        if known is None or known.status is not entry.status:
            yield f"entry-{entry.status.value}", "", "", _entry(entry), ""
        elif entry.backoffs > known.backoffs:
            yield "entry-put-off", "", "", _entry(entry), ""
    for entry in before.queue.entries:
        if entry.index not in new:
            yield "entry-deleted", "", "", _entry(entry), ""


def series(before: Ledger, after: Ledger) -> Iterator[Line]:
    """Which times of weekly series have become windows, and which are over."""
    old, new = (_placed(ledger) for ledger in (before, after))
    for (name, day), machines in new.items():
        if fresh := machines - old.get((name, day), frozenset()):
            yield "occurrence-planned", "", "", _occurrence(name, day, fresh), ""
    for (name, day), machines in old.items():
        if gone := machines - new.get((name, day), frozenset()):
            yield "occurrence-over", "", "", _occurrence(name, day, gone), ""


def _placed(ledger: Ledger) -> dict[tuple[str, int], frozenset[str]]:
    found: dict[tuple[str, int], frozenset[str]] = {}
    for one in ledger.series:
        for member in one.members:
            if member.placed:
                key = one.name, member.day
                found[key] = found.get(key, frozenset()) | {str(member.machine)}
    return found


def _occurrence(name: str, day: int, machines: frozenset[str]) -> str:
    return f"{name} of {day_text(day)}: {', '.join(sorted(machines))}"


def _entry(entry: Entry) -> str:
    what = f"queue entry {entry.index}: {entry.address} ({entry.machine_type}) {entry.operation}"
    return what + (f": {entry.why}" if entry.why else "")


def offers(before: Ledger, after: Ledger, observed: Observed | None) -> Iterator[Line]:
    """Who is asked and has answered; whoever is asked again about the same was told of once."""
    names = {} if observed is None else {u: n.name for u, n in by_uuid(observed).items()}
    old = {(offer.node, offer.owner): offer for offer in before.offers}
    new = {(offer.node, offer.owner) for offer in after.offers}
    for offer in after.offers:
        known, node = old.get((offer.node, offer.owner)), names.get(offer.node, "")
        what = f"owner {offer.owner}: {', '.join(offer.instances)}"
        if known is None or known.generation != offer.generation:
            yield "offered", "", node, what, ""
        said = offer.answer
        if said is not None and (known is None or said != known.answer):
            kind = "accepted" if said.reply is Reply.ACCEPT else "declined"
            text = f"owner {offer.owner} by {said.who}" + (
                f": {said.reason}" if said.reason else ""
            )
            yield kind, "", node, text, ""
    for key, offer in old.items():
        if key not in new:
            yield "rescinded", "", names.get(offer.node, ""), f"owner {offer.owner}", ""
