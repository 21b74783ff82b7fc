"""Groups are made, found again and removed; version 2 by a tree of ordinary files."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from nodeagent.agent import cgroup, supervisor
from nodeagent.agent.cgroup import Cages


def homes(base: Path) -> Cages:
    return Cages([("v2", str(base), f"{base}/runner")])


def test_each_supervisor_has_one_and_busy_ones_are_removed_later(tmp_path: Path) -> None:
    cages = homes(tmp_path)
    [group] = made = cages.make()
    other = cages.make()
    assert list(made.values()) == list(other.values()) == [f"{tmp_path}/runner"]
    inhabitant = Path(group, "busy")
    inhabitant.touch()
    cages.discard(made)
    assert os.path.exists(group)
    inhabitant.unlink()
    cages.tidy()
    assert [os.path.exists(each) for each in (group, *other)] == [False, True]


def test_groups_of_killed_runners_are_removed_at_the_start(tmp_path: Path) -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    gone, alive = f"nodeagent-{process.pid}-3", f"nodeagent-{os.getppid()}-3"
    for name in (gone, alive, "system.slice", "nodeagent-x-3"):
        (tmp_path / name).mkdir()
    homes(tmp_path)
    assert sorted(os.listdir(tmp_path)) == sorted([alive, "system.slice", "nodeagent-x-3"])


def test_a_leftover_of_our_own_number_is_no_hindrance(tmp_path: Path) -> None:
    """In a container every runner has the same process number."""
    [group] = homes(tmp_path).make()
    head, _, number = group.rpartition("-")
    os.mkdir(f"{head}-{int(number) + 1}")
    assert list(homes(tmp_path).make()) == [f"{head}-{int(number) + 1}"]


def test_kill_ends_members_and_never_process_zero(tmp_path: Path) -> None:
    """Members of another name space are listed as 0; kill(0) would be our own group."""
    victim = subprocess.Popen(["sleep", "300"])
    (tmp_path / "cgroup.procs").write_text(f"0\n{victim.pid}\n")
    (tmp_path / "cgroup.kill").touch()
    assert cgroup.kill([str(tmp_path), f"{tmp_path}/missing"]) == [victim.pid]
    assert victim.wait(5) == -9
    assert (tmp_path / "cgroup.kill").read_text() == "1"


# What /proc/self/cgroup and mountinfo say, and which homes follow.
MOUNT = "30 20 0:26 / {place} rw,nosuid - {kind} cgroup rw,{options}\n"


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    real = open
    told = {"/proc/self/cgroup": tmp_path / "cgroup", "/proc/self/mountinfo": tmp_path / "mounts"}

    def opened(path: Any, *rest: Any, **more: Any) -> Any:
        return real(told.get(path, path), *rest, **more)

    monkeypatch.setattr("builtins.open", opened)
    return tmp_path


def test_version_2_under_a_delegating_unit(tree: Path) -> None:
    unit = tree / "system.slice" / "runner.service"
    unit.mkdir(parents=True)
    (unit / "cgroup.controllers").write_text("cpu memory pids\n")
    (unit / "cgroup.type").write_text("domain\n")
    (unit / "cgroup.subtree_control").write_text("")
    (tree / "cgroup").write_text("0::/system.slice/runner.service\n")
    (tree / "mounts").write_text(MOUNT.format(place=tree, kind="cgroup2", options=""))
    cages = Cages()
    assert cages.kind == "v2"
    # The runner itself moved into a leaf: a group holds processes or limited groups, not both.
    assert (unit / "runner" / "cgroup.procs").read_text() == str(os.getpid())
    assert (unit / "cgroup.subtree_control").read_text() == "+pids +memory"
    [(group, home)] = cages.make().items()
    assert home == f"{unit}/runner"
    assert group.startswith(f"{unit}/nodeagent-{os.getpid()}-")


@pytest.mark.parametrize("missing", ["cgroup.controllers", "cgroup.type", "pids"])
def test_version_2_without_controllers_still_kills(tree: Path, missing: str) -> None:
    controllers = "memory" if missing == "pids" else "memory pids"
    for name, text in (("cgroup.controllers", controllers), ("cgroup.type", "domain")):
        if name != missing:
            (tree / name).write_text(text)
    (tree / "cgroup").write_text("0::/\n")
    (tree / "mounts").write_text(MOUNT.format(place=tree, kind="cgroup2", options=""))
    [(group, home)] = Cages().make().items()
    assert home == str(tree)
    assert os.path.dirname(group) == str(tree)
    assert not (tree / "runner").exists()


def test_version_1(tree: Path) -> None:
    (tree / "cgroup").write_text("5:devices:/\n4:memory:/a\n3:cpu,pids:/\n1:name=systemd:/\n0::/\n")
    lines = [
        MOUNT.format(place=tree / name, kind="cgroup", options=name) for name in ("memory", "pids")
    ]
    (tree / "mounts").write_text("".join(lines))
    (tree / "memory" / "a").mkdir(parents=True)
    (tree / "pids").mkdir()
    cages = Cages()
    assert cages.kind == "v1 memory, v1 pids"
    assert {os.path.dirname(group) for group in cages.make()} == {
        f"{tree}/memory/a",
        f"{tree}/pids",
    }


@pytest.mark.parametrize("name", [b"foo\rbar", b"caf\xe9", "\u2028".encode(), b"a\x85\x1cb"])
def test_mount_points_of_any_name(tree: Path, name: bytes) -> None:
    (tree / "cgroup").write_text("0::/\n")
    ours = MOUNT.format(place=tree, kind="cgroup2", options="").encode()
    (tree / "mounts").write_bytes(b"49 20 0:56 / /mnt/" + name + b" rw - tmpfs tmpfs rw\n" + ours)
    assert Cages().kind == "v2"


@pytest.mark.parametrize("file", ["cgroup", "mounts"])
def test_unreadable_proc_means_none(tree: Path, file: str) -> None:
    other = {"cgroup": "mounts", "mounts": "cgroup"}[file]
    (tree / other).write_text("")
    assert Cages().kind == "none"


def test_supervisor_sets_version_2_limits_and_sees_what_they_refused(tmp_path: Path) -> None:
    group, home = tmp_path / "group", tmp_path / "home"
    group.mkdir()
    home.mkdir()
    for file in ("cgroup.procs", "pids.max", "memory.max"):
        (group / file).touch()
    (group / "pids.events").write_text("max 0\n")
    (group / "memory.events").write_text("low 0\nhigh 0\nmax 7\noom 1\noom_kill 0\n")
    cage = supervisor.Cage({str(group): str(home)})
    assert (group / "cgroup.procs").read_text() == str(os.getpid())
    assert cage.counts
    cage.limit({"processes": 5, "memory": 4096})
    assert (group / "pids.max").read_text() == "6"  # the supervisor is one of them
    assert (group / "memory.max").read_text() == "4096"
    assert cage.exceeded() is None
    (group / "pids.events").write_text("max 3\n")
    assert cage.exceeded() == "processes"
    cage.limit({"processes": 5, "memory": 4096})
    assert cage.exceeded() is None  # what an earlier run met is not held against this one
    (group / "memory.events").write_text("low 0\nhigh 0\nmax 7\noom 2\noom_kill 1\n")
    assert cage.exceeded() == "memory"
