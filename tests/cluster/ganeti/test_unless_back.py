"""The opcode that ends an installation whose node is back, by the code of an installed Ganeti.

Its logical unit looks at a configuration and nodes that are made up here; what it decides is its
own. Skipped where no Ganeti is installed.
"""

import json
import subprocess

import pytest

from nodeagent.cluster.backend import Submission
from nodeagent.cluster.ganeti.opcodes import job
from nodeagent.model.action import Reinstall
from nodeagent.model.units import Nanoseconds
from tests import needs

SCRIPT = """
import json, sys
sys.path.insert(0, sys.argv[1])
from unittest import mock
from ganeti import errors, opcodes
from ganeti.cmdlib import instance_operation as unit

asked = json.loads(sys.argv[2])
op = opcodes.OpCode.LoadOpCode(asked["op"])
op.Validate(True)
op.instance_uuid = "u"
lu = unit.LUInstanceStartup.__new__(unit.LUInstanceStartup)
lu.op, lu.cfg, lu.rpc, lu.proc = op, mock.MagicMock(), mock.MagicMock(), mock.MagicMock()
lu.LogWarning = lu.LogInfo = mock.MagicMock()
lu.CheckArguments()
lu.cfg.GetInstanceInfo.return_value.admin_state = asked["state"]
lu.cfg.GetNodeInfo.return_value.offline = asked["offline"]
lu.cfg.GetClusterInfo.return_value.FillBE.return_value = {"minmem": 128, "maxmem": 128}
lu.rpc.call_instance_info.return_value.payload = {}
node = lu.cfg.GetInstanceInfo.return_value.primary_node
said = mock.MagicMock(payload=(None, None, ({"memory_free": 10**7},)))
lu.rpc.call_node_info.return_value = {node: said}
why = ""
with mock.patch.object(unit, "CheckInstanceBridgesExist"), mock.patch.object(
    unit, "CheckNodeOnline"
), mock.patch.object(unit, "StartInstanceDisks") as disks:
    try:
        lu.CheckPrereq()
        lu.Exec(print)
    except errors.OpPrereqError as error:
        why = error.args[0]
did = [lu.cfg.MarkInstanceUp.called, lu.rpc.call_instance_start.called, disks.called]
print(json.dumps([why, any(did)]))
"""


def asked(state: str, *, offline: bool) -> tuple[str, bool]:
    """Why Ganeti refuses it, if it does; and whether it has done anything at all."""
    ops = job(Submission(Reinstall("i", "n1", "n2", running=False), "maintd:1"), Nanoseconds(1))
    assert isinstance(ops, list)
    told = json.dumps({"op": ops[0], "state": state, "offline": offline})
    command = [needs.GANETI_PYTHON, "-c", SCRIPT, str(needs.GANETI), told]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    why, acted = json.loads(done.stdout.splitlines()[-1])
    return why, acted


@needs.mark("ganeti")
@pytest.mark.parametrize("state", ["down", "up"])
def test_while_the_node_is_offline_it_does_nothing(state: str) -> None:
    assert asked(state, offline=True) == ("", False)


@needs.mark("ganeti")
@pytest.mark.parametrize("state", ["down", "up"])
def test_of_a_node_that_is_back_it_is_refused_and_has_done_nothing(state: str) -> None:
    why, acted = asked(state, offline=False)
    assert f"needed {2**40} MiB" in why  # as decode knows it again
    assert not acted
