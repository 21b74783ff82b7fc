"""CKE's rows for what becomes of an entry, step by step (strategy_test.go), over real HTTP.

And for what a disabled queue still does. docs/repair-queue-cases.md has the rows.
"""

from collections.abc import Iterator

import pytest

from nodeagent.model.action import MovePrimary, MoveSecondary
from nodeagent.model.reason import Kind, because
from nodeagent.model.snapshot import Instance
from tests.maintd.cke.served import (
    BEGUN,
    DRAIN,
    DRAINING,
    PUT_OFF,
    QUEUED,
    TRY,
    Cke,
    drains,
    opened,
    watched,
)
from tests.maintd.decided import details

MOVES = MovePrimary | MoveSecondary


@pytest.fixture(scope="module")
def server() -> Iterator[Cke]:
    with opened() as found:
        yield found


@pytest.fixture
def cke(server: Cke) -> Cke:
    server.start_anew()
    return server


def test_need_drain(cke: Cke) -> None:
    drains(cke)
    assert (cke.ran, cke.entry["drain_backoff_count"]) == ([], 0)


def test_draining_30_s_of_60(cke: Cke) -> None:
    drains(cke, eviction_timeout_seconds=60)
    before = cke.jobs
    cke.tick(30)
    assert (cke.stands, cke.jobs, cke.ran) == (DRAINING, before, [])


def test_draining_120_s_of_60(cke: Cke) -> None:
    drains(cke, eviction_timeout_seconds=60)
    cke.tick(120)
    assert (cke.stands, cke.entry["drain_backoff_count"]) == (PUT_OFF, 1)
    assert cke.entry["why"] == "n4 was not evacuated after 60 s"


def test_draining_half_of_the_default(cke: Cke) -> None:
    """Four hours, as instances move: CKE's is 600 s."""
    drains(cke, 50_000)
    cke.tick(7200)
    assert cke.stands == DRAINING


def test_draining_double_the_default(cke: Cke) -> None:
    drains(cke, 50_000)
    cke.tick(28_800)
    assert (cke.stands, cke.entry["drain_backoff_count"]) == (PUT_OFF, 1)


def test_waiting_with_back_off_in_the_future_and_drained(cke: Cke) -> None:
    """What moves still arrives first."""
    cke.rig.cluster.takes = lambda action: 100.0 if isinstance(action, MOVES) else 1.0
    cke.configure(DRAIN, eviction_timeout_seconds=60)
    cke.add()
    cke.until(*DRAINING)
    cke.tick(30)
    assert cke.node().drained
    cke.tick(times=5)
    assert (cke.stands, cke.jobs[-1]) == (PUT_OFF, "MoveSecondary")
    assert (Kind.RETURNS_AFTER_MOVES, "n4") in cke.whys
    cke.tick(200)
    cke.tick(1)
    assert (cke.stands, cke.jobs[-1]) == (PUT_OFF, "Restore")
    cke.tick(2)
    assert (cke.stands, cke.node().drained, cke.ran) == (PUT_OFF, False, [])
    assert (Kind.BACKS_OFF, "") in cke.whys


def test_waiting_with_back_off_in_the_future_and_not_drained(cke: Cke) -> None:
    cke.run_there(Instance("stays", "n4", template="plain"))
    cke.configure(DRAIN)
    cke.add()
    cke.until(*PUT_OFF)
    cke.tick(times=3)
    assert (cke.stands, cke.jobs, cke.ran) == (PUT_OFF, [], [])
    said = details(cke.held, Kind.BACKS_OFF)
    assert (said["left"], said["times"]) == (270_000, "1")
    disks = because(Kind.LOCAL_DISKS, "stays", template="plain", node="n4")
    assert said["why"] == str(because(Kind.CANNOT_MOVE, "stays", why=disks))


def test_back_off_in_the_past(cke: Cke) -> None:
    cke.run_there(Instance("stays", "n4", template="plain"))
    cke.configure(DRAIN)
    cke.add()
    cke.until(*PUT_OFF)
    cke.rig.cluster.remove_instance("stays")
    cke.tick(290)
    assert cke.jobs == []
    cke.tick(times=2)
    assert cke.jobs[0] == "Drain"


def test_drained(cke: Cke) -> None:
    cke.configure(DRAIN)
    cke.add()
    cke.until(*BEGUN)
    assert (cke.ran, cke.jobs[0], cke.node().drained) == (["try-1"], "Drain", True)
    there = cke.rig.cluster.instances.values()
    assert [one.name for one in there if "n4" in (one.primary, one.secondary)] == []


def watching(cke: Cke, *seconds: int) -> None:
    """The first of these steps has been run just now."""
    cke.configure(*watched(*seconds))
    cke.add()
    cke.until(*BEGUN)
    cke.tick(2)
    assert cke.ran == ["try-1"]


def test_watching_30_s_of_60(cke: Cke) -> None:
    watching(cke, 60, 60)
    cke.tick(30)
    assert (cke.stands, cke.ran) == (BEGUN, ["try-1"])
    said = details(cke.held, Kind.WATCHED)
    assert (said["step"], said["left"]) == ("1", 30_000)


def test_watching_120_s_of_60(cke: Cke) -> None:
    watching(cke, 60, 60)
    cke.tick(120)
    assert cke.ran == ["try-1"], "a check after the watch decides"
    cke.tick(2, times=2)
    assert (cke.stands, cke.ran) == (("processing", 1, "watching"), ["try-1", "try-2"])


def test_no_watch_seconds(cke: Cke) -> None:
    cke.configure(TRY[0], {**TRY[1], "watch_seconds": 600})
    cke.add()
    cke.until("processing", 1, "watching")
    assert cke.ran == ["try-1", "try-2"]


def test_the_last_step_expired(cke: Cke) -> None:
    watching(cke, 60)
    cke.tick(120)
    cke.until("failed", 0, times=3)
    assert cke.entry["why"] == "the machine is not healthy after the last step"


def test_healthy(cke: Cke) -> None:
    watching(cke, 600)
    cke.agents.well.add(cke.entry["address"])
    cke.until("succeeded", 0, times=3)
    assert cke.entry["why"] == "the machine is healthy"


@pytest.mark.parametrize("end", ["succeeded", "failed"])
def test_finished_and_drained(cke: Cke, end: str) -> None:
    cke.agents.fails, cke.agents.heals = {"try-1"} if end == "failed" else set(), {"try-1"}
    cke.configure(DRAIN)
    cke.add()
    cke.until(end)
    cke.tick(times=3)
    assert (cke.jobs[-1], cke.node().drained) == ("Restore", False)


@pytest.mark.parametrize("end", ["succeeded", "failed"])
def test_finished_and_not_drained(cke: Cke, end: str) -> None:
    cke.agents.fails, cke.agents.heals = {"try-1"} if end == "failed" else set(), {"try-1"}
    cke.add()
    stands = cke.until(end)
    cke.tick(times=5)
    assert (cke.entry, cke.jobs, cke.ran) == (stands, [], ["try-1"])


def test_deleted_and_drained(cke: Cke) -> None:
    cke.configure(DRAIN)
    cke.add()
    cke.until(*BEGUN)
    cke.tick()
    cke.delete(index=cke.entry["index"])
    assert (cke.entry["deleted"], cke.jobs[-1]) == (True, "Restore")
    cke.tick(times=2)
    assert (cke.entries, cke.node().drained) == ([], False)


def test_deleted(cke: Cke) -> None:
    cke.add()
    cke.delete(index=cke.entry["index"])
    cke.tick()
    assert (cke.entries, cke.ran) == ([], [])


# A queue that is disabled.


def disable(cke: Cke) -> None:
    cke.post("/1/queue/disable")
    assert cke.get("/1/queue")["enabled"] is False


@pytest.mark.parametrize("steps", [TRY, (DRAIN,)], ids=["queued", "need_drain queued"])
def test_disabled_queued(cke: Cke, steps: tuple[dict[str, object], ...]) -> None:
    cke.configure(*steps)
    disable(cke)
    cke.add()
    cke.tick(times=5)
    assert (cke.stands, cke.ran, cke.jobs) == (QUEUED, [], [])
    assert (Kind.QUEUE_DISABLED, "") in cke.whys


@pytest.mark.parametrize(
    ("moves", "later"),
    [
        pytest.param(50_000, 30, id="in time"),
        pytest.param(50_000, 120, id="expired"),
        pytest.param(10, 30, id="even drained"),
    ],
)
def test_disabled_draining(cke: Cke, moves: float, later: float) -> None:
    cke.rig.cluster.takes = lambda _: moves
    cke.configure(DRAIN, eviction_timeout_seconds=60)
    cke.add()
    cke.until(*DRAINING)
    cke.tick(2)
    cke.tick(12)
    cke.pass_by(later)
    disable(cke)
    assert (cke.stands, cke.entry["drain_backoff_count"]) == (PUT_OFF, 1)
    assert cke.entry["why"] == "the repair queue was disabled"
    assert cke.ran == []


@pytest.mark.parametrize("later", [100, 1000], ids=["future", "past"])
def test_disabled_back_off(cke: Cke, later: float) -> None:
    cke.run_there(Instance("stays", "n4", template="plain"))
    cke.configure(DRAIN)
    cke.add()
    cke.until(*PUT_OFF)
    disable(cke)
    cke.rig.cluster.remove_instance("stays")
    cke.tick(later)
    cke.tick(times=3)
    assert (cke.stands, cke.ran, cke.jobs) == (PUT_OFF, [], [])


def test_disabled_watching(cke: Cke) -> None:
    watching(cke, 60, 60)
    disable(cke)
    cke.tick(30)
    assert (cke.stands, cke.ran) == (BEGUN, ["try-1"])


def test_disabled_watching_expired_with_a_next_step(cke: Cke) -> None:
    watching(cke, 60, 60)
    disable(cke)
    cke.tick(120)
    cke.tick(times=4)
    assert (cke.stands, cke.ran) == (BEGUN, ["try-1"])
    assert (Kind.QUEUE_DISABLED, "") in cke.whys


def test_disabled_watching_expired_at_the_last_step(cke: Cke) -> None:
    watching(cke, 60)
    disable(cke)
    cke.tick(120)
    cke.until("failed", times=3)
    assert cke.ran == ["try-1"]


def test_disabled_healthy(cke: Cke) -> None:
    watching(cke, 600)
    disable(cke)
    cke.agents.well.add(cke.entry["address"])
    cke.until("succeeded", times=3)


def test_disabled_deleted(cke: Cke) -> None:
    cke.add()
    disable(cke)
    cke.delete(which="unfinished")
    cke.tick()
    assert cke.entries == []
