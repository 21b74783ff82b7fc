"""The schema that script authors read and the rules the runner applies are one."""

from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from nodeagent.protocol.messages import is_diagnosis, schema_fault

words = st.sampled_from(["Ok", "ok", "live-repair", "evacuate", "evacuate-failover", ""])
names = st.sampled_from(["fix", "a" * 64, "a" * 65, "-a", "_a", "a.b", "", "a/b", "ä", "0"])
anything: st.SearchStrategy[Any] = st.none() | st.booleans() | st.integers() | words | names
documents = st.one_of(
    anything,
    st.lists(anything, max_size=2),
    st.fixed_dictionaries(
        {},
        optional={
            "status": words | anything | st.lists(words, max_size=1),
            "command": names | anything,
            "details": anything,
        },
    ),
)


@given(documents)
@settings(max_examples=400)
@example({"status": "live-repair"})
@example({"status": "live-repair", "command": None})
@example({"status": "Ok", "command": None})
@example({})
def test_the_rules_by_hand_are_the_schemas(document: Any) -> None:
    assert is_diagnosis(document) is (schema_fault(document) is None)


def test_a_final_newline_is_the_one_thing_the_schema_lets_pass() -> None:
    document = {"status": "live-repair", "command": "fix\n"}
    assert schema_fault(document) is None
    assert not is_diagnosis(document)
