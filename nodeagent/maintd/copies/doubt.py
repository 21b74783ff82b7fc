"""Say why maintd does not begin its plans, and which requests a taken copy lacks. Pure."""

from collections.abc import Sequence

from nodeagent.maintd.planning.times import rfc3339
from nodeagent.model.copies import CopyAt, CopyState, Trouble, Uncertain
from nodeagent.model.event import Event, happened
from nodeagent.model.reason import CopyKind, Detail, Reason, because
from nodeagent.model.units import Ms

_KINDS = {  # with the details that each has
    Trouble.FEW: (CopyKind.FEW_COPIES, ("count", "missing", "whose")),
    Trouble.CONFLICT: (CopyKind.TWO_WRITERS, ("whose",)),
    Trouble.NEWER: (CopyKind.NEWER_COPY, ("whose",)),
    Trouble.LOST: (CopyKind.LOST_COPIES, ("whose",)),
    Trouble.UNREADABLE: (CopyKind.UNREADABLE_COPY, ("whose",)),
    Trouble.MOVED: (CopyKind.MOVED, ()),
    Trouble.ASKING: (CopyKind.ASKING, ("count",)),
    Trouble.SPREADING: (CopyKind.SPREADING, ("count", "missing", "whose")),
}
_SHOWN = 5  # candidates, and requests


def doubt(uncertain: Uncertain | None) -> Reason | None:
    """Why maintd starts none of its plans; None if its ledger is the newest for sure."""
    if uncertain is None:
        return None
    kind, names = _KINDS[uncertain.trouble]
    details: dict[str, Detail] = {
        "count": uncertain.count,
        "missing": _shown(uncertain.missing),
        "whose": whose(uncertain.best, uncertain.best_at),
    }
    return because(kind, **{name: details[name] for name in names})


def unknown(uncertain: Uncertain | None) -> Reason | None:
    """Why the newest ledger is unknown, so that another one may replace this one; else None.

    A ledger that only has to spread is the newest: it stays.
    """
    spreads = uncertain is not None and uncertain.trouble is Trouble.SPREADING
    return None if spreads else doubt(uncertain)


def not_copied(node: str, state: CopyState) -> Reason:
    """Why an order to this node waits for the copies."""
    missing = _shown(lacking(state.on))
    return because(CopyKind.NOT_COPIED, node, count=len(state.on), missing=missing)


def lacking(on: Sequence[CopyAt]) -> tuple[str, ...]:
    """Name the candidates without the newest save, with the reason where there is one."""
    return tuple(f"{one.node}: {one.why}" if one.why else one.node for one in on if not one.newest)


def whose(node: str, at: Ms) -> str:
    """Name a ledger by its node and the time of its last save."""
    when = f" of {rfc3339(at)}" if at else ""
    return f"the copy on {node}{when}" if node else "the ledger of this node"


def taken(node: str, at: Ms, epoch: int, dropped: Sequence[Event], now: Ms) -> list[Event]:
    """Return the events of a take-over, with this node's requests that are not in force."""
    events = [happened(now, "ledger-taken", whose=whose(node, at), epoch=str(epoch))]
    if dropped:
        told = [str(event) for event in dropped[:_SHOWN]]
        more = len(dropped) - len(told)
        events.append(
            happened(
                *(now, "requests-dropped"),
                count=str(len(dropped)),
                requests=(*told, f"{more} more") if more else tuple(told),
            )
        )
    return events


def _shown(names: Sequence[str]) -> tuple[str, ...]:
    more = len(names) - _SHOWN
    return (*names[:_SHOWN], f"{more} more") if more > 0 else tuple(names)


def behind(state: CopyState) -> str:
    """Say that a majority does not have the newest save."""
    return (
        f"kept on this node only: {state.have} of {len(state.on)} master candidates have it, and a"
        " new master would not know it"
    )


ALONE = (
    "kept on this node only: the agents of too few master candidates can keep copies, and a new"
    " master would not know it; upgrade nodeagent on those that gnt-maint status names"
)
UNSURE = (
    "kept on this node only: maintd does not know yet whether its ledger is the newest; see"
    " gnt-maint status"
)
