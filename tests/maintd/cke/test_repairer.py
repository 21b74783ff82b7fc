"""CKE's cases for automatic repair (repairer_test.go), from end to end.

A real GraphQL server reports, maintd asks it over HTTP, and gnt-maint tells over maintd's own what
has become of it. The limit is 3 and the wait 300 s; n2 to n5 are CKE's m1 to m4, all silent.
"""

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest
from click.testing import CliRunner

from nodeagent.cli import gnt_maint
from nodeagent.cli.maint.console.client import Where
from nodeagent.maintd.queue.inventory import InventorySettings
from nodeagent.model.constraints import Constraints
from nodeagent.model.ledger import Policy
from nodeagent.model.queue import Operation, Procedure, Procedures, RepairStep
from nodeagent.model.units import Seconds
from tests.agent.place import safe_folder
from tests.cli.live import Live
from tests.cli.maint.test_queue import ask, samples
from tests.maintd.queue.sabakan_server import Machine, Sabakan, serving
from tests.maintd.queue.test_entries import Mender
from tests.maintd.rig import QUICK, Rig, fleet
from tests.maintd.world import REPAIR

LIMITS = Constraints(maximum_repair_queue_entries=3, wait_seconds_to_repair_rebooting=Seconds(300))
STEPS = (RepairStep("try-1", watch_seconds=Seconds(600)),)
OPERATIONS = tuple(Operation(n, STEPS, "check") for n in ("unreachable", "unhealthy", "noop"))
CONFIGURED: Policy = replace(
    QUICK, procedures=Procedures((Procedure(("r640",), OPERATIONS),)), constraints=LIMITS
)
M0 = Machine("S0", [], "UNHEALTHY", 30)
M1 = Machine("S1", ["127.0.0.2"], "UNREACHABLE", 30)
M2 = Machine("S2", ["127.0.0.3"], "UNHEALTHY", 30)
M3 = Machine("S3", ["127.0.0.4"], "UNREACHABLE", 3000)
M4 = Machine("S4", ["127.0.0.5"], "UNREACHABLE", 30)
OUTSIDE = {M1.serial: "10.9.9.1", M2.serial: "10.9.9.2", M3.serial: "10.9.9.3"}


class Many(Mender):
    """Twelve nodes, of which most answer: with too few nothing at all is done."""

    def __init__(self) -> None:
        Rig.__init__(self, fleet(12), [], CONFIGURED)
        self.heals, self.healed, self.fates = "nothing", False, {}
        self.agents.tells = self.tell


@pytest.fixture
def sabakan() -> Iterator[Sabakan]:
    with serving() as found:
        yield found


@pytest.fixture
def live(sabakan: Sabakan) -> Iterator[Live]:
    """The queue is disabled: what is in it stays as it came, which disables no source."""
    with safe_folder() as folder:
        rig = Many()
        rig.asks = InventorySettings(sabakan.url, every=5)
        for name in ("n2", "n3", "n4", "n5"):
            rig.agents.says[name] = None
        rig.crash()
        found = Live(rig, folder)
        run(found, "queue", "disable")
        yield found
        found.close()


def run(live: Live, *words: str) -> str:
    done = CliRunner().invoke(
        gnt_maint.cli, ["--socket", live.socket, *words], standalone_mode=False
    )
    assert (done.exception, done.return_value or 0) == (None, 0)
    return done.output


def made(live: Live, sabakan: Sabakan, *machines: Machine) -> list[str]:
    """The serials of the entries that become of these reports, and of no others."""
    sabakan.put(*machines)
    live.tick(times=3)
    entries = json.loads(run(live, "queue", "list", "--json"))
    return [entry["serial"] for entry in entries if entry["serial"]]


def refused(live: Live) -> dict[str, int]:
    found = Where(live.socket).reach().get("/1/queue")["refused"]
    return {one["reason"]: one["machines"] for one in found}


def have(live: Live, *addresses: str, operation: str = "unhealthy") -> None:
    for address in addresses:
        run(live, "queue", "add", operation, "r640", address)


def test_none_failed_nothing(live: Live, sabakan: Sabakan) -> None:
    assert made(live, sabakan, replace(M1, state="HEALTHY")) == []
    assert len(sabakan.asked) > 1


def test_m1_with_queue_m2(live: Live, sabakan: Sabakan) -> None:
    have(live, "127.0.0.3")
    assert made(live, sabakan, M1, M2) == ["S1"]


def test_m0_has_no_address(live: Live, sabakan: Sabakan) -> None:
    assert made(live, sabakan, M0, M1) == ["S1"]


def test_a_total_that_is_the_limit_is_allowed(live: Live, sabakan: Sabakan) -> None:
    have(live, "127.0.0.3")
    assert made(live, sabakan, M1, M2, M3) == ["S1", "S3"]


def test_an_entry_for_another_operation_is_recent_too(live: Live, sabakan: Sabakan) -> None:
    have(live, "127.0.0.3", operation="noop")
    assert made(live, sabakan, M1, M2, M3) == ["S1", "S3"]


def test_more_than_the_limit_is_nothing_and_told(live: Live, sabakan: Sabakan) -> None:
    have(live, "127.0.0.3", "127.0.0.5")
    assert made(live, sabakan, M1, M2, M3) == []
    assert refused(live) == {"limit": 2}
    assert "Not repaired, 2 machines (limit): 2 entries and 2 reports" in run(live, "queue", "list")
    assert samples(live)['gnt_maint_auto_repair_refused{reason="limit"}'] == "2.0"
    since = [name for name in samples(live) if "refused_since_timestamp" in name]
    assert since == ['gnt_maint_auto_repair_refused_since_timestamp_seconds{reason="limit"}']
    assert "no queue entry for what is reported (2 machines)" in run(live, "held")
    _, page = ask(live, "GET", "/status")
    assert "Not repaired automatically" in page
    live.tick(times=5)
    _, history = ask(live, "GET", "/1/history?limit=1000")
    told = [one["text"] for one in json.loads(history) if "maximum-repair-queue" in one["text"]]
    assert len(told) == 1, "once, not in every round"
    run(live, "constraints", "set", "maximum-repair-queue-entries", "4")
    assert made(live, sabakan) == ["S1", "S3"]
    assert refused(live) == {}


def rebooting(live: Live, name: str) -> None:
    """Its own live repair is under way, and it does not answer meanwhile."""
    live.rig.agents.takes = 10**7
    live.rig.agents.says[name] = REPAIR
    live.tick(times=6)
    assert any(intent.node == name for intent in live.rig.ledger.intents)
    live.rig.agents.says[name] = None


@pytest.mark.parametrize(
    ("one", "name", "expected"),
    [
        pytest.param(M1, "n2", [], id="m1 rebooting"),
        pytest.param(M2, "n3", ["S2"], id="m2, unhealthy, rebooting"),
        pytest.param(M3, "n4", ["S3"], id="m3, for long, rebooting"),
    ],
)
def test_rebooting(
    live: Live, sabakan: Sabakan, one: Machine, name: str, expected: list[str]
) -> None:
    rebooting(live, name)
    assert made(live, sabakan, one) == expected


def test_m4_whose_repair_has_not_begun(live: Live, sabakan: Sabakan) -> None:
    """CKE's has a reboot entry that is only draining."""
    run(live, "pause", "--node", "n5")
    live.rig.agents.says["n5"] = REPAIR
    live.tick(times=3)
    live.rig.agents.says["n5"] = None
    assert made(live, sabakan, M4) == ["S4"]


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        pytest.param(M1, [], id="m1"),
        pytest.param(M2, ["S2"], id="m2"),
        pytest.param(M3, ["S3"], id="m3"),
    ],
)
def test_out_of_the_cluster(
    live: Live, sabakan: Sabakan, one: Machine, expected: list[str]
) -> None:
    assert made(live, sabakan, replace(one, ipv4=[OUTSIDE[one.serial]])) == expected


def test_two_reports_with_one_address_are_told(live: Live, sabakan: Sabakan) -> None:
    """CKE makes two entries of them."""
    assert made(live, sabakan, M1, replace(M2, ipv4=M1.ipv4), M3) == ["S3"]


def test_what_no_procedure_is_for_takes_no_room(live: Live, sabakan: Sabakan) -> None:
    """In CKE it sits in the queue for ever, and eats both limits."""
    odd = [replace(m, bmc="type9") for m in (M1, M2, M3)]
    assert made(live, sabakan, *odd, M4) == ["S4"]
    assert refused(live) == {"procedure": 3}


def test_a_rack_without_power_is_no_storm_of_repairs(live: Live, sabakan: Sabakan) -> None:
    run(live, "constraints", "set", "domain-failure-machines", "3")
    rack = [replace(m, rack=7) for m in (M1, M2, M3)]
    assert made(live, sabakan, *rack, M4) == ["S4"]
    assert refused(live) == {"domain-failure": 3}
    assert "3 machines of rack 7 failed at once" in run(live, "queue", "list")


def test_an_inventory_that_fails_is_no_inventory_without_machines(
    live: Live, sabakan: Sabakan
) -> None:
    sabakan.breaks = "S1"
    assert made(live, sabakan, M1, M2) == []
    assert refused(live) == {"source": 1}


def test_disabled_by_hand(live: Live, sabakan: Sabakan) -> None:
    run(live, "sources", "disable")
    assert made(live, sabakan, M1) == []
    run(live, "sources", "enable")
    assert made(live, sabakan) == ["S1"]
