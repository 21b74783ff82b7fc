"""One short, printable line for whatever a node reported."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodeagent.model.fault_text import MOST, fault_text


@pytest.mark.parametrize(
    ("details", "line"),
    [
        ({"part": "mainboard"}, "part mainboard"),
        ({"disk": "sdb", "smart": "failing now"}, "disk sdb, smart failing now"),
        ({"raid": {"array": "md0", "failed": 1}}, "raid: array md0, failed 1"),
        ({"raid": ["md0", "md1"]}, "raid: md0, md1"),
        ("CPU2 VRM", "CPU2 VRM"),
        ("two\nlines\x1b[31m", "two lines [31m"),
        (None, ""),
        (True, "true"),
        ({"a": {"b": {"c": {"d": 1}}}}, "a: b: c: d …"),
        ("x" * 400, "x" * (MOST - 1) + "…"),
    ],
)
def test_the_details_in_a_line(details: object, line: str) -> None:
    assert fault_text(json.dumps({"status": "evacuate", "details": details})) == line


@pytest.mark.parametrize("text", ["", "{", "[]", '"x"', '{"status":"Ok"}'])
def test_without_details_there_is_no_line(text: str) -> None:
    assert fault_text(text) == ""


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(VALUES)
@settings(max_examples=30)
def test_it_is_bounded_and_printable_whatever_they_are(details: object) -> None:
    line = fault_text(json.dumps({"details": details}))
    assert len(line) <= MOST
    assert line.isprintable()
