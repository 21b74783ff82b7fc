"""maintd-follow, look by look, beside a systemd that is a file of properties."""

import os
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

FOLLOW = Path(__file__).resolve().parents[2] / "packaging/maintd-follow"
KEYS = ("hmac.key", "client.pem")
HOURS = timedelta(hours=2)


class Node:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.said: dict[str, str] = {}
        for name in ("ganeti", "run", "bin"):
            (folder / name).mkdir()
        for name in ("ssconf_master_node", "ssconf_master_candidates", *KEYS):
            self.write(name)
        self.tool("systemctl", f'[ "$1" = show ] && cat {folder}/said || echo "$@" >>{folder}/done')
        text = FOLLOW.read_text().replace("/var/lib/ganeti", str(folder / "ganeti"))
        (folder / "follow").write_text(text)

    def tool(self, name: str, script: str) -> None:
        (self.folder / "bin" / name).write_text(f"#!/bin/sh\n{script}\n")
        (self.folder / "bin" / name).chmod(0o755)

    def write(self, name: str) -> None:
        """As Ganeti does it: a new file in the old one's place."""
        (self.folder / "new").write_text(name)
        (self.folder / "new").rename(self.folder / "ganeti" / name)

    def maintd(self, state: str, ahead: timedelta = timedelta(0)) -> None:
        """Systemd tried to start it just now, by a clock so far ahead, and this came of it."""
        at = f"{datetime.now(UTC) + ahead:%a %Y-%m-%d %H:%M:%S.%f UTC}"
        self.said = {"ActiveState": state, "UnitFileState": "enabled", "ConditionTimestamp": at}
        self.said["Result"] = "success" if state == "active" else "exec-condition"
        self.said["ExecMainStartTimestamp"] = at if state == "active" else ""

    def look(self) -> str:
        """What one look asks of systemd, which does it at once."""
        (self.folder / "said").write_text("".join(f"{k}={v}\n" for k, v in self.said.items()))
        (self.folder / "done").write_text("")
        subprocess.run(
            ["/bin/sh", self.folder / "follow"],
            env={
                "PATH": f"{self.folder}/bin:{os.environ['PATH']}",
                "RUNTIME_DIRECTORY": f"{self.folder}/run",
            },
            check=True,
        )
        done = (self.folder / "done").read_text().removeprefix("--no-block ").partition(" ")[0]
        if done:
            self.maintd(self.said["ActiveState"])
        return done


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_it_starts_what_was_skipped_once_for_each_change(node: Node) -> None:
    node.maintd("inactive")
    assert node.look() == ""
    for name in ("ssconf_master_node", "ssconf_master_candidates", *KEYS):
        node.write(name)
        assert [node.look(), node.look()] == ["start", ""]


def test_it_restarts_what_has_an_old_key_once_for_each_change(node: Node) -> None:
    node.maintd("active")
    node.write("ssconf_master_node")
    assert node.look() == ""
    for name in KEYS:
        node.write(name)
        assert [node.look(), node.look()] == ["try-restart", ""]


@pytest.mark.parametrize("state", ["inactive", "active"])
def test_a_try_of_somebody_else_after_the_change_will_do(node: Node, state: str) -> None:
    node.maintd(state)
    node.look()
    node.write("hmac.key")
    node.maintd(state)
    assert node.look() == ""
    node.maintd(state, ahead=-HOURS)
    node.write("hmac.key")
    assert node.look() != ""


@pytest.mark.parametrize("looked", [False, True])
@pytest.mark.parametrize(("state", "does"), [("inactive", "start"), ("active", "try-restart")])
def test_the_clock_was_ahead_when_it_was_tried(
    node: Node, state: str, does: str, looked: bool
) -> None:
    node.maintd(state, ahead=HOURS)
    if looked:  # while the clock is still ahead
        node.tool("date", 'case $1 in -d) exec /bin/date "$@" ;; esac; echo 9999999999')
        assert node.look() == ""
        (node.folder / "bin/date").unlink()
    node.write("hmac.key")
    assert [node.look(), node.look()] == [does, ""]


@pytest.mark.parametrize(
    "find",
    [
        pytest.param("exit 0", id="it is older than the only try: the clock has caught up"),
        pytest.param("echo hmac.key", id="it stays newer than all tries: the clock was ahead"),
    ],
)
@pytest.mark.parametrize(("state", "does"), [("inactive", "start"), ("active", "try-restart")])
def test_a_change_counts_once_whatever_the_time_of_its_file(
    node: Node, state: str, does: str, find: str
) -> None:
    """The time of an inode cannot be set, so `find` says how it compares."""
    node.maintd(state)
    node.look()
    node.tool("find", find)
    node.write("hmac.key")
    assert [node.look(), node.look(), node.look()] == [does, "", ""]


@pytest.mark.parametrize(
    "said",
    [
        {"UnitFileState": "disabled"},
        {"ActiveState": "activating"},
        {"Result": "success", "ExecMainStartTimestamp": "Sun 2026-11-22 19:00:00.000000 UTC"},
    ],
    ids=["disabled", "about to start", "stopped by somebody"],
)
def test_what_is_not_its_to_start(node: Node, said: dict[str, str]) -> None:
    node.maintd("inactive")
    node.said |= said
    node.look()
    node.write("ssconf_master_node")
    assert node.look() == ""
