"""Requests, responses and routes as values."""

import pytest

from nodeagent.web.exchange import Request, Response, Route, route

TABLE = (
    Route("GET", ("",), lambda _: Response.text("root")),
    Route("GET", ("1", "list"), lambda _: Response.text("list"), open_ended=True),
    Route("GET", ("1", "order"), lambda _: Response.text("receipt"), open_ended=True),
    Route("POST", ("1", "order"), lambda _: Response.text("order")),
)


@pytest.mark.parametrize(
    ("method", "target", "status", "body"),
    [
        ("GET", "/", 200, b"root"),
        ("GET", "/?x=1", 200, b"root"),
        ("GET", "/1/list", 200, b"list"),
        ("GET", "/1/list/", 200, b"list"),
        ("GET", "/1/list/more/and/more", 200, b"list"),
        ("GET", "/1/l%69st", 200, b"list"),
        ("GET", "/1/lists", 404, b"Resource not found"),
        ("GET", "/1%2flist", 404, b"Resource not found"),
        ("GET", "//1/list", 404, b"Resource not found"),
        ("GET", "/1", 404, b"Resource not found"),
        ("POST", "/1/order", 200, b"order"),
        ("POST", "/1/order/x", 405, b'{"error": "method not allowed"}'),
        ("DELETE", "/1/order", 405, b'{"error": "method not allowed"}'),
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
    assert response.encode() == (
        b"HTTP/1.1 405 Method Not Allowed\r\nContent-Type: text/plain\r\nContent-Length: 4\r\n"
        b"Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n"
        b"Allow: GET\r\n\r\nbody"
    )
    assert response.encode(head_only=True).endswith(b"Allow: GET\r\n\r\n")
