"""What ends an incident, and what only seems to."""

from nodeagent.maintd.deciding.decide import decide
from nodeagent.model.action import MovePrimary, MoveSecondary, SetOffline
from nodeagent.model.incident import Status
from nodeagent.model.ledger import Intent, Outcome
from nodeagent.model.purpose import OfIncident
from nodeagent.model.snapshot import Instance
from tests.maintd.decided import POLICY, new
from tests.maintd.rig import Rig, fleet, mirrored
from tests.maintd.rounds import broken
from tests.maintd.world import EVACUATE, NOW, OK, incident, ledger, node, seen, six


def mend(rig: Rig) -> None:
    """An administrator repairs n3, acknowledges it and puts it back into service."""
    rig.cluster.untag("n3", *rig.cluster.nodes["n3"].tags)
    rig.cluster.undrain("n3")
    rig.agents.says["n3"] = OK
    rig.settle()


def test_what_was_completed_and_acknowledged_answers_for_no_new_fault() -> None:
    rig = broken()
    rig.settle()
    mend(rig)
    assert not rig.ledger.incidents
    rig.time += 3 * 86_400
    rig.agents.says["n3"] = EVACUATE
    rig.cluster.put(Instance("i9", "n3", "n4", memory=100, disk=100))
    rig.lose_ledger()
    rig.settle()
    assert rig.status("n3") is Status.COMPLETED
    assert rig.cluster.nodes["n3"].offline
    assert "n3" not in (rig.cluster.instances["i9"].primary, rig.cluster.instances["i9"].secondary)


def test_what_follows_a_move_is_not_void_because_the_move_has_succeeded() -> None:
    """Its answer was lost and it arrives late: planned anew, the mirror moved twice."""
    rig = Rig(fleet(), mirrored(("n3", "n4")))
    rig.agents.says["n3"] = EVACUATE
    rig.cluster.grace = 60.0
    rig.cluster.loses_answer = lambda action: isinstance(action, MoveSecondary)
    rig.cluster.arrives = lambda _: 20.0
    for _ in range(40):
        rig.tick(5.0)
    mirrors = [j for j in rig.cluster.jobs.values() if isinstance(j.action, MoveSecondary)]
    assert len(mirrors) == 1
    assert rig.status("n3") is Status.COMPLETED


def test_a_failure_is_told_at_once_though_what_depended_on_it_ends_badly_too() -> None:
    rig = Rig(fleet(), mirrored(("n3", "n4")))
    rig.agents.says["n3"] = EVACUATE
    rig.cluster.fails = lambda action: isinstance(action, MovePrimary)
    for _ in range(5):
        rig.tick(5.0)
    assert rig.cluster.nodes["n3"].tags == {rig.incident("n3").tag}
    assert rig.status("n3") is Status.FAILED


def test_a_move_of_an_instance_that_was_just_removed_is_no_failure() -> None:
    """Ganeti takes the disks off first: for a moment a plain instance could go anywhere."""
    one = incident(status=Status.PENDING, drained=True)
    move = Intent(
        "1", OfIncident(one.id), "n1", MovePrimary("a", "n1", live=True, target="n3"), "7"
    )
    there, gone = six(node("n1", drained=True), a=("n1", None)), six(node("n1", drained=True))
    before = ledger(one, intents=(move,))
    failed = {"1": Outcome.ERROR}
    over = decide(before, seen(gone, {"n1": EVACUATE}, results=failed), POLICY, NOW)
    assert new(over) == [SetOffline("n1")]
    still = decide(before, seen(there, {"n1": EVACUATE}, results=failed), POLICY, NOW)
    assert still.ledger.incidents[0].status is Status.FAILED
