"""A cancel, by request or by a tag that is taken off by hand."""

import pytest

from nodeagent.model.action import Retag
from nodeagent.model.incident import Status
from nodeagent.model.snapshot import Instance
from nodeagent.model.wish import Cancel
from tests.maintd.rounds import broken, moved, ticks


def test_a_cancel_by_hand_is_honoured_in_the_next_round() -> None:
    rig = broken(settle=60_000)
    identity = rig.incident("n3").id
    rig.cluster.tag("n3", f"maintd:canceled:{identity}")
    ticks(rig, 20)
    assert rig.status("n3") is Status.CANCELED
    assert not moved(rig)
    assert rig.cluster.nodes["n3"].tags == {f"maintd:canceled:{identity}"}


@pytest.mark.parametrize("runs", [False, True])
def test_a_cancel_whose_tag_could_not_be_set_is_one_without_the_ledger_too(runs: bool) -> None:
    rig = broken()
    rig.cluster.put(Instance("p1", "n3", template="plain"))
    ticks(rig, 10)
    identity = rig.incident("n3").id
    rig.cluster.fails = lambda action: isinstance(action, Retag)
    rig.cluster.takes = lambda _: 15.0
    rig.wish(Cancel(identity))
    ticks(rig, 1 if runs else 3)
    rig.lose_ledger()
    rig.cluster.remove_instance("p1")
    ticks(rig, 5)
    rig.cluster.fails = lambda _: False
    rig.settle()
    assert rig.status("n3") is Status.CANCELED
    assert rig.cluster.nodes["n3"].tags == {f"maintd:canceled:{identity}"}
    assert not rig.cluster.nodes["n3"].offline
