"""maintd balances a real Ganeti cluster, with Ganeti's own lists as the witness."""

import json
import sys
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.real.lab import create, gnt, node, remove
from tests.real.maintd import Maintenance, job_list, last_job, maintained, placed, rests, until
from tests.real.steps import MOVES, ON

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]


NAMES = ("inst1", "inst2")


@pytest.fixture(scope="module")
def lab() -> Iterator[Maintenance]:
    with maintained() as system:
        yield system


@pytest.fixture
def lopsided(lab: Maintenance) -> Iterator[Maintenance]:
    """Everything runs on node2, mirrored to node3."""
    for name in NAMES:
        create(name, "drbd", "node2.gnt.test", "node3.gnt.test")
    lab.start_maintd()
    lab.until_it_answers()
    lab.heal()
    yield lab
    gnt("gnt-group", "remove-tags", "default", *gnt("gnt-group", "list-tags", "default").split())
    lab.heal()
    lab.stop_maintd()
    for name in NAMES:
        remove(name)


def primaries() -> Counter[str]:
    return Counter(placed(name)[0] for name in NAMES)


@pytest.mark.story_3_0
def test_a_lopsided_group_is_balanced_and_then_left_alone(lopsided: Maintenance) -> None:
    rests(5)  # it is off by default
    before = last_job()
    gnt("gnt-group", "add-tags", "default", *ON)
    until(lambda: max(primaries().values()) == 1, 300, lopsided.tail)

    def even() -> bool:
        (group,) = lopsided.get("/1/balance")
        return group["score"] is not None and not group["moves"] and not group["under-way"]

    until(even, 120, lopsided.tail)
    jobs = job_list(before)
    assert {status for _, status, _ in jobs} == {"success"}
    kinds = {summary.partition("(")[0] for _, _, summary in jobs}
    assert kinds <= MOVES | {"TAGS_SET"}, "nothing is failed over"
    assert kinds & MOVES
    rests(15)


def test_what_gnt_maint_balance_finds_is_carried_out(lopsided: Maintenance) -> None:
    """Found in what the cluster itself tells, and moved by maintd while the command waits."""
    gnt("gnt-group", "add-tags", "default", "maintd:balance-cooldown:0s")
    before = last_job()
    command = ("-m", "nodeagent.cli.gnt_maint", "balance", "--exec", "--json")
    done = node("node1", sys.executable, *command, seconds=400)
    assert done.returncode == 0, (done, lopsided.tail())
    found = json.loads(done.stdout)
    assert found["score"]["final"] < found["score"]["initial"]
    moved = {move["instance"] for move in found["moves"]}
    assert moved <= set(NAMES)
    assert max(primaries().values()) == 1
    jobs = job_list(before)
    assert {status for _, status, _ in jobs} == {"success"}
    assert found["done"] is True
