"""Software RAID on several fixture trees of /sys/block/md*/md; of one: trees/mdraid.txt."""

import pytest

from .mounts import ODD
from .shipped import Files, Shipped, files

MIRROR: Files = files(
    "level=raid1 array_state=clean raid_disks=2 degraded=0 sync_action=idle "
    "mismatch_cnt=0 sync_completed=none dev-sda1/state=in_sync dev-sda1/slot=0 "
    "dev-sdb1/state=in_sync dev-sdb1/slot=1"
)
REMOVED = files("degraded=1 dev-sdb1/state=spare dev-sdb1/slot=none")
FAULTY = REMOVED | {"dev-sdb1/state": "faulty\n"}
STRIPE = {"level": "raid0\n", "degraded": None, "sync_action": None}
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
        (ROOT_MOUNT + ODD, NO_SWAP, "lost-unused"),
        (ROOT_MOUNT + ODD + MD0_MOUNT, NO_SWAP, "lost"),
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


def test_control_characters_are_no_number(shipped: Shipped) -> None:
    ran = shipped.run("mdraid", SYS=array(shipped, {"degraded": "1\n2\x1b[31m\n"}))
    assert ran.complaint.startswith("mdraid: ")


def test_numbers_that_move_stay_out(shipped: Shipped) -> None:
    first = shipped.run("mdraid", SYS=array(shipped, FAULTY))
    moved = {"sync_completed": "77 / 99\n", **files("mismatch_cnt=128 array_state=active")}
    assert shipped.run("mdraid", SYS=array(shipped, {**FAULTY, **moved})).stdout == first.stdout
