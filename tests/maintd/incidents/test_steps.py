"""A live repair that names no command: a person repairs the node, which runs on."""

from nodeagent.model.incident import Status
from nodeagent.model.reason import Kind, because
from tests.maintd.rig import Rig, fleet, mirrored
from tests.maintd.world import OK, need

BY_HAND = need("live-repair", details={"fan": 3})


def test_a_live_repair_without_a_command_is_an_incident_that_waits_for_a_person() -> None:
    """Nothing is begun, marked, tagged or ordered, for as long as it takes."""
    rig = Rig(fleet(), mirrored(("n3", "n4")))
    rig.agents.says["n4"] = BY_HAND
    for _ in range(30):
        done = rig.tick(60)
    one = rig.incident("n4")
    assert one.status is Status.NOTED
    (held,) = done.decision.held
    assert (held.node, held.incident) == ("n4", one.id)
    assert held.why == because(Kind.NO_COMMAND, "n4", incident=one.id)
    assert held.why.help == f"gnt-maint cancel {one.id}"
    assert (rig.jobs(), rig.agents.ran) == ([], {})
    rig.agents.says["n4"] = OK
    rig.settle()
    assert rig.ledger.incidents == ()
