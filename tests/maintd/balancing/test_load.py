"""Load: read from reports, shared out among instances, smoothed; and doubt where there is any."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from nodeagent.errors import MessageError
from nodeagent.maintd.balancing.load import (
    GAP,
    LONG_ENOUGH,
    Meter,
    Sample,
    Smooth,
    read_busy,
    read_own,
    read_resident,
)
from nodeagent.model.snapshot import Snapshot
from nodeagent.model.units import Ms
from tests.maintd.world import NOW, instance, node, snapshot

NODES = ("n1", "n2")
EVERY = 60_000


def world(**changes: Any) -> Snapshot:
    """a and b run on n1, c on n2, d is stopped there."""
    there = snapshot(node("n1"), node("n2"))
    parts = {
        "a": instance("a", "n1", "n2", vcpus=3, memory=1024),
        "b": instance("b", "n1", "n2", vcpus=1, memory=1024),
        "c": instance("c", "n2", "n1", vcpus=2, memory=2048),
        "d": instance("d", "n2", "n1", vcpus=2, memory=2048, running=False),
    }
    return replace(there, instances={**parts, **changes})


def measured(
    minutes: int, said: Mapping[str, Sample | str], seen: Snapshot | None = None
) -> tuple[Meter, int]:
    """The meter after so many minutes of the same, and what time it is then."""
    meter, now = Meter(), NOW
    for _ in range(minutes + 1):
        now += EVERY
        meter = meter.take(said, seen or world(), now)
    return meter, now


STEADY = {"n1": Sample(4.0), "n2": Sample(1.0)}


def test_a_node_s_load_is_its_running_instances() -> None:
    meter, now = measured(5, STEADY)
    loads = meter.loads(NODES, world(), Ms(now))
    assert isinstance(loads, dict)
    assert {name: load.cpu for name, load in loads.items()} == pytest.approx(
        {"a": 3.0, "b": 1.0, "c": 1.0, "d": 0.0}
    )
    assert {load[1:] for load in loads.values()} == {(1.0, 1.0, 1.0)}


def test_what_instances_use_themselves_is_theirs() -> None:
    """As Xen tells; the rest is the others'."""
    said = {"n1": Sample(4.0, own={"a": 0.5, "gone": 9.0}), "n2": Sample(1.0, own={"c": 2.5})}
    meter, now = measured(5, said)
    loads = meter.loads(NODES, world(), Ms(now))
    assert isinstance(loads, dict)
    assert {name: load.cpu for name, load in loads.items()} == pytest.approx(
        {"a": 0.5, "b": 3.5, "c": 2.5, "d": 0.0}
    )


def test_memory_counts_where_it_is_known_of_all_that_run() -> None:
    said = {
        "n1": Sample(1.0, resident={"a": 1024.0, "b": 512.0}),
        "n2": Sample(1.0, resident={"c": 1024.0}),
    }
    meter, now = measured(5, said)
    loads = meter.loads(NODES, world(), Ms(now))
    assert isinstance(loads, dict)
    # 4096 MiB are allotted on two nodes: what one of them has on average is 1.
    assert {name: load.memory for name, load in loads.items()} == pytest.approx(
        {"a": 0.5, "b": 0.25, "c": 0.5, "d": 0.0}
    )
    meter, now = measured(5, {**said, "n2": Sample(1.0)})
    loads = meter.loads(NODES, world(), Ms(now))
    assert isinstance(loads, dict)
    assert {load.memory for load in loads.values()} == {1.0}


def test_load_goes_with_its_instance() -> None:
    meter, now = measured(5, STEADY)
    moved = world(a=replace(world().instances["a"], primary="n2", secondary="n1"))
    meter = meter.take({"n1": Sample(1.0), "n2": Sample(4.0)}, moved, Ms(now + 1))
    loads = meter.loads(NODES, moved, Ms(now + 1))
    assert isinstance(loads, dict)
    assert loads["a"].cpu == pytest.approx(3.0, rel=0.01)


# Doubt.


@pytest.mark.parametrize(
    ("said", "minutes", "later", "doubt"),
    [
        ({"n1": Sample(1.0)}, 9, 0, "the load of n2 is unknown"),
        ({**STEADY, "n2": "silent"}, 9, 0, "the load of n2 is unknown: silent"),
        (STEADY, 4, 0, "the load of n1 is measured for 60 s more"),
        (STEADY, 9, GAP + 1, "the load of n1 is unknown"),
    ],
)
def test_doubt_is_named(
    said: Mapping[str, Sample | str], minutes: int, later: int, doubt: str
) -> None:
    meter, now = measured(minutes, said)
    assert meter.loads(NODES, world(), Ms(now + later)) == doubt


def test_after_a_gap_everything_begins_anew() -> None:
    meter, now = measured(20, STEADY)
    late = now + GAP + 1
    meter = meter.take({"n1": Sample(8.0), "n2": Sample(8.0)}, world(), Ms(late))
    assert meter.loads(NODES, world(), Ms(late)) == "the load of n1 is measured for 300 s more"
    meter = meter.take({"n1": Sample(8.0), "n2": Sample(8.0)}, world(), Ms(late + LONG_ENOUGH))
    loads = meter.loads(NODES, world(), Ms(late + LONG_ENOUGH))
    assert isinstance(loads, dict)
    assert loads["c"].cpu == pytest.approx(8.0), "what was before it counts no more"


def test_one_missed_measurement_is_no_gap() -> None:
    meter, now = measured(9, STEADY)
    meter = meter.take({**STEADY, "n2": "silent"}, world(), Ms(now + EVERY))
    assert isinstance(meter.loads(NODES, world(), Ms(now + EVERY)), str), "but doubt now"
    meter = meter.take(STEADY, world(), Ms(now + 2 * EVERY))
    assert isinstance(meter.loads(NODES, world(), Ms(now + 2 * EVERY)), dict)


def test_a_clock_put_back_begins_anew() -> None:
    meter, now = measured(9, STEADY)
    meter = meter.take(STEADY, world(), Ms(now - 10**7))
    doubt = "the load of n1 is measured for 300 s more"
    assert meter.loads(NODES, world(), Ms(now - 10**7)) == doubt


# Smoothing.


def test_a_peak_of_a_minute_is_a_tenth() -> None:
    peak = Smooth(0.0, NOW).after(10.0, NOW + 60_000)
    assert peak.value == pytest.approx(0.95, abs=0.01)


# Reports.


def report(name: str, data: object, at: int = NOW) -> bytes:
    """As mond 3.0.2 and our agents write them."""
    return json.dumps(
        {
            "name": name,
            "version": "B",
            "format_version": 1,
            "timestamp": at * 1_000_000,
            "category": None,
            "kind": 0,
            "data": data,
        }
    ).encode()


def test_reports_of_a_mond_and_of_our_agents() -> None:
    cpu = {"cpu_number": 2, "cpus": [0.041, 0.5], "cpu_total": 5.41e-1}
    assert read_busy(report("cpu-avg-load", cpu), NOW) == 0.541
    assert read_own(report("xen-cpu-avg-load", {"web": 0.25}), NOW) == {"web": 0.25}
    assert read_resident(report("kvm-inst-rss", {"web": 256}), NOW) == {"web": 1.0}


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "its report is not JSON"),
        (b"[" * 100_000, "its report is not JSON"),
        (b"[]", "its report is not one of cpu-avg-load"),
        (report("diskstats", {}), "its report is not one of cpu-avg-load"),
        (report("cpu-avg-load", {"error": "Empty buffer"}), "it says: Empty buffer"),
        (report("cpu-avg-load", None), "its report has a number that cannot be"),
        (report("cpu-avg-load", {"cpu_total": -1}), "its report has a number that cannot be"),
        (report("cpu-avg-load", {"cpu_total": True}), "its report has a number that cannot be"),
        (report("cpu-avg-load", {"cpu_total": 1e9}), "its report has a number that cannot be"),
        (report("cpu-avg-load", {"cpu_total": "1"}), "its report has a number that cannot be"),
        (report("cpu-avg-load", {"cpu_total": float("nan")}), "a number that cannot be"),
        (report("cpu-avg-load", {"cpu_total": 1}, NOW - 200_000), "its report is 200 s old"),
        (report("cpu-avg-load", {"cpu_total": 1}, NOW + 200_000), "its report is -200 s old"),
        (b'{"name": "cpu-avg-load", "data": {}}', "its report has no time"),
    ],
)
def test_what_cannot_be_read_is_no_load(body: bytes, why: str) -> None:
    with pytest.raises(MessageError, match=why.replace("(", r"\(")):
        read_busy(body, NOW)
