"""Which answers are compressed, and for whom."""

import gzip

import pytest

from nodeagent.web.compress import compressed, wanted
from nodeagent.web.exchange import Request, Response

LONG = b'{"a": 1}' * 1000


@pytest.mark.parametrize(
    ("header", "yes"),
    [
        (None, False),
        ("", False),
        ("gzip", True),
        ("GZIP", True),
        ("deflate, gzip;q=1.0, *;q=0.5", True),
        ("x-gzip", True),
        ("gzip;q=0", False),
        ("gzip; q=0.000", False),
        ("gzip;q=0.001", True),
        ("*", False),
        ("br", False),
        ("gzipped", False),
    ],
)
def test_it_is_compressed_for_clients_that_ask(header: str | None, yes: bool) -> None:
    headers = {} if header is None else {"accept-encoding": header}
    assert wanted(Request("GET", "/", headers)) is yes


def test_nothing_is_compressed_that_is_shown_to_one_reader_and_not_to_others() -> None:
    asks = {"accept-encoding": "gzip"}
    assert not wanted(Request("GET", "/", asks, peer="192.0.2.1", secure=True, full=True))
    assert wanted(Request("GET", "/", asks, peer="192.0.2.1", secure=True))
    assert wanted(Request("GET", "/", asks, peer="uid:0", full=True)), "nobody sees its length"


def test_a_compressed_answer_is_the_same_answer() -> None:
    plain = Response(200, LONG, "application/json", {"X": "y"})
    small = compressed(plain)
    assert gzip.decompress(small.body) == LONG
    assert len(small.body) < len(LONG) / 20
    assert small.headers == {"X": "y", "Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
    assert (small.status, small.kind) == (200, "application/json")
    assert compressed(plain) == small, "the same bytes each time"


@pytest.mark.parametrize("plain", [Response(200, LONG[:1000]), Response(503, LONG)])
def test_what_is_short_or_an_error_is_not_compressed(plain: Response) -> None:
    assert compressed(plain) is plain
