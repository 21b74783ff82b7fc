"""Heads are read by h11, once each."""

import h11
import pytest

from nodeagent.web import refusal

GET = b"GET /%s HTTP/1.1\r\nHost: x\r\n%s\r\n"


def test_a_head_is_read_as_h11_reads_it_and_only_once() -> None:
    http, raw = h11.Connection(h11.SERVER), GET % (b"a?b=c", b"X-One: 1\r\nx-one:  2 \r\n")
    http.receive_data(raw)
    event = refusal.read(raw)
    assert event == http.next_event()
    assert refusal.read(raw) is event
    assert refusal.read(raw.replace(b"a?", b"A?")).target == b"/A?b=c"


def test_what_is_no_http_is_none_the_second_time_either() -> None:
    for _ in range(2):
        with pytest.raises(h11.RemoteProtocolError):
            refusal.read(b"GET / HTTP/1.1\r\nno colon\r\n\r\n")


@pytest.mark.parametrize(
    "more", [b"Authorization: Basic eDp5", b"authorization: x", b"X: " + b"a" * 1024]
)
def test_passwords_and_what_is_long_are_not_kept(more: bytes) -> None:
    raw = GET % (b"secret", more + b"\r\n")
    first = refusal.read(raw)
    assert refusal.read(raw) == first
    assert refusal.read(raw) is not first
