"""docs/design.md says where things are decided: each file and each name in its tables is there."""

import ast
import re
from pathlib import Path

import pytest

TOP = Path(__file__).parent.parent
TEXT = (TOP / "docs" / "design.md").read_text()
ROWS = [line for line in TEXT.splitlines() if line.startswith("| ") and ".py` `" in line]
NUMBERS = {12: "twelve", 13: "thirteen", 14: "fourteen", 15: "fifteen", 16: "sixteen"}
ROOMS = re.findall(r"^\| `(\w+)` \| .* \| .* \|$", TEXT, re.MULTILINE)


def path_of(name: str) -> Path:
    return TOP / "nodeagent" / name.removeprefix("nodeagent/")


def defined(path: Path) -> set[str]:
    return {
        node.name
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    }


def test_the_table_answers_twenty_questions() -> None:
    assert len(ROWS) >= 20
    assert all(row.split("|")[1].strip().endswith("?") for row in ROWS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split("|")[1].strip())
def test_where_it_is_decided(row: str) -> None:
    path: Path | None = None
    for word in re.findall(r"`([^`]+)`", row.split("|")[2]):
        if word.endswith(".py"):
            path = path_of(word)
            assert path.is_file(), word
        else:
            assert path is not None, row
            assert word in defined(path), f"{path.name} defines no {word}"


def test_each_room_is_told() -> None:
    maintd = TOP / "nodeagent" / "maintd"
    rooms = {path.name for path in maintd.iterdir() if (path / "__init__.py").is_file()}
    assert rooms <= set(ROOMS)
    for page in (TEXT, (TOP / "CONTRIBUTING.md").read_text()):
        assert re.findall(r"(\w+) rooms\b.*", page)[0] == NUMBERS[len(rooms)]


def test_the_places_of_a_new_action_are_told() -> None:
    """A place that has a case for one kind of job has one for each."""
    path = TOP / "nodeagent/model/action.py"
    places = re.findall(
        r"^- (\S+\.py): ", ast.get_docstring(ast.parse(path.read_text())) or "", re.M
    )
    assert len(places) >= 5
    moves = {place for place in places if "MoveSecondary" in (TOP / place).read_text()}
    assert moves == set(places), "a move has a case in each"
    told = re.compile(r"^\s+(?:case|\|) .*\bMoveSecondary\b", re.M)
    folders = ("nodeagent/model", "nodeagent/cluster", "nodeagent/maintd/planning", "simulation")
    found = {
        str(file.relative_to(TOP))
        for folder in folders
        for file in (TOP / folder).rglob("*.py")
        if told.search(file.read_text())
    }
    assert found <= moves, "another place has a case for it"


def test_a_wrong_name_is_noticed() -> None:
    with pytest.raises(AssertionError):
        test_where_it_is_decided("| Where? | `maintd/deciding/decide.py` `nothing_of_this_name` |")
