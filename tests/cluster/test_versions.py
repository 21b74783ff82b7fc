"""Differences between Ganeti 3.0.2 and 3.1, one by one, and why none of them changes what we do.

Each asks the Ganeti that is installed here, and expects what its version says: so `make conformance
GANETI=3.1` asks 3.1. Those marked `real` ask a cluster.

| Difference in 3.1 | Its test |
|---|---|
| OP_INSTANCE_SET_PARAMS: no `hotplug_if_possible` | `refuses_a_parameter`: ours are known |
| both VERIFY_DISKS: `is_strict` | the same |
| defaults: `name_check`, `ip_check`, `hotplug` | `has_its_own_defaults`: we rely on none of them |
| OP_NETWORK_RENAME | `another_opcode_is_nobody_s_work` |
| a StandAlone mirror is faulty | `stands_alone`, and that its error names the command that helps |
| `mfree` is what is available, `mnode` the rest | `memory`: we take it as its hbal does |
| other options of gnt-* | `each_command_that_we_name`; `a_standby_s_command`: the one that we run |
| `config.data` has no `xen_cmd`, and 3.1's own version | `tests/real/test_succession_in_lab.py` |
| more warnings in the logs of jobs that succeed | `a_job_with_a_new_warning_succeeds` |
| the version has a tilde and letters | `tests/model/test_ganeti.py` |
| confd's and mond's versions | `tests/real/test_confd.py`, `test_mond.py`, `test_hbal.py` |
| hbal, hail, harep, hroller | `make oracle GANETI=3.1`: the same answers on the same inputs |
| the same fields of mond and LUXI, sets in another order | `make test-real GANETI=3.1` |
| Python 3.13, OpenSSL 3.5, systemd 257 | `test-fresh trixie`, `test-packages trixie` |

These do not concern us:

| Difference in 3.1 | because |
|---|---|
| the numbers of LUXI's version | luxid looks at none, and we send none |
| a name that does not resolve is created | we create and rename no instances |
| verify has one more step, the watcher skips one | we submit neither, and read neither's log |
| hypervisor parameters (`xen_cmd`, `disk_discard`, `vhost_net`) | we read none |
| a delay's time in the summary of its job | we read jobs' opcodes, and no summaries |
| `custom_osparams`, /2/networks/NAME/rename, `--ssl-chain` of ganeti-rapi | we ask for none of it |
| modes of `locks.data`, `tempres.data` | we read ssconf, two keys and `config.data` only |
| ganeti-metad, pid files | we start and stop none of Ganeti's daemons |

Power control (`OP_OOB_COMMAND`) is the same in both.
"""

import json
import re
import subprocess
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from typing import Any, get_args

import pytest

from nodeagent.cli.succeed import COMMAND, LIMIT
from nodeagent.cluster.backend import Submission
from nodeagent.cluster.ganeti import jobqueue, opcodes
from nodeagent.cluster.ganeti.backend import GanetiCluster
from nodeagent.cluster.ganeti.decode import Row
from nodeagent.cluster.ganeti.luxi import Luxi
from nodeagent.errors import Unavailable
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
from nodeagent.model.ledger import Outcome
from nodeagent.model.units import Nanoseconds
from tests import needs
from tests.placement.clusters import Case
from tests.placement.hbal import real
from tests.placement.layout.agreeing import agree
from tests.real.lab import create, remove, socket_path, wait

pytest_plugins = ["tests.real.lab"]
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


# Parameters that one of them has and the other refuses, with the whole job; and new defaults.
FOREIGN = {
    ("OP_INSTANCE_SET_PARAMS", "hotplug_if_possible"): (True, False),
    ("OP_CLUSTER_VERIFY_DISKS", "is_strict"): (False, True),
    ("OP_GROUP_VERIFY_DISKS", "is_strict"): (False, True),
}
DEFAULTS = {
    ("OP_INSTANCE_CREATE", "name_check"): (True, False),
    ("OP_INSTANCE_CREATE", "ip_check"): (True, False),
    ("OP_INSTANCE_RENAME", "name_check"): (True, False),
    ("OP_INSTANCE_RENAME", "ip_check"): (True, False),
    ("OP_INSTANCE_SET_PARAMS", "hotplug"): (False, True),
}
LACKING = {
    "OP_INSTANCE_SET_PARAMS": {"instance_name": "i"},
    "OP_CLUSTER_VERIFY_DISKS": {},
    "OP_GROUP_VERIFY_DISKS": {"group_name": "g"},
}
# A mirror that is up to date and alone, by Ganeti's reading of what the kernel tells.
ALONE = """
import json, sys
sys.path.insert(0, sys.argv[1])
from unittest import mock
from ganeti import constants
from ganeti.storage import drbd, drbd_info
line = " 0: cs:StandAlone ro:Primary/Unknown ds:UpToDate/DUnknown   r-----"
device = drbd.DRBD8Dev.__new__(drbd.DRBD8Dev)
device.minor, device.major, device.dev_path = 0, 147, "/dev/drbd0"
with mock.patch.object(device, "GetProcStatus", lambda: drbd_info.DRBD8Status(line)):
    seen = device.GetSyncStatus()
print(json.dumps([seen.is_degraded, constants.LDS_NAMES[seen.ldisk_status]]))
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
def newer() -> bool:
    """Whether it says that it is 3.1, or later, which is taken for 3.1."""
    code = "import sys; sys.path.insert(0, sys.argv[1]); from ganeti import constants as c; "
    said = ask_ganeti(code + "print([c.VERSION_MAJOR, c.VERSION_MINOR])")
    return tuple(said) >= (3, 1)


@cache
def told() -> tuple[list[Any], dict[str, Any]]:
    """What the installed Ganeti finds wrong in our opcodes, and what it takes for granted."""
    asked = {"ops": [op for one in ORDERED for op in ops(one)], "relied-on": RELIED_ON}
    faults, defaults = ask_ganeti(ASK, asked)
    return faults, defaults


@cache
def others() -> tuple[list[Any], dict[str, Any]]:
    """The same of the parameters that only one release has, and of defaults that differ."""
    plain = [(op, {"OP_ID": op, **LACKING[op]}, name) for op, name in FOREIGN]
    asked = [each for _, one, name in plain for each in (one, {**one, name: True})]
    names: dict[str, list[str]] = {}
    for op, name in DEFAULTS:
        names.setdefault(op, []).append(name)
    faults, defaults = ask_ganeti(ASK, {"ops": asked, "relied-on": names})
    return faults, defaults


def test_ganeti_knows_every_parameter_that_we_give() -> None:
    """3.1 refuses `hotplug_if_possible`, 3.0 `is_strict`, and each the whole job with it."""
    assert told()[0] == []


def test_ganeti_takes_for_granted_what_we_rely_on() -> None:
    assert told()[1] == RELIED_ON


def test_we_rely_on_defaults_of_all_that_we_order() -> None:
    assert {type(one) for one in ORDERED} == {*get_args(Action)} - {RunCommand}, "agents run those"
    assert {op["OP_ID"] for one in ORDERED for op in ops(one)} == set(RELIED_ON)


@pytest.mark.parametrize("parameter", FOREIGN, ids=" ".join)
def test_ganeti_refuses_a_parameter_of_the_other(parameter: tuple[str, str]) -> None:
    """So the test of our own parameters can fail."""
    op, name = parameter
    faults = [why for asked, why in others()[0] if asked == op]
    assert [name in why for why in faults] == [True] * (not FOREIGN[parameter][newer()])


@pytest.mark.parametrize("parameter", DEFAULTS, ids=" ".join)
def test_ganeti_has_its_own_defaults_for_what_we_leave_alone(parameter: tuple[str, str]) -> None:
    op, name = parameter
    assert others()[1][op][name] == DEFAULTS[parameter][newer()]
    assert op not in RELIED_ON


def test_another_opcode_is_nobody_s_work() -> None:
    """3.1 has OP_NETWORK_RENAME; of jobs that are not ours only instances and nodes count."""
    code = "import sys, json; sys.path.insert(0, sys.argv[1]); from ganeti import opcodes; "
    known = ask_ganeti(code + "print(json.dumps('OP_NETWORK_RENAME' in opcodes.OP_MAPPING))")
    assert known is newer()
    renames = {"OP_ID": "OP_NETWORK_RENAME", "network_name": "a", "new_name": "b", "reason": []}
    cells: tuple[object, ...] = (7, "success", False, ["success"], ["b"], [[1, 1]], [renames])
    at = {name: place for place, name in enumerate(jobqueue.TRAIL)}
    row = Row("job", at, [[0, cell] for cell in (*cells, [1, 1], [2, 1])])
    assert jobqueue.trail(row) is None
    assert (jobqueue.busy([row]), jobqueue.removals(row), jobqueue.roles(row)) == ({}, [], [])


@cache
def command_line(tool: str) -> dict[str, tuple[list[Any], dict[str, Any]]]:
    """Each command of a tool such as gnt-node: its arguments, and its options' defaults."""
    asked = (
        "import importlib, json, sys; sys.path.insert(0, sys.argv[1]);"
        " tool = importlib.import_module('ganeti.client.' + json.load(sys.stdin));"
        " other = getattr(tool, 'aliases', {});"
        " found = {**tool.commands, **{a: tool.commands[b] for a, b in other.items()}};"
        " print(json.dumps({name: [one[1], {o.get_opt_string(): o.default for o in one[2]}]"
        " for name, one in found.items()}, default=str))"
    )
    return dict(ask_ganeti(asked, tool.replace("-", "_")))


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
        if not options - {"--"} <= set(command_line(tool).get(command, ([], {}))[1])
        or command not in command_line(tool)
    } == set()


def test_a_standby_s_command_is_there() -> None:
    """nodeagent-succeed runs it without an argument, and so with the vote of Ganeti's nodes."""
    *limit, program, command = COMMAND
    assert (tuple(limit), program) == (LIMIT, "/usr/sbin/gnt-cluster")
    arguments, options = command_line("gnt-cluster")[command]
    assert arguments == []
    assert (options["--no-voting"], options["--ignore-offline-nodes"]) == (False, True)


def job(status: str, said: object) -> Row:
    at = {name: place for place, name in enumerate(jobqueue.RESULT)}
    cells: tuple[object, ...] = (7, status, False, [status], [said], [[1, 1]], [])
    return Row("job", at, [[0, cell] for cell in cells])


def test_warnings_in_a_jobs_log_are_no_failure() -> None:
    """3.1 warns of hotplugging and of disks' sizes in the logs of jobs that succeed."""
    assert "oplog" not in jobqueue.TRAIL
    assert jobqueue.result(job("success", True)).outcome is Outcome.SUCCESS


def test_a_mirror_that_stands_alone_is_degraded_and_in_3_1_faulty() -> None:
    assert ask_ganeti(ALONE) == [True, "faulty" if newer() else "ok"]


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


GROUP = "6f3b1d5e-0002-4000-8000-000000000002"


@real
@pytest.mark.parametrize("used", [0, 2048, 12288])
def test_memory_as_3_1_tells_it_is_taken_as_hbal_takes_it(tmp_path: Path, used: int) -> None:
    """`mfree` is what is available and `mnode` the rest: instances, as KVM runs them, too.

    So nothing is missing, and what instances use is counted twice, by hbal as by us.
    """
    nodes = "".join(
        f"n{i}|16384|{512 + used}|{16384 - 512 - used}|200000|180000|8|N|{GROUP}|1\n"
        for i in range(3)
    )
    instances = "".join(
        f"i{i}|2048|10240|1|running|Y|n{i % 2}|n{i % 2 + 1}|drbd||1\n" for i in range(4)
    )
    text = f"group|{GROUP}|preferred||\n\n{nodes}\n{instances}\n"
    agree(Case(text, []), tmp_path)


@pytest.mark.real
@pytest.mark.timeout(400)
def test_a_node_s_memory_adds_up_in_3_1(lab: None) -> None:
    """What is available and what is not: all of it, but for what changes while it is asked for.

    `mnode` of 3.0 is `Active` in /proc/meminfo, which has a part of the cache, as `mfree` has.
    """
    luxi = Luxi(socket_path())
    answer = luxi.ask("Query", ["node", ["mtotal", "mnode", "mfree"], None])
    luxi.close()
    for row in answer["data"]:
        total, own, free = (value for _, value in row)
        if newer():
            assert abs(total - own - free) <= 1
        else:
            assert 0 < own <= total


@pytest.mark.real
@pytest.mark.timeout(400)
def test_a_job_with_a_new_warning_succeeds(lab: None, lab_luxi: GanetiCluster) -> None:
    """Both grow a running instance's disk; 3.1 warns that its hypervisor could not be told."""
    name = "inst7.gnt.test"
    create(name, "plain", "node2.gnt.test")
    luxi = Luxi(socket_path())
    op = {"OP_ID": "OP_INSTANCE_GROW_DISK", "instance_name": name, "disk": 0, "amount": 64}
    try:
        number = luxi.ask("SubmitJob", [[{**op, "reason": []}]])
        results = wait(lab_luxi, [str(number)])
        ((log,),) = luxi.ask("QueryJobs", [[number], ["oplog"]])
    finally:
        luxi.close()
        remove(name)
    assert results[str(number)].outcome is Outcome.SUCCESS
    assert ("Disk resize in hypervisor failed" in json.dumps(log)) is newer()


@pytest.mark.real
@pytest.mark.timeout(400)
@pytest.mark.parametrize("parameter", FOREIGN, ids=" ".join)
def test_luxid_refuses_it_too(lab: None, parameter: tuple[str, str]) -> None:
    """luxid reads what the logical units know. There is no such instance, and no such group."""
    op, name = parameter
    given = {"OP_ID": op, **LACKING[op], name: True, "reason": []}
    luxi = Luxi(socket_path())
    try:
        with (
            nullcontext() if FOREIGN[parameter][newer()] else pytest.raises(Unavailable, match=name)
        ):
            luxi.ask("SubmitJob", [[given]])
    finally:
        luxi.close()
