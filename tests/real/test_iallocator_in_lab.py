"""Real Ganeti asks our allocator; its own lists are the witness."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import needs
from tests.real.lab import MASTER, NODES, ROOT, gnt, node, remove, remove_all, running

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(1800),  # others may be using the laboratory
]

OURS = "nodeagent-iallocator"
SMALL = ("-o", "noop", "--no-name-check", "--no-ip-check", "--no-install", "--no-nics")


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Three nodes with what the packages would put there."""
    needs.require("root", "laboratory")
    package = tmp_path_factory.mktemp("package")
    path = f"{Path(sys.executable).parent}:/usr/sbin:/usr/bin:/sbin:/bin"
    for part in ("agent", "maintd"):
        command = [str(ROOT / "packaging/install"), part, str(package), str(ROOT)]
        subprocess.run(command, check=True, env={"PATH": path, "LC_ALL": "C.UTF-8"}, timeout=60)
    package.chmod(0o755)
    with running(fresh=True):
        for name in NODES:
            done = node(name, "cp", "-a", f"{package}/usr/lib/.", "/usr/lib/")
            assert done.returncode == 0, done.stderr
        yield


@pytest.fixture(autouse=True)
def clean(lab: None) -> Iterator[None]:
    yield
    remove_all()


def add(name: str, template: str, *options: str) -> str:
    """Have an instance wherever our allocator says; what Ganeti prints meanwhile."""
    disks = [] if template == "diskless" else ["--disk=0:size=64"]
    command = ["gnt-instance", "add", "-t", template, *disks, *SMALL, *options, "-I", OURS, name]
    done = node("master", *command)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def places(name: str) -> list[str]:
    """The primary node and the secondary one, if there is one."""
    fields = ("--no-headers", "--separator=|", "-o", "pnode,snodes")
    primary, secondary = gnt("gnt-instance", "list", *fields, name).strip().split("|")
    return [primary, *secondary.split()]


def told(allocator: str, *options: str) -> dict[str, object]:
    """What an allocator answers to Ganeti's own question, with nothing done."""
    command = ("gnt-debug", "iallocator", "--dir", "out", "-I", allocator, *options)
    found: dict[str, object] = json.loads(gnt(*command))
    return found


@pytest.mark.parametrize(("template", "nodes"), [("drbd", 2), ("plain", 1), ("sharedfile", 1)])
def test_allocates(template: str, nodes: int) -> None:
    said = add("inst1", template)
    assert f"via iallocator {OURS}:" in said
    at = places("inst1")
    assert len(at) == nodes
    assert set(at) <= set(NODES)
    assert f"{OURS}: {', '.join(at)}" in said
    # Nobody is put where it is full already.
    add("inst2", template)
    assert places("inst2")[0] != at[0]


def test_answers_as_hail_to_ganetis_own_questions() -> None:
    add("inst1", "drbd")
    new = ("--mode", "allocate", "--disks", "64", "-t", "drbd", "-o", "noop", "inst2")
    moved = ("--mode", "relocate", "inst1")
    for question in (new, moved):
        one, other = told(OURS, *question), told("hail", *question)
        # The machine's memory is never twice the same, and so is no score.
        assert (one["success"], one["result"]) == (other["success"], other["result"])


def test_relocates() -> None:
    add("inst1", "drbd")
    primary, secondary = places("inst1")
    gnt("gnt-instance", "replace-disks", "-I", OURS, "inst1")
    (third,) = set(NODES) - {primary, secondary}
    assert places("inst1") == [primary, third]


@pytest.mark.parametrize("side", ["--primary-only", "--secondary-only"])
def test_evacuates(side: str) -> None:
    for number in range(1, 4):
        add(f"inst{number}", "drbd")
    names = [f"inst{number}" for number in range(1, 4)]
    place = 0 if side == "--primary-only" else 1
    # Another than the master, so that it is one that may fail.
    full = next(at[place] for at in map(places, names) if at[place] != MASTER)
    gnt("gnt-node", "evacuate", "-f", side, "-I", OURS, full)
    assert all(places(name)[place] != full for name in names)


@pytest.mark.story
def test_several_at_once(tmp_path: Path) -> None:
    """One has no place; the others are made."""
    plans = [
        {
            "instance_name": f"inst{number}",
            "disk_template": "plain",
            "disks": [{"size": size}],
            "nics": [],
            "os_type": "noop",
            "mode": "create",
            "name_check": False,
            "ip_check": False,
            "no_install": True,
            "hypervisor": "fake",
        }
        for number, size in ((1, 64), (2, 64), (3, 900_000))
    ]
    file = tmp_path / "plans.json"
    file.write_text(json.dumps(plans))
    tmp_path.chmod(0o755)
    node("master", "gnt-instance", "batch-create", "-I", OURS, str(file))
    listed = gnt("gnt-instance", "list", "--no-headers", "-o", "name").split()
    assert [name.partition(".")[0] for name in listed] == ["inst1", "inst2"]
    assert places("inst1") != places("inst2")


def test_a_mirror_for_one_that_had_none() -> None:
    add("inst1", "plain", "--no-start")
    (primary,) = places("inst1")
    gnt("gnt-instance", "modify", "-t", "drbd", "-I", OURS, "inst1")
    first, second = places("inst1")
    assert first == primary
    assert second in set(NODES) - {primary}


def test_changes_the_group() -> None:
    add("inst1", "sharedfile")
    (before,) = places("inst1")
    far = next(name for name in NODES if name not in (before, MASTER))
    gnt("gnt-group", "add", "far")
    # A group of one node has no place for what was on it.
    gnt("gnt-cluster", "modify", "--default-iallocator-params", "no-capacity-checks=")
    try:
        gnt("gnt-group", "assign-nodes", "--force", "far", far)
        gnt("gnt-instance", "change-group", "-I", OURS, "--to", "far", "inst1")
        assert places("inst1") == [far]
        remove("inst1.gnt.test")
    finally:
        gnt("gnt-cluster", "modify", "--default-iallocator-params", "ignore-dynu=")
        gnt("gnt-group", "assign-nodes", "--force", "default", far)
        gnt("gnt-group", "remove", "far")


def test_options_come_from_the_cluster() -> None:
    gnt("gnt-cluster", "modify", "--default-iallocator-params", "as-hail=,dance=")
    try:
        command = ("gnt-instance", "add", "-t", "diskless", *SMALL, "-I", OURS, "inst1")
        done = node("master", *command)
        assert done.returncode != 0
        assert f"{OURS}: there is no option --dance=" in done.stderr
        gnt("gnt-cluster", "modify", "--default-iallocator-params", "as-hail=")
        add("inst1", "plain")
        assert len(places("inst1")) == 1
    finally:
        gnt("gnt-cluster", "modify", "--default-iallocator-params", "ignore-dynu=")
