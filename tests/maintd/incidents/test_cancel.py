"""What `cancel --undrain` refuses, and the command that helps instead."""

from nodeagent.maintd.incidents.cancel import cancel
from nodeagent.model.incident import Status
from nodeagent.model.ledger import Returning
from nodeagent.model.wish import Cancel
from tests.maintd.world import NOW, incident, ledger, node, six


def test_a_node_on_its_way_back_is_not_said_to_be_drained_by_others() -> None:
    one = incident("n2", status=Status.CANCELED)
    before = ledger(one, returning=(Returning(one.node, "ada", NOW),))
    why = cancel(before, Cancel(one.id, undrain=True), "root", six(node("n2", drained=True)), NOW)
    assert isinstance(why, str)
    assert why.startswith("nothing was changed: maintd puts n2 back already")
    assert "gnt-maint done --force n2" in why
