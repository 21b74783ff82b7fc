"""Software RAID on fixture trees of /sys/block/md*/md."""

import pytest

from .shipped import CALL, OK, Files, Shipped

MIRROR: Files = {
    "level": "raid1\n",
    "array_state": "clean\n",
    "raid_disks": "2\n",
    "degraded": "0\n",
    "sync_action": "idle\n",
    "mismatch_cnt": "0\n",
    "sync_completed": "none\n",
    "dev-sda1/state": "in_sync\n",
    "dev-sda1/slot": "0\n",
    "dev-sdb1/state": "in_sync\n",
    "dev-sdb1/slot": "1\n",
}
REMOVED = {"degraded": "1\n", "dev-sdb1/state": "spare\n", "dev-sdb1/slot": "none\n"}
FAULTY = REMOVED | {"dev-sdb1/state": "faulty\n"}
REBUILDING = REMOVED | {"dev-sdb1/slot": "1\n", "sync_action": "recover\n"}
FIVE = {
    "level": "raid5\n",
    "raid_disks": "3\n",
    "dev-sdc1/state": "in_sync\n",
    "dev-sdc1/slot": "2\n",
}
STRIPE = {"level": "raid0\n", "degraded": None, "sync_action": None}


def array(shipped: Shipped, changes: Files, name: str = "md0") -> str:
    absent = [name for name, content in changes.items() if content is None]
    files = {name: text for name, text in {**MIRROR, **changes}.items() if name not in absent}
    return str(shipped.tree(files, under=f"sys/block/{name}/md").parents[2])


@pytest.mark.parametrize(
    ("changes", "need", "fault"),
    [
        pytest.param({}, "Ok", None, id="whole"),
        pytest.param({"sync_action": "check\n"}, "Ok", None, id="being checked"),
        pytest.param({"sync_action": "resync\n"}, "Ok", None, id="resyncing after a crash"),
        pytest.param(REBUILDING, "Ok", None, id="healing onto a spare"),
        pytest.param(STRIPE, "Ok", None, id="a level without redundancy"),
        pytest.param(
            {"level": "container\n", "array_state": "inactive\n"}, "Ok", None, id="container"
        ),
        pytest.param(
            {"array_state": "clear\n", "level": "\n", "raid_disks": "0\n"}, "Ok", None, id="free"
        ),
        pytest.param(
            {"raid_disks": "3 (2)\n", "sync_action": "reshape\n"}, "Ok", None, id="reshaping"
        ),
        pytest.param(
            REMOVED,
            "live-repair",
            {"state": "degraded", "faulty": [], "missing_slots": [1]},
            id="a disk removed",
        ),
        pytest.param(
            {**REMOVED, "dev-sdb1/slot": "1\n"},
            "live-repair",
            {"state": "degraded", "faulty": [], "missing_slots": [1]},
            id="a disk in its slot, not in sync, and nothing heals it",
        ),
        pytest.param(
            FAULTY,
            "live-repair",
            {"state": "degraded", "faulty": ["sdb1"], "missing_slots": [1]},
            id="a disk faulty",
        ),
        pytest.param(
            {"dev-sdc1/state": "faulty,write_error\n", "dev-sdc1/slot": "none\n"},
            "live-repair",
            {"state": "degraded", "faulty": ["sdc1"], "missing_slots": []},
            id="healed onto a spare, the bad disk still inside",
        ),
        pytest.param(
            {**FIVE, "degraded": "2\n", "dev-sda1/state": "faulty\n", "dev-sdb1/state": "faulty\n"},
            "evacuate",
            {
                "level": "raid5",
                "state": "lost",
                "faulty": ["sda1", "sdb1"],
                "missing_slots": [0, 1],
            },
            id="more lost than the level bears",
        ),
        pytest.param(
            {**STRIPE, "array_state": "broken\n", "dev-sda1/state": "faulty\n"},
            "evacuate",
            {"level": "raid0", "state": "lost", "faulty": ["sda1"], "missing_slots": [0]},
            id="a broken stripe",
        ),
        pytest.param(
            {"array_state": "inactive\n"},
            "evacuate",
            {"state": "lost", "faulty": [], "missing_slots": []},
            id="not started",
        ),
    ],
)
def test_one_array(
    shipped: Shipped,
    changes: Files,
    need: str,
    fault: dict[str, object] | None,
) -> None:
    ran = shipped.run("mdraid", SYS=array(shipped, changes))
    assert ran.need == need
    assert ran.diagnosis.get("command") == (CALL if need == "live-repair" else None)
    assert ran.faults == ([{"array": "md0", "level": "raid1"} | fault] if fault else [])


def test_the_worst_array_decides_and_all_are_told(shipped: Shipped) -> None:
    array(shipped, REMOVED, "md1")
    ran = shipped.run("mdraid", SYS=array(shipped, {"array_state": "inactive\n"}, "md127"))
    assert ran.need == "evacuate"
    assert [fault["array"] for fault in ran.faults] == ["md1", "md127"]


def test_numbers_that_move_stay_out(shipped: Shipped) -> None:
    first = shipped.run("mdraid", SYS=array(shipped, FAULTY))
    moved = {"mismatch_cnt": "128\n", "sync_completed": "77 / 99\n", "array_state": "active\n"}
    assert shipped.run("mdraid", SYS=array(shipped, {**FAULTY, **moved})).stdout == first.stdout


def test_no_arrays(shipped: Shipped) -> None:
    root = shipped.tree({"block/sda/size": "1\n", "block/md_not/size": "1\n"}, under="sys")
    assert shipped.run("mdraid", SYS=root).diagnosis == OK


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"degraded": "many\n"}, id="no number"),
        pytest.param({"array_state": None}, id="no state"),
        pytest.param({"raid_disks": "\n"}, id="empty"),
        pytest.param({"degraded": "1\n2\x1b[31m\n"}, id="control characters"),
    ],
)
def test_what_cannot_be_read_is_not_ok(shipped: Shipped, changes: Files) -> None:
    ran = shipped.run("mdraid", SYS=array(shipped, changes))
    assert ran.code == 1
    assert ran.complaint.startswith("mdraid: ")
