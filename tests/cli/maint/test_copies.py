"""The copies of the ledger as gnt-maint shows them, against a whole coordinator at a socket."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from click.testing import CliRunner

from nodeagent.cli.gnt_maint import cli
from nodeagent.maintd.engine import memory
from nodeagent.model.wish import SetQueue, Wish
from nodeagent.web.exchange import Request, Response
from tests.cli.live import Live
from tests.maintd.copies.candidates import OLD, SILENT
from tests.maintd.lives.test_copies import B, C, Candidacy
from tests.patience import until


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_SPREADS", 0.4)
    monkeypatch.setattr("nodeagent.maintd.daemon._COPIED", 0.4)


@pytest.fixture
def rig() -> Candidacy:
    return Candidacy()


@pytest.fixture
def live(rig: Candidacy, tmp_path: Path) -> Iterator[Live]:
    opened = Live(rig, tmp_path)
    opened.api.context._clock = time.monotonic
    yield opened
    opened.close()


def run(live: Live, *words: str, code: int = 0) -> str:
    """What it prints, on either output."""
    done = CliRunner().invoke(cli, ["--socket", live.socket, *words])
    assert done.exit_code == code, (done.output, done.exception)
    return done.output


def document(live: Live, *words: str) -> Any:
    text = run(live, *words, "--json")
    return json.loads(text[text.index("{") : text.rindex("}") + 1])


def line(live: Live) -> str:
    """What `status` says of the copies."""
    live.seconds += 10
    text = run(live, "status")
    return next((" ".join(one.split()) for one in text.splitlines() if "Copies" in one), "")


def test_status_tells_how_many_have_the_newest_and_who_is_missing(
    rig: Candidacy, live: Live
) -> None:
    rig.at_node(C).trouble = SILENT
    live.tick(30)
    assert "kept on" not in run(live, "pause")
    until(lambda: rig.engine.memory.state.have >= 2)
    rig.time += 4
    assert line(live) == "Copies 2 of 3, 4 s old: without it n4 (timed out)"
    said = document(live, "status")["round"]["copies"]
    assert (said["epoch"], said["have"], said["of"], said["unsafe-since"]) == (1, 2, 3, None)
    assert [one["node"] for one in said["on"] if not one["newest"]] == [C]


def test_a_request_without_a_majority_is_said_to_be_kept_here_only(
    rig: Candidacy, live: Live
) -> None:
    live.tick()
    rig.at_node(B).trouble = rig.at_node(C).trouble = SILENT
    done = run(live, "pause", "--node", "n6")
    assert "Paused: node n6" in done
    assert (
        "gnt-maint: kept on this node only: 1 of 3 master candidates have it, and a new master"
        " would not know it\n"
    ) in done
    live.tick(60)
    assert "no majority for" in line(live)
    said = document(live, "resume", "--node", "n6")
    assert said["kept"].startswith("kept on this node only")
    drawn = "window", "add", "n5", "--start", "+3h", "--for", "1h"
    assert "kept on this node only" in run(live, *drawn)


def test_a_noted_request_is_not_acknowledged_by_one_disk(rig: Candidacy, live: Live) -> None:
    """Whoever got 503 asks for it later."""
    live.tick()
    rig.at_node(B).trouble = rig.at_node(C).trouble = SILENT
    noted = str(UUID(int=7))
    rig.store.wish(Wish(noted, "root", rig.now(), SetQueue(enabled=False)))
    live.tick()
    said = asked(live, f"/1/wishes/{noted}")
    assert said["granted"]
    assert said["kept"].startswith("kept on this node only: 1 of 3 master candidates have it")
    rig.at_node(B).trouble = None

    def is_acknowledged() -> bool:
        live.tick()
        return bool(asked(live, f"/1/wishes/{noted}") == {"granted": True, "why": ""})

    until(is_acknowledged)


def asked(live: Live, target: str) -> Any:
    async def ask() -> Response:
        answer = live.api.handle(Request("GET", target, {}, b"", "uid:0"))
        return answer if isinstance(answer, Response) else await answer

    return json.loads(live._do(ask()).body)


def test_agents_that_are_too_old_are_named(rig: Candidacy, tmp_path: Path) -> None:
    rig.at_node(B).trouble = rig.at_node(C).trouble = OLD
    live = Live(rig, tmp_path)
    try:
        assert line(live) == (
            "Copies none: too few agents of master candidates can keep them: n2 (its agent is too"
            " old to keep copies), n4 (its agent is too old to keep copies)"
        )
        assert "agents of too few master candidates can keep copies" in run(live, "pause")
    finally:
        live.close()


def test_a_master_without_a_majority_says_whose_copy_it_would_take(
    rig: Candidacy, tmp_path: Path
) -> None:
    rig.tick()
    rig.at_node(C).trouble = SILENT
    rig.fail_over(B)
    live = Live(rig, tmp_path)
    try:
        text = " ".join(run(live, "status").split())
        assert "waits for a majority of the 3 master candidates" in text
        assert "n1: timed out; n4: timed out" in text
        assert "gnt-maint resume --ledger goes on with the copy on n2 of 2" in text
        done = run(live, "pause", "--node", "n6")
        assert "does not know yet whether its ledger is the newest" in done
        done = run(live, "resume", "--ledger")
        assert "gnt-maint: until now: maintd asks for the newest ledger and waits" in done
        assert "goes on with the copy on n2 of 2" in done
        live.tick()
        assert "waits for a majority" not in run(live, "status")
        assert "goes on with the copy on n2" in run(live, "history")
    finally:
        live.close()


def test_metrics_tell_of_the_copies(rig: Candidacy, live: Live) -> None:
    from nodeagent.maintd.http.metrics.metrics import Metrics
    from nodeagent.web.exchange import Request

    live.tick()
    rig.at_node(B).trouble = rig.at_node(C).trouble = SILENT
    run(live, "pause")
    live.rig.time += 90
    text = Metrics(live.api.context).answer(Request("GET", "/metrics")).body.decode()
    assert "gnt_maint_copies 1.0" in text
    assert "gnt_maint_candidates 3.0" in text
    assert "gnt_maint_copies_unsafe_seconds 9" in text


def test_unsafe_copies_need_a_person(rig: Candidacy, live: Live) -> None:
    live.tick()
    rig.at_node(B).trouble = rig.at_node(C).trouble = SILENT
    run(live, "pause", "--node", "n6")
    rig.time += 60
    live.tick(times=2)
    told = run(live, "check")
    assert told.startswith("MAINTD WARNING - only 1 of 3 master candidates have the newest ledger;")
    assert " needs_action=1;;;0 " in told
