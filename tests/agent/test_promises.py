"""One candidate has a node's voice about one dead master for an hour, whatever happens."""

import json
from pathlib import Path

import pytest

from nodeagent.agent.promises import FILE, LASTS, Promises
from nodeagent.model.clock import Moment
from nodeagent.model.units import Ms


class Clock:
    wall, steady, boot = 1_700_000_000_000, 5_000_000, "boot"

    def __call__(self) -> Moment:
        return Moment(Ms(self.wall), Ms(self.steady), self.boot, "")

    def passes(self, ms: int) -> None:
        self.wall, self.steady = self.wall + ms, self.steady + ms


@pytest.mark.parametrize(
    ("target", "candidate", "passed", "step", "given"),
    [
        pytest.param("n1", "b", 0, 0, True, id="the same once more"),
        pytest.param("n1", "c", 0, 0, False, id="another candidate"),
        pytest.param("n2", "b", 0, 0, False, id="another master"),
        pytest.param("n1", "c", LASTS - 1, 0, False, id="within the hour"),
        pytest.param("n1", "c", LASTS, 0, True, id="after the hour"),
        pytest.param("n1", "c", 0, -2 * LASTS, False, id="the clock was set back"),
        pytest.param("n1", "c", 0, 2 * LASTS, False, id="the clock was put forward"),
        pytest.param("n1", "c", LASTS, -LASTS, True, id="after the hour, and set back"),
    ],
)
def test_promises(
    tmp_path: Path, target: str, candidate: str, passed: int, step: int, *, given: bool
) -> None:
    clock = Clock()
    assert Promises(str(tmp_path), clock).give("n1", "b") == ""
    clock.passes(passed)
    clock.wall += step
    why = Promises(str(tmp_path), clock).give(target, candidate)
    assert why == ("" if given else "b has this node's voice about n1 for an hour")


@pytest.mark.parametrize(("passed", "given"), [(LASTS - 1, False), (LASTS, True)])
@pytest.mark.parametrize("earlier", [False, True])
def test_after_a_restart_of_the_machine_the_wall_clock_counts(
    tmp_path: Path, passed: int, *, given: bool, earlier: bool
) -> None:
    clock = Clock()
    assert Promises(str(tmp_path), clock).give("n1", "b") == ""
    if earlier:  # as a release wrote it that knew only the wall clock
        text = json.dumps({"target": "n1", "candidate": "b", "at": clock.wall})
        (tmp_path / FILE).write_text(text)
    clock.wall, clock.steady, clock.boot = clock.wall + passed, 60_000, "next"
    assert (Promises(str(tmp_path), clock).give("n1", "c") == "") is given


def test_each_promise_begins_the_hour_anew(tmp_path: Path) -> None:
    clock = Clock()
    one = Promises(str(tmp_path), clock)
    assert one.give("n1", "b") == ""
    clock.passes(LASTS - 1)
    assert one.give("n1", "b") == ""
    clock.passes(LASTS - 1)
    assert one.give("n1", "c") != ""


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"target":"n1"}', "[" * 4000, "\0"])
def test_an_unread_promise_is_never_given_again(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text)
    assert "cannot be read" in Promises(str(tmp_path), Clock()).give("n1", "b")


def test_a_promise_that_cannot_be_kept_is_not_given(tmp_path: Path) -> None:
    path = tmp_path / "none" / FILE
    said = Promises(str(path.parent), Clock()).give("n1", "b")
    assert said == f"its voice cannot be kept: {path}: No such file or directory"
