"""`make demo` is the whole loop with another backend; it must keep its promises."""

import hashlib
import json
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import tomllib
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, cast

import psutil
import pytest

from nodeagent.model.action import PowerCommand, Restore, SetOffline
from nodeagent.placement.cluster.textfile import parse
from simulation import demo_kept
from simulation.cluster import SimulatedCluster
from simulation.demo import POLICY, WIDTH, _on_signals
from simulation.demo_machines import DemoMachines
from simulation.demo_nodes import NODES, Nodes
from tests import needs, patience

CLUSTER = SimulatedCluster.of(lambda: 0.0, NODES, [], master=NODES[0].name)
COMMAND = [sys.executable, "-m", "simulation.demo"]


STORY = (
    r"1\. Six nodes start",
    "healthy    six verified reports",
    r"2\. The mainboard of node3 fails",
    "node3  break ",
    "node3  detected ",
    "node3  started ",
    "job [0-9]+: migrate db3 off node3 to ",
    "job [0-9]+: take node3 offline",
    "node3  completed ",
    "repair node3, then run gnt-maint done node3",
    r"3\. A colleague",
    r"\$ +gnt-maint why node3",
    r"\| State     offline; 0 primary, 0 secondary instances",
    r"\| - evacuated and offline: .* gnt-maint done node3",
    r"4\. A technician",
    "node3  mend ",
    "node5  break ",
    "order node5 to run reseat-disk",
    "node5  completed ",
    r"5\. The technician",
    r"\$ +gnt-maint done node3",
    "node3 returns to service once it has reported Ok for 1 s more",
    "job [0-9]+: put node3 back in service",
    "node3  back ",
    r"6\. Balancing",
    "job [0-9]+: migrate [a-z0-9]+ off [a-z0-9]+ to node3",
    r"^node3 +in service +[a-z0-9]+, [a-z0-9]+ +-$",
)


def as_promised(story: str) -> None:
    """A whole life, in lines that a terminal shows, but for gnt-maint's behind a bar."""
    assert re.search(".*?".join(f"(?:{part})" for part in STORY), story, re.M | re.S), story
    assert "node5  closed " in story, "its live repair closes itself"
    assert "FAILED" not in story
    assert len(re.findall(r"^node[1-6] +in service .* -$", story, re.M)) == 6
    own = [line for line in story.splitlines() if " | " not in line]
    assert [line for line in own if len(line) > WIDTH] == []


@pytest.mark.demo
@pytest.mark.timeout(900)
def test_a_story_is_told_and_whoever_looks_around_stops_it() -> None:
    with started() as demo:
        assert demo.stdout is not None
        said: list[str] = []
        lines = kept(demo.stdout, said)
        agents, folder = its_own(demo, lines)
        told = hints(lines)
        as_promised("".join(said).partition("It stays up")[0])  # hints are as long as paths
        a_node_with_another_command_is_named(told, folder)
        nodes_reboot_fall_silent_and_notify(told, lines)
        whoever_looks_around_has_something_to_try(told, folder)
        assert "Traceback" not in (folder / "maintd.log").read_text()
    nothing_is_left(demo, agents, folder)


def test_what_ends_a_terminal_stops_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell that begins it with `&` lets it ignore SIGINT."""
    taken: list[signal.Signals] = []
    monkeypatch.setattr(signal, "signal", lambda number, _: taken.append(number))
    _on_signals(signal.default_int_handler)
    assert taken == [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


@contextmanager
def started() -> Iterator[subprocess.Popen[str]]:
    """A demo that stays up; it is stopped where it goes wrong."""
    with tempfile.TemporaryFile("w+") as errors:
        demo = subprocess.Popen(
            [*COMMAND, "--keep"], stdout=subprocess.PIPE, stderr=errors, text=True
        )
        try:
            yield demo
            errors.seek(0)
            assert errors.read() == "", "nothing is said beside the story"
        except BaseException:
            demo.terminate()
            demo.wait(60)
            raise


def kept(output: IO[str], said: list[str]) -> Iterator[str]:
    """The lines, which are kept as well."""
    for line in iter(output.readline, ""):
        said.append(line)
        yield line


def its_own(demo: subprocess.Popen[str], lines: Iterator[str]) -> tuple[list[psutil.Process], Path]:
    """Its agents and its folder, once its page is there."""
    told = {line.split()[2]: line for line in until(lines, "page")}
    folder = Path(told["start"].split(" in ")[-1].strip())
    agents = [
        child for child in psutil.Process(demo.pid).children(recursive=True) if child.is_running()
    ]
    assert len(agents) >= 12
    assert folder.is_dir()
    return agents, folder


def runs(process: psutil.Process) -> bool:
    """Whether it runs: an orphan that has ended is there until init looks after it."""
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def nothing_is_left(
    demo: subprocess.Popen[str], agents: list[psutil.Process], folder: Path
) -> None:
    """Stop it as a terminal that is closed does."""
    demo.send_signal(signal.SIGHUP)
    assert demo.stdout is not None
    assert "All as it should be" in demo.stdout.read()
    assert demo.wait(60) == 0
    assert not folder.exists()
    assert [one for one in psutil.wait_procs(agents, 10)[1] if runs(one)] == []


def hints(lines: Iterator[str]) -> list[str]:
    """The lines to copy, without what they are for."""
    for line in lines:
        if line.startswith("It stays up"):
            next(lines)
            return [next(lines).partition("#")[0].strip() for _ in range(21)]
    raise AssertionError("there are none")


def until(lines: Iterator[str], event: str) -> Iterator[str]:
    """The lines of what happens, up to this."""
    for line in lines:
        if re.match(r" *[0-9.]+ s  ", line):
            yield line
            if line.split()[2] == event:
                return


def in_a_shell(*lines: str) -> str:
    """What lines print that are copied into a terminal; the last one's exit code is 0."""
    script = ["sh", "-c", "\n".join(lines)]
    done = subprocess.run(script, capture_output=True, text=True, check=False, cwd="/")
    assert done.returncode == 0, (lines, done.stderr)
    return done.stdout


def differs(answer: Callable[[], bytes], before: bytes) -> bool:
    return answer() != before


def printed_at_last(told: list[str], line: str, path: str, wanted: Callable[[str], bool]) -> str:
    """What a line prints once it is this; it is run again when maintd's answer is another."""
    page = told[2].removeprefix("xdg-open ").removesuffix("/status")

    def answer() -> bytes:
        with urllib.request.urlopen(page + path) as response:
            return cast(bytes, response.read())

    while True:
        before = answer()
        if wanted(text := in_a_shell(told[0], line)):
            return text
        patience.until(partial(differs, answer, before), every=0.1)


@dataclass(frozen=True)
class Folder:
    """As much of the nodes as the lines to copy are about."""

    folder: Path


@pytest.mark.parametrize("name", ["plain", "with a blank", "it's $HOME"])
def test_the_printed_lines_work_from_any_folder(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checkout and the user's home may have a blank in their paths."""
    folder, programs = tmp_path / name, tmp_path / f"{name}-bin"
    homes = [folder / f"node{number}.demo.example" for number in (2, 3, 5)]
    for place in (*homes, folder / "asked", programs):
        place.mkdir(parents=True)
    (programs / "gnt-maint").write_text('#!/bin/sh\nprintf "%s|" "$@"\n')
    (programs / "gnt-maint").chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(programs / "python"))
    nodes, socket = cast(Nodes, Folder(folder)), str(folder / "admin.sock")
    lines = demo_kept.hints(
        nodes, socket, "http://page", CLUSTER, lambda user, path: f"{user}{path}"
    )
    copied = [line.partition("  # ")[0].strip() for line in lines]
    alias, status, _, stop, _, _, mend, done, rolling, *_ = copied
    hardware = folder / "node2.demo.example/hardware.json"
    in_a_shell(stop)
    assert json.loads(hardware.read_text())["status"] == "evacuate"
    in_a_shell(mend)
    assert json.loads(hardware.read_text()) == {"status": "Ok"}
    assert in_a_shell(alias, status) == f"--socket|{socket}|status|"
    assert in_a_shell(alias, done) == f"--socket|{socket}|done|node2|"
    told = in_a_shell(alias, rolling)
    assert told == f"--socket|{socket}|rolling|-t|{folder / 'cluster.data'}|"
    for verb in ("silence", "speak", "power-off", "power-on"):
        (line,) = (line for line in copied if f"/{verb}" in line)
        in_a_shell(line)
        asked = folder / "asked" / f"{verb}.{shlex.split(line)[1]}.demo.example"
        assert asked.exists()
        on_the_master = subprocess.run([folder / verb, "node1"], check=False, capture_output=True)
        assert on_the_master.returncode == 64
        assert b"node1 is the master" in on_the_master.stderr


def a_node_with_another_command_is_named(told: list[str], folder: Path) -> None:
    """Real agents tell their commands, and maintd compares them."""
    (line,) = (line for line in told if line.startswith("gnt-maint commands"))
    file = folder / "node4.demo.example" / "diagnose" / "disk-bays"
    same = file.read_text()

    def shown(wanted: Callable[[str], bool]) -> str:
        return printed_at_last(told, f"{line} --differing", "/1/commands", wanted)

    assert "\ndisk-bays " not in shown(lambda text: "have the same" in text)
    file.write_text(f"{same}# another\n")
    digest = hashlib.sha256(file.read_bytes()).hexdigest()[:8]
    named = shown(lambda text: "node4" in text)
    assert re.search(rf"^disk-bays +digest {digest} for \d+ s +node4.demo.example$", named, re.M)
    assert re.search(r"^disk-bays +diagnose +6 +[0-9a-f]{8} ", named, re.M)
    file.write_text(same)
    shown(lambda text: "node4" not in text)


def nodes_reboot_fall_silent_and_notify(told: list[str], lines: Iterator[str]) -> None:
    """maintd's rolls and notifications work in the demo, and its machines do as they are told."""

    def copy(part: str, more: str = "") -> str:
        (line,) = (line for line in told if part in line)
        return in_a_shell(told[0], line + more)

    def happens(*texts: str) -> None:
        """In this order, whatever else a busy machine brings."""
        for text in texts:
            assert any(re.search(text, line) for line in lines), text

    copy(" notify test")
    happens("notify     test: ")
    copy("/silence ")
    happens("node5  silence ", "node5  notify     unreachable: node5 is unreachable")
    why = in_a_shell(told[0], "gnt-maint why node5")
    assert "Ganeti's noded answers" in why
    copy("/speak ")
    happens(
        "node5  speaks ", "node5  notify     reachable: node5 answers again, or is marked offline"
    )
    copy(" roll start ", more=" --yes")
    for node in ("node2", "node4"):
        happens(f"order {node} to run reboot-node", f"{node}  reboots ", f"{node}  boots ")
        happens(f"put {node} back in service")
    printed_at_last(
        told, "gnt-maint roll status", "/1/roll", lambda text: "2 of 2 nodes done" in text
    )


def test_a_machine_that_maintd_has_switched_off_can_be_put_online_after_power_on(
    tmp_path: Path,
) -> None:
    """Ganeti remembers a power-off, and refuses to put such a node online."""
    cluster = SimulatedCluster.of(lambda: 0.0, NODES, [], master=NODES[0].name)
    world, name = cluster.world, NODES[2].name
    machines = DemoMachines(cast(Nodes, Folder(tmp_path)), world, lambda *_: None)
    machines.do("power-off", name)
    assert world.power(name, PowerCommand.ON)[0], "nothing starts it"
    assert not world.power(name, PowerCommand.OFF)[0]
    assert not world.apply(SetOffline(name))
    assert "turned on" in world.apply(Restore(name))
    assert "report its version" in world.apply(Restore(name, drained=True))
    machines.do("power-on", name)
    assert not world.apply(Restore(name, drained=True))


def whoever_looks_around_has_something_to_try(told: list[str], folder: Path) -> None:
    """Nodes can be broken and mended, and users may do what they are for."""

    def run(line: str) -> str:
        return in_a_shell(told[0], line)

    status, page, stop, failover, live, mend, done, rolling, *_, queue, admin, owner = told[1:]
    assert "Incidents   none" in run(status)
    assert re.fullmatch(r"xdg-open http://127.0.0.1:\d+/status", page)
    for line, need in ((stop, "evacuate"), (failover, "evacuate-failover"), (live, "live-repair")):
        run(line)
        hardware = folder / f"{shlex.split(line)[1]}.demo.example" / "hardware.json"
        assert json.loads(hardware.read_text())["status"] == need
    run(mend)
    assert json.loads((folder / "node2.demo.example/hardware.json").read_text()) == {"status": "Ok"}
    assert subprocess.run([*shlex.split(mend)[:1], "node9"], check=False).returncode == 64
    assert done == "gnt-maint done node2"
    assert "node1.demo.example" in run(rolling)
    assert "is queued" in run(queue)

    def curl(line: str, *more: str) -> tuple[str, int]:
        words = [*shlex.split(line), "-s", "--max-time", "60", "-w", "\n%{http_code}", *more]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        body, _, code = done.stdout.rpartition("\n")
        return body, int(code)

    if not needs.absent("curl"):
        assert curl(admin, "-d", "{}") == ("", 200)  # answered by a round
        assert curl(owner) == ("[]", 200)
        assert curl(owner, "-H", "Content-Type: application/json", "-d", "{}")[1] == 400
    settings = tomllib.loads((folder / "node1.demo.example" / "agent.toml").read_text())
    (operation,) = POLICY.procedures.repair_procedures[0].repair_operations
    wanted = [operation.health_check_command, operation.repair_steps[0].repair_command]
    wanted += ["reboot-node", "stale-instances"]
    listed = settings["repair"]
    assert [*listed["queue-checks"], *listed["queue-commands"]] == wanted
    assert {path.name for path in Path(settings["repair"]["folder"]).iterdir()} >= set(wanted)
    assert len(parse((folder / "cluster.data").read_text()).nodes) == 6
