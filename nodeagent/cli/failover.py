"""The two things that a succession does to the world: power the master off, and Ganeti's failover.

Both are programs that exist already: the levels of power.toml, and `gnt-cluster master-failover`.
"""

import os
import signal
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass, field

from nodeagent.errors import ConfigError, NodeAgentError, plain
from nodeagent.maintd.fencing.judgement import SETTLES
from nodeagent.model.evidence import Level, PowerReading
from nodeagent.model.snapshot import Node
from nodeagent.model.units import Ms
from nodeagent.power.control import Status
from nodeagent.power.controls import Controls

GNT_CLUSTER = "/usr/sbin/gnt-cluster"
LOG = "master-failover.log"
_SECONDS = 600.0
_ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C", "HOME": "/root"}
_WHY = 300


@dataclass(frozen=True, slots=True)
class Switch:
    """Power control of the master, by the levels of this node's power.toml that count.

    It records nothing: a level that says ON for a node that is silent is no proof of its own.
    """

    controls: Controls = field(default_factory=Controls)
    settles: float = SETTLES / 1000 + 1

    def why_none(self, name: str) -> tuple[str, tuple[str, ...]]:
        """Say why no level counts for a node, empty if one does; and each level's state."""
        try:
            control = self.controls.of(name)
        except NodeAgentError as error:
            return plain(str(error), _WHY), ()
        whys = {level.label: control.why_not(level) for level in control.levels}
        lines = tuple(f"{label}: {why or 'it counts'}" for label, why in whys.items())
        if "" in whys.values():
            return "", lines
        return plain("; ".join(lines), _WHY) or "power.toml has no level for it", lines

    def read(self, node: Node) -> tuple[PowerReading, tuple[str, ...]]:
        """Read the power of a node now."""
        try:
            status = self.controls.of(node.name).status()
        except ConfigError as error:
            return _unknown(node, str(error)), ()
        return _reading(node, status), _lines(status)

    def off(self, node: Node) -> tuple[PowerReading, tuple[str, ...]]:
        """Switch a node off, and read its power again; only a proven OFF is one."""
        try:
            outcome = self.controls.of(node.name).off()
        except ConfigError as error:
            return _unknown(node, str(error)), ()
        if outcome.level is None:
            return _unknown(node, "; ".join(outcome.lines)), outcome.lines
        reading, lines = self.read(node)
        if reading.powered:
            return _unknown(node, f"it says on again after {outcome.level.label}"), lines
        return reading, lines


def _reading(node: Node, status: Status) -> PowerReading:
    levels = tuple(
        Level(row.level.number, row.level.agents, row.answer.state, row.counts, row.why_not)
        for row in status.rows
    )
    number = status.by.number if status.by is not None else 0
    why = "" if status.powered is not None else plain("; ".join(status.lines), _WHY)
    return PowerReading(node.uuid, _now(), status.powered, number, levels, why=why)


def _unknown(node: Node, why: str) -> PowerReading:
    return PowerReading(node.uuid, _now(), None, why=plain(why, _WHY))


def _lines(status: Status) -> tuple[str, ...]:
    return tuple(
        f"{row.level.label}: says {row.answer.state}{f' ({row.why_not})' if row.why_not else ''}"
        for row in status.rows
    )


def _now() -> Ms:
    return Ms(time.time_ns() // 1_000_000)


@dataclass(frozen=True, slots=True)
class Failover:
    """Ganeti's own command, never with --no-voting: Ganeti has its nodes vote on the old master."""

    command: tuple[str, ...] = (GNT_CLUSTER, "master-failover")
    seconds: float = _SECONDS

    def run(self, folder: str, lock: int) -> str:
        """Run it to its end or its limit; return its last words if it did not end well.

        It outlives this process, and then goes on holding the lock. Its words go to a file.
        """
        with open(os.path.join(folder, LOG), "wb") as said:
            try:
                process = subprocess.Popen(
                    self.command,
                    stdin=subprocess.DEVNULL,
                    stdout=said,
                    stderr=said,
                    env=_ENVIRONMENT,
                    cwd="/",
                    start_new_session=True,
                    pass_fds=(lock,),
                )
            except OSError as error:
                return f"{self.command[0]}: {error.strerror}"
            try:
                code = process.wait(self.seconds)
            except subprocess.TimeoutExpired:
                with suppress(OSError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                return f"it did not end within {self.seconds:g} s, and was killed"
        if code == 0:
            return ""
        with open(os.path.join(folder, LOG), encoding="utf-8", errors="replace") as file:
            words = " ".join(file.read(16 * 1024).split())
        return plain(f"exit code {code}: {words}", _WHY)
