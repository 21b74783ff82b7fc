"""Say why maintd does not begin its plans, and which requests a taken ledger lacks. Pure."""

from collections.abc import Sequence

from nodeagent.maintd.planning.times import rfc3339
from nodeagent.model.event import Event, happened
from nodeagent.model.keeping import Trouble, Uncertain
from nodeagent.model.reason import LedgerKind, Reason, because
from nodeagent.model.units import Ms

_SHOWN = 5  # requests
UNSURE = (
    "kept on this node only: maintd does not know yet whether its ledger is the newest; see"
    " gnt-maint status"
)
BEHIND = (
    "kept on this node only, and a new master would not know it: Ganeti has not taken the ledger"
    " ({why}); see gnt-maint ledger"
)


def doubt(uncertain: Uncertain | None) -> Reason | None:
    """Why maintd starts none of its plans; None if its ledger is the newest for sure."""
    if uncertain is None:
        return None
    newer = uncertain.trouble is Trouble.NEWER
    return because(
        LedgerKind.NEWER_RULE if newer else LedgerKind.UNREADABLE_RULE, why=uncertain.why
    )


def taken(node: str, at: Ms, dropped: Sequence[Event], now: Ms) -> list[Event]:
    """Return the events of a take-over, with this node's requests that are not in force."""
    events = [happened(now, "ledger-taken", whose=node, saved=rfc3339(at))]
    if dropped:
        shown = [str(event) for event in dropped[:_SHOWN]]
        more = len(dropped) - len(shown)
        requests = (*shown, f"{more} more") if more else tuple(shown)
        events.append(happened(now, "requests-dropped", count=str(len(dropped)), requests=requests))
    return events


def dropped(ours: Sequence[Event], theirs: Sequence[Event], *, full: bool) -> list[Event]:
    """Return the administrators' acts of ours that the newest ledger does not know.

    Both are the newest ones. Where the ledger carries as many as it may, which is `full`, one of
    ours from before them proves nothing.
    """
    known = set(map(identity, theirs))
    since = theirs[0].at if full else 0
    return [
        event
        for event in ours
        if event.kind == "wish-granted" and event.at >= since and identity(event) not in known
    ]


def identity(event: Event) -> tuple[object, ...]:
    """Return what tells events of two histories apart."""
    return event.at, event.kind, event.incident, event.node, str(event)
