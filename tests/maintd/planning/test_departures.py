"""When nodes leave and return, and evacuations that weigh it."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from nodeagent.maintd.deciding.decide import decide
from nodeagent.maintd.planning.departures import departures, leaves, returns_at
from nodeagent.model.action import Drain, MovePrimary, MoveSecondary
from nodeagent.model.departure import Cause, Departure, joined, ranks, stay_longest
from nodeagent.model.fencing import Fencing, Stage
from nodeagent.model.incident import Status
from nodeagent.model.ledger import Ledger, Policy
from nodeagent.model.outage import Outage, Wanted
from nodeagent.model.reason import Kind, Reason, because
from nodeagent.model.roll import Phase, Roll, RollNode, Terms
from nodeagent.model.snapshot import Capacity, Group, Instance, Node, Size, Snapshot
from nodeagent.model.units import Ms
from nodeagent.model.window import Mode, Scheduled
from tests.maintd.decided import POLICY, details, kinds, new
from tests.maintd.leaving import DAY, HOUR, ahead, in_windows, window
from tests.maintd.world import EVACUATE, NOW, REPAIR, incident, node, seen, six


def wanted(name: str) -> Outage:
    return Outage(f"uuid-{name}", wanted=Wanted("ada", NOW, "new disks"))


# The notion.


@pytest.mark.parametrize(
    ("scheduled", "departure"),
    [
        pytest.param(
            window("n2", HOUR, 2 * HOUR), Departure(ahead(HOUR), ahead(2 * HOUR)), id="ahead"
        ),
        pytest.param(window("n2", HOUR, None), Departure(ahead(HOUR)), id="for ever"),
        pytest.param(window("n2", 3 * DAY, 4 * DAY), Departure(ahead(3 * DAY), ahead(4 * DAY))),
        pytest.param(window("n2", 3 * DAY + 1, 4 * DAY), None, id="too far ahead"),
        pytest.param(window("n2", -2, -1), None, id="over, and never begun"),
        pytest.param(window("n2", -2, -1, begun=True), Departure(ahead(-2)), id="late"),
        pytest.param(window("n2", -2, -1, mode=Mode.DOWN), Departure(ahead(-2)), id="late, down"),
        pytest.param(
            window("n2", -2, HOUR, mode=Mode.DOWN), Departure(ahead(-2), ahead(HOUR)), id="away"
        ),
        pytest.param(window("n2", HOUR, 2 * HOUR, node=""), None, id="no node"),
        pytest.param(window("n2", HOUR, 2 * HOUR, node="uuid-gone"), None, id="a gone node"),
    ],
)
def test_a_window_takes_its_node_away(scheduled: Scheduled, departure: Departure | None) -> None:
    found = departures(in_windows(scheduled), six(), Policy(), NOW)
    assert found == ({} if departure is None else {"n2": departure})


@pytest.mark.parametrize(
    ("ledger", "departure"),
    [
        (Ledger(outages=(wanted("n2"),)), Departure(NOW, None, Cause.PERSON)),
        (Ledger(outages=(Outage("uuid-n2"),)), None),
        (Ledger(incidents=(incident("n2"),)), Departure(NOW, None, Cause.INCIDENT)),
        (Ledger(incidents=(incident("n2", REPAIR),)), None),
        (Ledger(incidents=(incident("n2", EVACUATE, Status.FAILED),)), None),
        (
            Ledger(fencing=(Fencing("uuid-n2", Stage.CUTS, NOW, NOW),)),
            Departure(NOW, None, Cause.FENCING),
        ),
        (Ledger(fencing=(Fencing("uuid-n2", Stage.CUTS, NOW, NOW, drill=True),)), None),
        (Ledger(fencing=(Fencing("uuid-n2", Stage.STOPPED, NOW, NOW),)), None),
    ],
)
def test_who_else_takes_nodes_away(ledger: Ledger, departure: Departure | None) -> None:
    found = departures(ledger, six(), Policy(), NOW)
    assert found == ({} if departure is None else {"n2": departure})


def test_absences_that_overlap_are_one_and_later_ones_do_not_count() -> None:
    first, second = Departure(Ms(10), Ms(20)), Departure(Ms(15), Ms(30))
    later, for_ever = Departure(Ms(40), Ms(50)), Departure(Ms(5), None, Cause.PERSON)
    assert joined([later, second, first]) == Departure(Ms(10), Ms(30))
    assert joined([second, first, for_ever]) == for_ever
    both = in_windows(window("n2", HOUR, 2 * HOUR), window("n2", 5 * HOUR, 6 * HOUR))
    found = departures(both, six(), Policy(), NOW)
    assert found == {"n2": Departure(ahead(HOUR), ahead(2 * HOUR))}


def test_of_nodes_that_leave_the_last_comes_first_and_of_these_the_first_back() -> None:
    known = {
        "soon": Departure(Ms(10), Ms(11)),
        "late": Departure(Ms(20), None),
        "late, soon back": Departure(Ms(20), Ms(21)),
        "too": Departure(Ms(20), Ms(21)),
        "elsewhere": Departure(Ms(15), Ms(21)),
    }
    names = ["soon", "stays", "late", "late, soon back", "too"]
    assert ranks(known, names) == {"late, soon back": 1, "too": 1, "late": 2, "soon": 3}
    assert stay_longest(known, names) == ["stays"]
    assert stay_longest(known, ["soon", "too", "late", "late, soon back"]) == [
        *("too", "late, soon back")
    ]
    assert stay_longest(known, []) == []


# When the nodes of a roll will be back.

MINUTE = 60_000
DONE = RollNode("a", "a", Phase.DONE, since=Ms(10 * MINUTE), left_at=Ms(0))


def roll(*nodes: RollNode, at_once: int = 1, pause: int = 0) -> Roll:
    terms = Terms("x", at_once=at_once, pause_between=Ms(pause))
    return Roll(1, "root", Ms(0), terms, (DONE, *nodes))


def waiting(*names: str) -> list[RollNode]:
    return [RollNode(name, name) for name in names]


@pytest.mark.parametrize(
    ("at_once", "pause", "minutes"),
    [(1, 0, (25, 35, 45, 55)), (2, 0, (25, 30, 35, 40)), (1, 5, (25, 40, 55, 70))],
)
def test_each_takes_as_long_as_the_others_did(
    at_once: int, pause: int, minutes: tuple[int, ...]
) -> None:
    away = RollNode("b", "b", Phase.RUNNING, left_at=Ms(15 * MINUTE))
    one = roll(away, *waiting("c", "d", "e"), at_once=at_once, pause=pause * MINUTE)
    found = returns_at(one, Ms(20 * MINUTE))
    assert [found[name] // MINUTE for name in "bcde"] == list(minutes)


# Evacuations.

SIZE = Size(16_384, 1024, 1_000_000, 64)
AWAY = incident("n1", EVACUATE, Status.PENDING, drained=True)


def shared(name: str, memory: int = 100, where: str = "n1") -> Instance:
    return Instance(name, where, template="ext", memory=memory, disk=100)


def drbd(name: str, primary: str, secondary: str, memory: int = 100) -> Instance:
    return Instance(name, primary, secondary, memory=memory, disk=1000)


def cluster(*instances: Instance, **nodes: Node) -> Snapshot:
    names = [f"n{number}" for number in range(1, 6)]
    there = {name: node(name) for name in names} | nodes
    named = {one.name: one for one in instances}
    return Snapshot("c", there, named, {"default": Group("default", "default")}, "n5")


def roomy(memory: int = 8000, **others: int) -> dict[str, Capacity]:
    named = {f"n{number}": memory for number in range(1, 6)} | others
    return {name: Capacity(mib, 500_000, SIZE) for name, mib in named.items()}


def evacuating(
    snapshot: Snapshot, capacity: Mapping[str, Capacity], *windows: Scheduled
) -> dict[str, str]:
    """Where each instance of n1 goes, which asks to be evacuated and is drained already."""
    nodes = {**snapshot.nodes, "n1": replace(snapshot.nodes["n1"], drained=True)}
    observed = seen(replace(snapshot, nodes=nodes), {"n1": EVACUATE}, capacity=capacity)
    before = replace(in_windows(*windows), incidents=(AWAY,))
    return {
        action.instance: str(action.target)
        for action in new(decide(before, observed, replace(POLICY, moves=100), NOW))
        if isinstance(action, MovePrimary | MoveSecondary)
    }


SOON = (
    window("n2", 10 * HOUR, 11 * HOUR),
    window("n3", 20 * HOUR, 21 * HOUR),
    window("n4", 20 * HOUR, 25 * HOUR),
)


@pytest.mark.parametrize(
    ("full", "target"),
    [
        pytest.param((), "n5", id="the node that stays"),
        pytest.param(("n5",), "n3", id="it leaves last and returns first"),
        pytest.param(("n5", "n3"), "n4", id="it leaves last"),
        pytest.param(("n5", "n3", "n4"), "n2", id="any place is better than a sick node"),
    ],
)
@pytest.mark.parametrize("sized", [True, False], ids=["by all checks", "without sizes"])
def test_instances_go_to_the_node_that_stays_longest(
    full: tuple[str, ...], target: str, sized: bool
) -> None:
    capacity = roomy(1000, n2=8000, **dict.fromkeys(full, 50))
    if not sized:
        capacity = {name: replace(one, size=None) for name, one in capacity.items()}
    assert evacuating(cluster(shared("a")), capacity, *SOON) == {"a": target}
    assert evacuating(cluster(shared("a")), capacity) == {"a": "n2"}, "it has the most room"


def test_what_cannot_avoid_a_node_that_leaves_says_so_while_it_moves() -> None:
    """An instance on DRBD can only run on its secondary node."""
    there = cluster(drbd("a", "n1", "n2"), n1=node("n1", drained=True))
    before = replace(in_windows(window("n2", 10 * HOUR, 11 * HOUR)), incidents=(AWAY,))
    observed = seen(there, {"n1": EVACUATE}, capacity=roomy())
    decision = decide(before, observed, POLICY, NOW)
    assert [i.action.target for i in decision.ledger.intents if isinstance(i.action, MovePrimary)]
    (told,) = (held for held in decision.held if held.why.kind is Kind.MOVES_AGAIN)
    assert (told.node, told.why.subject.name) == ("n1", "a")
    assert details([told], Kind.LEAVES) == {
        "it": "n2",
        "leaves": "2026-11-18T21:06:40Z",
        "cause": "for a maintenance window",
        "returns": "2026-11-18T22:06:40Z",
    }
    assert told.why.help == "gnt-maint why n2"
    assert "n2" not in str(told.why.public), "windows are not everybody's to know"
    later = decide(decision.ledger, observed, POLICY, Ms(NOW + 1))
    assert told in later.held, "until it has moved"


# N+1.


def asked(
    snapshot: Snapshot, capacity: Mapping[str, Capacity], *windows: Scheduled
) -> tuple[list[Drain], list[Reason]]:
    """What happens when a person wants n1 evacuated."""
    before = replace(in_windows(*windows), outages=(wanted("n1"),))
    decision = decide(before, seen(snapshot, capacity=capacity), POLICY, NOW)
    drains = [action for action in new(decision) if isinstance(action, Drain)]
    return drains, [held.why for held in decision.held if held.node == "n1"]


def test_a_node_that_leaves_meanwhile_is_nobody_s_failover() -> None:
    """The secondary of `a` finds room only on n3, which leaves before n1 is known to return."""
    there = cluster(drbd("a", "n1", "n2", memory=1000), n4=node("n4", vm_capable=False))
    there = replace(there, nodes={n: there.nodes[n] for n in ("n1", "n2", "n3")}, master="n3")
    drains, held = asked(there, roomy(), window("n3", DAY, DAY + HOUR))
    why = Departure(ahead(DAY), ahead(DAY + HOUR))
    missing = because(Kind.NO_FAILOVER_THERE, "n3", why=leaves("n3", why))
    assert (drains, held) == ([], [because(Kind.NO_ROOM, "n1", why=missing)])
    assert held[0].help == "gnt-maint why n3"
    assert asked(there, roomy(), window("n3", 4 * DAY, 5 * DAY)) == ([Drain("n1")], [])


def test_a_node_that_leaves_after_the_other_is_back_is_a_failover() -> None:
    """Else a night of windows, one after the other, would never begin."""
    there = cluster(drbd("a", "n1", "n2"))
    there = replace(there, nodes={n: there.nodes[n] for n in ("n1", "n2", "n3")}, master="n3")
    mine = window("n1", 60_000, HOUR)
    for start, begins in ((HOUR, True), (HOUR - 1, False)):
        before = in_windows(mine, window("n3", start, 3 * HOUR))
        decision = decide(before, seen(there, capacity=roomy()), POLICY, NOW)
        assert (Drain("n1") in new(decision)) is begins
        assert ((Kind.NO_FAILOVER_THERE, "n3") in kinds(decision.held)) is not begins


def test_a_node_that_asks_to_be_evacuated_does_not_wait_for_windows() -> None:
    there = cluster(drbd("a", "n1", "n2"))
    there = replace(there, nodes={n: there.nodes[n] for n in ("n1", "n2", "n3")}, master="n3")
    before = replace(in_windows(window("n3", DAY, DAY + HOUR)), incidents=(incident("n1"),))
    observed = seen(there, {"n1": EVACUATE}, capacity=roomy())
    assert new(decide(before, observed, POLICY, NOW)) == [Drain("n1")]
