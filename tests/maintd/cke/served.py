"""A maintd for CKE's cases, over a real socket: six nodes, and machines that commands repair.

CKE's control plane is n1 to n3, the master candidates; n4 to n6 are its workers. What a test
knows of maintd it has asked by HTTP; beside it there are only the world (the cluster's jobs, the
commands that ran) and the clock. Procedures are TOML, read as at SIGHUP.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from nodeagent.cli.maintd_parts import reload_settings
from nodeagent.maintd.queue.inventory import InventorySettings
from nodeagent.maintd.settings import Settings
from nodeagent.model.action import RunCommand
from nodeagent.model.diagnosis import Diagnosis
from nodeagent.model.ledger import Intent, Outcome, Result
from nodeagent.model.reason import AnyKind, Reason
from nodeagent.model.snapshot import Instance, Node
from tests.agent.place import safe_folder
from tests.cli.live import Live
from tests.cli.maint.test_queue import ask
from tests.maintd.decided import kinds, whole
from tests.maintd.rig import TRACE, Agents, Rig, fleet, mirrored

Json = dict[str, Any]
Step = Mapping[str, object]

# With a log level that leaves what the tests have.
HEAD = """
[maintd]
log = "warning"
[policy]
settle = "0s"
cooldown = "0s"
attempts = 1000
nodes-in-work = 10
group-in-work = 10
storm = 100
burst = 100000
"""
TRY = {"repair_command": "try-1"}, {"repair_command": "try-2"}
DRAIN: Step = {"repair_command": "try-1", "need_drain": True, "watch_seconds": 600}
OUTSIDE = "10.0.0.9"
DAY = 86_400.0
NOBODY = InventorySettings()
# How an entry stands: its status, the step, and what that is at.
QUEUED, BEGUN = ("queued", 0, "waiting"), ("processing", 0, "watching")
DRAINING, PUT_OFF = ("processing", 0, "draining"), ("processing", 0, "waiting")


def toml(
    *steps: Step,
    types: tuple[str, ...] = ("type1",),
    operations: tuple[str, ...] = ("op1",),
    success: str = "",
    more: str = "",
    **queue: object,
) -> str:
    """A maintd.toml: CKE's two steps, no drain, no watch, unless said."""
    lines = [HEAD, "[queue]", *_keys(queue), more]
    lines += ["[[queue.repair_procedures]]", *_keys({"machine_types": list(types)})]
    for name in operations:
        operation = {"operation": name, "health_check_command": "check"}
        operation |= {"success_command": success} if success else {}
        lines += ["[[queue.repair_procedures.repair_operations]]", *_keys(operation)]
        for step in steps or TRY:
            lines.append("[[queue.repair_procedures.repair_operations.repair_steps]]")
            lines += _keys(step)
    return "\n".join(lines) + "\n"


def _keys(values: Mapping[str, object]) -> list[str]:
    return [f"{key} = {json.dumps(value)}" for key, value in values.items()]


def watched(*seconds: int) -> tuple[Step, ...]:
    """A step for each, watched so long."""
    return tuple({**TRY[n], "watch_seconds": s} for n, s in enumerate(seconds))


class Workshop(Agents):
    """The master's agent, whose commands repair machines: they only know what is on stdin.

    `ill` heals nothing until a command of `heals` has run for it; a command of `hangs` is ended
    when its time is up, one of `fails` ends with exit code 1, one of `slow` takes so many ms.
    """

    def start_anew(self) -> None:
        """Of what has run before its end is remembered, and nothing else."""
        self.says, self.takes, self.masters = {}, 1000, {}
        self.well = set[str]()
        self.heals, self.hangs, self.fails = set[str](), set[str](), set[str]()
        self.slow: dict[str, int] = {}
        self.entries: list[tuple[str, Json]] = []
        self.tells = self._tell

    def _tell(self, intent: Intent) -> Result:
        assert isinstance(intent.action, RunCommand)
        command, entry = intent.action.command, json.loads(intent.action.stdin)
        if command == "check":
            well = entry["address"] in self.well
            return Result(Outcome.SUCCESS, "exit code 0", 0, "true" if well else "false")
        self.entries.append((command, entry))
        if command in self.hangs:
            return Result(Outcome.ERROR, f"ended after {intent.action.seconds} s")
        if command in self.fails:
            return Result(Outcome.ERROR, "exit code 1", 1)
        if command in self.heals:
            self.well.add(entry["address"])
        return Result(Outcome.SUCCESS, "exit code 0", 0)

    async def outcome(self, job: str, node: Node) -> Result:
        began, end, intent = self.ran.get(job, (0, Outcome.LOST, None))
        takes = self.takes
        if intent is not None and isinstance(intent.action, RunCommand):
            takes = self.slow.get(intent.action.command, takes)
            if intent.purpose.entry and intent.action.command in self.hangs:
                takes = intent.action.seconds * 1000
        if end is not Outcome.LOST and self.now() < began + takes:
            return Result(Outcome.RUNNING)
        return await super().outcome(job, node)


class Cke:
    """One maintd, which serves all the tests of a module; `start_anew` makes it as new."""

    def __init__(self, folder: Path, nodes: int, asks: InventorySettings) -> None:
        self._nodes = [replace(n, candidate=n.name <= "n3") for n in fleet(nodes)]
        self._instances = mirrored(("n4", "n5")) if nodes > 4 else []
        rig = Rig(self._nodes, list(self._instances))
        self.agents = rig.agents = Workshop(rig.now)
        self.agents.start_anew()
        self.rig, rig.asks = rig, asks
        rig.crash()
        self.file = folder / "maintd.toml"
        self.live = Live(rig, folder)
        self._jobs = 0

    # What is asked.

    def ask(self, method: str, path: str, body: object = None) -> tuple[int, str]:
        return ask(self.live, method, path, body)

    def get(self, path: str) -> Any:
        status, text = self.ask("GET", path)
        assert status == 200, text
        return json.loads(text)

    def post(self, path: str, **body: str) -> None:
        status, text = self.ask("POST", path, body)
        assert status == 200, text

    def why(self, path: str, **body: str) -> str:
        """Why it is refused."""
        status, text = self.ask("POST", path, body)
        assert status in (400, 409), (status, text)
        return str(json.loads(text)["error"])

    def configure(self, *steps: Step, **how: Any) -> None:
        """Have this maintd.toml from now on."""
        self.read(toml(*steps, **how))

    def read(self, text: str, *, good: bool = True) -> None:
        """SIGHUP: a file that is wrong changes nothing."""
        self.file.write_text(text)
        self.file.chmod(0o600)
        before = self.rig.engine.policy
        reload_settings(self.live.maintd, str(self.file), Settings())
        assert (self.rig.engine.policy is not before) == good, text

    def add(self, machine: str = "n4", operation: str = "op1", machine_type: str = "type1") -> None:
        """What `queue add` asks for."""
        about = {"operation": operation, "machine_type": machine_type, "address": machine}
        self.post("/1/queue", **about)

    def delete(self, **which: str) -> None:
        self.post("/1/queue/delete", **which)

    @property
    def entries(self) -> list[Json]:
        return list(self.get("/1/queue")["entries"])

    @property
    def entry(self) -> Json:
        """The newest."""
        return self.entries[-1]

    @property
    def stands(self) -> tuple[str, int, str]:
        """The newest entry's status, step and what that is at."""
        one = self.entry
        return one["status"], one["step"], one["step_status"]

    @property
    def held(self) -> list[Reason]:
        """What the newest round holds, with the reasons among their details."""
        assert self.live.maintd.latest is not None
        return [one for held in self.live.maintd.latest.decision.held for one in whole(held.why)]

    @property
    def whys(self) -> list[tuple[AnyKind, str]]:
        """What the newest round holds, by kind and subject."""
        assert self.live.maintd.latest is not None
        return kinds(self.live.maintd.latest.decision.held)

    def samples(self, *words: str) -> dict[str, float]:
        """The metrics whose names have all the words."""
        _, text = self.ask("GET", "/metrics")
        lines = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
        named = ((name, value) for name, _, value in lines if all(w in name for w in words))
        return {name: float(value) for name, value in named}

    # What happens.

    def tick(self, seconds: float = 10.0, times: int = 1) -> None:
        self.live.tick(seconds, times)

    def pass_by(self, seconds: float) -> None:
        """Time without a round."""
        self.rig.time += seconds
        self.live.seconds += seconds

    def until(self, *stands: object, times: int = 40) -> Json:
        """Hold rounds until the newest entry stands so: its status, step, what that is at."""
        for _ in range(times):
            if self.stands[: len(stands)] == stands:
                return self.entry
            self.tick()
        raise AssertionError(f"never {stands}: {self.entry}, {self.held}")

    @property
    def ran(self) -> list[str]:
        """The commands that were run, but for the checks."""
        return [command for command, _ in self.agents.entries]

    @property
    def jobs(self) -> list[str]:
        """What Ganeti was asked to do, but for the tag that tells of a repair queue."""
        new = list(self.rig.cluster.jobs.values())[self._jobs :]
        return [type(job.action).__name__ for job in new if job.action != TRACE]

    def node(self, name: str = "n4") -> Node:
        return self.rig.cluster.nodes[name]

    def drained(self, name: str = "n4") -> Node:
        """As somebody else has drained it."""
        return replace(self.node(name), drained=True)

    def say(self, name: str, diagnosis: Diagnosis | None) -> None:
        """What a node's own agent reports; None: it is silent."""
        self.agents.says[name] = diagnosis

    def run_there(self, instance: Instance) -> None:
        self.rig.cluster.put(instance)

    def start_anew(self) -> None:
        """Nothing is in the queue, no node is sick, and everything is where it was."""
        cluster = self.rig.cluster
        cluster.takes, cluster.fails, cluster.down = lambda _: 1.0, lambda _: False, False
        self.agents.start_anew()
        self.read(toml())
        self.tick(DAY)
        for queue in ("/1/queue", "/1/queue/sources"):
            if not self.get(queue)["enabled"]:
                self.post(f"{queue}/enable")
        over = {entry["status"] in ("succeeded", "failed") for entry in self.entries}
        for finished in over:
            self.delete(which="finished" if finished else "unfinished")
        for _ in range(10):
            for name in set(cluster.instances) - {one.name for one in self._instances}:
                cluster.remove_instance(name)
            for node in self._nodes:
                cluster.put(node)
            for instance in self._instances:
                cluster.put(instance)
            if not (self.entries or self.get("/1/status") or self.get("/1/jobs")):
                break
            self.tick(DAY)
        self.tick()
        left = self.entries, self.get("/1/status"), self.get("/1/held")
        assert left == ([], [], []), left
        self.agents.start_anew()
        self._jobs = len(cluster.jobs)

    def close(self) -> None:
        self.live.close()
        self.rig.store.close()


def drains(cke: Cke, seconds: float = 10_000.0, **how: int) -> None:
    """n4 is being drained, which takes so long."""
    cke.rig.cluster.takes = lambda _: seconds
    cke.configure(DRAIN, **how)
    cke.add()
    cke.until(*DRAINING)
    assert cke.jobs[0] == "Drain"


@contextmanager
def opened(nodes: int = 6, asks: InventorySettings = NOBODY) -> Iterator[Cke]:
    with safe_folder() as folder:
        found = Cke(folder, nodes, asks)
        yield found
        found.close()
