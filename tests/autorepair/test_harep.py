"""harep's rules step by step, as a daemon goes by them, beside harep's run as a whole."""

import copy
import json
import time
from collections import Counter

import pytest

from nodeagent.autorepair.assess import COMPATIBLE, SAFE, Judge
from nodeagent.autorepair.compatible import Options
from nodeagent.autorepair.jobs import RETRY_AFTER, Ran, repair_id
from nodeagent.autorepair.state import Conflict, as_harep
from nodeagent.autorepair.steps import Mark, Next, Nothing, Step, Wait
from nodeagent.autorepair.tags import PREFIX, Ending, Record, RepairType, read
from nodeagent.model.action import Guarded, MovePrimary, Retag, Scope
from nodeagent.model.ledger import SHOWS, Outcome, Result
from nodeagent.model.snapshot import Snapshot
from nodeagent.model.units import Ms
from tests.autorepair import luxi
from tests.autorepair.one import ONE, TWO, world
from tests.autorepair.worlds import Case, case, ours, snapshot_of

NOW = Ms(1_700_000_000_000)
AT = NOW // 1000
ID = repair_id("i1", NOW)
OUTCOMES = {"success": Outcome.SUCCESS, "error": Outcome.ERROR, "canceled": Outcome.ERROR}


def assess(it: luxi.World, jobs: list[Ran] | None = None, now: int = NOW) -> Next:
    """What comes next for the one instance there is; results as the world has them."""
    (name,) = it.instances
    known = {
        number: Result(OUTCOMES.get(job.status, Outcome.RUNNING), job.status)
        for number, job in it.jobs.items()
    }
    snapshot = snapshot_of(it)
    gone = {job: Result(Outcome.LOST) for job in _named(snapshot) - known.keys()}
    judge = Judge(snapshot, {name: jobs or []}, {**known, **gone}, Ms(now), COMPATIBLE)
    return judge.assess(snapshot.instances[name]).next


def _named(snapshot: Snapshot) -> set[int]:
    records = (read(t, strict=False) for i in snapshot.instances.values() for t in i.tags)
    return {job for r in records if isinstance(r, Record) for job in r.jobs}


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


# Beside the run as a whole, an instance by itself at a time.


def test_the_first_step_is_that_of_harep_s_run() -> None:
    """But for the differences, each of which is looked for and met."""
    met: Counter[str] = Counter()
    for seed in range(600):
        whole = case(seed, instances=4).world
        for name, instance in whole.instances.items():
            alone = copy.deepcopy(whole)
            alone.instances = {name: copy.deepcopy(instance)}
            alone.spoiled, alone.refuses = {}, 0
            met[_agreement(alone)] += 1
    assert met["differs"] == 0, met
    for word in ("repair", "success", "failure", "enoperm", "nothing"):
        assert met[word] > 20, met
    for word in ("conflict", "vanished", "no job", "data kept", "enoperm again"):
        assert met[word] > 0, met


def _agreement(alone: luxi.World) -> str:
    """What both do, or why they do not do the same."""
    run = ours(Case(alone, (), Options(delay=0)))
    step = assess(alone, now=time.time_ns() // 1_000_000)
    line = next((li for li in run.lines if not li.startswith(("-", "Instance"))), "")
    if run.code:
        if isinstance(step, Nothing):
            return "conflict" if step.trouble else "differs"
        return "vanished"
    if any(json.loads(call)[:2] == ["QueryJobs", []] for call in run.calls):
        return "no job"  # which harep takes for all there are
    if line.startswith("Moving"):
        word = "failure" if line.endswith('"Failure"') else "success"
        return word if isinstance(step, Mark) and step.ending == Ending[word.upper()] else "differs"
    if line.startswith("Executing"):
        kind = RepairType[_upper(line.split()[1].removeprefix("Ar"))]
        if isinstance(step, Nothing) and kind is RepairType.REINSTALL:
            return "data kept"
        return "repair" if isinstance(step, Step) and step.kind is kind else "differs"
    if line.startswith("Not performing"):
        if isinstance(step, Nothing):
            return "data kept" if "stay" in step.why else "enoperm again"
        return "enoperm" if isinstance(step, Mark) and step.ending is Ending.ENOPERM else "differs"
    return "nothing" if isinstance(step, Nothing | Wait) else "differs"


def _upper(name: str) -> str:
    return {"FixStorage": "FIX_STORAGE"}.get(name, name.upper())


def test_no_change_of_tags_in_the_safe_mode_would_stop_harep() -> None:
    """Whoever wants it back may have it at any moment."""
    changed = 0
    for seed in range(400):
        snapshot = snapshot_of(case(seed, instances=4).world)
        jobs = dict.fromkeys(range(1, 26), Result((*Outcome,)[seed % len(Outcome)]))
        judge = Judge(snapshot, {}, jobs, Ms(time.time_ns() // 1_000_000), SAFE)
        for instance in snapshot.instances.values():
            found = judge.assess(instance).next
            if isinstance(as_harep(instance.tags), Conflict) or isinstance(found, Nothing | Wait):
                continue
            changed += 1
            after = instance.tags.difference(found.swap.remove).union(found.swap.add)
            assert not isinstance(as_harep(after), Conflict), (seed, instance, found)
    assert changed > 100


# What is put on and taken off.


def test_a_repair_takes_the_last_one_s_result_with_it() -> None:
    old = f"result:failover:{ONE}:1:success:5"
    assert told(assess(world(["failover", old], "P"))) == (
        f"failover +pending:failover:NEW:{AT}: -{old}"
    )


def test_a_pending_repair_ends_as_its_jobs_whatever_the_policy() -> None:
    pending = f"pending:failover:{ONE}:1:1+2"
    for policy in ("", "suspend", "reinstall"):
        tags = [pending, policy] if policy else [pending]
        for jobs, word in ((["success", "success"], "success"), (["success", "error"], "failure")):
            assert told(assess(world(tags, "P", jobs))) == (
                f"{word} +result:failover:{ONE}:{AT}:{word}:1+2 -{pending}"
            )
        assert told(assess(world(tags, "P", ["error", "running"]))).startswith(
            "wait: job 2 has not ended"
        )


def test_a_failure_blocks() -> None:
    tags = ["reinstall", f"result:failover:{ONE}:1:failure:1"]
    assert told(assess(world(tags, "P"))).startswith("nothing: a repair has failed: remove its tag")


# With jobs of ours, which the tag cannot name.

FAILOVER = MovePrimary("i1", "np", live=False, target="ns")
SWAP = Retag(Scope.INSTANCE, "i1", add=(f"{PREFIX}pending:failover:{ONE}:1:",))


def did(outcome: Outcome, ago: int = RETRY_AFTER) -> Ran:
    return Ran(7, ONE, Guarded(SWAP, FAILOVER), Result(outcome, "no luck"), NOW - ago)


def test_a_job_of_ours_judges_its_repair() -> None:
    pending = f"pending:failover:{ONE}:1:"
    it = world(["failover", pending], "P")
    failed = told(assess(it, [did(Outcome.ERROR)]))
    assert failed == f"failure +result:failover:{ONE}:{AT}:failure:7 -{pending}"
    it.instances["i1"].primary, it.instances["i1"].secondary = "ns", "np"
    done = told(assess(it, [did(Outcome.SUCCESS, ago=0)]))
    assert done == f"success +result:failover:{ONE}:{AT}:success:7 -{pending}"


def test_a_success_is_not_believed_before_it_can_be_seen() -> None:
    it = world(["failover", f"pending:failover:{ONE}:1:"], "P")
    assert told(assess(it, [did(Outcome.SUCCESS, ago=SHOWS - 1)])).startswith("wait: job 7 succee")
    assert told(assess(it, [did(Outcome.SUCCESS)])).startswith("success ")


def test_a_running_job_is_noted_and_waited_for() -> None:
    it = world(["failover", f"pending:failover:{ONE}:1:"], "P")
    assert told(assess(it, [did(Outcome.RUNNING)])).startswith("note +pending:")
    it.instances["i1"].tags = {PREFIX + "failover"}
    assert told(assess(it, [did(Outcome.RUNNING)])).startswith("wait: job 7 has not ended")


def test_what_was_rejected_is_not_asked_for_again_at_once() -> None:
    it = world(["failover"], "P")
    assert told(assess(it, [did(Outcome.ERROR, ago=1000)])).startswith("wait: next attempt in")
    assert isinstance(assess(it, [did(Outcome.ERROR)]), Step)


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
