import json
import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from nodeagent.errors import Corrupt
from nodeagent.model.action import Scope
from nodeagent.model.balance import Advice, Agenda, Halt, Lopsided, Shift, Spot
from nodeagent.model.diagnosis import Diagnosis
from nodeagent.model.incident import Incident
from nodeagent.model.ledger import (
    Begun,
    Hold,
    Intent,
    Ledger,
    Outcome,
    Policy,
    Result,
    Storm,
    Trail,
)
from nodeagent.model.queue import Attempt, Entry, Queue, Refusal
from nodeagent.model.sick import Sick
from nodeagent.model.snapshot import Capacity, Group, Instance, Node, Observed, Size, Snapshot
from nodeagent.model.units import Ms
from nodeagent.model.wish import (
    AddEntry,
    Balance,
    Cancel,
    DeleteEntries,
    DeleteEntry,
    Pause,
    ResetBackOff,
    ResetStorm,
    Resume,
    Retry,
    SetConstraint,
    SetQueue,
    StopBalancing,
    Wish,
)
from nodeagent.protocol.canonical import canonical
from nodeagent.store.codec import decode, decode_observation, encode, encode_observation
from tests.counted import lines
from tests.store.full import FULL, SHIFT
from tests.store.values import DIAGNOSES, of

slow = settings(max_examples=25, suppress_health_check=list(HealthCheck))

OBSERVED = Observed(
    Snapshot(
        "c",
        {
            "n1.example": Node(
                "n1.example", "u1", "10.0.0.1", "g", tags=frozenset({"b", "a"}), speed=1.25
            )
        },
        {"web": Instance("web", "n1.example", tags=frozenset({"t"}))},
        {"g": Group("g", "default", frozenset(), policy='{"std":{}}')},
        "n1.example",
        frozenset({"maintd:storm:50"}),
        {"soon": Instance("soon", "n1.example", spindles=2)},
    ),
    {"n1.example": DIAGNOSES[3]},
    {"n2": "silent"},
    {"5": Result(Outcome.ERROR, "no")},
    {"6": "it was refused"},
    {"n1.example": Capacity(1024, 2048, Size(4096, 512, 8192, 16)), "n2": Capacity(1, 2)},
    (
        Wish("1", "ada", Ms(1), Cancel("i1")),
        Wish("2", "ada", Ms(2), Retry("i1")),
        Wish("3", "ada", Ms(3), Pause(Scope.NODE, "n1", "why")),
        Wish("4", "ada", Ms(4), Resume(Scope.NODE, "n1")),
        Wish("5", "ada", Ms(5), ResetStorm()),
        Wish("6", "ada", Ms(6), Balance("default", (SHIFT,))),
        Wish("7", "ada", Ms(7), StopBalancing("default")),
        Wish("8", "ada", Ms(8), AddEntry("unreachable", "r640", "10.0.0.9", "S1")),
        Wish("9", "ada", Ms(9), DeleteEntry(3)),
        Wish("10", "ada", Ms(9), DeleteEntries(finished=True)),
        Wish("11", "ada", Ms(9), SetQueue(enabled=False)),
        Wish("12", "ada", Ms(9), ResetBackOff()),
        Wish("13", "ada", Ms(9), SetConstraint("cool-down-seconds", 60)),
    ),
    advice={"g": Advice("g", Ms(9), 1.5, 1.25, (SHIFT,))},
    sick={
        "sabakan": (Sick("sabakan", "10.0.0.9", "r640", "unreachable", domain="rack 4"),),
        "other": "it does not answer",
    },
)
SAVED = encode_observation(FULL, OBSERVED, Policy(), Ms(9))


@given(of(Ledger))
@slow
def test_every_ledger_comes_back_as_it_was(ledger: Ledger) -> None:
    text = encode(ledger)
    text.encode()  # it is UTF-8
    assert text == canonical(json.loads(text)).replace("\udcff", "\\udcff")
    assert decode(Ledger, text) == ledger
    assert encode(decode(Ledger, text)) == text


@given(of(Ledger), of(Observed), of(Policy), of(int))
@settings(slow, max_examples=10)
def test_every_observation_comes_back_as_it_was(
    ledger: Ledger, observed: Observed, policy: Policy, now: int
) -> None:
    text = encode_observation(ledger, observed, policy, Ms(now))
    assert decode_observation(text) == (ledger, observed, policy, now)


def test_what_is_written_is_canonical_and_says_its_version() -> None:
    text = encode(FULL)
    assert canonical(json.loads(text)) == text
    assert json.loads(text)["v"] == 2
    assert '"need":"live-repair"' in text
    assert '"action":{"kind":"Drain","node":"n1","promote":false}' in text
    assert json.loads(SAVED)["observed"]["snapshot"]["nodes"]["n1.example"]["tags"] == ["a", "b"]


def all_kinds(value: Any) -> set[type]:
    found: set[type] = set()
    if is_dataclass(value):
        found.add(type(value))
        members: list[Any] = [getattr(value, f.name) for f in fields(value)]
    elif isinstance(value, Mapping):
        members = list(value.values())
    else:
        members = list(value) if isinstance(value, tuple | frozenset) else []
    return found.union(*(all_kinds(member) for member in members))


def test_the_example_has_something_of_every_kind() -> None:
    assert all_kinds(FULL) | all_kinds(OBSERVED) | {Policy} >= {
        *(Ledger, Incident, Diagnosis, Intent, Hold, Begun, Storm, Result, Observed, Snapshot),
        *(Node, Instance, Group, Capacity, Wish, Cancel, Retry, Pause, Resume, ResetStorm),
        *(Balance, StopBalancing, Advice, Shift, Spot, Lopsided, Agenda, Halt, Trail),
        *(Queue, Sick, Entry, AddEntry, DeleteEntry, DeleteEntries, SetQueue, ResetBackOff),
        *(SetConstraint, Attempt, Refusal),
    }


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ('"noted_at":1', '"noted_at":1.0', "incidents[0].noted_at is not a whole number"),
        ('"status":"failed"', '"status":"lost"', "incidents[1].status is not one of noted, "),
        ('"need":"live-repair"', '"need":"Live"', "begun[0].need is not one of Ok, live-repair"),
        ('"need":"live-repair"', '"need":1', "begun[0].need is not one of"),
        ('"kind":"Drain"', '"kind":"Explode"', "intents[0].action.kind is not one of Drain, "),
        ('"kind":"Drain",', "", "intents[0].action.kind is not one of"),
        ('"kind":"Drain"', '"kind":"SetOffline","deep":1', 'has an unknown member "deep"'),
        ('"v":2', '"v":3', "v is 3: it is of a newer nodeagent; this one reads 2"),
        ('"v":2', '"v":1', "v is 1, which was never released"),
        ('"v":2', '"v":"2"', "v is not a version"),
        (',"v":2', "", "v is not a version"),
        ('"round":7', '"round":7,"round":8', 'key "round" stands twice'),
        ('"round":7', '"round":NaN', "NaN is not a number"),
        ('"round":7', '"round":1e999', "round is not of its type: "),
        ('"round":7', '"round":' + "9" * 5000, "is not JSON we read"),
        ('"round":7', '"round":' + "[" * 100_000, "is not JSON"),
        ('"round":7', '"round":7,"future":1', 'it has an unknown member "future"'),
        ('"name":"n1",', "", "incidents[0] lacks name"),
        ('"round":7', '"round":', "is not JSON at line 1 column"),
        ('"live-repair\\"}"', '"fix\\"}"', "incidents[0].diagnosis is not a diagnosis: at $.st"),
        ('\\"status\\":\\"live', '\\"status\\": \\"live', "diagnosis is not a diagnosis: the dia"),
    ],
)
def test_what_cannot_be_read_is_never_guessed_at(old: str, new: str, place: str) -> None:
    text = encode(FULL)
    assert old in text
    with pytest.raises(Corrupt) as caught:
        decode(Ledger, text.replace(old, new, 1))
    assert str(caught.value).startswith("the ledger cannot be read: ")
    assert place in str(caught.value)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("text", ["", "[]", "{}", "null", "\ufeff{}", "\0", SAVED])
def test_what_is_no_ledger_at_all_is_refused(text: str) -> None:
    with pytest.raises(Corrupt):
        decode(Ledger, text)


def test_a_tag_twice_is_refused() -> None:
    twice = SAVED.replace('"tags":["a","b"]', '"tags":["a","a"]')
    with pytest.raises(Corrupt, match=r'nodes\["n1.example"\].tags has a member twice'):
        decode_observation(twice)


def test_a_policy_of_whole_shares_comes_back() -> None:
    text = encode_observation(Ledger(), OBSERVED, Policy(storm=1.0), Ms(0))
    assert decode_observation(text)[2] == Policy(storm=1.0)
    assert type(decode_observation(text)[2].storm) is float


@pytest.mark.parametrize(
    ("member", "value", "place"),
    [
        ("round", 1.5, "round is not a whole number"),
        ("calm", None, "calm is not of its type: "),
        ("incidents", [], "it does not come back as it was"),
        ("intents", FULL.incidents, "it is not of its type: 'Incident' object has no attribute"),
        ("begun", (replace(FULL.begun[0], incident=b"i"),), "begun[0].incident is not a text"),  # type: ignore[arg-type]
    ],
)
def test_what_could_not_be_read_back_is_not_written(member: str, value: object, place: str) -> None:
    with pytest.raises(TypeError, match=f"^Ledger: {re.escape(place)}"):
        encode(replace(FULL, **{member: value}))  # type: ignore[arg-type]


@pytest.mark.parametrize("number", ["1e999", "1" + "0" * 400])
def test_a_share_too_large_for_a_number_is_refused(number: str) -> None:
    with pytest.raises(Corrupt, match=r"policy\.storm is not a number"):
        decode_observation(SAVED.replace('"storm":0.3', f'"storm":{number}'))


def test_saving_and_reading_are_ten_times_the_work_for_ten_times_the_cluster() -> None:
    def work(count: int) -> int:
        nodes = {f"n{i}": Node(f"n{i}", f"uuid-{i}", "10.0.0.1") for i in range(count)}
        instances = {
            f"i{i}": Instance(f"i{i}", f"n{i % count}", f"n{(i + 1) % count}")
            for i in range(10 * count)
        }
        observed = Observed(
            Snapshot("c", nodes, instances),
            dict.fromkeys(nodes, DIAGNOSES[1]),
            capacity=dict.fromkeys(nodes, Capacity(1, 2)),
        )
        ledger = replace(FULL, incidents=FULL.incidents * count, intents=FULL.intents * count)

        def there_and_back() -> None:
            text = encode_observation(ledger, observed, Policy(), Ms(0))
            assert decode_observation(text) == (ledger, observed, Policy(), 0)

        return lines(there_and_back)

    work(1)  # what is worked out once for each type
    assert work(300) < 11 * work(30)
