"""Everything that waits for a person: the one list from which all surfaces draw. Pure.

`gnt-maint check` and `status`, the page, notifications and metrics show these and no others:

1. A node whose incident has failed or is completed, until somebody reports it repaired or maintd
   works on another incident of it.
2. A node that is unreachable.
3. A reason that only a person can end (`YOURS`), a wrong setting, trouble of the ledger.
4. A machine whose window has been overdue for a quarter of an hour.
5. An evacuation in which nothing has gone on for as long, because something cannot move (`STUCK`).
6. An entry of the repair queue that was not repaired.
7. Work that waits for a disruption budget in vain (`BUDGET_LASTS`), for an incident as in 5.

So a node that is out of service is in this list, or somebody holds it: a running incident, a
window, an entry, a fencing, its return, or a person who took it out.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from nodeagent.maintd.planning.budgets import BUDGET_LASTS
from nodeagent.maintd.planning.outcomes import worst_per_node
from nodeagent.maintd.windows.timing import overdue
from nodeagent.model.incident import Incident, Status
from nodeagent.model.ledger import Ledger
from nodeagent.model.queue import Entry, EntryStatus
from nodeagent.model.reason import (
    AgentKind,
    AnyKind,
    BalanceKind,
    BudgetKind,
    FencingKind,
    Held,
    Kind,
    LedgerKind,
    Reason,
    RollKind,
    StageKind,
)
from nodeagent.model.snapshot import Observed
from nodeagent.model.stage import OBSERVE
from nodeagent.model.units import Ms
from nodeagent.model.window import Scheduled

LATE = 900_000  # ms after which an overdue window, or a stuck evacuation, needs a person
YOURS: frozenset[AnyKind] = frozenset(
    {
        # The cluster, and plans.
        Kind.OUTDATED,
        Kind.OUTDATED_QUEUE,
        Kind.LEDGER,
        BalanceKind.HALTED,
        Kind.WINDOW_STOPPED,
        Kind.DOWN_STILL,
        Kind.NO_TIME_ZONE,
        RollKind.ROLL_STOPPED,
        RollKind.ROLL_FAILED,
        RollKind.ROLL_ZONE,
        RollKind.ROLL_ALERTS_UNKNOWN,
        RollKind.ROLL_MASTER_WAITS,
        RollKind.ROLL_NOT_LISTED,
        # Work that cannot go on.
        Kind.LOST_JOB,
        Kind.LOST_ORDER,
        Kind.FAILED_BEFORE,
        Kind.MASTER,
        Kind.OFFLINE,
        Kind.NO_COMMAND,
        Kind.PUT_BACK_BY_OTHERS,
        Kind.ONLY_FAILOVER,
        Kind.NOT_FOR_MAINTD,
        Kind.OFFLINE_ANSWERS,
        Kind.UNDIAGNOSED,
        Kind.MORE_UNDIAGNOSED,
        *AgentKind,
        # Nodes out of service that nobody puts back.
        Kind.WAITS_FOR_REPAIR,
        Kind.RUNS_AGAIN,
        Kind.STAYS_TAG_GONE,
        Kind.STAYS,
        Kind.RETURN_FAILED,
        Kind.RETURN_CONTRADICTED,
        Kind.EVACUATION_STOPPED,
        # Dead nodes.
        FencingKind.FENCED,
        FencingKind.FENCED_ONLINE,
        FencingKind.FENCE_TRIES_AGAIN,
        FencingKind.WOULD_FENCE,
        FencingKind.YOU_DECIDE,
        FencingKind.NO_POWER_CONTROL,
        FencingKind.CONTROL_FAILS,
        FencingKind.LEVEL_FAILS,
        FencingKind.FENCING_WAITS,
        FencingKind.FENCE_SWITCHED_OFF,
        # The ledger in Ganeti's configuration.
        LedgerKind.UNREADABLE_RULE,
        LedgerKind.NEWER_RULE,
        LedgerKind.NOT_WRITTEN,
    }
)
"""Reasons that only a person can end, or that may last until one does."""
SETTINGS: frozenset[AnyKind] = frozenset(
    {Kind.WRONG_TAG, Kind.MORE_WRONG_TAGS, BudgetKind.BUDGET_DIFFERS, BudgetKind.MORE_BUDGET_TAGS}
)
STUCK: frozenset[AnyKind] = frozenset(
    {Kind.NO_ROOM, Kind.UNKNOWN_IF_ROOM, Kind.CANNOT_MOVE, Kind.MIRROR_CANNOT_MOVE}
)
"""Reasons that may pass by themselves, while other work of the same evacuation goes on."""
_OVERDUE = frozenset({Kind.LATE_DRAINING, Kind.LATE_DOWN})


class Sort(Enum):
    """Sorts of what waits for a person, by their names in metrics."""

    FAILED = "failed"
    COMPLETED = "completed"
    UNREACHABLE = "unreachable"
    REASON = "reason"
    SETTING = "setting"
    OVERDUE = "overdue"
    ENTRY = "entry"


@dataclass(frozen=True, slots=True)
class NeedsYou:
    """One thing that waits for a person; `node` is the name of its node, empty if it has none.

    Of the others only the one that its sort names is there: an incident, a reason or an entry.
    """

    sort: Sort
    node: str = ""
    incident: Incident | None = None
    held: Held | None = None
    entry: Entry | None = None


def needs_you(
    ledger: Ledger, observed: Observed, held: Iterable[Held], silent: Collection[str], now: Ms
) -> Iterator[NeedsYou]:
    """Yield everything that waits for a person; `silent` are the unreachable nodes."""
    yield from _ended_incidents(ledger, observed)
    for node in silent:
        yield NeedsYou(Sort.UNREACHABLE, node)
    yield from _reasons(ledger, observed, tuple(held), now)
    for entry in ledger.queue.entries:
        if entry.status is EntryStatus.FAILED:
            yield NeedsYou(Sort.ENTRY, entry=entry)


def _ended_incidents(ledger: Ledger, observed: Observed) -> Iterator[NeedsYou]:
    """Yield the nodes whose incident has ended, and which nothing of ours works on."""
    nodes = observed.snapshot.by_uuid
    in_work = ledger.returning() | worst_per_node(ledger).keys()
    sorts = {Status.FAILED: Sort.FAILED, Status.COMPLETED: Sort.COMPLETED}
    for incident in ledger.incidents:
        if incident.status in sorts and incident.node in nodes and incident.node not in in_work:
            name = nodes[incident.node].name
            yield NeedsYou(sorts[incident.status], name, incident=incident)


def _reasons(
    ledger: Ledger, observed: Observed, held: Collection[Held], now: Ms
) -> Iterator[NeedsYou]:
    """Yield the reasons that wait for a person; one of a node once, whatever waits for it."""
    late = {
        observed.snapshot.name_of(scheduled.node, str(scheduled.machine))
        for scheduled in overdue_machines(ledger, now)
    }
    of_nodes = {blocked.why for blocked in held if not blocked.incident}
    for blocked in held:
        if blocked.incident and blocked.why in of_nodes:
            continue
        node = blocked.node if blocked.node in observed.snapshot.nodes else ""
        if blocked.why.kind in SETTINGS:
            yield NeedsYou(Sort.SETTING, node, held=blocked)
        elif _is_yours(blocked.why) or _lasts(blocked, ledger, now):
            yield NeedsYou(Sort.REASON, node, held=blocked)
        elif blocked.why.kind in _OVERDUE and blocked.node in late:
            yield NeedsYou(Sort.OVERDUE, node, held=blocked)


def _is_yours(why: Reason) -> bool:
    """Tell whether a reason waits for a person; the minutes after a start of maintd pass.

    What maintd would do at a later stage waits for people from `advise` on; balance is worth no
    message.
    """
    if isinstance(why.kind, StageKind):
        is_reported = why.kind is not StageKind.WOULD_BALANCE
        return is_reported and dict(why.details).get("stage") != OBSERVE
    return why.kind in YOURS and FencingKind.QUIET_TIME not in why.kinds


def _lasts(held: Held, ledger: Ledger, now: Ms) -> bool:
    """Tell whether what waits will not go on by itself; balance is worth no message."""
    why = held.why
    if why.kind in STUCK and _is_stuck(ledger, held.incident, now):
        return True
    in_time = BudgetKind.BUDGET_NEVER not in why.kinds and bool(held.incident)
    waits = not why.kinds.isdisjoint(BUDGET_LASTS) and not in_time
    return waits and why.kind not in (BalanceKind.NOT_BALANCED, BudgetKind.BUDGET_OVERRIDDEN)


def _is_stuck(ledger: Ledger, incident: str, now: Ms) -> bool:
    """Tell whether nothing has been done for an open incident for so long that a person is needed.

    Its own moment changes with its status only, so its newest job counts as well.
    """
    known = ledger.incident(incident)
    if known is None or not known.status.active:
        return False
    if any(intent.purpose.incident == incident for intent in ledger.intents):
        return False
    return now - max(known.noted_at, known.changed_at, known.not_before) >= LATE


def overdue_machines(ledger: Ledger, now: Ms) -> list[Scheduled]:
    """The machines whose window has been overdue for so long that a person is needed."""
    return [scheduled for scheduled in ledger.scheduled if overdue(scheduled, now) >= LATE]
