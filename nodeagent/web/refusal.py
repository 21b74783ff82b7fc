"""Read the head of a request, or refuse it before any handler sees it. Pure."""

import re
from dataclasses import dataclass
from functools import lru_cache

import h11

# h11 unites equal lengths ("5, 5", or the header twice); another parser may not.
_LENGTH = re.compile(rb"\r\ncontent-length[ \t]*:([^\r]*)(?=\r)", re.IGNORECASE)
_WHOLE = re.compile(rb"[ \t]*[0-9]{1,9}[ \t]*")
_MANY, _LONG = 64, 1024  # heads, and bytes of one, that are remembered
_SECRET = b"\r\nauthorization:"


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on a client's cost; times are in seconds from the connection's start.

    A peer is an address, for IPv6 a network of 64 bits. `unsent` limits the bytes of answers in
    memory for readers, `unsent_per_peer` those of one peer; `pace` is a reader's least bytes a
    second.
    """

    head_bytes: int = 8 * 1024
    target_bytes: int = 2 * 1024
    headers: int = 32
    body_bytes: int = 256 * 1024
    request_seconds: float = 5.0
    total_seconds: float = 20.0
    connections: int = 512
    per_peer: int = 128
    unsent: int = 32 * 1024 * 1024
    unsent_per_peer: int = 16 * 1024 * 1024
    pace: int = 16 * 1024


def fault_of(head: bytes) -> str | None:
    """Return the fault that h11 lets pass in the bytes of a head, complete or not."""
    lines = head.count(b"\r\n")
    if head.count(b"\n") != lines or head.count(b"\r") != lines:
        return "a line does not end in CR LF"
    if b"\0" in head:
        return "a NUL character in the head"
    if b"\r\n " in head or b"\r\n\t" in head:
        return "a header is folded over lines"
    lengths = _LENGTH.findall(head)
    if len(lengths) > 1 or (lengths and not _WHOLE.fullmatch(lengths[0])):
        return "Content-Length is not one whole number"
    return None


def read(head: bytes) -> h11.Request:
    """Return the request of a whole head, its empty line included.

    RemoteProtocolError if it is not HTTP. A polling client sends the same bytes every time, and
    reading them is a third of the cost of an answer. So recent heads are remembered, but for those
    with passwords.
    """
    if len(head) > _LONG or _SECRET in head.lower():
        return _read(head)
    return _remembered(head)


def _read(head: bytes) -> h11.Request:
    http = h11.Connection(h11.SERVER)
    http.receive_data(head)
    event = http.next_event()
    assert isinstance(event, h11.Request)
    return event


_remembered = lru_cache(_MANY)(_read)


def length_of(request: h11.Request) -> int:
    """Return the body's Content-Length; a request without one has no body (RFC 9112, 6.3)."""
    return int(next((v for k, v in request.headers if k == b"content-length"), b"0"))


def waits_to_continue(request: h11.Request) -> bool:
    """Tell whether the client sends its body only when asked (RFC 9110, 10.1.1)."""
    return request.http_version == b"1.1" and any(k == b"expect" for k, _ in request.headers)


def refusal_of(request: h11.Request, limits: Limits) -> tuple[int, str] | None:
    """Apply our server's rules beyond the protocol's own grammar."""
    headers = request.headers
    names = [name for name, _ in headers]
    if request.http_version not in (b"1.0", b"1.1"):
        return 400, "not HTTP/1.0 or HTTP/1.1"
    if len(request.target) > limits.target_bytes:
        return 414, "the target is too long"
    if not request.target.startswith(b"/"):
        return 400, "the target is not a path"
    if len(names) > limits.headers:
        return 431, "too many headers"
    if b"transfer-encoding" in names:
        return 501, "a body is accepted with Content-Length only"
    if any(k == b"expect" and v.lower() != b"100-continue" for k, v in headers):
        return 417, "of Expect only 100-continue is spoken here"
    if b"upgrade" in names:
        return 501, "Upgrade is not spoken here"
    length = length_of(request)
    if length > limits.body_bytes:
        return 413, "the body is too large"
    if request.method in (b"GET", b"HEAD") and length > 0:
        return 400, "a GET carries no body"
    return None
