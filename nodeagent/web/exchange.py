"""Requests, responses and routing as values; no socket is needed to test them. Pure."""

import json
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias
from urllib.parse import parse_qs, parse_qsl, unquote

REASONS = {
    200: "OK",
    202: "Accepted",
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    412: "Precondition Failed",
    413: "Content Too Large",
    414: "URI Too Long",
    415: "Unsupported Media Type",
    417: "Expectation Failed",
    429: "Too Many Requests",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    501: "Not Implemented",
    503: "Service Unavailable",
}


@dataclass(frozen=True, slots=True)
class Request:
    """One request, its path still as it came. Header names are lower case.

    `peer` is a numeric address, or `uid:` and the user of the process at a unix socket; `secure`
    tells that it came over TLS. A program that shows some readers more than others sets `full`:
    this reader sees everything. `dry` asks for the effect of a change, without the change.
    """

    method: str
    target: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    peer: str = ""
    secure: bool = False
    full: bool = False
    dry: bool = False

    @property
    def segments(self) -> tuple[str, ...]:
        """The path's parts, percent-decoded one by one: `/1/list` is ("1", "list")."""
        path = self.target.partition("?")[0]
        return tuple(unquote(part, errors="replace") for part in path.split("/")[1:])

    def query_names(self) -> list[str]:
        """The names of all query parameters, each as often as it is given."""
        text = self.target.partition("?")[2]
        return [name for name, _ in parse_qsl(text, keep_blank_values=True)]

    def query(self, name: str) -> str | None:
        """The one value of a query parameter; None where absent or given twice."""
        _, _, text = self.target.partition("?")
        if not text or text.count("&") > 15:
            return None
        values = parse_qs(text, keep_blank_values=True).get(name, [])
        return values[0] if len(values) == 1 else None


@dataclass(frozen=True, slots=True)
class Response:
    """One response; always sent with its length and `Connection: close`.

    All its readers share its body, without a copy.
    """

    status: int
    body: bytes
    kind: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def json(cls, value: object, status: int = 200) -> "Response":
        return cls(status, json.dumps(value).encode())

    @classmethod
    def text(cls, text: str, status: int = 200) -> "Response":
        return cls(status, text.encode(), "text/plain; charset=utf-8")

    @classmethod
    def error(cls, status: int, why: str) -> "Response":
        return cls.json({"error": why}, status)

    def head(self) -> bytes:
        """Return the bytes before the body on the wire (HTTP/1.1)."""
        head = (
            f"HTTP/1.1 {self.status} {REASONS.get(self.status, 'Unknown')}\r\n"
            f"Content-Type: {self.kind}\r\nContent-Length: {len(self.body)}\r\n{_ALWAYS}"
        )
        if self.headers:
            head += "".join(f"{name}: {value}\r\n" for name, value in self.headers.items())
        return f"{head}\r\n".encode("latin-1")


_ALWAYS = "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n"

ANY_UUID = "<uuid>"
ANY_NAME = "<name>"
UUID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_OPEN = {ANY_UUID: UUID, ANY_NAME: re.compile(r"[A-Za-z0-9_.-]{1,255}")}

Answer: TypeAlias = Response | Awaitable[Response]
Handler: TypeAlias = Callable[[Request], Answer]


@dataclass(frozen=True, slots=True)
class Route:
    """A handler for one method and a fixed run of path segments.

    `<uuid>` stands for any UUID, `<name>` for any name of Ganeti's.

    With `open_ended` further segments are ignored, as Ganeti's monitoring daemon does; with `slash`
    one at the end. `before` refuses callers that may not even learn the methods.
    """

    method: str
    segments: tuple[str, ...]
    handler: Handler
    open_ended: bool = False
    slash: bool = False
    before: Callable[[Request], None] = lambda _: None

    def meets(self, segments: tuple[str, ...]) -> bool:
        if self.slash and segments[-1:] == ("",):
            segments = segments[:-1]
        if self.open_ended:
            segments = segments[: len(self.segments)]
        return len(segments) == len(self.segments) and all(
            pattern.fullmatch(here) if (pattern := _OPEN.get(wanted)) else here == wanted
            for here, wanted in zip(segments, self.segments, strict=True)
        )


# As Ganeti's monitoring daemon answers, whose protocol the agent speaks.
NOT_FOUND = Response.text("Resource not found", 404)


def route(table: tuple[Route, ...], request: Request, not_found: Response = NOT_FOUND) -> Answer:
    """Answer a request from a table of routes; 405 names the methods there are."""
    segments = request.segments
    for row in table:
        if row.method == request.method and row.meets(segments):
            return row.handler(request)
    if routes := [row for row in table if row.meets(segments)]:
        for row in routes:
            row.before(request)
        allowed = ", ".join(sorted({row.method for row in routes}))
        response = Response.error(405, "method not allowed")
        return Response(405, response.body, headers={"Allow": allowed})
    return not_found
