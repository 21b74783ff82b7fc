"""Owners are asked about rolls and incidents as about windows, and can hold them as they may."""

import json
from dataclasses import replace

import pytest

from nodeagent.maintd.owners.absences import absences
from nodeagent.maintd.owners.offer_json import Book, offer_json
from nodeagent.model.incident import Incident, Status
from nodeagent.model.ledger import Ledger, Policy
from nodeagent.model.offer import Announcing, Offer, Reply, Work
from nodeagent.model.reason import Kind
from nodeagent.model.roll import Phase, Roll, RollNode
from nodeagent.model.stage import OBSERVE
from nodeagent.model.units import Ms, Nanoseconds, Seconds
from nodeagent.model.window import Consent, Unavailability, Weight
from nodeagent.model.wish import AnswerOffers
from tests.maintd.decided import POLICY
from tests.maintd.owners.owned import instance
from tests.maintd.rig import QUICK, Rig, fleet
from tests.maintd.rolls.rolling import TERMS, go_on, phases, start
from tests.maintd.rounds import ticks
from tests.maintd.world import EVACUATE, FAILOVER, NOW, REPAIR, incident, six

HOUR = Ms(3_600_000)
INSTANCES = [
    instance("i1", "db", "n3", "n4"),
    instance("i2", "web", "n5", "n6"),
    instance("i3", None, "n4", "n6"),
]
TOLD = replace(QUICK, announcing=Announcing("tell-owners", Seconds(45)))
REQUIRED = Consent(Weight.REQUIRED)


def rig(policy: Policy = TOLD) -> Rig:
    one = Rig(fleet(), INSTANCES, policy)
    ticks(one, 2)
    return one


def told(one: Rig) -> list[tuple[str, str, str]]:
    """What the command was told, in order: the event or `asked`, the node, the owner."""
    found = []
    for order in one.agents.orders:
        if order.command == "tell-owners":
            said = json.loads(order.stdin)
            found += [("asked", row["node"], row["owner"]) for row in said["offers"]]
            found += [(row["event"], row["node"], row["owner"]) for row in said.get("events", [])]
    return found


def why_held(one: Rig) -> set[tuple[str, object]]:
    return {(held.node, held.why.kind) for held in one.tick().decision.held}


def offer(one: Rig, owner: str, work: Work) -> Offer:
    (found,) = (o for o in one.ledger.offers if o.owner == owner and o.work is work)
    return found


def answer(one: Rig, reply: Reply, found: Offer, earliest: Ms | None = None) -> None:
    one.wish(AnswerOffers((found.id,), reply, Ms(100 * HOUR), earliest=earliest))
    one.tick()


# Rolls.


def test_owners_hear_of_a_roll_when_it_is_asked_for_and_to_its_end() -> None:
    one = rig()
    start(one, "n3", "n5")
    ticks(one, 2)
    assert told(one)[:2] == [("asked", "n3", "db"), ("asked", "n5", "web")]
    asked = one.ledger.offers
    assert {o.unavailability.duration for o in asked} == {TERMS.return_within * 10**6}
    go_on(one)
    ticks(one, 4)
    assert set(phases(one).values()) == {Phase.DONE}
    assert told(one)[2:] == [
        ("started", "n3", "db"),
        ("finished", "n3", "db"),
        ("started", "n5", "web"),
        ("finished", "n5", "web"),
    ]


def test_a_node_in_a_roll_is_expected_to_leave_in_its_turn() -> None:
    roll = Roll(1, "ada", NOW, TERMS, (RollNode("uuid-n3", "n3"), RollNode("uuid-n5", "n5")))
    book = Book(Ledger(roll=roll), six(), POLICY, NOW)
    when = Unavailability(Nanoseconds(NOW * 10**6))
    asked = Offer("o", "db", "uuid-n5", ("i1",), when, NOW, NOW, work=Work.ROLL)
    assert offer_json(asked, book)["expected_at"] == (NOW + TERMS.return_within) / 1000
    assert offer_json(replace(asked, work=Work.WINDOW), book)["expected_at"] == NOW / 1000


@pytest.mark.parametrize(
    ("reply", "earliest", "begins"),
    [
        (Reply.ACCEPT, None, True),
        (Reply.DECLINE, None, False),
        (Reply.DECLINE, HOUR, False),
        (Reply.DECLINE, Ms(0), True),  # the time that it proposes has come
        (None, None, False),
    ],
)
def test_who_must_accept_holds_its_node_until_then(
    reply: Reply | None, earliest: Ms | None, *, begins: bool
) -> None:
    one = rig()
    start(one, "n3", terms=replace(TERMS, consent=REQUIRED))
    if reply is not None:
        found = offer(one, "db", Work.ROLL)
        answer(one, reply, found, None if earliest is None else Ms(one.now() + earliest))
    ticks(one, 6)
    assert (phases(one)["n3"] is not Phase.WAITING) == begins


@pytest.mark.parametrize("step", [300, -300])
def test_a_veto_outlives_a_step_of_the_clock(step: int) -> None:
    one = rig()
    veto = Consent(Weight.VETO)
    terms = replace(TERMS, consent=veto, notice=HOUR, deadline=Ms(10 * HOUR))
    start(one, "n3", terms=terms)
    answer(one, Reply.DECLINE, offer(one, "db", Work.ROLL))
    one.skew += step
    one.tick(2 * HOUR / 1000)
    ticks(one, 6)
    assert offer(one, "db", Work.ROLL).answer, "the same offer, with its answer"
    assert phases(one)["n3"] is Phase.WAITING


# Incidents.


OBSERVING = replace(POLICY, stage=OBSERVE, owners_notice=HOUR)
ACTING = replace(POLICY, owners_notice=HOUR)
FORESEEN: list[tuple[Incident, Policy, tuple[bool, Ms] | None]] = [
    (incident("n1", EVACUATE), ACTING, (False, Ms(NOW + HOUR))),
    (incident("n1", EVACUATE, Status.PENDING), ACTING, (True, Ms(NOW + HOUR))),
    (incident("n1", FAILOVER), ACTING, (False, NOW)),
    (incident("n1", REPAIR), ACTING, None),
    (incident("n1", EVACUATE, Status.COMPLETED), ACTING, None),
    (replace(incident("n1", EVACUATE), node="uuid-gone"), ACTING, None),
    # At other stages only what has begun.
    (incident("n1", EVACUATE), OBSERVING, None),
    (incident("n1", EVACUATE, Status.PENDING), OBSERVING, (True, Ms(NOW + HOUR))),
]


def test_which_incidents_are_absences() -> None:
    for one, policy, expected in FORESEEN:
        found = absences(Ledger(incidents=(one,)), six(), policy)
        assert [(a.begun, a.not_before) for a in found] == ([expected] if expected else []), one
        assert [a.asks for a in found] == [not a.begun for a in found], one


def left(one: Rig, name: str = "n3") -> bool:
    return not one.cluster.nodes[name].in_service


def test_an_evacuation_waits_for_owners_as_long_as_the_notice() -> None:
    one = rig(replace(TOLD, owners_notice=HOUR))
    one.agents.says["n3"] = EVACUATE
    ticks(one, 8)
    assert not left(one)
    assert ("n3", Kind.OWNER_WAITS) in why_held(one)
    assert told(one) == [("asked", "n3", "db")]
    one.tick(HOUR / 1000)
    ticks(one, 10)
    assert left(one)
    assert told(one)[1:3] == [("started", "n3", "db"), ("finished", "n3", "db")]
