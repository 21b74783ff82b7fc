"""The sinks of notifications over HTTP: the state of delivery, and a test."""

from nodeagent.maintd.http import parse
from nodeagent.maintd.http.context import Context
from nodeagent.maintd.http.status import Json, View
from nodeagent.maintd.notices.outbox import Outbox
from nodeagent.model.notice import Mailbox, Sink
from nodeagent.model.wish import SendTestNotice
from nodeagent.web.exchange import Route


class Notifying:
    def __init__(self, context: Context) -> None:
        self._context = context
        self.routes = (
            Route("GET", ("1", "notify"), context.telling("notify", self._sinks)),
            Route("POST", ("1", "notify", "test"), context.changing(parse.texts(SendTestNotice))),
        )

    def _sinks(self, view: View) -> list[Json]:
        engine = self._context.maintd.engine
        boxes = {box.sink: box for box in view.ledger.notices.boxes}
        return [
            sink_json(sink, boxes.get(sink.name, Mailbox(sink.name)), engine.outbox)
            for sink in engine.policy.notify
        ]


def sink_json(sink: Sink, box: Mailbox, outbox: Outbox) -> Json:
    """One sink, without its address; times in unix seconds."""
    message = box.message
    sent = outbox.results.get(sink.name)
    if message is not None and sent is not None and sent.message == message.id:
        tries, why = sent.tries + 1, sent.why  # the next round records it
        ended = box.ended if why else sent.at
        message = None if not why else message
    else:
        tries, why = (message.tries, message.why) if message else (0, "")
        ended = box.ended
    return {
        "name": sink.name,
        "kind": sink.kind.value,
        "events": list(sink.events),
        "min-severity": sink.severity.value,
        "delivered": ended / 1000 if ended else None,
        "waiting": sum(box.counts.values()) + (message.total if message else 0),
        "lost": box.lost,
        "tries": tries,
        "why": why,
        "again": max(0, message.after) / 1000 if message and message.tries else None,
    }
