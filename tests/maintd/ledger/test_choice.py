"""Which ledger a maintd begins with, and what a running one makes of the rule: each row."""

import pytest

from nodeagent.maintd.ledger.choice import Choice, Finding, choose, finding
from nodeagent.model.keeping import Kept, Trouble

ME, OTHER = "uuid-1", "uuid-2"
Rule = Kept | Trouble | None


def rule(number: int, writer: str) -> Kept:
    return Kept(number, 100, writer)


@pytest.mark.parametrize(
    ("there", "file", "wanted"),
    [
        (None, 0, Choice.NOTHING),
        (None, 9, Choice.FILE_ALONE),
        (rule(9, OTHER), 0, Choice.RULE),
        (rule(9, OTHER), 8, Choice.RULE),
        (rule(9, OTHER), 9, Choice.RULE),
        (rule(9, OTHER), 99, Choice.RULE),  # ours went on alone, as an old master
        (rule(9, ME), 0, Choice.RULE),  # our disk is lost
        (rule(9, ME), 8, Choice.RULE),  # it was put back
        (rule(9, ME), 9, Choice.FILE),
        (rule(9, ME), 10, Choice.FILE),  # killed before it was handed over
        (Trouble.NEWER, 0, Choice.NEWER),
        (Trouble.NEWER, 9, Choice.NEWER),
        (Trouble.UNREADABLE, 0, Choice.UNREADABLE),
        (Trouble.UNREADABLE, 9, Choice.UNREADABLE),
    ],
)
def test_at_a_start(there: Rule, file: int, wanted: Choice) -> None:
    assert choose(there, file, ME) is wanted


@pytest.mark.parametrize(
    ("there", "file", "wanted"),
    [
        (rule(9, OTHER), 10, Choice.FILE),  # taken over, and not handed over yet
        (Trouble.UNREADABLE, 9, Choice.FILE),  # a person has decided so
        (Trouble.NEWER, 9, Choice.NEWER),
        (rule(9, OTHER), 0, Choice.RULE),
    ],
)
def test_at_a_start_with_a_rule_that_the_file_counts_instead_of(
    there: Rule, file: int, wanted: Choice
) -> None:
    assert choose(there, file, ME, taken=True) is wanted


@pytest.mark.parametrize(
    ("there", "wanted"),
    [
        (None, Finding.REMOVED),
        (Trouble.UNREADABLE, Finding.CHANGED),
        (Trouble.NEWER, Finding.ANOTHER_ACTS),
        (rule(8, ME), Finding.CHANGED),  # an older one of ours
        (rule(9, ME), Finding.CHANGED),  # edited
        (rule(99, ME), Finding.CHANGED),
        (rule(8, OTHER), Finding.CHANGED),  # from before we took over
        (rule(9, OTHER), Finding.ANOTHER_ACTS),
        (rule(10, OTHER), Finding.ANOTHER_ACTS),
    ],
)
def test_beside_a_running_one(there: Rule, wanted: Finding) -> None:
    assert finding(there, 9, ME) is wanted
