"""Software RAID on fixture trees of /sys/block/md*/md."""

import pytest

from .shipped import CALL, OK, Files, Shipped, files

MIRROR: Files = files(
    "level=raid1 array_state=clean raid_disks=2 degraded=0 sync_action=idle "
    "mismatch_cnt=0 sync_completed=none dev-sda1/state=in_sync dev-sda1/slot=0 "
    "dev-sdb1/state=in_sync dev-sdb1/slot=1"
)
REMOVED = files("degraded=1 dev-sdb1/state=spare dev-sdb1/slot=none")
FAULTY = REMOVED | {"dev-sdb1/state": "faulty\n"}
REBUILDING = REMOVED | files("dev-sdb1/slot=1 sync_action=recover")
FIVE = files("level=raid5 raid_disks=3 dev-sdc1/state=in_sync dev-sdc1/slot=2")
SIX = {f"dev-sd{letter}1/slot": f"{slot}\n" for slot, letter in enumerate("abcdef")}
SIX |= {f"dev-sd{letter}1/state": "in_sync\n" for letter in "abcdef"}
SIX |= files("level=raid6 raid_disks=6 degraded=2 sync_action=recover")
WAITS = {f"dev-sd{letter}1/state": "spare\n" for letter in "ef"}
WAITS |= {f"dev-sd{letter}1/slot": "none\n" for letter in "ef"}
STRIPE = {"level": "raid0\n", "degraded": None, "sync_action": None}
CONTAINER = {"level": "\n", "array_state": "inactive\n", "raid_disks": "\n"}
NO_MEMBERS = {f"dev-sd{letter}1/{name}": None for letter in "ab" for name in ("state", "slot")}
JOURNAL = files("consistency_policy=journal dev-sdj1/state=in_sync,journal dev-sdj1/slot=journal")
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


BROKEN = {**STRIPE, "array_state": "broken\n"}
BAD_SPARE = files("dev-sdc1/state=faulty dev-sdc1/slot=none")
HEALTHY: dict[str, Files] = {
    "whole": {},
    "being checked": {"sync_action": "check\n"},
    "resyncing after a crash": {"sync_action": "resync\n"},
    "healing onto a spare": REBUILDING,
    "a level without redundancy": STRIPE,
    "IMSM": {**CONTAINER, "metadata_version": "external:imsm\n"},
    "DDF": {**CONTAINER, "metadata_version": "external:ddf\n"},
    "container by its name": {**CONTAINER, "level": "container\n"},
    "inactive and made of no disks": {**CONTAINER, "raid_disks": "0\n"},
    "inactive and without members": {**CONTAINER, **NO_MEMBERS},
    "free": {"array_state": "clear\n", "level": "\n", "raid_disks": "\n"},
    "free, of a kernel that writes a zero": files("array_state=clear raid_disks=0"),
    "reshaping": {"raid_disks": "3 (2)\n", "sync_action": "reshape\n"},
    "two holes, both heal": {**SIX, **files("dev-sde1/state=spare dev-sdf1/state=spare")},
    "two holes, and their spares wait for the end of a reshape": {
        **SIX,
        **WAITS,
        "sync_action": "reshape\n",
    },
    "one hole heals, and a spare waits for the other": {**SIX, **WAITS, "dev-sde1/slot": "4\n"},
    "with a journal": JOURNAL,
    "read-only by a person": {"array_state": "readonly\n"},
    "a disk is write-mostly": {"dev-sda1/state": "in_sync,write_mostly\n"},
}


def test_healthy_arrays(shipped: Shipped) -> None:
    for name, changes in HEALTHY.items():
        row = shipped.anew()
        assert row.run("mdraid", SYS=array(row, changes), PROC=proc(row)).diagnosis == OK, name


# What changes; then the state, the faulty disks and the missing slots.
Fault = tuple[Files, str, list[str], list[int]]
DEGRADED: dict[str, Fault] = {
    "a volume of a container": (
        {**REMOVED, "metadata_version": "external:/md127/0\n"},
        "degraded",
        [],
        [1],
    ),
    "a disk removed": (REMOVED, "degraded", [], [1]),
    "in its slot, not in sync, and nothing heals it": (
        {**REMOVED, "dev-sdb1/slot": "1\n"},
        "degraded",
        [],
        [1],
    ),
    "a disk faulty": (FAULTY, "degraded", ["sdb1"], [1]),
    "healed onto a spare, the bad disk still inside": (
        files("dev-sdc1/state=faulty,write_error dev-sdc1/slot=none"),
        "failed-member",
        ["sdc1"],
        [],
    ),
    "healing onto a spare, the bad disk still inside": (
        {**REBUILDING, **BAD_SPARE},
        "failed-member",
        ["sdc1"],
        [],
    ),
    "a hole, and a bad disk inside": ({**REMOVED, **BAD_SPARE}, "degraded", ["sdc1"], [1]),
    "a stripe whose faulty disk is still in its place": (
        {**STRIPE, "dev-sda1/state": "faulty\n"},
        "degraded",
        ["sda1"],
        [0],
    ),
    "a broken stripe that nothing uses": ({**BROKEN, **UNUSED}, "lost-unused", [], []),
    "nor its partition": ({**BROKEN, **PARTITIONED}, "lost-unused", [], []),
    "not started": ({"array_state": "inactive\n"}, "not-started", [], []),
    "assembled of one disk, and never started: the kernel knows no number of disks": (
        {"array_state": "inactive\n", "level": "\n", "raid_disks": "\n"},
        "not-started",
        [],
        [],
    ),
    "two holes, and one spare waits for the end of a reshape": (
        {**SIX, **WAITS, **files("dev-sde1/state=faulty sync_action=reshape")},
        "degraded",
        ["sde1"],
        [4, 5],
    ),
    "two holes, and spares that nothing takes": (
        {**SIX, **WAITS, "sync_action": "idle\n"},
        "degraded",
        [],
        [4, 5],
    ),
    "two holes, one heals": (
        {**SIX, **files("dev-sde1/state=spare dev-sdf1/slot=none")},
        "degraded",
        [],
        [5],
    ),
    "one heals, the other disk is faulty and still in its slot": (
        {**SIX, **files("dev-sde1/state=faulty dev-sdf1/state=spare")},
        "degraded",
        ["sde1"],
        [4],
    ),
    "read-only for want of its journal": (
        files("consistency_policy=journal array_state=readonly"),
        "read-only",
        [],
        [],
    ),
    "its journal is faulty": (
        {**JOURNAL, "dev-sdj1/state": "faulty,journal\n"},
        "no-journal",
        ["sdj1"],
        [],
    ),
}
LOST: dict[str, Fault] = {
    "more than the level bears": (
        {**FIVE, **files("degraded=2 dev-sda1/state=faulty dev-sdb1/state=faulty")},
        "lost",
        ["sda1", "sdb1"],
        [0, 1],
    ),
    "a broken stripe": ({**BROKEN, "dev-sda1/state": "faulty\n"}, "lost", ["sda1"], [0]),
    "a stripe below a volume group": ({**BROKEN, **UNUSED, "../holders/dm-0": ""}, "lost", [], []),
    "its partition is": ({**BROKEN, **PARTITIONED, "../md0p1/holders/dm-0": ""}, "lost", [], []),
}


@pytest.mark.parametrize(
    ("rows", "need", "command"),
    [(DEGRADED, "live-repair", CALL), (LOST, "evacuate", None)],
    ids=["degraded", "lost"],
)
def test_arrays_with_a_fault(
    shipped: Shipped, rows: dict[str, Fault], need: str, command: str | None
) -> None:
    for name, (changes, state, faulty, missing) in rows.items():
        row = shipped.anew()
        ran = row.run("mdraid", SYS=array(row, changes), PROC=proc(row))
        assert (ran.need, ran.diagnosis.get("command")) == (need, command), name
        level = str(changes.get("level", "raid1\n")).strip()
        told = {"array": "md0", "level": level, "state": state}
        assert ran.faults == [told | {"faulty": faulty, "missing_slots": missing}], name


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
    moved = {"sync_completed": "77 / 99\n", **files("mismatch_cnt=128 array_state=active")}
    assert shipped.run("mdraid", SYS=array(shipped, {**FAULTY, **moved})).stdout == first.stdout


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
