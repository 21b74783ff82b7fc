"""What maintd would have done is counted once each time, with what became of it."""

from dataclasses import replace

from nodeagent.maintd.deciding.decide import decide
from nodeagent.maintd.ledger.proposals import KEPT, remember
from nodeagent.model.asked import Asked
from nodeagent.model.incident import Incident, Status
from nodeagent.model.ledger import Decision, Ledger
from nodeagent.model.outage import Outage, Wanted
from nodeagent.model.proposal import Proposal, What
from nodeagent.model.reason import Held, Kind, Reason, StageKind, because
from nodeagent.model.snapshot import Snapshot
from nodeagent.model.stage import OBSERVE
from nodeagent.model.units import Ms
from nodeagent.model.wish import Cancel, Wish
from tests.maintd.decided import POLICY
from tests.maintd.world import EVACUATE, NOW, REPAIR, incident, ledger, node, seen, six

NOTED = incident("n3")
BEGUN = replace(NOTED, status=Status.PENDING)
CANCELED = replace(NOTED, status=Status.CANCELED)
WANTED = (Outage(NOTED.node, wanted=Wanted("ada", NOW, "as maintd says")),)
DRAINED = six(node("n3", drained=True))


def would(one: Incident = NOTED, kind: StageKind = StageKind.WOULD_EVACUATE) -> Held:
    return held(because(kind, "n3"), one)


def held(why: Reason, one: Incident = NOTED) -> Held:
    return Held(why, "n3", one.id)


class Rounds:
    """Rounds, a second apart: what each finds, and what is remembered then."""

    def __init__(self) -> None:
        self.ledger, self.now = Ledger(), NOW

    def hold(
        self,
        *incidents: Incident,
        held: Held | None = None,
        world: Snapshot | None = None,
        asked: Asked | None = None,
        **members: object,
    ) -> "Rounds":
        self.now = Ms(self.now + 1000)
        wishes = () if asked is None else (Wish("w", "ada", self.now, asked),)
        observed = seen(world or six(), wishes=wishes)
        found = ledger(*incidents, proposals=self.ledger.proposals, **members)
        whys = () if held is None else (held,)
        self.ledger = remember(self.ledger, found, observed, whys, self.now)
        return self

    @property
    def only(self) -> Proposal:
        (one,) = self.ledger.proposals
        return one

    @property
    def ends(self) -> tuple[int, int, int, int]:
        return self.only.begun, self.only.taken_back, self.only.by_person, self.only.passed


def observed() -> Rounds:
    """maintd would evacuate n3, and may not."""
    return Rounds().hold(NOTED, held=would())


def acting() -> Rounds:
    """It has begun to."""
    return Rounds().hold(NOTED).hold(BEGUN)


def test_a_request_counts_once_while_it_lasts() -> None:
    rounds = observed()
    one = rounds.only
    assert (one.what, one.name, one.times, one.open) == (What.EVACUATE, "n3", 1, True)
    assert rounds.hold(NOTED, held=would()).only == one


ENDS: dict[str, tuple[Rounds, tuple[int, int, int, int]]] = {
    "it mends itself": (observed().hold(), (0, 0, 0, 1)),
    "it is canceled": (observed().hold(CANCELED, asked=Cancel(NOTED.id)), (0, 1, 0, 0)),
    "it is canceled by its tag": (
        observed().hold(CANCELED, world=six(node("n3", tags=frozenset({CANCELED.tag})))),
        (0, 1, 0, 0),
    ),
    "it is withdrawn": (observed().hold(CANCELED), (0, 0, 0, 1)),
    "another fault is canceled": (
        observed().hold(CANCELED, asked=Cancel("another")),
        (0, 0, 0, 1),
    ),
    "it is drained by hand": (
        observed().hold(NOTED, held=would(), world=DRAINED).hold(world=DRAINED),
        (0, 0, 1, 0),
    ),
    "it is evacuated as asked": (
        observed().hold(NOTED, held=would(), outages=WANTED).hold(CANCELED),
        (0, 0, 1, 0),
    ),
    "begun, it mends itself": (acting().hold(), (1, 0, 0, 0)),
    "begun, it is canceled": (acting().hold(CANCELED, asked=Cancel(NOTED.id)), (1, 1, 0, 0)),
    "begun, it is put back": (
        acting().hold(BEGUN, held=held(because(Kind.PUT_BACK_BY_OTHERS, "n3"))),
        (1, 1, 0, 0),
    ),
    "begun, it ends": (
        acting().hold(replace(BEGUN, status=Status.COMPLETED), world=DRAINED),
        (1, 0, 0, 0),
    ),
}


def test_what_became_of_it() -> None:
    for name, (rounds, expected) in ENDS.items():
        assert (rounds.ends, rounds.only.open) == (expected, False), name


def test_the_same_again_counts_again_and_one_that_is_superseded_goes_on() -> None:
    rounds = observed().hold().hold(NOTED, held=would())
    one = rounds.only
    assert (one.times, one.open, rounds.ends) == (2, True, (0, 0, 0, 1))
    assert one.at > one.since
    assert rounds.hold(replace(CANCELED, heir="heir")).only.incident == "heir"


def test_another_need_is_another_request() -> None:
    repair = incident("n3", REPAIR)
    rounds = Rounds().hold(repair, held=would(repair, StageKind.WOULD_REPAIR))
    rounds.hold(NOTED, held=would())
    found = {one.what: (one.open, one.passed) for one in rounds.ledger.proposals}
    assert found == {What.REPAIR: (False, 1), What.EVACUATE: (True, 0)}


def test_what_is_long_over_is_forgotten() -> None:
    rounds = observed().hold()
    rounds.now = Ms(rounds.now + KEPT)
    assert rounds.hold().ledger.proposals == ()


def test_a_round_remembers_what_its_stage_keeps_it_from() -> None:
    observe = replace(POLICY, stage=OBSERVE)
    decided: Decision = decide(Ledger(), seen(six(), {"n3": EVACUATE}), observe, NOW)
    (one,) = decided.ledger.proposals
    assert (one.what, one.open, one.begun) == (What.EVACUATE, True, 0)
