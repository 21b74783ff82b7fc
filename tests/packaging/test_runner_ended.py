"""runner-ended in a folder that stands for the control groups."""

import signal
import subprocess
from pathlib import Path

import pytest

ENDED = Path(__file__).resolve().parents[2] / "packaging/runner-ended"
UNIT = "system.slice/nodeagent-runner.service"


@pytest.fixture
def groups(tmp_path: Path) -> Path:
    """The unit's group, with a command's group and the runner's own; and a neighbour."""
    for name in (
        UNIT,
        f"{UNIT}/nodeagent-7-1",
        f"{UNIT}/runner",
        f"{UNIT}/.control",
        "nodeagent-x",
    ):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "cgroup.kill").touch()
    (tmp_path / UNIT / "cgroup.procs").touch()
    (tmp_path / UNIT / "cgroup.subtree_control").write_text("memory pids\n")
    return tmp_path


def end(groups: Path, own: str) -> dict[str, str]:
    """Run it in the group `own`; give back what was written, by file."""
    (groups / "own").write_text(f"1:name=systemd:/x\n0::{own}\n")
    text = ENDED.read_text().replace("/proc/self/cgroup", str(groups / "own"))
    text = text.replace("/sys/fs/cgroup", str(groups))
    done = subprocess.run(["/bin/sh", "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout + done.stderr == ""
    files = [*groups.rglob("cgroup.kill"), *groups.rglob("cgroup.subtree_control")]
    return {str(file.relative_to(groups)): file.read_text() for file in files if file.read_text()}


def test_what_is_left_is_killed_and_the_units_own_group_takes_processes(groups: Path) -> None:
    assert end(groups, f"/{UNIT}/.control") == {
        f"{UNIT}/nodeagent-7-1/cgroup.kill": "1\n",
        f"{UNIT}/runner/cgroup.kill": "1\n",
        f"{UNIT}/cgroup.subtree_control": "-pids\n",  # a file keeps the last of two
    }


@pytest.mark.parametrize("own", ["/", f"/{UNIT}", "/.control", "/elsewhere/.control"])
def test_elsewhere_it_does_nothing(groups: Path, own: str) -> None:
    assert end(groups, own) == {f"{UNIT}/cgroup.subtree_control": "memory pids\n"}


def test_what_is_in_the_units_own_group_is_killed(groups: Path) -> None:
    with subprocess.Popen(["/bin/sleep", "5"]) as left:
        (groups / UNIT / "cgroup.procs").write_text(f"0\n{left.pid}\n")
        end(groups, f"/{UNIT}/.control")
        assert left.wait(9) == -signal.SIGKILL
