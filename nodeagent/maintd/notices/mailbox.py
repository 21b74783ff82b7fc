"""A sink's mailbox: groups notices into messages, and retries a message until it arrives.

Pure. A sink sends one message at a time. New notices wait, and go out as one message after it, at
the earliest after the sink's interval: so many events lead to few messages, of bounded length,
which say how many events they combine. Retries follow after one minute, then two, four, up to ten,
or as late as the sink asks for. A message keeps its id and its text through all tries and restarts.
maintd drops a message that the sink refuses, or after the sink's `give-up`; the next message says
how many notices were lost.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from uuid import NAMESPACE_URL, uuid5

from nodeagent.maintd.notices.delivery import Delivered, Refused, Sent, pause
from nodeagent.model.notice import (
    ENDS,
    Condition,
    Mailbox,
    Message,
    Notice,
    Notices,
    Occasion,
    Sink,
)
from nodeagent.model.units import Ms

SHOWN = 50  # notices of one message
MOST = 10_000  # remembered conditions
QUIET = 600_000  # ms without a reason before it counts as ended
_PASSING = {Occasion.NEEDS_YOU, Occasion.SETTINGS_WRONG}
_NAMESPACE = uuid5(NAMESPACE_URL, "nodeagent notification")
_ENDED = {
    Occasion.CLOSED: "the incident of {node} is closed",
    Occasion.STORM_OVER: "the storm brake was reset",
    Occasion.REACHABLE: "{node} answers again, or is marked offline",
    Occasion.FENCING_OVER: "maintd no longer works on the dead node {node}: gnt-maint why {node}",
    Occasion.WINDOW_OVER: "the maintenance window of {machine} is over",
}


def gather(before: Notices, sinks: Sequence[Sink], present: Iterable[Notice], now: Ms) -> Notices:
    """Add started and ended conditions, and make the messages that are due."""
    if not sinks:
        return Notices()
    by_key = {(notice.occasion, notice.subject): notice for notice in present}
    kept, begun, ended = _compared(before.conditions, by_key, now)
    boxes = {box.sink: box for box in before.boxes}
    after = []
    for sink in sinks:
        box = boxes.get(sink.name, Mailbox(sink.name))
        news = ended if sink.repeats else begun + _endings(ended, now)
        new = [notice for notice in news if sink.takes(notice.occasion)]
        firing = sink.repeats and any(sink.takes(condition.occasion) for condition in kept)
        after.append(_posted(_with(box, new), sink, now, always=firing))
    return Notices(kept, tuple(after))


def _compared(
    known: Iterable[Condition], present: Mapping[tuple[Occasion, str], Notice], now: Ms
) -> tuple[tuple[Condition, ...], list[Notice], list[Notice]]:
    """The conditions to remember, those that have started, and those that have ended."""
    kept: dict[tuple[Occasion, str], Condition] = {}
    ended: list[Notice] = []
    for old in known:
        if old.key in present:
            kept[old.key] = replace(old, gone=Ms(0)) if old.gone else old
        elif old.occasion in _PASSING and now - (old.gone or now) < QUIET:
            kept[old.key] = replace(old, gone=old.gone or now)
        else:
            ended.append(Notice(old.occasion, old.subject, old.node, old.since, "", over=True))
    begun = [notice for key, notice in present.items() if key not in kept][: MOST - len(kept)]
    new = (Condition(notice.occasion, notice.subject, notice.node, now) for notice in begun)
    return (*kept.values(), *new), begun, ended


def _endings(ended: Iterable[Notice], now: Ms) -> list[Notice]:
    endings = []
    for notice in ended:
        if (occasion := ENDS.get(notice.occasion)) is not None:
            machine = notice.subject.rpartition(" ")[0]
            text = _ENDED[occasion].format(node=notice.node, machine=machine)
            endings.append(replace(notice, occasion=occasion, at=now, text=text))
    return endings


def _with(box: Mailbox, new: Sequence[Notice]) -> Mailbox:
    """The box with new notices: it shows the most severe, of equals the newest, and counts all."""
    if not new:
        return box
    counts = dict(box.counts)
    for notice in new:
        counts[notice.occasion.value] = counts.get(notice.occasion.value, 0) + 1
    every = (*box.waiting, *new)
    ranked = sorted(range(len(every)), key=lambda n: (every[n].occasion.severity.rank, n))
    shown = tuple(every[n] for n in sorted(ranked[-SHOWN:]))
    return replace(box, waiting=shown, counts=counts)


def _posted(box: Mailbox, sink: Sink, now: Ms, *, always: bool = False) -> Mailbox:
    """The box with a new message to send, if one is due."""
    if box.message is not None or not (box.waiting or always) or now < box.made + sink.interval:
        return box
    identity = str(uuid5(_NAMESPACE, f"{sink.name} {now}"))
    message = Message(identity, now, box.waiting, box.counts, lost=box.lost)
    return replace(box, message=message, waiting=(), counts={}, made=now)


def test(before: Notices, sink: Sink, who: str, now: Ms) -> Notices:
    """Send a test notice; a message that waits for a retry is tried at once."""
    box = next((b for b in before.boxes if b.sink == sink.name), Mailbox(sink.name))
    text = f"{who} asked for this test of {sink.name}"
    box = _with(box, [Notice(Occasion.TEST, f"{now}", "", now, text)])
    if box.message is not None:
        box = replace(box, message=replace(box.message, after=Ms(0)))
    others = (other for other in before.boxes if other.sink != sink.name)
    return replace(before, boxes=(*others, _posted(box, replace(sink, interval=Ms(0)), now)))


def settle(box: Mailbox, sink: Sink, sent: Sent, now: Ms) -> Mailbox:
    """Record the result of a try of its message."""
    message = box.message
    if message is None or (message.id, message.tries) != (sent.message, sent.tries):
        return box
    result = sent.result
    if isinstance(result, Delivered):
        return replace(box, message=None, ended=sent.at, lost=0)
    if isinstance(result, Refused) or now - message.made >= sink.give_up:
        return replace(box, message=None, lost=message.lost + message.total)
    tries, after = message.tries + 1, Ms(now + pause(message.tries, result.wait))
    failed = replace(message, tries=tries, after=after, why=result.why[:300], intent="")
    return replace(box, message=failed)


def due(box: Mailbox, now: Ms) -> Message | None:
    """The message to try now."""
    message = box.message
    if message is None or message.after > now or message.intent:
        return None
    return message
