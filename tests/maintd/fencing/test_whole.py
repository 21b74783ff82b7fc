"""A dead node in whole rounds: polls, witnesses, jobs, ledger; and all that is shown of it."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nodeagent.maintd.http.dead_nodes import silences
from nodeagent.model.action import MovePrimary, Power, PowerCommand, SetOffline
from nodeagent.model.fencing import Stage
from nodeagent.model.ledger import Intent, Outcome
from nodeagent.model.reason import FencingKind, Kind, because
from nodeagent.model.snapshot import Observed
from nodeagent.model.wish import Done, PulledPlug
from simulation.machines import Control
from tests.cli.fixtures import Run, anywhere, in_utc
from tests.cli.live import Live
from tests.maintd.fencing.whole import RESTART, Whole
from tests.maintd.http.page.node_page import page, section
from tests.maintd.served import Served

__all__ = ["anywhere", "in_utc"]  # fixtures

LOCAL = str(because(Kind.LOCAL_DISKS, "plain", template="plain", node="n3"))


pytestmark = pytest.mark.usefixtures("at_once")


def told(whole: Whole, folder: Path, name: str = "n3") -> Any:
    """What /1/nodes tells of a node after the newest round."""
    served = Served(whole, folder)
    try:
        served.maintd.latest = whole.newest
        return next(row for row in served.get("/1/nodes") if row["name"] == name)
    finally:
        served.close()


def until(whole: Whole, stage: Stage | None, rounds: int = 60) -> None:
    for _ in range(rounds):
        if whole.stage("n3") is stage:
            return
        whole.rounds(1)
    raise AssertionError(f"never {stage}: {whole.ledger.fencing}")


def done(whole: Whole) -> list[str]:
    """The steps that matter, in the order of their jobs."""
    found = []
    for job in whole.cluster.jobs.values():
        match job.action:
            case Power(_, PowerCommand.OFF):
                found.append("off")
            case SetOffline():
                found.append("offline")
            case MovePrimary(name):
                found.append(name)
    return found


def test_a_node_that_loses_power_is_proven_off_and_its_instances_run_again(whole: Whole) -> None:
    whole.machines.switch_off("n3")
    until(whole, Stage.FENCED)
    assert done(whole) == ["off", "offline", "drbd", "shared"]
    assert whole.machines.running_on("drbd") == {"n4"}
    assert not whole.machines.twice()


@pytest.mark.parametrize("cancels", [True, False])
def test_a_power_off_that_waits_until_its_node_answers_is_canceled(
    whole: Whole, tmp_path: Path, caplog: pytest.LogCaptureFixture, *, cancels: bool
) -> None:
    """Where that is too late, the node gets its power back, and it is told."""
    whole.cluster.pauses = lambda action: action == Power("n3", PowerCommand.OFF)
    whole.cluster.cancels = cancels
    whole.machines.cut.add("n3")
    until(whole, Stage.CUTS)
    whole.rounds(5)
    assert done(whole) == ["off"]
    whole.machines.cut.discard("n3")
    whole.rounds(1)
    row, _ = fencing_of(whole, tmp_path)
    assert row["next"] == "cancel its power-off, which waits although the node answers again"
    whole.cluster.pauses = lambda _: False
    whole.rounds(10)
    assert f"in-time={cancels} why='n3 answers again'" in caplog.text
    assert whole.stage("n3") is None
    assert done(whole) == ["off"]
    assert whole.machines.boots == ({} if cancels else {"n3": 1})
    failed = [event for event in whole.store.history() if event.kind == "fencing-failed"]
    assert any("had recovered" in event.details["why"] for event in failed) is not cancels


def test_while_the_vote_is_undecided_no_node_is_fenced(whole: Whole) -> None:
    """Its agents answer, so the master does not suspect itself, but half name no master."""
    whole.agents.masters = dict.fromkeys(("n4", "n5", "n6"), "")
    whole.machines.cut.add("n3")
    whole.rounds(40)
    assert whole.newest is not None
    assert "the vote is undecided" in str(whole.newest.idle)
    assert not done(whole)
    whole.agents.masters.clear()
    until(whole, Stage.FENCED)


@pytest.mark.parametrize("how", ["off", "hung", "cut"])
def test_the_evidence_shown_is_the_one_that_decides(how: str, tmp_path: Path) -> None:
    whole = Whole(replace(RESTART, dead_nodes="observe"))
    whole.learn()
    if how == "off":
        whole.machines.switch_off("n3")
    else:
        getattr(whole.machines, how).add("n3")
    whole.rounds(20)
    row = told(whole, tmp_path)
    (held,) = [
        one.why
        for one in whole.engine._last.held  # type: ignore[union-attr]
        if one.why.kind.word == "would-fence"
    ]
    assert row["evidence"]["reason"] == str(dict(held.details)["why"])
    power = next(one for one in row["evidence"]["rows"] if one["source"] == "power control")
    said = "off" if how == "off" else "on"
    assert power["said"] == f"{said}, says level 1"
    life = {"off": "off", "hung": "hung", "cut": "isolated"}[how]
    assert row["evidence"]["life"] == life
    whole.close()


def live(whole: Whole, folder: Path, anywhere: Run, *arguments: str) -> str:
    """What gnt-maint prints of the present state, over a real socket."""
    one = Live(whole, folder)
    try:
        return " ".join(anywhere("--socket", one.socket, *arguments).out.split())
    finally:
        one.close()


def fencing_of(whole: Whole, folder: Path) -> Any:
    row = told(whole, folder)["fencing"]
    fates = {one.pop("instance"): one for one in row["instances"]}
    return row, fates


def test_each_stage_says_what_comes_next_and_when(tmp_path: Path) -> None:
    whole = Whole(replace(RESTART, revive=True))
    whole.learn()
    assert told(whole, tmp_path)["fencing"] is None
    whole.machines.cut.add("n3")
    until(whole, Stage.PROVES)
    row, fates = fencing_of(whole, tmp_path)
    assert row["why"] == str(because(FencingKind.CUT_OFF, "n3", count=4, connected=1))
    assert (row["stage"], row["next"]) == ("proving", "read its power, until it says off")
    assert {name: one["state"] for name, one in fates.items()} == {
        "drbd": "waiting",
        "shared": "waiting",
        "plain": "stays down",
    }
    assert fates["plain"]["why"] == LOCAL
    until(whole, Stage.WAITS)
    (one,) = whole.ledger.fencing
    row, _ = fencing_of(whole, tmp_path)
    assert row["next"] == "power it off again, unless its agent answers before"
    assert row["next-at"] == (one.at + whole.policy.revive_within) / 1000
    whole.close()


def test_without_restart_all_stay_down_and_the_command_is_named(tmp_path: Path) -> None:
    whole = Whole(replace(RESTART, dead_nodes="fence"))
    whole.learn()
    whole.machines.cut.add("n3")
    until(whole, Stage.FENCED)
    _, fates = fencing_of(whole, tmp_path)
    assert fates["drbd"]["why"] == (
        "dead-nodes is fence: check its disks on n4, then run gnt-instance failover drbd"
    )
    assert fates["shared"]["why"] == "dead-nodes is fence: run gnt-instance failover shared"
    assert fates["plain"]["why"] == LOCAL
    whole.close()


def test_who_has_cut_the_power_is_told_to_users_only(whole: Whole) -> None:
    whole.machines.controls["n3"] = (Control(dead=True),)
    whole.machines.switch_off("n3")
    whole.rounds(20)
    whole.wish(PulledPlug("n3"), "alice")
    whole.rounds(1)
    node, observed, ledger = whole.cluster.nodes["n3"], seen(whole), whole.ledger
    assert [one.node for one in ledger.fencing] == [node.uuid]
    for full, why, who in (
        (True, "alice says that its power is cut", "alice"),
        (False, "a person says that its power is cut", ""),
    ):
        shown = silences(ledger, observed, whole.policy, (), whole.now(), full=full)["n3"].fencing
        assert shown is not None
        assert (shown.why, shown.who) == (why, who)


def seen(whole: Whole) -> Observed:
    return whole.tick(20.0).observed


def test_why_and_status_tell_of_it(
    whole: Whole, tmp_path: Path, anywhere: Run, in_utc: None
) -> None:
    whole.machines.cut.add("n3")
    until(whole, Stage.PROVES)
    out = live(whole, tmp_path, anywhere, "why", "n3")
    assert "Fencing proving since 2026-" in out
    assert "Because n3 is cut off: " in out
    assert "Next step read its power, until it says off, as soon as maintd can" in out
    assert "Its instances INSTANCE STATE WHY drbd waiting plain stays down its disks" in out
    assert "--offline=yes" not in out, "maintd does it"
    assert "power control on, says level 1" in out
    until(whole, Stage.FENCED)
    out = live(whole, tmp_path, anywhere, "why", "n3")
    assert "Fencing fenced since 2026-" in out
    assert "drbd restarted on n4" in out
    assert "plain stays down its disks (plain) are only on n3" in out
    out = live(whole, tmp_path, anywhere, "status")
    assert "Fencing n3: fenced since 2026-" in out
    assert "instances: 2 restarted, 1 stays down; gnt-maint why n3" in out
    assert "fencing: fenced" in live(whole, tmp_path, anywhere, "nodes")


def test_the_page_shows_evidence_and_fencing(whole: Whole, tmp_path: Path) -> None:
    whole.machines.cut.add("n3")
    until(whole, Stage.PROVES)
    one = Served(whole, tmp_path)
    try:
        one.maintd.latest = whole.newest
        text = page(one, "n3")
        now = section(text, "Now")
        assert "--offline=yes" not in now, "maintd does it"
        assert "Fencing proving since 2026-" in now
        assert "Next step read its power, until it says off" in now
        rows = section(text, "Evidence")
        assert "source age proves says its agent 0 s nothing nothing: timed out" in rows
        assert "it has power on, says level 1" in rows
        told = section(text, "Instances of the fenced node")
        assert "plain stays down its disks (plain) are only on n3" in told
        whole.rounds(40)
        one.tick()
        text = page(one, "n3")
        assert "drbd restarted on n4" in section(text, "Instances of the fenced node")
        assert "<h2>Evidence</h2>" not in text, "it is offline: nobody asks about it"
    finally:
        one.close()


# Coming back.


def back(whole: Whole, *, readd: bool) -> None:
    """A person repairs the fenced n3 and powers it on; with `readd` also runs gnt-node add."""
    whole.machines.cut.add("n3")
    until(whole, Stage.FENCED)
    whole.machines.switch_on("n3")
    whole.machines.cut.discard("n3")
    whole.cluster.world.unpowered.discard("n3")
    if readd:
        whole.cluster.undrain("n3")
    whole.rounds(5)


def kinds(whole: Whole) -> set[str]:
    assert whole.newest
    return {one.why.kind.word for one in whole.newest.decision.held if one.node == "n3"}


def test_the_check_runs_while_the_node_is_offline(whole: Whole) -> None:
    """Ganeti's watcher would activate its disks as soon as it is online."""
    seen = list[bool]()

    def ends(_: Intent) -> Outcome:
        seen.append(whole.cluster.nodes["n3"].offline)
        return Outcome.SUCCESS

    whole.agents.ends = ends
    back(whole, readd=False)
    assert (kinds(whole), whole.agents.orders) == ({"fenced"}, [])
    whole.wish(Done("n3", force=True))
    whole.rounds(1)
    assert not kinds(whole)
    whole.rounds(20)
    (order,) = whole.agents.orders
    assert (order.command, seen) == ("stale-instances", [True])
    said = json.loads(order.stdin)
    assert (said["instances"], said["secondaries"]) == (["plain"], ["drbd"])
    node = whole.cluster.nodes["n3"]
    assert (node.offline, node.drained, node.tags) == (False, False, frozenset())
    assert not whole.ledger.fencing
    assert not whole.ledger.returning()


@pytest.mark.parametrize("keep", ["", "drained"])
def test_a_node_that_fails_the_check_stays_offline(whole: Whole, keep: str) -> None:
    whole.agents.ends = lambda _: Outcome.ERROR
    back(whole, readd=False)
    whole.wish(Done("n3", force=True, keep=keep))
    whole.rounds(60)
    assert {order.command for order in whole.agents.orders} == {"stale-instances"}
    assert whole.cluster.nodes["n3"].offline
    assert kinds(whole) >= {"return-failed"}


@pytest.mark.parametrize("lost", [False, True])
@pytest.mark.parametrize("kept", [False, True])
def test_readd_does_not_skip_the_check(whole: Whole, lost: bool, kept: bool) -> None:
    """It puts the node online, and into service at once."""
    back(whole, readd=True)
    if lost:
        whole.lose_ledger()
        whole.rounds(3)
    assert (whole.stage("n3"), kinds(whole)) == (Stage.FENCED, {"fenced-online"})
    assert any(tag.startswith("maintd:fenced:") for tag in whole.cluster.nodes["n3"].tags)
    assert not whole.agents.orders
    wish = whole.wish(Done("n3", keep="drained" if kept else ""))
    whole.rounds(1)
    assert whole.newest
    assert wish not in whole.newest.decision.refused
    whole.rounds(10)
    assert [order.command for order in whole.agents.orders] == ["stale-instances"]
    assert whole.cluster.nodes["n3"].tags == frozenset()
    assert not whole.ledger.fencing


def test_after_a_readd_a_failed_check_leaves_it_fenced(whole: Whole) -> None:
    whole.agents.ends = lambda _: Outcome.ERROR
    back(whole, readd=True)
    whole.wish(Done("n3", force=True))
    whole.rounds(60)
    assert whole.stage("n3") is Stage.FENCED
    assert kinds(whole) == {"return-failed"}
    assert any(tag.startswith("maintd:fenced:") for tag in whole.cluster.nodes["n3"].tags)


def test_one_that_dies_again_after_a_readd_is_fenced_again(whole: Whole) -> None:
    back(whole, readd=True)
    whole.machines.cut.add("n3")
    whole.rounds(1)
    until(whole, Stage.FENCED)
    whole.rounds(60)
    assert done(whole).count("off") == 2
    assert whole.cluster.nodes["n3"].offline
    assert not whole.machines.twice()
