"""The check of a fenced node for instances that belong elsewhere by now."""

import pytest

from .shipped import Shipped

HERE = {"name": "n3", "uuid": "u3", "instances": ["web", "mail"], "secondaries": ["cache"]}
QEMU = "/usr/bin/qemu-system-x86_64\0-enable-kvm\0-name\0{},debug-threads=on\0-m\0128\0"
DRBD = """version: 8.4.11 (api:1/proto:86-101)
 0: cs:WFConnection ro:{}/Unknown ds:UpToDate/DUnknown C r-----
 1: cs:Connected ro:{}/Secondary ds:UpToDate/UpToDate C r-----
"""
LINK = "run/instance-disks/{}:0"


def look(
    shipped: Shipped, files: dict[str, str], lvs: str = "", xl: str = "", **said: object
) -> tuple[int, str]:
    root = shipped.tree({"proc/1/cmdline": "/sbin/init\0", **files})
    ran = shipped.run(
        "stale-instances",
        {**HERE, **said},
        PROC=root / "proc",
        RUN=root / "run",
        FILES=root / "files",
        XL=shipped.tool("xl", xl) if xl else root / "none",
        LVS=shipped.tool("lvs", lvs) if lvs else root / "none",
    )
    return ran.code, ran.stdout if ran.code == 0 else ran.complaint


def test_a_machine_where_nothing_is_left(shipped: Shipped) -> None:
    files = {"proc/77/cmdline": QEMU.format("web"), "proc/78/cmdline": ""}
    code, said = look(shipped, files)
    assert (code, said) == (0, "no earlier instance is in use; volumes or files left: -\n")


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"proc/77/cmdline": QEMU.format("db")}, "elsewhere: running: db"),
        ({"proc/77/cmdline": QEMU.format("cache")}, "running: cache"),
        ({"run/fake-hypervisor/db": ""}, "running: db"),
        ({"proc/drbd": DRBD.format("Primary", "Secondary")}, "drbd0 is Primary: no instance"),
        (
            {
                "proc/drbd": DRBD.format("Primary", "Primary"),
                LINK.format("web"): "-> /dev/drbd0",
                LINK.format("db"): "-> /dev/drbd1",
            },
            "elsewhere: drbd1 is Primary: db",
        ),
        ({"proc/drbd": "version: 9.2.0 (api:2/proto:86-121)\n"}, "cannot be read"),
    ],
)
def test_what_is_left_is_named(shipped: Shipped, files: dict[str, str], said: str) -> None:
    """Also beside instances that may be there: each DRBD minor is judged by its own instance."""
    code, complaint = look(shipped, files)
    assert code == 1
    assert said in complaint


def test_what_may_be_there(shipped: Shipped) -> None:
    files = {
        "proc/drbd": DRBD.format("Primary", "Secondary"),
        LINK.format("web"): "-> /dev/drbd0",
        LINK.format("db"): "-> /dev/drbd7",  # an old link to nothing
        "proc/9/cmdline": "less\0-name\0qemu\0",
    }
    assert look(shipped, files)[0] == 0


def test_ganeti_cuts_long_tags(shipped: Shipped) -> None:
    name = "x" * 130
    row = f"echo '-wi-ao----|originstname+{name}' | cut -c-139"
    assert look(shipped, {}, row, instances=[name])[0] == 0


def test_open_volumes_of_others_count_and_unused_ones_are_told(shipped: Shipped) -> None:
    row = "echo '  -wi-a{}----|{},originstname+{}'"
    mine = [row.format("o", "x", name) for name in ("web", "cache", "mail")]
    code, said = look(shipped, {}, "\n".join(mine))
    assert (code, said.rpartition(": ")[2]) == (0, "-\n")
    unused = row.format("-", "x", "db")
    files = {"files/old/disk0": "", "files/web/disk0": ""}
    code, said = look(shipped, files, "\n".join([*mine, unused]))
    assert (code, said.rpartition(": ")[2]) == (0, "db, old\n")
    code, said = look(shipped, files, row.format("o", "x", "db"))
    assert code == 1
    assert said.endswith("elsewhere: open volumes: db")
    assert look(shipped, {}, "exit 5")[0] == 1
