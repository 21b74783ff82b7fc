"""The kernel's own counters, and the command which accepts what they have counted."""

import json
from pathlib import Path
from typing import Any

import pytest

from .shipped import Files, Ran, Shipped, files

BOOT = "9c1c4ab2-0000-4000-8000-000000000001"
CLEAR = "clear-kernel-baseline"
ZERO: Files = {
    "proc/sys/kernel/random/boot_id": f"{BOOT}\n",
    **files(
        "proc/sys/kernel/tainted=0 proc/sys/kernel/hung_task_detect_count=0 "
        "sys/kernel/oops_count=0 sys/kernel/warn_count=0 sys/kernel/hardlockup_count=0 "
        "sys/kernel/softlockup_count=0 sys/kernel/rcu_stall_count=0"
    ),
}
HUNG = {"proc/sys/kernel/hung_task_detect_count": "2\n"}
OOPS = {"sys/kernel/oops_count": "1\n"}
BAD_PAGE = {"proc/sys/kernel/tainted": "32\n"}


def baseline(shipped: Shipped) -> Path:
    return shipped.root / "var/baselines/kernel.json"


def run(shipped: Shipped, name: str, changes: Files, stdin: object = b"") -> Ran:
    absent = [path for path, content in changes.items() if content is None]
    files = {path: text for path, text in {**ZERO, **changes}.items() if path not in absent}
    for path in absent:
        (shipped.root / path).unlink(missing_ok=True)
    root = shipped.tree(files)
    roots = {"SYS": root / "sys", "PROC": root / "proc", "BASELINE": baseline(shipped)}
    return shipped.run(name, stdin, **roots)


def look(shipped: Shipped, changes: Files) -> Ran:
    return run(shipped, "kernel", changes)


def test_counts_stay_out(shipped: Shipped) -> None:
    first = look(shipped, HUNG)
    more: Files = files("proc/sys/kernel/hung_task_detect_count=77 sys/kernel/warn_count=5")
    assert look(shipped, more).stdout == first.stdout


@pytest.mark.parametrize("merged", [False, True])
def test_a_hung_task_is_told_once_and_again_when_it_recurs(shipped: Shipped, merged: bool) -> None:
    said: dict[str, Any] = look(shipped, HUNG).diagnosis
    if merged:
        said = said | {"details": {"disk": {"status": "Ok"}, "kernel": said}}
    ran = run(shipped, CLEAR, HUNG, said)
    assert (ran.code, ran.stdout) == (0, "accepted: hung_task_detect_count\n")
    assert look(shipped, HUNG).need == "Ok"
    kept = json.loads(baseline(shipped).read_text())
    assert kept == {"boot_id": BOOT, "hung_task_detect_count": 2, "tainted": 0}
    again = {"proc/sys/kernel/hung_task_detect_count": "3\n"}
    assert look(shipped, again).faults == ["hung_task_detect_count"]


def test_what_hangs_after_a_person_has_set_the_count_back_is_told(shipped: Shipped) -> None:
    """Newer kernels let them."""
    run(shipped, CLEAR, HUNG, look(shipped, HUNG).diagnosis)
    assert look(shipped, files("proc/sys/kernel/hung_task_detect_count=0")).need == "Ok"
    again = files("proc/sys/kernel/hung_task_detect_count=1")
    assert look(shipped, again).faults == ["hung_task_detect_count"]


def test_accepting_is_for_this_boot_only(shipped: Shipped) -> None:
    run(shipped, CLEAR, HUNG, look(shipped, HUNG).diagnosis)
    next_boot: Files = {**HUNG, "proc/sys/kernel/random/boot_id": "another\n"}
    assert look(shipped, next_boot).need == "live-repair"


def test_what_happened_meanwhile_is_not_accepted_with_it(shipped: Shipped) -> None:
    said = look(shipped, HUNG).diagnosis
    stalled: Files = {**HUNG, "sys/kernel/rcu_stall_count": "1\n"}
    run(shipped, CLEAR, stalled, said)
    assert look(shipped, stalled).faults == ["rcu_stall_count"]


def test_accepting_adds_to_what_was_accepted(shipped: Shipped) -> None:
    run(shipped, CLEAR, HUNG, look(shipped, HUNG).diagnosis)
    locked: Files = {**HUNG, "proc/sys/kernel/tainted": "16384\n"}
    run(shipped, CLEAR, locked, look(shipped, locked).diagnosis)
    assert look(shipped, locked).need == "Ok"
    assert baseline(shipped).stat().st_mode & 0o022 == 0
    assert [path.name for path in baseline(shipped).parent.iterdir()] == ["kernel.json"]


@pytest.mark.parametrize(
    "stdin",
    [
        b"\xff",
        b"[" * 100_000,
        {"status": "Ok"},
        {"status": "live-repair", "command": CLEAR},
        {"status": "live-repair", "command": CLEAR, "details": {"faults": []}},
        {"status": "live-repair", "command": CLEAR, "details": {"faults": [["list"]]}},
        {"status": "live-repair", "command": CLEAR, "details": {"faults": ["oops_count"]}},
        {"status": "live-repair", "command": CLEAR, "details": {"faults": ["tainted-bad-page"]}},
        {"status": "live-repair", "command": CLEAR, "details": {"faults": ["../../etc/passwd"]}},
    ],
)
def test_hostile_orders_change_nothing(shipped: Shipped, stdin: object) -> None:
    ran = run(shipped, CLEAR, {**HUNG, **OOPS}, stdin)
    assert ran.code == 1
    assert ran.complaint.startswith("clear-kernel-baseline: ")
    assert not baseline(shipped).exists()


@pytest.mark.parametrize("damage", ["", "[]", "{}"])
def test_a_damaged_baseline_is_named(shipped: Shipped, damage: str) -> None:
    baseline(shipped).parent.mkdir(parents=True)
    baseline(shipped).write_text(damage)
    assert "kernel.json is damaged, remove it" in look(shipped, {}).complaint
    assert "kernel.json is damaged, remove it" in look(shipped, HUNG).complaint
    # These cannot have been accepted.
    for changes, fault in ((OOPS, "oops_count"), (BAD_PAGE, "tainted-bad-page")):
        ran = look(shipped, changes)
        assert ran.faults == [fault]
        assert "kernel.json is damaged, remove it" in ran.diagnosis["details"]["not_asked"][0]
