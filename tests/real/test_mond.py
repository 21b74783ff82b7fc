"""The same questions to the real ganeti-mond and to our front: the same shapes come back."""

import http.client
import json
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import pytest

from nodeagent.maintd.balancing.load import read_busy
from nodeagent.model.units import Ms
from tests import needs
from tests.ports import free_port
from tests.real.vcluster import LOAD, confd, lay_out, mond
from tests.web.live import agent, wait_for

pytestmark = [
    pytest.mark.story,
    needs.mark("root", "mond", "confd"),
]


@pytest.fixture(scope="module")
def ports() -> Iterator[tuple[int, int]]:
    """Ours and theirs, once both have an average."""
    with tempfile.TemporaryDirectory() as folder, agent() as ours:
        environment, port = lay_out(folder), free_port()
        with confd(environment), mond(environment, port):
            wait_for(lambda: b"cpu_total" in ours.get(LOAD).body, ours)
            deadline = time.monotonic() + 60
            while b"cpu_total" not in ask(port, LOAD)[1]:
                assert time.monotonic() < deadline
                time.sleep(0.5)
            yield ours.port, port


def ask(port: int, target: str, method: str = "GET") -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request(method, target)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def shape(value: Any) -> Any:
    """Members in their order and JSON types; a list is as its first item."""
    if isinstance(value, dict):
        return {key: shape(item) for key, item in value.items()}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return "number" if type(value) in (int, float) else type(value).__name__


@pytest.mark.parametrize(
    "target", [LOAD, f"{LOAD}/more", f"{LOAD}?verbose=1", "/1/list/collectors"]
)
def test_members_and_types_are_mond_s(ports: tuple[int, int], target: str) -> None:
    (ours, said), (theirs, heard) = (ask(port, target) for port in ports)
    assert ours == theirs == 200
    one, other = json.loads(said), json.loads(heard)
    assert shape(one) == shape(other)
    if isinstance(one, dict):
        assert list(one) == list(other), "in mond's order"
        same = ("name", "version", "format_version", "category", "kind")
        assert [one[key] for key in same] == [other[key] for key in same]
        assert type(one["timestamp"]) is type(other["timestamp"]) is int
        assert abs(one["timestamp"] - other["timestamp"]) < 30 * 10**9, "both in nanoseconds"
        assert one["data"]["cpu_number"] == other["data"]["cpu_number"]


def test_the_load_itself_is_about_mond_s(ports: tuple[int, int]) -> None:
    ours, theirs = (json.loads(ask(port, LOAD)[1])["data"] for port in ports)
    for data in (ours, theirs):
        assert sum(data["cpus"]) == pytest.approx(data["cpu_total"], abs=0.1)
        assert 0 <= data["cpu_total"] <= data["cpu_number"] + 0.1


def test_collectors_of_the_same_name_are_listed_the_same(ports: tuple[int, int]) -> None:
    ours, theirs = (
        {row[0]: row for row in json.loads(ask(p, "/1/list/collectors")[1])} for p in ports
    )
    common = ours.keys() & theirs.keys()
    assert {"cpu-avg-load", "diskstats"} <= common
    assert {name: ours[name] for name in common} == {name: theirs[name] for name in common}


@pytest.mark.parametrize(
    "target",
    [
        "/",
        "/1",
        "/1/",
        "/foo",
        "/2",
        "/1/foo",
        "/1/list",
        "/1/report",
        "/1/report/storage",
        "/1/report/default/absent",
        "/1/report/Default/cpu-avg-load",
        "/1/report/collector/cpu-avg-load",
        "//1/list/collectors",
        "/1/list/collectors/foo",
        "/1/report/default/cpu%2Davg%2Dload",
    ],
)
def test_status_and_text_are_mond_s(ports: tuple[int, int], target: str) -> None:
    (ours, said), (theirs, heard) = (ask(port, target) for port in ports)
    assert ours == theirs
    if ours == 404 or len(heard) < 10:
        assert said == heard
    else:
        assert shape(json.loads(said)) == shape(json.loads(heard))


@pytest.mark.parametrize("target", ["/", LOAD, "/foo"])
def test_head_is_not_found_as_with_mond(ports: tuple[int, int], target: str) -> None:
    (ours, said), (theirs, heard) = (ask(port, target, "HEAD") for port in ports)
    assert (ours, said) == (theirs, heard) == (404, b"")


def test_diskstats_of_this_kernel_work_here_where_mond_s_may_not(ports: tuple[int, int]) -> None:
    (ours, said), (theirs, heard) = (ask(port, "/1/report/storage/diskstats") for port in ports)
    assert ours == 200
    rows = json.loads(said)["data"]
    if theirs == 200:
        assert shape(rows) == shape(json.loads(heard)["data"])
    else:
        assert theirs == 500, "its parser wants fourteen columns"
    assert ask(ports[0], "/1/report/all")[0] == 200


def test_a_collector_that_fails_is_an_error_in_its_own_data_only(ports: tuple[int, int]) -> None:
    everything = json.loads(ask(ports[0], "/1/report/all")[1])
    assert [row["name"] for row in everything] == [
        "cpu-avg-load",
        "diskstats",
        "kvm-inst-rss",
        "diagnose",
    ]


def test_either_is_what_balancing_measures_by(ports: tuple[int, int]) -> None:
    for port in ports:
        body = ask(port, LOAD)[1]
        total = json.loads(body)["data"]["cpu_total"]
        assert read_busy(body, Ms(time.time_ns() // 1_000_000)) == total
