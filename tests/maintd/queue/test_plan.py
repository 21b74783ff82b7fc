"""What a round orders for the entries, and what keeps a machine or the master's agent from it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from nodeagent.maintd.deciding.decide import decide
from nodeagent.maintd.planning.situation import Stops
from nodeagent.maintd.queue.plan import wants_room, work_off
from nodeagent.model.action import Action, Drain, MovePrimary, MoveSecondary, RunCommand
from nodeagent.model.incident import Status
from nodeagent.model.ledger import PAUSE_TAG, Intent, Ledger, Policy
from nodeagent.model.offer import Announcing, Milestone, Offer, Progress
from nodeagent.model.outage import Outage, Wanted
from nodeagent.model.purpose import OfEntry, OfIncident, OfPerson, Purpose
from nodeagent.model.queue import (
    INCIDENTS,
    Entry,
    EntryStatus,
    Operation,
    Procedure,
    Procedures,
    Queue,
    RepairStep,
    StepStatus,
)
from nodeagent.model.reason import AgentKind, AnyKind, Kind, LedgerKind, because
from nodeagent.model.snapshot import Beside, Node, Observed
from nodeagent.model.stage import FULL
from nodeagent.model.units import Nanoseconds
from nodeagent.model.window import Unavailability
from tests.build import situation
from tests.maintd.decided import kinds
from tests.maintd.queue.turns import DRAINING, WATCHING, begun, entry, how
from tests.maintd.world import EVACUATE, NOW, REPAIR, incident, node, seen, six

POLICY = Policy(stage=FULL, procedures=how(max_concurrent_repairs=9), nodes_in_work=9)
PAUSED = because(Kind.PAUSED)


def machine(name: str, number: int, **members: object) -> Node:
    """The node of an entry, by its address."""
    return replace(node(name, **members), address=f"10.0.0.{number}")


N4, N5 = machine("n4", 0), machine("n5", 1)
WORLD = replace(six(N4, N5), master="n1")
SEEN = seen(WORLD)
CHECKS = {"n1": Beside(("check",), 2)}
EMPTY, GOES_ON = Ledger(), Stops()
STEPS = (RepairStep("try-1"),)
TWO_CHECKS = Procedures(
    (Procedure(("type1",), (Operation("op1", STEPS, "check"), Operation("odd", STEPS, "looks"))),)
)


def with_node(*nodes: Node, **members: Any) -> Observed:
    named = {one.name: one for one in nodes}
    return seen(replace(WORLD, nodes={**WORLD.nodes, **named}), **members)


def with_instances(**places: tuple[str, str | None]) -> Observed:
    return seen(replace(WORLD, instances=six(**places).instances))


def runs(command: str, purpose: Purpose, at: str = "n1") -> Intent:
    return Intent("1", purpose, "", RunCommand(at, command, "{}"), "o")


def works(action: Action, purpose: Purpose, name: str = "n4") -> Intent:
    return Intent("2", purpose, name, action, "7")


@dataclass
class Case:
    """Entries, and what is there beside them, to what is ordered and one of the reasons."""

    entries: tuple[Entry, ...] = (entry(),)
    ordered: tuple[str, ...] = ()
    why: AnyKind | None = None
    ledger: Ledger = EMPTY
    observed: Observed = SEEN
    stops: Stops = GOES_ON
    busy: frozenset[str] = frozenset()
    policy: Policy = POLICY
    shut: Mapping[int, Any] = field(default_factory=dict)


def worked(case: Case) -> tuple[Ledger, list[Intent], list[AnyKind]]:
    queue = Queue(case.entries, len(case.entries))
    before = replace(case.ledger, queue=queue)
    here = situation(before, case.observed, case.policy, NOW, case.stops)
    here.room.in_work.update(case.busy)
    after, held = work_off(before, here, case.shut)
    return after, list(after.intents[len(before.intents) :]), [kind for kind, _ in kinds(held)]


UNCHECKED = (entry(checked_at=0), entry(1, checked_at=0), entry(2, checked_at=0))
CHECK, REPAIR_1 = OfEntry(7, "check"), OfEntry(7, "repair")
ORDERED, NOTHING = ("queue:0:repair",), ()
DRAINS = entry(operation="drains")
MENDING = incident("n1", REPAIR, Status.PENDING)
OPEN = incident("n4", EVACUATE)
WHEN = Unavailability(Nanoseconds(NOW * 10**6))
ASKED = Offer("o", "db", "uuid-n3", ("i1",), WHEN, NOW, NOW)
REACHED = Milestone("e", "db", "uuid-n3", Progress.STARTED, ("i1",), WHEN, NOW)
TELLS = replace(POLICY, announcing=Announcing("tell-owners"))
CANDIDATE = machine("n4", 0, candidate=True)
OTHER = incident("n2", EVACUATE, Status.PENDING)
AGENT = {
    "idle": Case(ordered=ORDERED),
    "the master is unknown": Case(
        observed=seen(replace(WORLD, master="")), ordered=NOTHING, why=Kind.NO_MASTER
    ),
    "the master's agent is in doubt": Case(
        observed=seen(WORLD, doubts={"n1": "silent"}), why=Kind.AGENT_IN_DOUBT
    ),
    "the master's agent would refuse the order": Case(
        observed=seen(WORLD, refusing={"n1": "its disk is full"}), why=AgentKind.REFUSES_ORDERS
    ),
    "a new master would not know of the order": Case(
        observed=seen(WORLD, unwritten="no space"), why=LedgerKind.NOT_WRITTEN
    ),
    "another agent is in doubt": Case(
        observed=seen(WORLD, doubts={"n2": "silent"}), ordered=ORDERED
    ),
    "it runs something": Case(
        ledger=Ledger(intents=(runs("try-9", REPAIR_1),)), why=Kind.AGENT_RUNS
    ),
    "another agent does": Case(
        ledger=Ledger(intents=(runs("try-9", REPAIR_1, "n2"),)), ordered=ORDERED
    ),
    "it runs a check that it does not list": Case(
        ledger=Ledger(intents=(runs("check", CHECK),)), why=Kind.AGENT_RUNS
    ),
    "a repair waits for the checks that run": Case(
        ledger=Ledger(intents=(runs("check", CHECK),)),
        observed=seen(WORLD, beside=CHECKS),
        why=Kind.CHECKS_FIRST,
    ),
    "a listed command that is no check": Case(
        ledger=Ledger(intents=(runs("check", REPAIR_1),)),
        observed=seen(WORLD, beside=CHECKS),
        why=Kind.AGENT_RUNS,
    ),
    "one check at a time": Case(UNCHECKED, ("queue:0:check",), Kind.AGENT_RUNS),
    "so many checks side by side": Case(
        UNCHECKED,
        ("queue:0:check", "queue:1:check"),
        Kind.AGENT_RUNS,
        observed=seen(WORLD, beside=CHECKS),
    ),
    "another agent's check counts for nothing": Case(
        UNCHECKED,
        ("queue:0:check", "queue:1:check"),
        Kind.AGENT_RUNS,
        ledger=Ledger(intents=(runs("check", CHECK, "n2"),)),
        observed=seen(WORLD, beside=CHECKS),
    ),
    "a check that is not listed waits for those that are": Case(
        UNCHECKED,
        NOTHING,
        Kind.RUNS_ALONE,
        ledger=Ledger(intents=(runs("looks", CHECK),)),
        observed=seen(WORLD, beside={"n1": Beside(("looks",), 9)}),
    ),
    "nor do those that are run beside one that is not": Case(
        (entry(checked_at=0), entry(1, checked_at=0, operation="odd")),
        ("queue:0:check",),
        Kind.AGENT_RUNS,
        observed=seen(WORLD, beside={"n1": Beside(("looks",), 9)}),
        policy=replace(POLICY, procedures=TWO_CHECKS),
    ),
    "questions to owners come before checks": Case(
        UNCHECKED, NOTHING, Kind.OWNERS_FIRST, Ledger(offers=(ASKED,)), policy=TELLS
    ),
    "and so does what became of them": Case(
        UNCHECKED, NOTHING, Kind.OWNERS_FIRST, Ledger(milestones=(REACHED,)), policy=TELLS
    ),
    "not without a command for them": Case(
        UNCHECKED, ("queue:0:check",), ledger=Ledger(offers=(ASKED,), milestones=(REACHED,))
    ),
    "a live repair of the master comes before checks": Case(
        UNCHECKED, NOTHING, Kind.INCIDENT_FIRST, ledger=Ledger(incidents=(MENDING,))
    ),
    "not once it is repaired": Case(
        UNCHECKED,
        ("queue:0:check",),
        ledger=Ledger(incidents=(replace(MENDING, repaired=True),)),
    ),
    "nor while it is paused": Case(
        UNCHECKED,
        ("queue:0:check",),
        ledger=Ledger(incidents=(MENDING,)),
        stops=Stops({"n1": PAUSED}),
    ),
    "nor another node's": Case(
        UNCHECKED,
        ("queue:0:check",),
        ledger=Ledger(incidents=(incident("n2", REPAIR, Status.PENDING),)),
    ),
}
BOB = Wanted("bob", NOW, "new disks", begun=True)
WANTED = Outage("uuid-n4", wanted=BOB)
EVACUATED = Kind.EVACUATED_BY_PERSON
MACHINES = {
    "the cluster is paused": Case(stops=Stops(storm=PAUSED), why=Kind.PAUSED),
    "but a step that is due goes on": Case(
        (begun(at=WATCHING),), ORDERED, stops=Stops(storm=PAUSED)
    ),
    "the node is paused": Case(stops=Stops({"n4": PAUSED}), why=Kind.PAUSED),
    "another node is": Case(stops=Stops({"n5": PAUSED}, outside=PAUSED), ordered=ORDERED),
    "outside of the cluster all is paused": Case(
        (entry(9),), stops=Stops(outside=PAUSED), why=Kind.PAUSED
    ),
    "outside of the cluster": Case((replace(entry(), address="10.0.0.9"),), ORDERED),
    "shut": Case(shut={0: because(Kind.IN_WINDOW, "n4")}, why=Kind.IN_WINDOW),
    "an incident is at work": Case(
        ledger=Ledger(incidents=(replace(OPEN, status=Status.PENDING),)), why=Kind.INCIDENT_THERE
    ),
    "one is only noted": Case(ledger=Ledger(incidents=(OPEN,)), ordered=ORDERED),
    "one has failed, and the fault lasts": Case(
        ledger=Ledger(incidents=(replace(OPEN, status=Status.FAILED),)),
        observed=seen(WORLD, {"n4": EVACUATE}),
        why=Kind.INCIDENT_THERE,
    ),
    "one has failed, and the node is well": Case(
        ledger=Ledger(incidents=(replace(OPEN, status=Status.FAILED),)), ordered=ORDERED
    ),
    "its own incident is held": Case(
        (entry(who=INCIDENTS),),
        ledger=Ledger(incidents=(OPEN,)),
        stops=Stops(incidents={OPEN.id: PAUSED}),
        why=Kind.PAUSED,
    ),
    "an incident is held that it is not of": Case(
        ledger=Ledger(incidents=(OPEN,)),
        stops=Stops(incidents={OPEN.id: PAUSED}),
        ordered=ORDERED,
    ),
    "a person has had it evacuated": Case(ledger=Ledger(outages=(WANTED,)), why=EVACUATED),
    "the person who added it": Case(
        (entry(who="bob"),), ledger=Ledger(outages=(WANTED,)), ordered=ORDERED
    ),
    "its evacuation has not begun": Case(
        ledger=Ledger(outages=(Outage("uuid-n4", wanted=replace(BOB, begun=False)),)),
        ordered=ORDERED,
    ),
    "others work there": Case(
        ledger=Ledger(intents=(works(Drain("n4"), OfPerson("uuid-n4")),)), why=Kind.CLAIMED
    ),
    "a mirror is copied from there": Case(
        observed=with_instances(a=("n4", "n2")),
        ledger=Ledger(intents=(works(MoveSecondary("a", "n2", "n3"), OfPerson("uuid-n2"), "n2"),)),
        why=Kind.NEW_MIRROR,
    ),
    "so many nodes are in work": Case(
        busy=frozenset({"uuid-n2"}), policy=replace(POLICY, nodes_in_work=1), why=Kind.NODES_IN_WORK
    ),
    "another candidate is": Case(
        observed=with_node(CANDIDATE, node("n2", candidate=True)),
        ledger=Ledger(incidents=(OTHER,)),
        why=Kind.OTHER_CANDIDATE,
    ),
}
HEALED = entry(operation="tells", healthy=True)
SUCCESS = ("queue:0:success",)
ENDS = {
    "a healed machine": Case((HEALED,), SUCCESS),
    "while the queue is full": Case((HEALED,), SUCCESS, policy=replace(POLICY, nodes_in_work=0)),
    "its node is paused": Case((HEALED,), why=Kind.PAUSED, stops=Stops({"n4": PAUSED})),
    "and it was at work": Case(
        (begun(at=WATCHING, operation="tells", healthy=True),),
        why=Kind.PAUSED,
        stops=Stops({"n4": PAUSED}),
    ),
    "all is paused, outside of the cluster": Case(
        (replace(HEALED, address="10.0.0.9"),), why=Kind.PAUSED, stops=Stops(outside=PAUSED)
    ),
    "the storm brake has tripped": Case((HEALED,), why=Kind.PAUSED, stops=Stops(storm=PAUSED)),
    "somebody else has had it evacuated": Case(
        (HEALED,), why=EVACUATED, ledger=Ledger(outages=(WANTED,))
    ),
    "an incident has failed, and the fault lasts": Case(
        (HEALED,),
        ledger=Ledger(incidents=(replace(OPEN, status=Status.FAILED),)),
        observed=seen(WORLD, {"n4": EVACUATE}),
        why=Kind.INCIDENT_THERE,
    ),
    "others have jobs there": Case(
        (HEALED,),
        ledger=Ledger(intents=(works(Drain("n4"), OfPerson("uuid-n4")),)),
        why=Kind.CLAIMED,
    ),
}
DRAIN = {
    "an empty node": Case((DRAINS,), ("queue:0:empty",)),
    "what can leave": Case((DRAINS,), ("queue:0:empty",), observed=with_instances(a=("n4", "n2"))),
    "not while the master's agent would refuse its repair": Case(
        (DRAINS,),
        observed=seen(WORLD, refusing={"n1": "its disk is full"}),
        why=AgentKind.REFUSES_ORDERS,
    ),
    "what moves is let end": Case(
        (begun(at=DRAINING, operation="drains"),),
        ledger=Ledger(intents=(works(Drain("n4"), OfEntry(0, "empty")),)),
    ),
}


def test_what_the_masters_agent_is_ordered_and_why_not() -> None:
    for name, case in AGENT.items():
        _, intents, whys = worked(case)
        assert tuple(intent.purpose.text for intent in intents) == case.ordered, (name, whys)
        assert case.why is None or case.why in whys, (name, whys)


def test_what_is_done_to_a_machine_and_why_not() -> None:
    """Its health is asked for in any case."""
    for name, case in {**MACHINES, **ENDS, **DRAIN}.items():
        _, intents, whys = worked(case)
        orders = [i.purpose.text for i in intents if not i.purpose.text.endswith(":check")]
        assert tuple(orders) == case.ordered, (name, whys)
        assert case.why is None or case.why in whys, (name, whys)


def test_in_doubt_about_the_ledger_nothing_is_ordered_and_the_nodes_at_work_are_kept() -> None:
    entries = (entry(checked_at=0), entry(1), begun(2, at=WATCHING))
    nodes = with_node(N4, N5, machine("n3", 2))
    queue = Ledger(queue=Queue(entries, len(entries)))
    doubt = Stops(doubt=because(Kind.OUTDATED_QUEUE, since="noon"))
    here = situation(queue, nodes, POLICY, NOW, doubt)
    assert work_off(queue, here, {}) == (queue, [])
    assert here.room.claims == {"n3": entries[2].owner}
    assert here.room.in_work == {"uuid-n3"}


def test_a_pause_of_all_also_holds_machines_that_are_no_nodes() -> None:
    outside = replace(entry(), address="10.0.0.9")
    before = Ledger(queue=Queue((outside,), 1))
    for tags, ordered in ((frozenset[str](), 1), (frozenset({PAUSE_TAG}), 0)):
        after = decide(before, seen(replace(WORLD, tags=tags)), POLICY, NOW).ledger
        repairs = [one for one in after.intents if one.purpose == OfEntry(0, "repair")]
        assert len(repairs) == ordered


def test_a_command_runs_on_the_masters_agent_and_claims_the_node() -> None:
    after, (order,), _ = worked(Case())
    assert isinstance(order.action, RunCommand)
    assert (order.action.node, order.action.command, order.node) == ("n1", "try-1", "n4")
    assert after.queue.entries[0].status is EntryStatus.PROCESSING
    _, (check,), _ = worked(Case((entry(checked_at=0),)))
    assert isinstance(check.action, RunCommand)
    assert (check.action.command, check.node) == ("check", ""), "which keeps nobody from it"


def test_a_node_that_cannot_be_emptied_is_not_drained_and_the_entry_backs_off() -> None:
    there = with_instances(a=("n4", "n2"), plain=("n4", None))
    for before in (DRAINS, begun(operation="drains", step=1)):
        after, intents, _ = worked(Case((before,), observed=there))
        (one,) = after.queue.entries
        assert not any(isinstance(intent.action, Drain) for intent in intents), before
        assert (one.backoffs, one.step_status, one.begun_at) == (1, StepStatus.WAITING, 0), before
        assert "instance plain" in one.why, before


def test_a_node_that_is_being_emptied_goes_on_though_something_stays() -> None:
    one = begun(at=DRAINING, operation="drains", drained=True)
    moving = Ledger(intents=(works(MovePrimary("a", "n4", live=True), OfEntry(0, "empty")),))
    drained = {"n4": machine("n4", 0, drained=True)}
    for places, before, moves, backoffs in (
        ({"a": ("n4", "n2"), "plain": ("n4", None)}, EMPTY, 2, 0),
        ({"a": ("n4", "n2"), "plain": ("n4", None)}, moving, 0, 0),
        ({"plain": ("n4", None)}, EMPTY, 0, 1),
    ):
        there = replace(WORLD, nodes={**WORLD.nodes, **drained}, instances=six(**places).instances)
        after, intents, _ = worked(Case((one,), ledger=before, observed=seen(there)))
        emptying = [intent for intent in intents if intent.purpose == OfEntry(0, "empty")]
        assert len(emptying) == moves, (places, before)
        assert after.queue.entries[0].backoffs == backoffs, (places, before)


def test_an_entry_at_work_keeps_its_node_from_others_also_in_doubt() -> None:
    """Unless somebody else has it: then it is theirs."""
    working, doubt = begun(at=WATCHING), Stops(doubt=PAUSED)
    theirs = (works(Drain("n4"), OfPerson("uuid-n4")),)
    for one, stops, intents, keeps in (
        (working, GOES_ON, (), True),
        (working, doubt, (), True),
        (working, GOES_ON, theirs, False),
        (entry(), doubt, (), False),
        (entry(9), GOES_ON, (), False),
    ):
        before = Ledger(queue=Queue((one,), 1), intents=intents)
        here = situation(before, SEEN, POLICY, NOW, stops)
        work_off(before, here, {})
        assert bool(here.room.in_work) is (keeps or bool(intents)), (one, stops)
        assert (here.room.claims.get("n4") == one.owner) is keeps, (one, stops)


def test_a_drain_that_somebody_has_undone_is_not_ours_any_more() -> None:
    drained: dict[str, Any] = {"operation": "drains", "drained": True}
    for one, there, ours in (
        (begun(**drained), machine("n4", 0, drained=True), True),
        (begun(**drained), N4, False),
        (begun(at=DRAINING, **drained), machine("n4", 0, offline=True), False),
        (entry(status=EntryStatus.FAILED, drained=True), N4, False),
    ):
        case = Case((one,), observed=with_node(there), stops=Stops({"n4": PAUSED}))
        after, _, _ = worked(case)
        (found,) = after.queue.entries
        assert found.drained is ours, (one, there)


def test_when_room_is_asked_for() -> None:
    for one, asks in (
        (DRAINS, True),
        (entry(), False),
        (replace(DRAINS, status=EntryStatus.FAILED), False),
        (replace(DRAINS, deleted=True), False),
        (replace(DRAINS, operation="op9"), False),
        (replace(DRAINS, step=2), False),
    ):
        assert wants_room(Ledger(queue=Queue((one,))), POLICY) is asks, one


def test_an_intent_of_an_entry_claims_nothing_from_itself() -> None:
    moving = works(MovePrimary("a", "n4", live=True, target="n2"), OfEntry(0, "empty"))
    ours = Case(
        (begun(at=DRAINING, operation="drains", drained=True),),
        observed=with_node(machine("n4", 0, drained=True)),
        ledger=Ledger(intents=(moving,)),
    )
    _, _, whys = worked(ours)
    assert Kind.CLAIMED not in whys
    theirs = replace(moving, purpose=OfIncident(OTHER.id))
    _, _, whys = worked(replace(ours, ledger=Ledger(intents=(theirs,))))
    assert Kind.CLAIMED in whys
