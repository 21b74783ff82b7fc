"""gnt-maint window propose, with a whole coordinator at a real socket."""

import json
from collections.abc import Callable, Iterator
from contextlib import nullcontext
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


def test_a_table_for_people_and_nothing_is_changed(live: Live, run: Run) -> None:
    code, out, _ = run("propose", "--start", AHEAD, "--for", "2h", "--gap", "1h")
    assert code == 0
    head, *rows = out.splitlines()
    assert head.split() == ["FROM", "UNTIL", "NODES"]
    told = [row.split("  ")[-1] for row in rows if row.startswith("2026-")]
    assert sorted(", ".join(told).split(", ")) == ["n1", "n2", "n3", "n4", "n5", "n6"]
    assert "n1 is the master node, and comes last: run gnt-cluster master-failover" in out
    assert out.endswith("Nothing is planned yet: --add does, --json to post it.\n")
    assert calendar(run)["windows"] == []


def test_it_is_shown_how_far_it_is(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []

    class Told:
        def tell(self, text: str, news: object = None) -> None:
            told.append(text)

    monkeypatch.setattr(verb, "progress", lambda **_: nullcontext(Told()))
    proposed(run, "--at-most", "3", "n2", "n3", "n4")
    assert told[0] == "asking Ganeti and all nodes"
    assert told[1] == "finding nodes that can be evacuated together: 0 of 3"
    assert told[-1].startswith("finding nodes that can be evacuated together: ")
    assert len(told) > 2


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


def test_no_instance_has_both_its_nodes_in_one_window(live: Live, run: Run) -> None:
    together = machines(proposed(run))
    assert not any({*pair} <= {*some} for some in together for pair in RING)


def test_maintd_plans_them_and_empties_the_first_nodes_in_time(live: Live, run: Run) -> None:
    code, out, _ = run("propose", "-G", "default", "--start", AHEAD, "--for", "2h", "--add")
    assert (code, out.splitlines()[-1]) == (0, "Planned.")
    first = calendar(run)["windows"][0]
    live.tick(first["start"] - live.rig.time - 60)
    live.tick(10, times=6)
    for one in first["machines"]:
        node = live.rig.cluster.nodes[one["node"]]
        assert node.drained
        held = live.rig.cluster.snapshot().instances.values()
        assert not any(node.name in (i.primary, i.secondary) for i in held)
    code, out, err = run("propose", "--start", AHEAD, "--for", "2h", "--add")
    assert code == 1
    assert out.count("is in a maintenance window already") == 6
    assert "there is no window to propose" in err


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


def test_what_is_left_out_goes_to_standard_error(live: Live, run: Run) -> None:
    live.rig.cluster.put(replace(live.rig.cluster.nodes["n5"], offline=True))
    live.tick()
    code, out, err = run("propose", "n5", "n1", "--start", AHEAD, "--for", "1h", "--json")
    assert code == 0
    assert machines(json.loads(out)) == [["n1"]]
    assert "gnt-maint: n5 is offline\n" in err


@pytest.mark.parametrize(
    ("words", "code", "why"),
    [
        (("n9", "--start", AHEAD, "--for", "1h"), 1, "NODE: there is no node n9"),
        (("-G", "attic", "--start", AHEAD, "--for", "1h"), 1, "there is no group attic"),
        (("--node-tags", "x", "--start", AHEAD, "--for", "1h"), 1, "to propose: no node is all"),
        (("--start", "2026-11-01", "--for", "1h", "--add"), 1, "is over already"),
        (("--for", "1h"), 64, "Missing option '--start'"),
        (("--start", AHEAD), 64, "Missing option '--duration' / '--for'"),
        (("--start", AHEAD, "--for", "0s"), 64, "--for 0 leaves no time"),
        (("--start", "soon", "--for", "1h"), 64, "'soon' is not a time"),
    ],
)
def test_what_cannot_be_is_told(run: Run, words: tuple[str, ...], code: int, why: str) -> None:
    ended, _, err = run("propose", *words)
    assert ended == code
    assert why in err


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


def test_a_dry_run_shows_the_windows_and_adds_none(live: Live, run: Run) -> None:
    words = ("propose", "--start", AHEAD, "--for", "2h", "--add", "--dry-run")
    code, out, _ = run(*words)
    assert code == 0
    assert out.startswith("FROM")
    assert "\nmaintd would accept: plan maintenance of " in out
    assert " and 1 more.\n" in out, "six machines, of which five are named"
    code, out, _ = run(*words, "--json")
    assert (code, json.loads(out)["dry-run"]) == (0, True)
    assert calendar(run)["windows"] == []
