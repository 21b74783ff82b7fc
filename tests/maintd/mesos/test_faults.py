"""The faults and gaps of Mesos' maintenance primitives, each with the test that ours is without it.

Over real HTTP, but for the last rows of who may. Mesos' own tests are in test_maintenance
and owners/test_offers, by their names there.

Of machines and schedules:

  a name, an address and both are three machines
    test_a_node_is_itself_however_it_is_spelt
  "" and absent are two machines
    test_an_absent_member_is_an_empty_one
  one name in two cases is untested
    test_the_case_of_a_host_name_tells_nobody_apart_and_is_kept
  a wrong address is untested
    test_what_is_no_address
  a fraction of a nanosecond is cut off
    test_a_schedule_that_cannot_be_read
  nanoseconds beyond 2^53 are numbers
    test_what_is_read_as_mesos_reads_it
  the last writer wins
    test_a_schedule_that_has_changed_since_is_not_overwritten
  a mode is lost as its window changes
    test_a_machine_keeps_its_mode_in_another_window
  "in the schedule" is said of a list
    test_a_machine_twice_in_a_list_is_told_so
  a trailing slash is 404, MESOS-5333
    test_a_slash_at_the_end
  any page may read it by jsonp
    test_jsonp_is_no_script
  202 is documented, 200 is said
    test_each_endpoint_is_under_1_as_well
  405 and Allow are untested
    test_another_method_is_told_which_there_are
  no leader, or another one: 307, 503 untested
    test_who_is_not_the_leader_changes_nothing

Of who may (facts: authorization):

  `{}` cancels what one may not schedule
    test_who_may_not_schedule_cannot_cancel_either
  400 or 403 in a list of several is untested
    test_what_is_wrong_comes_before_who_may_not
  status, start and stop by who may not
    test_get_maintenance_status_and_start_and_stop
  five actions: one is allowed, others are not
    test_authorization
  no credentials are wanted by default
    test_endpoints_bad_authentication
  one wrong rule, and who may what is unclear
    test_a_wrong_file_lets_nobody_in
  the first of several rules counts
    test_the_last_line_of_a_name_counts

Of machines that go down and come up:

  going down kills every task at once
    test_enter_maintenance_mode
  a task runs twice if cut off, MESOS-10018
    test_a_node_that_is_cut_off_while_it_goes_down
  a master dies of what is gone, MESOS-7966
    test_a_machine_that_is_gone
  dies of what comes back, MESOS-10109
    test_a_node_that_comes_back_with_a_schedule
  drained twice over, by two who do not know
    test_one_under_repair_is_not_drained_twice
  put back although it was drained before
    test_up_is_as_it_was_found
  overdue, and nobody says so
    test_nothing_moves_to_down_or_up_by_itself_and_what_is_late_is_told

Of inverse offers:

  an unrelated edit wipes all answers
    test_an_unrelated_edit_keeps_answers_and_a_changed_interval_does_not
  so does posting the same again
    test_a_repost_of_the_same_schedule_keeps_answers
  a restart loses all answers (a new master still has none of them)
    test_answers_survive_a_restart
  an unknown id kills the master, MESOS-7119
    test_accept_invalid_inverse_offer
  offers are made twice, MESOS-4831
    test_an_open_offer_is_not_made_twice
  an unknown framework stops the others
    test_add_agent_with_unknown_framework_and_maintenance
  who has not answered is not listed
    test_unanswered_owners_are_listed_with_their_age
  an answer holds nothing, and has no reason
    test_a_veto_holds_until_its_deadline
"""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from nodeagent.errors import NotMaster, Unavailable
from nodeagent.maintd import daemon
from tests.maintd.mesos.client import BLIND, FIRST, M1, M2, M3, SECOND, Master, schedule, window
from tests.maintd.rig import Rig, fleet, mirrored

SCHEDULE, STATUS, DOWN, UP = (
    "/maintenance/schedule",
    "/maintenance/status",
    "/machine/down",
    "/machine/up",
)
N3 = {"hostname": "n3"}


@pytest.fixture
def master(tmp_path: Path) -> Iterator[Master]:
    """n3 has an instance, and the mirror of another one."""
    opened = Master(tmp_path, fleet(), mirrored(("n3", "n4"), ("n5", "n3")))
    yield opened
    opened.close()


def test_every_test_of_the_table_is_there() -> None:
    rows = re.findall(r"^    (test_\w+)$", __doc__, re.M)
    text = "".join(file.read_text() for file in Path(__file__).parents[1].rglob("test_*.py"))
    assert len(rows) > 30
    assert [name for name in rows if f"\ndef {name}(" not in text] == []


# Of machines and schedules.


def test_a_machine_keeps_its_mode_in_another_window(master: Master) -> None:
    assert master.schedule(window(M1), window(M2)) == 200
    assert master.down(M1) == 200
    assert master.schedule(window(M2), window(M3, M1)) == 200
    assert master.modes == ([M2, M3], [M1])
    assert master.schedule(window(M1, start=7, duration=1)) == 200, "whatever its interval"
    assert master.modes == ([], [M1])


def test_a_machine_twice_in_a_list_is_told_so(master: Master) -> None:
    assert master.schedule(window(M1)) == 200
    assert master.why(DOWN, [M1, M1]) == "machine Machine1 is in the list more than once"


@pytest.mark.parametrize("path", [SCHEDULE, STATUS, f"/1{SCHEDULE}", f"/1{STATUS}"])
def test_a_slash_at_the_end(master: Master, path: str) -> None:
    assert master.schedule(window(M1)) == 200
    assert master.get(f"{path}/") == master.get(path)
    assert master.code(f"{DOWN}/", [M1]) == 200


@pytest.mark.parametrize("path", [SCHEDULE, STATUS])
def test_jsonp_is_no_script(master: Master, path: str) -> None:
    """A page elsewhere could have it run, with whatever credentials the browser has."""
    assert master.schedule(window(M1)) == 200
    status, headers, body = master.ask("GET", f"{path}?jsonp=evil")
    assert headers["content-type"].startswith("application/json")
    assert b"evil" not in body
    assert status != 200 or json.loads(body)
    assert master.ask("GET", path, headers={"Origin": "https://evil.example"})[0] == 403


def test_who_is_not_the_leader_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends with exit 11; until it is gone it says that it cannot, and at most that."""
    monkeypatch.setattr(daemon, "ANSWER_WITHIN", 0.2)
    master = Master(tmp_path)
    assert master.schedule(window(M1)) == 200
    master.rig.cluster.set_master("n2")
    for path, body in ((SCHEDULE, {}), (DOWN, [M1])):
        status, _, text = master.ask("POST", path, body)
        assert status == 503
        assert json.loads(text)["error"]
    assert master.windows == [[M1]]
    assert master.modes == ([M1], [])
    with pytest.raises(NotMaster):
        master.close()


def _cannot_be_known(_: Rig) -> None:
    raise Unavailable("Ganeti does not answer")


def test_no_round_could_be_held_yet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemon, "ANSWER_WITHIN", 0.2)
    monkeypatch.setattr(Rig, "_check_master", _cannot_be_known)
    master = Master(tmp_path)
    for path in (SCHEDULE, STATUS):
        assert master.ask("GET", path)[0] == 503
    assert master.ask("POST", SCHEDULE, schedule(window(M1)))[0] == 503
    master.close()


# Of who may.


@pytest.mark.parametrize("before", ["", "/1"])
def test_get_maintenance_status_and_start_and_stop(master: Master, before: str) -> None:
    """MasterAPITest.GetMaintenanceStatus and .StartAndStopMaintenance."""
    assert master.code(before + SCHEDULE, schedule(window(M1, M2))) == 200
    assert master.get(before + STATUS, BLIND) == {}
    for nobody in (SECOND, BLIND):
        assert master.code(before + DOWN, [M1], nobody) == 403
    assert master.code(before + DOWN, [M1]) == 200
    for nobody in (SECOND, BLIND):
        assert master.code(before + UP, [M1], nobody) == 403
    assert master.get(before + STATUS) == {
        "draining_machines": [{"id": M2}],
        "down_machines": [M1],
    }
    assert master.code(before + UP, [M1]) == 200
    assert master.get(before + STATUS) == {"draining_machines": [{"id": M2}]}


@pytest.mark.parametrize(
    "action",
    [
        pytest.param(("GET", SCHEDULE, None), id="get_maintenance_schedules"),
        pytest.param(("GET", STATUS, None), id="get_maintenance_statuses"),
        pytest.param(("POST", SCHEDULE, schedule(window(M1, M2, M3))), id="update_maintenance"),
        pytest.param(("POST", DOWN, [M1]), id="start_maintenances"),
        pytest.param(("POST", UP, [M2]), id="stop_maintenances"),
    ],
)
def test_authorization(master: Master, action: tuple[str, str, object]) -> None:
    """AuthorizationTest: one is allowed by name, everybody else is not.

    Of what is refused there, `machines=["yoda"]`, nothing is like ours: a user has no machines.
    """
    method, path, body = action
    assert master.schedule(window(M1, M2)) == 200
    assert master.down(M2) == 200
    before = master.modes
    status, _, text = master.ask(method, path, body, BLIND)
    if method == "GET":
        assert (status, json.loads(text)) == (200, {})
    else:
        assert status == 403
    assert master.modes == before
    status, _, text = master.ask(method, path, body, FIRST)
    assert status == 200
    assert (master.modes != before) == (method == "POST")


# Of machines that go down and come up.


def held_by(master: Master, node: str) -> list[str]:
    instances = master.rig.cluster.instances.values()
    return [one.name for one in instances if node in (one.primary, one.secondary)]


def test_enter_maintenance_mode(master: Master) -> None:
    """Mesos kills what runs there; here it has left before, and runs on."""
    assert master.schedule(window(N3)) == 200
    assert master.down(N3) == 200
    master.live.tick(60, times=8)
    cluster = master.rig.cluster
    assert cluster.nodes["n3"].offline
    assert held_by(master, "n3") == []
    assert {one.name: one.running for one in cluster.instances.values()} == {"i1": True, "i2": True}
    cluster.put(replace(cluster.nodes["n6"], drained=True))
    assert master.schedule(window(N3), window({"hostname": "n4"})) == 200
    master.live.tick(60, times=8)
    assert held_by(master, "n3") == [], "and nothing comes while it is down"
    assert master.up(N3) == 200
    master.live.tick(60, times=4)
    assert cluster.nodes["n3"].in_service


@pytest.mark.parametrize("after", range(5))
def test_a_node_that_is_cut_off_while_it_goes_down(master: Master, after: int) -> None:
    """Its agent is silent from some moment on: nothing is moved twice, all is in one place."""
    assert master.schedule(window(N3)) == 200
    assert master.down(N3) == 200
    master.live.tick(10, times=after)
    master.rig.agents.says["n3"] = None
    master.live.tick(60, times=6)
    jobs = [str(job.action) for job in master.rig.cluster.jobs.values()]
    assert len(set(jobs)) == len(jobs), "nothing is begun twice"
    assert master.modes == ([], [N3])
    del master.rig.agents.says["n3"]
    master.live.tick(60, times=8)
    assert master.rig.cluster.nodes["n3"].offline
    jobs = [str(job.action) for job in master.rig.cluster.jobs.values()]
    assert len(set(jobs)) == len(jobs)
    assert held_by(master, "n3") == []


@pytest.mark.parametrize("when", ["draining", "down", "emptying"])
def test_a_machine_that_is_gone(master: Master, when: str) -> None:
    """Somebody removes it from the cluster in the middle of its window."""
    assert master.schedule(window(N3, M1)) == 200
    if when != "draining":
        assert master.down(N3) == 200
    if when == "down":
        master.live.tick(60, times=8)
    cluster = master.rig.cluster
    for name in held_by(master, "n3"):
        cluster.remove_instance(name)
    cluster.remove_node("n3")
    master.live.tick(60, times=4)
    modes = ([N3, M1], []) if when == "draining" else ([M1], [N3])
    assert master.modes == modes
    assert [m["node"] for m in master.get("/1/windows")["windows"][0]["machines"]] == [None, None]
    if when != "draining":
        assert master.up(N3) == 200
    assert master.schedule(window(M1)) == 200
    master.live.tick(60, times=2)
    assert master.modes == ([M1], [])
