"""The rules about words can fail; `make check` asks whether they hold."""

from pathlib import Path

import pytest

from tests import words


@pytest.fixture
def top(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the project."""
    monkeypatch.setattr(words, "TOP", tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "docstring", ["What it says.", "Whoever asks.", "Of two the first.", "That it is so."]
)
def test_a_docstring_begins_with_its_subject_or_a_verb(docstring: str, top: Path) -> None:
    (top / "wrong.py").write_text(f'def one() -> None:\n    """{docstring}"""\n')
    (complaint,) = words.wrong_docstrings(top / "wrong.py")
    assert complaint.startswith("wrong.py:2: a docstring begins with ")
    (top / "right.py").write_text('def one() -> None:\n    """Return one."""\n')
    assert words.wrong_docstrings(top / "right.py") == []


def test_old_words_are_found_but_not_in_code(top: Path) -> None:
    page, template = top / "page.md", top / "page.html"
    page.write_text("Jobs are under way.\n`noted`\n\n    sick\n```\nbegun\n```\nIt is forgotten.\n")
    template.write_text('<p class="sick">{{ noted }} Whoever\n')
    assert [one.split(": ")[:2] for one in words.old_words(page)] == [
        ["page.md:1", "under way"],
        ["page.md:8", "forgotten"],
    ]
    assert [one.split(": ")[:2] for one in words.old_words(template)] == [
        ["page.html:1", "Whoever"]
    ]


def test_old_words_are_found_in_what_the_program_says(top: Path) -> None:
    module = top / "module.py"
    module.write_text(
        '"""A docstring that was told."""\n'
        "said = f'{1} is no node'\n"
        "sql = 'SELECT text FROM wish WHERE id = ?'\n"
        "log = 'wish id=%s'\n"
        "key = 'mirrors'\n"
        "place = 'testimony.mirrors is not a list'\n"
    )
    assert [one.split(": ")[:2] for one in words.old_literals(module)] == [
        ["module.py:2", "is no "]
    ]


def test_a_sentence_begins_with_its_subject_or_a_verb(top: Path) -> None:
    page = top / "page.md"
    page.write_text(
        "# What\n\nWhat is it? It runs. Who asks\nwaits.\n\n    What code\n| That is. |\n"
    )
    found = [one.partition(": say")[0] for one in words.unclear_sentences(page)]
    assert found == [
        "page.md:3: a sentence begins with Who",
        "page.md:7: a sentence begins with That",
    ]


def test_a_remark_behind_a_command_cannot_become_its_arguments(top: Path) -> None:
    page = top / "page.md"
    page.write_text(
        "    gnt-maint plan   # next\n    gnt-maint plan   next\n    gnt-maint why a b\n"
    )
    assert [one.split(": ")[0] for one in words.bare_remarks(page)] == ["page.md:2"]


def test_the_glossary_s_words_are_used() -> None:
    rows = (words.TOP / "docs" / "glossary.md").read_text().partition("|---|")[2].splitlines()[1:]
    pages = [
        path.read_text().lower() for path in words.texts() if path.suffix in (".md", ".8", ".5")
    ]
    terms = [term for row in rows for term in row.split("|")[1].strip().lower().split(", ")]
    assert len(terms) >= 35
    assert [term for term in terms if not any(term in page for page in pages)] == []


@pytest.mark.parametrize(
    "subject",
    [
        "no area",
        "ci: what is over is not said to be interrupted",
        "tests: nobody waits for it",
        f"maintd: {'x' * 72}",
    ],
)
def test_a_subject_that_says_nothing_is_refused(subject: str) -> None:
    assert words.wrong_subject(subject)


@pytest.mark.parametrize(
    "subject",
    [
        "ci: do not report finished jobs as interrupted",
        "maintd, placement: move modules into their rooms",
    ],
)
def test_a_subject_in_the_imperative_is_taken(subject: str) -> None:
    assert words.wrong_subject(subject) == ""
