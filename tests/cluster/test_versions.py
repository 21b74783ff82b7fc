"""What we rely on in Ganeti, asked of the one that is installed here: `GANETI=3.1` asks 3.1.

Of what differs between 3.0.2 and 3.1 nothing changes what we do:

| Difference in 3.1 | Why it changes nothing |
|---|---|
| parameters (`hotplug_if_possible`, `is_strict`) | it knows all of ours |
| defaults of checks of names and addresses, and of hotplugging | we rely on none of them |
| other options of gnt-* | it has each command that our texts name |
| a StandAlone mirror is faulty | its error names the command that helps |
| `mfree` is what is available, `mnode` the rest | we take it as its hbal does (`make oracle`) |
| OP_NETWORK_RENAME; warnings in the logs of jobs that succeed | `ganeti/test_decode.py` |
| the version has a tilde and letters | `tests/model/test_ganeti.py` |
| `config.data` has no `xen_cmd`, and 3.1's own version | `ganeti/test_configuration.py` |
| confd's and mond's versions | `tests/real/test_confd.py`, `test_mond.py`, `test_hbal.py` |
| Python 3.13, OpenSSL 3.5, systemd 257 | `test-fresh trixie`, `test-packages trixie` |
| hypervisor parameters, steps of verify and watcher, files' modes, ganeti-metad | we use none |

Power control (`OP_OOB_COMMAND`) is the same in both.
"""

import json
import re
import subprocess
from functools import cache
from pathlib import Path
from typing import Any, get_args

import pytest

from nodeagent.cli.succeed import COMMAND, LIMIT
from nodeagent.cluster.backend import Submission
from nodeagent.cluster.ganeti import jobqueue, opcodes
from nodeagent.cluster.ganeti.decode import Row
from nodeagent.model.action import (
    Action,
    Drain,
    Guarded,
    MovePrimary,
    MoveSecondary,
    Power,
    PowerCommand,
    Reinstall,
    Restore,
    Retag,
    RunCommand,
    Scope,
    SetOffline,
)
from nodeagent.model.units import Nanoseconds
from tests import needs

pytestmark = pytest.mark.story

TOP = Path(__file__).parents[2]
SWAP = Retag(Scope.INSTANCE, "i", ("a",), ("b",))
ORDERED: list[Action] = [
    Drain("n", promote=True),
    SetOffline("n", promote=True),
    SetOffline("n", promote=True, unpowered=True),
    *(Power("n.example.org", command) for command in PowerCommand),
    Restore("n"),
    Restore("n", drained=True),
    MovePrimary("i", "n", live=True, target="m"),
    MovePrimary("i", "n", live=False, target="m", unchecked=True),
    MoveSecondary("i", "n", "m"),
    Reinstall("i", "n", "m", "o"),
    Reinstall("i", "n", "m", running=False),
    Retag(Scope.CLUSTER, "", ("a",), ("b",)),
    Guarded(SWAP, MovePrimary("i", "n", live=False)),
]
# What Ganeti takes a parameter for that we leave out. 3.1 has other defaults for checks of names
# and addresses, for hotplugging and for `is_strict`: in opcodes that we do not submit.
RELIED_ON: dict[str, dict[str, Any]] = {
    "OP_NODE_SET_PARAMS": {"force": False, "powered": None, "vm_capable": None},
    "OP_OOB_COMMAND": {"power_delay": 2.0},
    "OP_INSTANCE_MIGRATE": {
        "mode": None,
        "live": None,
        "cleanup": False,
        "iallocator": None,
        "allow_runtime_changes": True,
        "ignore_ipolicy": False,
    },
    "OP_INSTANCE_FAILOVER": {
        "cleanup": False,
        "iallocator": None,
        "ignore_ipolicy": False,
        "shutdown_timeout": 120,
    },
    "OP_INSTANCE_REPLACE_DISKS": {"early_release": False, "ignore_ipolicy": False},
    "OP_INSTANCE_RECREATE_DISKS": {"iallocator": None},
    "OP_INSTANCE_STARTUP": {"force": False, "startup_paused": False},
    "OP_INSTANCE_SHUTDOWN": {"force": False, "no_remember": False, "timeout": 120},
    "OP_INSTANCE_REINSTALL": {"force_variant": False, "os_type": None},
    "OP_TAGS_SET": {},
    "OP_TAGS_DEL": {},
    "OP_TEST_DELAY": {
        "interruptible": False,
        "no_locks": True,
        "on_node_uuids": None,
        "repeat": 0,
    },
}
ASK = """
import json, sys
sys.path.insert(0, sys.argv[1])
from ganeti import opcodes
asked = json.load(sys.stdin)
faults = []
for op in asked["ops"]:
    try:
        opcodes.OpCode.LoadOpCode(op).Validate(True)
    except Exception as error:
        faults.append([op["OP_ID"], str(error)])
defaults = {
    name: {one[0]: one[1] for one in opcodes.OP_MAPPING[name].GetAllParams() if one[0] in asked_of}
    for name, asked_of in asked["relied-on"].items()
}
print(json.dumps([faults, defaults]))
"""


def ops(action: Action) -> list[opcodes.Opcode]:
    found = opcodes.job(Submission(action, "maintd:1"), Nanoseconds(1))
    assert isinstance(found, list)
    return found


def ask_ganeti(code: str, asked: object = None) -> Any:
    """What the installed Ganeti's own code prints, as JSON."""
    needs.require("ganeti")
    command = [needs.GANETI_PYTHON, "-c", code, str(needs.GANETI)]
    done = subprocess.run(
        command, input=json.dumps(asked), capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@cache
def told() -> tuple[list[Any], dict[str, Any]]:
    """What the installed Ganeti finds wrong in our opcodes, and what it takes for granted."""
    asked = {"ops": [op for one in ORDERED for op in ops(one)], "relied-on": RELIED_ON}
    faults, defaults = ask_ganeti(ASK, asked)
    return faults, defaults


def test_ganeti_knows_every_parameter_that_we_give() -> None:
    """3.1 refuses `hotplug_if_possible`, 3.0 `is_strict`, and each the whole job with it."""
    assert told()[0] == []


def test_ganeti_takes_for_granted_what_we_rely_on() -> None:
    assert told()[1] == RELIED_ON


def test_we_rely_on_defaults_of_all_that_we_order() -> None:
    assert {type(one) for one in ORDERED} == {*get_args(Action)} - {RunCommand}, "agents run those"
    assert {op["OP_ID"] for one in ORDERED for op in ops(one)} == set(RELIED_ON)


@cache
def command_lines() -> dict[str, dict[str, tuple[list[Any], dict[str, Any]]]]:
    """Of each tool that we name, such as gnt-node: its commands, their arguments and options.

    Options have their defaults. One process tells all: each would load Ganeti again.
    """
    code = """
import importlib, json, sys
sys.path.insert(0, sys.argv[1])
def told(tool):
    module = importlib.import_module("ganeti.client." + tool.replace("-", "_"))
    aliases = getattr(module, "aliases", {})
    commands = {**module.commands, **{a: module.commands[b] for a, b in aliases.items()}}
    return {
        name: [one[1], {option.get_opt_string(): option.default for option in one[2]}]
        for name, one in commands.items()
    }
print(json.dumps({tool: told(tool) for tool in json.load(sys.stdin)}, default=str))
"""
    return dict(ask_ganeti(code, sorted({tool for tool, _ in named()})))


def named() -> dict[tuple[str, str], set[str]]:
    """The commands of gnt-* that our texts name for people, with the options that follow."""
    places = ("nodeagent/**/*.py", "docs/**/*.md", "docs/man/*", "*.md", "packaging/alerts/*")
    files = [path for place in places for path in TOP.glob(place) if path.name != "CHANGELOG.md"]
    form = re.compile(r"\b(gnt-(?!maint)[a-z]+) ([a-z][a-z-]+)([^`\"',;()\n]*)")
    found: dict[tuple[str, str], set[str]] = {}
    for path in files:
        for tool, command, rest in form.findall(path.read_text().replace("\\-", "-")):
            found.setdefault((tool, command), set()).update(re.findall(r"--[a-z-]+", rest))
    return found


def test_ganeti_has_each_command_that_we_name_with_its_options() -> None:
    """A person copies them from a refusal, an alert or a page: they work in both releases."""
    asked = named()
    assert len(asked) > 30
    assert {
        (tool, command)
        for (tool, command), options in asked.items()
        if not options - {"--"} <= set(command_lines()[tool].get(command, ([], {}))[1])
        or command not in command_lines()[tool]
    } == set()


def test_a_standby_s_command_is_there() -> None:
    """nodeagent-succeed runs it without an argument, and so with the vote of Ganeti's nodes."""
    *limit, program, command = COMMAND
    assert (tuple(limit), program) == (LIMIT, "/usr/sbin/gnt-cluster")
    arguments, options = command_lines()["gnt-cluster"][command]
    assert arguments == []
    assert (options["--no-voting"], options["--ignore-offline-nodes"]) == (False, True)


def job(status: str, said: object) -> Row:
    at = {name: place for place, name in enumerate(jobqueue.RESULT)}
    cells: tuple[object, ...] = (7, status, False, [status], [said], [[1, 1]], [])
    return Row("job", at, [[0, cell] for cell in cells])


def test_a_disconnected_mirror_is_told_with_the_command_that_helps() -> None:
    """A StandAlone DRBD device counts as faulty in 3.1, and replacing the disks fails then."""
    needs.require("ganeti")
    source = "".join(
        file.read_text() for file in sorted((needs.GANETI / "ganeti/cmdlib").glob("*.py"))
    )
    form = re.search(r'"(Node %s has degraded storage, unsafe to)', source)
    assert form, "Ganeti says it in other words now"
    said = ["OpExecError", [f"{form[1] % 'node2'} replace disks for instance web1"]]
    why = jobqueue.result(job("error", said)).why
    assert "gnt-instance activate-disks web1" in why
