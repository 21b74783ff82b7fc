"""Full file systems: really mounted ones, because statvfs cannot be written into a fixture."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from .mounts import ODD, as_root, mounted
from .shipped import OK, Ran, Shipped

KILOBYTE = 1024


@pytest.fixture
def small(shipped: Shipped) -> Iterator[Path]:
    """A mount of exactly 100 blocks of 4 KiB, and of 100 inodes."""
    options = "size=400k,nr_inodes=101,mode=0755"
    with mounted(shipped.root / "small", "-t", "tmpfs", "-o", options, "nodeagent-test") as point:
        yield point


def look(
    shipped: Shipped, *points: Path, kind: str = "ext4", options: str = "rw rw", **constants: object
) -> Ran:
    mount, superblock = options.split()
    rows = (
        f"{number} 1 8:{number} / {str(point).replace(' ', chr(92) + '040')} {mount}"
        f" - {kind} /dev/x {superblock}\n"
        for number, point in enumerate(points)
    )
    root = shipped.tree({"proc/self/mountinfo": "".join(rows)})
    return shipped.run("fs-full", PROC=root / "proc", STATE=state(shipped), **constants)


def state(shipped: Shipped) -> Path:
    return shipped.root / "var/baselines/fs-full.json"


def fill(point: Path, percent: int) -> None:
    (point / "filler").write_bytes(b"x" * percent * 4 * KILOBYTE)


@as_root
def test_two_levels_with_hysteresis(shipped: Shipped, small: Path) -> None:
    seen = []
    for percent in (50, 89, 90, 88, 87, 86, 89, 96, 97, 95, 94, 93, 88, 86):
        fill(small, percent)
        ran = look(shipped, small)
        seen.append((percent, ran.need, [fault["level"] for fault in ran.faults]))
    nearly, full = ["nearly-full"], ["full"]
    assert seen == [
        (50, "Ok", []),
        (89, "Ok", []),
        (90, "Ok", nearly),
        (88, "Ok", nearly),
        (87, "Ok", nearly),
        (86, "Ok", []),
        (89, "Ok", []),
        (96, "Ok", nearly),
        (97, "live-repair", full),
        (95, "live-repair", full),
        (94, "live-repair", full),
        (93, "Ok", nearly),
        (88, "Ok", nearly),
        (86, "Ok", []),
    ]


@as_root
def test_the_percentage_stays_out(shipped: Shipped, small: Path) -> None:
    fill(small, 97)
    first = look(shipped, small)
    assert first.faults == [{"mount": str(small), "resource": "blocks", "level": "full"}]
    fill(small, 100)
    assert look(shipped, small).stdout == first.stdout


@as_root
def test_a_full_disk_is_told_though_it_cannot_keep_the_state(shipped: Shipped, small: Path) -> None:
    state(shipped).parent.parent.mkdir()
    state(shipped).parent.symlink_to(small)
    fill(small, 100)
    assert look(shipped, small).need == "live-repair"
    assert [path.name for path in small.iterdir() if path.name == state(shipped).name] == []


@as_root
@pytest.mark.parametrize("damage", ["", "[]", "[[1]]", "3", '{"a": 1}', '{"a": []}', "\xff"])
def test_a_damaged_state_costs_only_the_hysteresis(
    shipped: Shipped, small: Path, damage: str
) -> None:
    state(shipped).parent.mkdir(parents=True)
    state(shipped).write_text(damage, encoding="latin-1")
    fill(small, 97)
    assert look(shipped, small).need == "live-repair"
    assert json.loads(state(shipped).read_text()) == {f"blocks {small}": "full"}


@as_root
@pytest.mark.parametrize(
    ("kind", "options"),
    [("nfs4", "rw rw"), ("tmpfs", "rw rw"), ("ext4", "ro rw"), ("ext4", "rw ro")],
)
def test_what_is_not_asked(shipped: Shipped, small: Path, kind: str, options: str) -> None:
    fill(small, 100)
    assert look(shipped, small, kind=kind, options=options).diagnosis == OK
    assert not state(shipped).exists()


@as_root
def test_a_local_file_system_below_a_network_is_not_asked(shipped: Shipped, small: Path) -> None:
    fill(small, 100)
    rows = (f"1 1 8:1 / {small} rw - ext4 /dev/x rw\n", f"2 1 0:5 / {small} rw - nfs4 nas:/ rw\n")
    root = shipped.tree({"proc/self/mountinfo": "".join(rows)})
    constants = {"PROC": root / "proc", "STATE": state(shipped)}
    assert shipped.run("fs-full", **constants).diagnosis == OK
    shipped.tree({"proc/self/mountinfo": "".join(reversed(rows))})
    assert shipped.run("fs-full", **constants).need == "live-repair"


@pytest.mark.parametrize("line", ["1 1 0:9 / /x rw - tmpfs  rw\n", ODD])
def test_a_mount_without_a_source_silences_no_other(shipped: Shipped, line: str) -> None:
    """As `mount -t tmpfs "" /x` makes it; nor does one of an odd name."""
    root = shipped.tree({"proc/self/mountinfo": line})
    assert shipped.run("fs-full", PROC=root / "proc", STATE=state(shipped)).diagnosis == OK


@as_root
def test_a_mount_that_cannot_be_asked_silences_no_other(shipped: Shipped, small: Path) -> None:
    fill(small, 98)
    ran = look(shipped, small, shipped.root / "not there")
    assert [(fault["mount"], fault["level"]) for fault in ran.faults] == [(str(small), "full")]
    (not_asked,) = ran.diagnosis["details"]["not_asked"]
    assert not_asked == f"{shipped.root}/not there: No such file or directory"


@as_root
def test_an_ignored_mount_may_be_written_with_a_slash(shipped: Shipped, small: Path) -> None:
    fill(small, 98)
    assert look(shipped, small, IGNORED=(f"{small}/",)).diagnosis == OK


@pytest.mark.parametrize("text", ["1 2 3\n", "1 1 8:1 / / rw\n", "- ext4\n"])
def test_a_table_that_is_none(shipped: Shipped, text: str) -> None:
    root = shipped.tree({"proc/self/mountinfo": text})
    ran = shipped.run("fs-full", PROC=root / "proc", STATE=state(shipped))
    assert ran.complaint.startswith("fs-full: ")
