"""The machines behind a simulated cluster: power, networks and running instances. Pure.

Ganeti knows only its configuration. These show what really happens: which machine runs a copy of
which instance, so that an instance that runs twice can be seen.
"""

import json
from dataclasses import dataclass, field
from typing import Any

NORMAL, NO_DATA, UNAVAILABLE = 0, 2, 3  # Ganeti's words for the result of a power control


@dataclass
class Control:
    """One level of a node's power control, for example its BMC.

    A `dead` one never answers. With `says` it claims that state, whatever is true; with `ignores`
    it accepts commands and does nothing. `counts` tells that it has said ON before. `of` is another
    machine that it belongs to: its address is mistyped.
    """

    agent: str = "ipmilan"
    dead: bool = False
    says: str = ""
    ignores: bool = False
    counts: bool = True
    of: str = ""


@dataclass
class Machines:
    """Sets of node names, and the copies of instances, as (node, instance).

    `off` have no power. Programs on the `hung` ones do not answer, their kernels do, and their DRBD
    disks have lost their peers. The `mute` ones look alike, but for their disks, which stay
    connected: somebody floods them, or only their programs hang. The `cut` ones
    are not reached over the management network, the `apart` ones not by DRBD. The `unplugged` ones
    cannot be switched on. `controls` has the levels of a node's power control, first the one to ask
    first; a node without them has none.
    `commands` lists what the controls were told.
    """

    off: set[str] = field(default_factory=set)
    hung: set[str] = field(default_factory=set)
    mute: set[str] = field(default_factory=set)
    cut: set[str] = field(default_factory=set)
    apart: set[str] = field(default_factory=set)
    unplugged: set[str] = field(default_factory=set)
    controls: dict[str, tuple[Control, ...]] = field(default_factory=dict)
    copies: set[tuple[str, str]] = field(default_factory=set)
    commands: list[tuple[str, str]] = field(default_factory=list)
    boots: dict[str, int] = field(default_factory=dict)

    def answers(self, node: str) -> bool:
        """Tell whether its programs answer over the management network."""
        return node not in self.off | self.hung | self.mute | self.cut

    def connected(self, node: str) -> bool:
        """Tell whether DRBD on other nodes is connected to it: its kernel lives."""
        return node not in self.off | self.hung | self.apart

    def running_on(self, instance: str) -> set[str]:
        """Return the machines that run a copy of an instance."""
        return {node for node, name in self.copies if name == instance}

    def twice(self) -> list[str]:
        """Return the instances that run on two machines: their data are lost."""
        names = [name for _, name in self.copies]
        return sorted({name for name in names if names.count(name) > 1})

    def start(self, node: str, instance: str) -> None:
        if node not in self.off:
            self.copies.add((node, instance))

    def stop(self, node: str, instance: str) -> None:
        """Stop a copy; nobody can where no program answers."""
        if self.answers(node):
            self.copies.discard((node, instance))

    def switch_off(self, node: str) -> None:
        """Take its power: what ran there is gone."""
        self.off.add(node)
        self.hung.discard(node)
        self.mute.discard(node)
        self.copies = {(there, name) for there, name in self.copies if there != node}

    def switch_on(self, node: str) -> None:
        """Give it power: it boots and starts no instance by itself."""
        if node in self.unplugged:
            return
        if node in self.off:
            self.boots[node] = self.boots.get(node, 0) + 1
        self.off.discard(node)

    def command(self, node: str, command: str) -> tuple[int, Any]:
        """As Ganeti's program for power control: return its result, a status and a payload."""
        levels = self.controls.get(node)
        if levels is None:
            return UNAVAILABLE, None
        self.commands.append((node, command))
        if command == "power-status":
            return self._status(node, levels)
        for level in levels:
            if level.dead:
                continue
            if not level.ignores:
                if command in ("power-off", "power-cycle"):
                    self.switch_off(level.of or node)
                if command in ("power-on", "power-cycle"):
                    self.switch_on(level.of or node)
            wanted = "off" if command == "power-off" else "on"
            if self._said(node, level) == wanted:
                return NORMAL, None
        return NO_DATA, None

    def _said(self, node: str, level: Control) -> str:
        return level.says or ("off" if (level.of or node) in self.off else "on")

    def _status(self, node: str, levels: tuple[Control, ...]) -> tuple[int, Any]:
        rows: list[dict[str, Any]] = []
        for number, level in enumerate(levels, 1):
            said = "nothing" if level.dead else self._said(node, level)
            why = "it does not answer" if level.dead else ""
            row = {"level": number, "agents": [level.agent], "said": said, "counts": level.counts}
            rows.append({**row, "fingerprint": f"{level.agent} of {level.of or node}", "why": why})
        first = next((row for row in rows if row["said"] != "nothing" and row["counts"]), None)
        if first is None:
            return NO_DATA, None
        agent, powered = first["agents"][0], first["said"] == "on"
        return NORMAL, {"powered": powered, "level": first["level"], "agent": agent, "levels": rows}


def payload_text(payload: Any) -> str:
    """The payload as text, or "" without one."""
    return "" if payload is None else json.dumps(payload, sort_keys=True, separators=(",", ":"))
