"""Nobody reads a sentence that we wrote: what a program is to know is a value beside it.

Three rules. A member or a variable that holds a sentence is only handed on, never searched, cut or
compared. Each module with regular expressions names here whose text it reads. And maintd's tests
compare the kind and the details of a reason or an event: its wording is for tests/model.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
ROOT = TESTS.parent / "nodeagent"
NAMES = {"reason", "why", "told", "sentence", "trouble", "kept"}
MEMBERS = NAMES | {"text", "message"}
READS = {
    *("startswith", "endswith", "removeprefix", "removesuffix", "partition", "rpartition"),
    *("split", "rsplit", "splitlines", "find", "index", "replace", "count"),
}
REGEX = {"match", "search", "fullmatch", "findall", "finditer", "sub", "split"}
TRAIL = "Ganeti's reason trail, which tells a new master what a job is for"
# What looks into such a text all the same, and whose it is.
THEIRS = {
    "maintd/engine/orders.py": "an agent's receipt; agents of earlier releases know its form",
    "cli/maint/console/client.py": "maintd of earlier releases says it in words alone",
    "maintd/planning/outcomes.py": "an agent's receipt; agents of earlier releases know its form",
    "placement/cluster/textfile.py": "htools' text file",
    "store/sqlite.py": "SQLite's own messages",
}
EXPRESSIONS = {
    "model/alerts.py": "Alertmanager's matchers",
    "model/ganeti.py": "Ganeti's own version",
    "agent/cgroup.py": "names of cgroups",
    "agent/collectors/drbd.py": "/proc/drbd",
    "agent/diagnose.py": "performance data and control characters in plug-ins' output",
    "agent/node_key.py": "the key file",
    "agent/receipts.py": "names of files",
    "agent/ssconf.py": "Ganeti's certificate digests",
    "autorepair/tags.py": "harep's tags",
    "cli/maint/clusters_page.py": "a page of ours, to be replaced",
    "cli/maint/console/arguments.py": "what a person types",
    "cli/maint/console/clusters_file.py": "names that a person wrote in a file",
    "cli/maint/console/nodes.py": "what a person types",
    "cli/maint/console/options.py": "what a person types",
    "cli/maint/console/text.py": "what a person types, and RFC 3339",
    "cluster/ganeti/jobqueue.py": "Ganeti's messages",
    "cluster/ganeti/opcodes.py": "Ganeti's job numbers and opcodes",
    "folder.py": "names of files",
    "maintd/http/users.py": "the login name of a person",
    "maintd/http/page/text.py": "characters that a browser could draw over others",
    "maintd/http/parse.py": "JSON of requests",
    "maintd/http/windows.py": "HTTP's ETag",
    "maintd/windows/mesos.py": "Mesos' JSON",
    "maintd/rolls/hours.py": "what a person types",
    "maintd/windows/recurrence.py": "what a person types",
    "maintd/engine/timezones.py": "names of time zones",
    "model/tag.py": "Ganeti's tags",
    "placement/cluster/textfile.py": "htools' text file",
    "protocol/canonical.py": "JSON",
    "protocol/commands.py": "words and digests on the wire",
    "protocol/envelope.py": "salts and digests on the wire",
    "protocol/messages.py": "names and ids on the wire",
    "power/agents.py": "fence agents' metadata",
    "power/answers.py": "fence agents' standard error",
    "power/settings.py": "settings",
    "protocol/node_key.py": "fingerprints and signatures on the wire",
    "secret.py": "tokens in files",
    "section.py": "settings",
    "settings.py": "settings in tags",
    "store/codec.py": "half surrogate pairs",
    "store/records.py": "the places that cattrs notes",
    "web/blocking.py": "URLs",
    "web/compress.py": "HTTP's Accept-Encoding",
    "web/exchange.py": "paths of requests",
    "web/refusal.py": "HTTP's Content-Length",
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


def _is_worded(node: ast.AST) -> bool:
    """Tell whether this is the sentence of a reason or an event."""
    match node:
        case ast.Attribute(attr="reason"):
            return True
        case ast.Call(func=ast.Name(id="str"), args=[ast.Attribute(attr="why")]):
            return True
        case ast.Call(func=ast.Name(id="str"), args=[ast.Name(id="event" | "held" | "reason")]):
            return True
        case _:
            return False


def wordings(source: str) -> list[int]:
    """The lines of tests that compare such a sentence with three words or more, or list them."""

    def compares(sides: list[ast.expr]) -> bool:
        parts = [part for side in sides for part in ast.walk(side)]
        texts = [part.value for part in parts if isinstance(part, ast.Constant)]
        long = any(isinstance(text, str) and len(text.split()) > 2 for text in texts)
        return long and any(map(_is_worded, parts))

    found = set[int]()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Compare(left=left, comparators=right) if compares([left, *right]):
                found.add(node.lineno)
            case ast.Call(func=ast.Attribute(value=said, attr=name), args=args) if name in READS:
                if compares([said, *args]):
                    found.add(node.lineno)
            case (
                ast.ListComp(elt=said, generators=[one])
                | ast.GeneratorExp(elt=said, generators=[one])
            ):
                held = (getattr(part, "attr", "") == "held" for part in ast.walk(one.iter))
                if any(held) and any(map(_is_worded, ast.walk(said))):
                    found.add(node.lineno)
    return sorted(found)


def _modules() -> Iterator[tuple[str, str]]:
    for path in sorted(ROOT.rglob("*.py")):
        yield str(path.relative_to(ROOT)), path.read_text()


def test_no_module_reads_a_sentence_of_ours() -> None:
    found = {name: lines for name, source in _modules() if (lines := readings(source))}
    assert {name: lines for name, lines in found.items() if name not in THEIRS} == {}
    assert THEIRS.keys() - found.keys() == set(), "these need no exception any more"


def test_each_regular_expression_says_whose_text_it_reads() -> None:
    assert {name for name, source in _modules() if "import re\n" in source} == set(EXPRESSIONS)


def test_maintds_tests_compare_values() -> None:
    found = {
        str(path.relative_to(TESTS)): lines
        for path in sorted((TESTS / "maintd").rglob("*.py"))
        if (lines := wordings(path.read_text()))
    }
    assert found == {}


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


@pytest.mark.parametrize(
    "line",
    [
        'held.reason.startswith("overdue: ")',
        'h.why.removeprefix("group ")',
        '"is given up" in why',
        'one.why == "canceled"',
        're.search("[0-9]", held.reason)',
        "UUID.search(str(error))",
        'str(error).startswith("noted")',
        'event.text.partition(": ")',
    ],
)
def test_a_reading_is_found(line: str) -> None:
    assert readings(line) == [1]


@pytest.mark.parametrize(
    "line", ["if why: pass", "held.append(why)", 'text.split(",")', "why == other.why", 'why == ""']
)
def test_what_hands_on_is_let_be(line: str) -> None:
    assert readings(line) == []


@pytest.mark.parametrize(
    "line",
    [
        'assert "is not free" in held.reason',
        'assert [h.reason for h in held] == ["n1 is drained"]',
        'assert str(held.why).endswith("is being drained")',
        'assert any(f"{name} is not free" in h.reason for h in held)',
        'assert str(event) == "it is back"',
        "return [one.reason for one in decision.held]",
        "assert any(why in one.reason for one in decision.held)",
    ],
)
def test_a_wording_is_found(line: str) -> None:
    assert wordings(line) == [1]


@pytest.mark.parametrize(
    "line",
    [
        "assert held.why.kind is Kind.OFFLINE",
        'assert intent.reason == "balance:default:1"',
        "assert jobs == [job.reason for job in rig.jobs]",
        'assert details(held, Kind.STORM)["why"] == "3 of 6 nodes are unhealthy"',
    ],
)
def test_what_compares_values_is_let_be(line: str) -> None:
    assert wordings(line) == []
