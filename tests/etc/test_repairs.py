"""The repair commands which need no world of their own."""

import os
from typing import Any

import pytest

from .mounts import as_root
from .shipped import CALL, DIAGNOSE, Ran, Shipped, run_file

RESTART = "restart-unit"
ALLOWED = "# what may be restarted\nchrony.service\n\nganeti-noded.service\n"


def order(*units: object, command: str = RESTART) -> dict[str, Any]:
    return {"status": "live-repair", "command": command, "details": {"units": [*units]}}


def restart(shipped: Shipped, stdin: object, script: str = "", **constants: object) -> Ran:
    tool = shipped.tool("systemctl", f'echo "$@" >> {shipped.root}/ran\n{script}')
    constants.setdefault("ALLOWED", shipped.tree({"restart-units": ALLOWED}) / "restart-units")
    return shipped.run(RESTART, stdin, SYSTEMCTL=tool, **constants)


def ran_tools(shipped: Shipped) -> list[str]:
    path = shipped.root / "ran"
    return path.read_text().splitlines() if path.exists() else []


@as_root
def test_restart(shipped: Shipped) -> None:
    ran = restart(shipped, order("ganeti-noded.service", "chrony.service", "chrony.service"))
    assert ran == Ran(0, "restarted: chrony.service\nrestarted: ganeti-noded.service\n", "")
    assert ran_tools(shipped) == [
        f"--no-ask-password --quiet {verb} -- {unit}"
        for unit in ("chrony.service", "ganeti-noded.service")
        for verb in ("restart", "is-active")
    ]


@as_root
@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo 'Unit not found.' >&2; exit 5", "restart chrony.service: Unit not found."),
        ('case "$*" in *is-active*) exit 3;; esac', "is-active chrony.service: exit 3"),
    ],
)
def test_a_restart_that_does_not_work(shipped: Shipped, script: str, said: str) -> None:
    ran = restart(shipped, order("chrony.service"), script)
    assert (ran.code, ran.complaint) == (1, f"restart-unit: ValueError: systemctl {said}")


@as_root
def test_a_unit_that_does_not_start_keeps_no_other_down(shipped: Shipped) -> None:
    both = order("chrony.service", "ganeti-noded.service")
    ran = restart(shipped, both, 'case "$*" in *chrony*) exit 5;; esac')
    assert (ran.code, ran.stdout) == (1, "restarted: ganeti-noded.service\n")
    assert ran.complaint.endswith("systemctl restart chrony.service: exit 5")


@as_root
def test_a_restart_that_takes_too_long_is_tried_later(shipped: Shipped) -> None:
    ran = restart(shipped, order("chrony.service"), "exec sleep 20", SECONDS=0.2)
    assert ran.code == 75
    assert "timed out" in ran.complaint


@as_root
@pytest.mark.parametrize(
    "stdin",
    [
        b"",
        b"\xff\xfe",
        b"[]",
        b"[" * 100_000,
        {"status": "Ok", "details": {}},
        order("chrony.service", command=CALL),
        order(),
        order("sshd.service"),
        order("chrony.service", "sshd.service"),
        order("chrony"),
        order("chrony.service\n"),
        order("--force.service"),
        order("../chrony.service"),
        order("chrony.service;reboot"),
        order("# what may be restarted"),
        order("chrony.target"),
        order(7),
        order(["chrony.service"]),
        {"status": "live-repair", "command": RESTART, "details": "chrony.service"},
        {"status": "live-repair", "command": RESTART, "details": {"units": "chrony.service"}},
    ],
)
def test_hostile_orders_run_nothing(shipped: Shipped, stdin: object) -> None:
    ran = restart(shipped, stdin)
    assert ran.code == 1
    assert ran.complaint.startswith("restart-unit: ")
    assert ran_tools(shipped) == []


@as_root
@pytest.mark.parametrize("what", ["absent", "writable", "foreign", "link", "pipe", "folder"])
def test_an_allow_list_that_cannot_be_trusted_allows_nothing(shipped: Shipped, what: str) -> None:
    path = shipped.root / "list"
    path.write_text(ALLOWED)
    path.chmod(0o646 if what == "writable" else 0o644)
    if what == "foreign":
        os.chown(path, 65534, 0)
    elif what in ("absent", "link", "pipe", "folder"):
        path.rename(moved := path.with_name("moved"))
        if what == "link":
            path.symlink_to(moved)
        elif what == "pipe":
            os.mkfifo(path)
        elif what == "folder":
            path.mkdir()
    ran = restart(shipped, order("chrony.service"), ALLOWED=path)
    assert ran.code == 1
    assert str(path) in ran.complaint
    assert ran_tools(shipped) == []


def test_calling_the_operator_tells_and_changes_nothing(shipped: Shipped) -> None:
    said = {"status": "live-repair", "command": CALL, "details": {"faults": ["\x1b[2J\u202e"]}}
    ran = shipped.run(CALL, said)
    assert ran.code == 0
    assert ran.stdout.isascii()
    assert ran.stdout.startswith('told the system log: needs a person: {"faults": [')


@pytest.mark.parametrize("details", [{}, {"details": "a text"}, {"details": {"fan": 2}}], ids=str)
@pytest.mark.parametrize(
    ("command", "why"),
    [
        (RESTART, "no unit is named"),
        ("remount-rw", "no mount is named"),
        ("clear-kernel-baseline", "no fault named"),
    ],
)
def test_details_that_name_nothing_are_told_so(
    shipped: Shipped, command: str, why: str, details: dict[str, Any]
) -> None:
    """A diagnosis may have details of any kind, or none."""
    ran = shipped.run(command, {"status": "live-repair", "command": command, **details})
    assert (ran.code, ran.complaint) == (1, f"{command}: ValueError: {why}")


def test_the_example_runs_the_plug_in_and_nothing_else(shipped: Shipped) -> None:
    text = (DIAGNOSE / "nagios-example").read_text()
    plugin = shipped.tool("check", 'echo "WARNING: $*|t=1"; exit 1')
    copy = shipped.tool("copy", "")
    copy.write_text(text.replace("/usr/lib/nagios/plugins/check_ide_smart", str(plugin)))
    assert run_file(copy) == Ran(1, "WARNING: --device /dev/sda|t=1\n", "")
