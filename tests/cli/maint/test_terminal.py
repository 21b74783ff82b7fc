"""Tables and facts on terminals of every width: no tag and no UUID is broken."""

import re
from collections.abc import Callable

import pytest

from nodeagent.cli.maint.console.colour import ColourScreen

UUID = "01a2b3c4-0001-8000-8000-00000000abcd"
TAG = f"maintd:repairready:{UUID}"
WAITS = f"repair node3.example.com, then remove its tag {TAG}; or run gnt-maint done node3"
WIDTHS = [*range(40, 140, 4), 200]


@pytest.fixture
def on(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], ColourScreen]:
    def screen(columns: int) -> ColourScreen:
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.setenv("TERM", "xterm")
        return ColourScreen()

    return screen


def test_a_table_breaks_no_tag_and_no_uuid(
    on: Callable[[int], ColourScreen], capsys: pytest.CaptureFixture[str]
) -> None:
    head = ("incident", "node", "status", "waits for")
    rows = [(UUID, "node3.example.com", "completed", WAITS), (UUID, "n4", "pending", "")]
    for columns in WIDTHS:
        on(columns).table(head, rows)
        said = capsys.readouterr().out
        assert said.count(TAG) == 1, columns
        assert len(re.findall(rf"^{UUID}", said, re.M)) == 2, columns
        assert " ".join(said.split()).count("then remove its tag") == 1, columns


def test_facts_break_no_tag(
    on: Callable[[int], ColourScreen], capsys: pytest.CaptureFixture[str]
) -> None:
    for columns in WIDTHS:
        on(columns).facts([("Incident", UUID), ("Waits for", WAITS), ("Jobs", 7)])
        said = capsys.readouterr().out
        assert said.count(TAG) == 1, columns
        assert re.search(rf"^Incident +{UUID} *$", said, re.M), columns
        assert re.search(r"^Jobs +7 *$", said, re.M), columns


@pytest.mark.parametrize(("columns", "lines"), [(80, 4), (100, 2)])
def test_where_a_word_would_be_broken_the_last_column_stands_below(
    on: Callable[[int], ColourScreen], capsys: pytest.CaptureFixture[str], columns: int, lines: int
) -> None:
    on(columns).table(("node", "status", "tag"), [("node3.example.com", "completed", TAG)])
    said = capsys.readouterr().out.splitlines()
    assert len(said) == lines
