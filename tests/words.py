"""Plain English, as far as a program can see: `make check` runs this, and a test holds each rule.

A docstring's first line has a noun of the glossary as its subject, or an imperative verb. So has
a text of `--help`. The subject of a commit is `area: imperative`, at most 72 characters. Prose and
tables of Markdown are at most 100 wide; code is not counted.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import click

from nodeagent.cli import gnt_maint, maintd, nodeagent, oob
from tests.verbs import verbs_of

TOP = Path(__file__).parent.parent
FIRST = re.compile(r"(What|Who|Whoever|Whose|Of|That)\b")
UNCLEAR = re.compile(FIRST.pattern.replace("That", "That|As|So|For|From|Not|Nobody"))
SENTENCE = re.compile(
    r"(?:(?<=[.!?:;] )|(?<=[.!?:]\n)|(?<=\n\n)|(?<=\| )|(?<=\*\*)|(?<=- ))"
    rf"{FIRST.pattern}[^.?|]*[.?|]?"
)
SUBJECT = re.compile(r"[a-z][\w, -]*: (?!(?:what|who|whoever|that|of|nothing|nobody)\b)\S")
COMMANDS = {
    "gnt-maint": gnt_maint.cli,
    "maintd": maintd.cli,
    "nodeagent": nodeagent.cli,
    "nodeagent-oob": oob.cli,
}
OLD = re.compile(  # of docs/glossary.md: words that say another one's meaning
    r"\b(under way|sick|begun|empti(?:ed|es)|emptying|wish(?:es|ed)?|worked off|lets? go of|"
    r"whoever|(?<!there )(?:is|are|be) none|nobody has|not known|forgotten|acknowledged?|noted|"
    r"mirrors?|mirrored|silent|told|promis(?:e[sd]?|ing)|look(?:s|ed) at|(?:a|the|each|last) look|"
    r"no word|(?:is|are|be) held|(?<!there )is no (?!longer|more|such)|anew)\b",
    re.IGNORECASE,
)
TEXTS = (
    "docs/*.md",
    "*.md",
    "docs/man/*",
    "nodeagent/**/templates/*.html",
    "packaging/alerts/*",
    "packaging/dashboards/*",
)
THEIRS = ("cli/maint/harep_run.py", "placement/allocate/iallocator.py")  # words of harep and hail
NO_PROSE = re.compile(  # SQL, GraphQL, lines of the log, and what an epoch's promise is called
    r"^(?:CREATE|DELETE|INSERT|SELECT|UPDATE|query) .*|^[a-z]+(?:-[a-z]+)* \w+=.*|\w+\.\w+"
    r"|promised epoch",
    re.DOTALL,
)
KEPT = ("docs/glossary.md", "CHANGELOG.md")
FIGURES = ("docs/measured.md", "docs/repair-queue-year.md")  # their tables are wide
REMARK = re.compile(r" {4}(?:gnt-[a-z]+|maintd|nodeagent[a-z-]*)(?: [^\s#]+)+ {2,}[a-zA-Z`]")
LONGEST = 72
WIDTH = 100
SINCE = "d35368aa003e31aefd796427bf48932b33e70b9c"  # subjects before this rule are as they are


@lru_cache(maxsize=1)
def nodes_of(source: str) -> list[ast.AST]:
    """All nodes of the source that is looked at: the walk costs more than what is asked of them."""
    return list(ast.walk(ast.parse(source)))


def docstrings(path: Path) -> Iterator[tuple[int, str]]:
    """Each docstring of a file with its line."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in nodes_of(path.read_text()):
        if isinstance(node, kinds) and (text := ast.get_docstring(node)):
            yield node.body[0].lineno, text


def wrong_docstrings(path: Path) -> list[str]:
    """Complaints about first words of docstrings."""
    return [
        f"{path.relative_to(TOP)}:{line}: a docstring begins with {found[1]}: say who does what"
        for line, text in docstrings(path)
        if (found := FIRST.match(text))
    ]


def helps(name: str, command: click.Command) -> Iterator[tuple[str, str]]:
    """Each text of `--help`, of a command and all below it, with the name of what it explains."""
    yield name, command.help or ""
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            yield f"{name} {parameter.opts[0]}", parameter.help or ""
    for below, one in verbs_of(command).items():
        yield from helps(f"{name} {below}", one)


def wrong_help(name: str, command: click.Command) -> list[str]:
    """Complaints about first words of help."""
    return [
        f"{where} --help has {found[0]}: say who does what, in words of the glossary"
        for where, text in helps(name, command)
        if (found := UNCLEAR.match(text) or OLD.search(text))
    ]


def markdown() -> list[Path]:
    """The pages that people read."""
    return [*sorted((TOP / "docs").rglob("*.md")), *sorted(TOP.glob("*.md"))]


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """Each line of a page with its number, but for code, and tables of figures."""
    skipped = re.compile(r" {4,}|\s*\|" if str(path.relative_to(TOP)) in FIGURES else r" {4,}")
    fenced = False
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced and not skipped.match(line):
            yield number, line


def wide_lines(path: Path) -> list[str]:
    """Complaints about lines of prose, and rows of tables, that are too wide."""
    return [
        f"{path.relative_to(TOP)}:{number}: {len(line)} characters wide, more than {WIDTH}"
        for number, line in prose(path)
        if len(line) > WIDTH
    ]


def bare_remarks(path: Path) -> list[str]:
    """Complaints about remarks behind a command that would become its arguments if copied."""
    return [
        f"{path.relative_to(TOP)}:{number}: the remark behind the command must begin with #"
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if REMARK.match(line)
    ]


def _blank(found: re.Match[str]) -> str:
    return "\n" * found[0].count("\n")


def old_words(path: Path) -> list[str]:
    """Complaints about words that the glossary has replaced; code keeps its names."""
    text = path.read_text()
    if path.suffix == ".md":
        code = r"```.*?```|`[^`]*`|\]\([^)]*\)|^ {4,}[^\n]*"
        text = re.sub(code, _blank, text, flags=re.S | re.M)
    if path.suffix == ".html":
        text = re.sub(r"\{[{%].*?[}%]\}|=\"[^\"]*\"", "", text)
    if path.suffix == ".json":
        text = re.sub(r"\"(?:expr|legendFormat)\": .*", "", text)
    if path.suffix == ".yml":
        text = re.sub(r"expr: .*", "", text)
    return [
        f"{path.relative_to(TOP)}:{number}: {found[0]}: write the word of docs/glossary.md"
        for number, line in enumerate(text.splitlines(), 1)
        if (found := OLD.search(line))
    ]


def literals(path: Path) -> Iterator[tuple[int, str]]:
    """Each text of several words in a file of Python, but for docstrings, with its line."""
    nodes = nodes_of(path.read_text())
    apart = {node.value for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in apart:
            if " " in node.value.strip() or node.value.startswith(" "):
                yield node.lineno, node.value


def old_literals(path: Path) -> list[str]:
    """Complaints about words that the glossary has replaced, in what the program says."""
    return [
        f"{path.relative_to(TOP)}:{line}: {found[0]}: write the word of docs/glossary.md"
        for line, text in literals(path)
        if (found := OLD.search(NO_PROSE.sub("", text)))
    ]


def unclear_sentences(path: Path) -> list[str]:
    """Complaints about first words of sentences in a page or a manual; questions have them."""
    apart = r"```.*?```|^ {4,}[^\n]*|^#[^\n]*|^\.[A-Z]+[^\n]*"
    text = re.sub(apart, _blank, path.read_text(), flags=re.S | re.M)
    return [
        f"{path.relative_to(TOP)}:{text[: found.start()].count(chr(10)) + 1}: a sentence begins"
        f" with {found[1]}: say who does what"
        for found in SENTENCE.finditer(text)
        if not found[0].endswith("?")
    ]


def texts() -> Iterator[Path]:
    """The files whose words people read."""
    for pattern in TEXTS:
        yield from (p for p in sorted(TOP.glob(pattern)) if str(p.relative_to(TOP)) not in KEPT)


def wrong_subject(subject: str) -> str:
    """A complaint about a commit's subject, or nothing."""
    if len(subject) > LONGEST:
        return f"{len(subject)} characters, more than {LONGEST}: {subject}"
    return "" if SUBJECT.match(subject) else f"is not `area: imperative`: {subject}"


def _git(*words: str) -> list[str] | None:
    """Lines that git prints; None where it fails, or is not here."""
    command = ["git", "-C", str(TOP), *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.splitlines() if done.returncode == 0 else None


def subjects() -> list[str]:
    """Subjects of the commits since the rule; none where that history is not here."""
    if _git("merge-base", "--is-ancestor", SINCE, "HEAD") is None:
        return []  # an archive, a shallow clone, or another history
    return _git("log", "--no-merges", "--format=%s", f"{SINCE}..HEAD") or []


def complaints() -> list[str]:
    """All that is wrong in the sources and in the history."""
    files = sorted((TOP / "nodeagent").rglob("*.py"))
    found = []
    for path in files:
        found += wrong_docstrings(path)
        found += [] if str(path).endswith(THEIRS) else old_literals(path)
    found += [wrong for name, one in COMMANDS.items() for wrong in wrong_help(name, one)]
    found += [complaint for path in texts() for complaint in old_words(path)]
    pages = [path for path in texts() if path.suffix in (".md", ".5", ".8")]
    found += [complaint for path in pages for complaint in unclear_sentences(path)]
    found += [complaint for path in markdown() for complaint in wide_lines(path)]
    found += [complaint for path in markdown() for complaint in bare_remarks(path)]
    return found + [f"commit: {why}" for subject in subjects() if (why := wrong_subject(subject))]


if __name__ == "__main__":
    if sys.argv[1:2] == ["--subject"]:  # of the commit whose message is in this file
        subject, *_ = Path(sys.argv[2]).read_text().splitlines() or [""]
        sys.exit(wrong_subject(subject) or None)
    found = complaints()
    print("\n".join(found) or "words: all is well")
    sys.exit(bool(found))
