"""A maintd over a real socket: six nodes, and procedures that are TOML, read as at SIGHUP.

n1 to n3 are master candidates. Beside what is asked by HTTP there are only the world (the
cluster's jobs, the commands that ran) and the clock.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from nodeagent.cli.maintd_parts import reload_settings
from nodeagent.maintd.engine.settings import Settings
from nodeagent.model.reason import Reason
from tests.agent.place import safe_folder
from tests.cli.live import Live
from tests.cli.maint.samples import ask
from tests.maintd.decided import whole
from tests.maintd.queue.mender import Mender
from tests.maintd.rig import QUICK, TRACE, fleet, mirrored

Json = dict[str, Any]
Step = Mapping[str, object]

# With a log level that leaves what the tests have.
HEAD = """
[maintd]
log = "warning"
[policy]
stage = "full"
settle = "0s"
cooldown = "0s"
attempts = 1000
nodes-in-work = 10
group-in-work = 10
storm = 100
burst = 100000
"""
WATCHED: Step = {"repair_command": "try-1", "watch_seconds": 10_000}


def toml(
    *steps: Step, operations: tuple[str, ...] = ("op1",), success: str = "", more: str = ""
) -> str:
    """A maintd.toml: one step that is watched for long, unless said."""
    lines = [HEAD, "[queue]", more, "[[queue.repair_procedures]]", 'machine_types = ["type1"]']
    for name in operations:
        operation = {"operation": name, "health_check_command": "check"}
        operation |= {"success_command": success} if success else {}
        lines += ["[[queue.repair_procedures.repair_operations]]", *_keys(operation)]
        for step in steps or (WATCHED,):
            lines.append("[[queue.repair_procedures.repair_operations.repair_steps]]")
            lines += _keys(step)
    return "\n".join(lines) + "\n"


def _keys(values: Mapping[str, object]) -> list[str]:
    return [f"{key} = {json.dumps(value)}" for key, value in values.items()]


class Cke:
    """One maintd whose commands repair machines; its queue is configured by a file."""

    def __init__(self, folder: Path, nodes: int) -> None:
        there = [replace(node, candidate=node.name <= "n3") for node in fleet(nodes)]
        instances = mirrored(("n4", "n5")) if nodes > 4 else []
        self.rig = Mender(QUICK, instances=instances, nodes=there)
        self.agents = self.rig.agents
        self.file = folder / "maintd.toml"
        self.live = Live(self.rig, folder)
        self.configure()

    # What is asked.

    def get(self, path: str) -> Any:
        status, text = ask(self.live, "GET", path)
        assert status == 200, text
        return json.loads(text)

    def post(self, path: str, **body: str) -> None:
        status, text = ask(self.live, "POST", path, body)
        assert status == 200, text

    def why(self, path: str, **body: str) -> str:
        """Why it is refused."""
        status, text = ask(self.live, "POST", path, body)
        assert status in (400, 409), (status, text)
        return str(json.loads(text)["error"])

    def configure(self, *steps: Step, good: bool = True, **how: Any) -> None:
        """SIGHUP with this maintd.toml: one that is wrong changes nothing."""
        self.file.write_text(toml(*steps, **how))
        self.file.chmod(0o600)
        before = self.rig.engine.policy
        reload_settings(self.live.maintd, str(self.file), Settings())
        assert (self.rig.engine.policy is not before) == good

    def add(self, machine: str = "n4") -> None:
        """What `queue add` asks for."""
        about = {"operation": "op1", "machine_type": "type1", "address": machine}
        self.post("/1/queue", **about)

    @property
    def entries(self) -> list[Json]:
        return list(self.get("/1/queue")["entries"])

    @property
    def entry(self) -> Json:
        """The newest."""
        return self.entries[-1]

    @property
    def held(self) -> list[Reason]:
        """What the newest round holds, with the reasons among their details."""
        assert self.live.maintd.latest is not None
        return [one for held in self.live.maintd.latest.decision.held for one in whole(held.why)]

    def samples(self, words: str) -> dict[str, float]:
        """The metrics whose names have these words."""
        _, text = ask(self.live, "GET", "/metrics")
        lines = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
        return {name: float(value) for name, _, value in lines if words in name}

    # What happens.

    def tick(self, times: int = 1) -> None:
        self.live.tick(10.0, times)

    def until(self, status: str, step_status: str = "", times: int = 40) -> Json:
        """Hold rounds until the newest entry stands so."""
        for _ in range(times):
            one = self.entry
            if one["status"] == status and step_status in ("", one["step_status"]):
                return one
            self.tick()
        raise AssertionError(f"never {status}: {self.entry}, {self.held}")

    @property
    def jobs(self) -> list[str]:
        """What Ganeti was asked to do, but for the tag that tells of a repair queue."""
        jobs = self.rig.cluster.jobs.values()
        return [type(job.action).__name__ for job in jobs if job.action != TRACE]

    def close(self) -> None:
        self.live.close()
        self.rig.store.close()


@contextmanager
def opened(nodes: int = 6) -> Iterator[Cke]:
    with safe_folder() as folder:
        found = Cke(folder, nodes)
        yield found
        found.close()
