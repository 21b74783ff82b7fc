"""From what sabakan says to a machine that is repaired: real HTTP, maintd begun anew in between."""

from collections.abc import Mapping
from dataclasses import replace

from nodeagent.maintd.queue.inventory import InventorySettings
from nodeagent.model.constraints import Constraints
from nodeagent.model.queue import EntryStatus, RepairStep
from nodeagent.model.units import Seconds
from tests.maintd.answering import serving
from tests.maintd.queue.mender import Mender, policy
from tests.maintd.queue.sabakan_answers import answer, machine
from tests.maintd.world import OK

STEP = RepairStep("try-1", need_drain=True, watch_seconds=Seconds(60))
LIMITS = Constraints(maximum_repair_queue_entries=5, wait_seconds_to_repair_rebooting=Seconds(300))
BROKEN = machine(spec_serial="S3", spec_ipv4=["127.0.0.3"], status_duration=3600.0)


def test_what_is_unreachable_is_repaired_once_however_often_maintd_dies() -> None:
    rig = Mender(replace(policy(STEP, success="tell"), constraints=LIMITS))

    def say(_: Mapping[str, str], __: bytes) -> tuple[int, bytes]:
        return 200, answer() if rig.healed else answer(BROKEN)

    with serving(say) as port:
        rig.asks = InventorySettings(f"http://127.0.0.1:{port}/graphql", seconds=60.0)
        rig.crash()
        for _ in range(60):
            rig.agents.says["n3"] = OK if rig.healed else None
            rig.tick(30)
            rig.tick_quietly(60)  # whoever is new has heard nothing yet
            rig.crash()
    assert (rig.entry.status, rig.entry.serial) == (EntryStatus.SUCCEEDED, "S3")
    assert rig.ledger.queue.next == 1, "there was no other entry"
    assert rig.commands() == ["try-1", "tell"]
