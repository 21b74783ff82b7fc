"""Progress off a terminal: a line for all that is new, and none for a countdown."""

import pytest

from nodeagent.cli.maint.console.screen import progress


@pytest.mark.parametrize(
    ("told", "lines"),
    [
        ([("a", None), ("a", None), ("b", None)], ["a", "b"]),
        ([("3 s left", "try-again"), ("2 s left", "try-again")], ["3 s left"]),
        ([("3 s left", "try-again"), ("it runs", None)], ["3 s left", "it runs"]),
    ],
)
def test_a_line_is_news(
    told: list[tuple[str, str | None]], lines: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with progress() as on:
        for text, news in told:
            on.tell(text, news)
    assert capsys.readouterr().err.splitlines() == lines


def test_nothing_is_told_to_who_is_to_hear_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with progress(quiet=True) as on:
        on.tell("a")
    assert capsys.readouterr().err == ""
