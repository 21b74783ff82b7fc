"""J01-J11: bad JSON from commands and from the network.

What a command prints goes through the real command runner and `interpret`; what comes over
the network goes to the real front and runner. The reader itself is tested on the bytes.

J10's presentation (page, terminal, log) is the coordinator's: here only that such text
passes unread and leaves no control character in our own messages.
"""

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodeagent.agent.diagnose import Reading, interpret
from nodeagent.agent.run import Finished
from nodeagent.errors import MessageError
from nodeagent.model.diagnosis import Diagnosis, Need, Unusable
from nodeagent.model.units import Ms
from nodeagent.protocol.canonical import MAX_DEPTH, canonical, printable, read, read_text
from nodeagent.protocol.envelope import Key
from nodeagent.protocol.look import Distrusted, Expected, judge_answer
from nodeagent.protocol.messages import COMMAND_DEPTH, diagnosis_of


def read_diagnosis(raw: bytes) -> Diagnosis:
    """Read what a command printed, as `interpret` does."""
    return diagnosis_of(read(raw, depth=COMMAND_DEPTH))


def nested(levels: int) -> bytes:
    """A diagnosis that many levels deep."""
    return b'{"status":"Ok","details":' + b"[" * (levels - 1) + b"]" * (levels - 1) + b"}"


BAD = {
    "J01 0xff": b'{"status":"\xff"}',
    "J01 latin-1": '{"status":"Ok","details":"für"}'.encode("latin-1"),
    "J01 byte order mark": b'\xef\xbb\xbf{"status":"Ok"}',
    "J01 UTF-16": '{"status":"Ok"}'.encode("utf-16"),
    "J01 UTF-16 without mark": '{"status":"Ok"}'.encode("utf-16-le"),
    "J01 UTF-32": '{"status":"Ok"}'.encode("utf-32-be"),
    "J02 key twice": b'{"status":"Ok","status":"evacuate"}',
    "J02 key twice, below": b'{"status":"Ok","details":{"a":1,"a":1}}',
    "J02 key twice, escaped": b'{"status":"Ok","\\u0073tatus":"evacuate"}',
    "J03 NaN": b'{"status":"Ok","details":NaN}',
    "J03 Infinity": b'{"status":"Ok","details":Infinity}',
    "J03 -Infinity": b'{"status":"Ok","details":-Infinity}',
    "J03 1e999": b'{"status":"Ok","details":1e999}',
    "J03 -1e999": b'{"status":"Ok","details":-1e999}',
    "J04 deep lists": b'{"status":"Ok","details":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "J04 deep objects": b'{"a":' * 20_000 + b"1" + b"}" * 20_000,
    "J04 deep, never closed": b"[" * 200_000,
    "J04 as deep as no merged diagnosis could hold": nested(COMMAND_DEPTH + 1),
    "J05 5,000 digits": b'{"status":"Ok","details":' + b"9" * 5000 + b"}",
    "J05 leading zero": b'{"status":"Ok","details":007}',
    "J05 plus": b'{"status":"Ok","details":+1}',
    "J06 half a surrogate pair": b'{"status":"Ok","details":"\\ud800"}',
    "J06 the other half": b'{"status":"Ok","details":{"\\udc00":1}}',
    "J06 encoded surrogate": b'{"status":"Ok","details":"\xed\xa0\x80"}',
    "J07 NUL": b'{"status":"Ok","details":"a\\u0000b"}',
    "J07 NUL in a key": b'{"status":"Ok","details":{"\\u0000":1}}',
    "J07 raw control character": b'{"status":"Ok","details":"a\x01b"}',
    "J08 trailing text": b'{"status":"Ok"} trailing',
    "J08 two documents": b'{"status":"Ok"}{"status":"evacuate"}',
    "J08 empty": b"",
    "J08 blank": b" \t\r\n",
    "J08 noise before": b'warning: slow disk\n{"status":"Ok"}',
    "J08 list": b'[{"status":"Ok"}]',
    "J08 text": b'"Ok"',
    "J08 null": b"null",
    "J08 comment": b'{"status":"Ok"} // fine',
    "J08 single quotes": b"{'status':'Ok'}",
    "J08 too large": b'{"status":"Ok","details":"' + b"x" * 300_000 + b'"}',
    "J09 no status": b'{"details":{}}',
    "J09 wrong case": b'{"status":"ok"}',
    "J09 unknown status": b'{"status":"reboot"}',
    "J09 number": b'{"status":1}',
    "J09 list of statuses": b'{"status":["Ok"]}',
    "J09 null status": b'{"status":null}',
    "J09 command is a list": b'{"status":"live-repair","command":["a"]}',
    "J09 command is a path": b'{"status":"live-repair","command":"../a"}',
    "J09 command with newline": b'{"status":"live-repair","command":"a\\n"}',
    "J09 command with space": b'{"status":"live-repair","command":"a b"}',
    "J09 empty command": b'{"status":"live-repair","command":""}',
}


def test_unacceptable_output_is_unusable_never_ok() -> None:
    for name, raw in BAD.items():
        said = interpret(Finished(0, raw, b""), Reading())
        assert isinstance(said, Unusable), name
        assert said.why.isprintable(), f"{name}: one line, whatever was sent"
        assert len(said.why) < 400, name


GOOD = {
    "J04 as deep as allowed": b"[" * MAX_DEPTH + b"]" * MAX_DEPTH,
    "J04 brackets inside a text": b'"' + b"[" * 1000 + b'"',
    "J04 brackets after an escaped quote": b'"\\"' + b"[" * 1000 + b'"',
    "J04 brackets after an escaped backslash": b'["\\\\", []]',
    "J05 4,000 digits are not": b"9" * 309,
    "J06 a whole pair": b'"\\ud83d\\ude00"',
    "J08 white space around": b' \t\r\n{"a": 1}\r\n ',
    "J08 key of 64 KiB": b'{"' + b"k" * 65536 + b'": 1}',
}


def test_odd_but_good_documents_are_read() -> None:
    for name, raw in GOOD.items():
        assert read(raw) == json.loads(raw), name


def test_j04_a_command_may_nest_as_deep_as_a_merged_diagnosis_can_hold() -> None:
    assert isinstance(interpret(Finished(0, nested(COMMAND_DEPTH), b""), Reading()), Diagnosis)


def test_j09_other_members_are_kept_and_are_part_of_the_identity() -> None:
    diagnosis = read_diagnosis(b'{"vendor":"x","status":"evacuate","command":"ignored"}')
    assert diagnosis.text == '{"command":"ignored","status":"evacuate","vendor":"x"}'


HOSTILE = [
    "\x1b[2J\x1b]8;;http://x\x1b\\",
    "\u202e\u2066",
    "<script>alert(1)</script>",
    "{{7*7}}",
    "'; DROP TABLE incidents; --",
    "a\r\nSet-Cookie: x",
    "2026-01-01T00:00:00Z info order-started id=1",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_j10_hostile_details_pass_unread_and_never_reach_our_own_lines(text: str) -> None:
    diagnosis = read_diagnosis(json.dumps({"status": "evacuate", "details": text}).encode())
    assert json.loads(diagnosis.text)["details"] == text
    with pytest.raises(MessageError) as refused:
        read_diagnosis(json.dumps({"status": text}).encode())
    assert str(refused.value).isascii()
    assert str(refused.value).isprintable()
    assert printable(text).isascii()
    assert printable(text).isprintable()


# J11: the canonical form. Values as JSON has them, without those that `read` refuses.

# The older names of exclude_…: Debian 12's hypothesis knows no others.
letters = st.characters(blacklist_categories=["Cs"], blacklist_characters="\0")
texts = st.text(letters, max_size=8)
numbers = (
    st.integers(-(10**18), 10**18)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from([0, -0.0, 1, 1.0, 100, 1e2, 2**53, 1e16, 0.1, 5e-324])
)
values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)
quick = settings(max_examples=80)


@quick
@given(values)
def test_j11_canonical_is_read_back_and_is_its_own_canonical_form(value: object) -> None:
    text = canonical(value)
    assert canonical(read_text(text)) == text
    assert json.loads(text) == value


@quick
@given(values, st.randoms(use_true_random=False))
def test_j11_order_space_and_escapes_do_not_matter(value: object, random: object) -> None:
    for ascii_only in (True, False):
        other = json.dumps(_shuffled(value, random), indent=1, ensure_ascii=ascii_only)
        assert canonical(read_text(other)) == canonical(value)


@quick
@given(values, values)
def test_j11_different_values_are_different_texts(one: object, other: object) -> None:
    same = _typed(one) == _typed(other)
    assert (canonical(one) == canonical(other)) is same


@pytest.mark.parametrize("same", [["100", "100.0", "1e2", "1E+2"], ["0", "-0", "-0.0", "0e9"]])
def test_j11_one_number_is_one_text(same: list[str]) -> None:
    assert len({canonical(read_text(text)) for text in same}) == 1


@pytest.mark.parametrize(("one", "other"), [("1", "true"), ("0", "false"), ('"1"', "1")])
def test_j05_equal_in_python_is_not_the_same_diagnosis(one: str, other: str) -> None:
    assert canonical(read_text(one)) != canonical(read_text(other))


def test_j11_numbers_beyond_floats_keep_all_their_digits() -> None:
    assert canonical(read_text("9007199254740993")) == "9007199254740993"


def _shuffled(value: object, random: object) -> object:
    if isinstance(value, dict):
        items = [(key, _shuffled(item, random)) for key, item in value.items()]
        random.shuffle(items)  # type: ignore[attr-defined]
        return dict(items)
    if isinstance(value, list):
        return [_shuffled(item, random) for item in value]
    return value


def _typed(value: object) -> object:
    """Comparable without Python's 1 == 1.0 == True."""
    if isinstance(value, bool) or value is None:
        return ("constant", str(value))
    if isinstance(value, float) and value.is_integer() and math.fabs(value) < 2**53:
        return ("int", int(value))
    if isinstance(value, dict):
        return ("object", {key: _typed(item) for key, item in value.items()})
    if isinstance(value, list):
        return ("list", [_typed(item) for item in value])
    return (type(value).__name__, value)


# Over the network, against the processes.


def test_j04_a_report_deeper_than_any_agent_s_is_not_read_through() -> None:
    """Four megabytes of lists would cost the master a second; a report lies one level deep."""
    lie = b'{"name":"diagnose","data":{"msg":[[]]}}'
    look = judge_answer(200, lie, Key(b"0" * 40), Expected("c", "n", "", "salt"), Ms(0))
    assert look == Distrusted("nested deeper than 2 levels at line 1")


def test_diagnosis_of_ok_is_ok() -> None:
    """So that the tables above can fail."""
    assert diagnosis_of({"status": "Ok"}) == Diagnosis(Need.OK, None, '{"status":"Ok"}')
