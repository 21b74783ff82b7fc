"""Nobody reads a sentence that we wrote: what a program is to know is a value beside it.

A member or a variable that holds a sentence is only handed on, never searched, cut or compared.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parent
ROOT = TESTS.parent / "nodeagent"
NAMES = {"reason", "why", "told", "sentence", "trouble", "kept"}
MEMBERS = NAMES | {"text", "message"}
READS = {
    *("startswith", "endswith", "removeprefix", "removesuffix", "partition", "rpartition"),
    *("split", "rsplit", "splitlines", "find", "index", "replace", "count"),
}
REGEX = {"match", "search", "fullmatch", "findall", "finditer", "sub", "split"}
# What looks into such a text all the same, and whose it is.
THEIRS = {
    "maintd/engine/orders.py": "an agent's receipt; agents of earlier releases know its form",
    "maintd/planning/outcomes.py": "an agent's receipt; agents of earlier releases know its form",
    "placement/cluster/textfile.py": "htools' text file",
    "store/sqlite.py": "SQLite's own messages",
}


def _is_sentence(node: ast.AST) -> bool:
    match node:
        case ast.Name(id=name):
            return name in NAMES
        case ast.Attribute(attr=name):
            return name in MEMBERS
        case ast.Call(func=ast.Name(id="str"), args=[said]):
            return _is_sentence(said) or (isinstance(said, ast.Name) and said.id == "error")
        case _:
            return False


def _is_words(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value != ""


def _reads(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(value=said, attr=name)) if name in READS:
            return _is_sentence(said)
        case ast.Call(func=ast.Attribute(attr=name), args=args) if name in REGEX:
            return any(map(_is_sentence, args))
        case ast.Compare(left=left, comparators=[right]):
            return (_is_sentence(left) and _is_words(right)) or (
                _is_sentence(right) and _is_words(left)
            )
        case _:
            return False


def readings(source: str) -> list[int]:
    """The lines that look into a sentence."""
    return sorted(node.lineno for node in ast.walk(ast.parse(source)) if _reads(node))  # type: ignore[attr-defined]


def _modules() -> Iterator[tuple[str, str]]:
    for path in sorted(ROOT.rglob("*.py")):
        yield str(path.relative_to(ROOT)), path.read_text()


def test_no_module_reads_a_sentence_of_ours() -> None:
    found = {name: lines for name, source in _modules() if (lines := readings(source))}
    assert {name: lines for name, lines in found.items() if name not in THEIRS} == {}
    assert THEIRS.keys() - found.keys() == set(), "these need no exception any more"


def other_moments(source: str) -> list[int]:
    """The lines that write a moment in another form than RFC 3339."""
    spelled = re.compile(r"%[YHM]")
    if not spelled.search(source):
        return []
    return [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and spelled.search(node.value)
        and "%Y-%m-%dT%H:%M:%SZ" not in node.value
    ]


def test_a_moment_in_a_text_of_maintd_is_rfc_3339() -> None:
    """So the command line and other programs find it; the pages and calendars have their own."""
    found = {
        name: lines
        for name, source in _modules()
        if name.startswith(("maintd/", "model/", "cli/maintd"))
        and not name.startswith(("maintd/http/page/", "maintd/http/ical", "maintd/http/calendar"))
        and (lines := other_moments(source))
    }
    assert found == {}


def test_another_form_of_a_moment_is_found() -> None:
    assert other_moments('f"{at:%Y-%m-%d %H:%M} UTC"') == [1]
    assert other_moments('f"{at:%Y-%m-%dT%H:%M:%SZ}"') == []


def test_no_template_reads_a_sentence() -> None:
    reads = re.compile(rf"\.({'|'.join(READS - {'replace'})})\(")
    found = {
        path.name
        for path in ROOT.rglob("*.html")
        if any(map(reads.search, path.read_text().splitlines()))
    }
    assert found == set()


def test_a_reading_is_found_and_what_hands_on_is_let_be() -> None:
    for line in (
        'held.reason.startswith("overdue: ")',
        'h.why.removeprefix("group ")',
        '"is given up" in why',
        'one.why == "canceled"',
        're.search("[0-9]", held.reason)',
        "UUID.search(str(error))",
        'str(error).startswith("noted")',
        'event.text.partition(": ")',
    ):
        assert readings(line) == [1], line
    handed_on = ("if why: pass", "held.append(why)", 'text.split(",")', "why == other.why")
    for line in (*handed_on, 'why == ""'):
        assert readings(line) == [], line
