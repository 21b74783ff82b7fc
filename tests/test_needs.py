"""Absence is asked for in one place: skipped by name at a desk, a failure where NEEDS wants it."""

import re
from pathlib import Path

import pytest

from tests import needs

HERE = Path(__file__).parent
ABSENT = needs.Need(lambda: False, "a thing: apt-get install thing")
CHOSEN = needs.Need(lambda: False, "another user", by_all=False)
# A skip for what was chosen, not for what is absent.
OTHERS = {"maintd/lives/test_coordinator.py"}


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(needs, "ALL", {**needs.ALL, "thing": ABSENT, "chosen": CHOSEN})
    monkeypatch.delenv("NEEDS", raising=False)


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize(
    ("wanted", "name", "fails"),
    [
        (None, "thing", False),
        ("", "thing", False),
        ("hail", "thing", False),
        ("thing", "thing", True),
        ("hail thing", "thing", True),
        ("hail,thing", "thing", True),
        ("all", "thing", True),
        ("all", "chosen", False),
        ("all chosen", "chosen", True),
    ],
)
def test_absence_fails_only_where_it_is_wanted(
    wanted: str | None, name: str, fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if wanted is not None:
        monkeypatch.setenv("NEEDS", wanted)
    for ask in (needs.require, needs.lacking):
        with pytest.raises(pytest.fail.Exception if fails else pytest.skip.Exception) as ended:
            ask(name)
        assert str(ended.value.msg).startswith(f"needs {needs.ALL[name].name}")


def test_a_word_that_is_no_need_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEEDS", "hail, ginpnkg")
    with pytest.raises(pytest.UsageError, match=r"NEEDS=.*ginpnkg is not one of all, root, git, "):
        needs.check()


def test_no_other_module_asks_for_what_may_be_absent() -> None:
    form = re.compile(r"\bskipif\b|pytest\.skip\(|importorskip|shutil\.which\(")
    texts = {str(path.relative_to(HERE)): path.read_text() for path in HERE.rglob("*.py")}
    found = {path for path, text in texts.items() if form.search(text)}
    assert found - {"needs.py", "test_needs.py"} == OTHERS


def test_each_need_is_one_of_some_test() -> None:
    text = "".join(path.read_text() for path in HERE.rglob("*.py") if path.name != "needs.py")
    named = {*re.findall(r'"([a-z0-9/_-]+)"', text), *needs.POWER_TOOLS}
    assert needs.ALL.keys() - named == set()
