"""CKE's own trials on real machines (mtest/repair_test.go), by their numbers, over real HTTP.

Their repair touches a file, and the machine is healthy once it is there; the watch is 30 s. What
protects a pod there is here what keeps an instance on its node. The same on a real cluster, with
real agents, is in tests/real/test_queue_in_lab.py.
"""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from nodeagent.model.action import MovePrimary
from nodeagent.model.reason import Kind, Reason, because
from nodeagent.model.snapshot import Instance
from tests.maintd.cke.served import BEGUN, PUT_OFF, QUEUED, Cke, opened

TOUCH = {"repair_command": "touch", "need_drain": True, "watch_seconds": 30}


@pytest.fixture(scope="module")
def server() -> Iterator[Cke]:
    with opened() as found:
        yield found


@pytest.fixture
def cke(server: Cke) -> Cke:
    server.start_anew()
    server.agents.heals = {"touch"}
    server.configure(TOUCH, success="tell")
    return server


def without_drain(cke: Cke, command: str, **members: object) -> None:
    cke.configure({"repair_command": command, "watch_seconds": 30, **members}, success="tell")


def test_mtest_1_disabled_it_stays_unfinished(cke: Cke) -> None:
    cke.post("/1/queue/disable")
    assert cke.get("/1/queue")["enabled"] is False
    cke.add()
    cke.tick(times=6)
    assert (cke.stands, cke.ran) == (QUEUED, [])
    cke.delete(which="unfinished")
    cke.tick()
    assert cke.entries == []


def test_mtest_2_enabled_it_succeeds(cke: Cke) -> None:
    cke.post("/1/queue/enable")
    cke.add()
    cke.until("succeeded")
    assert cke.ran == ["touch", "tell"]
    cke.tick(times=2)
    assert cke.node().in_service
    cke.delete(which="finished")
    cke.tick()
    assert cke.entries == []


def test_mtest_3_the_success_command_fails(cke: Cke) -> None:
    cke.agents.fails = {"tell"}
    cke.add()
    assert cke.until("failed")["why"] == "its success command failed: exit code 1"


def test_mtest_4_the_repair_command_fails(cke: Cke) -> None:
    cke.agents.fails = {"touch"}
    cke.add()
    assert cke.until("failed")["why"] == "touch failed: exit code 1"
    assert cke.ran == ["touch"]


def test_mtest_5_the_repair_command_never_returns(cke: Cke) -> None:
    cke.agents.hangs = {"sleep"}
    without_drain(cke, "sleep")
    cke.add()
    cke.until(*BEGUN)
    cke.tick(times=2)
    assert cke.stands == BEGUN
    assert cke.until("failed", times=2)["why"] == "sleep failed: ended after 30 s"


def test_mtest_6_with_a_limit_of_90_s_it_is_unfinished_for_60(cke: Cke) -> None:
    cke.agents.hangs = {"sleep"}
    without_drain(cke, "sleep", command_timeout_seconds=90)
    cke.add()
    cke.until(*BEGUN)
    cke.tick(times=6)
    assert cke.stands == BEGUN
    cke.until("failed", times=4)


def test_mtest_7_a_command_that_does_nothing(cke: Cke) -> None:
    without_drain(cke, "noop")
    cke.add()
    assert cke.until("failed")["why"] == "the machine is not healthy after the last step"


def test_mtest_8_a_command_that_does_nothing_and_a_long_watch(cke: Cke) -> None:
    without_drain(cke, "noop", watch_seconds=600)
    cke.add()
    cke.until(*BEGUN)
    cke.tick(times=6)
    assert cke.stands == BEGUN
    cke.delete(index=cke.entry["index"])
    cke.tick()
    assert cke.entries == []


def stuck(cke: Cke, why: str | Reason) -> None:
    """It is put off, untouched, for at least so long as CKE's would be."""
    cke.add()
    cke.until(*PUT_OFF)
    assert (cke.entry["drain_backoff_count"], cke.ran) == (1, [])
    assert cke.entry["drain_backoff_expire"] > cke.entry["last_transition_time"]
    assert str(why) in cke.entry["why"]


def test_mtest_9_what_can_never_leave(cke: Cke) -> None:
    cke.run_there(Instance("stays", "n4", template="plain"))
    stuck(cke, because(Kind.LOCAL_DISKS, "stays", template="plain", node="n4"))
    assert (cke.jobs, cke.node().in_service) == ([], True)
    cke.post("/1/queue/reset-backoff")
    one = cke.entry
    zero = (0, "0001-01-01T00:00:00Z")
    assert (one["drain_backoff_count"], one["drain_backoff_expire"]) == zero
    cke.delete(which="unfinished")
    cke.tick(times=2)
    assert cke.entries == []


def test_mtest_10_what_may_not_leave(cke: Cke) -> None:
    """Its mirror is on a node that is not to have anything."""
    cke.rig.cluster.put(replace(cke.node("n5"), offline=True))
    offline = because(Kind.OUT_OF_SERVICE, "n5", state="offline")
    stuck(cke, because(Kind.CANNOT_MOVE, "i1", why=because(Kind.MIRROR_CLOSED, "n5", why=offline)))


def test_mtest_11_what_may_leave(cke: Cke) -> None:
    cke.add()
    cke.until("succeeded")
    assert cke.jobs[:3] == ["Drain", "MovePrimary", "MoveSecondary"]


def moved(cke: Cke) -> MovePrimary:
    jobs = (job.action for job in cke.rig.cluster.jobs.values())
    return [action for action in jobs if isinstance(action, MovePrimary)][-1]


def test_mtest_12_what_may_be_cut_off(cke: Cke) -> None:
    """A job pod is deleted; an instance that does not run is failed over."""
    assert cke.rig.cluster.instances["i1"].running
    cke.run_there(replace(cke.rig.cluster.instances["i1"], running=False))
    cke.add()
    cke.until("succeeded")
    assert not moved(cke).live


def test_mtest_13_what_may_not_be_cut_off(cke: Cke) -> None:
    """It can only be migrated, and that fails."""
    cke.rig.cluster.fails = lambda action: isinstance(action, MovePrimary)
    stuck(cke, "failed: this job fails")
    assert moved(cke).live
    cke.tick(times=2)
    assert cke.node().in_service


def test_mtest_14_where_nobody_knows_how_it_would_be(cke: Cke) -> None:
    """What is not said is not allowed, as with CKE's selector `null`."""
    cke.say("n5", None)
    doubt = because(Kind.IN_DOUBT, "n5", doubt="does not answer: timed out")
    stuck(cke, because(Kind.CANNOT_MOVE, "i1", why=because(Kind.MIRROR_CLOSED, "n5", why=doubt)))


def test_mtest_15_where_there_is_no_room(cke: Cke) -> None:
    """What is allowed by nothing is not allowed, as with CKE's selector `{}`."""
    cke.run_there(Instance("large", "n4", "n5", memory=10**9, disk=1))
    small = because(Kind.MIRROR_TOO_SMALL, "n5", free=262_044, wanted=10**9)
    stuck(cke, because(Kind.CANNOT_MOVE, "large", why=small))
    assert cke.jobs == []


def test_mtest_16_without_need_drain(cke: Cke) -> None:
    cke.run_there(Instance("stays", "n4", template="plain"))
    without_drain(cke, "touch")
    cke.add()
    cke.until("succeeded")
    assert (cke.jobs, cke.ran) == ([], ["touch", "tell"])
