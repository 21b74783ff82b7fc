"""The next step by harep's rules, as a daemon follows them."""

import time

import pytest

from nodeagent.autorepair.assess import Judge
from nodeagent.autorepair.jobs import RETRY_AFTER, repair_id
from nodeagent.autorepair.rules import HAREP, SAFE
from nodeagent.autorepair.state import Unclear, as_harep
from nodeagent.autorepair.steps import Mark, Next, Nothing, Step, Wait
from nodeagent.autorepair.tags import PREFIX, Record, RepairType, read
from nodeagent.model.action import Guarded, MovePrimary, Retag, Scope
from nodeagent.model.ledger import Outcome, Result, Trail
from nodeagent.model.snapshot import Snapshot
from nodeagent.model.units import Ms
from tests.autorepair import luxi
from tests.autorepair.one import ONE, TWO, world
from tests.autorepair.worlds import case, snapshot_of

NOW = Ms(1_700_000_000_000)
AT = NOW // 1000
ID = repair_id("i1", NOW)
OUTCOMES = {"success": Outcome.SUCCESS, "error": Outcome.ERROR, "canceled": Outcome.ERROR}


def assess(it: luxi.World, jobs: list[Trail] | None = None, now: int = NOW) -> Next:
    """What comes next for the one instance there is; results as the world has them."""
    (name,) = it.instances
    known = {
        str(number): Result(OUTCOMES.get(job.status, Outcome.RUNNING), job.status)
        for number, job in it.jobs.items()
    }
    snapshot = snapshot_of(it)
    gone = {job: Result(Outcome.LOST) for job in _named(snapshot) - known.keys()}
    judge = Judge(snapshot, {name: jobs or []}, {**known, **gone}, Ms(now), HAREP)
    return judge.assess(snapshot.instances[name]).next


def _named(snapshot: Snapshot) -> set[str]:
    records = (read(t, strict=False) for i in snapshot.instances.values() for t in i.tags)
    return {str(job) for r in records if isinstance(r, Record) for job in r.jobs}


def told(found: Next) -> str:
    """In short: the repair or the ending, and what is put on and taken off."""
    match found:
        case Nothing(why):
            return f"nothing: {why}" if why else "nothing"
        case Wait(why):
            return f"wait: {why}"
        case Step(kind, _, swap):
            what = kind.word
        case Mark(_, swap, _, ending):
            what = "note" if ending is None else ending.word
    signs = [f"+{tag}" for tag in swap.add] + [f"-{tag}" for tag in swap.remove]
    return " ".join([what, *signs]).replace(PREFIX, "").replace(ID, "NEW")


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


# With jobs of ours, which the tag cannot name.

FAILOVER = MovePrimary("i1", "np", live=False, target="ns")
SWAP = Retag(Scope.INSTANCE, "i1", add=(f"{PREFIX}pending:failover:{ONE}:1:",))


def did(outcome: Outcome, ago: int = RETRY_AFTER) -> Trail:
    result = Result(outcome, "no luck")
    return Trail("7", f"autorepair:{ONE}:1", Guarded(SWAP, FAILOVER), result, Ms(0), Ms(NOW - ago))


def test_a_job_of_ours_judges_its_repair() -> None:
    pending = f"pending:failover:{ONE}:1:"
    it = world(["failover", pending], "P")
    failed = told(assess(it, [did(Outcome.ERROR)]))
    assert failed == f"failure +result:failover:{ONE}:{AT}:failure:7 -{pending}"
    it.instances["i1"].primary, it.instances["i1"].secondary = "ns", "np"
    done = told(assess(it, [did(Outcome.SUCCESS, ago=0)]))
    assert done == f"success +result:failover:{ONE}:{AT}:success:7 -{pending}"


# Where it does otherwise than harep, as the guide tells.


@pytest.mark.parametrize("health", ["P drained", "B drained"])
def test_data_that_are_there_are_never_given_up(health: str) -> None:
    for template in ("plain", "drbd"):
        found = assess(world(["reinstall"], health, template=template))
        assert not (isinstance(found, Step) and found.kind is RepairType.REINSTALL)


def test_enoperm_is_told_once() -> None:
    first = told(assess(world(["migrate"], "P")))
    assert first == f"enoperm +result:failover:NEW:{AT}:enoperm:"
    again = assess(world(["migrate", f"result:failover:{ONE}:1:enoperm:"], "P"))
    assert isinstance(again, Nothing)


def test_a_conflict_concerns_the_one_instance() -> None:
    tags = [f"pending:failover:{ONE}:1:1", f"result:failover:{TWO}:2:success:"]
    found = assess(world(tags, "P", ["success"]))
    assert isinstance(found, Nothing)
    assert found.trouble


def test_a_job_that_has_gone_fails_its_repair() -> None:
    pending = f"pending:failover:{ONE}:1:9"
    assert told(assess(world(["failover", pending], "P"))) == (
        f"failure +result:failover:{ONE}:{AT}:failure:9 -{pending}"
    )


def test_without_jobs_its_health_judges_a_pending_repair() -> None:
    pending = f"pending:failover:{ONE}:1:"
    for health, word in (("ok", "success"), ("P", "failure")):
        assert told(assess(world([pending], health, ["error", "running"]))) == (
            f"{word} +result:failover:{ONE}:{AT}:{word}: -{pending}"
        )
