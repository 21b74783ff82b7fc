"""A fault whose details change faster than they settle is named, and worked on after a while."""

import pytest

from nodeagent.maintd.incidents.restless import differs
from nodeagent.model.diagnosis import Diagnosis
from nodeagent.model.ledger import Policy
from nodeagent.model.reason import Kind
from nodeagent.model.stage import FULL
from tests.maintd.decided import details, kinds
from tests.maintd.rig import Rig, fleet, mirrored
from tests.maintd.world import need


def said(**details: object) -> Diagnosis:
    return need("evacuate", details=details)


ONE = {"status": "evacuate", "details": {"count": 1}}
TWO = {"status": "evacuate", "details": {"count": 2}}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (said(count=1), said(count=2), "its command at /details/count"),
        (said(smart=ONE), said(smart=TWO), "command smart at /details/count"),
        (said(smart=ONE), said(lvm=ONE), "its command at /details"),
        (said(**{"a/b": 1}), said(**{"a/b": 2}), "its command at /details/a~1b"),
        (said(count=1), said(count=1.0), "its command"),
        (said(count=[1]), said(count=7), "its command at /details/count"),
    ],
)
def test_whose_details_change_and_where(old: Diagnosis, new: Diagnosis, expected: str) -> None:
    assert differs(old, new) == expected


def test_details_that_always_change_are_named_and_worked_on_after_five_times_settle() -> None:
    """n3 asks for the same with another number every 30 s."""
    rig, named, begun = Rig(fleet(), mirrored(("n3", "n4")), Policy(stage=FULL)), [], []
    for count in range(90):
        rig.agents.says["n3"] = said(count=count // 3)
        done = rig.tick()
        if (Kind.NEVER_SETTLES, "n3") in kinds(done.decision.held):
            told = details(done.decision.held, Kind.NEVER_SETTLES)
            assert told["whose"] == "its command at /details/count"
            named.append(count)
        if rig.cluster.jobs:
            begun.append(count)
    assert named == list(range(6, 30)), "after the second change"
    assert begun[0] == 30, "300 s after it asked first"
    assert rig.cluster.nodes["n3"].offline
