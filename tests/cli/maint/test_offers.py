"""gnt-maint offers, and the policies of windows, against a whole coordinator at a real socket."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from nodeagent.cli.gnt_maint import cli
from tests.cli.live import Live
from tests.cli.test_gnt_maint import ME
from tests.maintd.owners.owned import instance
from tests.maintd.rig import Rig, fleet

AHEAD, LATER = "2026-11-25T04:00Z", "2026-11-26T04:00Z"  # the rig's clock is at 2026-11-18


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Live]:
    owned = [instance("i1", "db"), instance("i2", "web"), instance("i3", "db")]
    opened = Live(Rig(fleet(), owned), tmp_path)
    yield opened
    opened.close()


def run(live: Live, *words: str, code: int = 0) -> str:
    done = CliRunner().invoke(cli, ["--socket", live.socket, *words])
    assert done.exit_code == code, (done.output, done.exception)
    return done.output


def offers(live: Live, *more: str) -> list[Any]:
    found = json.loads(run(live, "offers", "list", "--json", *more))
    assert isinstance(found, list)
    return found


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("",), "the name of an offer, an owner or a node is empty"),
        (("--owner", ""), "the name of an offer, an owner or a node is empty"),
        (("--owner", "db", "--node", ""), "the name of an offer, an owner or a node is empty"),
        (("--owner", "db", "--eta", "2026-03-29T02:30"), "the clock never shows it: add the zone"),
        (("--owner", "db", "--eta", "1969-01-01T00:00Z"), "is not a time between 1970 and 2"),
        (("--owner", "db", "--earliest", "9999-12-31T23:59:59"), "is not a time"),
        (("--owner", "db", "--earliest", "0001-01-01"), "'0001-01-01' is not a time"),
    ],
)
def test_what_names_no_offer_or_time(
    live: Live, words: tuple[str, ...], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "Europe/Zurich")
    time.tzset()
    try:
        run(live, "window", "add", "n3", "--start", AHEAD)
        done = CliRunner().invoke(cli, ["--socket", live.socket, "offers", "accept", *words])
    finally:
        monkeypatch.undo()
        time.tzset()
    assert (done.exit_code, why in " ".join(done.output.split())) == (2, True), done.output
    assert {one["status"] for one in offers(live)} == {"UNKNOWN"}


def test_it_may_be_done_now(live: Live) -> None:
    run(live, "window", "add", "n3", "--start", AHEAD)
    before = time.time()
    run(live, "offers", "decline", "--owner", "db", "--eta", "now")
    (one,) = offers(live, "--owner", "db")
    assert before - 1 <= one["answer"]["eta"] <= time.time() + 1


def test_from_asking_to_answering(live: Live) -> None:
    assert run(live, "offers", "list") == "No owner is asked anything.\n"
    run(live, "window", "add", "n3", "n4", "--start", AHEAD)
    assert [(o["owner"], o["node"]) for o in offers(live)] == [
        ("db", "n3"),
        ("web", "n3"),
        ("db", "n4"),
    ]
    assert run(live, "offers", "list", "--owner", "dbb") == "None of these is asked anything.\n"
    live.tick(60)
    head, first, *_ = run(live, "offers", "list").splitlines()
    assert head.split() == ["OFFER", "OWNER", "NODE", "FROM", "INSTANCES", "ANSWER"]
    assert first.split()[1:3] == ["db", "n3"]
    assert first.endswith("none for 60 s")
    words = ("--owner", "db", "--node", "n3", "--reason", "rebuilding", "--eta", LATER)
    assert run(live, "offers", "decline", *words) == "Declined: 1 of the offers.\n"
    (one,) = offers(live, "--owner", "db", "--node", "n3")
    assert (one["status"], one["answer"]["reason"]) == ("DECLINE", "rebuilding")
    assert one["answer"]["again"] - one["answer"]["at"] == 86400
    assert "declined 0 s ago: rebuilding, done by 2026-11-26" in run(live, "offers", "list")
    assert "owner db" in run(live, "window", "show", "n3")
    run(live, "offers", "accept", one["id"][:20], "--again", "0s")
    live.tick()
    (one,) = offers(live, "--owner", "db", "--node", "n3")
    assert (one["status"], one["open"]) == ("ACCEPT", True)
    assert "there is no offer zzz" in run(live, "offers", "accept", "zzz", code=1)
    assert "there is no such offer" in run(live, "offers", "accept", "--node", "n6", code=1)
    assert "missing offers: name them" in run(live, "offers", "accept", code=2)


def test_a_policy_is_set_kept_and_taken_back(live: Live) -> None:
    def weighs(node: str) -> tuple[str, float, str]:
        (one,) = [
            m
            for row in json.loads(run(live, "window", "list", "--json"))["windows"]
            for m in row["machines"]
            if m["node"] == node
        ]
        return one["policy"], one["deadline_seconds"], one["at_deadline"]

    policy = ("--policy", "require-accept", "--deadline", "2h", "--at-deadline", "proceed")
    run(live, "window", "add", "n3", "--start", AHEAD, *policy)
    assert weighs("n3") == ("require-accept", 7200, "proceed")
    assert "require-accept until 2 h before it starts" in run(live, "window", "show", "n3")
    run(live, "window", "edit", "n3", "--start", LATER, "--add", "n4")
    assert weighs("n3") == weighs("n4") == ("require-accept", 7200, "proceed")
    run(live, "window", "edit", "n3", "--deadline", "1h")
    assert weighs("n4") == ("require-accept", 3600, "proceed")
    run(live, "window", "edit", "n3", "--policy", "veto")
    assert weighs("n3") == ("veto", 3600, "proceed")
    run(live, "window", "add", "n5", "--start", AHEAD)
    assert weighs("n3") == ("veto", 3600, "proceed")
    assert weighs("n5") == ("advisory", 0, "hold")
    wrong = ("--policy", "veto", "--at-deadline", "hold")
    assert "a veto ends at its deadline" in run(live, "window", "edit", "n3", *wrong, code=1)
    assert "go with --policy" in run(
        live, "window", "add", "n6", "--start", AHEAD, "--deadline", "1h", code=2
    )


def test_a_series_has_a_policy_for_its_windows_to_come(live: Live) -> None:
    weekly = ("--weekly", "fri 04:00", "--for", "2h", "--zone", "UTC")
    run(live, "window", "add", "n3", *weekly, "--policy", "veto", "--deadline", "2h")
    run(live, "window", "add", "n5", *weekly)
    told = json.loads(run(live, "window", "list", "--json"))
    kept = {"policy": "veto", "deadline_seconds": 7200, "at_deadline": "proceed"}
    assert told["series"][0]["owners"] == kept
    weighs = {m["node"]: m["policy"] for row in told["windows"] for m in row["machines"]}
    assert weighs == {"n3": "veto", "n5": "advisory"}
    run(live, "window", "edit", "series/1", "--deadline", "1h")
    run(live, "window", "edit", "series/1", "--times", "9")
    told = json.loads(run(live, "window", "list", "--json"))
    assert told["series"][0]["owners"] == {**kept, "deadline_seconds": 3600}


def test_a_declined_offer_is_the_reason_why_nothing_goes_down(live: Live) -> None:
    run(live, "window", "add", "n3", "--start", "2026-11-18T11:00Z", "--policy", "require-accept")
    run(live, "offers", "decline", "--owner", "db", "--reason", "no replica yet")
    said = run(live, "window", "down", "n3", code=1)
    assert f"owner db declines ({ME}): no replica yet" in said
    assert f"waits: owner db declines ({ME}): no replica yet" in run(live, "held")
    assert not live.rig.cluster.nodes["n3"].drained
    run(live, "window", "edit", "n3", "--policy", "advisory")
    live.tick()
    assert live.rig.cluster.nodes["n3"].drained
