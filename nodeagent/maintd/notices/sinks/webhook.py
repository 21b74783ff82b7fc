"""Webhooks: JSON of maintd's own form, or of a template; it may be signed."""

import hashlib
import hmac
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from nodeagent.maintd.notices import render
from nodeagent.maintd.notices.delivery import Delivery, Letter, Secret, seconds_of
from nodeagent.maintd.notices.owners import ANY, OwnerLetter, target_of
from nodeagent.maintd.notices.sinks.http import Endpoint, bearer, endpoint_of
from nodeagent.model.notice import Sink
from nodeagent.model.units import Ms
from nodeagent.secret import read_token
from nodeagent.section import Section, each_once


@dataclass(frozen=True, slots=True)
class Hook:
    """The address of a webhook; `secret` is a private file whose first line signs each message."""

    name: str
    endpoint: Endpoint
    secret: str = ""
    table: str = field(default="", compare=False)

    @property
    def ca(self) -> str:
        return self.endpoint.ca

    def post(self, identity: str, text: str, token: str, now: Ms) -> Delivery:
        """Send JSON with its id, the time and, given a `secret`, the signature."""
        at = f"{now // 1000}"
        headers = [("X-Maintd-Delivery", identity), ("X-Maintd-Timestamp", at)]
        if self.secret:
            signature = sign(read_token(self.secret), at, text.encode())
            headers.append(("X-Maintd-Signature", signature))
        return self.endpoint.post(text, [*headers, *bearer(token)])

    def secrets(self) -> Iterator[Secret]:
        yield from self.endpoint.secrets()
        yield "secret", self.secret, read_token


def sign(secret: str, at: str, body: bytes) -> str:
    """`sha256=` and the HMAC-SHA256, in hex, of the time (unix seconds), a dot and the body."""
    text = at.encode() + b"." + body
    return "sha256=" + hmac.new(secret.encode("latin-1"), text, hashlib.sha256).hexdigest()


class Webhook(Hook):
    """The webhook of a sink."""

    __slots__ = ()

    def deliver(self, letter: Letter, now: Ms) -> Delivery:
        sink, message = letter.sink, letter.message
        token = self.endpoint.read_token()
        text = render.payload(sink, render.values(message, sink, letter.cluster), token)
        in_header = "" if "token" in sink.body else token
        return self.post(message.id, text, in_header, now)


class OwnerWebhook(Hook):
    """The webhook of an owner of instances."""

    __slots__ = ()

    def deliver(self, letter: OwnerLetter, now: Ms) -> Delivery:
        return self.post(letter.id, letter.body, self.endpoint.read_token(), now)


def read(section: Section, sink: Sink) -> tuple[Sink, Webhook]:
    """Read the keys of a webhook."""
    title, body = render.template_of(section, "title"), render.template_of(section, "body")
    sink = replace(sink, title=title, body=body)
    render.check(section, sink, is_json=section.is_right("kind"))
    endpoint = endpoint_of(section, seconds_of(section))
    return sink, Webhook(sink.name, endpoint, section.path("secret", ""), section.name)


def of_owners(owners: Section) -> Iterator[OwnerWebhook]:
    """Read the webhooks of owners, each once."""
    tables = owners.tables("webhooks")
    names = list[str]()
    for section in tables:
        wanted = "an owner's name, or *"
        names.append(section.text("owner", ANY, r"[A-Za-z0-9_.+*/:@-]{1,115}", wanted))
        endpoint = endpoint_of(section, seconds_of(section))
        secret = section.path("secret", "")
        yield OwnerWebhook(target_of(names[-1]), endpoint, secret, section.name)
        section.done()
    each_once(tables, "owner", [[name] for name in names])
