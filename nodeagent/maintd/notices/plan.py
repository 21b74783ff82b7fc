"""Notifications of a round: settle results, make messages, write letters. Pure."""

from collections.abc import Collection, Mapping
from dataclasses import replace

from nodeagent.maintd.notices import mailbox
from nodeagent.maintd.notices.conditions import conditions
from nodeagent.maintd.notices.delivery import Letter, Sent
from nodeagent.model.ledger import Decision, Policy
from nodeagent.model.notice import Condition, Notices, Sink
from nodeagent.model.snapshot import Observed
from nodeagent.model.units import Ms


def can_ask(policy: Policy) -> bool:
    """Check whether an Alertmanager is among the sinks, which can tell which alerts fire."""
    return any(sink.kind == "alertmanager" for sink in policy.notify)


def take_up(
    decision: Decision,
    observed: Observed,
    policy: Policy,
    results: Mapping[str, Sent],
    silent: Collection[str],
    complaint: str,
    now: Ms,
) -> tuple[Decision, dict[str, list[Letter]]]:
    """Add a round's notifications to the ledger; return the letters to send once it is saved."""
    sinks, before = policy.notify, decision.ledger.notices
    if not sinks and before == Notices():
        return decision, {}
    known = {sink.name: sink for sink in sinks}
    boxes = tuple(
        mailbox.settle(box, known[box.sink], sent, now)
        if box.sink in known
        and box.message is not None
        and (sent := results.get(box.message.id)) is not None
        else box
        for box in before.boxes
    )
    present = list(conditions(decision, observed, silent, complaint, now)) if sinks else []
    after = mailbox.gather(replace(before, boxes=boxes), sinks, present, now)
    texts = {(notice.occasion, notice.subject): notice.text for notice in present}
    firing = [(condition, texts.get(condition.key, "")) for condition in after.conditions]
    ledger = replace(decision.ledger, notices=after)
    letters = _letters(after, known, firing, observed.snapshot.cluster, now)
    return replace(decision, ledger=ledger), letters


def _letters(
    notices: Notices,
    sinks: Mapping[str, Sink],
    firing: list[tuple[Condition, str]],
    cluster: str,
    now: Ms,
) -> dict[str, list[Letter]]:
    letters = {}
    for box in notices.boxes:
        sink, message = sinks[box.sink], mailbox.due(box, now)
        if message is not None and not sink.command:
            letters[sink.name] = [Letter(message, sink, cluster, now, firing)]
    return letters
