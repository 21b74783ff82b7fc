"""Power of nodes through a real Ganeti: its jobs, `nodeagent-oob`, fence agents, IPMI, machines."""

import json
from collections.abc import Iterator

import pytest

from nodeagent.model.action import Power, PowerCommand
from nodeagent.model.ledger import Outcome
from tests.real.lab import NODES, listed, node
from tests.real.maintd import flags, maintained, until
from tests.real.powered import Powered, powered, state

MASTER, SECOND, THIRD = NODES
OFF, ON, CYCLE = PowerCommand.OFF, PowerCommand.ON, PowerCommand.CYCLE

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(600),
    powered,
]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Powered]:
    with maintained() as system:
        made = Powered(tmp_path_factory.mktemp("power"), system)
        try:
            yield made
        finally:
            made.close()


@pytest.fixture
def cluster(whole: Powered) -> Iterator[Powered]:
    whole.heal()
    yield whole
    whole.heal()


def test_check_asks_the_bmc_of_every_node(cluster: Powered) -> None:
    done = cluster.oob("check-config")
    assert done.stdout == "/etc/nodeagent/power.toml: ok, nodes checked: 3\n", done.stderr
    done = cluster.oob("check", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)["nodes"]
    assert {one["node"]: one["powered"] for one in told} == dict.fromkeys(NODES, True)
    cluster.bmcs[THIRD].kill()
    done = cluster.oob("check")
    assert done.returncode == 1
    (line,) = (one for one in done.stdout.splitlines() if one.startswith(THIRD))
    assert "nothing" in line
    assert cluster.powerd.acts == [], "it switches nothing"


def test_a_node_is_switched_off_and_on_with_proof(cluster: Powered) -> None:
    assert cluster.status(SECOND) is True
    done = cluster.ends(Power(SECOND, OFF))
    assert (done.outcome, done.code, done.said) == (Outcome.SUCCESS, 0, ""), done
    assert (state(SECOND), flags(SECOND)["offline"]) == ("off", "N")
    assert cluster.status(SECOND) is False
    done = cluster.ends(Power(SECOND, ON))
    assert (done.outcome, done.code, done.said) == (Outcome.SUCCESS, 0, ""), done
    assert state(SECOND) == "on"
    assert cluster.status(SECOND) is True
    assert cluster.powerd.acts == [f"power-off {SECOND}", f"power-on {SECOND}"]
    assert [state(name) for name in (MASTER, THIRD)] == ["on", "on"], "of one node alone"


def test_a_cycle_is_a_boot(cluster: Powered) -> None:
    before = node(SECOND, "cat", "/proc/sys/kernel/random/boot_id").stdout
    done = cluster.ends(Power(SECOND, CYCLE))
    assert (done.outcome, done.code) == (Outcome.SUCCESS, 0), done
    assert cluster.powerd.acts == [f"power-off {SECOND}", f"power-on {SECOND}"]
    until(lambda: node(SECOND, "true").returncode == 0, 60, lambda: "it does not come back")
    assert node(SECOND, "cat", "/proc/sys/kernel/random/boot_id").stdout != before


def test_a_dead_bmc_is_a_failure_with_its_reason(cluster: Powered) -> None:
    cluster.bmcs[SECOND].kill()
    for command in (OFF, PowerCommand.STATUS):
        done = cluster.ends(Power(SECOND, command))
        assert done.outcome is Outcome.ERROR, done
        assert "level 1 (fence_ipmilan)" in done.why, done
    ((status,),) = listed("job", "status")[-1:]
    assert status == "success", "Ganeti's own word, which does not count"
    assert (state(SECOND), cluster.powerd.acts) == ("on", [])
    assert cluster.status(THIRD) is True
