"""Two claims on one real node, ended in both orders: it is back when the last one ends."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import pytest

from tests.real.lab import create, gnt, remove
from tests.real.maintd import EVACUATE, Maintenance, is_empty, maintained, out_of_service, until
from tests.real.steps import machines, more_rounds, used_before, window, with_queue

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

# A repair that drains its node, and whose watch lasts longer than any test.
PROCEDURES = """
[[queue.repair_procedures]]
machine_types = ["r640"]
[[queue.repair_procedures.repair_operations]]
operation = "rebuild"
health_check_command = "is-healthy"
[[queue.repair_procedures.repair_operations.repair_steps]]
repair_command = "power-cycle"
need_drain = true
watch_seconds = 3600
"""
SCRIPTS = {"is-healthy": "echo false", "power-cycle": "true"}


@pytest.fixture(scope="module")
def lab() -> Iterator[Maintenance]:
    with maintained() as system:
        with_queue(system, PROCEDURES, SCRIPTS)
        used_before()
        gnt("gnt-cluster", "add-tags", "maintd:return-after:5s")
        create("inst1", "drbd", "node2.gnt.test", "node3.gnt.test")
        system.start_maintd()
        system.until_it_answers()
        if system.get("/1/round")["outdated"]:  # its ledger is new, and the tag is there
            system.do("resume", "--ledger")
        yield system
        system.stop_maintd()
        remove("inst1")


@pytest.fixture
def system(lab: Maintenance) -> Iterator[Maintenance]:
    """The same maintd for all pairs: a new one would take up the incidents of those before."""
    lab.heal()
    yield lab
    for incident in lab.incidents():  # a test that fails leaves some
        lab.ask("cancel", str(incident["uuid"]))


def node2(system: Maintenance) -> dict[str, Any]:
    found = (one for one in system.get("/1/nodes") if one["name"] == "node2.gnt.test")
    return dict(next(found))


def incident_ends(system: Maintenance) -> None:
    """A fault that nobody has begun to work on goes by itself."""
    (incident,) = system.incidents()
    if incident["repair-status"] != "noted":
        system.until_status("node2", "completed", 180)
    system.mended("node2")
    if node2(system)["wanted"]:  # `done` would end both
        system.do("cancel", str(incident["uuid"]))
    elif incident["repair-status"] != "noted":
        system.do("done", "node2")
    else:
        until(lambda: system.incidents() == [], 60, system.tail)


def entry_stands(system: Maintenance) -> bool:
    entries = system.get("/1/queue")["entries"]
    return any(one["step_status"] != "waiting" for one in entries)


def entry_ends(system: Maintenance) -> None:
    for entry in system.get("/1/queue")["entries"]:
        system.do("queue", "delete", entry["index"])
    until(lambda: system.get("/1/queue")["entries"] == [], 60, system.tail)


def person_ends(system: Maintenance) -> None:
    system.mended("node2")
    system.do("done", "node2")


@dataclass(frozen=True)
class Claim:
    """A claim on node2: how it begins, whether it stands, and how it ends."""

    begins: Callable[[Maintenance], object]
    stands: Callable[[Maintenance], object]
    ends: Callable[[Maintenance], object]


CLAIMS = {
    "incident": Claim(
        begins=lambda system: system.breaks("node2", EVACUATE),
        stands=lambda system: any(i["repair-status"] != "noted" for i in system.incidents()),
        ends=incident_ends,
    ),
    "window": Claim(
        begins=lambda system: window(system, "add", "node2", "--start", "now", "--for", "1h"),
        stands=lambda system: machines(system).get("node2", {}).get("begun"),
        ends=lambda system: window(system, "cancel", "node2"),
    ),
    "entry": Claim(
        begins=lambda system: system.do(
            "queue", "add", "--force", "rebuild", "r640", "node2.gnt.test", "S2"
        ),
        stands=entry_stands,
        ends=entry_ends,
    ),
    "person": Claim(
        begins=lambda system: system.do("evacuate", "node2", "--why", "new disks"),
        stands=lambda system: node2(system)["wanted"],
        ends=person_ends,
    ),
}
PAIRS = [(*pair, ends_first) for pair in combinations(CLAIMS, 2) for ends_first in pair]


@pytest.mark.parametrize(("first", "second", "ends_first"), PAIRS)
def test_it_is_back_when_the_last_one_ends(
    system: Maintenance, first: str, second: str, ends_first: str
) -> None:
    CLAIMS[first].begins(system)
    until(
        lambda: bool(CLAIMS[first].stands(system))
        and out_of_service("node2") != ""
        and is_empty("node2"),
        180,
        system.tail,
    )
    CLAIMS[second].begins(system)
    more_rounds(system, 3)
    ends_last = second if ends_first == first else first
    waits = ends_first == first and not CLAIMS[second].stands(system)
    told = json.dumps([node2(system)["out-for"], first, second])
    CLAIMS[ends_first].ends(system)
    if {first, second} == {"person", "incident"} and not system.incidents():
        until(lambda: out_of_service("node2") == "", 120, system.tail)  # one `done` has ended both
        return
    more_rounds(system, 5)
    assert waits or out_of_service("node2") != "", told
    CLAIMS[ends_last].ends(system)
    until(lambda: out_of_service("node2") == "", 180, system.tail)
    until(lambda: node2(system)["out-for"] == [], 60, system.tail)
