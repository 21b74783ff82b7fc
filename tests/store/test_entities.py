"""A ledger as entities: read back, and only the changed ones written."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, make_dataclass, replace
from typing import Any, get_args, get_type_hints

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nodeagent.errors import Corrupt
from nodeagent.model.action import Scope
from nodeagent.model.diagnosis import Need
from nodeagent.model.fencing import Unreachable
from nodeagent.model.ledger import Begun, Drained, Hold, Ledger
from nodeagent.model.queue import Entry, Queue
from nodeagent.model.units import Ms, Nanoseconds
from nodeagent.model.window import Machine, Schedule, Unavailability, Window
from nodeagent.store import codec
from nodeagent.store import entities as module
from nodeagent.store.entities import Changes, Image, changes, digest, entities, ledger_of, sum_of
from tests.store.test_codec import FULL
from tests.store.values import of

slow = settings(max_examples=25, suppress_health_check=list(HealthCheck))


def applied(before: Mapping[str, str], change: Changes) -> dict[str, str]:
    """What a store has after these changes."""
    left = {key: text for key, text in before.items() if key not in change.deletes}
    return {**left, **change.puts}


@given(of(Ledger))
@slow
def test_every_ledger_comes_back(ledger: Ledger) -> None:
    texts = entities(ledger)
    assert ledger_of(texts) == ledger
    assert ledger_of(dict(reversed(texts.items()))) == ledger, "in whatever order they are read"


@given(of(Ledger), of(Ledger), st.data())
@slow
def test_changes_lead_from_one_ledger_to_the_next(
    one: Ledger, other: Ledger, data: st.DataObject
) -> None:
    """Whole members are taken from either, so much stays the same object, or moves."""
    names = [each.name for each in fields(Ledger)]
    for name in data.draw(st.lists(st.sampled_from(names))):
        other = replace(other, **{name: getattr(one, name)})
    image, texts = Image.of(one), entities(one)
    for ledger in (other, one, other):
        image, change = image.next(ledger)
        assert change == changes(texts, entities(ledger))
        texts = applied(texts, change)
        assert texts == image.texts() == entities(ledger)
        assert image.sum == sum_of(digest(*each) for each in texts.items())


@given(st.lists(st.lists(st.integers(0, 6), max_size=8), max_size=6))
@slow
def test_a_list_that_changes_in_any_way_is_followed(lists: list[list[int]]) -> None:
    """Elements appear, vanish, change places and have equal names."""
    image, texts = Image.of(Ledger()), entities(Ledger())
    for number, nodes in enumerate(lists):
        found = tuple(Unreachable(f"n{n % 4}", Ms(number // 2 * (n == 2))) for n in nodes)
        image, change = image.next(Ledger(unreachable=found))
        texts = applied(texts, change)
        assert ledger_of(texts) == Ledger(unreachable=found)
        assert texts == entities(Ledger(unreachable=found))


def test_only_what_changed_is_written() -> None:
    entries = tuple(Entry(n, f"10.0.0.{n}", "r640", "x") for n in range(50))
    ledger = replace(FULL, queue=Queue(entries, 50))
    image = Image.of(ledger)
    assert image.next(ledger)[1] == Changes()
    assert not image.next(replace(ledger, queue=Queue(tuple(map(replace, entries)), 50)))[1]

    def written(after: Ledger) -> tuple[set[str], set[str]]:
        change = image.next(after)[1]
        return set(change.puts), set(change.deletes)

    queue = ledger.queue
    one = replace(ledger, queue=queue.put(replace(entries[7], why="no")))
    assert written(one) == ({"queue.entries/7"}, set())
    less = replace(ledger, queue=queue.drop(7))
    assert written(less) == ({"queue.entries/8"}, {"queue.entries/7"}), "and its neighbour"
    more = replace(ledger, queue=queue.add(entries[0]))
    assert written(more) == ({"queue.entries/50", "queue.next"}, set())
    assert written(replace(ledger, round=8)) == ({"round"}, set())


def test_an_equal_object_is_not_encoded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = replace(FULL, unreachable=tuple(Unreachable(f"u{n}", Ms(n)) for n in range(9)))
    image = Image.of(ledger)
    encoded: list[object] = []

    def text_of(value: object) -> str:
        encoded.append(value)
        return codec.text_of(value)

    monkeypatch.setattr(module, "text_of", text_of)
    image, _ = image.next(replace(ledger, unreachable=tuple(map(replace, ledger.unreachable))))
    assert encoded == []
    image, _ = image.next(replace(ledger, unreachable=ledger.unreachable[1:]))
    assert encoded == [], "not even where only its neighbour changed"


def scheduled(*machines: Machine) -> Ledger:
    return Ledger(schedule=Schedule((Window(machines, Unavailability(Nanoseconds(5))),)))


@pytest.mark.parametrize(
    ("ledger", "keys"),
    [
        (Ledger(holds=(Hold(Scope.NODE, "n1", "a", Ms(1)),)), ["holds/node:n1"]),
        (Ledger(holds=(Hold(Scope.CLUSTER, "", "a", Ms(1)),)), ["holds/cluster:a"]),
        (
            Ledger(begun=tuple(Begun("u", Ms(n), "i", Need.EVACUATE) for n in range(3))),
            ["begun/u", "begun/u#2", "begun/u#3"],
        ),
        (Ledger(unreachable=(Unreachable("", Ms(7)),)), ["unreachable/7"]),
        (Ledger(unreachable=(Unreachable('a/"#\n%', Ms(7)),)), ["unreachable/a%2F%22%23%0A%25"]),
        (
            Ledger(
                schedule=Schedule(
                    (Window((Machine("", "10.0.0.1"),), Unavailability(Nanoseconds(5))),)
                )
            ),
            ["schedule.windows/10.0.0.1"],
        ),
        (
            Ledger(schedule=Schedule((Window((), Unavailability(Nanoseconds(5))),))),
            ["schedule.windows/5"],
        ),
    ],
)
def test_names(ledger: Ledger, keys: list[str]) -> None:
    assert sorted(entities(ledger).keys() - entities(Ledger()).keys()) == keys
    assert ledger_of(entities(ledger)) == ledger


def test_a_key_is_short_and_plain_whatever_others_say() -> None:
    """It stands in a column, in etcd, and in an administrator's terminal."""
    names = ("x" * 100_000, "\udcff\0", "\u2028" * 50, "/", "", "#2", "=", "a b")
    ledger = Ledger(unreachable=tuple(Unreachable(name, Ms(0)) for name in names))
    texts = entities(ledger)
    assert len(texts) == len(entities(Ledger())) + len(names)
    assert all(key.isascii() and key.isprintable() and len(key) < 130 for key in texts)
    assert ledger_of(texts) == ledger


# Any field.


@dataclass(frozen=True, slots=True)
class Supply:
    """An object as a later release may add it, with lists of its own."""

    outlets: tuple[Drained, ...] = ()
    rounds: int = 0


def test_a_new_field_needs_nothing_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """And a ledger from before has its default."""
    hints = get_type_hints(Ledger)
    there = [(f.name, hints[f.name], field(default=f.default, metadata=f.metadata))
             for f in fields(Ledger)]  # fmt: skip
    added = [
        ("supply", Supply, field(default=Supply(), metadata={"later": True})),
        ("spare", tuple[Unreachable, ...], field(default=(), metadata={"later": True})),
    ]
    later: Any = make_dataclass("Later", [*there, *added], frozen=True, slots=True)
    before = entities(FULL)
    for cached in (module._parts, module._every_part):
        cached.cache_clear()
    monkeypatch.setattr(module, "Ledger", later)
    try:
        found = ledger_of(before)
        assert isinstance(found, later)
        assert (found.round, found.queue) == (FULL.round, FULL.queue)
        assert found.supply == Supply()
        drained = Drained("u1", "i1", "9")
        wanted = replace(found, supply=Supply((drained,), 3), spare=(Unreachable("u", Ms(1)),))
        texts = entities(wanted)
        new = {"supply.outlets/u1", "supply.rounds", "spare/u"}
        assert texts.keys() - before.keys() == new
        assert ledger_of(texts) == wanted
    finally:
        monkeypatch.undo()
        for cached in (module._parts, module._every_part):
            cached.cache_clear()


def kinds(hint: Any) -> Iterator[type[Any]]:
    """All dataclasses in a type."""
    for inner in get_args(hint):
        yield from kinds(inner)
    if isinstance(hint, type) and is_dataclass(hint):
        yield hint
        for kind in hint.__subclasses__():
            yield from kinds(kind)
        for inner in get_type_hints(hint).values():
            yield from kinds(inner)


def test_an_equal_value_is_the_same_value() -> None:
    """It is not written again, so no field may be left out of the comparison."""
    found = set(kinds(Ledger))
    assert {Ledger, Entry, Machine, Drained} <= found
    for kind in found:
        assert all(each.compare for each in fields(kind)), kind


def test_lists_of_objects_are_empty_by_default() -> None:
    """An empty list has no entity, so a ledger without any has the default."""

    def check(kind: type[Any]) -> None:
        hints = get_type_hints(kind)
        for one in fields(kind):
            if module._element(hints[one.name]):
                assert one.default == (), one.name
            elif module._has_lists(hints[one.name]):
                assert one.default is MISSING or one.default == hints[one.name](), one.name
                check(hints[one.name])

    check(Ledger)


# What is damaged is never read as something else.

LISTED = replace(FULL, unreachable=tuple(Unreachable(f"u{n}", Ms(n)) for n in range(4)))


@pytest.mark.parametrize("key", sorted(entities(LISTED)))
def test_a_missing_entity_changes_the_sum(key: str) -> None:
    texts = entities(LISTED)
    whole = sum_of(digest(*each) for each in texts.items())
    del texts[key]
    assert sum_of(digest(*each) for each in texts.items()) != whole


@pytest.mark.parametrize(
    ("key", "text", "why"),
    [
        ("v", "3", "v is 3: it is of a newer nodeagent; this one reads 2"),
        ("v", None, "v is not a version"),
        ("round", '"7"', "round is not a whole number"),
        ("round", None, "it lacks round"),
        ("round", "{", "round is not JSON at line 1 column 2"),
        ("moon", "1", 'it has an unknown member "moon"'),
        ("queue.moon", "1", 'queue has an unknown member "moon"'),
        ("moons/1", "{}", 'it has an unknown member "moons"'),
        ("queue", "1", "is not an object"),
        ("unreachable/u1", None, "unreachable lacks an element"),
        ("unreachable/u1", "7", "unreachable/u1 is not an element of a list"),
        ("unreachable/u1", '{"after":1,"value":{}}', "unreachable/u1.after is not a text"),
        ("unreachable/u3", '{"after":"u3","value":{}}', "unreachable lacks an element"),
        ("unreachable/u1", '{"after":"u1","after":"","value":{}}', 'key "after" stands twice'),
        ("unreachable/x", '{"after":"u1","value":{}}', "unreachable has two elements in one place"),
        ("unreachable/u1", '{"after":"u0","value":{}}', r"unreachable\[1\] lacks node, since"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_place(
    key: str, text: str | None, why: str
) -> None:
    texts = entities(LISTED)
    if text is None:
        del texts[key]
    else:
        texts[key] = text
    with pytest.raises(Corrupt, match=f"the ledger cannot be read: .*{why}"):
        ledger_of(texts)


@pytest.mark.parametrize(
    "ledger",
    [
        Ledger(round="7"),  # type: ignore[arg-type]
        Ledger(unreachable=[]),  # type: ignore[arg-type]
        Ledger(unreachable=(7,)),  # type: ignore[arg-type]
        Ledger(unreachable=(Unreachable(None, Ms(0)),)),  # type: ignore[arg-type]
    ],
)
def test_what_could_not_be_read_back_is_not_written(ledger: Ledger) -> None:
    with pytest.raises(TypeError, match=r"^Ledger: "):
        entities(ledger)
    with pytest.raises(TypeError, match=r"^Ledger: "):
        Image.of(FULL).next(ledger)


def test_texts_are_canonical() -> None:
    for text in entities(FULL).values():
        written = json.dumps(
            json.loads(text), sort_keys=True, separators=(",", ":"), ensure_ascii=False
        )
        assert text == written
