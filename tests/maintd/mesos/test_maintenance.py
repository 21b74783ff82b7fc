"""Mesos' own tests of its maintenance primitives, and its faults, against our endpoints.

Named after master_maintenance_tests.cpp and registrar_tests.cpp, whose fixture is in `mesos`.
"""

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests import needs
from tests.maintd.mesos.client import (
    BLIND,
    FIRST,
    M1,
    M2,
    M3,
    NOW_NS,
    SECOND,
    Master,
    named,
    schedule,
    window,
)
from tests.maintd.rig import fleet

SECOND_NS = 10**9
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


def test_update_schedule(master: Master) -> None:
    assert master.schedule(window(M1)) == 200
    assert master.windows == [[{"hostname": "Machine1"}]]
    for wrong, why in (
        (schedule(window()), "window 1 has no machine"),
        (
            schedule(window(M1, duration=-10 * SECOND_NS)),
            "window 1 (Machine1) has a negative duration",
        ),
        (
            schedule(window(M1), window(M1)),
            "machine Machine1 is in the schedule more than once, and it is in one window at a time:"
            " move that with gnt-maint window edit Machine1 --start TIME, or take the machine out"
            " of it with gnt-maint window cancel Machine1",
        ),
        (schedule(window({})), "machine 1 of window 1 has neither hostname nor ip"),
        (
            schedule(window(M1), window(M2, {"ip": None})),
            "machine 2 of window 2 has neither hostname nor ip",
        ),
    ):
        assert master.why(SCHEDULE, wrong) == why
        assert master.windows == [[M1]], "nothing of it was done"
    assert master.schedule(window(M1, start=-10 * SECOND_NS)) == 200
    assert master.schedule(window(M1, M2)) == 200
    assert master.schedule() == 200
    assert master.get(SCHEDULE) == {}


def test_fail_to_unschedule_deactivated_machines(master: Master) -> None:
    assert master.schedule(window(M1, M2)) == 200
    assert master.down(M1) == 200
    assert "machine Machine1 is down" in master.why(SCHEDULE, schedule(window(M2)))
    assert master.code(SCHEDULE, {}) == 400
    assert master.up(M1) == 200
    assert master.schedule(window(M2)) == 200


def test_bring_down_machines(master: Master) -> None:
    assert master.down(M1, M2) == 400
    assert master.down() == 400
    assert master.why(DOWN, [M1, {}]) == "machine 2 of the list has neither hostname nor ip"
    assert master.schedule(window(M1, M2)) == 200
    assert master.down(M1, user=SECOND) == 403
    assert master.down(M1) == 200
    assert "is down, and must be draining" in master.why(DOWN, [M1])
    assert master.down(M1, M2) == 400
    assert master.modes == ([M2], [M1]), "all of it or nothing"
    assert master.down(M2) == 200


def test_bring_up_machines(master: Master) -> None:
    assert master.up(M1, M2) == 400
    assert master.schedule(window(M1, M2), window(M3)) == 200
    assert "is draining, and must be down" in master.why(UP, [M1, M2])
    assert master.down(M3) == 200
    assert master.up(M3, user=SECOND) == 403
    assert master.up(M3) == 200
    assert master.windows == [[M1, M2]]
    assert master.down(M1, M2) == 200
    assert master.up(M1, M2) == 200
    assert master.get(SCHEDULE) == {}


def test_machine_status(master: Master) -> None:
    assert master.schedule(window(M1, M2)) == 200
    assert master.get(STATUS, BLIND) == {}
    assert master.get(SCHEDULE, BLIND) == {}
    assert master.modes == ([M1, M2], [])
    assert master.down(M1) == 200
    assert master.modes == ([M2], [M1])
    assert master.up(M1) == 200
    assert master.modes == ([M2], [])


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", SCHEDULE),
        ("POST", SCHEDULE),
        ("POST", UP),
        ("POST", DOWN),
        ("GET", STATUS),
    ],
)
def test_endpoints_bad_authentication(master: Master, method: str, path: str) -> None:
    body = b"not looked at" if method == "POST" else None
    for before in ("", "/1"):
        for user in (None, ("alice", "wrong"), ("badPrincipal", "badSecret")):
            status, headers, _ = master.ask(method, before + path, user=user, raw=body)
            assert status == 401
            assert headers["www-authenticate"].startswith("Basic ")


def test_registrar_update_maintenance_schedule(tmp_path: Path) -> None:
    master = Master(tmp_path)
    for windows in (
        [[M1]],
        [[M1], [M2]],
        [[M1], [M2, M3]],
        [[M1, M2, M3]],
        [[M2, M3]],
        [],
    ):
        assert master.schedule(*(window(*machines) for machines in windows)) == 200
        master = master.reopened()
        assert master.windows == windows
        everyone = [machine for machines in windows for machine in machines]
        assert sorted(map(str, master.modes[0])) == sorted(map(str, everyone))
    master.close()


def test_registrar_start_maintenance(tmp_path: Path) -> None:
    master = Master(tmp_path)
    assert master.schedule(window(M1, M2)) == 200
    assert master.down(M2) == 200
    master = master.reopened()
    assert master.modes == ([M1], [M2])
    assert master.schedule(window(M1, M2, M3)) == 200
    assert master.down(M1, M3) == 200
    master = master.reopened()
    assert master.modes == ([], [M1, M2, M3])
    master.close()


def test_registrar_stop_maintenance(tmp_path: Path) -> None:
    master = Master(tmp_path)
    assert master.schedule(window(M1, M2), window(M3)) == 200
    assert master.down(M3) == 200
    assert master.up(M3) == 200
    master = master.reopened()
    assert (master.windows, master.modes) == ([[M1, M2]], ([M1, M2], []))
    assert master.down(M1, M2) == 200
    assert master.up(M1, M2) == 200
    master = master.reopened()
    assert (master.windows, master.modes) == ([], ([], []))
    master.close()


def test_update_and_get_maintenance_schedule_by_who_may_not(master: Master) -> None:
    assert master.code(SCHEDULE, schedule(window(M1, M2)), SECOND) == 403
    assert master.get(SCHEDULE) == {}
    assert master.schedule(window(M1, M2)) == 200
    assert master.windows == [[M1, M2]], "in their order"


# What Mesos does not test.


NO_ADDRESSES = ["10.0.0", "10.0.0.256", "010.0.0.1", "1.2.3.4/24", "1.2.3.4 ", "fe80::1%eth0"]


@pytest.mark.parametrize("ip", [*NO_ADDRESSES, "[2001:db8::1]", "2001::db8::1", "2001:db8::1/64"])
def test_what_is_no_address(master: Master, ip: str) -> None:
    assert "its ip is not an IP address" in master.why(SCHEDULE, schedule(window({"ip": ip})))


@pytest.mark.parametrize(
    ("ip", "form"),
    [
        ("2001:DB8::3", "2001:db8::3"),
        ("2001:db8:0::3", "2001:db8::3"),
        ("2001:0db8::0003", "2001:db8::3"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
    ],
)
def test_an_address_has_one_form_and_that_is_told(master: Master, ip: str, form: str) -> None:
    why = master.why(SCHEDULE, schedule(window({"ip": ip})))
    assert f"its ip must be written {form}" in why


def test_a_node_is_named_by_its_ipv6_address(tmp_path: Path) -> None:
    nodes = [replace(n, address="2001:db8::3") if n.name == "n3" else n for n in fleet()]
    master = Master(tmp_path, nodes)
    try:
        assert master.schedule(window({"ip": "2001:db8::3"}, {"ip": "2001:db8::99"})) == 200
        twice = window({"ip": "2001:db8::3"}, {"hostname": "n3"})
        assert "as 2001:db8::3 already" in master.why(SCHEDULE, schedule(twice))
        wrong = {"hostname": "n4", "ip": "2001:db8::3"}
        assert "n4 has the address" in master.why(SCHEDULE, schedule(window(wrong)))
        assert master.ask("POST", "/machine/down", [{"ip": "2001:db8::3"}])[0] == 200
        assert master.get("/maintenance/status")["down_machines"] == [{"ip": "2001:db8::3"}]
        nodes_there = master.get("/1/windows")["windows"][0]["machines"]
        assert [one["node"] for one in nodes_there] == ["n3", None]
    finally:
        master.close()


def test_the_case_of_a_host_name_tells_nobody_apart_and_is_kept(master: Master) -> None:
    twice = schedule(window({"hostname": "HOST"}), window({"hostname": "host"}))
    assert "machine host is in the schedule more than once" in master.why(SCHEDULE, twice)
    assert master.schedule(window({"hostname": "Host"})) == 200
    assert master.down({"hostname": "hOST"}) == 200
    assert master.modes == ([], [{"hostname": "Host"}])


def test_an_absent_member_is_an_empty_one(master: Master) -> None:
    twice = schedule(window(M1, {"hostname": "machine1", "ip": ""}))
    assert master.code(SCHEDULE, twice) == 400
    assert master.schedule(window({"hostname": "Machine1", "ip": None})) == 200
    assert master.windows == [[M1]]


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "empty"),
        (b"{", "JSON"),
        (b"[]", "the schedule must be a JSON object"),
        (b'{"windows": {}}', "windows must be a list"),
        (b'{"windows": [{"machine_ids": []}]}', "windows[0].unavailability is missing"),
        (
            b'{"windows": [{"unavailability": {}}]}',
            "windows[0].unavailability.start is missing",
        ),
        (
            b'{"windows": [{"unavailability": {"start": {}}}]}',
            "windows[0].unavailability.start.nanoseconds is missing",
        ),
        (
            b'{"windows": [{"unavailability": {"start": {"nanoseconds": 1.5}}}]}',
            "start.nanoseconds is",
        ),
        (
            b'{"windows": [{"unavailability": {"start": {"nanoseconds": 9223372036854775808}}}]}',
            "start.nanoseconds is",
        ),
        (
            b'{"windows": [{"unavailability": {"start": {"nanoseconds": true}}}]}',
            "start.nanoseconds is",
        ),
        (b'{"windows": [{"machine_ids": [7]}]}', "windows[0].machine_ids[0] must be an object"),
    ],
)
def test_a_schedule_that_cannot_be_read(master: Master, body: bytes, why: str) -> None:
    status, _, text = master.ask("POST", SCHEDULE, raw=body)
    assert status == 400
    assert why in json.loads(text)["error"]
    assert master.get(SCHEDULE) == {}


def test_what_is_read_as_mesos_reads_it(master: Master) -> None:
    start = {"nanoseconds": str(NOW_NS + 1)}
    row = {"machine_ids": [{**M1, "port": 5051}], "unavailability": {"start": start}, "x": 1}
    row["unavailability"]["duration"] = None  # type: ignore[index]
    assert master.code(SCHEDULE, {"windows": [row], "unknown": {}}) == 200
    assert master.get(SCHEDULE) == schedule(window(M1, start=NOW_NS + 1)), "to the nanosecond"


@pytest.mark.parametrize("body", [b"{}", b"7", b"[[]]", b'[{"hostname": 7}]'])
def test_a_list_of_machines_that_cannot_be_read(master: Master, body: bytes) -> None:
    assert master.ask("POST", DOWN, raw=body)[0] == 400
    assert master.ask("POST", UP, raw=body)[0] == 400


def test_another_method_is_told_which_there_are(master: Master) -> None:
    for path, allowed in ((SCHEDULE, "GET, POST"), (STATUS, "GET"), (DOWN, "POST"), (UP, "POST")):
        status, headers, _ = master.ask("PUT", path, {})
        assert (status, headers["allow"]) == (405, allowed)
        for nobody in (None, ("alice", "wrong")):
            status, headers, _ = master.ask("PUT", path, {}, nobody)
            assert (status, "www-authenticate" in headers, headers.get("allow")) == (
                401,
                True,
                None,
            )


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


def test_what_is_wrong_comes_before_who_may_not(master: Master) -> None:
    assert master.code(SCHEDULE, schedule(window({})), SECOND) == 400
    assert master.schedule(window(M1)) == 200
    assert master.code(DOWN, [M1, M2], SECOND) == 403, "the first machine decides"
    assert master.code(DOWN, [M2, M1], SECOND) == 400
    assert master.code(DOWN, [M1, M1], SECOND) == 400, "but the list as a whole comes first"


def test_who_may_not_schedule_cannot_cancel_either(master: Master) -> None:
    """Mesos asks only of the machines in the new schedule, of which `{}` has none."""
    assert master.schedule(window(M1)) == 200
    for nobody in (SECOND, BLIND):
        assert master.code(SCHEDULE, {}, nobody) == 403
    assert master.modes == ([M1], [])


def test_a_schedule_that_has_changed_since_is_not_overwritten(master: Master) -> None:
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


def test_each_endpoint_is_under_1_as_well(master: Master) -> None:
    assert master.code("/1/maintenance/schedule", schedule(window(M1))) == 200
    assert master.code("/1/machine/down", [M1]) == 200
    assert master.get("/1/maintenance/status") == {"down_machines": [M1]}
    assert master.code("/1/machine/up", [M1]) == 200
    assert master.get("/1/maintenance/schedule") == {}


def test_a_node_is_itself_however_it_is_spelt(master: Master) -> None:
    """Mesos takes a name alone, an address alone and both for three machines."""
    name, address = {"hostname": "n3"}, {"ip": "127.0.0.3"}
    assert "is in the schedule as n3 already" in master.why(
        SCHEDULE, schedule(window(name), window(address))
    )
    assert "the node n3 has the address 127.0.0.3" in master.why(
        SCHEDULE, schedule(window({**name, "ip": "127.0.0.4"}))
    )
    assert master.schedule(window(name)) == 200
    assert master.down(address) == 200
    assert master.schedule(window({**name, **address})) == 200, "it is still there"
    assert master.modes == ([], [{**name, **address}])


def test_the_calendar_tells_those_who_may_read(master: Master) -> None:
    assert master.schedule(window({"hostname": "n3"}, M1, duration=SECOND_NS)) == 200
    assert master.ask("GET", "/1/windows", user=None)[0] == 401
    told = master.get("/1/windows")
    (one,) = told["windows"]
    assert (one["start"], one["duration"]) == (NOW_NS / 1e9, 1.0)
    assert [machine["node"] for machine in one["machines"]] == ["n3", None]
    assert master.ask("GET", SCHEDULE)[1]["etag"] == f'"{told["version"]}"'


LINES = """
curl {url}/maintenance/schedule -u alice:secret
  -H "Content-type: application/json"
  -X POST
  -d @schedule.json
curl {url}/machine/down -u alice:secret
  -H "Content-type: application/json"
  -X POST
  -d @machines.json
curl {url}/machine/up -u alice:secret
  -H "Content-type: application/json"
  -X POST
  -d @machines.json
"""
THREE = {
    "windows": [
        {
            "machine_ids": [
                {"hostname": "machine1", "ip": "10.0.0.1"},
                {"hostname": "machine2", "ip": "10.0.0.2"},
            ],
            "unavailability": {
                "start": {"nanoseconds": 1443830400000000000},
                "duration": {"nanoseconds": 3600000000000},
            },
        },
        {
            "machine_ids": [{"hostname": "machine3", "ip": "10.0.0.3"}],
            "unavailability": {
                "start": {"nanoseconds": 1443834000000000000},
                "duration": {"nanoseconds": 3600000000000},
            },
        },
    ]
}


@needs.mark("curl")
def test_the_lines_of_mesos_own_guide_by_curl(master: Master) -> None:
    """Nothing is changed in them but the address and `-u`; the certificate is looked at."""
    url, certificate = master.live.over_tls(named())
    folder = master.folder
    (folder / "schedule.json").write_text(json.dumps(THREE))
    (folder / "machines.json").write_text(json.dumps(THREE["windows"][0]["machine_ids"]))
    (folder / ".curlrc").write_text("silent\nshow-error\nfail\n")
    environment = {"HOME": str(folder), "CURL_HOME": str(folder), "CURL_CA_BUNDLE": certificate}
    environment = {**os.environ, **environment}
    set_it, take_down, bring_up = (
        "curl" + " ".join(part.split("\n")) for part in LINES.format(url=url).split("curl")[1:]
    )

    def run(line: str) -> str:
        done = subprocess.run(
            ["/bin/sh", "-c", line], cwd=folder, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert run(set_it) == ""
    assert json.loads(run(f"curl {url}/maintenance/schedule -u alice:secret")) == THREE
    assert run(take_down) == ""
    status = json.loads(run(f"curl {url}/maintenance/status -u alice:secret"))
    assert status["down_machines"] == THREE["windows"][0]["machine_ids"]
    assert run(bring_up) == ""
    left = json.loads(run(f"curl {url}/maintenance/schedule -u alice:secret"))
    assert left == {"windows": THREE["windows"][1:]}
    assert master.ask("GET", STATUS, user=FIRST)[0] == 200


@needs.mark("curl")
def test_curl_that_asks_before_it_sends_a_body_is_told_to_go_on(master: Master) -> None:
    line = ["curl", "-qsk", "-u", "alice:secret", "-H", "Expect: 100-continue", "-d", "{}", "-i"]
    line += ["--expect100-timeout", "60", f"{master.url}{SCHEDULE}"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=30, check=True)
    heads = [line for line in done.stdout.splitlines() if line.startswith("HTTP/")]
    assert heads == ["HTTP/1.1 100 Continue", "HTTP/1.1 200 OK"]
