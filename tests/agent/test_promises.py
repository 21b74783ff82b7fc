"""One candidate has a node's voice about one dead master for an hour, whatever happens."""

from pathlib import Path

import pytest

from nodeagent.agent.promises import FILE, LASTS, Promises
from nodeagent.model.units import Ms


class Clock:
    now = 1_700_000_000_000

    def __call__(self) -> Ms:
        return Ms(self.now)


@pytest.mark.parametrize(
    ("target", "candidate", "passed", "given"),
    [
        pytest.param("n1", "b", 0, True, id="the same once more"),
        pytest.param("n1", "c", 0, False, id="another candidate"),
        pytest.param("n2", "b", 0, False, id="another master"),
        pytest.param("n1", "c", LASTS - 1, False, id="within the hour"),
        pytest.param("n1", "c", LASTS, True, id="after the hour"),
        pytest.param("n1", "c", 1 - LASTS, False, id="the clock was set back"),
    ],
)
def test_promises(tmp_path: Path, target: str, candidate: str, passed: int, *, given: bool) -> None:
    clock = Clock()
    assert Promises(str(tmp_path), clock).give("n1", "b") == ""
    clock.now += passed
    why = Promises(str(tmp_path), clock).give(target, candidate)
    assert why == ("" if given else "b has this node's voice about n1 for an hour")


def test_each_promise_begins_the_hour_anew(tmp_path: Path) -> None:
    clock = Clock()
    one = Promises(str(tmp_path), clock)
    assert one.give("n1", "b") == ""
    clock.now += LASTS - 1
    assert one.give("n1", "b") == ""
    clock.now += LASTS - 1
    assert one.give("n1", "c") != ""


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"target":"n1"}', "[" * 4000, "\0"])
def test_an_unread_promise_is_never_given_again(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text)
    assert "cannot be read" in Promises(str(tmp_path), Clock()).give("n1", "b")


def test_a_promise_that_cannot_be_kept_is_not_given(tmp_path: Path) -> None:
    assert "cannot keep it" in Promises(str(tmp_path / "none"), Clock()).give("n1", "b")
