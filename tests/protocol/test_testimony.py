"""The words of a witness, as they are sent and as they are believed."""

from typing import Any

import pytest

from nodeagent.errors import MessageError
from nodeagent.model.evidence import Contact, Mirror
from nodeagent.model.units import Ms
from nodeagent.protocol.bounds import COUNT, MIRRORS, NAME
from nodeagent.protocol.canonical import canonical, read
from nodeagent.protocol.testimony import Words

WORDS = Words(
    Contact.SILENT,
    Contact.CONNECTS,
    (Mirror("web1", "Connected", "UpToDate", Ms(0)), Mirror("", "WFConnection", "UpToDate")),
)


def again(body: dict[str, Any]) -> Words:
    document = read(canonical(body).encode())
    assert isinstance(document, dict)
    return Words.from_body(document)


def test_what_is_sent_is_read() -> None:
    assert again(WORDS.body()) == WORDS
    assert WORDS.body()["mirrors"] == [
        ["web1", "Connected", "UpToDate", 0],
        ["", "WFConnection", "UpToDate", None],
    ]
    unread = Words(Contact.ANSWERS, Contact.UNKNOWN, None, "no mond")
    assert again(unread.body()) == unread


ROW = ["web1", "Connected", "UpToDate", 5]
AGES: tuple[object, ...] = (-1, COUNT, True, "5", 1.5, [])


@pytest.mark.parametrize(
    "mirrors",
    [
        *({}, "x", 7, [7], [[]], [ROW[:3]], [[*ROW, 1]], [ROW] * (MIRRORS + 1)),
        *([["web1", "Connected", 7, 5]], [["x" * (NAME + 1), *ROW[1:]]]),
        *([[*ROW[:3], age]] for age in AGES),
    ],
)
def test_other_rows_are_refused(mirrors: object) -> None:
    with pytest.raises(MessageError, match=r"testimony\.mirrors"):
        Words.from_body({**WORDS.body(), "mirrors": mirrors})
