"""Differences between Ganeti 3.0.2 and 3.1, one by one, and why none of them changes what we do.

Each asks the Ganeti that is installed here, so `make conformance GANETI=3.1` asks 3.1.

| Difference in 3.1 | Its test |
|---|---|
| opcodes: no `hotplug_if_possible`, new `is_strict` | that Ganeti knows every parameter we give |
| defaults: names, addresses, hotplug are checked otherwise | that it takes the rest for granted |
| memory: `mfree` is what is available, `mnode` the rest | that we take it as its hbal does |
| a StandAlone mirror is faulty | that its error is told with the command that helps |
| more warnings in the logs of jobs that succeed | that a log is no failure |
| hbal, hail, harep, hroller | `make oracle GANETI=3.1`: the same answers on the same inputs |
| mond, RAPI and LUXI: the same fields, sets in another order | `make test-real GANETI=3.1` |
| the version has a tilde and letters | `tests/model/test_ganeti.py` |

Power control (`OP_OOB_COMMAND`) is the same in both.
"""

import json
import re
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest

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
    Scope,
    SetOffline,
)
from nodeagent.model.ledger import Outcome
from tests.cluster.ganeti.test_unless_back import GANETI, PYTHON, importable
from tests.placement.clusters import Case
from tests.placement.hbal import real
from tests.placement.layout.test_score import agree

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
    found = opcodes.job(Submission(action, "maintd:1"), 1)
    assert isinstance(found, list)
    return found


@cache
def told() -> tuple[list[Any], dict[str, Any]]:
    """What the installed Ganeti finds wrong in our opcodes, and what it takes for granted."""
    if not GANETI.exists() or not importable():
        pytest.skip("Ganeti is not installed")
    asked = {"ops": [op for one in ORDERED for op in ops(one)], "relied-on": RELIED_ON}
    command = [PYTHON, "-c", ASK, str(GANETI)]
    done = subprocess.run(
        command, input=json.dumps(asked), capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    faults, defaults = json.loads(done.stdout)
    return faults, defaults


def test_ganeti_knows_every_parameter_that_we_give() -> None:
    """3.1 refuses `hotplug_if_possible`, 3.0 `is_strict`, and each the whole job with it."""
    assert told()[0] == []


def test_ganeti_takes_for_granted_what_we_rely_on() -> None:
    assert told()[1] == RELIED_ON


def test_we_rely_on_defaults_of_all_that_we_order() -> None:
    assert {op["OP_ID"] for one in ORDERED for op in ops(one)} == set(RELIED_ON)


def test_ganeti_still_refuses_a_parameter_that_nobody_knows() -> None:
    """Else the test of our parameters could not fail."""
    if not GANETI.exists() or not importable():
        pytest.skip("Ganeti is not installed")
    asked = {"ops": [{"OP_ID": "OP_TAGS_SET", "hotplug_if_possible": True}], "relied-on": {}}
    command = [PYTHON, "-c", ASK, str(GANETI)]
    done = subprocess.run(command, input=json.dumps(asked), capture_output=True, text=True)
    assert "hotplug_if_possible" in done.stdout


def job(status: str, said: object) -> Row:
    at = {name: place for place, name in enumerate(jobqueue.RESULT)}
    cells: tuple[object, ...] = (7, status, False, [status], [said], [[1, 1]], [])
    return Row("job", at, [[0, cell] for cell in cells])


def test_warnings_in_a_jobs_log_are_no_failure() -> None:
    """3.1 warns of hotplugging and of disks' sizes in the logs of jobs that succeed."""
    assert "oplog" not in jobqueue.TRAIL
    assert jobqueue.result(job("success", True)).outcome is Outcome.SUCCESS


def test_a_disconnected_mirror_is_told_with_the_command_that_helps() -> None:
    """A StandAlone DRBD device counts as faulty in 3.1, and replacing the disks fails then."""
    if not GANETI.exists():
        pytest.skip("Ganeti is not installed")
    source = "".join(file.read_text() for file in sorted((GANETI / "ganeti/cmdlib").glob("*.py")))
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
