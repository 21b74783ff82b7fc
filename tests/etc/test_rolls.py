"""What rolls run on nodes: whether a reboot is needed, the reboot, and the upgrades."""

import os
from pathlib import Path

import pytest

from .shipped import REPAIR, Shipped, run_file

ROLL = {"name": "node1", "uuid": "u", "roll": 1, "why": ""}
QEMU = "/usr/bin/qemu-system-x86_64\0-enable-kvm\0-name\0{},debug-threads=on\0-m\0128\0"


def test_what_asks_for_something_else_is_not_a_roll() -> None:
    for name in ("reboot-node", "upgrade-packages"):
        for said in (b"[]", b"{}", b'{"roll":"1"}', b'{"roll":true}'):
            assert "names no roll" in run_file(REPAIR / name, said).complaint


# Whether a reboot is needed.

RUNNING = "6.1.0-9-amd64"
IMAGE = f"boot/vmlinuz-{RUNNING}"


@pytest.mark.parametrize(
    ("files", "because"),
    [
        ({IMAGE: ""}, []),
        ({IMAGE: "", "boot/vmlinuz-6.1.0-8-amd64": ""}, []),
        ({IMAGE: "", "boot/vmlinuz-6.1.0-10-cloud-amd64": ""}, []),
        ({IMAGE: "", "boot/vmlinuz-7.0.0-1-amd64.old": ""}, []),
        ({}, []),
        (
            {IMAGE: "", "boot/vmlinuz-6.1.0-10-amd64": ""},
            ["kernel 6.1.0-10-amd64 is installed, and 6.1.0-9-amd64 runs"],
        ),
        ({IMAGE: "", "sentinel": ""}, ["the distribution asks for a reboot"]),
    ],
)
def test_a_reboot_is_needed(shipped: Shipped, files: dict[str, str], because: list[str]) -> None:
    assert asked(shipped, files) == {"needed": bool(because), "because": because}


@pytest.mark.parametrize(
    ("running", "other", "needed"),
    [
        ("6.1.0-38-amd64", "6.12.43+deb13-amd64", True),  # a new release of Debian
        ("6.12.43+deb13-amd64", "6.12.48+deb13-amd64", True),
        ("6.12.48+deb13-amd64", "6.12.43+deb13-amd64", False),
        ("6.12.43+deb13-amd64", "6.12.48+deb13-cloud-amd64", False),
        ("6.5.0-0.deb12.1-amd64", "6.5.0-0.deb12.4-amd64", True),  # backports
        ("6.1.0-38-amd64", "6.10.11+bpo-amd64", True),
        ("6.1.0-38-amd64", "6.1.0-39-rt-amd64", False),
        ("6.8.0-31-generic", "6.8.0-40-generic", True),
        ("6.8.0-31-generic", "6.8.0-40-lowlatency", False),
        ("6.8.4-2-pve", "6.8.12-1-pve", True),
        ("5.14.0-362.8.1.el9_3.x86_64", "5.14.0-427.13.1.el9_4.x86_64", True),
        ("5.14.0-362.8.1.el9_3.x86_64", "5.14.0-427.13.1.el9_4.x86_64+rt", False),
        ("6.5.6-300.fc39.x86_64", "6.8.5-301.fc40.x86_64", True),
    ],
)
def test_kernels_of_one_sort(shipped: Shipped, running: str, other: str, needed: bool) -> None:
    said = asked(shipped, {"release": running, f"boot/vmlinuz-{other}": ""})
    assert said["needed"] == needed


def test_a_kernel_that_was_replaced_since_it_started(shipped: Shipped) -> None:
    root = shipped.tree({IMAGE: ""})
    os.utime(root / IMAGE, (2_000_000_000, 2_000_000_000))
    said = asked(shipped, {})
    assert said["because"] == [f"kernel {RUNNING} was replaced since it started"]


def asked(shipped: Shipped, files: dict[str, str]) -> dict[str, object]:
    root = shipped.tree({"boot": None, "release": f"{RUNNING}\n", **files})
    stat = root / "stat"
    stat.write_text("cpu 1 2\nbtime 1900000000\n")
    ran = shipped.run(
        "reboot-required",
        BOOT=root / "boot",
        RELEASE=root / "release",
        STAT=stat,
        SENTINELS=(str(root / "sentinel"),),
    )
    assert ran.need == "Ok", "it is no fault"
    details: dict[str, object] = ran.diagnosis["details"]
    return details


def test_without_knowledge_there_is_no_answer(shipped: Shipped) -> None:
    root = shipped.tree({"release": RUNNING, "stat": "cpu 1\n", IMAGE: ""})
    ran = shipped.run(
        "reboot-required", BOOT=root / "boot", RELEASE=root / "release", STAT=root / "stat"
    )
    assert "does not say when" in ran.complaint


# The reboot.


def reboot(shipped: Shipped, files: dict[str, str], script: str) -> tuple[int, str]:
    root = shipped.tree({"proc/1/cmdline": "/sbin/init\0", **files})
    tool = shipped.tool("systemd-run", script)
    ran = shipped.run(
        "reboot-node",
        ROLL,
        PROC=root / "proc",
        RUN=root / "run",
        XL=root / "none",
        SYSTEMD_RUN=tool,
    )
    return ran.code, ran.stdout if ran.code == 0 else ran.complaint


@pytest.mark.parametrize(
    "files", [{"proc/7/cmdline": QEMU.format("web")}, {"run/fake-hypervisor/web": ""}]
)
def test_a_node_with_a_running_instance_is_not_rebooted(
    shipped: Shipped, files: dict[str, str]
) -> None:
    log = shipped.root / "log"
    code, said = reboot(shipped, files, f"echo $* >>{log}")
    assert (code, "instances run here: web" in said) == (1, True)
    assert not log.exists()


def test_an_empty_node_is(shipped: Shipped) -> None:
    log = shipped.root / "log"
    assert reboot(shipped, {}, f"echo $* >>{log}") == (0, "reboot-node: in 5 seconds\n")
    assert log.read_text().endswith("--on-active=5 /usr/bin/systemctl reboot\n")


# The upgrades.


def upgrade(shipped: Shipped, apt: Path, dnf: Path) -> tuple[int, str]:
    ran = shipped.run("upgrade-packages", ROLL, APT=apt, DNF=dnf)
    return ran.code, ran.stdout if ran.code == 0 else ran.complaint


def test_apt_updates_its_lists_and_upgrades(shipped: Shipped) -> None:
    log, none = shipped.root / "log", shipped.root / "none"
    apt = Path(shipped.tool("apt-get", f"echo $* >>{log}"))
    assert upgrade(shipped, apt, none) == (0, "upgrade-packages: done\n")
    update, install = log.read_text().splitlines()
    assert update.endswith("-q update")
    assert install.endswith("-y -q upgrade --with-new-pkgs")
    assert "--force-confold" in install


INTERRUPTED = "dpkg was interrupted, you must manually run 'dpkg --configure -a' to correct it."


@pytest.mark.parametrize("mends", [True, False])
def test_an_upgrade_goes_on_where_another_was_cut_off(shipped: Shipped, mends: bool) -> None:
    """Until then apt refuses to do anything, for ever."""
    log, done = shipped.root / "log", shipped.root / "done"
    script = (
        f'case "$*" in *upgrade*) [ -e {done} ] || {{ echo "E: {INTERRUPTED}" >&2; exit 100; }}'
    )
    apt = shipped.tool("apt-get", f"{script};; esac")
    dpkg = shipped.tool("dpkg", f"echo $* >>{log}; {f'touch {done}' if mends else 'true'}")
    ran = shipped.run("upgrade-packages", ROLL, APT=apt, DPKG=dpkg)
    assert log.read_text() == "--force-confdef --force-confold --configure -a\n"
    assert ran.code == (0 if mends else 1)
    assert mends or ran.complaint.endswith(INTERRUPTED)


def test_a_failed_upgrade_says_why(shipped: Shipped) -> None:
    apt = Path(shipped.tool("apt-get", "echo E: no network >&2; exit 100"))
    code, said = upgrade(shipped, apt, shipped.root / "none")
    assert (code, said.endswith("E: no network")) == (1, True)
    assert upgrade(shipped, shipped.root / "none", shipped.root / "none")[0] == 1
