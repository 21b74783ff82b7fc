"""The load collectors and what serves them: shapes, hanging, failing, ageing."""

import json
import os
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from nodeagent.agent.collectors import Sampler
from nodeagent.agent.collectors.cpu import CpuAvgLoad
from nodeagent.agent.collectors.disk import Diskstats
from nodeagent.agent.collectors.kvm import KvmInstRss
from tests.patience import until


class Source:
    """A collector told what to do."""

    name = "source"
    category: str | None = "storage"

    def __init__(self) -> None:
        self.data: Any = [1]
        self.samples = 0
        self.error: Exception | None = None
        self.hang = threading.Event()
        self.hang.set()

    def sample(self) -> Any:
        self.hang.wait()
        self.samples += 1
        if self.error:
            raise self.error
        return self.data


def sampled(source: Source) -> Sampler:
    sampler = Sampler(source, every=0.01)
    sampler.start()
    return sampler


def wait_for(sampler: Sampler, part: bytes) -> None:
    until(lambda: part in sampler.text(), sampler.text)


def test_a_report_is_mond_s_with_the_last_sample() -> None:
    source = Source()
    sampler = sampled(source)
    wait_for(sampler, b'"data": [1]')
    source.data = [2]
    wait_for(sampler, b'"data": [2]')
    report = json.loads(sampler.text())
    assert list(report) == [
        *("name", "version", "format_version", "timestamp", "category", "kind", "data")
    ]
    assert (report["name"], report["category"], report["kind"]) == ("source", "storage", 0)
    assert abs(report["timestamp"] - time.time_ns()) < 5 * 10**9
    sampler.stop()


def test_a_failure_is_logged_when_it_begins_changes_or_comes_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    source = Source()
    sampler = sampled(source)
    wait_for(sampler, b'"data": [1]')
    for why in ("no such device", "no memory", None, "no memory"):
        source.error = OSError(why) if why else None
        wait_for(sampler, why.encode() if why else b'"data": [1]')
        several = source.samples + 5
        until(lambda: source.samples >= several)  # noqa: B023
    sampler.stop()
    whys = ["no such device", "no memory", "no memory"]
    said = [record.getMessage() for record in caplog.records]
    assert said == [f"collector-failed name=source why='OSError: {why}'" for why in whys]


def test_a_sample_that_has_grown_old_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    source = Source()
    sampler = sampled(source)
    wait_for(sampler, b'"data": [1]')
    source.hang.clear()
    clock = time.monotonic
    monkeypatch.setattr("nodeagent.agent.collectors.time.monotonic", lambda: clock() + 60)
    wait_for(sampler, b"source has hung for 6")
    monkeypatch.undo()
    source.hang.set()
    sampler.stop()


def test_cpu_load_forgets_what_is_older_than_its_window(tmp_path: Path) -> None:
    now, busy = 0.0, 0.0
    ticks = os.sysconf("SC_CLK_TCK")
    file = tmp_path / "stat"
    collector = CpuAvgLoad(lambda: now, str(file))
    for step in range(1000):  # an hour of guests' load, then an hour and more of none
        now += 5.0
        busy += 2.0 if step < 500 else 0.0
        user, idle = int(busy * ticks), int((now - busy) * ticks)
        row = f"{user} 0 0 {idle} 0 0 0 0 {user} 0\n"
        file.write_text(f"cpu  {row}cpu0 {row}intr 1\n")
        data = collector.sample()
        if step == 499:
            assert data["cpu_total"] == pytest.approx(0.4), "guest time is not counted twice"
    assert data["cpu_total"] == 0.0


def test_cpu_load_counts_all_but_idle_time_of_each_processor(tmp_path: Path) -> None:
    ticks, now = os.sysconf("SC_CLK_TCK"), 0.0
    file = tmp_path / "stat"
    collector = CpuAvgLoad(lambda: now, str(file))
    file.write_text("cpu  0 0 0 0 0 0 0 0 0 0\n" + "cpu{} 0 0 0 0 0 0 0 0 0 0\n" * 2)
    collector.sample()
    now = 1000.0
    parts = " ".join(str(each * ticks) for each in (1, 2, 4, 937, 8, 16, 32, 0, 1, 2))
    file.write_text(f"cpu  0\ncpu0 {parts}\ncpu1 {1000 * ticks} 0 0 0 0 0 0 0 0 0\nctxt 5\n")
    assert collector.sample() == {
        "cpu_number": 2,
        "cpus": pytest.approx([0.063, 1.0]),
        "cpu_total": pytest.approx(1.063),
    }


def test_diskstats_are_the_kernels_first_columns(tmp_path: Path) -> None:
    file = tmp_path / "diskstats"
    file.write_text(
        "   8       0 sda 11 12 13 14 21 22 23 24 31 32 33\n"  # until Linux 4.17
        " 259       1 nvme0n1p1 1 0 8 2 0 0 0 0 0 2 2 41 42 43 44 51 52\n"
    )
    sda, partition = Diskstats(str(file)).sample()
    assert list(sda.values()) == [8, 0, "sda", 11, 12, 13, 14, 21, 22, 23, 24, 31, 32, 33]
    assert " ".join(sda) == (  # as mond calls them
        "major minor name readsNum mergedReads secRead timeRead"
        " writes mergedWrites secWritten timeWrite ios timeIO wIOmillis"
    )
    assert list(partition) == list(sda)
    assert (partition["name"], partition["wIOmillis"]) == ("nvme0n1p1", 2)


def test_kvm_instances_are_found_by_name(tmp_path: Path) -> None:
    program = tmp_path / "qemu-system-x86_64"
    program.write_bytes(Path("/bin/sh").resolve().read_bytes())
    program.chmod(0o755)
    command = [str(program), "-c", "sleep 600; :", "-name", "inst1.example.com,debug-threads=on"]
    process = subprocess.Popen(command, start_new_session=True)
    try:
        until(lambda: KvmInstRss().sample())
        pages = KvmInstRss().sample()["inst1.example.com"]
        assert type(pages) is int
        assert 0 < pages < 25_000
    finally:
        os.killpg(process.pid, 9)
        process.wait()
