"""Heads are read by h11, once each."""

import h11
import pytest

from nodeagent.web import head

GET = b"GET /%s HTTP/1.1\r\nHost: x\r\n%s\r\n"


def test_a_head_is_read_as_h11_reads_it() -> None:
    http = h11.Connection(h11.SERVER)
    http.receive_data(GET % (b"a?b=c", b"X-One: 1\r\nx-one:  2 \r\n"))
    event = http.next_event()
    again = [head.read(GET % (b"a?b=c", b"X-One: 1\r\nx-one:  2 \r\n")) for _ in range(2)]
    assert again == [event, event]


def test_a_head_that_was_read_is_not_read_again() -> None:
    raw = GET % (b"again", b"")
    assert head.read(raw) is head.read(raw)


def test_a_head_that_differs_in_a_byte_is_another() -> None:
    assert head.read(GET % (b"one", b"")).target == b"/one"
    assert head.read(GET % (b"onE", b"")).target == b"/onE"


def test_what_is_no_http_is_none_the_second_time_either() -> None:
    for _ in range(2):
        with pytest.raises(h11.RemoteProtocolError):
            head.read(b"GET / HTTP/1.1\r\nno colon\r\n\r\n")


@pytest.mark.parametrize(
    "more", [b"Authorization: Basic eDp5", b"authorization: x", b"X: " + b"a" * 1024]
)
def test_passwords_and_what_is_long_are_not_kept(more: bytes) -> None:
    raw = GET % (b"secret", more + b"\r\n")
    first = head.read(raw)
    assert head.read(raw) == first
    assert head.read(raw) is not first
