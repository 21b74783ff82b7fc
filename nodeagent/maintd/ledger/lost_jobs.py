"""Jobs and orders of which nobody knows the end, and how to stop waiting for each. Pure.

Their intents keep all other work off the node, so a person has to hear of them.
"""

from nodeagent.maintd.planning.outcomes import is_unheard
from nodeagent.model.action import RunCommand, describe
from nodeagent.model.ledger import Intent, Ledger, Outcome, Result
from nodeagent.model.purpose import OfEntry, OfNotices, OfOwners, OfPerson, OfRoll, OfWindow
from nodeagent.model.reason import Held, Kind, Reason, because
from nodeagent.model.snapshot import Observed


def reasons(ledger: Ledger, observed: Observed) -> tuple[Held, ...]:
    """Each lost job, and each order to a node in doubt."""
    held: list[Held] = []
    for intent in ledger.intents:
        result = observed.results.get(intent.id)
        if result is not None and result.outcome is Outcome.LOST:
            held.append(Held(_lost(intent, result, ledger), intent.node, intent.incident))
        elif is_unheard(intent, observed) and not intent.purpose.roll:  # silence is expected there
            assert isinstance(intent.action, RunCommand)
            node, what = intent.action.node, describe(intent.action)
            why = because(Kind.SILENT_ORDER, node, what=what, doubt=observed.doubts[node])
            held.append(Held(why, intent.node, intent.incident))
    return tuple(held)


def _lost(intent: Intent, result: Result, ledger: Ledger) -> Reason:
    action, then, what = intent.action, _let_go(intent, ledger), describe(intent.action)
    # A check of the repair queue belongs to no node.
    node = action.node if isinstance(action, RunCommand) else intent.node
    if isinstance(action, RunCommand) and result.why:
        return because(Kind.LOST_ORDER, node, what=what, why=result.why, then=then)
    return because(Kind.LOST_JOB, node, job=intent.job, what=what, then=then)


def _let_go(intent: Intent, ledger: Ledger) -> str:
    match intent.purpose:
        case OfOwners():
            return "wait: maintd tells owners again"
        case OfNotices():
            return "wait: maintd sends the notification again"
        case OfWindow(node) if any(scheduled.node == node for scheduled in ledger.scheduled):
            return "change its window"
        case OfEntry(index):
            return f"gnt-maint queue delete {index}"
        case OfRoll(node) if _is_in_roll(node, ledger):
            return f"gnt-maint roll skip {intent.node}"
        case OfPerson():
            return f"gnt-maint evacuate {intent.node} again, or gnt-maint done {intent.node}"
        case OfRoll() | OfWindow():
            return f"gnt-maint done {intent.node}"
        case _:
            return "gnt-maint retry or cancel"


def _is_in_roll(node: str, ledger: Ledger) -> bool:
    member = ledger.roll_node(node)
    return member is not None and member.claims
