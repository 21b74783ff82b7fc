"""Conditions worth a notification, found in a round's decision, each with its text. Pure.

Whatever waits for a person (`needs_you`) is among them.
maintd notifies of a condition when it begins, and again only after it has ended. So a restart
repeats no notification; a new master notifies of all that it finds.
"""

from collections.abc import Collection, Iterator

from nodeagent.maintd.notices.needs_you import SETTINGS, NeedsYou, Sort, needs_you, overdue_machines
from nodeagent.maintd.planning.times import rfc3339
from nodeagent.model.diagnosis import Need
from nodeagent.model.fault_text import fault_text
from nodeagent.model.incident import UNKNOWN, Incident, Status
from nodeagent.model.ledger import Decision, Ledger
from nodeagent.model.notice import Notice, Occasion
from nodeagent.model.offer import Reply
from nodeagent.model.reason import Held
from nodeagent.model.snapshot import Observed
from nodeagent.model.units import Ms
from nodeagent.model.window import Mode

_TEXT = 500  # characters


def conditions(
    decision: Decision, observed: Observed, silent: Collection[str], complaint: str, now: Ms
) -> Iterator[Notice]:
    """Return all present conditions.

    `silent` are the unreachable nodes; `complaint` says why new settings were refused, or is empty.
    """
    ledger = decision.ledger
    for incident in ledger.incidents:
        for occasion, text in _of_incident(incident):
            yield Notice(occasion, incident.id, incident.name, now, _cut(text))
    if ledger.storm is not None:
        yield Notice(Occasion.STORM, "storm", "", now, _cut(f"storm brake: {ledger.storm.why}"))
    for need in needs_you(ledger, observed, decision.held, silent, now):
        yield from _of_a_person(need, ledger, observed, now)
    yield from _fencings(ledger, observed, now)
    yield from _windows(ledger, observed, now)
    yield from _owners(ledger, observed, now)
    if complaint:
        text = _cut(f"maintd keeps its old settings: {complaint}")
        yield Notice(Occasion.SETTINGS_WRONG, "maintd.toml", "", now, text)


def _of_a_person(need: NeedsYou, ledger: Ledger, observed: Observed, now: Ms) -> Iterator[Notice]:
    """The notice of one thing that waits; incidents and windows have notices of their own."""
    if need.sort is Sort.UNREACHABLE:
        why = observed.doubts.get(need.node, "its agent does not answer")
        text = f"{need.node} is unreachable: {why}; run gnt-maint nodes --state unreachable"
        yield Notice(Occasion.UNREACHABLE, need.node, need.node, now, _cut(text))
    elif need.sort is Sort.ENTRY and (entry := need.entry) is not None:
        text = f"queue entry {entry.index}: {entry.address} was not repaired: {entry.why}"
        yield Notice(Occasion.QUEUE_FAILED, f"{entry.index}", "", now, _cut(text))
    elif need.sort in (Sort.REASON, Sort.SETTING) and need.held is not None:
        incident = ledger.incident(need.held.incident)
        yield _of_reason(need.held, fault_text(incident.diagnosis.text) if incident else "", now)


def _of_incident(incident: Incident) -> Iterator[tuple[Occasion, str]]:
    name, diagnosis = incident.name, incident.diagnosis
    fault = fault_text(diagnosis.text)
    because = f" (because: {fault})" if fault else ""
    if diagnosis == UNKNOWN:
        yield Occasion.DETECTED, f"{name} has an incident that was rebuilt from Ganeti"
    else:
        yield Occasion.DETECTED, f"{name} requests {diagnosis.need.wire}: {diagnosis.text}"
    match incident.status:
        case Status.PENDING:
            yield Occasion.STARTED, f"maintd works on {name} ({diagnosis.need.wire})"
        case Status.COMPLETED if diagnosis.need is Need.LIVE_REPAIR:
            yield Occasion.COMPLETED, f"the live repair of {name} succeeded"
        case Status.COMPLETED:
            yield Occasion.COMPLETED, f"{name} is evacuated and needs your repair{because}"
        case Status.FAILED:
            yield Occasion.FAILED, f"the work on {name} failed: {incident.why}{because}"


def _fencings(ledger: Ledger, observed: Observed, now: Ms) -> Iterator[Notice]:
    """Dead nodes on which maintd works; once one is fenced, it needs you."""
    nodes = observed.snapshot.by_uuid
    for fencing in ledger.fencing:
        if not (fencing.stage.over or fencing.drill) and (node := nodes.get(fencing.node)):
            text = f"maintd fences {node.name}: {fencing.why}; see gnt-maint why {node.name}"
            yield Notice(Occasion.FENCING, node.name, node.name, now, _cut(text))


def _windows(ledger: Ledger, observed: Observed, now: Ms) -> Iterator[Notice]:
    late = overdue_machines(ledger, now)
    for scheduled in ledger.scheduled:
        when = scheduled.when
        machine, node = str(scheduled.machine), observed.snapshot.name_of(scheduled.node)
        subject = f"{machine} {when.start}"
        ends = "" if when.end_ms is None else f" and ends at {rfc3339(when.end_ms)}"
        if scheduled.mode is Mode.DOWN or when.start_ms <= now:
            text = f"the maintenance window of {machine} has started{ends}"
            yield Notice(Occasion.WINDOW_STARTED, subject, node, now, _cut(text))
        if scheduled in late:
            state = "not down yet" if scheduled.mode is Mode.DRAINING else "still down"
            text = f"the maintenance window of {machine} is overdue: it is {state}"
            yield Notice(Occasion.WINDOW_OVERDUE, subject, node, now, _cut(text))


def _owners(ledger: Ledger, observed: Observed, now: Ms) -> Iterator[Notice]:
    offers = [o for o in ledger.offers if o.answer and o.answer.reply is Reply.DECLINE]
    for offer in offers:
        if offer.instances and offer.answer is not None:
            node = observed.snapshot.name_of(offer.node)
            why = f": {offer.answer.reason}" if offer.answer.reason else ""
            text = f"owner {offer.owner} declines maintenance of {node or offer.node}{why}"
            subject = f"{offer.owner} {offer.node} {offer.generation}"
            yield Notice(Occasion.OWNER_DECLINED, subject, node, now, _cut(text))


def _of_reason(held: Held, because: str, now: Ms) -> Notice:
    """The notice of a reason; `because` is the fault of its incident, empty if unknown."""
    why = held.why
    wrong = why.kind in SETTINGS
    detail = dict(why.details).get("tag", "") if wrong else held.incident
    subject = f"{why.kind.word} {why.subject.name} {detail}".strip()
    occasion = Occasion.SETTINGS_WRONG if wrong else Occasion.NEEDS_YOU
    text = held.reason if not why.help or why.help in held.reason else f"{held.reason}; {why.help}"
    text += f" (because: {because})" if because else ""
    return Notice(occasion, subject, held.node, now, _cut(text))


def _cut(text: str) -> str:
    return text if len(text) <= _TEXT else f"{text[:_TEXT]}…"
