"""Webhooks: JSON of maintd's own form, or of a template; it may be signed."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from nodeagent.maintd.notices import render
from nodeagent.maintd.notices.delivery import Delivery, Letter, Secret, seconds_of
from nodeagent.maintd.notices.sinks.http import Endpoint, bearer, endpoint_of
from nodeagent.maintd.owners.webhook import signed
from nodeagent.model.notice import Sink
from nodeagent.model.units import Ms
from nodeagent.secret import read_token
from nodeagent.section import Section


@dataclass(frozen=True, slots=True)
class Webhook:
    """The address of a webhook; `secret` is a private file whose first line signs each message."""

    name: str
    endpoint: Endpoint
    secret: str = ""
    number: int = field(default=0, compare=False)

    @property
    def ca(self) -> str:
        return self.endpoint.ca

    def deliver(self, letter: Letter, now: Ms) -> Delivery:
        sink, message = letter.sink, letter.message
        token = self.endpoint.read_token()
        text = render.payload(sink, render.values(message, sink, letter.cluster), token)
        headers = [("X-Maintd-Delivery", message.id), *signed(self.secret, text.encode(), now)]
        if "token" not in sink.body:  # else it is in the message
            headers += bearer(token)
        return self.endpoint.post(text, headers)

    def secrets(self) -> Iterator[Secret]:
        yield from self.endpoint.secrets()
        yield "secret", self.secret, read_token


def read(section: Section, sink: Sink, number: int) -> tuple[Sink, Webhook]:
    """Read the keys of a webhook."""
    title, body = render.template_of(section, "title"), render.template_of(section, "body")
    sink = replace(sink, title=title, body=body)
    render.check(section, sink, is_json=section.is_right("kind"))
    endpoint = endpoint_of(section, seconds_of(section))
    return sink, Webhook(sink.name, endpoint, section.path("secret", ""), number)
