"""Read-only and error-counting file systems, and the command which remounts them."""

import errno
import os
from typing import Any

import pytest

from .mounts import ODD
from .shipped import OK, Files, Ran, Shipped, hold

FSTAB = """\
# comment
alone
UUID=1 / ext4 errors=remount-ro 0 1
/dev/sdb1 /srv/my\\040disk xfs defaults 0 2
/dev/sdc1 /archive ext4 ro,noatime 0 2
/dev/sdd1 none swap sw 0 0

server:/export /net nfs defaults 0 0
/dev/sde1 /pool btrfs
"""
ROOT = "27 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,errors=remount-ro"
DISK = "28 27 8:17 / /srv/my\\040disk rw shared:2 master:1 - xfs /dev/sdb1 rw,attr2"
ARCHIVE = "29 27 8:33 / /archive ro - ext4 /dev/sdc1 ro"
PROC = "30 27 0:5 / /proc ro - proc proc rw"
POOL = "31 27 0:44 / /pool rw - btrfs {root}/dev/sde1 rw,subvolid=5"
REMOUNT = "remount-rw"


def world(
    shipped: Shipped, mounts: str, errors: int = 0, btrfs: int = 0, table: str = FSTAB
) -> dict[str, object]:
    """The constants for a machine with these mounts; `errors` are the root's, in ext4."""
    root = shipped.tree(
        {
            "proc/self/mountinfo": mounts.replace("{root}", str(shipped.root)) + "\n",
            "fstab": table,
            "dev/sde1": "",
            "sys/dev/block/8:1": "-> ../../devices/sda/sda1",
            "sys/devices/sda/sda1": None,
            "sys/fs/ext4/sda1/errors_count": f"{errors}\n",
            "sys/fs/ext4/features/lazy_itable_init": "supported\n",
            "sys/fs/btrfs/uuid/devices/sde1": "-> ../../../../devices/sda/sda1",
            "sys/fs/btrfs/uuid/devinfo/1/error_stats": f"write_errs 0\ncorruption_errs {btrfs}\n",
        }
    )
    return {"SYS": root / "sys", "PROC": root / "proc", "FSTAB": root / "fstab"}


def look(shipped: Shipped, *mounts: str, errors: int = 0, btrfs: int = 0) -> Ran:
    return shipped.run("fs-readonly", **world(shipped, "\n".join(mounts), errors, btrfs))


def read_only(line: str, flag: str = "ro") -> str:
    """The mount after the kernel has taken its writes away: in the superblock's options."""
    before, options = line.rsplit(" ", 1)
    return f"{before} {options.replace('rw', flag, 1)}"


def fault(mount: str, kind: str, source: str, *, lost: bool, errors: bool) -> dict[str, Any]:
    row = {"mount": mount, "type": kind, "source": source}
    return row | {"read_only": lost, "errors": errors}


def test_healthy(shipped: Shipped) -> None:
    ran = look(shipped, ROOT, DISK, ARCHIVE, PROC, POOL)
    assert (ran.need, ran.faults) == ("Ok", [])


@pytest.mark.parametrize("flag", ["ro", "emergency_ro"])
def test_read_only_with_errors_needs_an_empty_node(shipped: Shipped, flag: str) -> None:
    ran = look(shipped, read_only(ROOT, flag), DISK, errors=3)
    assert ran.need == "evacuate"
    assert ran.faults == [fault("/", "ext4", "/dev/sda1", lost=True, errors=True)]


@pytest.mark.parametrize("errors", [0, 3])
def test_no_remount_ends_a_shutdown(shipped: Shipped, errors: int) -> None:
    """Really made in test_here.py: its remount fails."""
    ran = look(shipped, read_only(ROOT, "rw,shutdown"), errors=errors)
    assert ran.need == "evacuate"
    row = fault("/", "ext4", "/dev/sda1", lost=True, errors=True)
    assert ran.faults == [row | {"shut_down": True}]


def test_errors_outlive_the_device(shipped: Shipped) -> None:
    """The kernel drops a dead disk from /sys/dev/block, and not what ext4 has counted."""
    constants = world(shipped, read_only(ROOT), errors=3)
    (shipped.root / "sys/dev/block/8:1").unlink()
    ran = shipped.run("fs-readonly", **constants)
    assert ran.need == "evacuate"
    assert ran.faults == [fault("/", "ext4", "/dev/sda1", lost=True, errors=True)]


@pytest.mark.parametrize("kind", ["ext2", "ext3", "ext4"])
def test_the_driver_of_ext4_counts_the_errors_of_its_ancestors(shipped: Shipped, kind: str) -> None:
    ran = look(shipped, read_only(ROOT.replace("ext4", kind)), errors=3)
    assert ran.need == "evacuate"
    assert ran.faults == [fault("/", kind, "/dev/sda1", lost=True, errors=True)]


@pytest.mark.parametrize(
    "row",
    [
        "/dev/sdb1 /srv/my\\040disk/ xfs defaults 0 2",
        "/dev/sdb1 /srv//my\\040disk xfs defaults 0 2",
        "/dev/sdb1 //srv/./my\\040disk xfs ro,rw 0 2",
        "LABEL=data /srv/my\\040disk xfs",
        "LABEL=data {root}/link xfs",
    ],
)
def test_a_mount_point_is_compared_as_the_kernel_names_it(shipped: Shipped, row: str) -> None:
    (shipped.root / "link").symlink_to("/srv/my disk")
    row, mounts = row.format(root=shipped.root), f"{ROOT}\n{read_only(DISK)}"
    ran = shipped.run("fs-readonly", **world(shipped, mounts, table=f"{row}\n"))
    assert ran.diagnosis["command"] == REMOUNT
    repaired = repair(shipped, ran.diagnosis, mounts, works(shipped), table=f"{row}\n")
    assert repaired.stdout == "remounted read-write: '/srv/my disk'\n"


def test_of_ro_and_rw_the_last_word_counts(shipped: Shipped) -> None:
    table = "/dev/sdb1 /srv/my\\040disk xfs rw,ro 0 2\n"
    mounts = f"{ROOT}\n{read_only(DISK)}"
    assert shipped.run("fs-readonly", **world(shipped, mounts, table=table)).need == "Ok"


@pytest.mark.parametrize(
    ("options", "need"),
    [("defaults", "evacuate"), ("nofail", "live-repair"), ("noauto,user", "live-repair")],
)
def test_what_the_system_starts_without_evacuates_nothing(
    shipped: Shipped, options: str, need: str
) -> None:
    table = f"UUID=1 / ext4 {options} 0 1\n"
    ran = shipped.run("fs-readonly", **world(shipped, read_only(ROOT), errors=3, table=table))
    assert ran.need == need
    assert ran.diagnosis.get("command") == ("call-operator" if need == "live-repair" else None)


def test_a_count_that_cannot_be_read_silences_no_other(shipped: Shipped) -> None:
    for root, mounts in ((ROOT, ["/srv/my disk"]), (read_only(ROOT), ["/", "/srv/my disk"])):
        constants = world(shipped, f"{root}\n{read_only(DISK)}")
        shipped.tree({"sys/fs/ext4/sda1/errors_count": "?\n"})
        ran = shipped.run("fs-readonly", **constants)
        assert [row["mount"] for row in ran.faults] == mounts
        assert ran.diagnosis["details"]["not_asked"][0].startswith("/: ")


def test_without_fstab_errors_are_told_all_the_same(shipped: Shipped) -> None:
    constants = world(shipped, ROOT, 1)
    (shipped.root / "fstab").unlink()
    ran = shipped.run("fs-readonly", **constants)
    assert [row["errors"] for row in ran.faults] == [True]
    assert "fstab" in ran.diagnosis["details"]["not_asked"][0]
    constants = world(shipped, ROOT)
    (shipped.root / "fstab").unlink()
    assert "fstab" in shipped.run("fs-readonly", **constants).complaint


WITHOUT_DEVICE: Files = {}
PROTECTED: Files = {"ro": "1\n"}
IMAGES = ("iso9660", "squashfs", "erofs", "cramfs", "romfs")
LINEAR: Files = {**PROTECTED, "dm/uuid": "LVM-Ab12\n"}


# The type of a file system that is mounted read-only, its device, and that device's files.
READ_ONLY: dict[str, tuple[str, str, Files]] = {
    **{f"{one}, flag 0": (one, "loop0", {"ro": "0\n"}) for one in IMAGES},
    **{f"{one}, flag 1": (one, "loop0", PROTECTED) for one in IMAGES},
    "sysfs of a container": ("sysfs", "sysfs", WITHOUT_DEVICE),
    "cgroups of a container": ("cgroup2", "cgroup2", WITHOUT_DEVICE),
    "squashfs, no device known": ("squashfs", "loop0", WITHOUT_DEVICE),
    "udf on an optical drive": ("udf", "sr0", {"ro": "0\n"}),
    "udf on an image that is read-only": ("udf", "loop3", PROTECTED),
    "udf on a stick": ("udf", "sdq", {"ro": "0\n"}),
    "an image set up read-only": ("ext4", "loop3", PROTECTED),
    "a volume set to read-only": ("xfs", "dm-3", LINEAR),
    "opened read-only": ("xfs", "dm-3", {**LINEAR, "dm/uuid": "CRYPT-LUKS2-1\n"}),
    "multipath": ("xfs", "dm-3", {**LINEAR, "dm/uuid": "mpath-36\n"}),
    "a writable volume": ("xfs", "dm-3", {**LINEAR, "ro": "0\n"}),
    "a disk that protects itself": ("ext4", "sdq", PROTECTED),
    "no device known": ("ext4", "sdq", WITHOUT_DEVICE),
}


def read_only_media(shipped: Shipped, number: str, kind: str, device: str, files: Files) -> Ran:
    place = {} if number.startswith("0:") else {f"sys/dev/block/{number}": f"-> ../../x/{device}"}
    place[f"sys/class/block/{device}"] = f"-> ../../x/{device}"
    shipped.tree({**{f"sys/x/{device}/{name}": text for name, text in files.items()}, **place})
    mounts = f"{ROOT}\n28 27 {number} / /media ro - {kind} /dev/{device} ro"
    return shipped.run("fs-readonly", **world(shipped, mounts, table=f"x /media {kind} user\n"))


@pytest.mark.parametrize("number", ["7:9", "0:46"], ids=["numbered", "anonymous"])
def test_what_no_remount_can_make_writable(shipped: Shipped, number: str) -> None:
    rows = (
        (name, read_only_media(shipped.anew(), number, *given)) for name, given in READ_ONLY.items()
    )
    hold(shipped, "fs-readonly", rows)


def test_errors_on_a_device_that_refuses_writes_are_a_fault_all_the_same(shipped: Shipped) -> None:
    shipped.tree({"sys/devices/sda/sda1/ro": "1\n", "sys/devices/sda/sda1/dm/uuid": "LVM-Ab12\n"})
    ran = look(shipped, read_only(ROOT), errors=3)
    assert ran.need == "evacuate"
    row = fault("/", "ext4", "/dev/sda1", lost=True, errors=True)
    assert ran.faults == [row | {"write_protected": True}]


def test_errors_on_a_file_system_still_writable(shipped: Shipped) -> None:
    first = look(shipped, ROOT, errors=1)
    assert first.diagnosis["command"] == "call-operator"
    assert first.faults == [fault("/", "ext4", "/dev/sda1", lost=False, errors=True)]
    assert look(shipped, ROOT, errors=4711).stdout == first.stdout


def ext4_answers(monkeypatch: pytest.MonkeyPatch, code: int, times: int = 9) -> None:
    """Let a folder that is brought to the disk answer with an error (ext4_sync_file())."""
    errors = [OSError(code, os.strerror(code))] * times

    def answer(_: int) -> None:
        if errors:
            raise errors.pop()

    monkeypatch.setattr(os, "fsync", answer)


@pytest.mark.parametrize("code", [errno.EIO, errno.EROFS])
def test_ext4_that_has_given_up_says_rw_before_linux_6_15(
    shipped: Shipped, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """Since d3476f3dad4a (6.12, and in older stable kernels): longhorn/longhorn, issue 13452."""
    ext4_answers(monkeypatch, code)
    ran = look(shipped, ROOT, errors=3)
    assert ran.need == "evacuate"
    row = fault("/", "ext4", "/dev/sda1", lost=True, errors=True)
    assert ran.faults == [row | {"shut_down": True}]


def test_a_write_that_failed_is_told_once_and_ends_no_file_system(
    shipped: Shipped, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a journal: the next fsync(2) succeeds (sync_mapping_buffers(), errseq_t)."""
    ext4_answers(monkeypatch, errno.EIO, times=1)
    ran = look(shipped, ROOT, errors=3)
    assert ran.diagnosis["command"] == "call-operator"
    assert ran.faults == [fault("/", "ext4", "/dev/sda1", lost=False, errors=True)]


def test_ext4_without_errors_brings_nothing_to_the_disk(
    shipped: Shipped, monkeypatch: pytest.MonkeyPatch
) -> None:
    ext4_answers(monkeypatch, errno.EIO)
    assert look(shipped, ROOT).need == "Ok"


def test_errors_of_btrfs(shipped: Shipped) -> None:
    ran = look(shipped, ROOT, POOL, btrfs=2)
    assert [(row["mount"], row["errors"]) for row in ran.faults] == [("/pool", True)]


def xfs_answers(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    """Let the mount point of XFS answer with an error (its xfs_vn_getattr() knows one: EIO)."""
    stat = os.stat

    def answer(path: Any, **more: Any) -> os.stat_result:
        if path == "/srv/my disk":
            raise OSError(code, os.strerror(code))
        return stat(path, **more)

    monkeypatch.setattr(os, "stat", answer)


@pytest.mark.parametrize(
    ("options", "need", "lost"),
    [
        ("defaults", "evacuate", True),
        ("nofail", "live-repair", True),
        ("ro", "live-repair", False),
    ],
)
def test_xfs_that_has_shut_down_is_still_mounted_read_write(
    shipped: Shipped, monkeypatch: pytest.MonkeyPatch, options: str, need: str, lost: bool
) -> None:
    """Its mountinfo after a log error: coreos/bugs, issue 1396."""
    xfs_answers(monkeypatch, errno.EIO)
    table = f"/dev/sdb1 /srv/my\\040disk xfs {options} 0 2\n"
    ran = shipped.run("fs-readonly", **world(shipped, f"{ROOT}\n{DISK}", table=table))
    assert ran.need == need
    assert ran.diagnosis.get("command") == ("call-operator" if need == "live-repair" else None)
    row = fault("/srv/my disk", "xfs", "/dev/sdb1", lost=lost, errors=True)
    assert ran.faults == [row | {"shut_down": True}]


def test_only_an_error_of_input_and_output_says_that_xfs_has_shut_down(
    shipped: Shipped, monkeypatch: pytest.MonkeyPatch
) -> None:
    xfs_answers(monkeypatch, errno.ENOENT)  # a mount above hides it
    assert look(shipped, ROOT, DISK).need == "Ok"


def test_the_topmost_mount_counts(shipped: Shipped) -> None:
    above = DISK.replace("28 27", "40 28")
    assert look(shipped, ROOT, read_only(DISK), above).need == "Ok"
    assert look(shipped, ROOT, DISK, read_only(above)).need == "live-repair"


def test_a_mount_of_an_odd_name_silences_no_other(shipped: Shipped) -> None:
    odd = ODD.rstrip("\n")
    assert look(shipped, ROOT, odd, DISK).diagnosis == OK
    ran = look(shipped, odd, ROOT, read_only(DISK))
    assert [one["mount"] for one in ran.faults] == ["/srv/my disk"]
    repaired = repair(shipped, ran.diagnosis, f"{odd}\n{read_only(DISK)}", works(shipped))
    assert repaired.stdout == "remounted read-write: '/srv/my disk'\n"


def test_fstab_is_parted_by_blanks_and_tabs_alone(shipped: Shipped) -> None:
    table = "/dev/sdq1\t/srv/\u5916\u3000disk \t ext4 defaults\r\n"
    lost = "40 27 8:17 / /srv/\u5916\u3000disk rw - ext4 /dev/sdq1 ro"
    ran = shipped.run("fs-readonly", **world(shipped, lost, table=table))
    assert [one["mount"] for one in ran.faults] == ["/srv/\u5916\u3000disk"]
    assert repair(shipped, ran.diagnosis, lost, works(shipped), table).code == 0


@pytest.mark.parametrize("mounts", ["27", "27 1 8:1 / / rw", "27 1 8:1 / / rw - ext4"])
def test_a_table_that_is_none(shipped: Shipped, mounts: str) -> None:
    assert look(shipped, mounts).complaint.startswith("fs-readonly: ")


def repair(
    shipped: Shipped, stdin: object, mounts: Files | str, script: str = "", table: str = FSTAB
) -> Ran:
    constants = world(shipped, str(mounts), table=table)
    del constants["SYS"]
    tool = shipped.tool("mount", f'echo "$@" >> {shipped.root}/ran\n{script}')
    return shipped.run(REMOUNT, stdin, MOUNT=tool, **constants)


def ran_tools(shipped: Shipped) -> list[str]:
    path = shipped.root / "ran"
    return path.read_text().splitlines() if path.exists() else []


def works(shipped: Shipped) -> str:
    """A mount which does it: from now on the table says rw."""
    return f"sed -i 's/ ro/ rw/g' {shipped.root}/proc/self/mountinfo"


@pytest.mark.parametrize("merged", [False, True])
def test_remount(shipped: Shipped, merged: bool) -> None:
    said = look(shipped, ROOT, read_only(DISK)).diagnosis
    if merged:
        said = said | {"details": {"fs-readonly": said, "smart": {"status": "Ok"}}}
    ran = repair(shipped, said, read_only(DISK), works(shipped))
    assert (ran.code, ran.stdout) == (0, "remounted read-write: '/srv/my disk'\n")
    assert ran_tools(shipped) == ["-o remount,rw -- /srv/my disk"]


@pytest.mark.parametrize(
    ("script", "why"),
    [
        pytest.param("echo 'write-protected' >&2; exit 32", "write-protected", id="refused"),
        pytest.param("exit 0", "exit 0", id="success without effect"),
    ],
)
def test_a_remount_that_does_not_work(shipped: Shipped, script: str, why: str) -> None:
    said = look(shipped, read_only(DISK)).diagnosis
    ran = repair(shipped, said, read_only(DISK), script)
    assert ran.complaint.endswith(f"'/srv/my disk' stays read-only: {why}")


@pytest.mark.parametrize("flag", ["rw,shutdown", "emergency_ro"])
def test_a_remount_that_leaves_a_file_system_without_writes_has_not_worked(
    shipped: Shipped, flag: str
) -> None:
    ran = repair(shipped, order(GOOD), read_only(DISK, flag), "exit 32")
    assert ran.complaint.endswith("'/srv/my disk' stays read-only: exit 32")


def order(*faults: object, command: str = REMOUNT) -> dict[str, Any]:
    return {"status": "live-repair", "command": command, "details": {"faults": [*faults]}}


GOOD = {"mount": "/srv/my disk", "read_only": True, "errors": False}


@pytest.mark.parametrize(
    "stdin",
    [
        b"\xff",
        b"[" * 100_000,
        {"status": "Ok", "details": {}},
        order(GOOD, command="restart-unit"),
        order(),
        order({"mount": "/archive", "read_only": True, "errors": False}),
        order(GOOD, {"mount": "/archive", "read_only": True, "errors": False}),
        order({"mount": "/pool", "read_only": True, "errors": False}),
        order({"mount": "/", "read_only": True, "errors": True}),
        order({"mount": "-o bind", "read_only": True, "errors": False}),
        order({"mount": "/srv/my disk\n/", "read_only": True, "errors": False}),
        order({"mount": ["/srv/my disk"], "read_only": True, "errors": False}),
        order({"mount": "/srv/my disk"}),
        order("/srv/my disk"),
    ],
)
def test_hostile_orders_run_nothing(shipped: Shipped, stdin: object) -> None:
    mounts = "\n".join((read_only(ROOT), read_only(DISK), ARCHIVE))
    ran = repair(shipped, stdin, mounts)
    assert ran.code == 1
    assert ran.complaint.startswith("remount-rw: ")
    assert ran_tools(shipped) == []
