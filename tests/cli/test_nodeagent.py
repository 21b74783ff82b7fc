"""The `nodeagent` command as a person uses it: as a process, against real files."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from nodeagent.cli.nodeagent import main
from nodeagent.cli.report import clock_of, orders_of
from tests import forked, needs
from tests.agent.place import NODE, SICK_TEXT, Place, safe_folder
from tests.agent.sick import OK, SICK
from tests.patience import PATIENCE, dawdle, until
from tests.ports import free_port

root = needs.mark("root")  # commands must belong to root


@pytest.fixture
def place() -> Iterator[Place]:
    with safe_folder() as folder:
        folder.chmod(0o755)  # as /etc is: the front's user, where there is one, reads here too
        place = Place(folder)
        for name in ("heal", "look"):  # its settings name them
            place.command("repair", name, OK)
        yield place


def run(place: Place, *arguments: str, config: str | None = None) -> forked.Done:
    return forked.run(main, "nodeagent", ["-c", config or place.config, *arguments])


@root
@pytest.mark.parametrize("kind", ["script", "nagios"])
def test_a_new_command_works_and_so_does_its_test(place: Place, tmp_path: Path, kind: str) -> None:
    plugin = place.folder / "check_it"
    plugin.write_text('#!/bin/sh\necho "$1 is well"\n')
    plugin.chmod(0o755)
    of_kind = ["--kind", "nagios", "--", str(plugin), "all of it"] if kind == "nagios" else []
    done = run(place, "new-command", "--into", str(tmp_path), "mine", *of_kind)
    assert done.returncode == 0, done.stderr
    for line in (f"install -o root -g root -m 755 {tmp_path}/mine", "nodeagent diagnose mine"):
        assert line in done.stdout
    assert ("nagios = {" in done.stdout) == (kind == "nagios")
    tried = subprocess.run([tmp_path / "mine-test"], capture_output=True, text=True)
    assert tried.returncode == 0, tried.stderr
    place.command("diagnose", "mine", (tmp_path / "mine").read_text())
    nagios = '[diagnose.command.mine]\nnagios = {0 = "Ok", 1 = "Ok", 2 = "evacuate"}'
    place.settings(commands='"mine"', more=nagios if kind == "nagios" else "")
    done = run(place, "diagnose")
    assert (done.returncode, done.stdout) == (0, '{"status":"Ok"}\n')


CONFIRMED = r"\"live-repair\""  # in the diagnosis, which is a text; a last run says it at once


class Agent:
    """`nodeagent run` as a process of its own."""

    def __init__(self, place: Place, *, start_new_session: bool = False) -> None:
        self.place, self.port = place, free_port()
        place.settings(port=self.port, commands='"check"')
        self.log = place.folder / "log"
        self.process = self._start(start_new_session=start_new_session)

    def _start(self, *, start_new_session: bool = False) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", "nodeagent.cli.nodeagent", "-c", self.place.config, "run"]
        with self.log.open("ab") as log:
            return subprocess.Popen(
                command, stderr=log, stdout=log, start_new_session=start_new_session
            )

    def report(self, *more: str) -> subprocess.CompletedProcess[str]:
        return run(self.place, "report", NODE, *more)

    def until_reports(self, wanted: str) -> None:
        """Each look is a process, so there are few."""
        until(lambda: wanted in self.report("--json").stdout, self.log.read_text, every=0.2)

    def stop(self, how: int = signal.SIGTERM) -> int:
        self.process.send_signal(how)
        return self.process.wait(PATIENCE)


@root
def test_run_report_and_stop(place: Place) -> None:
    place.command("diagnose", "check", SICK)
    agent = Agent(place)
    try:
        agent.until_reports(CONFIRMED)
        shown = agent.report()
        assert shown.returncode == 0
        assert SICK_TEXT in shown.stdout
        assert shown_row(shown.stdout, "firm") == "yes"
        assert shown_row(shown.stdout, "clock") == "as here"
        assert shown_row(shown.stdout, "orders") == "each is judged"
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


def shown_row(text: str, label: str) -> str:
    rows = dict(line.split(":", 1) for line in text.splitlines())
    return rows[label].strip()


@pytest.mark.parametrize(
    ("ahead", "says"),
    [
        (1_999, "as here"),
        (95_400, "95 s ahead of the clock here"),
        (-149_600, "150 s behind the clock here"),
    ],
)
def test_the_clock_of_a_node(ahead: int, says: str) -> None:
    assert clock_of(ahead) == says


@pytest.mark.parametrize(
    ("refuses", "says"),
    [
        pytest.param("its disk is full", "each is refused: its disk is full", id="refused"),
        pytest.param("", "each is judged", id="judged"),
        pytest.param(
            None, "unknown: this release of the agent does not say", id="an agent of 0.2.0"
        ),
    ],
)
def test_whether_a_node_takes_orders(refuses: str | None, says: str) -> None:
    assert orders_of(refuses) == says


@root
def test_sighup_takes_up_new_settings_and_keeps_the_old_ones_when_wrong(place: Place) -> None:
    place.command("diagnose", "check", OK)
    agent = Agent(place)
    try:
        agent.until_reports("Ok")
        place.settings(port=agent.port, commands='"check"', more="nonsense")
        agent.process.send_signal(signal.SIGHUP)
        until(lambda: "settings-kept" in agent.log.read_text())
        place.command("diagnose", "other", SICK)
        place.settings(port=agent.port, commands='"other"')
        agent.process.send_signal(signal.SIGHUP)
        agent.until_reports(CONFIRMED)
    finally:
        assert agent.stop() == 0


def children(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(child) for child in text.split()]


def is_ready(agent: Agent) -> bool:
    return " runner-started " in agent.log.read_text()


PHASES: dict[str, Callable[[Agent], bool]] = {
    "its first half is begun": lambda agent: len(children(agent.process.pid)) >= 1,
    "both are begun": lambda agent: len(children(agent.process.pid)) >= 2,
    "a certificate is made": lambda agent: bool(by_name(agent.process.pid, "selfsigned")),
    "the runner serves": is_ready,
}


@pytest.mark.parametrize("phase", PHASES)
def test_stopped_as_systemd_does_it_ends_well_in_every_phase(place: Place, phase: str) -> None:
    """All processes of a service are told at once; of one that begins that is the end."""
    agent = Agent(place, start_new_session=True)
    while not PHASES[phase](agent):
        assert agent.process.poll() is None, agent.log.read_text()
        dawdle(0.002)  # some phases are short
    os.killpg(agent.process.pid, signal.SIGTERM)
    assert agent.process.wait(PATIENCE) == 0, agent.log.read_text()
    with pytest.raises(ProcessLookupError):  # nobody is left
        os.killpg(agent.process.pid, 0)


def test_a_half_that_ends_by_itself_ends_the_other_and_is_told(place: Place) -> None:
    agent = Agent(place)
    until(lambda: is_ready(agent))
    runner, _ = children(agent.process.pid)
    os.kill(runner, signal.SIGKILL)
    assert agent.process.wait(PATIENCE) == signal.SIGKILL


def by_name(pid: int, word: str) -> list[int]:
    found = []
    for child in children(pid):
        with suppress(OSError):  # it may end meanwhile
            line = Path(f"/proc/{child}/cmdline").read_bytes()
            found += [child] if word.encode() in line else []
            found += by_name(child, word)
    return found
