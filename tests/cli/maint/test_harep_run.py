"""A run of the compatible mode: harep's decision table, its recorded answers, and harep itself."""

import json
import re
from itertools import product
from typing import Any

import pytest

from nodeagent.autorepair import health as health_rules
from nodeagent.autorepair.tags import PREFIX, Ending
from nodeagent.cli.maint.harep_run import Options
from tests import needs
from tests.autorepair import luxi
from tests.autorepair.one import ONE, TWO, world
from tests.autorepair.worlds import Case, Outcome, case, differences, ours
from tests.htools import beside

SHORT = {
    "OP_TEST_DELAY": "delay",
    "OP_INSTANCE_FAILOVER": "failover",
    "OP_INSTANCE_REPLACE_DISKS": "replace",
    "OP_INSTANCE_RECREATE_DISKS": "recreate",
    "OP_INSTANCE_REINSTALL": "reinstall",
}


def did(outcome: Outcome) -> list[str]:
    """The jobs in short: `recreate reinstall`, `+pending:…`, `-result:… -result:…`."""
    said = []
    for call in map(json.loads, outcome.calls):
        if call[0] != "QueryJobs":
            said.append(" ".join(word for op in call for word in _short(op)))
    return said


def _short(op: dict[str, Any]) -> list[str]:
    sign = {"OP_TAGS_SET": "+", "OP_TAGS_DEL": "-"}.get(op["OP_ID"])
    if sign is None:
        return [SHORT[op["OP_ID"]]]
    return [sign + tag.removeprefix(PREFIX) for tag in op["tags"]]


def after(it: luxi.World) -> Outcome:
    return ours(Case(it, (), Options(0.0, "", dry=False)))


NEED = {"S": "fix-storage", "P": "failover", "B": "reinstall"}
JOB = {"S": "replace", "P": "failover", "B": "recreate reinstall"}
ORDER = ("fix-storage", "migrate", "failover", "reinstall")
FUTURE = 4_000_000_000
NEW = "+pending:failover:<id 4>:<now>:1000"


def expected(policy: str, health: str, old: str = "") -> list[str]:
    """4.1: what is done to an instance that no repair is pending for."""
    if policy not in ORDER or health == "ok":
        return []
    need = NEED[health]
    gone = [f"-{old}"] if old else []
    if ORDER.index(need) > ORDER.index(policy):
        return [f"+result:{need}:<id 4>:<now>:enoperm:", *gone]
    return [JOB[health], f"+pending:{need}:<id 4>:<now>:1000", *gone]


HEALTHS = ("ok", *NEED)
POLICIES = ("", "suspend", *ORDER)


@pytest.mark.parametrize("old", ["", "success", "enoperm"])
def test_no_repair_is_pending(old: str) -> None:
    """4.1 and the first two rows of 4.3."""
    result = f"result:failover:{ONE}:1:{old}:" if old else ""
    for health, policy in product(HEALTHS, (*POLICIES, f"suspend:{FUTURE}")):
        outcome = after(world([tag for tag in (policy, result) if tag], health))
        acted = did(outcome)
        assert (outcome.code, acted) == (0, expected(policy, health, result)), (health, policy)
        state = "Needs repair" if acted and "enoperm" in acted[0] else "Pending repair"
        assert outcome.lines[-1] == f"{state if acted else 'Healthy'}: 1", (health, policy)


def test_a_failure_blocks_everything() -> None:
    """4.3, last row."""
    for health, policy in product(HEALTHS, POLICIES):
        tags = [tag for tag in (policy, f"result:fix-storage:{ONE}:1:failure:5") if tag]
        outcome = after(world(tags, health))
        assert (did(outcome), outcome.lines[-1]) == ([], "Failure: 1"), (health, policy)


@pytest.mark.parametrize(
    ("jobs", "ending"),
    [
        (["queued"], None),
        (["waiting"], None),
        (["canceling"], None),
        (["running"], None),
        (["error", "running"], None),
        (["success"], "success"),
        (["success", "success"], "success"),
        (["error"], "failure"),
        (["canceled"], "failure"),
        (["success", "error"], "failure"),
    ],
)
def test_a_repair_is_pending(jobs: list[str], ending: str | None) -> None:
    """4.2: judged by its jobs, whatever the policy; after a success as if none had been."""
    listed = "+".join(str(n) for n, _ in enumerate(jobs, 1))
    pending = f"pending:migrate:{ONE}:1:{listed}"
    result = f"result:migrate:{ONE}:<now>:{ending}:{listed}"
    done = [] if ending is None else [f"+{result}", f"-{pending}"]
    for health, policy in product(HEALTHS, POLICIES):
        outcome = after(world([tag for tag in (policy, pending) if tag], health, jobs))
        more = [] if ending != "success" else expected(policy, health, result)
        # Numbers of jobs begin at 1000, and the two tag jobs have taken the first.
        wanted = done + [line.replace(":1000", ":1002") for line in more]
        assert did(outcome) == wanted, (health, policy)
        if ending is None:
            assert outcome.lines[-1] == "Pending repair: 1"


@pytest.mark.parametrize(
    ("queue", "ending"),
    [([], "success"), (["running"], None), (["error"], "failure"), (["success"], "success")],
)
def test_without_jobs_of_its_own_all_of_the_cluster_s_judge_it(
    queue: list[str], ending: str | None
) -> None:
    """4.2, last row."""
    pending = f"pending:failover:{ONE}:1:"
    result = f"+result:failover:{ONE}:<now>:{ending}:"
    outcome = after(world([pending], "ok", queue))
    assert did(outcome) == ([] if ending is None else [result, f"-{pending}"])


def test_a_job_that_is_gone_ends_the_run() -> None:
    """4.2: the instance after it is not looked at any more."""
    it = world(["failover", f"pending:failover:{ONE}:1:7"], "P")
    it.instances["i2"] = luxi.Instance("np", "ns", tags={PREFIX + "failover"})
    outcome = after(it)
    assert (outcome.code, did(outcome), outcome.lines) == (1, [], ())


@pytest.mark.parametrize("states", [[[None]], [[]], [["dancing"]], [[["success"]]], [7], "x", {}])
def test_a_state_that_makes_no_sense_ends_the_run(states: object) -> None:
    class Odd(luxi.World):
        def answer(self, method: str, args: list[Any]) -> Any:
            return states if method == "QueryJobs" else super().answer(method, args)

    it = world([f"pending:failover:{ONE}:1:1"], "P", ["success"])
    it.__class__ = Odd
    assert after(it).code == 1


@pytest.mark.parametrize(
    ("tags", "jobs", "done", "state"),
    [
        pytest.param(
            [f"pending:failover:{ONE}:1:1", f"result:failover:{ONE}:2:success:1"],
            ["success"],
            ["failover", NEW, f"-result:failover:{ONE}:2:success:1"],
            "Pending repair",
            id="pending + success of one repair: the pending tag is left behind",
        ),
        pytest.param(
            [f"pending:failover:{ONE}:1:1", f"result:failover:{ONE}:2:failure:1"],
            ["success"],
            [],
            "Failure",
            id="pending + failure of one repair",
        ),
        pytest.param(
            [f"result:failover:{ONE}:1:success:1", f"pending:failover:{TWO}:2:2"],
            ["success", "error"],
            [
                f"+result:failover:{TWO}:<now>:failure:2",
                f"-pending:failover:{TWO}:2:2 -result:failover:{ONE}:1:success:1",
            ],
            "Failure",
            id="an older success goes with the pending tag",
        ),
        pytest.param(
            [f"pending:failover:{ONE}:1:1", f"pending:failover:{ONE}:2:2"],
            ["success", "running"],
            [],
            "Pending repair",
            id="two pending tags of one repair: the later one's jobs",
        ),
        pytest.param(
            [f"result:failover:{ONE}:1:failure:1", f"pending:failover:{TWO}:2:2"],
            ["error", "success"],
            [],
            "Failure",
            id="failure, then pending: ignored",
        ),
        pytest.param(
            [f"result:failover:{ONE}:1:success:1", f"result:failover:{TWO}:2:success:2"],
            [],
            [
                "failover",
                NEW,
                f"-result:failover:{TWO}:2:success:2 -result:failover:{ONE}:1:success:1",
            ],
            "Pending repair",
            id="two successes go in one",
        ),
        pytest.param(
            [f"result:failover:{ONE}:1:success:1", f"result:failover:{ONE}:2:enoperm:"],
            [],
            [
                "failover",
                NEW,
                f"-result:failover:{ONE}:1:success:1",
            ],
            "Pending repair",
            id="success beats a later enoperm, which is left behind",
        ),
        pytest.param(
            [f"result:failover:{ONE}:1:failure:1", f"result:failover:{TWO}:2:failure:2"],
            [],
            [],
            "Failure",
            id="two failures",
        ),
        pytest.param(
            [f"pending:failover:{ONE}:1"],
            [],
            ["failover", NEW],
            "Pending repair",
            id="malformed: as if it were not there",
        ),
    ],
)
def test_several_tags(tags: list[str], jobs: list[str], done: list[str], state: str) -> None:
    """4.4, the instance's primary node being offline and failover allowed."""
    outcome = after(world(["failover", *tags], "P", jobs))
    assert (outcome.code, did(outcome), outcome.lines[-1]) == (0, done, f"{state}: 1")


@pytest.mark.parametrize(
    "other",
    ["pending:failover:{}:2:", *(f"result:failover:{{}}:2:{e.word}:" for e in Ending)],
)
def test_any_repair_beside_an_older_pending_one_is_fatal(other: str) -> None:
    """4.4: even to the instances before it."""
    it = world([f"pending:failover:{ONE}:1:1", other.format(TWO)], "P", ["success"])
    it.instances = {"i0": luxi.Instance("np", "ns", tags={PREFIX + "failover"}), **it.instances}
    outcome = after(it)
    assert (outcome.code, did(outcome), outcome.lines) == (1, [], ())


def test_a_mirrored_instance_without_a_mirror_ends_the_run_where_it_stands() -> None:
    it = world(["failover"], "P")
    it.instances["i2"] = luxi.Instance("n0", None, "drbd")
    it.instances["i3"] = luxi.Instance("np", "ns", tags={PREFIX + "failover"})
    outcome = after(it)
    assert outcome.code == 1
    assert did(outcome) == ["failover", NEW]


# The real one.

RECORDED = needs.SHARED / "harep-oracle/golden1.json"
needs_harep = beside("harep")


@needs.mark("shared/harep-oracle")
def test_it_answers_as_was_recorded() -> None:
    names = {"healthy": "ok", "pri-off": "P", "sec-off": "S", "both-off": "B"}
    rows: list[dict[str, Any]] = json.loads(RECORDED.read_text())
    assert rows
    for row in rows:
        found = re.fullmatch(r"(\S+) (\S+) policy=(\S+)", row["name"])
        assert found is not None
        template, health, policy = found.groups()
        tags = [] if policy == "none" else [policy]
        outcome = ours(
            Case(world(tags, names[health], template=template), (), Options(10.0, "", dry=False))
        )
        said = [line for line in map(_as_recorded, outcome.lines) if _tells(line)]
        assert (outcome.code, said) == (row["rc"], row["stdout"]), row["name"]
        jobs = [[op["OP_ID"], *op.get("tags", [])] for c in outcome.calls for op in json.loads(c)]
        theirs = [words.split(" ") for c in row["calls"] if isinstance(c, list) for words in c]
        assert [[_as_recorded(w.removeprefix(PREFIX)) for w in job] for job in jobs] == theirs
        ((_, left),) = outcome.tags
        assert sorted(_as_recorded(tag.removeprefix(PREFIX)) for tag in left) == sorted(
            row["tags_after"]
        )


def _as_recorded(text: str) -> str:
    return text.replace("<id 4>", "<NEW-UUID>").replace("<now>", "<NOW>")


def _tells(line: str) -> bool:
    return not line.startswith("----") and line != "Instance status count"


@needs_harep
def test_the_real_one_does_the_same_to_fifty_clusters() -> None:
    """A sample of what `make oracle` asks. The worlds are always the same ones."""
    cases = [case(seed) for seed in range(50)]
    for number, theirs, our in differences(cases, at_once=48):
        pytest.fail(f"world {number}\nharep: {theirs}\nours:  {our}")


@needs_harep
def test_the_comparison_can_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health_rules, "harep_needs", lambda *_: None)
    assert len(list(differences([case(seed) for seed in range(30)], at_once=30))) > 5
