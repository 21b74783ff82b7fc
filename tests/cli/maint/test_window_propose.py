"""gnt-maint window propose, with a whole coordinator at a real socket."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from nodeagent.cli import gnt_maint
from nodeagent.cli.maint import window_propose as verb
from nodeagent.cli.maint.console import cluster_source
from nodeagent.cli.maint.console.client import Where
from tests.cli.live import Live
from tests.cli.maint.here import Here
from tests.cli.run import at
from tests.maintd.rig import Rig, fleet, mirrored

AHEAD = "2026-11-25T04:00Z"  # the rig's clock is at 2026-11-18
RING = (("n2", "n3"), ("n3", "n4"), ("n4", "n5"), ("n5", "n6"), ("n6", "n2"))
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def live(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Live]:
    rig = Rig(fleet(), mirrored(*RING))
    monkeypatch.setattr(cluster_source, "ganeti", lambda path: Here(rig.cluster))
    opened = Live(rig, tmp_path)
    yield opened
    opened.close()


@pytest.fixture
def run(live: Live) -> Run:
    """A verb of `window`: how it ends, and what it prints."""

    def verb(*words: str) -> tuple[int, str, str]:
        done = at(live, "window", *words)
        return done.code, done.out, done.err

    return verb


def proposed(run: Run, *words: str) -> Any:
    code, out, _ = run("propose", "--start", AHEAD, "--for", "2h", "--json", *words)
    assert code == 0
    return json.loads(out)


def machines(schedule: Any) -> list[list[str]]:
    return [[one["hostname"] for one in row["machine_ids"]] for row in schedule["windows"]]


def calendar(run: Run) -> Any:
    return json.loads(run("list", "--json")[1])


def test_what_is_printed_can_be_posted_as_it_is(live: Live, run: Run) -> None:
    run(
        "add",
        "n6",
        "rack-switch",
        "--start",
        "2026-12-25T04:00Z",
        "--duration",
        "1h",
        "--not-a-node",
    )
    before = calendar(run)["schedule"]["windows"]
    schedule = proposed(run, "--gap", "1h", "n2", "n3", "n4")
    assert schedule["windows"][:1] == before, "what there is stays as it is"
    new = schedule["windows"][1:]
    assert sorted(name for row in machines({"windows": new}) for name in row) == ["n2", "n3", "n4"]
    first = datetime.fromisoformat(AHEAD).timestamp()
    for number, row in enumerate(new):
        assert row["unavailability"] == {
            "start": {"nanoseconds": round((first + number * 3 * 3600) * 10**9)},
            "duration": {"nanoseconds": 2 * 3600 * 10**9},
        }
    Where(socket=live.socket).reach().put("/maintenance/schedule", schedule)
    assert calendar(run)["schedule"] == schedule


def test_somebody_else_plans_meanwhile(
    live: Live, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is planned anew around what there is now, and nobody's window is lost."""
    looked, first = verb._remembered, [True]

    def late(*words: Any) -> Any:
        found = looked(*words)
        if first.pop() if first else False:
            done = CliRunner().invoke(
                gnt_maint.cli,
                ["--socket", live.socket, "window", "add", "n3", "--start", AHEAD],
            )
            assert done.exit_code == 0
        return found

    monkeypatch.setattr(verb, "_remembered", late)
    code, out, _ = run("propose", "n3", "n4", "--start", AHEAD, "--for", "1h", "--add")
    assert code == 0
    assert "n3    is in a maintenance window already" in out
    assert machines(calendar(run)["schedule"]) == [["n3"], ["n4"]]


def test_another_cluster_s_maintd_is_not_asked(
    live: Live, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = replace(live.rig.cluster.snapshot(), cluster="other.example")

    class Other(Here):
        def snapshot(self) -> Any:
            return other

    monkeypatch.setattr(cluster_source, "ganeti", lambda path: Other(live.rig.cluster))
    code, _, err = run("propose", "--start", AHEAD, "--for", "1h", "--add")
    assert code == 1
    assert "but this is cluster other.example" in err


@pytest.mark.parametrize("add", [(), ("--add",)])
def test_what_cannot_be_in_time_is_refused_unless_somebody_insists(
    live: Live, run: Run, add: tuple[str, ...]
) -> None:
    asked = ("propose", "--start", AHEAD, "--for", "2h", "--gap", "20s", *add)
    code, out, err = run(*asked)
    assert (code != 0, out) == (True, "")
    assert "cannot be evacuated in time: that takes 15 min, and 0 min are between it" in err
    assert "insist with --late" in err
    assert calendar(run)["windows"] == []
    code, out, _ = run(*asked, "--late")
    assert code == 0
    assert "cannot be evacuated in time" in out
    assert bool(calendar(run)["windows"]) == bool(add)
