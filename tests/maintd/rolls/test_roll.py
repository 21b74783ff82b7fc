"""Rolling maintenance on a whole coordinator: nodes leave, run their command, and return."""

from collections import Counter
from dataclasses import replace

import pytest

from nodeagent.model.action import MovePrimary
from nodeagent.model.roll import Phase
from nodeagent.model.wish import CancelRoll, StartRoll
from tests.maintd.rig import QUICK, Rig, ask, fleet, mirrored
from tests.maintd.rolls.rolling import TERMS, away, go_on, phases, rebooted, rig, start


def test_all_nodes_reboot_one_by_one_in_their_order_and_all_return() -> None:
    one = rig()
    start(one, "n3", "n2", "n6")
    assert go_on(one) == 1
    assert rebooted(one) == ["n3", "n2", "n6"]
    assert set(phases(one).values()) == {Phase.DONE}
    assert (away(one), one.ledger.outages, one.ledger.intents) == (set(), (), ())


@pytest.mark.parametrize(("moves", "each"), [(20, 5), (4, 2), (1, 1)])
def test_nodes_that_leave_together_share_the_moves(moves: int, each: int) -> None:
    """Else the jobs of the first would fill Ganeti's queue, where they wait for each other."""
    leaving = ("n2", "n3", "n4", "n5")
    places = [(node, f"n{6 + n}") for n, node in enumerate(leaving) for _ in range(9)]
    one = Rig(fleet(9), mirrored(*places), replace(QUICK, moves=moves))
    one.cluster.takes = lambda action: 1000.0 if isinstance(action, MovePrimary) else 1.0
    one.tick()
    start(one, *leaving, terms=replace(TERMS, at_once=4, keep_secondaries=True))
    for _ in range(5):
        one.tick()
    moving = [i.node for i in one.ledger.intents if isinstance(i.action, MovePrimary)]
    assert Counter(moving) == dict.fromkeys(leaving, each)


def test_names_groups_tags_and_patterns_choose_the_nodes() -> None:
    nodes = [replace(node, group="gold") if node.name in ("n5", "n6") else node for node in fleet()]
    one = Rig(nodes, mirrored(("n2", "n3")), QUICK)
    one.tick()
    one.cluster.tag("n4", "rack:7")
    start(one, "n[23]", "n6")
    assert list(phases(one)) == ["n2", "n3", "n6"]
    ask(one, CancelRoll())
    go_on(one)
    assert ask(one, StartRoll(TERMS, tags=("rack:7",), groups=("gold",))) == ""
    assert list(phases(one)) == ["n5", "n6", "n4"]
