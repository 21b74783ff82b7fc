"""Moves that operators ask for: of one group, and there and back."""

from dataclasses import replace

from nodeagent.model.action import MovePrimary
from nodeagent.model.balance import Agenda
from nodeagent.model.ledger import Ledger, Policy
from nodeagent.model.reason import Kind
from nodeagent.model.snapshot import Group
from nodeagent.model.wish import Balance, Wish
from tests.maintd.balancing.test_plan import OVER, begun, done, shift, world
from tests.maintd.decided import kinds
from tests.maintd.world import NOW, node, seen


def test_what_is_asked_for_there_and_back_is_done_there_and_back() -> None:
    back = shift("a", "n2:n1", "n1:n2")
    before, moved = Ledger(agenda=(Agenda("default", "ada", NOW, (OVER, back), True),)), 0
    there = world()
    for now in range(NOW, NOW + 3):
        decision = done(seen(there), before, Policy(), now)
        for intent in begun(decision):
            assert isinstance(intent.action, MovePrimary)
            there = world(a=(intent.action.target, intent.action.node))
            moved += 1
        before = replace(decision.ledger, intents=())
    assert moved == 2
    assert not before.agenda


def test_no_list_reaches_into_another_group() -> None:
    there = world(node("n6", group="other"), a=("n1", "n2"))
    there = replace(there, groups={**there.groups, "other": Group("other", "other")})
    wish = (Wish("w", "ada", NOW, Balance("default", (shift("a", "n1:n2", "n1:n6"),))),)
    decision = done(seen(there, wishes=wish), policy=Policy())
    assert decision.refused["w"] == "move 1: n6 is not a node of group default"


def test_what_was_asked_for_a_group_that_is_gone_is_forgotten() -> None:
    left = Ledger(agenda=(Agenda("gone", "ada", NOW), Agenda("default", "ada", NOW)))
    decision = done(seen(world()), left, Policy())
    assert [agenda.group for agenda in decision.ledger.agenda] == ["default"]


def test_what_is_asked_for_a_group_of_one_node_says_what_is_missing() -> None:
    there = world(node("n6", group="small"))
    there = replace(there, groups={**there.groups, "small": Group("small", "small")})
    decision = done(seen(there), Ledger(agenda=(Agenda("small", "ada", NOW),)), Policy())
    assert kinds(decision.held) == [(Kind.NOT_BALANCED, "small"), (Kind.FEW_NODES, "small")]
