"""Agents and maintd as processes on the laboratory's nodes, told what is broken."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

from click import ClickException

from nodeagent.cli.maint.console.client import Reach
from nodeagent.cluster.ganeti.backend import GanetiCluster
from nodeagent.protocol.node_key import TAG
from nodeagent.web.blocking import at_socket
from tests import needs
from tests.real.lab import LAB, NODES, ROOT, STATE, gnt, listed, node, power, running, socket_path

EVACUATE: Mapping[str, object] = {"status": "evacuate", "details": {"part": "mainboard"}}
FAILOVER: Mapping[str, object] = {"status": "evacuate-failover", "details": {"part": "memory"}}
REPAIR: Mapping[str, object] = {"status": "live-repair", "command": "fix", "details": {"bay": 7}}
SETTINGS = """
[maintd]
every = "3s"
[cluster]
grace = "15s"
[poll]
seconds = "3s"
[http]
address = "127.0.0.1"
plain = true
[policy]
stage = "full"
settle = "0s"
cooldown = "0s"
attempts = 1000
withdraw = "30s"
storm = 100
burst = 1000
"""
_LATE_WRITES = 5  # seconds for which an old master may still write files of Ganeti
# What else is in /var/lib does not outlive a node's power here, and a machine keeps its key.
AGENT_STATE = "/var/lib/ganeti/nodeagent"
AGENT = f"""
[agent]
state = "{AGENT_STATE}"
[diagnose]
commands = ["check"]
every = "3s"
confirm = 1
"""
PREPARE = """
mkdir -p /etc/nodeagent /var/lib/maintd /run/maintd
mkdir -p /etc/ganeti/node-diagnose-commands /etc/ganeti/node-repair-commands
printf '#!/bin/sh\\ncat /etc/ganeti/hardware.json\\n' > /etc/ganeti/node-diagnose-commands/check
chmod 755 /etc/ganeti/node-diagnose-commands/check
echo '{"status": "Ok"}' > /etc/ganeti/hardware.json
"""
FIX_PATH = "/etc/ganeti/node-repair-commands/fix"
# When the next life is killed: as soon as it has done something; as soon as it would do the next
# thing (the first it does again); when it knows that what was promised has not been submitted.
NEXT = {
    "submitted": 1,
    "remembered": 1,
    "intended": 2,
    "promised": 2,
    "observed": 2,
    "decided": 2,
    "saved": 7,
}
FIX = "cat >> /run/fed; echo >> /run/fed"


@contextmanager
def maintained(nodes: tuple[str, ...] = NODES) -> "Iterator[Maintenance]":
    """A fresh laboratory with agents on its nodes, and no maintd yet; skips where there is none."""
    needs.require("root", "laboratory")
    with running(fresh=True, nodes=len(nodes)):
        system = Maintenance(nodes)
        try:
            system.start()
            yield system
        finally:
            system.stop()


class Maintenance:
    """The whole system on these nodes; maintd on the master of the moment."""

    def __init__(self, nodes: tuple[str, ...] = NODES) -> None:
        self.nodes = nodes
        self.agents: dict[str, subprocess.Popen[bytes]] = {}
        self.maintd: subprocess.Popen[bytes] | None = None
        self.program: tuple[str, ...] = ("nodeagent.cli.maintd", "run")
        self.agent_program: tuple[str, ...] = ("nodeagent.cli.nodeagent", "run")
        self.where = "node1"
        self.log = STATE / "maintd.log"
        self.seen: set[str] = set()  # incidents, by their UUIDs
        self.past: set[str] = set()  # those of the tests before

    def start(self) -> None:
        for name in self.nodes:
            short = name.partition(".")[0]
            self.shell(short, PREPARE)
            self.repairs_with(short, FIX)
            self.write(short, "/etc/nodeagent/agent.toml", AGENT)
            self.write(short, "/etc/nodeagent/maintd.toml", SETTINGS)
            self.agents[short] = self.spawn_agent(short)

    def stop(self) -> None:
        self.stop_maintd()
        for name in self.agents:
            node(name, "pkill", "-TERM", "-f", "nodeagent.cli.nodeagent")
        for process in self.agents.values():
            process.wait(60)

    def reboot(self, name: str) -> None:
        """Switch a node off and on again, its agent with it: of what ran there nothing is left."""
        power(name, "join")
        power(name, "off")
        power(name, "on")
        self.booted(name)

    def booted(self, name: str) -> None:
        """Have the agent again on a node that was off and is on."""
        self.agents[name].wait(60)
        until(lambda: node(name, "true").returncode == 0, 60, lambda: f"{name} is not back")
        self.shell(name, PREPARE)
        self.repairs_with(name, FIX)
        self.agents[name] = self.spawn_agent(name)

    def restart_agent(self, name: str) -> None:
        """As after its settings have changed."""
        node(name, "pkill", "-TERM", "-f", "nodeagent.cli.nodeagent")
        self.agents[name].wait(60)
        self.agents[name] = self.spawn_agent(name)

    def lose_ledger(self) -> None:
        """The ledger, and the rule that keeps it; maintd is down meanwhile."""
        for name in self.agents:
            self.shell(name, "rm -rf /var/lib/maintd/ledger*")
        cluster = GanetiCluster(socket_path())
        try:
            cluster.remove_ledger_rule()
        finally:
            cluster.close()

    def spawn(
        self, name: str, module: str, *arguments: str, env: str = "", log_name: str = ""
    ) -> subprocess.Popen[bytes]:
        log = (STATE / f"{name}.{log_name or module.rpartition('.')[2]}.log").open("ab")
        command = ["env", *env.split(), sys.executable, "-m", module, *arguments]
        with log:
            return subprocess.Popen([str(LAB / "node"), name, *command], cwd=ROOT, stderr=log)

    def spawn_agent(self, name: str) -> subprocess.Popen[bytes]:
        return self.spawn(name, *self.agent_program, env=f"PYTHONPATH={ROOT}", log_name="nodeagent")

    def start_maintd(self, name: str = "node1", failpoint: str = "") -> None:
        """Start it there; after a failover once Ganeti's files name the new master.

        A failover may end before they do, and maintd leaves where another node is the master;
        `maintd-follow` starts it again then.
        """
        if name != self.where:
            until(lambda: _is_named(name), 60, self.tail)
        env = f"PYTHONPATH={ROOT}" + (f" MAINTD_FAILPOINT={failpoint}" if failpoint else "")
        self.where = name
        maintd = self.program
        if folder := os.environ.get("DECISIONS_INTO"):
            env = f"{env} DECISIONS_INTO={folder}"
            maintd = ("tests.maintd.decisions", *maintd)
        self.maintd = self.spawn(name, *maintd, env=env, log_name="maintd")

    def until_it_answers(self) -> None:
        """Wait for maintd, which was just started, and for the tags of nodes it sees first."""
        until(lambda: self.ask("status").returncode == 0, 60, self.tail)
        # A tag whose job was not submitted in time is tried again after five minutes.
        until(lambda: "first-seen" not in self.key_states().values(), 400, self.tail)

    def key_states(self) -> dict[str, str]:
        """How `gnt-maint agents` calls the key of each node."""
        return {one["name"].partition(".")[0]: one["state"] for one in self.get("/1/agents")}

    def stop_maintd(self, number: str = "TERM") -> int | None:
        """Signal it where it runs: what we have started only waits for it."""
        if self.maintd is None:
            return None
        node(self.where, "pkill", f"-{number}", "-f", "nodeagent.cli.maintd")
        code = self.maintd.wait(90)  # as long as its unit gives it
        self.maintd = None
        return code

    def shell(self, name: str, script: str) -> str:
        done = node(name, "sh", "-ec", script)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def write(self, name: str, path: str, text: str, mode: str = "644") -> None:
        new = f"cat > {path}.new <<'END'\n{text}\nEND\n"
        self.shell(name, f"{new}chmod {mode} {path}.new; mv {path}.new {path}")

    def breaks(self, name: str, diagnosis: Mapping[str, object]) -> None:
        """What the node's diagnose command prints from now on."""
        self.write(name, "/etc/ganeti/hardware.json", json.dumps(diagnosis))

    def repairs_with(self, name: str, script: str) -> None:
        """Have the node's repair command be this script from now on, until it is healed."""
        self.write(name, FIX_PATH, f"#!/bin/sh\n{script}", mode="755")

    def mended(self, name: str) -> None:
        self.breaks(name, {"status": "Ok"})

    def ask(self, *arguments: str, master: str = "node1") -> subprocess.CompletedProcess[str]:
        """gnt-maint on the master."""
        return node(master, sys.executable, "-m", "nodeagent.cli.gnt_maint", *arguments)

    def do(self, *arguments: str) -> str:
        """Return what gnt-maint on the first master says, which must be well."""
        done = self.ask(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def get(self, target: str, master: str = "node1") -> Any:
        """What maintd tells at its socket, where gnt-maint asks too; ClickException if nothing."""
        path = STATE / "nodes" / master / "run/maintd/admin.sock"
        return Reach(at_socket(str(path)), local=True).get(target)

    def incidents(self, master: str = "node1") -> list[dict[str, object]]:
        """What `gnt-maint incidents --json` lists, the oldest first; as `get` if nobody answers."""
        found: list[dict[str, object]] = self.get("/1/status", master)
        self.seen.update(str(incident["uuid"]) for incident in found)
        return found

    def needs(self) -> dict[str, str | None]:
        """What maintd believes each node to ask for; nothing while it is in doubt."""
        return {node["name"].partition(".")[0]: node["need"] for node in self.get("/1/nodes")}

    def until_status(
        self, name: str, status: str, seconds: float = 120, master: str = "node1"
    ) -> dict[str, object]:
        """Wait for the newest incident of the node, begun in this test, to come that far."""
        found: list[dict[str, object]] = []

        def come() -> bool:
            of_node = [i for i in self.incidents(master) if str(i["node-name"]).startswith(name)]
            found[:] = [i for i in of_node if i["uuid"] not in self.past]
            return bool(found) and found[-1]["repair-status"] == status

        until(come, seconds, lambda: f"{found} {self.tail()}")
        return found[-1]

    def tail(self) -> str:
        """The end of maintd's log, for a test that fails."""
        logs = sorted(STATE.glob("*.maintd.log"))
        return "\n".join(Path(log).read_text()[-2000:] for log in logs)

    def told(self) -> str:
        """All that a test which has failed wants explained: incidents, receipts and journals."""
        try:
            lines = [json.dumps(incident) for incident in self.incidents(self.where)]
        except (ClickException, OSError) as error:
            lines = [f"{self.where} tells of no incidents: {error}"]
        for name in self.agents:
            receipts = f"tail -n +1 {AGENT_STATE}/receipts/*.json {AGENT_STATE}/checks/*.json"
            lines.append(f"-- receipts of {name}: {node(name, 'sh', '-c', receipts).stdout}")
        for log in sorted(STATE.glob("*.nodeagent.log")) + sorted(STATE.glob("*.maintd.log")):
            lines.append(f"-- {log.name}: {log.read_text(errors='replace')[-10_000:]}")
        return "\n".join(lines)

    def heal(self) -> None:
        """All nodes well, in service, without tags of ours; all incidents forgotten."""
        for name in self.agents:
            self.mended(name)
            self.repairs_with(name, FIX)
        for name in self.agents:
            ((tags,),) = listed("node", "tags", name=name)
            for tag in (tag for tag in tags if tag.startswith("maintd:")):
                # One that maintd takes off in the same moment is no fault.
                node("master", "gnt-node", "remove-tags", name, tag)
        for name, role in listed("node", "name", "role"):
            if role == "O":
                gnt("gnt-node", "modify", "-f", "--offline=no", name)
            if role == "D":
                gnt("gnt-node", "modify", "-f", "--drained=no", name)
        if self.maintd is not None:
            until(lambda: self.incidents() == [], 60, self.tail)
            until(lambda: set(self.needs().values()) == {"Ok"}, 60, self.tail)
        self.past |= self.seen


def until(condition: Callable[[], bool], seconds: float, told: Callable[[], str]) -> None:
    """Wait, or fail with what is told. Asking takes a third of the time, or less.

    While maintd does not answer nothing is known, so there is nothing that can have come true.
    """
    deadline = time.monotonic() + seconds
    while True:
        asked, unanswered = time.monotonic(), ""
        try:
            if condition():
                return
        except ClickException as error:
            unanswered = f"maintd does not answer: {error}\n"
        now = time.monotonic()
        assert now < deadline, unanswered + told()
        time.sleep(max(0.3, 2 * (now - asked)))


def fail_over(name: str, told: Callable[[], str]) -> None:
    """Have this node be the master by Ganeti's own command, while the old one lives.

    What the old master still writes to Ganeti's files on the nodes may come there after what the
    new one has written, and names the old one: Ganeti's address is then on the old master, and
    maintd leaves on both. So it has to be written first. Jobs that end meanwhile write once more,
    and nodes that are slow take that some seconds later.
    """
    until(_is_written, 120, told)
    said = ""

    def moves() -> bool:
        """Before it changes anything Ganeti refuses if most nodes are too slow to answer it."""
        nonlocal said
        moved = node(name, "gnt-cluster", "master-failover", seconds=300)
        said = moved.stderr
        assert moved.returncode == 0 or "majority of nodes are still healthy" in said, said
        return moved.returncode == 0

    until(moves, 120, lambda: said)
    for _ in range(_LATE_WRITES):
        until(lambda: _is_named(name), 60, told)
        time.sleep(1)


def _is_named(master: str) -> bool:
    """Whether Ganeti's files on all nodes that run name this master.

    If not, it writes them again, as an administrator would have it do.
    """
    file = "/var/lib/ganeti/ssconf_master_node"
    running = [
        name.partition(".")[0] for name, role in listed("node", "name", "role") if role != "O"
    ]
    read = [node(name, "cat", file) for name in running]
    if all(one.stdout.startswith(f"{master}.") for one in read if one.returncode == 0):
        return True
    node(master, "gnt-cluster", "redist-conf")
    return False


def _is_written() -> bool:
    """Whether Ganeti's files on all nodes that run name the candidates which the master has."""
    rows = listed("node", "name", "role")
    candidates = {name for name, role in rows if role in ("M", "C")}
    file = "/var/lib/ganeti/ssconf_master_candidates"
    read = [node(name.partition(".")[0], "cat", file) for name, role in rows if role != "O"]
    return all(set(one.stdout.split()) == candidates for one in read if one.returncode == 0)


def flags(name: str) -> dict[str, str]:
    """What Ganeti's own list says of a node, in the words of `gnt-node list`."""
    fields = ("drained", "offline", "role", "tags", "pinst_cnt", "sinst_cnt")
    (row,) = listed("node", *fields, name=name)
    return {field: _word(value) for field, value in zip(fields, row, strict=True)}


def _word(value: object) -> str:
    """As `gnt-node list` shows it; of the tags not the one that every node has."""
    if isinstance(value, list):
        value = [tag for tag in value if not str(tag).startswith(TAG)]
    return _shown(value)


def _shown(value: object) -> str:
    match value:
        case bool():
            return "Y" if value else "N"
        case list():
            return ",".join(value)
        case _:
            return str(value)


def placed(name: str) -> tuple[str, str]:
    """Primary and secondary of an instance, by Ganeti's own list."""
    ((primary, secondaries),) = listed("instance", "pnode", "snodes", name=name)
    return primary.partition(".")[0], ",".join(s.partition(".")[0] for s in secondaries)


def service(name: str) -> dict[str, str]:
    """How Ganeti has the node, whatever is on it."""
    return {key: what for key, what in flags(name).items() if not key.endswith("_cnt")}


def out_of_service(name: str) -> str:
    """How the node is: "offline", "drained" or, in service, ""."""
    found = flags(name)
    return "offline" if found["offline"] == "Y" else "drained" if found["drained"] == "Y" else ""


def is_empty(name: str) -> bool:
    """Whether it is drained, and nothing is on it."""
    found = flags(name)
    return (found["drained"], found["pinst_cnt"], found["sinst_cnt"]) == ("Y", "0", "0")


def job_list(since: int = 0) -> list[tuple[int, str, str]]:
    """Number, status and summary of the jobs after `since`, by Ganeti's own list."""
    rows = listed("job", "id", "status", "summary")
    return [(number, status, ",".join(kinds)) for number, status, kinds in rows if number > since]


class JobTimes(NamedTuple):
    """A job and its moments in unix s, inf where it has not come to that yet."""

    number: int
    received: float
    started: float
    ended: float
    summary: str


def job_times(since: int = 0) -> list[JobTimes]:
    """The jobs after `since` in the order they were submitted, by Ganeti's own list."""
    rows = listed("job", "id", "received_ts", "start_ts", "end_ts", "summary")
    return sorted(
        JobTimes(number, _seconds(at), _seconds(start), _seconds(end), ",".join(kinds))
        for number, at, start, end, kinds in rows
        if number > since
    )


def agrees_with_ganetis_own_commands() -> None:
    """What is asked through our own client is what `gnt-* list` shows."""
    wanted = {
        "node": ("name", "drained", "offline", "role", "tags", "pinst_cnt", "sinst_cnt"),
        "instance": ("name", "pnode", "snodes", "tags"),
        "job": ("id", "status", "summary"),
    }
    for what, fields in wanted.items():
        options = ("--no-headers", "--separator=|", "-o", ",".join(fields))
        shown = gnt(f"gnt-{what}", "list", *options).splitlines()
        asked = ["|".join(map(_shown, row)) for row in listed(what, *fields)]
        assert sorted(shown) == sorted(asked)


def _seconds(when: list[int] | None) -> float:
    """A time as Ganeti's jobs have it: seconds and microseconds."""
    return inf if when is None else when[0] + when[1] / 1e6


def last_job() -> int:
    """The newest job's number."""
    return max((number for number, _, _ in job_list()), default=0)


def kinds(since: int) -> list[str]:
    """The jobs after that one, all of which must succeed."""
    under_way = {"queued", "waiting", "running"}
    until(lambda: not under_way & {job[1] for job in job_list(since)}, 60, lambda: "no end")
    jobs = job_list(since)
    assert {status for _, status, _ in jobs} <= {"success"}, jobs
    return [summary.partition("(")[0] for _, _, summary in jobs]


def rests(seconds: float) -> None:
    """No job is submitted for so long."""
    before = last_job()
    time.sleep(seconds)
    assert last_job() == before, job_list(before)


def ours(incident: str) -> list[str]:
    """The jobs of one incident, in order, as their kinds; told by their reason trails."""
    cluster = GanetiCluster(socket_path())
    try:
        trails = [t for t in cluster.trails() if t.reason.startswith(f"{incident}:")]
    finally:
        cluster.close()
    return [type(trail.action).__name__ for trail in trails]
