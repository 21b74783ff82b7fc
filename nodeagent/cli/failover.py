"""The two things that a succession does to the world: power the master off, and Ganeti's failover.

Both are programs that exist already: the levels of power.toml, and `gnt-cluster master-failover`.
"""

import os
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from nodeagent.errors import ConfigError, NodeAgentError, plain
from nodeagent.maintd.fencing.judgement import SETTLES
from nodeagent.model.evidence import Level, PowerReading
from nodeagent.model.snapshot import Node
from nodeagent.model.units import Ms
from nodeagent.power.controls import Controls

GNT_CLUSTER = "/usr/sbin/gnt-cluster"
TIMEOUT = "/usr/bin/timeout"
LOG = "master-failover.log"
_SECONDS = 600.0
_TIMED_OUT = 124  # timeout(1)
_ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C", "HOME": "/root"}
_WHY = 300


@dataclass(frozen=True, slots=True)
class Switch:
    """Power control of the master, by the levels of this node's power.toml that count.

    It records nothing: a level that says ON for a node that is silent is no proof of its own.
    """

    controls: Controls = field(default_factory=Controls)
    settles: float = SETTLES / 1000 + 1

    def levels(self, name: str) -> Mapping[str, str]:
        """Say of each level of a node why it does not count, empty if it does; ask no device."""
        try:
            control = self.controls.of(name)
        except NodeAgentError as error:
            return {"power control": plain(str(error), _WHY)}
        return {level.label: control.why_not(level) for level in control.levels}

    def read(self, node: Node) -> PowerReading:
        """Read the power of a node now."""
        try:
            status = self.controls.of(node.name).status()
        except ConfigError as error:
            return _unknown(node, str(error))
        levels = tuple(
            Level(row.level.number, row.level.agents, row.answer.state, row.counts, row.why_not)
            for row in status.rows
        )
        number = status.by.number if status.by is not None else 0
        why = "" if status.powered is not None else plain("; ".join(status.lines), _WHY)
        return PowerReading(node.uuid, _now(), status.powered, number, levels, why=why)

    def off(self, node: Node) -> PowerReading:
        """Switch a node off, and read its power again; only a proven OFF is one."""
        try:
            outcome = self.controls.of(node.name).off()
        except ConfigError as error:
            return _unknown(node, str(error))
        if outcome.level is None:
            return _unknown(node, "; ".join(outcome.lines))
        reading = self.read(node)
        if reading.powered:
            return _unknown(node, f"it says on again after {outcome.level.label}")
        return reading


def _unknown(node: Node, why: str) -> PowerReading:
    return PowerReading(node.uuid, _now(), None, why=plain(why, _WHY))


def _now() -> Ms:
    return Ms(time.time_ns() // 1_000_000)


@dataclass(frozen=True, slots=True)
class Failover:
    """Ganeti's own command, never with --no-voting: Ganeti has its nodes vote on the old master."""

    command: tuple[str, ...] = (GNT_CLUSTER, "master-failover")
    seconds: float = _SECONDS

    def run(self, folder: str, lock: int) -> str:
        """Run it to its end or its limit; return its last words if it did not end well.

        It outlives this process with its limit, and then goes on holding the lock. Its words go to
        a file.
        """
        path = os.path.join(folder, LOG)
        with open(path, "wb") as said:
            code = subprocess.run(
                [TIMEOUT, "--kill-after=10", f"{self.seconds:g}", *self.command],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                env=_ENVIRONMENT,
                cwd="/",
                start_new_session=True,
                pass_fds=(lock,),
                check=False,
            ).returncode
        if code == 0:
            return ""
        with open(path, encoding="utf-8", errors="replace") as file:
            words = " ".join(file.read(16 * 1024).split())
        late = f"it did not end within {self.seconds:g} s: " if code == _TIMED_OUT else ""
        return plain(f"{late}exit code {code}: {words}", _WHY)
