"""Rolling maintenance on a whole coordinator: nodes leave, run their command, and return."""

from nodeagent.model.roll import Phase
from tests.maintd.rolls.rolling import away, go_on, phases, rebooted, rig, start


def test_all_nodes_reboot_one_by_one_in_their_order_and_all_return() -> None:
    one = rig()
    start(one, "n3", "n2", "n6")
    assert go_on(one) == 1
    assert rebooted(one) == ["n3", "n2", "n6"]
    assert set(phases(one).values()) == {Phase.DONE}
    assert (away(one), one.ledger.outages, one.ledger.intents) == (set(), (), ())
