"""A dead node in whole rounds: polls, witnesses, jobs, ledger; and all that is shown of it."""

import json
from pathlib import Path

import pytest

from nodeagent.model.action import MovePrimary, Power, PowerCommand, SetOffline
from nodeagent.model.fencing import Stage
from nodeagent.model.ledger import Intent, Outcome
from nodeagent.model.wish import Done
from tests.cli.fixtures import in_utc
from tests.cli.live import Live
from tests.cli.run import gnt_maint
from tests.maintd.fencing.whole import Whole
from tests.maintd.http.page.node_page import page, section
from tests.maintd.served import Served

__all__ = ["in_utc"]  # a fixture


pytestmark = pytest.mark.usefixtures("at_once")


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


@pytest.mark.parametrize("cancels", [True, False])
def test_a_power_off_that_waits_until_its_node_answers_is_canceled(
    whole: Whole, caplog: pytest.LogCaptureFixture, *, cancels: bool
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
    whole.cluster.pauses = lambda _: False
    whole.rounds(10)
    assert f"in-time={cancels} why='n3 answers again'" in caplog.text
    assert whole.stage("n3") is None
    assert done(whole) == ["off"]
    assert whole.machines.boots == ({} if cancels else {"n3": 1})
    failed = [event for event in whole.store.history() if event.kind == "fencing-failed"]
    assert any("had recovered" in event.details["why"] for event in failed) is not cancels


def live(whole: Whole, folder: Path, *arguments: str) -> str:
    """What gnt-maint prints of the present state, over a real socket."""
    one = Live(whole, folder)
    try:
        return " ".join(gnt_maint("--socket", one.socket, *arguments).out.split())
    finally:
        one.close()


def test_why_and_status_tell_of_it(whole: Whole, tmp_path: Path, in_utc: None) -> None:
    whole.machines.cut.add("n3")
    until(whole, Stage.PROVES)
    out = live(whole, tmp_path, "why", "n3")
    assert "Fencing proving since 2026-" in out
    assert "Because n3 is cut off: " in out
    assert "Next step read its power, until it says off, as soon as maintd can" in out
    assert "Its instances INSTANCE STATE WHY drbd waiting plain stays down its disks" in out
    assert "--offline=yes" not in out, "maintd does it"
    assert "power control on, says level 1" in out
    until(whole, Stage.FENCED)
    out = live(whole, tmp_path, "why", "n3")
    assert "Fencing fenced since 2026-" in out
    assert "drbd restarted on n4" in out
    assert "plain stays down its disks (plain) are only on n3" in out
    out = live(whole, tmp_path, "status")
    assert "Fencing n3: fenced since 2026-" in out
    assert "instances: 2 restarted, 1 stays down; gnt-maint why n3" in out
    assert "fencing: fenced" in live(whole, tmp_path, "nodes")


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


@pytest.mark.parametrize(("lost", "kept"), [(False, True), (True, False)])
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
