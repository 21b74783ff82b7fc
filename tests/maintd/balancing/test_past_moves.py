"""Moves that failed halt the balancing until somebody acknowledges them."""

from dataclasses import replace

from nodeagent.maintd.balancing import past_moves
from nodeagent.maintd.planning.tag_place import Place
from nodeagent.model.action import MovePrimary, Retag, Scope
from nodeagent.model.ledger import Ledger, Outcome, Result, Trail
from nodeagent.model.snapshot import Snapshot
from nodeagent.model.units import Ms
from tests.maintd.balancing.test_plan import world
from tests.maintd.world import NOW


def remembered(there: Snapshot, *more: Trail, ended: int = NOW - 1000) -> Ledger:
    """A migration of `a` has failed; `more` came after it."""
    action = MovePrimary("a", "n1", True, "n2", fallback=False)
    result = Result(Outcome.ERROR, "told so")
    failed = Trail("5", "balance:default:5", action, result, NOW - 50_000, Ms(ended))
    trails, halts = past_moves.recalled(Ledger(), [failed, *more], there, NOW)
    return Ledger(shifted=trails, halts=halts)


def tagging(*tags: str) -> Trail:
    action = Retag(Scope.GROUP, "default", tags)
    return Trail("6", "maintd:6", action, Result(Outcome.SUCCESS), NOW - 500, NOW - 400)


def test_a_failure_halts_until_it_is_acknowledged_also_without_a_ledger() -> None:
    tag = "maintd:balancefailed:5"
    assert [halt.job for halt in remembered(world()).halts] == ["5"]
    assert remembered(world(tags=[tag]), tagging(tag)).halts, "the tag is there still"
    assert not remembered(world(), tagging(tag)).halts, "somebody has removed it"
    assert remembered(world(), tagging("maintd:balance:yes")).halts
    assert not remembered(world(c=("n4", "n5"))).halts, "its instance is gone"
    assert remembered(world()).shifted


def test_a_failure_whose_tag_was_lost_halts_and_is_told_again() -> None:
    tag = "maintd:balancefailed:5"
    gone = [Place(Scope.GROUP, "default", tag)]
    action = MovePrimary("a", "n1", True, "n2", fallback=False)
    failed = Trail("5", "balance:default:5", action, Result(Outcome.ERROR), NOW - 900, NOW - 800)
    trails = [failed, tagging(tag)]
    _, halts = past_moves.recalled(Ledger(), trails, world(), NOW, gone)
    assert [halt.job for halt in halts] == ["5"]
    known = Ledger(shifted=(failed,), halts=(replace(halts[0], tag_seen=True),))
    _, halts = past_moves.recalled(known, trails, world(), NOW, gone)
    assert [(halt.job, halt.tag_seen) for halt in halts] == [("5", False)]


def test_what_is_a_day_old_is_over_also_without_a_ledger() -> None:
    old = remembered(world(), ended=NOW - 86_400_000)
    assert (old.shifted, old.halts) == ((), ())
