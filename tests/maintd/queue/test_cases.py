"""docs/repair-queue-cases.md: each of CKE's own cases, with the test that shows ours."""

import re
from collections import Counter
from pathlib import Path

from tests import needs

ROOT = Path(__file__).parents[3]
FACTS = needs.SHARED / "facts/mesos-cke.md"


def cases(facts: str) -> tuple[list[str], list[str]]:
    """The cases of CKE's unit tests, and the numbers of its trials."""
    four = facts[facts.index("\n# 4. ") : facts.index("\n# 5. ")]
    units, _, trials = four.partition("mtest/repair_test.go")
    found: list[str] = []
    for paragraph in units.split("\n\n")[1:]:
        lines = [line[2:] for line in paragraph.splitlines() if line.startswith("- ")]
        head = re.compile(r"^(\w+_test\.go\S*|metrics)( \([^)]*\))?: ")
        for line in lines or [head.sub("", line) for line in paragraph.splitlines()]:
            parts = re.split(r"(?<!incl)[.;](?=\s|$)(?![^(]*\))", line)
            found += [part.strip() for part in parts if re.match(r"\s*[^\s(]|\s*\(unreach", part)]
    return found, re.findall(r"(?:^|[ \n])(\d+)\. ", trials)


def page() -> str:
    return (ROOT / "docs/repair-queue-cases.md").read_text()


@needs.mark("shared/facts")
def test_every_part_and_every_case_of_ckes_has_its_item() -> None:
    facts = FACTS.read_text()
    items = re.findall(r"^- \*\*(.*?)\*\*", page(), re.M | re.S)
    told = Counter(" ".join(item.split()) for item in items)
    assert set(re.findall(r"^## (3\.\d+) ", facts, re.M)) <= told.keys()
    units, trials = cases(facts)
    assert (len(units), len(trials)) == (90, 18)
    assert Counter(units) - told == Counter()
    assert {f"mtest {number}" for number in trials} <= told.keys()


def test_every_test_that_the_page_names_is_there() -> None:
    there = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    named = re.findall(r"`(test_\w+)`", page())
    assert len(named) > 150
    assert [name for name in named if f"def {name}(" not in there] == []
