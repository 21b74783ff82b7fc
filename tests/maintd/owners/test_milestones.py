"""Owners are told for an hour what became of what they were asked."""

from nodeagent.maintd.owners import milestones
from nodeagent.model.ledger import Ledger
from nodeagent.model.offer import Milestone, Progress
from nodeagent.model.units import Nanoseconds
from nodeagent.model.window import Unavailability
from tests.maintd.world import NOW


def test_a_milestone_is_told_for_an_hour() -> None:
    when = Unavailability(Nanoseconds(NOW * 10**6))
    one = Milestone("e", "db", "uuid-n3", Progress.CANCELED, ("i1",), when, NOW)
    ledger = Ledger(milestones=(one,))
    assert [found.at for found in milestones.to_tell(ledger, NOW)] == [NOW]
    later = NOW + milestones.KEEP
    assert milestones.to_tell(ledger, later) == []
    assert milestones.note(ledger, ledger, (), later).milestones == ()
