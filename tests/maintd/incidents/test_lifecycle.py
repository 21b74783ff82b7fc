"""What ends an incident, and what only seems to."""

from nodeagent.maintd.deciding.decide import decide
from nodeagent.model.action import MovePrimary, SetOffline
from nodeagent.model.incident import Status
from nodeagent.model.ledger import Intent, Outcome
from nodeagent.model.purpose import OfIncident
from tests.maintd.decided import POLICY, new
from tests.maintd.world import EVACUATE, NOW, incident, ledger, node, seen, six


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
