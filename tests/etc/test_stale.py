"""The check of a fenced node for instances that belong elsewhere by now."""

from pathlib import Path

import pytest

from .shipped import Shipped

HERE = {"name": "n3", "uuid": "u3", "instances": ["web"], "drbd": False}
QEMU = "/usr/bin/qemu-system-x86_64\0-enable-kvm\0-name\0{},debug-threads=on\0-m\0128\0"
DRBD = """version: 8.4.11 (api:1/proto:86-101)
 0: cs:WFConnection ro:{}/Unknown ds:UpToDate/DUnknown C r-----
"""


def look(shipped: Shipped, files: dict[str, str], **said: object) -> tuple[int, str]:
    root = shipped.tree({"proc/1/cmdline": "/sbin/init\0", "pid/.keep": "", **files})
    (root / "pid/.keep").unlink()
    ran = shipped.run(
        "stale-instances",
        {**HERE, **said},
        PROC=str(root / "proc"),
        PIDS=str(root / "pid"),
        XL=str(root / "xl"),
    )
    return ran.code, ran.stdout if ran.code == 0 else ran.complaint


def test_a_machine_where_nothing_is_left(shipped: Shipped) -> None:
    code, said = look(shipped, {"proc/77/cmdline": QEMU.format("web")})
    assert (code, said) == (0, "nothing of an earlier instance runs here\n")


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"proc/77/cmdline": QEMU.format("db")}, "belong elsewhere: db"),
        ({"proc/77/cmdline": "python\0", "pid/db": "77\n"}, "belong elsewhere: db"),
        ({"proc/drbd": DRBD.format("Primary")}, "Primary here: 0"),
    ],
)
def test_what_is_left_is_named(shipped: Shipped, files: dict[str, str], said: str) -> None:
    code, complaint = look(shipped, files)
    assert code == 1
    assert said in complaint


def test_what_may_be_there(shipped: Shipped) -> None:
    files = {"proc/drbd": DRBD.format("Secondary"), "pid/old": "4711\n"}
    assert look(shipped, files)[0] == 0
    assert look(shipped, {"proc/drbd": DRBD.format("Primary")}, drbd=True)[0] == 0


def test_guests_of_xen_count(shipped: Shipped, tmp_path: Path) -> None:
    tool = shipped.tool("xl", "echo Name ID; echo Domain-0 0; echo db 4")
    root = shipped.tree({"proc/1/cmdline": "/sbin/init\0"})
    ran = shipped.run(
        "stale-instances", HERE, PROC=str(root / "proc"), PIDS=str(tmp_path / "none"), XL=str(tool)
    )
    assert "belong elsewhere: db" in ran.complaint


def test_an_order_without_instances_fails(shipped: Shipped) -> None:
    assert shipped.run("stale-instances", {"name": "n3"}).code == 1
