import json
import re
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings

from nodeagent.errors import Corrupt
from nodeagent.model.ledger import Ledger, Policy
from nodeagent.model.snapshot import Node, Observed, Snapshot
from nodeagent.model.units import Ms
from nodeagent.model.wish import SetConstraint, Wish
from nodeagent.protocol.canonical import canonical
from nodeagent.store.codec import decode, decode_observation, encode, encode_observation
from tests.store.full import FULL
from tests.store.values import of

slow = settings(max_examples=15, suppress_health_check=list(HealthCheck))

OBSERVED = Observed(
    Snapshot(
        "c", {"n1.example": Node("n1.example", "u1", "10.0.0.1", "g", tags=frozenset({"b", "a"}))}
    ),
    diagnoses={},
    wishes=(Wish("13", "ada", Ms(9), SetConstraint("cool-down-seconds", 60)),),
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
@settings(slow, max_examples=5)
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
