import ast
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

import nodeagent
from nodeagent.model.purpose import (
    OfBalance,
    OfEntry,
    OfFencing,
    OfIncident,
    OfNotices,
    OfOwners,
    OfRepair,
    OfReturn,
    OfTags,
    OfWindow,
    Purpose,
    claimant,
    parse,
    reason,
)
from tests.store.values import PURPOSES

ID = str(UUID(int=7))
TABLE: list[tuple[Purpose, str, str]] = [
    (OfIncident(ID), f"{ID}:12", ID),
    (OfRepair("ticket-7"), "autorepair:ticket-7:12", "autorepair"),
    (OfBalance("g"), "balance:g:12", "balance"),
    (OfEntry(3, "empty"), "queue:3:empty:12", "queue:3"),
    (OfWindow("u"), "window:u:12", "window:u"),
    (OfOwners(), "offers::told:12", "offers:"),
    (OfNotices("ops"), "notify:ops:12", "notify:"),
    (OfFencing("u"), "fence:u:12", "fence:u"),
    (OfTags(), "maintd:12", ""),
]


@pytest.mark.parametrize(("purpose", "text", "owner"), TABLE)
def test_the_texts_of_the_release_before_are_written_and_read(
    purpose: Purpose, text: str, owner: str
) -> None:
    assert reason(purpose, "12") == text
    assert parse(text) == (purpose, 12)
    assert purpose.owner == owner


@given(PURPOSES, st.integers(0, 2**63))
def test_every_purpose_is_read_back_from_its_reason(purpose: Purpose, number: int) -> None:
    assert parse(reason(purpose, str(number))) == (purpose, number)
    assert parse(purpose.text + ":x") == (OfTags(), None)


CLAIMANTS: list[tuple[Purpose, str]] = [
    (OfIncident(ID), f"incident {ID}"),
    (OfRepair("ticket-7"), "auto-repair"),
    (OfBalance("g"), "balancing"),
    (OfEntry(5, "drain"), "queue entry 5"),
    (OfWindow(ID), "its maintenance window"),
    (OfReturn(ID), "its return into service"),
    (OfFencing(ID), "its fencing"),
    (OfNotices("ops"), "another repair"),
]


@pytest.mark.parametrize(("purpose", "words"), CLAIMANTS)
def test_who_has_a_node(purpose: Purpose, words: str) -> None:
    assert claimant(purpose.owner) == words


@pytest.mark.parametrize(
    "text", ["", "12", ":12", "incident:12", "queue:x:empty:12", "balance::12", "autorepair:12"]
)
def test_what_is_none_of_ours_serves_nothing(text: str) -> None:
    assert parse(text)[0] == OfTags()


def test_no_other_module_makes_or_reads_these_texts() -> None:
    """Of all strings in the code none begins like a reason but those of the module itself."""
    begins = ("autorepair:", "balance:", "queue:", "window:", "offers:")
    texts = {path: path.read_text() for path in Path(nodeagent.__path__[0]).rglob("*.py")}
    found = [
        f"{path.name}:{node.lineno}"
        for path, text in texts.items()
        if path.name != "purpose.py" and any(begin in text for begin in begins)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and node.value.startswith(begins)
    ]
    assert found == []
