"""How long a gain must last before it is moved for, and what breaks it."""

from dataclasses import replace

import pytest

from nodeagent.maintd.balancing.plan import DOUBTED, FRESH
from nodeagent.model.balance import Agenda, Lopsided
from nodeagent.model.ledger import Ledger
from nodeagent.model.reason import BalanceKind
from nodeagent.model.units import Ms
from tests.maintd.balancing.world import ON, OVER, advised, begun, done, why, world
from tests.maintd.decided import details
from tests.maintd.world import NOW, seen

SLOW = replace(ON, balance_settle=Ms(600_000), balance_load=True)
DOUBT = "the load of n2 is measured for 200 s more"


def test_a_gain_that_is_one_only_without_the_load_must_last_by_itself() -> None:
    """After a round of moves nothing is measured for a while: all count the same then."""
    by_load = Ledger(lopsided=(Lopsided("default", NOW - 3_600_000, NOW - 60_000),))
    first = done(seen(world(), advice=advised(OVER, doubt=DOUBT)), by_load, SLOW)
    assert not begun(first)
    said = details([why(first)], BalanceKind.NOT_LASTING)
    assert (said["doubt"], said["left"]) == (DOUBT, 600_000)
    later = NOW + 300_000
    known = done(seen(world(), advice=advised(OVER, at=later)), first.ledger, SLOW, later)
    assert not begun(known), "it is another gain"
    assert known.ledger.lopsided == (Lopsided("default", later, later),)
    later = NOW + 600_000
    doubted = advised(OVER, at=later, doubt=DOUBT)
    assert begun(done(seen(world(), advice=doubted), first.ledger, SLOW, later))


@pytest.mark.parametrize("asked", [False, True], ids=["by itself", "as asked"])
def test_doubt_about_the_load_is_waited_out_however_quick_the_settings(asked: bool) -> None:
    quick = replace(SLOW, balance_settle=Ms(0))
    agenda = (Agenda("default", "ada", NOW),) if asked else ()
    before = Ledger(agenda=agenda)
    first = done(seen(world(), advice=advised(OVER, doubt=DOUBT)), before, quick)
    assert not begun(first)
    later = NOW + DOUBTED
    second = seen(world(), advice=advised(OVER, at=later, doubt=DOUBT))
    assert begun(done(second, first.ledger, quick, later))
    assert begun(done(seen(world(), advice=advised(OVER)), before, quick)), "what is known is not"


def test_a_gain_that_nobody_has_looked_at_for_long_begins_anew() -> None:
    """maintd was stopped, its search hung, or somebody has put the clock forward."""
    first = done(seen(world(), advice=advised(OVER)), policy=SLOW)
    for gap, expected in ((FRESH - 1, 1), (FRESH, 0)):
        later = NOW + gap
        again = done(seen(world(), advice=advised(OVER, at=later)), first.ledger, SLOW, later)
        assert len(begun(again)) == expected
