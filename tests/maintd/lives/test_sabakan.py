"""From what sabakan says to a machine that is repaired: real HTTP, maintd begun anew in between.

As in CKE's own end-to-end tests a repair is to touch a file, and the machine is healthy if it is
there.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from nodeagent.maintd.queue.inventory import InventorySettings
from nodeagent.model.action import RunCommand
from nodeagent.model.constraints import Constraints
from nodeagent.model.ledger import Intent, Outcome, Policy, Result
from nodeagent.model.queue import Entry, EntryStatus, Operation, Procedure, Procedures, RepairStep
from nodeagent.model.units import Seconds
from tests.maintd.queue.sabakan_server import Machine, Sabakan, serving
from tests.maintd.rig import QUICK, Rig, fleet, mirrored
from tests.maintd.world import OK

STEPS = (RepairStep("power-cycle", need_drain=True, watch_seconds=Seconds(60)),)
OPERATION = Operation("unreachable", STEPS, "is-healthy", success_command="tell")
POLICY = replace(
    QUICK,
    procedures=Procedures((Procedure(("r640",), (OPERATION,)),)),
    constraints=Constraints(
        maximum_repair_queue_entries=5, wait_seconds_to_repair_rebooting=Seconds(300)
    ),
)


@dataclass
class Mortal(Machine):
    """A machine that cannot be reached until somebody has repaired it."""

    place: Path = Path("/nowhere")

    def __getattribute__(self, name: str) -> object:
        if name == "state":
            return "HEALTHY" if self.place.exists() else "UNREACHABLE"
        return super().__getattribute__(name)


@pytest.fixture
def sabakan(tmp_path: Path) -> Iterator[Sabakan]:
    n3 = Mortal("S3", ["127.0.0.3"], place=tmp_path / "repaired")
    with serving(n3, Machine("S4", ["127.0.0.4"]), Machine("S9", ["10.9.9.9"])) as found:
        yield found


def equip(rig: Rig, url: str, repaired: Path, policy: Policy = POLICY) -> None:
    """Have a coordinator ask sabakan, and its master's agent repair by touching the file."""

    def tell(intent: Intent) -> Result:
        assert isinstance(intent.action, RunCommand)
        if intent.action.command == "power-cycle":
            with repaired.open("a") as file:
                file.write(intent.action.stdin + "\n")
        said = "true" if repaired.exists() else "false"
        return Result(Outcome.SUCCESS, "exit code 0", 0, said)

    rig.policy, rig.asks, rig.agents.tells = policy, InventorySettings(url, seconds=60.0), tell
    rig.crash()


def tick(rig: Rig, repaired: Path, seconds: float = 30.0) -> None:
    rig.agents.says["n3"] = OK if repaired.exists() else None
    rig.tick(seconds)


def the_entry(rig: Rig) -> Entry:
    (entry,) = rig.ledger.queue.entries
    assert rig.ledger.queue.next == 1, "there was no other"
    return entry


def test_what_is_unreachable_is_repaired_once_however_often_maintd_dies(
    sabakan: Sabakan, tmp_path: Path
) -> None:
    repaired, rig = tmp_path / "repaired", Rig(fleet(), mirrored(("n3", "n4")))
    equip(rig, sabakan.url, repaired)
    for _ in range(60):
        tick(rig, repaired)
        rig.tick_quietly(60)  # whoever is new has heard nothing yet
        rig.crash()
    assert the_entry(rig).status is EntryStatus.SUCCEEDED
    (order,) = repaired.read_text().splitlines()
    said = json.loads(order)
    assert (said["address"], said["nodename"], said["serial"]) == ("127.0.0.3", "n3", "S3")
    assert (said["machine_type"], said["operation"]) == ("r640", "unreachable")
    names = [i.action.command for _, _, i in rig.agents.ran.values()]  # type: ignore[union-attr]
    assert (names.count("power-cycle"), names.count("tell")) == (1, 1)
