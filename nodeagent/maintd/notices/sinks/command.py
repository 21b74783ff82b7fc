"""Deliver notifications by a command of the master's own agent. Pure.

The command gets a message as JSON on its standard input; its exit code says whether it arrived. The
agent runs one command at a time, so owners' offers go first, and one sink after the other.
"""

from dataclasses import replace

from nodeagent.maintd.notices import mailbox
from nodeagent.maintd.notices.delivery import Retry, Sent
from nodeagent.maintd.notices.owners import agent_is_free, delivery_of
from nodeagent.maintd.notices.render import check, fitting, template_of, values
from nodeagent.maintd.planning.intents import without_claim
from nodeagent.maintd.planning.situation import Situation
from nodeagent.model.action import RunCommand
from nodeagent.model.ledger import Ledger
from nodeagent.model.notice import Mailbox, Message, Sink
from nodeagent.model.purpose import OfNotices
from nodeagent.model.snapshot import Observed
from nodeagent.model.units import Ms, Seconds
from nodeagent.protocol.messages import MOST_STDIN
from nodeagent.section import NAME, Section


def read(section: Section, sink: Sink) -> tuple[Sink, None]:
    """Read the keys of a command; no thread of ours delivers to it."""
    wanted = "the name of a whitelisted repair command: letters, digits, - and _"
    sink = replace(
        sink,
        title=template_of(section, "title"),
        command=section.text("command", "", NAME.pattern, wanted),
        seconds=Seconds(round(section.duration("seconds", 30, 1, 3600))),
    )
    if section.is_right("kind"):
        section.require({"command": sink.command})
    check(section, sink)
    return sink, None


def remember(ledger: Ledger, observed: Observed, sinks: tuple[Sink, ...], now: Ms) -> Ledger:
    """Record which messages the commands have delivered, and why others failed."""
    ours = {i.id: i for i in ledger.intents if isinstance(i.purpose, OfNotices)}
    if not (ours or ledger.notices.boxes):
        return ledger
    ended = {
        identity: result
        for identity, intent in ours.items()
        if (result := delivery_of(intent, observed)) is not None
    }
    known, boxes = {sink.name: sink for sink in sinks}, list[Mailbox]()
    for box in ledger.notices.boxes:
        message, sink = box.message, known.get(box.sink)
        if message is not None and message.intent and sink is not None:
            lost = None if message.intent in ours else Retry("its order is no longer known")
            if (result := ended.get(message.intent, lost)) is not None:
                box = mailbox.settle(box, sink, Sent(message.id, message.tries, result, now), now)
        boxes.append(box)
    intents = tuple(intent for intent in ledger.intents if intent.id not in ended)
    after = replace(ledger, intents=intents, notices=replace(ledger.notices, boxes=tuple(boxes)))
    return ledger if after == ledger else after


def due(ledger: Ledger, sinks: tuple[Sink, ...], now: Ms) -> tuple[Sink, Message] | None:
    """The oldest message that a command must deliver now."""
    boxes = {box.sink: box for box in ledger.notices.boxes}
    commands = (sink for sink in sinks if sink.command and sink.name in boxes)
    rows = ((sink, mailbox.due(boxes[sink.name], now)) for sink in commands)
    waiting = [(sink, message) for sink, message in rows if message is not None]
    return min(waiting, key=lambda row: row[1].made, default=None)


def order(ledger: Ledger, situation: Situation) -> Ledger:
    """Order the delivery that is due, if the agent is free for it."""
    snapshot, now = situation.observed.snapshot, situation.now
    waiting = due(ledger, situation.policy.notify, now)
    if waiting is None or not agent_is_free(ledger, situation.observed):
        return ledger
    sink, message = waiting
    stdin = fitting(sink, values(message, sink, snapshot.cluster), MOST_STDIN)
    action = RunCommand(snapshot.master, sink.command, stdin, seconds=sink.seconds)
    ledger = without_claim(ledger, OfNotices(sink.name), action, now)
    ordered = replace(message, intent=ledger.intents[-1].id)
    boxes = tuple(
        replace(box, message=ordered) if box.sink == sink.name else box
        for box in ledger.notices.boxes
    )
    return replace(ledger, notices=replace(ledger.notices, boxes=boxes))
