"""gnt-maint constraints, at the real socket of a whole coordinator."""

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest
from click.testing import CliRunner

from nodeagent.cli import gnt_maint
from nodeagent.model.constraints import Constraints
from nodeagent.model.units import Seconds
from tests.agent.place import safe_folder
from tests.cli.live import Live
from tests.cli.maint.test_queue import ask
from tests.maintd.queue.test_entries import Mender, policy

IN_FILE = Constraints(wait_seconds_to_repair_rebooting=Seconds(300))


@pytest.fixture
def live() -> Iterator[Live]:
    with safe_folder() as folder:
        found = Live(Mender(replace(policy(), constraints=IN_FILE)), folder)
        yield found
        found.close()


def run(live: Live, *words: str, code: int = 0) -> str:
    line = ["--socket", live.socket, "constraints", *words]
    done = CliRunner().invoke(gnt_maint.cli, line, standalone_mode=False)
    if code:
        assert done.exception is not None
        return str(getattr(done.exception, "message", done.exception))
    assert (done.exception, done.return_value or 0) == (None, 0)
    return done.output


def shown(live: Live) -> dict[str, int]:
    return dict(json.loads(run(live, "show", "--json")))


def test_what_is_in_the_settings_until_something_is_set(live: Live) -> None:
    assert shown(live) == IN_FILE.named()
    assert run(live, "set", "maximum-repair-queue-entries", "5") == (
        "maximum-repair-queue-entries is 5.\n"
    )
    run(live, "set", "wait-seconds-to-repair-rebooting", "0")
    assert shown(live) == IN_FILE.named() | {
        "maximum-repair-queue-entries": 5,
        "wait-seconds-to-repair-rebooting": 0,
    }
    lines = run(live, "show").splitlines()
    (line,) = (line for line in lines if "maximum-repair-queue-entries" in line)
    assert line.split()[-2:] == ["5", "set"]


def test_what_was_set_outlives_the_daemon(live: Live) -> None:
    run(live, "set", "cool-down-seconds", "600")
    assert live.rig.store.load().queue.overrides == {"cool-down-seconds": 600}


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("maximum-repair-queue-entries", "-1", "must be a whole number, and not negative"),
        ("maximum-repair-queue-entries", "1.5", "must be a whole number"),
        ("maximum-repair-queue-entries", "many", "maximum-repair-queue-entries is "),
        ("maximum-repair-queue-entries", "9" * 16, "of 15 digits at most"),
        ("maximum-repair-queue-entries", "10000000000", "from 0 to 1000000000"),
        ("partial-admission", "2", "from 0 to 1"),
        ("control-plane-count", "1", "there is no constraint 'control-plane-count'; there are"),
    ],
)
def test_what_is_no_constraint_is_refused(live: Live, name: str, value: str, why: str) -> None:
    assert why in run(live, "set", name, value, code=1)
    status, text = ask(live, "POST", "/1/constraints", {"name": name, "value": value})
    assert (status, why in text) == (400, True)
    assert shown(live) == IN_FILE.named()


def test_a_change_is_told(live: Live) -> None:
    run(live, "set", "maximum-repair-queue-entries", "5")
    _, text = ask(live, "GET", "/1/history")
    assert "set the constraint maximum-repair-queue-entries to 5" in text
