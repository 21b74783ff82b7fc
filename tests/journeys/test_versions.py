"""Agents of this version and of earlier ones under maintd of this one and of earlier ones.

Real runners and fronts, signatures, TLS, poll, orders, receipts and the nodes' vote, as in the
demo: only the cluster is simulated. What an earlier version does is done by its own sources.
"""

import asyncio
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nodeagent import __version__
from nodeagent.cli.maint.console.client import Reach, Unreachable
from nodeagent.maintd.engine.round import Engine
from nodeagent.model.incident import Status
from nodeagent.protocol.look import Distrusted, Seen
from nodeagent.web.caller import at_socket
from simulation.demo import BROKEN_BOARD, LOOSE_DISK, WELL, Demo
from simulation.demo_nodes import NODES, trusted_folder
from tests.before import KEYED, before, run_before
from tests.journeys.agents import AGENT, TOP, Agents

pytestmark = pytest.mark.timeout(600)
PATIENCE = 90  # seconds for one step, beside other work
NAMES = [node.name for node in NODES]
SICK, LOOSE, LOOSE_TOO, BACK = NAMES[2], NAMES[4], NAMES[5], NAMES[1]
BASES = pytest.mark.parametrize("which", [(), (KEYED,)], ids=["0.1.0", "keyed"])

# An earlier maintd, which is told all that its own demo tells; its agents are of this version.
EARLIER = """
import asyncio, json, subprocess, sys
try:
    from simulation import demo, demo_nodes
except ImportError:
    from nodeagent.cli import demo, demo_nodes
agent, top = sys.argv[1:]

class Nodes(demo_nodes.Nodes):
    def start(self):
        self.halves = [
            subprocess.Popen([sys.executable, "-c", agent, half, str(self.folder / node.name)],
                             cwd=top)
            for node in demo_nodes.NODES for half in ("runner", "front")
        ]
    def stop(self):
        for half in self.halves:
            half.terminate()
        for half in self.halves:
            half.wait(30)

with demo_nodes.trusted_folder() as folder:
    nodes = Nodes(folder)
    story = demo.Demo(nodes)
    try:
        nodes.start()
        well = asyncio.run(story.run(keep=False))
    finally:
        nodes.stop()
    if not well:
        for log in sorted(folder.glob("*/*.log")):
            print(log, log.read_text()[-600:], file=sys.stderr)
    tags = [sorted(node.tags) for node in story.cluster.snapshot().nodes.values()]
    done = [json.loads(file.read_text())["progress"] for file in folder.glob("*/state/receipts/*")]
    software = {look.report.software for look in story.looks.values()}
print(json.dumps([well, tags, done, sorted(software)]))
"""


@BASES
def test_an_earlier_maintd_with_agents_of_this_version(which: tuple[str, ...]) -> None:
    """They report, obey and testify; its whole story comes to its end, which wants a won vote."""
    well, tags, done, software = run_before(EARLIER, AGENT, str(TOP), which=which)
    assert well
    assert done == ["done"], "the live repair's receipt"
    assert software == [__version__]
    pinned = [len([tag for tag in each if tag.startswith("nodeagent:key:")]) for each in tags]
    assert pinned == [len(which)] * 6


class Upgraded(Demo):
    """This version's maintd with earlier agents, which are upgraded while it acts, and go back."""

    def __init__(self, nodes: Agents, earlier: Path, *, keyed: bool) -> None:
        super().__init__(nodes)
        self.agents, self.earlier, self.keyed = nodes, earlier, keyed

    async def wait(self, what: str, condition: Callable[[], object]) -> None:
        self.began = time.monotonic()
        while not condition():
            assert time.monotonic() - self.began < PATIENCE, (what, self.looks)
            await asyncio.sleep(0.1)

    async def states(self) -> dict[str, str]:
        """How `gnt-maint agents` calls each node's key; of none before maintd's first round."""
        reach = Reach(at_socket(self._socket), local=True)
        try:
            found: list[dict[str, Any]] = await asyncio.to_thread(reach.get, "/1/agents")
        except Unreachable:
            return {}
        return {one["name"]: one["state"] for one in found}

    async def all_are(self, state: str, names: Iterable[str] = NAMES) -> None:
        deadline = time.monotonic() + PATIENCE
        while {(found := await self.states()).get(name) for name in names} != {state}:
            assert time.monotonic() < deadline, found
            await asyncio.sleep(0.2)

    def trusted(self) -> bool:
        return all(isinstance(self.looks.get(name), Seen) for name in NAMES)

    async def install(self, name: str, top: Path) -> None:
        """Another version on a node; until what it says has come."""
        old = self.looks[name]
        await asyncio.to_thread(self.agents.install, name, top)

        def answered() -> bool:
            new = self.looks[name]
            if isinstance(new, Seen) and isinstance(old, Seen):
                return new.report.epoch != old.report.epoch
            return type(new) is not type(old) and isinstance(new, Seen | Distrusted)

        await self.wait(f"a report of {name}", answered)

    async def repaired(self, name: str) -> None:
        """An order is sent, obeyed, and its receipt believed."""
        self._break(name, LOOSE_DISK)
        await self.wait("a repair", lambda: self._status(name) is Status.COMPLETED)

    async def _story(self, engine: Engine) -> bool:
        await self.wait("reports", lambda: len(self.healthy()) == len(NODES))
        await self.all_are("pinned" if self.keyed else "none")
        await self.repaired(LOOSE)
        self._break(SICK, BROKEN_BOARD)
        await self.wait("an evacuation", lambda: self._status(SICK) is Status.COMPLETED)
        self.agents.set_hardware(SICK, WELL)
        assert await self._gnt_maint("done", SICK)
        await self.wait("its return", lambda: self._in_service(SICK) and SICK in self.looks)
        kept = {name: self.agents.kept(name) for name in NAMES}
        assert len(kept[LOOSE]) == 1 + self.keyed

        for name in NAMES:  # some of one version, some of the other
            await self.install(name, TOP)
            await self.wait("trust", self.trusted)
        await self.all_are("pinned")
        for name in NAMES:
            assert self.agents.kept(name).items() >= kept[name].items()
        self.polling = replace(self.polling, require_node_keys=True)
        await self.repaired(LOOSE_TOO)
        assert self.trusted()
        self.polling = replace(self.polling, require_node_keys=False)

        pinned = self.agents.kept(BACK)
        await self.install(BACK, self.earlier)
        assert self.agents.kept(BACK) == pinned
        if self.keyed:
            assert self.trusted()
        else:
            await self.mismatched()
        await self.install(BACK, TOP)
        await self.wait("trust", self.trusted)
        await self.all_are("pinned")
        assert self.agents.kept(BACK) == pinned
        return True

    async def mismatched(self) -> None:
        """An agent without a key, on a pinned node: why, and nothing is done for it."""
        look = self.looks[BACK]
        assert isinstance(look, Distrusted)
        assert "it is not signed" in look.why
        await self.all_are("mismatch", [BACK])
        self.agents.set_hardware(BACK, BROKEN_BOARD)
        await asyncio.sleep(4)  # ten rounds
        assert self._status(BACK) is None
        self.agents.set_hardware(BACK, WELL)


@BASES
def test_maintd_of_this_version_while_agents_are_upgraded_and_go_back(
    which: tuple[str, ...],
) -> None:
    earlier = before(*which)
    with trusted_folder() as folder:
        agents = Agents(folder, earlier)
        demo = Upgraded(agents, earlier, keyed=bool(which))
        try:
            agents.start()
            assert asyncio.run(demo.run(keep=False))
        except BaseException:
            for log in sorted(folder.glob("*/*.log")):
                print(log, log.read_text()[-600:])
            raise
        finally:
            agents.stop()
