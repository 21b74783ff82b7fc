"""The root helper of a standby as a process: over stand-in agents, fences and gnt-cluster.

The test plays maintd, which carries questions and answers, and all the agents behind it.
"""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import pytest

from nodeagent.cli import exits, succeed
from nodeagent.cli.succeed import COMMAND, LIMIT, LOG, MEMORY, Places
from nodeagent.maintd.engine.standby import Helper
from nodeagent.maintd.succession.plan import HOUR, Memory, Silence
from nodeagent.model.evidence import Contact
from nodeagent.model.ledger import PAUSE_TAG
from nodeagent.model.snapshot import Node, Snapshot
from nodeagent.model.units import Ms
from nodeagent.protocol.envelope import Key, Purpose
from nodeagent.protocol.testimony import Words
from nodeagent.protocol.witness import body_of, open_question
from nodeagent.service import moment
from nodeagent.store.records import document_of
from tests.agent.place import client_pem, safe_folder
from tests.patience import dawdle, until
from tests.power.fences import NODE as MASTER
from tests.power.fences import Fences
from tests.signed import seal_signed

ME = "a1.example.org"
NODES = (ME, "a2.example.org", "a3.example.org", "a4.example.org", MASTER)
KEY = Key(b"0123456789abcdef0123456789abcdef01234567\n")
SILENCE = Words(Contact.SILENT, Contact.SILENT, ())
# A stand-in for Ganeti's own: it tells whether the old master had power, and makes us the master.
GNT_CLUSTER = """#!/bin/sh
echo "$* while the old master is $(cat {machine})" >> {log}
{fault}
printf '%s\\n' {me} > {ganeti}/ssconf_master_node
"""


def uuid(name: str) -> str:
    return f"00000000-0000-4000-8000-{NODES.index(name):012d}"


@dataclass
class Agents:
    """What every agent answers: it hears nothing of the master, and gives its voice."""

    key: Key = KEY
    claims: list[bool] = field(default_factory=list)

    def answer(self, body: str) -> str:
        question, _ = open_question(KEY, body.encode())
        assert question.target == MASTER
        self.claims.append(question.claim)
        said = body_of(
            question, "c", question.name, question.node, SILENCE, promised=question.claim
        )
        return seal_signed(self.key, Purpose.TESTIMONY, question.id, said).decode()


class Standby:
    """A master candidate whose master has died; it has one level of power control."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.fences = Fences(folder)
        self.fences.levels({"machine": ""})
        self.fences.prove()
        self.ganeti = folder / "ganeti"
        self.ganeti.mkdir(mode=0o755)
        self.tags: dict[str, list[str]] = {}
        self.pem, digest = client_pem()
        for name, text in {
            "ssconf_master_node": f"{MASTER}\n",
            "ssconf_node_list": "".join(f"{name}\n" for name in NODES),
            "ssconf_master_candidates": "".join(f"{n}\n" for n in (*NODES[:2], MASTER)),
            "ssconf_master_candidates_certs": f"{uuid(ME)}={digest}\n",
            "hmac.key": KEY.whole.decode(),
            "client.pem": self.pem.decode(),
        }.items():
            (self.ganeti / name).write_text(text)
            (self.ganeti / name).chmod(0o640)
        self.configured()
        self.settings()
        self.command()
        self.state = folder / "succession"
        self.state.mkdir(mode=0o700)
        at = moment()
        since = Ms(at.steady - HOUR)
        self.remembers(Memory(Silence(uuid(MASTER), at.boot, since, at.steady)))

    def configured(self, **tags: list[str]) -> None:
        """Write config.data; `tags` of nodes by their short names."""
        nodes = {
            uuid(name): {
                "name": name,
                "primary_ip": "127.0.0.1",
                "group": "g",
                "drained": False,
                "offline": False,
                "master_candidate": name in (*NODES[:2], MASTER),
                "vm_capable": True,
                "tags": tags.get(name.partition(".")[0], []),
            }
            for name in NODES
        }
        cluster = {"cluster_name": "c", "master_node": uuid(MASTER), "tags": []}
        groups = {"g": {"name": "default", "tags": []}}
        document = {"cluster": cluster, "nodes": nodes, "nodegroups": groups, "instances": {}}
        document |= {"version": 3000000}
        (self.ganeti / "config.data").write_text(json.dumps(document))

    def settings(self, succession: str = "enabled = true") -> None:
        config = self.folder / "maintd.toml"
        config.write_text(
            f'[maintd]\nstandby = true\n[cluster]\nnode = "{ME}"\nganeti = "{self.ganeti}"\n'
            f"[succession]\n{succession}\n"
        )
        config.chmod(0o644)

    def command(self, fault: str = "") -> None:
        path = self.folder / "gnt-cluster"
        places = {"machine": self.folder / "machine", "log": self.folder / "gnt.log"}
        path.write_text(GNT_CLUSTER.format(ganeti=self.ganeti, me=ME, fault=fault, **places))
        path.chmod(0o755)

    def remembers(self, memory: Memory) -> None:
        (self.state / MEMORY).write_text(json.dumps(document_of(memory)))

    def places(self, seconds: float) -> Places:
        controls = self.fences.controls(self.ganeti)
        limit = (*LIMIT[:-1], f"{seconds:g}")
        command = (*limit, str(self.folder / "gnt-cluster"), COMMAND[-1])
        return Places("", str(self.state), controls, 0.05, command)

    @property
    def master(self) -> str:
        return (self.ganeti / "ssconf_master_node").read_text().strip()

    @property
    def failovers(self) -> list[str]:
        log = self.folder / "gnt.log"
        return log.read_text().splitlines() if log.exists() else []

    def begin(self, before: Callable[[], None] = lambda: None, seconds: float = 20.0) -> "Process":
        """Start the helper as systemd does, with a connection as its input and output."""
        ours, theirs = socket.socketpair()
        return self.start(theirs, ours, before, seconds)

    def start(
        self,
        theirs: socket.socket,
        ours: socket.socket | None = None,
        before: Callable[[], None] = lambda: None,
        seconds: float = 20.0,
    ) -> "Process":
        """Start the helper at its end of a connection; `ours` is the other one, if we have it."""
        pid = os.fork()
        if pid == 0:
            _become(self, theirs, before, seconds)
        theirs.close()
        return Process(pid, ours or socket.socket())

    def ask(
        self,
        verb: str = "succeed",
        agents: Agents | None = None,
        before: Callable[[], None] = lambda: None,
        seconds: float = 20.0,
    ) -> dict[str, Any]:
        """Have one whole session; what it told, or nothing if it was killed."""
        process = self.begin(before, seconds)
        try:
            return process.session(verb, agents or Agents())
        finally:
            process.end()


def _become(
    standby: Standby, theirs: socket.socket, before: Callable[[], None], seconds: float
) -> NoReturn:
    try:
        os.dup2(theirs.fileno(), 0)
        os.dup2(theirs.fileno(), 1)
        errors = os.open(standby.folder / "journal", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(errors, 2)
        sys.stdin, sys.stdout = os.fdopen(0, "r"), os.fdopen(1, "w")
        sys.stderr = os.fdopen(2, "w")
        sys.argv = [succeed.NAME, "-c", str(standby.folder / "maintd.toml"), "session"]
        before()
        succeed.main(standby.places(seconds))
    except SystemExit as end:
        sys.stderr.flush()
        os._exit(end.code if isinstance(end.code, int) else 1)
    finally:
        os._exit(99)


class Process:
    """A helper that runs, and the other end of its connection."""

    def __init__(self, pid: int, connection: socket.socket) -> None:
        self.pid = pid
        self._lines = connection.makefile("rwb")
        self._connection = connection

    def session(self, verb: str, agents: Agents) -> dict[str, Any]:
        self.say({"verb": verb})
        try:
            for line in self._lines:
                said = json.loads(line)
                if "ask" not in said:
                    return dict(said.get("told") or said)
                self.say({name: agents.answer(body) for name, body in said["ask"].items()})
        except (BrokenPipeError, ConnectionResetError):
            pass
        return {}

    def say(self, document: Mapping[str, Any]) -> None:
        self._lines.write(json.dumps(document).encode() + b"\n")
        self._lines.flush()

    def end(self) -> int:
        self._connection.close()
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


@pytest.fixture
def standby() -> Iterator[Standby]:
    with safe_folder() as folder:
        yield Standby(folder)


def journal(standby: Standby) -> str:
    return (standby.folder / "journal").read_text()


def test_maintds_standby_carries_the_questions_of_the_helper(standby: Standby) -> None:
    """The two ends of the connection, over HTTP to the agents; nothing answers for the master."""
    agents, path = Agents(), str(standby.folder / "sock")

    async def witness(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        size = int(head.partition("content-length:")[2].split()[0])
        answer = agents.answer((await reader.readexactly(size)).decode()).encode()
        head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(answer)}\r\nConnection: close\r\n\r\n"
        writer.write(head.encode() + answer)
        writer.close()

    async def stands_by(listener: socket.socket) -> dict[str, Any] | None:
        server = await asyncio.start_server(witness, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        helper = Helper(path, port, tls=False, steady=lambda: 0.0)
        nodes = {name: Node(name, uuid(name), "127.0.0.1") for name in NODES}
        nodes[MASTER] = Node(MASTER, uuid(MASTER), "127.0.0.2")
        helper.look(Snapshot("c", nodes, master=MASTER))
        connection, _ = await asyncio.get_running_loop().sock_accept(listener)
        connection.setblocking(True)
        process = standby.start(connection)
        assert helper._task is not None
        await helper._task
        process.end()
        server.close()
        return helper.told

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        listener.setblocking(False)
        told = asyncio.run(stands_by(listener))
    assert told is not None
    assert (standby.master, told["kind"]) == (ME, "is-master"), f"{told} {journal(standby)}"
    assert agents.claims == [False] * 4 + [True] * 8
    assert standby.failovers == ["master-failover while the old master is off"]
    memory = json.loads((standby.state / MEMORY).read_text())
    assert memory["silence"]["answered"] == sorted(set(NODES) - {MASTER})
    tried = memory["tried"]
    assert (tried["master"], tried["why"]) == (MASTER, "this node became the master")


def no_power(standby: Standby) -> None:
    standby.fences.config.unlink()


def unproven(standby: Standby) -> None:
    (standby.fences.state / f"{MASTER}.json").unlink()


def shared(standby: Standby) -> None:
    text = standby.fences.config.read_text()
    standby.fences.write(text.replace('"node*.example.org"', '"*.example.org"'))
    standby.fences.prove()


def pinned(standby: Standby) -> None:
    standby.configured(a2=["nodeagent:key:" + "a" * 64], a3=["nodeagent:key:" + "b" * 64])


def wrong(how: str) -> Callable[[Standby], None]:
    def set_up(standby: Standby) -> None:
        standby.fences.levels({"machine": how})
        standby.fences.prove()

    return set_up


def paused(standby: Standby) -> None:
    standby.configured(node2=[PAUSE_TAG])


NOTHING: Callable[[Standby], None] = lambda _: None  # noqa: E731
REFUSALS = [
    pytest.param(paused, Agents(), "tagged", id="paused"),
    pytest.param(no_power, Agents(), "no-level-counts", id="no power.toml"),
    pytest.param(unproven, Agents(), "no-level-counts", id="a level that never said on"),
    pytest.param(shared, Agents(), "no-level-counts", id="a device of another node, too"),
    pytest.param(wrong("rubbish"), Agents(), "not-dead", id="the BMC says nonsense"),
    pytest.param(wrong("refuses"), Agents(), "not-off", id="the BMC refuses"),
    pytest.param(wrong("lies"), Agents(), "not-off", id="the BMC does nothing"),
    pytest.param(
        NOTHING,
        Agents(key=Key(b"another key, not of this cluster\n")),
        "few-agree",
        id="forged answers",
    ),
    pytest.param(pinned, Agents(), "few-agree", id="answers without the pinned key"),
]


@pytest.mark.parametrize(("set_up", "agents", "kind"), REFUSALS)
def test_without_proof_nobody_becomes_the_master(
    standby: Standby, set_up: Callable[[Standby], None], agents: Agents, kind: str
) -> None:
    set_up(standby)
    told = standby.ask(agents=agents)
    assert told.get("kind") == kind, f"{told} {journal(standby)}"
    assert told["reason"]
    assert (standby.master, standby.failovers) == (MASTER, [])
    assert standby.fences.power() == "on"


def test_a_failover_that_failed_is_not_tried_within_the_hour(standby: Standby) -> None:
    standby.command("echo 'Voting cannot be won'; exit 1")
    told = standby.ask()
    assert told["kind"] == "failed"
    assert "exit code 1: Voting cannot be won" in told["reason"]
    told = standby.ask()
    assert (told["kind"], len(standby.failovers)) == ("lately", 1)
    assert "Voting cannot be won" in told["reason"]
    assert (standby.state / LOG).read_text() == "Voting cannot be won\n"


def test_a_failover_that_does_not_end_is_ended(standby: Standby) -> None:
    standby.command("echo voting; sleep 60")
    told = standby.ask(seconds=1.0)
    assert told["kind"] == "failed"
    assert "exit code 124: voting /usr/bin/timeout: sending signal TERM" in told["reason"]


def test_two_sessions_never_act_at_once(standby: Standby) -> None:
    first = standby.begin()
    try:
        first.say({"verb": "succeed"})
        assert b"ask" in first._lines.readline()
        assert "failover runs" in standby.ask()["failed"]
    finally:
        os.kill(first.pid, signal.SIGKILL)
        first.end()


def test_a_failover_outlives_the_helper_and_keeps_others_out(standby: Standby) -> None:
    standby.command("sleep 3")

    def kill_soon() -> None:
        run = succeed.fail_over

        def began(places: Places, lock: int) -> str:
            if os.fork() == 0:
                dawdle(1)
                os.kill(os.getppid(), signal.SIGKILL)
                os._exit(0)
            return run(places, lock)

        succeed.fail_over = began

    assert standby.ask(before=kill_soon) == {}
    assert "failover runs" in standby.ask()["failed"]
    until(lambda: standby.master == ME)
    until(lambda: "failover runs" not in standby.ask().get("failed", ""))
    assert standby.ask()["kind"] == "is-master"
    assert len(standby.failovers) == 1


def test_a_fault_of_other_settings_does_not_stop_it(standby: Standby) -> None:
    drop_ins = standby.folder / "maintd.conf.d"
    drop_ins.mkdir(mode=0o755)
    (drop_ins / "notify.toml").write_text("[[notify]]\nurl = 5\n")
    (drop_ins / "notify.toml").chmod(0o644)
    told = standby.ask("preview")
    assert told["kind"] == "not-asked"


def test_an_unreadable_memory_stops_all(standby: Standby) -> None:
    (standby.state / MEMORY).write_text("{")
    assert "memory.json" in standby.ask()["failed"]
    assert "memory.json" in journal(standby)
    assert (standby.failovers, standby.fences.asked()) == ([], [])


def test_the_memory_of_a_large_cluster_is_read_again(standby: Standby) -> None:
    names = tuple(f"node{n:06d}.{'x' * 230}.example.org" for n in range(10_000))
    at = moment()
    silence = Silence(uuid(MASTER), at.boot, Ms(at.steady - HOUR), at.steady, names)
    standby.remembers(Memory(silence))
    assert standby.ask("preview")["kind"] == "not-asked", journal(standby)


def test_what_cannot_be_read_is_told_to_maintd(standby: Standby) -> None:
    (standby.ganeti / "config.data").unlink()
    assert "config.data: No such file" in standby.ask()["failed"]
    standby.settings("enabled = 7")
    assert "succession.enabled" in standby.ask()["failed"]


@pytest.mark.parametrize("line", [b"rubbish\n", b"{}\n", b"[]\n", b'{"verb": "rm"}\n', b""])
def test_other_callers_get_nothing(standby: Standby, line: bytes) -> None:
    process = standby.begin()
    process._connection.sendall(line)
    process._connection.shutdown(socket.SHUT_WR)
    assert process._lines.read() == b""
    assert process.end() == exits.USAGE


def test_nobody_talks_to_it_at_a_terminal() -> None:
    with open(os.devnull, "rb") as nothing:
        done = subprocess.run(
            [sys.executable, "-m", "nodeagent.cli.succeed", "session"],
            stdin=nothing,
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == exits.USAGE
    assert "gnt-maint why cluster" in done.stderr


def fuse(at: int) -> Callable[[], None]:
    """Kill the helper before or after its n-th effect."""

    def light() -> None:
        left = at

        def tick() -> None:
            nonlocal left
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

        def fragile(effect: Callable[..., Any]) -> Callable[..., Any]:
            def ticking(*args: Any, **kwargs: Any) -> Any:
                tick()
                done = effect(*args, **kwargs)
                tick()
                return done

            return ticking

        for name in ("_save", "read_power", "power_off", "fail_over"):
            setattr(succeed, name, fragile(getattr(succeed, name)))

    return light


TICKS = 18  # before and after each effect of a whole session


@pytest.mark.parametrize("at", range(1, TICKS + 1))
def test_killed_anywhere_it_goes_on_and_fails_over_once(standby: Standby, at: int) -> None:
    assert standby.ask(before=fuse(at)) == {}, "it ended before"
    for _ in range(3):
        if standby.master == ME:
            break
        standby.ask()
    assert standby.master == ME, journal(standby)
    assert standby.failovers == ["master-failover while the old master is off"]


def test_all_of_a_session_was_tried(standby: Standby) -> None:
    assert standby.ask(before=fuse(TICKS + 1)).get("kind") == "is-master", journal(standby)
