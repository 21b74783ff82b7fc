"""A node whose agent stands by no diagnosis for long waits for a person."""

import pytest

from nodeagent.maintd.deciding.decide import decide
from nodeagent.maintd.ledger.undiagnosed import AFTER, reasons, remember
from nodeagent.maintd.notices.needs_you import needs_you
from nodeagent.model.ledger import Ledger
from nodeagent.model.reason import MOST_TOLD, Kind
from nodeagent.model.units import Ms
from tests.maintd.decided import POLICY, details, kinds
from tests.maintd.world import NOW, node, seen, six, snapshot

BROKEN = {"n2": "unusable: disks: exit code 1"}
UNDIAGNOSED = (Kind.UNDIAGNOSED, "n2")


@pytest.mark.parametrize(
    ("after", "waits"),
    [
        pytest.param(Ms(0), False, id="just now: it may be the start of its agent"),
        pytest.param(Ms(AFTER - 1), False, id="not yet a quarter of an hour"),
        pytest.param(AFTER, True, id="a quarter of an hour"),
    ],
)
def test_it_waits_for_a_person_after_a_quarter_of_an_hour(after: Ms, waits: bool) -> None:
    observed = seen(six(), doubts=BROKEN)
    now = Ms(NOW + after)
    decision = decide(remember(Ledger(), observed, NOW), observed, POLICY, now)
    assert (UNDIAGNOSED in kinds(decision.held)) == waits
    listed = needs_you(decision.ledger, observed, decision.held, (), now)
    assert ["n2"] * waits == [one.node for one in listed]
    if waits:
        assert details(decision.held, Kind.UNDIAGNOSED)["doubt"] == BROKEN["n2"]


def test_one_diagnosis_begins_the_count_anew() -> None:
    doubtful = seen(six(), doubts=BROKEN)
    ledger = remember(Ledger(), doubtful, NOW)
    ledger = remember(ledger, seen(six()), Ms(NOW + 1))
    assert ledger == Ledger()
    ledger = remember(ledger, doubtful, Ms(NOW + AFTER))
    assert reasons(ledger, doubtful, Ms(NOW + AFTER)) == ()


@pytest.mark.parametrize(
    "observed",
    [
        pytest.param(
            seen(six(), doubts=BROKEN, unanswered=frozenset({"n2"})), id="it does not answer"
        ),
        pytest.param(seen(six(node("n2", offline=True)), doubts=BROKEN), id="it is offline"),
    ],
)
def test_who_is_unreachable_or_offline_is_not_counted(observed: object) -> None:
    assert remember(Ledger(), observed, NOW) == Ledger()  # type: ignore[arg-type]


def test_of_many_the_first_are_named_and_the_others_counted() -> None:
    nodes = [node(f"n{number}") for number in range(MOST_TOLD + 5)]
    observed = seen(snapshot(*nodes), doubts={one.name: "broken" for one in nodes})
    held = reasons(remember(Ledger(), observed, NOW), observed, Ms(NOW + AFTER))
    assert len(held) == MOST_TOLD + 1
    assert details(held, Kind.MORE_UNDIAGNOSED)["count"] == 5
