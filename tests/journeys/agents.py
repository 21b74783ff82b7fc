"""The demo's nodes, with agents of whichever version is installed on each."""

import subprocess
import sys
from pathlib import Path

from simulation.demo_nodes import NODES, Nodes

TOP = Path(__file__).parents[2]
# One half, as the demo itself starts it: all versions have these names.
AGENT = """
import functools, os, sys
from nodeagent.agent.daemon import run_front, run_runner
from nodeagent.agent.whitelist import Owner
from nodeagent.settings import load
half, home = sys.argv[1:]
os.dup2(os.open(f"{home}/{half}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), 2)
read = functools.partial(load, f"{home}/agent.toml", owner=os.getuid())
run_runner(read, Owner(os.getuid(), os.getgid())) if half == "runner" else run_front(read)
"""


class Agents(Nodes):
    """Six nodes with agents of the version in the folder `first`, until another is installed."""

    def __init__(self, folder: Path, first: Path) -> None:
        super().__init__(folder)
        self._first = first
        self._halves: dict[str, list[subprocess.Popen[bytes]]] = {}

    def start(self) -> None:
        for node in NODES:
            self.install(node.name, self._first)

    def install(self, name: str, top: Path) -> None:
        """Have this version on the node, with what the version before it has left there."""
        self._end(name)
        home = self.folder / name
        settings = home / "agent.toml"
        known = (top / "packaging/agent.toml").read_text()
        lines = settings.read_text().splitlines(keepends=True)
        settings.write_text(  # as docs/operating.md has it: what an older one does not know goes
            "".join(line for line in lines if line.split(" ")[0] in known or " = " not in line)
        )
        command = [sys.executable, "-c", AGENT]
        self._halves[name] = [
            subprocess.Popen([*command, half, str(home)], cwd=top) for half in ("runner", "front")
        ]

    def kept(self, name: str) -> dict[str, bytes]:
        """The node's key and its receipts, by the names of their files."""
        state = self.folder / name / "state"
        files = [state / "node.key", *state.glob("receipts/*.json")]
        return {file.name: file.read_bytes() for file in files if file.exists()}

    def _end(self, name: str) -> None:
        halves = self._halves.pop(name, [])
        for half in halves:
            half.terminate()
        for half in halves:
            half.wait(30)

    def stop(self) -> None:
        for name in list(self._halves):
            self._end(name)
