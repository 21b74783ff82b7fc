"""Two claims on one real node: it is back when the last one ends.

All pairs, in both orders, are in tests/maintd/outage/test_pairs.py. Uses the multi-node laboratory
beside the checkout; skipped by name where that is absent. `make test-real` runs it.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.real.lab import create, gnt, remove
from tests.real.maintd import Maintenance, is_empty, maintained, out_of_service, until
from tests.real.steps import machines, more_rounds, window

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(600),
]


@pytest.fixture(scope="module")
def lab() -> Iterator[Maintenance]:
    with maintained() as system:
        gnt("gnt-cluster", "add-tags", "maintd:return-after:5s")
        create("inst1", "drbd", "node2.gnt.test", "node3.gnt.test")
        yield system
        remove("inst1")


def node2(system: Maintenance) -> dict[str, Any]:
    found = (one for one in system.get("/1/nodes") if one["name"] == "node2.gnt.test")
    return dict(next(found))


@pytest.mark.story
def test_a_node_in_its_window_that_a_person_wants_too(system: Maintenance) -> None:
    window(system, "add", "node2", "--start", "now", "--for", "1h")
    until(
        lambda: machines(system)["node2"]["begun"]
        and out_of_service("node2") != ""
        and is_empty("node2"),
        180,
        system.tail,
    )
    asked = system.ask("evacuate", "node2", "--why", "new disks")
    assert asked.returncode == 0, asked.stderr
    until(lambda: node2(system)["wanted"], 60, system.tail)
    window(system, "cancel", "node2")
    more_rounds(system, 5)
    assert out_of_service("node2") != "", node2(system)["out-for"]
    done = system.ask("done", "node2")
    assert done.returncode == 0, done.stderr
    until(lambda: out_of_service("node2") == "", 180, system.tail)
    until(lambda: node2(system)["out-for"] == [], 60, system.tail)
