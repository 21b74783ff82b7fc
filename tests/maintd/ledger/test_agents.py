"""Agents that would refuse each order: told, and no order is sent to be refused."""

from dataclasses import replace
from typing import Any

import pytest

from nodeagent.maintd.deciding.decide import decide
from nodeagent.maintd.ledger.agents import BEHIND, reasons
from nodeagent.maintd.notices.needs_you import needs_you
from nodeagent.model.action import Action, Retag, RunCommand
from nodeagent.model.incident import Incident, Status
from nodeagent.model.ledger import Ledger
from nodeagent.model.reason import MOST_TOLD, AgentKind, AnyKind
from nodeagent.model.units import Ms
from nodeagent.protocol.bounds import LIFE, SKEW
from tests.maintd.decided import POLICY, details, kinds, new
from tests.maintd.world import NOW, REPAIR, incident, ledger, node, seen, six, snapshot


@pytest.mark.parametrize(
    ("ahead", "told"),
    [
        pytest.param(0, None, id="right"),
        pytest.param(LIFE - 5_001, None, id="an order arrives in time"),
        pytest.param(LIFE - 5_000, AgentKind.CLOCK_AHEAD, id="an order may expire on its way"),
        pytest.param(SKEW, AgentKind.CLOCK_AHEAD, id="as far ahead as is believed"),
        pytest.param(1 - BEHIND, None, id="or the answer waited for us"),
        pytest.param(-BEHIND, AgentKind.CLOCK_BEHIND, id="behind"),
    ],
)
def test_a_wrong_clock_waits_for_a_person(ahead: int, told: AnyKind | None) -> None:
    observed = seen(six(), clocks={"n2": Ms(ahead), "gone": Ms(SKEW)})
    decision = decide(Ledger(), observed, POLICY, NOW)
    assert kinds(decision.held) == ([] if told is None else [(told, "n2")])
    listed = needs_you(decision.ledger, observed, decision.held, (), NOW)
    assert [one.node for one in listed] == ([] if told is None else ["n2"])


def test_the_difference_is_told_without_what_polls_add_to_it() -> None:
    held = [reasons(seen(six(), clocks={"n2": Ms(ahead)})) for ahead in (94_200, 86_100)]
    assert held[0] == held[1]
    assert details(held[0], AgentKind.CLOCK_AHEAD)["by"] == 90_000


def test_an_agent_that_refuses_orders_waits_for_a_person() -> None:
    observed = seen(six(), refusing={"n2": FULL, "gone": FULL}, clocks={"n2": Ms(90_000)})
    decision = decide(Ledger(), observed, POLICY, NOW)
    assert kinds(decision.held) == [
        (AgentKind.REFUSES_ORDERS, "n2"),
        (AgentKind.CLOCK_AHEAD, "n2"),
    ]
    assert details(decision.held, AgentKind.REFUSES_ORDERS)["why"] == FULL
    listed = needs_you(decision.ledger, observed, decision.held, (), NOW)
    assert [one.node for one in listed] == ["n2", "n2"]


def test_of_many_the_first_are_named_and_the_others_counted() -> None:
    names = [f"n{number}" for number in range(MOST_TOLD + 5)]
    clocks, refusing = dict.fromkeys(names, Ms(90_000)), dict.fromkeys(names, FULL)
    observed = seen(snapshot(*map(node, names)), clocks=clocks, refusing=refusing)
    assert details(reasons(observed), AgentKind.MORE_CLOCKS)["count"] == 5
    assert details(reasons(observed), AgentKind.MORE_REFUSE_ORDERS)["count"] == 5


FULL = "no receipt can be kept: /var/lib/nodeagent/receipts: No space left on device"
AHEAD = {"n1": Ms(90_000)}
TROUBLES: dict[str, tuple[dict[str, Any], list[AnyKind]]] = {
    "none": ({}, []),
    "its clock": ({"clocks": AHEAD}, [AgentKind.CLOCK_AHEAD]),
    "its disk": ({"refusing": {"n1": FULL}}, [AgentKind.REFUSES_ORDERS]),
}
NOTED = incident(diagnosis=REPAIR)
MARKED = replace(NOTED, status=Status.PENDING)


@pytest.mark.parametrize("trouble", TROUBLES)
@pytest.mark.parametrize(
    ("before", "tags", "step"),
    [
        pytest.param(NOTED, (), Retag, id="before its mark"),
        pytest.param(MARKED, (NOTED.mark,), RunCommand, id="before its order"),
    ],
)
def test_a_live_repair_waits_for_the_agent_and_does_not_fail(
    before: Incident, tags: tuple[str, ...], step: type[Action], trouble: str
) -> None:
    told, expected = TROUBLES[trouble]
    world = six(node("n1", tags=frozenset(tags)))
    observed = seen(world, {"n1": REPAIR}, **told)
    decision = decide(ledger(before), observed, POLICY, NOW)
    assert [type(action) for action in new(decision)] == ([] if expected else [step])
    whys = [held.why.kind for held in decision.held if held.incident == before.id]
    assert whys == expected
    if expected:
        assert decision.ledger.incidents[0].status is before.status
    listed = list(needs_you(decision.ledger, observed, decision.held, (), NOW))
    assert len(listed) == len(expected), "once, not also for the incident"


def test_a_live_repair_that_has_succeeded_needs_no_order_any_more() -> None:
    done = replace(MARKED, repaired=True)
    observed = seen(six(node("n1", tags=frozenset({done.mark}))), {"n1": REPAIR}, clocks=AHEAD)
    (ready,) = new(decide(ledger(done), observed, POLICY, NOW))
    assert isinstance(ready, Retag)
