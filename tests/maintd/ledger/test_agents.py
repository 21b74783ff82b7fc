"""A node's clock that is wrong and still believed: told, and no order is sent to be refused."""

from dataclasses import replace

import pytest

from nodeagent.maintd.deciding.decide import decide
from nodeagent.maintd.ledger.node_clocks import BEHIND, reasons
from nodeagent.maintd.notices.needs_you import needs_you
from nodeagent.model.action import Action, Retag, RunCommand
from nodeagent.model.incident import Incident, Status
from nodeagent.model.ledger import Ledger
from nodeagent.model.reason import MOST_TOLD, Kind
from nodeagent.model.units import Ms
from nodeagent.protocol.bounds import LIFE, SKEW
from tests.maintd.decided import POLICY, details, kinds, new
from tests.maintd.world import NOW, REPAIR, incident, ledger, node, seen, six, snapshot


@pytest.mark.parametrize(
    ("ahead", "told"),
    [
        pytest.param(0, None, id="right"),
        pytest.param(LIFE - 5_001, None, id="an order arrives in time"),
        pytest.param(LIFE - 5_000, Kind.CLOCK_AHEAD, id="an order may expire on its way"),
        pytest.param(SKEW, Kind.CLOCK_AHEAD, id="as far ahead as is believed"),
        pytest.param(1 - BEHIND, None, id="or the answer waited for us"),
        pytest.param(-BEHIND, Kind.CLOCK_BEHIND, id="behind"),
    ],
)
def test_a_wrong_clock_waits_for_a_person(ahead: int, told: Kind | None) -> None:
    observed = seen(six(), clocks={"n2": Ms(ahead), "gone": Ms(SKEW)})
    decision = decide(Ledger(), observed, POLICY, NOW)
    assert kinds(decision.held) == ([] if told is None else [(told, "n2")])
    listed = needs_you(decision.ledger, observed, decision.held, (), NOW)
    assert [one.node for one in listed] == ([] if told is None else ["n2"])


def test_the_difference_is_told_without_what_polls_add_to_it() -> None:
    held = [reasons(seen(six(), clocks={"n2": Ms(ahead)})) for ahead in (94_200, 86_100)]
    assert held[0] == held[1]
    assert details(held[0], Kind.CLOCK_AHEAD)["by"] == 90_000


def test_of_many_the_first_are_named_and_the_others_counted() -> None:
    names = [f"n{number}" for number in range(MOST_TOLD + 5)]
    observed = seen(snapshot(*map(node, names)), clocks=dict.fromkeys(names, Ms(90_000)))
    assert details(reasons(observed), Kind.MORE_CLOCKS)["count"] == 5


AHEAD = {"n1": Ms(90_000)}
NOTED = incident(diagnosis=REPAIR)
MARKED = replace(NOTED, status=Status.PENDING)


@pytest.mark.parametrize("ahead", [0, 90_000])
@pytest.mark.parametrize(
    ("before", "tags", "step"),
    [
        pytest.param(NOTED, (), Retag, id="before its mark"),
        pytest.param(MARKED, (NOTED.mark,), RunCommand, id="before its order"),
    ],
)
def test_a_live_repair_waits_for_the_clock_and_does_not_fail(
    before: Incident, tags: tuple[str, ...], step: type[Action], ahead: int
) -> None:
    world = six(node("n1", tags=frozenset(tags)))
    observed = seen(world, {"n1": REPAIR}, clocks={"n1": Ms(ahead)})
    decision = decide(ledger(before), observed, POLICY, NOW)
    assert [type(action) for action in new(decision)] == ([] if ahead else [step])
    whys = [held.why.kind for held in decision.held if held.incident == before.id]
    assert whys == ([Kind.CLOCK_AHEAD] if ahead else [])
    if ahead:
        assert decision.ledger.incidents[0].status is before.status
    listed = list(needs_you(decision.ledger, observed, decision.held, (), NOW))
    assert len(listed) == bool(ahead), "once, not also for the incident"


def test_a_live_repair_that_has_succeeded_needs_no_order_any_more() -> None:
    done = replace(MARKED, repaired=True)
    observed = seen(six(node("n1", tags=frozenset({done.mark}))), {"n1": REPAIR}, clocks=AHEAD)
    (ready,) = new(decide(ledger(done), observed, POLICY, NOW))
    assert isinstance(ready, Retag)
