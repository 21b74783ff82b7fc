"""Work beside the rounds: one at a time, and a round goes on where no thread can begin."""

from collections.abc import Callable

import pytest

from nodeagent.background import Background


def test_one_work_at_a_time() -> None:
    works: list[Callable[[], None]] = []
    background = Background("test", works.append)
    assert background.begin(lambda: None) == ""
    assert background.busy
    works[0]()
    assert not background.busy


def test_work_that_fails_is_over() -> None:
    works: list[Callable[[], None]] = []
    background = Background("test", works.append)
    background.begin(lambda: 1 / 0)  # type: ignore[arg-type]
    with pytest.raises(ZeroDivisionError):
        works[0]()
    assert not background.busy


def test_without_a_thread_it_says_why_and_is_tried_again() -> None:
    def full(_: Callable[[], None]) -> None:
        raise RuntimeError("can't start new thread")

    background = Background("test", full)
    assert background.begin(lambda: None) == "can't start new thread"
    assert not background.busy
