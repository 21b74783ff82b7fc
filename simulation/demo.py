"""`make demo`: six real agents on loopback, maintd, and their simulated cluster.

It shows a whole life: a node breaks, is evacuated, explained, repaired, checked and filled again.
The wiring is production's: whitelisted scripts on this machine, runner, front, signatures, TLS,
poll, incidents, intents, orders, tags. Only the cluster behind `Cluster` is simulated, and the
demo's user must own the scripts.
"""

import asyncio
import grp
import json
import logging
import os
import pwd
import signal
import sys
import textwrap
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from types import FrameType

import click

from nodeagent import service
from nodeagent.maintd.balancing.headroom_thread import Headrooms
from nodeagent.maintd.balancing.inputs import stock_of
from nodeagent.maintd.balancing.search_thread import Adviser, nothing_measured
from nodeagent.maintd.engine.conduct import Conduct
from nodeagent.maintd.engine.daemon import Maintd
from nodeagent.maintd.engine.helper_settings import PollSettings
from nodeagent.maintd.engine.orders import Orders
from nodeagent.maintd.engine.poll import poll, remember
from nodeagent.maintd.engine.round import Engine, Round, Services
from nodeagent.maintd.engine.settings import HttpSettings
from nodeagent.maintd.engine.witnesses import QuestionsOverHttp, Witnesses
from nodeagent.maintd.http.listen import listening
from nodeagent.maintd.http.readers import Readers
from nodeagent.maintd.http.routes import Api
from nodeagent.model.action import Action, MovePrimary, MoveSecondary, Retag, describe
from nodeagent.model.incident import Incident, Status
from nodeagent.model.instance_tags import OWNER_TAG
from nodeagent.model.ledger import Policy
from nodeagent.model.notice import Sink
from nodeagent.model.purpose import OfEntry, OfFencing
from nodeagent.model.queue import Operation, Procedure, Procedures, RepairStep
from nodeagent.model.snapshot import Instance, Snapshot
from nodeagent.model.stage import FULL
from nodeagent.model.units import Ms, Seconds
from nodeagent.protocol.envelope import Key
from nodeagent.protocol.look import Look, Seen
from nodeagent.protocol.node_key import TAG as KEY_TAG
from nodeagent.store.sqlite import SqliteStore
from simulation.cluster import SimulatedCluster
from simulation.demo_kept import OWNER, gnt_maint, hints, secured
from simulation.demo_machines import DemoMachines
from simulation.demo_nodes import CLUSTER, NODES, POWER_CYCLE, POWERED, Nodes, trusted_folder
from simulation.demo_notices import receiving

WIDTH = 110  # columns; longer sentences go on in the next line
PATIENCE = 120.0  # seconds for the whole demo; it takes 20, and a busy machine more

# For visitors: the repair queue's procedure for an unreachable machine.
_UNREACHABLE = Operation(
    "unreachable", (RepairStep(POWER_CYCLE, watch_seconds=Seconds(10)),), POWERED
)
POLICY = Policy(
    stage=FULL,
    settle=Ms(300),
    cooldown=Ms(0),
    storm=0.5,
    return_after=Ms(1000),
    close_live_repairs=Ms(1000),
    balance_settle=Ms(500),
    procedures=Procedures((Procedure(("demo",), (_UNREACHABLE,)),)),
)


def for_visitors(policy: Policy, sink: Sink) -> Policy:
    """Shorten what takes minutes in production, and let maintd fence dead nodes, and notify."""
    return replace(
        policy,
        unreachable_after=Ms(20_000),
        dead_nodes="restart",
        revive_within=Ms(20_000),
        notify=(sink,),
    )


BROKEN_BOARD = {
    "status": "evacuate",
    "details": {"part": "mainboard", "slot": "CPU2", "fault": "VRM"},
}
WELL = {"status": "Ok"}
LOOSE_DISK = {"status": "live-repair", "command": "reseat-disk", "details": {"bay": 7}}


class Demo:
    """One run of the demo on these nodes: maintd, and its story."""

    def __init__(self, nodes: Nodes) -> None:
        self.nodes = nodes
        self.began = time.monotonic()
        self.cluster = _cluster()
        self.polling = PollSettings(port=nodes.port, seconds=2.0)
        self.looks: dict[str, Look] = {}
        self.seen: dict[str, Incident] = {}
        self._genuine: dict[str, Seen] = {}
        self._shown: set[object] = set()
        self._hints: list[str] = []
        self._chapters = 0

    async def run(self, *, keep: bool) -> bool:
        """Run the whole story; True if everything went as it should."""
        stop = asyncio.Event()
        self._chapter("Six nodes start, an agent on each, and maintd on the master")
        self._say("", "start", f"runners and fronts, in {self.nodes.folder}")
        if not await self._until(self.nodes.all_listen):
            return False
        daemon = self._maintd()
        maintd = asyncio.create_task(daemon.run(stop))
        well = True  # a kill before the end is not a failure
        try:
            async with AsyncExitStack() as open_:
                await self._serve(daemon, open_, keep=keep)
                well = await self._story(daemon.engine)
                if keep:
                    self.summary()
                    await self._more_to_try(daemon.engine, open_)
                    click.echo("\nIt stays up until Ctrl-C. Copy these lines to look around:\n")
                    click.echo("\n".join(self._hints))
                    await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass
        finally:
            stop.set()
            await maintd
        return well

    @property
    def _socket(self) -> str:
        return str(self.nodes.folder / "admin.sock")

    async def _serve(self, maintd: Maintd, open_: AsyncExitStack, *, keep: bool) -> None:
        """Serve maintd's page, JSON and admin socket during the demo; with `keep`, more."""
        users = self.nodes.folder / "maintd.users"
        api = Api(maintd, str(users), readers=Readers(everything=True))
        http = HttpSettings(port=0, plain=True)
        port = await open_.enter_async_context(listening(api, self._socket, ["127.0.0.1"], http))
        page = f"http://127.0.0.1:{port}/status"
        self._say("", "page", page)
        if keep:
            curl = await open_.enter_async_context(secured(api, users))
            self._hints = hints(self.nodes, self._socket, page, self.cluster, curl)

    async def _more_to_try(self, engine: Engine, open_: AsyncExitStack) -> None:
        """Let machines reboot, fall silent and die, and let maintd notify the demo.

        maintd's log then goes to a file: it tells much of nodes that do not answer.
        """
        logs = logging.FileHandler(self.nodes.folder / "maintd.log")
        logs.setFormatter(service.OneLine("%(message)s"))
        logging.basicConfig(level="INFO", handlers=[logs])
        machines = DemoMachines(self.nodes, self.cluster.world, self._say)
        running = asyncio.create_task(machines.run())
        open_.push_async_callback(_ended, running)
        settings = self.nodes.folder / "notify.toml"
        sink, target = await open_.enter_async_context(receiving(self._say, settings))
        engine.outbox.configure([target])
        engine.policy = for_visitors(engine.policy, sink)

    async def _story(self, engine: Engine) -> bool:
        if not await self._until(lambda: len(self.healthy()) == len(NODES)):
            self._say("", "FAILED", f"only {len(self.healthy())} of 6 agents report: {self.looks}")
            return False
        self._say("", "healthy", "six verified reports, each signed with its node's own key")
        sick, loose = NODES[2].name, NODES[4].name

        self._chapter("The mainboard of node3 fails: maintd evacuates it")
        self._break(sick, BROKEN_BOARD)
        if not await self._until(lambda: self._status(sick) is Status.COMPLETED):
            return False
        self._chapter("A colleague asks why node3 is empty")
        if not await self._gnt_maint("why", "node3"):
            return False
        self._chapter("A technician replaces the board; meanwhile a disk of node5 is loose")
        self.nodes.set_hardware(sick, WELL)
        self._say(sick, "mend", json.dumps(WELL))
        self._break(loose, LOOSE_DISK)
        if not await self._until(lambda: self._status(loose) is Status.COMPLETED):
            return False
        self._chapter("The technician says so; node3 must prove it before it takes instances")
        if not await self._gnt_maint("done", "node3"):
            return False
        if not await self._until(lambda: self._in_service(sick) and not self.seen):
            return False
        self._say(sick, "back", "in service, its tag is gone and its incident closed")
        self._chapter("Balancing (balance = true) brings instances back to node3")
        engine.policy = replace(engine.policy, balance=True)
        if not await self._until(lambda: sum(i.primary == sick for i in self._instances()) > 1):
            return False
        return await self._until(lambda: engine.ledger is not None and not engine.ledger.intents)

    def _break(self, node: str, diagnosis: object) -> None:
        self.nodes.set_hardware(node, diagnosis)
        self._say(node, "break", json.dumps(diagnosis))

    async def _gnt_maint(self, *words: str) -> bool:
        """Run gnt-maint as a person would, and show its output."""
        self._say("", "$", " ".join(("gnt-maint", *words)))
        command = (*gnt_maint(self._socket), *words)
        running = await asyncio.create_subprocess_exec(
            *command,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=os.environ | {"COLUMNS": "80", "NO_COLOR": "1"},
        )
        try:
            out, _ = await running.communicate()
        finally:
            if running.returncode is None:
                running.kill()
        for line in out.decode().splitlines():
            click.echo(f"{'':10}| {line}".rstrip())
        return running.returncode == 0

    def _in_service(self, node: str) -> bool:
        return self.cluster.snapshot().nodes[node].in_service

    def _instances(self) -> list[Instance]:
        return list(self.cluster.snapshot().instances.values())

    def healthy(self) -> list[str]:
        """List the nodes whose last poll was genuine and Ok."""
        return [
            name
            for name, look in self.looks.items()
            if isinstance(look, Seen) and look.diagnosis and look.diagnosis.need == 0
        ]

    def _maintd(self) -> Maintd:
        key = Key(self.nodes.key.encode())

        async def look(snapshot: Snapshot) -> dict[str, Look]:
            self.looks = await poll(snapshot, key, self.polling, _now, self._genuine)
            self._genuine = remember(self._genuine, self.looks, snapshot)
            return self.looks

        orders = Orders(key, self.nodes.client_pem, self.nodes.port, tls=True, now=_now)
        store = SqliteStore(str(self.nodes.folder / "ledger.sqlite"))
        conduct = Conduct(NODES[0].name, lambda: None)
        headrooms = Headrooms()
        adviser = Adviser(
            lambda seen, asked: stock_of(self.cluster, seen, {one.group for one in asked}),
            nothing_measured,
            room=self.cluster.capacity,
            running=self.cluster.running,
            tell=headrooms.take,
        )
        asking = QuestionsOverHttp.by(key, self.nodes.client_pem, self.polling, _now)
        services = replace(
            Services.alone(self.cluster, _now),
            adviser=adviser,
            headrooms=headrooms,
            witnesses=Witnesses(asking, _now, time.monotonic),
        )
        engine = Engine(store, self.cluster, orders, look, POLICY, _now, conduct, services)
        return Maintd(engine, store, 0.4, _now, self._watch)

    def _watch(self, done: Round) -> None:
        """Print the changes since the last round."""
        ledger = done.decision.ledger
        for incident in ledger.incidents:
            before = self.seen.get(incident.id)
            if before is None or before.status is not incident.status:
                word, text = _STATUS[incident.status]
                self._say(incident.name, word, text or incident.diagnosis.text)
            self.seen[incident.id] = incident
        for gone in self.seen.keys() - {incident.id for incident in ledger.incidents}:
            self._say(self.seen.pop(gone).name, "closed", "its incident is in the history only")
        for intent in ledger.intents:
            # The queue checks a machine's health again and again.
            again = isinstance(intent.purpose, OfEntry | OfFencing)
            known = intent.purpose.text if again else intent.id
            if intent.job is not None and known not in self._shown and not _pins(intent.action):
                self._shown.add(known)
                job = f"job {intent.job}: " if intent.job.isdecimal() else ""
                self._say(intent.node, "", f"  {job}{describe(intent.action)}")
        for held in done.decision.held:
            if held.key not in self._shown:  # not every second it lasts
                self._shown.add(held.key)
                self._say(held.node, "waits", held.reason)

    def _status(self, node: str) -> Status | None:
        return next((i.status for i in self.seen.values() if i.name == node), None)

    async def _until(self, condition: object) -> bool:
        assert callable(condition)
        while not condition():
            if time.monotonic() - self.began > PATIENCE:
                self._say("", "FAILED", f"not done within {PATIENCE:.0f} s")
                return False
            await asyncio.sleep(0.1)
        return True

    def _chapter(self, title: str) -> None:
        self._chapters += 1
        click.echo(f"\n{self._chapters}. {title}\n")

    def _say(self, node: str, event: str, text: str) -> None:
        seconds = time.monotonic() - self.began
        colour = _COLOURS.get(event, "")
        name = node.partition(".")[0]
        text = text.replace(f".{CLUSTER}", "")
        first = f"{seconds:5.1f} s  {name:6} {event:10} "
        line = textwrap.fill(
            text,
            WIDTH,
            initial_indent=first,
            subsequent_indent=" " * len(first),
            break_long_words=False,
            break_on_hyphens=False,
        )
        if colour and sys.stdout.isatty() and not os.environ.get("NO_COLOR"):
            line = line.replace(f"{event:10}", f"\x1b[{colour}m{event:10}\x1b[0m", 1)
        click.echo(line)

    def summary(self) -> None:
        snapshot = self.cluster.snapshot()
        click.echo(f"\n{'NODE':8}{'STATE':12}{'INSTANCES':28}TAGS")
        for name, node in snapshot.nodes.items():
            state = "offline" if node.offline else "drained" if node.drained else "in service"
            here = [i.name for i in snapshot.instances.values() if i.primary == name]
            told = sorted(tag for tag in node.tags if not tag.startswith(KEY_TAG))
            tags = ", ".join(told) or "-"
            click.echo(f"{name.partition('.')[0]:8}{state:12}{', '.join(here) or '-':28}{tags}")


_STATUS = {
    Status.NOTED: ("detected", ""),
    Status.PENDING: ("started", "maintd works on its incident"),
    Status.COMPLETED: ("completed", "maintd has done its part"),
    Status.FAILED: ("failed", "maintd needs a person"),
    Status.CANCELED: ("canceled", "nothing more is done"),
}
_COLOURS = {
    "break": "31",
    "mend": "32",
    "detected": "33",
    "started": "36",
    "completed": "32",
    "closed": "32",
    "back": "32",
    "failed": "31",
    "FAILED": "31",
    "waits": "35",
    "$": "1",
}


def _pins(action: Action) -> bool:
    """Tell whether it pins a node to its key, which maintd does once for each."""
    return isinstance(action, Retag) and any(tag.startswith(KEY_TAG) for tag in action.add)


def _cluster() -> SimulatedCluster:
    owned = frozenset({f"{OWNER_TAG}{OWNER}"})
    instances = [
        Instance(
            f"{name}{n + 1}",
            NODES[n % 6].name,
            NODES[(n + step) % 6].name,
            memory=4096,
            disk=20_480,
            tags=tags,
        )
        for n in range(6)
        for name, step, tags in (("web", 1, frozenset[str]()), ("db", 2, owned))
    ]
    cluster = SimulatedCluster.of(
        time.monotonic, NODES, instances, master=NODES[0].name, name=CLUSTER
    )
    cluster.takes = lambda action: 0.5 if isinstance(action, MovePrimary | MoveSecondary) else 0.2
    return cluster


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait([task])


def _now() -> Ms:
    return Ms(time.time_ns() // 1_000_000)


def _on_signals(handler: Callable[[int, FrameType | None], None] | signal.Handlers) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, handler)


@click.command()
@click.option("--keep", is_flag=True, help="Stay up until Ctrl-C, to look around.")
def main(*, keep: bool) -> None:
    """Break two of six nodes and watch them come back, in under 30 seconds."""
    os.umask(0o022)
    _on_signals(signal.default_int_handler)  # a closed terminal leaves no agents behind either
    user = pwd.getpwuid(os.getuid()).pw_name
    group = grp.getgrgid(os.getgid()).gr_name
    click.echo(f"nodeagent demo: running as {user}:{group}")
    with trusted_folder() as folder:
        nodes = Nodes(folder)
        demo = Demo(nodes)
        try:
            nodes.start()
            well = asyncio.run(demo.run(keep=keep))
            if not keep:
                demo.summary()
        except KeyboardInterrupt:
            well = True
        finally:
            _on_signals(signal.SIG_IGN)
            nodes.stop()
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
