"""The state of balancing and the capacity by group, as JSON. Pure."""

from collections import Counter
from collections.abc import Mapping

from nodeagent.maintd.balancing.ratings import GroupHeadroom
from nodeagent.maintd.http.status import Json, reason_json
from nodeagent.maintd.http.view import View
from nodeagent.maintd.planning.tag_settings import nearer, with_tags
from nodeagent.model.balance import Agenda, Shift, Spot
from nodeagent.model.ledger import Policy
from nodeagent.model.reason import BalanceKind, Of, Reason, Subject
from nodeagent.model.snapshot import Group
from nodeagent.model.units import Ms

OLDEST = Ms(21_600_000)  # ms for which a count is shown: large clusters are counted group by group


def balances(view: View, policy: Policy) -> list[Json]:
    """Every group: whether it is balanced, the search's result, the obstacles or the end."""
    snapshot = view.observed.snapshot
    policy = with_tags(policy, snapshot)
    groups = sorted(snapshot.groups.values(), key=lambda group: group.name)
    reasons: dict[Subject, list[Reason]] = {}
    for held in view.held:
        if held.why.subject.of is Of.GROUP:
            reasons.setdefault(held.why.subject, []).extend(held.why.parts)
    running = Counter(intent.purpose.group for intent in view.ledger.intents)
    return [
        _balance(view, group, nearer(policy, group), running[group.uuid], reasons)
        for group in groups
    ]


def _balance(
    view: View,
    group: Group,
    policy: Policy,
    running: int,
    reasons: Mapping[Subject, list[Reason]],
) -> Json:
    ledger, advice = view.ledger, view.observed.advice.get(group.uuid)
    halt, agenda = ledger.halt_of(group.uuid), ledger.agenda_of(group.uuid)
    lopsided = ledger.lopsided_of(group.uuid)
    held = reasons.get(Subject(Of.GROUP, group.name), [])
    given_up = (str(part) for part in held if part.kind is BalanceKind.LIST_GIVEN_UP)
    return {
        "group": group.name,
        "uuid": group.uuid,
        "on": policy.balance,
        "threshold": policy.balance_threshold,
        "at": None if advice is None else advice.at / 1000,
        "score": None if advice is None or advice.why else advice.score,
        "final": None if advice is None or advice.why else advice.final,
        "moves": [] if advice is None else [_shift(shift) for shift in advice.shifts],
        "since": None if lopsided is None else lopsided.since / 1000,
        "doubt": (advice.doubt or None) if advice else None,
        "under-way": running,
        "asked": None if agenda is None else _agenda(agenda),
        "halted": None if halt is None else {"job": halt.job, "why": halt.why, "tag": halt.tag},
        "held": [str(part) for part in held],
        "reasons": list(map(reason_json, held)),
        "given-up": next(given_up, None),
    }


def _agenda(agenda: Agenda) -> Json:
    shifts = [_shift(shift) for shift in agenda.shifts] if agenda.listed else None
    return {"who": agenda.who, "at": agenda.at / 1000, "left": shifts}


def _shift(shift: Shift) -> Json:
    return {"instance": shift.instance, "from": _spot(shift.at), "to": _spot(shift.to)}


def _spot(spot: Spot) -> list[str]:
    return [spot.primary] if spot.secondary is None else [spot.primary, spot.secondary]


def capacities(view: View, headrooms: Mapping[str, GroupHeadroom]) -> list[Json]:
    """How many more instances fit into the groups that were counted lately, by name.

    Readers who see no schedule see nothing of the nodes that leave next.
    """
    lately = (headroom for headroom in headrooms.values() if view.at - headroom.at < OLDEST)
    documents = ({**headroom.document, "at": headroom.at / 1000} for headroom in lately)
    rows = documents if view.full else map(_without_plans, documents)
    return sorted(rows, key=lambda row: str(row["group"]))


def _without_plans(row: Json) -> Json:
    return {**row, "next": None, "sizes": [{**size, "away": None} for size in row["sizes"]]}
