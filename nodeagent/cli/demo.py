"""`make demo`: six real agents on loopback, maintd, and a simulated cluster they belong to.

The wiring is production's: whitelisted scripts run on this machine, runner, front,
signatures, TLS, poll, incidents, intents, orders, tags. Only the cluster behind `Cluster`
is simulated, and the required owner of the scripts is whoever runs the demo.
"""

import asyncio
import functools
import grp
import json
import multiprocessing
import os
import pwd
import secrets
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import NAMESPACE_DNS, uuid5

import click

from nodeagent.agent.daemon import run_front, run_runner
from nodeagent.agent.whitelist import Owner, judge_folder
from nodeagent.cluster.simulated import SimulatedCluster
from nodeagent.maintd.daemon import Maintd
from nodeagent.maintd.engine import Engine
from nodeagent.maintd.order import Orders
from nodeagent.maintd.poll import PollSettings, poll
from nodeagent.model.action import (
    Action,
    AddTag,
    Drain,
    MovePrimary,
    MoveSecondary,
    RunCommand,
    SetOffline,
)
from nodeagent.model.incident import Incident, Status
from nodeagent.model.ledger import Decision, Policy
from nodeagent.model.snapshot import Instance, Node, Snapshot
from nodeagent.protocol.envelope import Key
from nodeagent.protocol.look import Look, Seen
from nodeagent.settings import load
from nodeagent.store.sqlite import SqliteStore

CLUSTER = "demo.example"
NODES = tuple(f"node{n}.demo.example" for n in range(1, 7))
PATIENCE = 29.0  # seconds for the whole demo

DISK_BAYS = """#!/bin/sh
# Stands in for a RAID controller's tool: this node's hardware is a file.
exec cat "{hardware}"
"""
RESEAT_DISK = """#!/usr/bin/python3 -I
# Takes the diagnosis on standard input, as every repair command does.
import json, sys
diagnosis = json.load(sys.stdin)
assert diagnosis["command"] == "reseat-disk"
with open({hardware!r}, "w") as file:
    json.dump({{"status": "Ok"}}, file)
print("reseated the disk in bay", diagnosis["details"]["bay"])
"""
BROKEN_BOARD = {
    "status": "evacuate",
    "details": {"part": "mainboard", "slot": "CPU2", "fault": "VRM"},
}
LOOSE_DISK = {"status": "live-repair", "command": "reseat-disk", "details": {"bay": 7}}


class Demo:
    """One run of the demo, in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = _free_port()
        self.began = time.monotonic()
        self.cluster = _cluster()
        self.looks: dict[str, Look] = {}
        self.seen: dict[str, Incident] = {}
        self._shown: set[str] = set()
        self._processes: list[multiprocessing.process.BaseProcess] = []
        certificate, self._client_pem = _candidate()
        self._key = secrets.token_hex(20) + "\n"
        for number, name in enumerate(NODES, 11):
            self._lay_out(name, f"127.0.0.{number}", certificate)

    # Setting up.

    def _lay_out(self, name: str, address: str, candidate: str) -> None:
        """What a node has: Ganeti's files, a command in each white-list folder, settings."""
        home = self.folder / name
        ganeti = home / "ganeti"
        for place in (ganeti, home / "diagnose", home / "repair", home / "state"):
            place.mkdir(parents=True, mode=0o755)
        addresses = "".join(f"{n} 127.0.0.{i}\n" for i, n in enumerate(NODES, 11))
        for file, text in {
            "cluster_name": CLUSTER + "\n",
            "cluster_tags": "",
            "master_node": NODES[0] + "\n",
            "node_primary_ips": addresses,
            "master_candidates_certs": f"{_uuid(NODES[0])}={candidate}\n",
        }.items():
            (ganeti / f"ssconf_{file}").write_text(text)
        (ganeti / "hmac.key").write_text(self._key)
        (ganeti / "hmac.key").chmod(0o400)
        hardware = str(home / "hardware.json")
        self.set_hardware(name, {"status": "Ok"})
        _command(home / "diagnose" / "disk-bays", DISK_BAYS.format(hardware=hardware))
        _command(home / "repair" / "reseat-disk", RESEAT_DISK.format(hardware=hardware))
        mdraid = Path(__file__).parents[2] / "etc" / "node-diagnose-commands" / "mdraid"
        also = ""
        if mdraid.exists():  # a shipped command, run for real but only watched
            _command(home / "diagnose" / "mdraid", mdraid.read_text())
            also = ', "mdraid"'
        (home / "agent.toml").write_text(
            f"""
[agent]
node = "{name}"
uuid = "{_uuid(name)}"
ganeti = "{ganeti}"
state = "{home}/state"
socket = "{home}/runner.sock"
log = "info"
[listen]
address = "{address}"
port = {self.port}
[diagnose]
folder = "{home}/diagnose"
commands = ["disk-bays"{also}]
every = "1s"
[diagnose.command.mdraid]
audit = true
[repair]
folder = "{home}/repair"
timeout = "20s"
"""
        )
        (home / "agent.toml").chmod(0o644)

    def set_hardware(self, name: str, diagnosis: object) -> None:
        """Break or mend a node: this is what its diagnose command prints."""
        file = self.folder / name / "hardware.json"
        new = file.with_suffix(".new")
        new.write_text(json.dumps(diagnosis))
        new.replace(file)

    def start_agents(self) -> None:
        """A runner and a front for every node, each a process of its own."""
        context = multiprocessing.get_context("spawn")
        owner = Owner(os.getuid(), os.getgid())
        for name in NODES:
            read = functools.partial(
                load, str(self.folder / name / "agent.toml"), owner=os.getuid()
            )
            for target, args in ((run_runner, (read, owner)), (run_front, (read,))):
                log = str(self.folder / name / f"{target.__name__}.log")
                process = context.Process(target=_logged, args=(log, target, args))
                process.start()
                self._processes.append(process)

    def stop_agents(self) -> None:
        """End the processes this demo has started."""
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.join(5)
            if process.is_alive():
                process.kill()
                process.join()

    # Running.

    async def run(self, *, keep: bool) -> bool:
        """The whole story; True if everything went as it should."""
        stop = asyncio.Event()
        maintd = asyncio.create_task(self._maintd().run(stop))
        try:
            well = await self._story()
            if keep:
                self._say(
                    "", "kept", f"agents serve https://127.0.0.11-16:{self.port}; Ctrl-C ends"
                )
                await asyncio.Event().wait()
        except asyncio.CancelledError:
            well = True
        finally:
            stop.set()
            await maintd
        return well

    async def _story(self) -> bool:
        self._say("", "start", f"six agents, runner and front each, in {self.folder}")
        if not await self._until(lambda: len(self.healthy()) == len(NODES)):
            self._say("", "FAILED", f"only {len(self.healthy())} of 6 agents report: {self.looks}")
            return False
        self._say(
            "", "healthy", "six verified reports, each signed and bound to its TLS connection"
        )
        sick, loose = NODES[2], NODES[4]
        self.set_hardware(sick, BROKEN_BOARD)
        self._say(sick, "break", json.dumps(BROKEN_BOARD))
        if not await self._until(lambda: self._status(sick) is Status.COMPLETED):
            return False
        self.set_hardware(loose, LOOSE_DISK)
        self._say(loose, "break", json.dumps(LOOSE_DISK))
        return await self._until(lambda: self._status(loose) is Status.COMPLETED)

    def healthy(self) -> list[str]:
        """Nodes whose last look was genuine and Ok."""
        return [
            name
            for name, look in self.looks.items()
            if isinstance(look, Seen) and look.diagnosis and look.diagnosis.need == 0
        ]

    def _maintd(self) -> Maintd:
        key = Key(self._key.encode())
        settings = PollSettings(port=self.port, seconds=2.0)

        async def look(snapshot: Snapshot) -> dict[str, Look]:
            self.looks = await poll(snapshot, key, settings, _now)
            return self.looks

        orders = Orders(key, self._client_pem, self.port, tls=True, now=_now)
        store = SqliteStore(str(self.folder / "ledger.sqlite"))
        engine = Engine(store, self.cluster, orders, look, Policy(settle=300, storm=0.5), _now)
        return Maintd(engine, 0.4, self._watch)

    def _watch(self, decision: Decision) -> None:
        """Tell what has changed since the last round."""
        for incident in decision.ledger.incidents:
            before = self.seen.get(incident.id)
            if before is None or before.status is not incident.status:
                said = incident.diagnosis.text if before is None else f"incident {incident.id}"
                self._say(incident.node, incident.status.value, said)
            self.seen[incident.id] = incident
        for intent in decision.ledger.intents:
            if intent.job is not None and intent.id not in self._shown:
                self._shown.add(intent.id)
                self._say(intent.node, "", f"  job {intent.job}: {_words(intent.action)}")
        for held in decision.held:
            if str(held) not in self._shown:
                self._shown.add(str(held))
                self._say(held.node, "held", held.reason)

    def _status(self, node: str) -> Status | None:
        return next((i.status for i in self.seen.values() if i.node == node), None)

    async def _until(self, condition: object) -> bool:
        assert callable(condition)
        while not condition():
            if time.monotonic() - self.began > PATIENCE:
                self._say("", "FAILED", f"not done within {PATIENCE:.0f} s")
                return False
            await asyncio.sleep(0.1)
        return True

    def _say(self, node: str, event: str, text: str) -> None:
        seconds = time.monotonic() - self.began
        colour = _COLOURS.get(event, "")
        name = node.partition(".")[0]
        line = f"{seconds:5.1f} s  {name:6} {event:10} {text}"
        if colour and sys.stdout.isatty() and not os.environ.get("NO_COLOR"):
            line = line.replace(f"{event:10}", f"\x1b[{colour}m{event:10}\x1b[0m", 1)
        click.echo(line)

    def summary(self) -> None:
        """The cluster as it is in the end."""
        snapshot = self.cluster.snapshot()
        click.echo(f"\n{'NODE':8}{'STATE':12}{'INSTANCES':28}TAGS")
        for name, node in snapshot.nodes.items():
            state = "offline" if node.offline else "drained" if node.drained else "in service"
            here = [i.name for i in snapshot.instances.values() if i.primary == name]
            tags = ", ".join(sorted(node.tags)) or "-"
            click.echo(f"{name.partition('.')[0]:8}{state:12}{', '.join(here) or '-':28}{tags}")


_COLOURS = {
    "break": "31",
    "noted": "33",
    "pending": "36",
    "completed": "32",
    "failed": "31",
    "FAILED": "31",
    "held": "35",
}


def _words(action: Action) -> str:
    match action:
        case Drain(node):
            return f"drain {node}"
        case MovePrimary(instance, node, live):
            return f"{'migrate' if live else 'fail over'} {instance} off {node}"
        case MoveSecondary(instance, _, target):
            return f"new mirror of {instance} on {target}"
        case SetOffline(node):
            return f"take {node} offline"
        case RunCommand(node, command):
            return f"signed order to {node}: run {command} with the diagnosis on stdin"
        case AddTag(_, tag):
            return f"tag {tag}"


def _cluster() -> SimulatedCluster:
    nodes = [Node(name, _uuid(name), f"127.0.0.{n}") for n, name in enumerate(NODES, 11)]
    instances = [
        Instance(f"{name}{n + 1}", NODES[n % 6], NODES[(n + step) % 6])
        for n in range(6)
        for name, step in (("web", 1), ("db", 2))
    ]
    cluster = SimulatedCluster.of(time.monotonic, nodes, instances)
    cluster.name = CLUSTER
    cluster.takes = lambda action: 1.5 if isinstance(action, MovePrimary | MoveSecondary) else 0.5
    return cluster


def _candidate() -> tuple[str, bytes]:
    """A master candidate's client.pem, and its digest as Ganeti lists it."""
    from cryptography.hazmat.primitives import hashes
    from cryptography.x509 import load_pem_x509_certificate

    from nodeagent.agent.selfsigned import make

    pem = make()
    certificate = load_pem_x509_certificate(pem[pem.index(b"-----BEGIN CERTIFICATE-----") :])
    digest = certificate.fingerprint(hashes.SHA1())  # noqa: S303 Ganeti's name for it
    return ":".join(f"{byte:02X}" for byte in digest), pem


def _uuid(name: str) -> str:
    return str(uuid5(NAMESPACE_DNS, name))


def _now() -> int:
    return time.time_ns() // 1_000_000


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _command(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def _logged(log: str, target: object, args: tuple[object, ...]) -> None:
    """Be one daemon, with its log in a file."""
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(handle, 2)
    assert callable(target)
    target(*args)


@contextmanager
def trusted_folder() -> Iterator[Path]:
    """A fresh folder that no other user could tamper with, as the white list demands."""
    owner = Owner(os.getuid(), os.getgid())
    wanted = [os.environ.get("XDG_RUNTIME_DIR", ""), "/run", str(Path.home()), str(Path.cwd())]
    reasons = []
    for place in filter(None, wanted):
        if why := judge_folder(os.path.realpath(place), owner):
            reasons.append(why)
            continue
        with suppress(OSError):
            folder = tempfile.mkdtemp(prefix="nodeagent-demo-", dir=os.path.realpath(place))
            try:
                yield Path(folder)
            finally:
                shutil.rmtree(folder, ignore_errors=True)
            return
    raise click.ClickException("no folder that only you can write: " + "; ".join(reasons))


@click.command()
@click.option("--keep", is_flag=True, help="Stay up until Ctrl-C, to look around.")
def main(*, keep: bool) -> None:
    """Break one node of six and watch the loop close, in under 30 seconds."""
    os.umask(0o022)
    user = pwd.getpwuid(os.getuid()).pw_name
    group = grp.getgrgid(os.getgid()).gr_name
    click.echo(f"nodeagent demo: running as {user}:{group}")
    with trusted_folder() as folder:
        demo = Demo(folder)
        try:
            demo.start_agents()
            well = asyncio.run(demo.run(keep=keep))
            demo.summary()
        except KeyboardInterrupt:
            well = True
        finally:
            demo.stop_agents()
        seconds = time.monotonic() - demo.began
        click.echo(
            f"\n{'All as it should be' if well else 'NOT as it should be'}, {seconds:.0f} s."
        )
        if not well:
            for log in sorted(folder.glob("*/*.log")):
                click.echo(f"--- {log.parent.name}/{log.name}\n{log.read_text()[-600:]}", err=True)
    sys.exit(0 if well else 1)


if __name__ == "__main__":
    main()
