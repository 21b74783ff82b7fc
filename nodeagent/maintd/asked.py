"""What administrators ask for, and what they have put on hold, as the event log tells it. Pure."""

from collections.abc import Iterator
from typing import TypeAlias

from nodeagent.model.action import Scope
from nodeagent.model.ledger import Decision, Hold, Ledger
from nodeagent.model.offer import AnswerOffers
from nodeagent.model.queue import (
    AddEntry,
    DeleteEntries,
    DeleteEntry,
    ResetBackOff,
    SetAutoRepair,
    SetConstraint,
    SetQueue,
    SetVariables,
)
from nodeagent.model.snapshot import Observed
from nodeagent.model.wish import (
    AddSeries,
    Balance,
    BringUp,
    Cancel,
    EditSeries,
    EndSeries,
    Pause,
    ResetStorm,
    Resume,
    Retry,
    SetSchedule,
    StopBalancing,
    TakeDown,
    TrustLedger,
    Wish,
)

# Kind, incident, node, text, job.
Line: TypeAlias = tuple[str, str, str, str, str]


def wishes(decision: Decision, observed: Observed | None) -> Iterator[Line]:
    """Which were granted, and why others were not."""
    known = {} if observed is None else {wish.id: wish for wish in observed.wishes}
    for wish in known.values():
        yield answered(wish, decision.refused.get(wish.id))
    for identity, why in decision.refused.items():
        if identity not in known:
            yield "wish-refused", "", "", why, ""


def answered(wish: Wish, why: str | None) -> Line:
    """That one was granted, or why it was not."""
    incident, node, what = _asked(wish)
    text = f"{wish.who} asked to {what}" + ("" if why is None else f": {why}")
    return "wish-granted" if why is None else "wish-refused", incident, node, text, ""


def _asked(wish: Wish) -> tuple[str, str, str]:
    """The incident and the node a wish is about, and what it wants."""
    match wish.asked:
        case Cancel(incident):
            return incident, "", f"cancel incident {incident}"
        case Retry(incident):
            return incident, "", f"retry incident {incident}"
        case Pause(scope, name, why, incident):
            what = f"pause {_place(scope, name, incident)}" + (f" ({why})" if why else "")
            return incident, _node(scope, name), what
        case Resume(scope, name, incident):
            return incident, _node(scope, name), f"resume {_place(scope, name, incident)}"
        case ResetStorm():
            return "", "", "reset the storm brake"
        case TrustLedger():
            return "", "", "go on with what was planned before another node was the master"
        case Balance(group, shifts):
            how = f" by {len(shifts)} moves" if shifts else ""
            return "", "", f"balance group {group}{how}"
        case StopBalancing(group):
            return "", "", f"stop balancing group {group}"
        case AddEntry(operation, _, address):
            return "", "", f"repair {address} ({operation})"
        case DeleteEntry(index):
            return "", "", f"delete queue entry {index}"
        case DeleteEntries(over):
            return "", "", f"delete what is {'' if over else 'not '}finished from the repair queue"
        case SetQueue(enabled):
            return "", "", f"{'enable' if enabled else 'disable'} the repair queue"
        case SetConstraint(name, value):
            return "", "", f"set the constraint {name} to {value}"
        case ResetBackOff():
            return "", "", "reset the back-off of the repair queue"
        case SetAutoRepair(enabled):
            return "", "", f"{'enable' if enabled else 'disable'} automatic repair"
        case SetVariables():
            return "", "", "set the variables that sabakan is asked with"
        case AnswerOffers(ids, reply):
            return "", "", f"{reply.value.lower()} {len(ids)} offers"
        case SetSchedule(schedule):
            machines = sum(len(window.machines) for window in schedule.windows)
            return "", "", f"schedule maintenance of {machines} machines"
        case TakeDown(machines):
            return "", "", f"take down {', '.join(map(str, machines))}"
        case BringUp(machines):
            return "", "", f"bring up {', '.join(map(str, machines))}"
        case AddSeries(machines):
            return "", "", f"plan maintenance of {len(machines)} machines every week"
        case EditSeries(number):
            return "", "", f"change series/{number}"
        case EndSeries(number):
            return "", "", f"end series/{number}"


def _node(scope: Scope, name: str) -> str:
    return name if scope is Scope.NODE else ""


def _place(scope: Scope, name: str, incident: str) -> str:
    if incident:
        return f"incident {incident}"
    word = scope.value.replace("nodegroup", "group")
    return f"{word} {name}" if name else f"the {word}"


def holds(before: Ledger, after: Ledger) -> Iterator[Line]:
    """What was paused, and what goes on."""
    old = {(hold.scope, hold.name, hold.incident): hold for hold in before.holds}
    new = {(hold.scope, hold.name, hold.incident): hold for hold in after.holds}
    for hold in [hold for key, hold in old.items() if key not in new]:
        yield _of_hold("resumed", hold, "")
    for hold in [hold for key, hold in new.items() if key not in old]:
        yield _of_hold("paused", hold, f" by {hold.who}" + (f": {hold.why}" if hold.why else ""))


def _of_hold(kind: str, hold: Hold, more: str) -> Line:
    text = f"{_place(hold.scope, hold.name, hold.incident)} {kind}{more}"
    return kind, hold.incident, _node(hold.scope, hold.name), text, ""
