"""A cancel, by request or by a tag that is taken off by hand."""

from dataclasses import replace

import pytest

from nodeagent.model.incident import Status
from nodeagent.model.wish import Cancel
from tests.maintd.rig import Rig, fleet, mirrored
from tests.maintd.rounds import broken, moved, ticks
from tests.maintd.world import EVACUATE, OK


def test_a_cancel_by_hand_is_honoured_in_the_next_round() -> None:
    rig = broken(settle=60_000)
    identity = rig.incident("n3").id
    rig.cluster.tag("n3", f"maintd:canceled:{identity}")
    ticks(rig, 20)
    assert rig.status("n3") is Status.CANCELED
    assert not moved(rig)
    assert rig.cluster.nodes["n3"].tags == {f"maintd:canceled:{identity}"}


# One that has ended.


def ended(status: Status) -> Rig:
    """n3's evacuation has ended; the node is polled, and still reports the fault."""
    rig = Rig(fleet(), mirrored(("n3", "n4")))
    rig.cluster.fails = lambda action: status is Status.FAILED and "MovePrimary" in str(action)
    rig.agents.says["n3"] = EVACUATE
    rig.settle()
    rig.cluster.fails = lambda _: False
    assert rig.status("n3") is status
    rig.cluster.put(replace(rig.cluster.nodes["n3"], offline=False, drained=False))
    rig.tick()
    return rig


@pytest.mark.parametrize(
    ("status", "by_tag", "forgets"),
    [
        (Status.COMPLETED, False, True),
        (Status.FAILED, True, False),
    ],
)
def test_an_ended_incident_is_ignored_once_somebody_cancels_it(
    status: Status, *, by_tag: bool, forgets: bool
) -> None:
    rig = ended(status)
    incident = rig.incident("n3")
    if by_tag:
        rig.cluster.tag("n3", f"maintd:canceled:{incident.id}")
    else:
        rig.wish(Cancel(incident.id))
    assert rig.tick().decision.refused == {}
    assert rig.status("n3") is Status.CANCELED
    ticks(rig, 3)
    if forgets:
        rig.lose_ledger()
        ticks(rig, 3)
    count = len(rig.cluster.jobs)
    ticks(rig, 50)
    assert len(rig.cluster.jobs) == count, "nothing more is done"
    assert (rig.incident("n3").id, rig.status("n3")) == (incident.id, Status.CANCELED)
    assert rig.cluster.nodes["n3"].tags == {f"maintd:canceled:{incident.id}"}
    rig.agents.says["n3"] = OK
    ticks(rig, 4)
    assert not rig.ledger.incidents
    assert not rig.cluster.nodes["n3"].tags
    rig.agents.says["n3"] = EVACUATE
    rig.tick()
    assert rig.incident("n3").id != incident.id, "the next time it is a new one"
