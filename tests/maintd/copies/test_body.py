"""The parts of a copy, packed and put together."""

import zlib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeagent.errors import MessageError
from nodeagent.maintd.copies import body
from nodeagent.maintd.copies.body import EVENTS, Load, merge, pack, put_together, unpack
from nodeagent.model.action import Scope
from nodeagent.model.copies import Part, Stamp
from nodeagent.model.event import AUDIT, Event, happened
from nodeagent.model.ledger import Hold, Ledger
from nodeagent.model.units import Ms
from nodeagent.store.codec import encode
from nodeagent.store.contract import TooNew
from nodeagent.store.entities import Changes, Image, changes, digest, sum_of

EMPTY, HELD = Ledger(round=5), Ledger(round=6, holds=(Hold(Scope.NODE, "n1", "me", Ms(1), "why"),))
SAID = happened(Ms(3), "paused", node="n1", who="me")


def stamp(number: int) -> Stamp:
    return Stamp(1, "m", number)


def parts() -> list[Part]:
    """A whole copy, and a pause on top of it."""
    first = Image.of(EMPTY)
    second, change = first.next(HELD)
    whole = pack(Load(Changes(first.texts())))
    more = pack(Load(change, (encode(SAID),)))
    return [
        Part(stamp(1), None, Ms(1), ("m",), first.sum, whole),
        Part(stamp(2), stamp(1), Ms(2), ("m",), second.sum, more),
    ]


def test_a_whole_copy_with_its_changes_is_the_ledger_and_its_history() -> None:
    found = put_together(parts())
    assert found.ledger == HELD
    assert found.events == (SAID,)
    assert put_together(parts()[:1]).ledger == EMPTY


def test_parts_that_do_not_fit_are_refused() -> None:
    whole, more = parts()
    with pytest.raises(MessageError, match="whole"):
        put_together([])
    with pytest.raises(MessageError, match="whole"):
        put_together([more])
    with pytest.raises(MessageError, match="on top"):
        put_together([whole, replace(more, base=stamp(9))])
    with pytest.raises(MessageError, match="digest"):
        put_together([whole, replace(more, digest=whole.digest)])
    with pytest.raises(MessageError, match="unpacked"):
        put_together([whole, replace(more, body=more.body[:-3])])


def test_a_copy_of_a_newer_nodeagent_is_told_apart_from_a_damaged_one() -> None:
    texts = {**Image.of(EMPTY).texts(), "v": "9"}
    total = sum_of(digest(key, text) for key, text in texts.items())
    part = Part(stamp(1), None, Ms(1), ("m",), total, pack(Load(Changes(texts))))
    with pytest.raises(TooNew, match="newer nodeagent"):
        put_together([part])


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b"{}",
        b'{"puts":[],"deletes":[],"events":[]}',
        b'{"puts":{"a":1},"deletes":[],"events":[]}',
        b'{"puts":{},"deletes":[1],"events":[]}',
        b'{"puts":{},"deletes":[],"events":[{}]}',
    ],
)
def test_a_body_of_another_form_is_refused(text: bytes) -> None:
    with pytest.raises(MessageError):
        unpack(zlib.compress(text))


def test_a_body_that_grows_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body, "MOST", 1000)
    with pytest.raises(MessageError, match="too long"):
        unpack(zlib.compress(b" " * 2000))


TEXTS = st.dictionaries(st.sampled_from("abcdef"), st.sampled_from("123"))


@given(st.lists(TEXTS, min_size=1, max_size=6))
def test_merged_changes_lead_where_each_one_leads(states: list[dict[str, str]]) -> None:
    last = states[-1]
    steps = [Load(changes(a, b)) for a, b in zip([{}, *states], states, strict=False)]
    for at in range(len(steps)):
        there = dict(states[at - 1]) if at else {}
        change = merge(steps[at:]).change
        for key in change.deletes:
            there.pop(key, None)
        assert {**there, **change.puts} == last
        assert not set(change.deletes) & set(change.puts)


def test_the_newest_events_are_kept() -> None:
    loads = [Load(events=tuple(f"{n}-{i}" for i in range(400))) for n in range(4)]
    events = merge(loads).events
    assert len(events) == EVENTS
    assert events[-1] == "3-399"


def test_requests_that_never_left_a_node_are_found_in_its_history() -> None:
    def asked(at: int, what: str) -> Event:
        return happened(Ms(at), "wish-granted", who="me", asked=what)

    left, stayed, later = asked(10, "a"), asked(20, "b"), asked(30, "c")
    other = happened(Ms(20), "paused", who="me")
    before = asked(1, "before")
    ours = [before, left, stayed, other]
    assert body.forgotten(ours, [left, later], AUDIT) == [before, stayed]
    assert body.forgotten(ours, [], AUDIT) == [before, left, stayed]
    full = [left, *[later] * EVENTS]
    assert body.forgotten(ours, full, AUDIT) == [stayed], "the first may have been evicted"
    assert body.unknown(ours, [left, later]) == [later]


def test_all_parts_of_a_copy_share_one_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    both = parts()
    longest = max(len(zlib.decompress(part.body)) for part in both)
    monkeypatch.setattr(body, "MOST", longest + 10)
    with pytest.raises(MessageError, match="too long"):
        put_together(both)
    assert put_together(both[:1]).ledger == EMPTY
