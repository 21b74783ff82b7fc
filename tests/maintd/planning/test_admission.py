"""The storm brake, and which failures hold up what comes after them."""

from dataclasses import replace

import pytest

from nodeagent.maintd.deciding.decide import decide
from nodeagent.maintd.planning.storm_brake import brake
from nodeagent.model.action import Drain, MovePrimary, RunCommand, describe
from nodeagent.model.diagnosis import Diagnosis
from nodeagent.model.incident import Incident, Status
from nodeagent.model.ledger import Intent, Outcome, Policy, Storm
from nodeagent.model.purpose import OfIncident
from nodeagent.model.reason import Kind, because
from nodeagent.model.stage import FULL
from nodeagent.model.units import Ms
from nodeagent.model.wish import Retry, Wish
from tests.maintd.decided import POLICY, kinds, new
from tests.maintd.world import (
    EVACUATE,
    NOW,
    OK,
    REPAIR,
    incident,
    ledger,
    node,
    seen,
    six,
    snapshot,
)

BRAKED = Policy(stage=FULL, settle=Ms(0), cooldown=Ms(0))
CALM = Ms(NOW - 10**7)  # when somebody has reset the brake


def healed(name: str, status: Status = Status.COMPLETED, **members: object) -> Incident:
    return incident(name, REPAIR, status, tag_seen=True, **members)


def open_at(name: str, **members: object) -> Incident:
    return incident(name, EVACUATE, Status.PENDING, **members)


TWO = (open_at("n1"), open_at("n2"))
SILENT = {"n1": "does not answer", "n2": "does not answer"}


@pytest.mark.parametrize(
    ("incidents", "said", "trips"),
    [
        pytest.param(TWO, EVACUATE, True, id="two of six"),
        pytest.param(TWO[:1], EVACUATE, False, id="one"),
        pytest.param((TWO[0], open_at("n1")), EVACUATE, False, id="two incidents of one node"),
        pytest.param(TWO, REPAIR, True, id="they ask for something else by now"),
        pytest.param(TWO, OK, False, id="they say Ok by now"),
        pytest.param((healed("n1"), healed("n2")), OK, False, id="healed, with a tag"),
        pytest.param((healed("n1"), healed("n2")), REPAIR, True, id="completed, and it lasts"),
        pytest.param(
            (healed("n1", Status.FAILED), healed("n2")), REPAIR, True, id="failed, and it lasts"
        ),
        pytest.param((healed("n1"), healed("n2")), EVACUATE, False, id="over: that is another"),
        pytest.param(TWO, None, True, id="silent, or offline, since they asked"),
        pytest.param(
            (TWO[0], open_at("n2", missed_at=NOW)), None, False, id="silent, and well before"
        ),
        pytest.param((TWO[0], healed("n2", Status.CANCELED)), REPAIR, False, id="one was canceled"),
        pytest.param(
            (TWO[0], replace(open_at("n2"), noted_at=CALM)), EVACUATE, False, id="before a reset"
        ),
    ],
)
def test_how_many_nodes_trip_the_brake(
    incidents: tuple[Incident, ...], said: Diagnosis | None, trips: bool
) -> None:
    found = seen(six(), {} if said is None else dict.fromkeys(SILENT, said), SILENT)
    storm = brake(ledger(*incidents, calm=CALM), found, BRAKED, NOW).storm
    assert (storm is not None) is trips
    if storm is not None:
        assert storm.why == "2 of 6 nodes are unhealthy, more than 30%: n1, n2"


def test_a_tripped_brake_is_left_as_it_is() -> None:
    before = ledger(*TWO, storm=Storm(CALM, "a reason"))
    assert brake(before, seen(six(), dict.fromkeys(SILENT, EVACUATE)), BRAKED, NOW) is before


@pytest.mark.parametrize(
    ("ago", "most", "trips"), [(599_999, 2, True), (600_000, 2, False), (0, 3, False)]
)
def test_a_burst_counts_new_incidents_whatever_became_of_them(
    ago: int, most: int, trips: bool
) -> None:
    one = replace(healed("n1"), noted_at=Ms(NOW - ago))
    before = ledger(one, healed("n2"), incident("n2", EVACUATE, Status.FAILED))
    policy = replace(BRAKED, storm=1.0, burst=most)
    storm = brake(before, seen(six()), policy, NOW).storm
    assert (storm.why if storm else "") == (
        "3 incidents within 10 min, more than 2: n1, n2" if trips else ""
    )


@pytest.mark.parametrize(
    ("names", "left"),
    [
        pytest.param([f"n{i:017}" for i in range(10)], 0, id="200 letters"),
        pytest.param([*(f"n{i:017}" for i in range(9)), f"o{9:018}"], 1, id="201 letters"),
        pytest.param([f"n{i:017}" for i in range(1000)], 990, id="a thousand nodes"),
        pytest.param(["n" * 250, "o"], 1, id="one that is too long by itself"),
    ],
)
def test_the_list_of_nodes_is_bounded(names: list[str], left: int) -> None:
    world = snapshot(*map(node, names))
    many = ledger(*map(incident, names))
    storm = brake(many, seen(world, dict.fromkeys(names, EVACUATE)), BRAKED, NOW).storm
    assert storm is not None
    listed, _, more = storm.why.partition(": ")[2].partition(" and ")
    assert listed.split(", ") == names[: len(names) - left]
    assert more == (f"{left} more" if left else "")


def test_a_node_that_was_well_before_it_fell_silent_is_no_sick_one() -> None:
    before = [healed("n2"), healed("n3")]
    nodes = [node(one.name, tags=frozenset({one.tag})) for one in before]
    silent = dict.fromkeys(("n2", "n3"), "does not answer: timed out")
    for said, trips in ((OK, False), (REPAIR, True)):
        first = decide(ledger(*before), seen(six(*nodes), {"n2": said, "n3": said}), BRAKED, NOW)
        late = seen(six(*nodes), {"n1": EVACUATE}, silent)
        assert (decide(first.ledger, late, BRAKED, NOW + 1).ledger.storm is not None) is trips


# Which nodes are in work.


@pytest.mark.parametrize("offline", [False, True], ids=["silent", "offline"])
def test_an_order_nobody_hears_of_is_told_and_keeps_no_other_node_from_being_emptied(
    offline: bool,
) -> None:
    """An offline node is not polled, and in no doubt: of its order nobody will ever hear."""
    one = incident(diagnosis=REPAIR, status=Status.PENDING)
    order = Intent("1", OfIncident(one.id), "n1", RunCommand("n1", "fix-nic", REPAIR.text), "o")
    world = six(node("n1", offline=offline, tags=frozenset({one.mark})))
    silent = seen(world, {"n2": EVACUATE}, {} if offline else {"n1": "does not answer: timed out"})
    decision = decide(ledger(one, intents=(order,)), silent, POLICY, NOW)
    assert new(decision) == [Drain("n2")]
    (held,) = decision.held
    what = describe(order.action)
    if offline:
        asks = {"why": "n1 is offline", "then": "gnt-maint retry or cancel"}
        assert held.why == because(Kind.LOST_ORDER, "n1", what=what, **asks)
    else:
        doubt = "does not answer: timed out"
        assert held.why == because(Kind.SILENT_ORDER, "n1", what=what, doubt=doubt)
    retry = replace(silent, wishes=(Wish("w", "root", NOW, Retry(one.id)),))
    retried = decide(decision.ledger, retry, POLICY, NOW + 1)
    assert ("w" in retried.refused) is not offline
    assert (order in retried.ledger.intents) is not offline


def test_a_lost_job_keeps_no_other_node_from_being_emptied() -> None:
    one = incident(status=Status.PENDING)
    lost = Intent("1", OfIncident(one.id), "n1", Drain("n1"), "7")
    observed = seen(six(), {"n1": EVACUATE, "n2": EVACUATE}, results={"1": Outcome.LOST})
    decision = decide(ledger(one, intents=(lost,)), observed, POLICY, NOW)
    assert new(decision) == [Drain("n2")]


@pytest.mark.parametrize("status", [Status.FAILED, Status.CANCELED])
def test_a_node_whose_jobs_still_run_is_in_work_whatever_became_of_its_incident(
    status: Status,
) -> None:
    one = incident(status=status, tag_seen=True)
    running = Intent(
        "1", OfIncident(one.id), "n1", MovePrimary("a", "n1", live=True, target="n3"), "7"
    )
    world = six(node("n1", drained=True, tags=frozenset({one.tag})), a=("n1", "n3"))
    said = {"n1": EVACUATE, "n2": EVACUATE}
    observed = seen(world, said, results={"1": Outcome.RUNNING})
    decision = decide(ledger(one, intents=(running,)), observed, POLICY, NOW)
    assert not any(isinstance(action, Drain) for action in new(decision))
    assert (Kind.NODES_IN_WORK, "") in kinds(decision.held)
