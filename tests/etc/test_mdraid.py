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
SIX = {f"dev-sd{letter}1/slot": f"{slot}\n" for slot, letter in enumerate("abcdef")}
SIX |= {f"dev-sd{letter}1/state": "in_sync\n" for letter in "abcdef"}
SIX |= {"level": "raid6\n", "raid_disks": "6\n", "degraded": "2\n", "sync_action": "recover\n"}
STRIPE = {"level": "raid0\n", "degraded": None, "sync_action": None}
CONTAINER = {"level": "\n", "array_state": "inactive\n", "raid_disks": "0\n"}
JOURNAL = {
    "consistency_policy": "journal\n",
    "dev-sdj1/state": "in_sync,journal\n",
    "dev-sdj1/slot": "journal\n",
}
FOLDER = "an empty folder"
UNUSED = {"../dev": "9:0\n", "../holders": FOLDER}
PARTITIONED = UNUSED | {"../md0p1/dev": "259:1\n", "../md0p1/holders": FOLDER}
ROOT_MOUNT = "22 1 8:2 / / rw - ext4 /dev/sda2 rw\n"
MD0_MOUNT = "23 22 259:1 / /srv rw - ext4 /dev/md0p1 rw\n"
BTRFS = "24 22 0:45 / /srv rw shared:1 - btrfs /dev/md0 rw\n"
NO_SWAP = "Filename\tType\tSize\tUsed\tPriority\n"
MD0_SWAP = f"{NO_SWAP}/dev/md0\tpartition\t8388604\t0\t-2\n"


def proc(shipped: Shipped, mounts: str = ROOT_MOUNT, swaps: str = NO_SWAP) -> str:
    return str(shipped.tree({"self/mountinfo": mounts, "swaps": swaps}, under="proc"))


def array(shipped: Shipped, changes: Files, name: str = "md0") -> str:
    absent = [name for name, content in changes.items() if content is None]
    files: Files = {
        name: None if text == FOLDER else text
        for name, text in {**MIRROR, **changes}.items()
        if name not in absent
    }
    return str(shipped.tree(files, under=f"sys/block/{name}/md").parents[2])


@pytest.mark.parametrize(
    ("changes", "need", "fault"),
    [
        pytest.param({}, "Ok", None, id="whole"),
        pytest.param({"sync_action": "check\n"}, "Ok", None, id="being checked"),
        pytest.param({"sync_action": "resync\n"}, "Ok", None, id="resyncing after a crash"),
        pytest.param(REBUILDING, "Ok", None, id="healing onto a spare"),
        pytest.param(STRIPE, "Ok", None, id="a level without redundancy"),
        pytest.param({**CONTAINER, "metadata_version": "external:imsm\n"}, "Ok", None, id="IMSM"),
        pytest.param({**CONTAINER, "metadata_version": "external:ddf\n"}, "Ok", None, id="DDF"),
        pytest.param({**CONTAINER, "level": "container\n"}, "Ok", None, id="container by its name"),
        pytest.param(CONTAINER, "Ok", None, id="inactive and made of no disks"),
        pytest.param(
            {**REMOVED, "metadata_version": "external:/md127/0\n"},
            "live-repair",
            {"state": "degraded", "faulty": [], "missing_slots": [1]},
            id="a volume of a container",
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
            {"state": "failed-member", "faulty": ["sdc1"], "missing_slots": []},
            id="healed onto a spare, the bad disk still inside",
        ),
        pytest.param(
            {**REBUILDING, "dev-sdc1/state": "faulty\n", "dev-sdc1/slot": "none\n"},
            "live-repair",
            {"state": "failed-member", "faulty": ["sdc1"], "missing_slots": []},
            id="healing onto a spare, the bad disk still inside",
        ),
        pytest.param(
            {**REMOVED, "dev-sdc1/state": "faulty\n", "dev-sdc1/slot": "none\n"},
            "live-repair",
            {"state": "degraded", "faulty": ["sdc1"], "missing_slots": [1]},
            id="a hole, a spare that does not fill it, the bad disk still inside",
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
            {**STRIPE, "dev-sda1/state": "faulty\n"},
            "live-repair",
            {"level": "raid0", "state": "degraded", "faulty": ["sda1"], "missing_slots": [0]},
            id="a stripe whose faulty disk is still in its place",
        ),
        pytest.param(
            {**STRIPE, "array_state": "broken\n", **UNUSED},
            "live-repair",
            {"level": "raid0", "state": "lost-unused", "faulty": [], "missing_slots": []},
            id="a broken stripe that nothing uses",
        ),
        pytest.param(
            {**STRIPE, "array_state": "broken\n", **UNUSED, "../holders/dm-0": ""},
            "evacuate",
            {"level": "raid0", "state": "lost", "faulty": [], "missing_slots": []},
            id="a broken stripe below a volume group",
        ),
        pytest.param(
            {**STRIPE, "array_state": "broken\n", **PARTITIONED, "../md0p1/holders/dm-0": ""},
            "evacuate",
            {"level": "raid0", "state": "lost", "faulty": [], "missing_slots": []},
            id="a broken stripe, its partition below a volume group",
        ),
        pytest.param(
            {**STRIPE, "array_state": "broken\n", **PARTITIONED},
            "live-repair",
            {"level": "raid0", "state": "lost-unused", "faulty": [], "missing_slots": []},
            id="a broken stripe whose partition nothing uses",
        ),
        pytest.param(
            {"array_state": "inactive\n"},
            "live-repair",
            {"state": "not-started", "faulty": [], "missing_slots": []},
            id="not started",
        ),
        pytest.param(
            {**SIX, "dev-sde1/state": "spare\n", "dev-sdf1/state": "spare\n"},
            "Ok",
            None,
            id="two holes, both heal",
        ),
        pytest.param(
            {**SIX, "dev-sde1/state": "spare\n", "dev-sdf1/slot": "none\n"},
            "live-repair",
            {"level": "raid6", "state": "degraded", "faulty": [], "missing_slots": [5]},
            id="two holes, one heals",
        ),
        pytest.param(
            {**SIX, "dev-sde1/state": "faulty\n", "dev-sdf1/state": "spare\n"},
            "live-repair",
            {"level": "raid6", "state": "degraded", "faulty": ["sde1"], "missing_slots": [4]},
            id="one heals, the other disk is faulty and still in its slot",
        ),
        pytest.param(
            {"consistency_policy": "journal\n", "array_state": "readonly\n"},
            "live-repair",
            {"state": "read-only", "faulty": [], "missing_slots": []},
            id="read-only for want of its journal",
        ),
        pytest.param(
            {**JOURNAL, "dev-sdj1/state": "faulty,journal\n"},
            "live-repair",
            {"state": "no-journal", "faulty": ["sdj1"], "missing_slots": []},
            id="its journal is faulty",
        ),
        pytest.param(JOURNAL, "Ok", None, id="with a journal"),
        pytest.param({"array_state": "readonly\n"}, "Ok", None, id="read-only by a person"),
        pytest.param(
            {"dev-sda1/state": "in_sync,write_mostly\n"}, "Ok", None, id="a disk is write-mostly"
        ),
    ],
)
def test_one_array(
    shipped: Shipped,
    changes: Files,
    need: str,
    fault: dict[str, object] | None,
) -> None:
    ran = shipped.run("mdraid", SYS=array(shipped, changes), PROC=proc(shipped))
    assert ran.need == need
    assert ran.diagnosis.get("command") == (CALL if need == "live-repair" else None)
    assert ran.faults == ([{"array": "md0", "level": "raid1"} | fault] if fault else [])


def test_the_worst_array_decides_and_all_are_told(shipped: Shipped) -> None:
    array(shipped, REMOVED, "md1")
    ran = shipped.run("mdraid", SYS=array(shipped, {"array_state": "broken\n"}, "md127"))
    assert ran.need == "evacuate"
    assert [fault["array"] for fault in ran.faults] == ["md1", "md127"]


@pytest.mark.parametrize(
    ("mounts", "swaps", "state"),
    [
        (ROOT_MOUNT, NO_SWAP, "lost-unused"),
        (ROOT_MOUNT + MD0_MOUNT, NO_SWAP, "lost"),
        (ROOT_MOUNT, MD0_SWAP, "lost"),
        (ROOT_MOUNT + BTRFS, NO_SWAP, "lost"),
    ],
)
def test_a_mount_or_swap_is_use(shipped: Shipped, mounts: str, swaps: str, state: str) -> None:
    root = array(shipped, {**STRIPE, "array_state": "broken\n", **PARTITIONED})
    ran = shipped.run("mdraid", SYS=root, PROC=proc(shipped, mounts, swaps))
    assert [fault["state"] for fault in ran.faults] == [state]


def test_an_array_that_cannot_be_read_silences_no_other(shipped: Shipped) -> None:
    array(shipped, {**FAULTY}, "md1")
    ran = shipped.run("mdraid", SYS=array(shipped, {"degraded": "many\n"}, "md127"))
    assert ran.need == "live-repair"
    assert [fault["array"] for fault in ran.faults] == ["md1"]
    (not_asked,) = ran.diagnosis["details"]["not_asked"]
    assert not_asked.startswith("md127: ")


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
