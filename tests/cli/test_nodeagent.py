"""The `nodeagent` command as a person uses it: as a process, against real files."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodeagent.protocol.canonical import read
from nodeagent.protocol.messages import Progress, Receipt
from tests.agent.place import NODE, Place, safe_folder
from tests.agent.test_runner import FIX, OK, SICK, SICK_TEXT, sealed_order

root = pytest.mark.skipif(
    os.getuid() != 0, reason="commands must belong to root; run as root: sudo make test"
)


@pytest.fixture
def place() -> Iterator[Place]:
    with safe_folder() as folder:
        yield Place(folder)


def run(
    place: Place, *arguments: str, config: str | None = None
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "nodeagent.cli.nodeagent", "-c", config or place.config]
    return subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=60)


def test_check_config_says_who_we_are(place: Place) -> None:
    done = run(place, "check-config")
    assert (done.returncode, done.stdout) == (0, f"ok: node {NODE} of cluster cluster.example\n")


@pytest.mark.parametrize(
    ("more", "code", "said"),
    [
        ("[listen]\nport = 1", 78, "not TOML"),
        ("[diagnose.command.x]\nspeed = 1", 78, "diagnose.command.x.speed is not a known setting"),
    ],
)
def test_a_wrong_setting_is_one_line_and_exit_78(
    place: Place, more: str, code: int, said: str
) -> None:
    place.settings(more=more)
    for command in ("check-config", "commands", "diagnose", "runner", "run"):
        done = run(place, command)
        assert (done.returncode, done.stdout) == (code, ""), command
        assert said in done.stderr
        assert done.stderr.count("\n") == 1
        assert done.stderr.startswith("nodeagent: ")


def test_a_wrong_cluster_tag_is_refused_with_its_key(place: Place) -> None:
    place.ssconf("cluster_tags", "other\nnodeagent:confirm:none\n")
    done = run(place, "check-config")
    assert done.returncode == 78
    assert "confirm is 'none'" in done.stderr


def test_an_unfit_key_is_found_by_check_config(place: Place) -> None:
    place.key_file.chmod(0o444)
    done = run(place, "check-config")
    assert done.returncode == 78
    assert "too open" in done.stderr


@root
def test_commands_shows_every_file_with_its_verdict_and_reason(place: Place) -> None:
    place.command("diagnose", "good", OK)
    place.command("diagnose", "idle", OK)
    place.command("diagnose", "open", OK).chmod(0o777)
    place.command("diagnose", "old.dpkg-new", OK)
    place.command("repair", "fix", OK)
    os.symlink("/bin/true", place.folder / "repair" / "link")
    place.settings(commands='"good", "absent"')
    done = run(place, "commands", "--json")
    rows = {row["name"]: row for row in json.loads(done.stdout)}
    assert {name: row["verdict"] for name, row in rows.items()} == {
        "good": "runs",
        "idle": "may run, not configured",
        "open": "refused",
        "old.dpkg-new": "refused",
        "fix": "runs",
        "link": "refused",
    }
    assert "0777" in rows["open"]["why"]
    assert "no configured folder" in rows["link"]["why"]
    assert done.returncode == 1
    assert "absent is configured, but there is none" in done.stderr
    table = run(place, "commands").stdout.splitlines()
    assert table[0].split() == ["KIND", "NAME", "VERDICT", "WHY"]
    assert len(table) == 7


@root
def test_diagnose_prints_the_canonical_diagnosis(place: Place) -> None:
    place.command("diagnose", "check", SICK)
    place.settings(commands='"check"')
    done = run(place, "diagnose")
    assert (done.returncode, done.stdout) == (0, SICK_TEXT + "\n")
    both = json.loads(run(place, "diagnose", "--json").stdout)
    assert both["diagnosis"] == both["commands"]["check"] == json.loads(SICK_TEXT)


@root
def test_diagnose_names_what_cannot_be_used(place: Place) -> None:
    place.command("diagnose", "check", SICK)
    place.command("diagnose", "broken", "#!/bin/sh\necho why >&2; exit 3\n")
    done = run(place, "diagnose", "check", "broken", "absent")
    assert done.returncode == 1
    assert 'broken: exit code 3: "why"' in done.stderr
    assert "absent: refused: No such file" in done.stderr
    assert json.loads(done.stdout)["status"] == "live-repair"


@root
def test_nobody_elses_command_runs(place: Place) -> None:
    place.command("diagnose", "check", SICK)
    os.chown(place.folder / "diagnose" / "check", 65534, 65534)
    done = run(place, "diagnose", "check")
    assert (done.returncode, done.stdout) == (1, "")
    assert "owned by 65534:65534" in done.stderr


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Agent:
    """`nodeagent run` as a process of its own."""

    def __init__(self, place: Place) -> None:
        self.place, self.port = place, free_port()
        place.settings(port=self.port, commands='"check"')
        self.log = place.folder / "log"
        self.process = self._start()

    def _start(self) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", "nodeagent.cli.nodeagent", "-c", self.place.config, "run"]
        with self.log.open("ab") as log:
            return subprocess.Popen(command, stderr=log, stdout=log)

    def report(self, *more: str) -> subprocess.CompletedProcess[str]:
        return run(self.place, "report", NODE, *more)

    def until_reports(self, wanted: str) -> None:
        deadline = time.monotonic() + 20
        while wanted not in (found := self.report("--json")).stdout:
            assert time.monotonic() < deadline, (found, self.log.read_text())
            time.sleep(0.2)

    def stop(self, how: int = signal.SIGTERM) -> int:
        self.process.send_signal(how)
        return self.process.wait(20)


@root
def test_run_report_and_stop(place: Place) -> None:
    place.command("diagnose", "check", SICK)
    agent = Agent(place)
    try:
        agent.until_reports("live-repair")
        shown = agent.report()
        assert shown.returncode == 0
        assert SICK_TEXT in shown.stdout
        plain = agent.report("--plain")
        assert plain.returncode == 69
        assert "no report" in plain.stderr
        other = run(place, "report", "127.0.0.1", "--node", "node2.example")
        assert other.returncode == 1
        assert (
            "NOT TRUSTED: report of node 'node1.example' offered as 'node2.example'" in other.stderr
        )
    finally:
        code = agent.stop()
    assert code == 0
    assert agent.report().returncode == 69
    assert "runner-stopped" in agent.log.read_text()


@root
def test_a_wrong_tag_from_far_away_stops_no_start(place: Place) -> None:
    place.command("diagnose", "check", SICK)
    place.ssconf("cluster_tags", "nodeagent:evry:5m\n")
    agent = Agent(place)
    try:
        agent.until_reports("live-repair")
        assert "tags-ignored cluster tag nodeagent:evry:5m" in agent.log.read_text()
    finally:
        assert agent.stop() == 0


@root
def test_sighup_takes_up_new_settings_and_keeps_the_old_ones_when_wrong(place: Place) -> None:
    place.command("diagnose", "check", OK)
    agent = Agent(place)
    try:
        agent.until_reports("Ok")
        place.settings(port=agent.port, commands='"check"', more="nonsense")
        agent.process.send_signal(signal.SIGHUP)
        time.sleep(1)
        assert "settings-kept" in agent.log.read_text()
        place.command("diagnose", "other", SICK)
        place.settings(port=agent.port, commands='"other"')
        agent.process.send_signal(signal.SIGHUP)
        agent.until_reports("live-repair")
    finally:
        assert agent.stop() == 0


def children(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(child) for child in text.split()]


def by_name(pid: int, word: str) -> list[int]:
    found = []
    for child in children(pid):
        line = Path(f"/proc/{child}/cmdline").read_bytes()
        found += [child] if word.encode() in line else []
        found += by_name(child, word)
    return found


def alive(pid: int) -> str:
    """The command line of a process that has not ended; a zombie has."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        line = Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""
    return "" if state in "ZX" else f"{pid} {state} {line}"


@root
def test_a_runner_killed_in_mid_repair_never_runs_it_again(place: Place) -> None:
    """kill -9 of everything that is ours; the order is then failed, and stays so."""
    import urllib.request
    from ssl import CERT_NONE, PROTOCOL_TLS_CLIENT, SSLContext
    from uuid import uuid4

    place.command("diagnose", "check", SICK)
    stdin = place.folder / "stdin"
    text = FIX.format(folder=place.folder, code=0) + "sleep 60\n"
    place.command("repair", "fix", text.replace("exit 0\n", ""))
    agent = Agent(place)
    tls = SSLContext(PROTOCOL_TLS_CLIENT)
    tls.check_hostname, tls.verify_mode = False, CERT_NONE
    url = f"https://127.0.0.1:{agent.port}/1/order"
    order = str(uuid4())

    def post() -> int:
        raw = sealed_order(place, id=order)
        asked = urllib.request.Request(url, raw, {"Content-Type": "application/json"})
        with urllib.request.urlopen(asked, timeout=10, context=tls) as answer:
            return int(answer.status)

    try:
        agent.until_reports("live-repair")
        assert post() == 202
        while not stdin.exists():
            time.sleep(0.02)
        spawned = [p for p in by_name(agent.process.pid, "") if p]
        for pid in [agent.process.pid, *children(agent.process.pid)]:
            os.kill(pid, signal.SIGKILL)
        agent.process.wait(10)
        deadline = time.monotonic() + 5
        while left := [line for pid in spawned if (line := alive(pid))]:
            assert time.monotonic() < deadline, f"outlived the runner: {left}"
            time.sleep(0.05)
        agent.process = agent._start()
        agent.until_reports("live-repair")
        kept = place.folder / f"state/receipts/{order}.json"
        assert Receipt.from_body(read(kept.read_bytes())).progress is Progress.FAILED
        assert post() == 202, "the receipt, not a second run"
        time.sleep(0.5)
        assert stdin.read_text() == SICK_TEXT
    finally:
        agent.stop()


def test_help_and_completion(place: Place) -> None:
    done = run(place, "--help")
    for name in ("run", "front", "runner", "diagnose", "commands", "report", "check-config"):
        assert f"\n  {name} " in done.stdout
    environment = {**os.environ, "_NODEAGENT_COMPLETE": "bash_source"}
    shell = subprocess.run(
        [sys.executable, "-m", "nodeagent.cli.nodeagent"],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert "complete -o" in shell.stdout
