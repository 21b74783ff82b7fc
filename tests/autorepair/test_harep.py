"""The next step by harep's rules, as a daemon follows them."""

import time
from dataclasses import replace

import pytest

from nodeagent.autorepair.assess import Judge
from nodeagent.autorepair.rules import HAREP, SAFE
from nodeagent.autorepair.state import Unclear, as_harep
from nodeagent.autorepair.steps import Nothing, Wait
from nodeagent.model.ledger import Outcome, Result, Trail
from nodeagent.model.snapshot import Instance
from nodeagent.model.units import Ms
from tests.autorepair.broken import (
    AT,
    BASE,
    ERROR,
    FAILOVER,
    LOST,
    MOVED,
    SUCCESS,
    did,
    snapshot,
    step,
    told,
)
from tests.autorepair.worlds import case, snapshot_of

PENDING, NAMED = "pending:failover:x:1:", "pending:failover:x:1:7"
PLAIN = replace(BASE, secondary=None, template="plain")


def test_no_change_of_tags_in_the_safe_mode_would_stop_harep() -> None:
    """Whoever wants it back may have it at any moment."""
    changed = 0
    for seed in range(400):
        snapshot = snapshot_of(case(seed, instances=4).world)
        jobs = dict.fromkeys(map(str, range(1, 26)), Result((*Outcome,)[seed % len(Outcome)]))
        judge = Judge(snapshot, {}, jobs, Ms(time.time_ns() // 1_000_000), SAFE)
        for instance in snapshot.instances.values():
            found = judge.assess(instance).next
            if isinstance(as_harep(instance.tags), Unclear) or isinstance(found, Nothing | Wait):
                continue
            changed += 1
            after = instance.tags.difference(found.swap.remove).union(found.swap.add)
            assert not isinstance(as_harep(after), Unclear), (seed, instance, found)
    assert changed > 100


ENDED = f"mark +result:failover:x:{AT}:{{}} -{{}}"


@pytest.mark.parametrize(
    ("tags", "jobs", "what"),
    [
        pytest.param((PENDING,), [did(7, FAILOVER, ERROR, "x")], "failure:7", id="our failure"),
        pytest.param((NAMED,), [], "failure:7", id="a job that has gone"),
        pytest.param((NAMED, "suspend"), [], "failure:7", id="a suspension stops only new ones"),
        pytest.param((PENDING,), [], "failure:", id="no job: its health decides"),
    ],
)
def test_a_repair_of_one_that_is_broken_ends(
    tags: tuple[str, ...], jobs: list[Trail], what: str
) -> None:
    found = step(snapshot("offline", "ok", ("failover", *tags)), jobs, HAREP, j7=LOST)
    assert told(found) == ENDED.format(what, tags[0])


def test_each_job_is_a_repair_of_its_own() -> None:
    moved = snapshot("offline", "ok", ("failover", PENDING), MOVED)
    found = step(moved, [did(7, FAILOVER, SUCCESS, "x", ago=0)], HAREP)
    assert told(found) == ENDED.format("success:7", PENDING)
    assert told(step(snapshot("ok", "ok", (PENDING,)), (), HAREP)) == ENDED.format(
        "success:", PENDING
    )


@pytest.mark.parametrize(
    ("states", "instance", "tags", "what"),
    [
        (("drained", "ok"), PLAIN, (), "nothing: its node p is drained: its data are there"),
        (("drained", "drained"), BASE, (), "nothing: its node p is drained and s is drained: its"),
        (("drained", "ok"), BASE, (), "failover +pending:failover:NEW:"),
        (("offline", "offline"), BASE, (), "reinstall +pending:reinstall:NEW:"),
        (("ok", "ok"), BASE, (PENDING, "result:failover:y:2:success:"), "nothing: check its tags"),
    ],
)
def test_otherwise_than_harep_it_gives_up_no_data_and_goes_on(
    states: tuple[str, str], instance: Instance, tags: tuple[str, ...], what: str
) -> None:
    assert told(step(snapshot(*states, ("reinstall", *tags), instance), (), HAREP)).startswith(what)


def test_enoperm_is_told_once() -> None:
    first = step(snapshot("offline", "ok", ("migrate",)), (), HAREP)
    assert told(first) == f"mark +result:failover:NEW:{AT}:enoperm:"
    again = snapshot("offline", "ok", ("migrate", "result:failover:x:1:enoperm:"))
    assert isinstance(step(again, (), HAREP), Nothing)
