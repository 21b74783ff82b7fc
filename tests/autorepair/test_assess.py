"""All instances at once: which are told of, how each is counted, and whose nodes permit nothing."""

import pytest

from nodeagent.autorepair.assess import Assessment, Judge
from nodeagent.autorepair.rules import HAREP, SAFE
from nodeagent.autorepair.steps import Nothing, Wait
from nodeagent.autorepair.tags import PREFIX
from nodeagent.model.action import Retag, Scope
from nodeagent.model.units import Ms
from tests.autorepair.one import world
from tests.autorepair.worlds import snapshot_of

NOW = Ms(1_700_000_000_000)
PENDING, FAILED = "pending:failover:x:1:", "result:failover:x:1:failure:"


def judge(tags: list[str], health: str, mode: str = "safe") -> Judge:
    rules = SAFE if mode == "safe" else HAREP
    return Judge(snapshot_of(world(tags, health)), {}, {}, NOW, rules)


def assessed(tags: list[str], health: str) -> Assessment:
    found = judge(tags, health)
    return found.assess(found.snapshot.instances["i1"])


@pytest.mark.parametrize(
    ("tags", "health", "word", "wanted"),
    [
        ([], "ok", "Healthy", False),
        ([], "P", "Needs repair", False),
        (["failover"], "P", "Pending repair", True),
        (["Failover"], "P", "Needs repair", True),
        (["suspend"], "P", "Needs repair", False),
        (["suspend", PENDING], "P", "Pending repair", True),
        (["migrate"], "P", "Needs repair", True),
        ([PENDING], "P", "Pending repair", True),
        ([PENDING], "ok", "Healthy", True),
        ([FAILED], "P", "Failure", True),
        ([FAILED], "ok", "Failure", True),
        (["pending"], "ok", "Healthy", True),
    ],
)
def test_an_instance_counts_as_what_it_is_after_its_next_step(
    tags: list[str], health: str, word: str, wanted: bool
) -> None:
    found = assessed(tags, health)
    assert (found.word, found.wanted) == (word, wanted)


@pytest.mark.parametrize(
    ("tags", "health", "rows"),
    [([], "ok", 0), (["failover"], "ok", 0), ([], "P", 1), ([PENDING], "ok", 1)],
)
def test_a_survey_tells_of_those_that_are_not_simply_healthy(
    tags: list[str], health: str, rows: int
) -> None:
    surveyed = judge(tags, health).survey()
    assert (len(surveyed.rows), surveyed.well) == (rows, 1 - rows)


def test_a_node_that_maintd_itself_took_out_permits_no_repair() -> None:
    assert judge(["failover"], "P").survey({"np": "maintd's"}).rows == []
    for node, waits in (("np", True), ("ns", True), ("n0", False)):
        (row,) = judge([PENDING], "P").survey({node: "maintd's"}).rows
        assert (row.next == Wait("maintd's")) is waits
    (row,) = judge(["suspend"], "P").survey({"n0": "maintd's"}).rows
    assert isinstance(row.next, Nothing)


def test_only_safely_a_suspension_that_is_over_is_removed() -> None:
    old = "suspend:1"
    gone = Retag(Scope.INSTANCE, "i1", remove=(PREFIX + old,))
    assert list(judge([old], "ok").survey().expired) == [gone]
    assert list(judge([old], "ok", "compatible").survey().expired) == []
