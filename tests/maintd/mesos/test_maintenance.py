"""Mesos' maintenance endpoints over real HTTP: who may what, what is told, and what outlives us.

The rules of schedules and modes are in `windows/test_schedule.py`, what is read in
`windows/test_mesos.py`. Tests have the names of master_maintenance_tests.cpp where it has them.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodeagent.errors import NotMaster
from nodeagent.maintd.engine import daemon
from nodeagent.model.asked import Asked
from nodeagent.model.units import Nanoseconds
from nodeagent.model.window import Machine, Schedule, Unavailability, Window
from nodeagent.model.wish import SetSchedule
from tests.maintd.mesos.client import BLIND, M1, M2, SECOND, Master, schedule, window

SCHEDULE, STATUS, DOWN, UP = (
    "/maintenance/schedule",
    "/maintenance/status",
    "/machine/down",
    "/machine/up",
)


@pytest.fixture
def master(tmp_path: Path) -> Iterator[Master]:
    opened = Master(tmp_path)
    yield opened
    opened.close()


@pytest.mark.parametrize("before", ["", "/1"])
def test_get_maintenance_status_and_start_and_stop(master: Master, before: str) -> None:
    """MasterAPITest.GetMaintenanceStatus and .StartAndStopMaintenance."""
    assert master.code(before + SCHEDULE, schedule(window(M1, M2))) == 200
    for path in (SCHEDULE, STATUS):
        assert master.get(before + path, BLIND) == {}
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
    assert master.get(before + SCHEDULE) == schedule(window(M2))


def test_who_may_not_schedule_cannot_cancel_either(master: Master) -> None:
    """Mesos asks only of the machines in the new schedule, of which `{}` has none."""
    assert master.schedule(window(M1)) == 200
    for nobody in (SECOND, BLIND):
        for asked in ({}, schedule(window(M1, M2))):
            assert master.code(SCHEDULE, asked, nobody) == 403
    assert master.modes == ([M1], [])


def test_a_change_may_be_bound_to_what_was_read(master: Master) -> None:
    status, headers, _ = master.ask("GET", SCHEDULE)
    seen = {"If-Match": headers["etag"]}
    status, headers, _ = master.ask("POST", SCHEDULE, schedule(window(M1)), headers=seen)
    assert status == 200
    now = {"If-Match": f'"other", {headers["etag"]}'}
    assert master.ask("POST", SCHEDULE, schedule(window(M2)), headers=seen)[0] == 412
    assert master.ask("POST", DOWN, [M1], headers=seen)[0] == 412
    assert master.windows == [[M1]]
    assert master.ask("POST", SCHEDULE, schedule(window(M2)), headers=now)[0] == 200
    assert master.ask("POST", SCHEDULE, {}, headers={"If-Match": "*"})[0] == 200
    assert master.ask("POST", SCHEDULE, {}, headers={"If-Match": "none"})[0] == 400


def test_an_answer_has_the_version_that_its_author_has_posted(
    master: Master, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else its author would overwrite the change of somebody who was just behind it, unseen."""
    maintd = master.live.maintd
    ask, others = maintd.ask, Schedule((Window((Machine("n2"),), Unavailability(Nanoseconds(1))),))

    async def overtaken(asked: Asked, who: str, command: str = "") -> str:
        answer = await ask(asked, who, command)
        await ask(SetSchedule(others), "bob")
        return answer

    monkeypatch.setattr(maintd, "ask", overtaken)
    status, headers, _ = master.ask("POST", SCHEDULE, schedule(window(M1)))
    assert status == 200
    monkeypatch.setattr(maintd, "ask", ask)
    mine = {"If-Match": headers["etag"]}
    assert master.ask("POST", SCHEDULE, schedule(window(M1, M2)), headers=mine)[0] == 412
    assert master.windows == [[{"hostname": "n2"}]]


@pytest.mark.parametrize(
    ("method", "path", "status", "allow"),
    [
        ("POST", "/maintenance/status", 405, b"Allow: GET\r\n"),
        ("PUT", SCHEDULE, 405, b"Allow: GET, POST\r\n"),
        ("PATCH", "/machine/up", 405, b"Allow: POST\r\n"),
        ("POST", SCHEDULE, 400, b""),
        ("POST", "/1/queue/disable", 200, b""),
        ("POST", "/1/queue", 400, b""),
    ],
)
def test_a_request_without_a_body_need_not_say_so(
    master: Master, method: str, path: str, status: int, allow: bytes
) -> None:
    said = master.bare(method, path)
    assert said.startswith(b"HTTP/1.1 %d " % status), said
    assert allow in said
    assert master.bare(method, path, user=None).startswith(b"HTTP/1.1 401 ")


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
    master = Master(tmp_path)
    assert master.schedule(window(M1)) == 200
    monkeypatch.setattr(daemon, "ANSWER_WITHIN", 0.2)
    master.rig.cluster.set_master("n2")
    for path, body in ((SCHEDULE, {}), (DOWN, [M1])):
        status, _, text = master.ask("POST", path, body)
        assert status == 503
        assert json.loads(text)["error"]
    assert master.windows == [[M1]]
    assert master.modes == ([M1], [])
    with pytest.raises(NotMaster):
        master.close()
