"""A folder of stand-in fence agents and a power.toml beside them, and our program run on both.

Each agent is one script, called by several names. It keeps the power of a machine in a file, and
its option `how` names a way to be wrong.
"""

import json
import socket
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from nodeagent.cli import oob
from nodeagent.power.alive import PATIENCE
from nodeagent.power.control import Control
from nodeagent.power.controls import Controls
from nodeagent.power.proven import Proven
from nodeagent.power.settings import load
from tests import forked

AGENT = """#!/usr/bin/python3 -IS
import os, sys, time
NAMES = "action ip plug how file password systems_uri snmp_version lanplus cipher".split()
ACTIONS = "on off reboot status monitor metadata".split()
if sys.argv[1:] == ["-o", "metadata"]:
    if os.path.basename(sys.argv[0]) == "fence_fabric":
        ACTIONS.remove("reboot")
    print("<resource-agent>")
    for name in NAMES:
        print(f'<parameter name="{name}" unique="0" required="0">')
    for name in ACTIONS:
        print(f'<action name="{name}" />')
    sys.exit(0)
asked = sys.stdin.read()
options = dict(line.split("=", 1) for line in asked.splitlines())
action, how, file = options.get("action", "reboot"), options.get("how", ""), options["file"]
assert asked.startswith("action=")
with open(file + ".log", "a") as log:
    log.write(f"{action} {' '.join(sys.argv[1:])}\\n")
ways = how.split("+")
if "hang" in ways: time.sleep(600)
if "rubbish" in ways: print("Status: MAYBE"); sys.exit(0)
if "two" in ways: sys.exit(2)
if "huge" in ways: print("x" * 10_000_000); sys.exit(0)
if "angry" in ways: sys.exit("\\x1b[31mdenied for " + options["password"] + " " + "y" * 10_000)
if "grumpy" in ways: print("denied for " + options["password"]); sys.exit(1)
if "ignored" in ways:
    print("WARNING:root:Parse error: Ignoring unknown option 'x'", file=sys.stderr)
if "grandchild" in ways:
    if (pid := os.fork()) == 0:
        os.setsid()
        time.sleep(600)
    open(file + ".pid", "w").write(str(pid))
if action in ("on", "off"):
    was = open(file).read()
    if was == action: print(f"Success: Already {action.upper()}"); sys.exit(0)
    if "refuses" in ways: sys.exit("Failed: 409 conflict")
    if "lies" not in ways: open(file, "w").write(action)
    if "complains" in ways: sys.exit("Failed: timed out waiting to power OFF")
    print(f"Success: Powered {action.upper()}")
elif action == "status":
    state = open(file).read()
    if "says-off" in ways: state = "off"
    if "says-on" in ways: state = "on"
    if "flaps" in ways: open(file, "w").write("on" if state == "off" else "off")
    print(f"Status: {state.upper()}")
    sys.exit(2 if state == "off" else 0)
else:
    sys.exit(f"reboot was never asked for: {action}")
"""
NODE = "node2.example.org"
OTHER = "node7.example.org"
NAMES = ("fence_ipmilan", "fence_redfish", "fence_apc_snmp", "fence_wti", "fence_fabric")


class Hasty(Controls):
    """Reads a level for the second time at once: these machines do not change by themselves."""

    def control(self, *args: Any, **kwargs: Any) -> Control:
        return replace(super().control(*args, **kwargs), pause=0.05)


class Fences:
    """A machine that each agent switches, or a file for each outlet."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config = folder / "power.toml"
        self.state = folder / "state"
        self.agents = folder / "agents"
        self.nodes = folder / "ssconf_node_list"
        self.agents.mkdir(mode=0o755)
        for name in NAMES:
            self.agents.joinpath(name).write_text(AGENT)
            self.agents.joinpath(name).chmod(0o755)
        self.nodes.write_text(f"{NODE}\n")
        folder.joinpath("ssconf_node_primary_ips").write_text(
            f"{NODE} 127.0.0.1\n{OTHER} 127.0.0.1\n"
        )
        self.noded = "answers"
        self._noded = socket.create_server(("127.0.0.1", 0))
        self._port = self._noded.getsockname()[1]
        threading.Thread(target=self._answer, daemon=True).start()

    def close(self) -> None:
        """Let nothing listen at noded's port any more."""
        if self._noded.fileno() >= 0:
            self._noded.shutdown(socket.SHUT_RDWR)
            self._noded.close()

    def _answer(self) -> None:
        """Stand for noded, which `answers`, `takes` connections only, or `ends` them."""
        held = []
        while True:
            try:
                one, _ = self._noded.accept()
            except OSError:
                return
            if self.noded == "takes":
                held.append(one)
                continue
            with one:
                if self.noded == "answers" and one.recv(3)[:2] == b"\x16\x03":
                    one.sendall(b"\x15")

    def write(self, text: str, mode: int = 0o600) -> None:
        self.config.write_text(text)
        self.config.chmod(mode)

    def secret(self, text: str = "s3cret-of-bmc", mode: int = 0o600) -> Path:
        path = self.folder / "password"
        path.write_text(f"{text}\n")
        path.chmod(mode)
        return path

    def levels(self, *levels: Mapping[str, str], limit: str = "8s") -> None:
        """Set levels of NODE: each a table of a device's file and the way it is wrong.

        Files that begin with `outlet` belong to fence_wti, the others to fence_ipmilan.
        """
        text, names = f'[power]\ntime-limit = "{limit}"\n', []
        for number, level in enumerate(levels, 1):
            here = []
            for file, how in level.items():
                name = f"d{number}-{file}"
                here.append(name)
                agent = "fence_wti" if file.startswith("outlet") else "fence_ipmilan"
                path = self.folder / file
                if not path.exists():
                    path.write_text("on")
                text += (
                    f'[device.{name}]\nagent = "{agent}"\n'
                    f'options = {{ file = "{path}", how = "{how}" }}\n'
                    f'password-file = "{self.secret()}"\n'
                )
            names.append(here)
        self.write(text + f'[nodes."node*.example.org"]\nlevels = {json.dumps(names)}\n')

    def prove(self, *numbers: int, days: float = 0.0) -> None:
        """Let levels have said ON, so many days ago."""
        levels = load(str(self.config), owner=None).levels(NODE)
        chosen = [level for level in levels if not numbers or level.number in numbers]
        assert not Proven(str(self.state)).note(NODE, levels, chosen)
        if days:
            file = self.state / f"{NODE}.json"
            marks = json.loads(file.read_text())
            file.write_text(json.dumps({m: time.time() - days * 86400 for m in marks}))

    def controls(self, ganeti: Path | None = None) -> Controls:
        """The power control by these files, and by another folder of Ganeti's if one is given."""
        folders = str(self.agents), str(self.state)
        return Hasty(str(self.config), *folders, str(ganeti or self.folder))

    def run(self, *words: str, seconds: float = 60.0) -> forked.Done:
        patience = 0.2 if self.noded == "takes" else PATIENCE  # no answer comes
        places = oob.Places(self.controls(), self._port, patience)
        main = partial(oob.main, places)
        given = ["-c", str(self.config), *words]
        return forked.run(main, "nodeagent-oob", given, seconds=seconds)

    def told(self, node: str = NODE) -> dict[str, Any]:
        done = self.run("power-status", node)
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def power(self, file: str = "machine") -> str:
        return (self.folder / file).read_text()

    def asked(self, file: str = "machine") -> list[str]:
        """Return the actions that were asked of a device, in order."""
        log = self.folder / f"{file}.log"
        return log.read_text().split() if log.exists() else []
