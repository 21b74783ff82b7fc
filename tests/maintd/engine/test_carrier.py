"""The ledger in Ganeti's configuration: what is known of it, whatever becomes of a write."""

import asyncio
from dataclasses import dataclass
from typing import cast

import pytest

from nodeagent.cluster.backend import Cluster
from nodeagent.errors import Fenced, Unavailable
from nodeagent.maintd.engine.carrier import Carrier
from nodeagent.maintd.engine.conduct import Acting
from nodeagent.maintd.ledger.choice import Finding
from nodeagent.model.event import happened
from nodeagent.model.keeping import Kept, Trouble
from nodeagent.model.ledger import Ledger
from nodeagent.model.units import Ms
from nodeagent.store.carried import FORM, Carried, pack, unpack

ME, OTHER = "uuid-n1", "uuid-n2"
GRANTED = happened(Ms(1), "wish-granted")
REFUSED = happened(Ms(2), "wish-refused")
NOTED = happened(Ms(3), "noted")
NEWER = f"{FORM + 1}:x"


def text(number: int, writer: str = ME) -> str:
    return pack(Carried(number, writer, Ms(9), Ledger()))


@dataclass
class Rule:
    """Ganeti's configuration, and whether a request and its answer arrive."""

    text: str | None = None
    reached: bool = True
    answered: bool = True

    def ledger_rule(self) -> str | None:
        return self.text

    def ledger_rule_uuid(self) -> str:
        return "uuid-rule"

    def write_ledger_rule(self, text: str) -> None:
        self.text = text if self.reached else self.text
        if not (self.reached and self.answered):
            raise Unavailable("no answer")


class Writing:
    """A carrier, whose clock stands."""

    def __init__(self, rule: Rule) -> None:
        self.rule, self.now, self.vote = rule, Ms(100), True
        self.carrier = Carrier(cast(Cluster, rule), lambda: self.now, cast(Acting, self))

    def check(self) -> None:
        """The vote that has been asked for still counts."""

    async def confirm(self) -> None:
        if not self.vote:
            raise Unavailable("the vote is undecided")

    def write(self, number: int) -> bool:
        return asyncio.run(self.carrier.write(number, ME, Ledger()))

    def look(self, number: int) -> Finding | None:
        return asyncio.run(self.carrier.look(number, ME))

    @property
    def since(self) -> tuple[int, str]:
        """Since when the rule is behind, and why."""
        return self.carrier.kept.behind, self.carrier.kept.why


@pytest.fixture
def one() -> Writing:
    found = Writing(Rule())
    assert found.write(3)
    return found


def test_what_is_written_is_there(one: Writing) -> None:
    assert one.rule.text is not None
    assert one.carrier.kept == Kept(3, len(one.rule.text), ME, Ms(100))
    assert unpack(one.rule.text).number == 3
    assert one.look(3) is None


@pytest.mark.parametrize("confirmed", [True, False])
def test_it_is_behind_since_the_first_write_that_failed(one: Writing, *, confirmed: bool) -> None:
    before, one.vote, one.rule.reached = one.rule.text, confirmed, False
    why = "no answer" if confirmed else "the vote is undecided"
    for now in (200, 300):
        one.now = Ms(now)
        assert not one.write(4)
        assert one.since == (200, why)
        assert one.look(4) is None
        assert (one.carrier.kept.number, one.rule.text) == (3, before)
    one.vote = one.rule.reached = True
    assert one.write(5)
    assert (one.carrier.kept.number, one.since) == (5, (0, ""))


def test_a_write_whose_answer_was_lost_is_ours(one: Writing) -> None:
    """It is behind for as long as a newer save is not there."""
    one.rule.answered = False
    assert not one.write(4)
    assert one.look(5) is None
    assert (one.carrier.kept.number, one.since) == (4, (100, "no answer"))
    one.rule.answered = True
    assert one.write(5)
    one.rule.answered = False
    assert not one.write(6)
    assert one.look(6) is None
    assert (one.carrier.kept.number, one.since) == (6, (0, ""))
    one.rule.text = text(5, OTHER)
    assert one.look(6) is Finding.CHANGED, "an older one than what is known to be there"


def test_what_has_become_of_the_rule() -> None:
    for found, what in (
        (None, Finding.REMOVED),
        ("hello", Finding.CHANGED),
        (text(9), Finding.CHANGED),
        (text(2, OTHER), Finding.CHANGED),
        (text(3, OTHER), None),
        (NEWER, None),
    ):
        one = Writing(Rule())
        one.write(3)
        one.rule.text, one.now = found, Ms(200)
        if what is None:
            with pytest.raises(Fenced, match="since our save 3: "):
                one.look(3)
            continue
        assert one.look(3) is what, found
        assert (one.carrier.kept.number, one.since[0]) == (0, 200), found
        assert one.look(3) is None, "told once"


def test_what_is_read_at_a_start() -> None:
    for found, heading, number in (
        (None, None, 0),
        (text(7, OTHER), Kept(7, len(text(7, OTHER)), OTHER, Ms(9)), 7),
        ("hello", Trouble.UNREADABLE, 0),
        (NEWER, Trouble.NEWER, 0),
    ):
        one = Writing(Rule(found))
        read, carried, why = asyncio.run(one.carrier.read())
        assert read == heading, found
        assert (carried is None, bool(why)) == (number == 0, isinstance(heading, Trouble)), found
        assert (one.carrier.kept.number, one.carrier.kept.uuid) == (number, "uuid-rule"), found
        assert one.look(0) is None, found


def test_acts_of_administrators_travel_with_it() -> None:
    one = Writing(Rule())
    one.carrier.noted([NOTED])
    assert one.carrier.has_all_acts
    one.carrier.begin([GRANTED])
    assert not one.carrier.has_all_acts
    for theirs, all_there in (([], False), ([REFUSED], False), ([REFUSED, GRANTED], True)):
        one.carrier.begin([GRANTED])
        one.carrier.known(theirs)
        assert one.carrier.has_all_acts is all_there, theirs
    one.carrier.noted([NOTED, REFUSED])
    one.rule.reached = False
    assert not one.write(3)
    assert not one.carrier.has_all_acts
    one.rule.reached = True
    assert one.write(3)
    assert one.carrier.has_all_acts
    assert one.rule.text is not None
    assert unpack(one.rule.text).events == (GRANTED, REFUSED)


def test_a_ledger_of_before_counts_as_ours_after_a_start() -> None:
    """What is written since replaces it, and no other node's."""
    one = Writing(Rule(text(7)))
    asyncio.run(one.carrier.read())
    one.rule.text = text(8, OTHER)
    with pytest.raises(Fenced, match=f"since our save 7: that of {OTHER}"):
        one.look(8)
    one.rule.text = text(6, OTHER)
    assert one.look(8) is Finding.CHANGED
    assert one.carrier.kept.number == 0
