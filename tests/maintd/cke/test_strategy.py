"""CKE's rows for which entries its strategy takes (strategy_test.go), each over real HTTP.

Its phases have no counterpart; why nothing is done is in /1/held. Of etcd there is nothing here:
what must agree is most of the nodes, upon who is the master. docs/repair-queue-cases.md has the
rows, and what of them is otherwise here.
"""

from collections.abc import Iterator

import pytest

from nodeagent.model.reason import Kind
from tests.maintd.cke.served import (
    BEGUN,
    DRAIN,
    OUTSIDE,
    QUEUED,
    Cke,
    drains,
    opened,
    toml,
    watched,
)
from tests.maintd.decided import details
from tests.maintd.world import REPAIR

MEND = {"repair_command": "mend", "watch_seconds": 60}


@pytest.fixture(scope="module")
def server() -> Iterator[Cke]:
    with opened() as found:
        yield found


@pytest.fixture(scope="module")
def three() -> Iterator[Cke]:
    """As many nodes as CKE's control plane has, all of them master candidates."""
    with opened(3) as found:
        yield found


@pytest.fixture
def cke(server: Cke) -> Cke:
    server.start_anew()
    return server


@pytest.fixture
def small(three: Cke) -> Cke:
    three.start_anew()
    three.agents.heals = {"mend"}
    three.configure(MEND)
    return three


def test_repair(cke: Cke) -> None:
    cke.configure(*watched(60))
    cke.add()
    assert cke.stands == QUEUED
    cke.until(*BEGUN)
    assert (cke.ran, cke.jobs) == (["try-1"], [])


def test_skip_k8s_ops(cke: Cke) -> None:
    """Another candidate does not answer."""
    cke.say("n2", None)
    cke.configure(*watched(60))
    cke.add()
    cke.until(*BEGUN)


def test_skip_k8s_ops_2(cke: Cke) -> None:
    """Something is wrong on another node, and worked on."""
    cke.agents.slow["fix-nic"] = 10**8
    cke.say("n5", REPAIR)
    cke.tick(times=4)
    cke.configure(*watched(60))
    cke.add()
    cke.until(*BEGUN)
    assert [row["repair-status"] for row in cke.get("/1/status")] == ["pending"]


def test_no_config(cke: Cke) -> None:
    cke.add()
    cke.read(toml(types=("type9",)))
    cke.tick(times=4)
    assert (cke.stands, cke.ran) == (QUEUED, [])
    none = "no repair procedure is configured for machines of 'type1'"
    assert details(cke.held, Kind.NO_PROCEDURE)["why"] == none


def test_a_bad_operation_first_and_a_good_one_second(cke: Cke) -> None:
    """With CKE the bad one eats the place; here the good one is repaired."""
    cke.configure(operations=("op1", "op2"))
    cke.add("n4", "op2")
    cke.configure(*watched(60), max_concurrent_repairs=1)
    cke.add("n5")
    cke.until(*BEGUN)
    assert [entry["status"] for entry in cke.entries] == ["queued", "processing"]
    none = details(cke.held, Kind.NO_PROCEDURE)["why"]
    assert "no operation 'op2' is configured" in str(none)


def test_an_out_of_cluster_machine(cke: Cke) -> None:
    cke.configure(DRAIN)
    cke.add(OUTSIDE)
    cke.until(*BEGUN)
    assert (cke.ran, cke.jobs, cke.entry["nodename"]) == (["try-1"], [], "")


def processing(cke: Cke) -> list[str]:
    return [entry["nodename"] for entry in cke.entries if entry["status"] == "processing"]


def test_a_candidate_comes_before_the_bad_worker_that_came_before(cke: Cke) -> None:
    cke.configure(*watched(60), operations=("op1", "op2"))
    cke.post("/1/queue/disable")
    cke.add("n4", "op2")
    cke.add("n3")
    cke.configure(*watched(60))
    cke.post("/1/queue/enable")
    cke.until(*BEGUN)
    assert processing(cke) == ["n3"]


def several(cke: Cke, *names: str) -> None:
    """They are all queued before any is begun, of which two may be at once."""
    cke.configure(*watched(600), max_concurrent_repairs=2)
    cke.post("/1/queue/disable")
    for name in names:
        cke.add(name)
    cke.tick(times=6)
    cke.post("/1/queue/enable")
    cke.tick(times=12)


def test_two_of_a_candidate_and_two_workers(cke: Cke) -> None:
    several(cke, "n4", "n5", "n3")
    assert processing(cke) == ["n4", "n3"]
    assert [entry["nodename"] for _, entry in cke.agents.entries] == ["n3", "n4"]
    assert (Kind.AT_MOST, "") in cke.whys


def test_two_candidates(cke: Cke) -> None:
    several(cke, "n2", "n3")
    assert processing(cke) == ["n2"]
    assert (Kind.CANDIDATE, "") in cke.whys


@pytest.mark.parametrize("name", ["n3", "n4"])
def test_one_machine_twice(cke: Cke, name: str) -> None:
    """CKE's passes only because its machine is a control plane's: a worker's is repaired twice."""
    several(cke, name)
    address = cke.entry["address"]
    about = {"operation": "op1", "machine_type": "type1", "address": name}
    for spelt in (name, address):
        why = cke.why("/1/queue", **{**about, "address": spelt})
        assert why == f"queue entry {cke.entry['index']} is about {address} already"
    assert cke.ran == ["try-1"]


def test_a_worker_added_again_while_its_deleted_entry_is_at_work(cke: Cke) -> None:
    drains(cke, max_concurrent_repairs=2)
    cke.delete(index=cke.entry["index"])
    cke.add()
    cke.tick(times=4)
    assert [entry["deleted"] for entry in cke.entries] == [True, False]
    assert cke.jobs.count("Drain") == 1
    assert cke.stands == QUEUED


def reboots(cke: Cke, name: str) -> None:
    """It is under a repair of its own, which goes on."""
    cke.agents.slow["fix-nic"] = 10**8
    cke.say(name, REPAIR)
    cke.tick(times=4)
    assert [row["repair-status"] for row in cke.get("/1/status")] == ["pending"]
    cke.configure(*watched(60))


def test_a_candidate_while_another_reboots(cke: Cke) -> None:
    reboots(cke, "n2")
    cke.add("n3")
    cke.tick(times=6)
    assert (cke.stands, cke.ran) == (QUEUED, [])
    assert (Kind.OTHER_CANDIDATE, "n2") in cke.whys
    cke.add("n4")
    cke.until(*BEGUN), "a worker is"


def test_a_candidate_while_it_reboots_itself(cke: Cke) -> None:
    """CKE repairs it meanwhile; here who has begun goes on first."""
    reboots(cke, "n2")
    cke.add("n2")
    cke.tick(times=6)
    assert (cke.stands, cke.ran) == (QUEUED, [])
    assert (Kind.INCIDENT_THERE, "n2") in cke.whys


# What of the control plane does not answer.


def test_the_failed_one_alone_is_out_of_sync(small: Cke) -> None:
    small.say("n3", None)
    small.add("n3")
    small.until("succeeded")
    assert small.ran == ["mend"]


def test_out_of_sync_on_one_that_can_be_reached(small: Cke) -> None:
    """n2 answers, and takes somebody else for the master."""
    small.add("n3")
    small.say("n3", None)
    small.agents.masters["n2"] = "n2"
    small.tick(times=6)
    assert (small.stands, small.ran) == (QUEUED, [])
    assert "the vote is undecided: 1 of 3 nodes say that n1" in small.get("/1/round")["idle"]


def test_a_second_one_out_of_sync(small: Cke) -> None:
    """mtest 18 too: nothing is done until it is back, and then it goes on."""
    small.add("n3")
    small.say("n3", None)
    small.say("n2", None)
    small.tick(times=6)
    assert (small.stands, small.ran) == (QUEUED, [])
    assert small.get("/1/round")["idle"]
    del small.agents.says["n2"]
    small.until("succeeded")


def test_a_control_plane_count(small: Cke) -> None:
    """How many nodes there are Ganeti says; there is nothing to be set, and nothing in doubt."""
    about = {"name": "control-plane-count", "value": "4"}
    why = small.why("/1/constraints", **about)
    assert why.startswith("there is no constraint 'control-plane-count'")


def test_the_masters_own_agent_does_not_answer(small: Cke) -> None:
    """It runs the commands: nothing is begun without it."""
    small.say("n1", None)
    small.add("n3")
    small.tick(times=6)
    assert (small.stands, small.ran) == (QUEUED, [])
    assert (Kind.AGENT_IN_DOUBT, "n1") in small.whys
