"""gnt-maint window wait: what a script needs that reboots nodes in their windows."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.live import Live
from tests.cli.run import at
from tests.maintd.rig import Rig, fleet, mirrored

NOW, AHEAD = "2026-11-18T11:10Z", "2026-11-25T04:00Z"


@pytest.fixture
def live(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Live]:
    """A coordinator; while a command sleeps, time passes and rounds are held."""
    opened = Live(Rig(fleet(), mirrored(("n3", "n4"))), tmp_path)
    monkeypatch.setattr(time, "sleep", lambda _: opened.tick(60))
    yield opened
    opened.close()


def run(live: Live, *words: str) -> tuple[int, str]:
    """The exit code, and the last line that it prints, or else its refusal."""
    done = at(live, "window", *words)
    return done.code, (done.out or done.err).splitlines()[-1]


def test_a_script_brings_a_node_down_and_up(live: Live) -> None:
    """Each step waits until the next may be done."""
    assert run(live, "add", "n3", "--start", NOW, "--duration", "2h")[0] == 0
    code, out = run(live, "wait", "n3", "--for", "start")
    assert (code, out) == (0, "n3: its window has started.")
    assert run(live, "down", "n3")[0] == 0
    assert not live.rig.cluster.nodes["n3"].offline
    code, out = run(live, "wait", "n3")
    assert (code, out) == (0, "n3: evacuated and offline: the maintenance can begin.")
    assert live.rig.cluster.nodes["n3"].offline
    assert all(i.primary != "n3" for i in live.rig.cluster.instances.values())
    assert run(live, "up", "n3")[0] == 0
    code, out = run(live, "wait", "n3", "--for", "up")
    assert (code, out) == (0, "n3: back in service.")
    assert live.rig.cluster.nodes["n3"].in_service
    assert run(live, "wait", "n3", "--for", "up")[0] == 0, "it still is"


def test_who_waits_for_what_nobody_asked_for_is_told_the_command(live: Live) -> None:
    run(live, "add", "n3", "--start", AHEAD, "--duration", "2h")
    for wanted, why in (
        ("start", "its window has not started"),
        ("down", "run gnt-maint window down n3"),
        ("up", "run gnt-maint window up n3"),
    ):
        code, out = run(live, "wait", "n3", "--for", wanted, "--timeout", "0s")
        assert (code, out) == (4, f"n3 is not there after 0 s: {why}."), wanted


def test_json_is_the_machine(live: Live) -> None:
    run(live, "add", "n3", "--start", AHEAD)
    done = at(live, "window", "wait", "n3", "--timeout", "0s", "--json")
    one = json.loads(done.out)
    assert (done.code, one["mode"], one["state"], one["left"]) == (4, "draining", "in service", 1)


def test_a_window_that_is_canceled_ends_the_wait(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(live, "add", "n3", "--start", AHEAD)
    happens: list[Callable[[], object]] = [lambda: run(live, "cancel", "n3")]

    def sleep(_: float) -> None:
        if happens:
            happens.pop()()
        live.tick(60)

    monkeypatch.setattr(time, "sleep", sleep)
    code, out = run(live, "wait", "n3")
    assert (code, out) == (3, "n3 is in no window any longer.")


def test_it_waits_for_the_end_of_one_window_whatever_else_is_planned(live: Live) -> None:
    run(live, "add", "n3", "--start", NOW, "--duration", "2h")
    run(live, "add", "n3", "--start", AHEAD)
    assert run(live, "wait", "n3", "--for", "start")[0] == 0
    run(live, "down", "n3")
    assert run(live, "wait", "n3")[0] == 0
    run(live, "up", "n3")
    assert run(live, "wait", "n3", "--at", NOW, "--for", "start")[0] == 1, "it is over"
    code, out = run(live, "wait", "n3", "--at", AHEAD, "--for", "up", "--timeout", "0s")
    assert (code, out) == (4, "n3 is not there after 0 s: run gnt-maint window up n3.")
