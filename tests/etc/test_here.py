"""The shipped commands on this very machine, and on faults really made here."""

import fcntl
import os
import struct
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests import needs

from .mounts import as_root, command, mounted
from .shipped import DIAGNOSE, REPAIR, Shipped, run_file

ALONE = "/run/lock/nodeagent-test-here"


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    """One test run at a time: LVM sees the disks of all, and asks for no lock that others hold."""
    if os.geteuid() != 0:
        yield
        return
    with open(ALONE, "w", encoding="ascii") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@as_root
@pytest.mark.parametrize("name", sorted(path.name for path in DIAGNOSE.iterdir()))
def test_each_diagnosis_knows_or_says_why_not(name: str) -> None:
    first, second = run_file(DIAGNOSE / name), run_file(DIAGNOSE / name)
    if name == "nagios-example" and first.code in range(4):
        needs.lacking("no-plug-in", "its answers are its own")
    if first.code == 0:
        assert first.diagnosis["status"] == "Ok" or first.faults
    else:
        assert first.code in (1, 69)
        assert first.complaint.startswith(f"{name}: ")
        assert first.stdout == ""
    assert second == first


@as_root
@pytest.mark.parametrize("name", sorted(path.name for path in REPAIR.iterdir()))
def test_each_repair_refuses_to_guess(name: str) -> None:
    for stdin in (b"", b'{"status":"Ok","details":{}}'):
        assert run_file(REPAIR / name, stdin).complaint.startswith(f"{name}: ")


@contextmanager
def image(folder: Path, megabytes: int) -> Iterator[str]:
    """A loop device on a sparse file."""
    path = folder / f"disk{len(list(folder.glob('disk*')))}"
    path.touch()
    os.truncate(path, megabytes << 20)
    try:
        device = command("/usr/sbin/losetup", "--find", "--show", path)
    except (OSError, subprocess.CalledProcessError):
        needs.lacking("loop")
    try:
        yield device
    finally:
        command("/usr/sbin/losetup", "--detach", device)


@pytest.fixture
def ext4(shipped: Shipped) -> Iterator[Path]:
    """A small ext4 file system, really mounted."""
    with image(shipped.root, 8) as device:
        command("/usr/sbin/mkfs.ext4", "-q", "-m", "0", device)
        with mounted(shipped.root / "mounted", device) as point:
            yield point


def fstab(shipped: Shipped, point: Path) -> Path:
    return shipped.tree({"fstab": f"LABEL=test {point} ext4 defaults 0 2\n"}) / "fstab"


@as_root
def test_a_real_read_only_file_system_is_found_and_remounted(shipped: Shipped, ext4: Path) -> None:
    table = fstab(shipped, ext4)
    assert shipped.run("fs-readonly", FSTAB=table).need == "Ok"
    command("/usr/bin/mount", "-o", "remount,ro", ext4)
    ran = shipped.run("fs-readonly", FSTAB=table)
    assert ran.diagnosis["command"] == "remount-rw"
    assert [fault["mount"] for fault in ran.faults] == [str(ext4)]
    repaired = shipped.run("remount-rw", ran.stdout.encode(), FSTAB=table)
    assert (repaired.code, repaired.stderr) == (0, "")
    (ext4 / "writable").touch()
    assert shipped.run("fs-readonly", FSTAB=table).need == "Ok"


@as_root
def test_a_real_error_of_ext4_is_found_and_not_remounted(shipped: Shipped, ext4: Path) -> None:
    device = Path(command("/usr/bin/findmnt", "-n", "-o", "SOURCE", ext4)).name
    trigger = Path(f"/sys/fs/ext4/{device}/trigger_fs_error")
    if not trigger.exists():
        needs.lacking("ext4-errors")
    table = fstab(shipped, ext4)
    command("/usr/bin/mount", "-o", "remount,errors=remount-ro", ext4)
    trigger.write_text("made by a test")
    ran = shipped.run("fs-readonly", FSTAB=table)
    assert ran.need == "evacuate"
    assert [(f["mount"], f["read_only"], f["errors"]) for f in ran.faults] == [
        (str(ext4), True, True)
    ]
    forced = {"status": "live-repair", "command": "remount-rw", "details": {"faults": ran.faults}}
    assert "needs fsck" in shipped.run("remount-rw", forced, FSTAB=table).complaint


SHUTDOWN, NO_FLUSH = 0x8004587D, 2  # EXT4_IOC_SHUTDOWN; the kernel does so as a device is removed


@as_root
def test_a_real_shutdown_of_ext4_is_found_and_not_remounted(shipped: Shipped, ext4: Path) -> None:
    table = fstab(shipped, ext4)
    folder = os.open(ext4, os.O_RDONLY)
    fcntl.ioctl(folder, SHUTDOWN, struct.pack("I", NO_FLUSH))
    os.close(folder)
    if "shutdown" not in command("/usr/bin/findmnt", "-n", "-o", "FS-OPTIONS", ext4):
        needs.lacking("ext4-shutdown")
    ran = shipped.run("fs-readonly", FSTAB=table)
    assert (ran.need, [fault["shut_down"] for fault in ran.faults]) == ("evacuate", [True])
    claimed = [fault | {"errors": False} for fault in ran.faults]
    forced = {"status": "live-repair", "command": "remount-rw", "details": {"faults": claimed}}
    assert "stays read-only" in shipped.run("remount-rw", forced, FSTAB=table).complaint


VOLUME = """
logical_volumes {{
    disk0 {{
        id = "aaaaaa-bbbb-cccc-dddd-eeee-ffff-gggggg"
        status = ["READ", "WRITE", "VISIBLE"]
        flags = []
        tags = ["{tag}"]
        segment_count = 1
        segment1 {{
            start_extent = 0
            extent_count = 2
            type = "striped"
            stripe_count = 1
            stripes = ["pv1", 0]
        }}
    }}
}}
"""


def add_volume(file: Path, group: str, tag: str) -> None:
    """Put a volume on the second disk by its metadata: lvcreate wants a device mapper."""
    command("/usr/sbin/vgcfgbackup", "--quiet", "--file", str(file), group)
    head, brace, rest = file.read_text().rpartition("\n}\n")
    file.write_text(head + VOLUME.format(tag=tag) + brace + rest)
    command("/usr/sbin/vgcfgrestore", "--quiet", "--file", str(file), group)


INSTANCE_TAG = "originstname+web1.example.org"


@needs.mark("root", "vgcreate")
@pytest.mark.parametrize(("tag", "need"), [(None, "live-repair"), (INSTANCE_TAG, "evacuate")])
def test_a_real_volume_group_without_one_of_its_disks_is_judged_by_its_volumes(
    shipped: Shipped, tag: str | None, need: str
) -> None:
    group = f"nodeagent-test-{os.getpid()}"
    with ExitStack() as stack:
        kept = stack.enter_context(image(shipped.root, 16))
        with image(shipped.root, 16) as lost:
            command("/usr/sbin/vgcreate", "--yes", "--quiet", group, kept, lost)
            uuid = command("/usr/sbin/pvs", "--noheadings", "-o", "pv_uuid", lost)
            if tag is not None:
                add_volume(shipped.root / "metadata", group, tag)
            assert group not in shipped.run("lvm").stdout
        try:
            ran = shipped.run("lvm")
            assert ran.need == need
            assert {"group": group, "fault": "missing-disks", "disks": [uuid]} in ran.faults
        finally:
            command("/usr/sbin/vgreduce", "--removemissing", "--force", "--quiet", group)
            command("/usr/sbin/vgremove", "--yes", "--quiet", group)
            command("/usr/sbin/pvremove", "--yes", "--quiet", kept)
