"""Requests, responses and routes as values."""

import re
from collections import Counter
from pathlib import Path

import pytest

import nodeagent
from nodeagent.web.exchange import REASONS, Request, Response, Route, route

UUID = "6f3b1d5e-0002-4000-8000-00000000abcd"
TABLE = (
    Route("GET", ("",), lambda _: Response.text("root")),
    Route("GET", ("1", "list"), lambda _: Response.text("list"), open_ended=True),
    Route("GET", ("1", "order"), lambda _: Response.text("receipt"), open_ended=True),
    Route("POST", ("1", "order"), lambda _: Response.text("order")),
    Route("GET", ("1", "at", "<uuid>"), lambda r: Response.text(r.segments[2])),
    Route("POST", ("1", "at", "<uuid>", "again"), lambda r: Response.text("again")),
    Route("GET", ("1", "slash"), lambda _: Response.text("slash"), slash=True),
)


@pytest.mark.parametrize(
    ("method", "target", "status", "body"),
    [
        ("GET", "/", 200, b"root"),
        ("GET", "/1/list", 200, b"list"),
        ("GET", "/1/list/", 200, b"list"),
        ("GET", "/1/list/more/and/more", 200, b"list"),
        ("GET", "/1/l%69st", 200, b"list"),
        ("GET", "/1/slash", 200, b"slash"),
        ("GET", "/1/slash/?x=1", 200, b"slash"),
        ("GET", "/1/slash//", 404, b"Resource not found"),
        ("GET", "/1/lists", 404, b"Resource not found"),
        ("GET", "/1%2flist", 404, b"Resource not found"),
        ("GET", "//1/list", 404, b"Resource not found"),
        ("GET", "/1", 404, b"Resource not found"),
        ("POST", "/1/order", 200, b"order"),
        ("GET", f"/1/at/{UUID}", 200, UUID.encode()),
        ("GET", f"/1/at/{UUID}?x=1", 200, UUID.encode()),
        ("POST", f"/1/at/{UUID}/again", 200, b"again"),
        ("GET", f"/1/at/{UUID}/", 404, b"Resource not found"),
        ("GET", f"/1/at/{UUID[:-1]}", 404, b"Resource not found"),
        ("GET", f"/1/at/{UUID.upper()}", 404, b"Resource not found"),
        ("GET", "/1/at/<uuid>", 404, b"Resource not found"),
        ("GET", f"/1/at/{UUID}%0a", 404, b"Resource not found"),
        ("DELETE", f"/1/at/{UUID}", 405, b'{"error": "method not allowed"}'),
        ("POST", "/1/order/x", 405, b'{"error": "method not allowed"}'),
    ],
)
def test_route(method: str, target: str, status: int, body: bytes) -> None:
    response = route(TABLE, Request(method, target))
    assert isinstance(response, Response)
    assert (response.status, response.body) == (status, body)


def test_405_names_what_there_is() -> None:
    response = route(TABLE, Request("PUT", "/1/order"))
    assert isinstance(response, Response)
    assert response.headers == {"Allow": "GET, POST"}


@pytest.mark.parametrize(
    ("target", "value"),
    [
        ("/?salt=a", "a"),
        ("/?salt=", ""),
        ("/?x=1&salt=a%20b", "a b"),
        ("/", None),
        ("/?salted=a", None),
        ("/?salt=a&salt=a", None),
        ("/?" + "a=1&" * 20 + "salt=b", None),
        ("/?salt=%ff", "\ufffd"),
    ],
)
def test_query(target: str, value: str | None) -> None:
    assert Request("GET", target).query("salt") == value


def test_a_response_on_the_wire() -> None:
    response = Response(405, b"body", "text/plain", {"Allow": "GET"})
    assert response.head() + response.body == (
        b"HTTP/1.1 405 Method Not Allowed\r\nContent-Type: text/plain\r\nContent-Length: 4\r\n"
        b"Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n"
        b"Allow: GET\r\n\r\nbody"
    )
    assert response.head().endswith(b"Allow: GET\r\n\r\n")


def test_the_reasons_are_those_of_what_is_answered() -> None:
    package = Path(nodeagent.__file__).parent
    sources = [
        path for part in ("web", "agent", "maintd") for path in (package / part).rglob("*.py")
    ]
    named = Counter(re.findall(r"\b[2-5]\d\d\b", "".join(p.read_text() for p in sources)))
    assert [code for code in REASONS if named[str(code)] < 2] == [], "its own line, and a use"
