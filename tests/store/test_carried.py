"""The ledger as the text in a job filter rule: read back as it was written, or refused."""

import base64
import hashlib
import json
import zlib
from collections.abc import Iterator
from dataclasses import is_dataclass, replace
from enum import Enum
from typing import Any, get_args, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeagent.errors import Corrupt, TooNew
from nodeagent.model.event import happened
from nodeagent.model.ledger import Hold, Ledger
from nodeagent.model.tag import Scope
from nodeagent.model.units import Ms
from nodeagent.store import carried
from nodeagent.store.carried import FORM, Carried, document, pack, unpack
from nodeagent.store.codec import encode
from tests.store.full import FULL

EVENTS = (happened(Ms(3), "job-unknown", job="7"), happened(Ms(4), "rule-removed"))
WHOLE = Carried(7, "0a", Ms(5), FULL, EVENTS)
LONE = Ledger(holds=(Hold(Scope.NODE, "n1", "\ud800 \xe4", Ms(1)),))  # half a surrogate pair


def test_it_is_read_back_as_it_was() -> None:
    assert unpack(pack(WHOLE)) == WHOLE


def test_the_same_ledger_is_the_same_text() -> None:
    assert pack(WHOLE) == pack(replace(WHOLE, ledger=replace(FULL)))


@pytest.mark.parametrize("ledger", [FULL, Ledger(round=9), LONE])
def test_the_document_is_that_of_all_its_parts_at_once(ledger: Ledger) -> None:
    whole = replace(WHOLE, ledger=ledger)
    assert document(whole) == encode(whole)
    assert document(replace(whole, ledger=replace(ledger))) == encode(whole)


def test_json_escapes_nothing_of_it() -> None:
    text = pack(WHOLE)
    assert json.dumps(text) == f'"{text}"'


def test_a_newer_form_is_told_apart_from_a_damaged_one() -> None:
    with pytest.raises(TooNew, match=f"it has form {FORM + 1}, and this nodeagent reads"):
        unpack(f"{FORM + 1}:whatever a newer one writes")


def packed(document: bytes) -> str:
    return f"{FORM}:{base64.b85encode(zlib.compress(document)).decode()}"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it is not a ledger"),
        ("hello", "it is not a ledger"),
        ("0:", "it is not a ledger"),
        (f"{FORM}:", "does not end"),
        (f"{FORM}:\N{SNOWMAN}", "not as it was written"),
        (f'{FORM}:"', "not as it was written"),
        pytest.param(pack(WHOLE)[:-5], "does not end", id="cut"),
        pytest.param(pack(WHOLE) + "00000", "it ", id="longer"),
        (packed(b"\xff"), "not as it was written"),
        (packed(b"[]"), "is not an object"),
        (packed(b'{"v": 2}'), "lacks"),
    ],
)
def test_anything_else_is_corrupt(text: str, why: str) -> None:
    with pytest.raises(Corrupt, match=why) as caught:
        unpack(text)
    assert not isinstance(caught.value, TooNew)


def test_numbers_that_cannot_be_are_corrupt() -> None:
    changes: tuple[dict[str, Any], ...] = (
        {"number": 2**53},
        {"number": 0},
        {"at": Ms(10**18)},
        {"at": Ms(-1)},
        {"events": (happened(Ms(2**70), "wish-refused"),)},
    )
    for change in changes:
        with pytest.raises(Corrupt):
            unpack(pack(replace(WHOLE, **change)))


def test_a_small_text_that_unpacks_to_much_costs_no_more_than_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(carried, "MOST", 10_000)
    bomb = packed(b" " * 100_000_000)
    assert len(bomb) < 200_000
    with pytest.raises(Corrupt, match="more than 10000 bytes"):
        unpack(bomb)


@given(st.integers(0, 10**6), st.integers(0, 127))
def test_one_changed_letter_never_passes_for_another_ledger(at: int, letter: int) -> None:
    text = pack(WHOLE)
    at %= len(text)
    changed = text[:at] + chr(letter) + text[at + 1 :]
    try:
        assert unpack(changed) == WHOLE
    except Corrupt:
        assert changed != text


def test_an_empty_ledger_is_one() -> None:
    assert unpack(pack(Carried(1, "0a", Ms(0), Ledger()))).ledger == Ledger()


def members(hint: Any, seen: set[type]) -> Iterator[str]:
    """Each member of each class, and each word, that a value of this type may hold."""
    if isinstance(hint, type) and (is_dataclass(hint) or issubclass(hint, Enum)):
        if hint in seen:
            return
        seen.add(hint)
        if is_dataclass(hint):
            for name, inner in get_type_hints(hint).items():
                yield f"{hint.__name__}.{name}"
                yield from members(inner, seen)
            for kind in hint.__subclasses__():
                yield from members(kind, seen)
        else:
            yield from (f"{hint.__name__}.{word.name}" for word in hint)
    for inner in get_args(hint):
        yield from members(inner, seen)


def test_a_ledger_with_other_members_has_another_form() -> None:
    """An older nodeagent takes a member that it does not know for damage, and a FORM for newer.

    After a release: raise FORM with the first change, and renew the sum.
    """
    told = "\n".join(sorted(members(Carried, set())))
    assert "Ledger.queue" in told
    assert "OfWindow.window" in told
    assert "Status.PENDING" in told
    assert (FORM, hashlib.sha256(told.encode()).hexdigest()[:16]) == (1, "217dd12aa2922eb5")
