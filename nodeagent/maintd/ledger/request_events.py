"""Events of administrators' requests and holds, for the event log. Pure."""

from collections.abc import Iterator
from dataclasses import replace

from nodeagent.maintd.planning.times import rfc3339
from nodeagent.maintd.windows.schedule import asked_for
from nodeagent.model.action import Scope
from nodeagent.model.asked import Asked
from nodeagent.model.event import Event, happened
from nodeagent.model.ledger import Decision, Hold, Ledger
from nodeagent.model.snapshot import Observed
from nodeagent.model.tag import place_words
from nodeagent.model.units import Ms
from nodeagent.model.wish import AnswerOffers, SetSchedule, Wish


def wishes(
    before: Ledger, decision: Decision, observed: Observed | None, now: Ms
) -> Iterator[Event]:
    known = {} if observed is None else {wish.id: wish for wish in observed.wishes}
    for wish in known.values():
        why = decision.refused.get(wish.id)
        if not of_owner(wish):
            yield _with_node(answered(wish, why, now, words(wish.asked, before)), before)
        if why is None and isinstance(wish.asked, SetSchedule):
            before = replace(before, schedule=wish.asked.schedule)  # what the next one changes
    for identity, why in decision.refused.items():
        if identity not in known:
            yield happened(now, "wish-refused", why=why)


def words(asked: Asked, ledger: Ledger) -> str:
    """The words of a request after "asked to"; of a schedule only what it changes."""
    return asked_for(asked, ledger) if isinstance(asked, SetSchedule) else asked.words


def of_owner(wish: Wish) -> bool:
    """Check whether the user may only answer for owners: then it is not an administrator's act.

    The history shows such a request as the answer, or counts its refusals.
    """
    return isinstance(wish.asked, AnswerOffers) and wish.asked.owners is not None


def answered(wish: Wish, why: str | None, now: Ms, text: str = "") -> Event:
    """The event of a request, accepted unless there is a reason `why` not; `text` are its words."""
    details = {"who": wish.who, "request": text or wish.asked.words}
    details |= {"command": wish.command} if wish.command else {}
    kind = "wish-granted" if why is None else "wish-refused"
    incident, node = wish.asked.about
    return happened(now, kind, incident, node, why=why or "", **details)


def _with_node(event: Event, ledger: Ledger) -> Event:
    """The event of a request, with the node of its incident."""
    incident = ledger.incident(event.incident)
    if event.node or incident is None:
        return event
    return replace(event, node=incident.name)


def holds(before: Ledger, after: Ledger, now: Ms) -> Iterator[Event]:
    old = {(hold.scope, hold.name, hold.incident): hold for hold in before.holds}
    new = {(hold.scope, hold.name, hold.incident): hold for hold in after.holds}
    for hold in [hold for key, hold in old.items() if key not in new]:
        yield _of_hold(now, "resumed", hold)
    for hold in [hold for key, hold in new.items() if key not in old or _is_newer(hold, old[key])]:
        until = {"until": rfc3339(hold.until)} if hold.until else {}
        yield _of_hold(now, "paused", hold, who=hold.who, why=hold.why, **until)


def _is_newer(hold: Hold, old: Hold) -> bool:
    """Check whether it replaces another one there; a clock that is put back makes one older."""
    return hold.since > old.since


def _of_hold(now: Ms, kind: str, hold: Hold, **details: str) -> Event:
    place = place_words(hold.scope, hold.name, hold.incident)
    node = hold.name if hold.scope is Scope.NODE else ""
    return happened(now, kind, hold.incident, node, place=place, **details)
