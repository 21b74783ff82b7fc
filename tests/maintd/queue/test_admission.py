"""Whether work may begin: pauses, waits and limits, to the millisecond."""

from dataclasses import replace

import pytest

from nodeagent.maintd.planning.admission import (
    another_candidate,
    failed_before,
    keeps,
    may_begin,
    no_room_in_work,
    well_since,
)
from nodeagent.maintd.planning.resources import open_room
from nodeagent.model.diagnosis import Diagnosis
from nodeagent.model.incident import Incident, Status
from nodeagent.model.ledger import Begun, Ledger, Policy
from nodeagent.model.reason import AnyKind, Kind, because
from nodeagent.model.snapshot import Node
from nodeagent.model.stage import FULL
from nodeagent.model.units import Ms
from tests.maintd.world import (
    EVACUATE,
    FAILOVER,
    NOW,
    OK,
    REPAIR,
    incident,
    need,
    node,
    seen,
    six,
    snapshot,
)

MINUTE = 60_000
POLICY = Policy(
    stage=FULL,
    settle=Ms(MINUTE),
    cooldown=Ms(10 * MINUTE),
    attempts=2,
    attempts_within=Ms(60 * MINUTE),
    withdraw=Ms(5 * MINUTE),
    nodes_in_work=2,
    group_in_work=1,
)
SETTLED = replace(incident(), noted_at=NOW - MINUTE)
RESTLESS = incident(restless=NOW - 5 * MINUTE + 1, changes=2, differs="disk")


def begun(ago: int, said: Diagnosis = EVACUATE, of: str = "another") -> Begun:
    return Begun(SETTLED.node, Ms(NOW - ago), of, said.need)


MAY_BEGIN: list[tuple[Incident, tuple[Begun, ...], AnyKind | None]] = [
    (SETTLED, (), None),
    (replace(SETTLED, noted_at=NOW - MINUTE + 1), (), Kind.SETTLING),
    (replace(SETTLED, not_before=NOW), (), None),
    (replace(SETTLED, not_before=NOW + 1), (), Kind.NOT_AGAIN),
    (RESTLESS, (), Kind.NEVER_SETTLES),
    (replace(RESTLESS, changes=1), (), Kind.SETTLING),
    (replace(RESTLESS, restless=NOW - 5 * MINUTE), (), None),
    (SETTLED, (begun(10 * MINUTE),), None),
    (SETTLED, (begun(10 * MINUTE - 1),), Kind.COOLING_DOWN),
    (SETTLED, (begun(1, of=SETTLED.id),), None),
    (SETTLED, (replace(begun(1), node="uuid-n2"),), None),
    # A worse fault need not wait for the effect of the last repair.
    (SETTLED, (begun(1, REPAIR),), None),
    (SETTLED, (begun(1, FAILOVER),), Kind.COOLING_DOWN),
    (SETTLED, (begun(60 * MINUTE - 1), begun(11 * MINUTE)), Kind.ATTEMPTS),
    (SETTLED, (begun(60 * MINUTE), begun(11 * MINUTE)), None),
]


def test_when_work_on_an_incident_may_begin() -> None:
    for one, before, kind in MAY_BEGIN:
        why = may_begin(one, Ledger(begun=before), POLICY, {}, NOW)
        assert (why and why.kind) == kind, (one, before)


def test_a_pause_comes_before_all_others() -> None:
    paused = because(Kind.PAUSED, "n1")
    late = replace(SETTLED, not_before=NOW + 1)
    assert may_begin(late, Ledger(), POLICY, {"n1": paused}, NOW) == paused
    assert may_begin(late, Ledger(), POLICY, {"n2": paused}, NOW) != paused


@pytest.mark.parametrize(
    ("busy", "kind"),
    [
        ((), None),
        (("n2",), None),
        (("n2", "n3"), Kind.NODES_IN_WORK),
        (("n4",), Kind.GROUP_IN_WORK),
    ],
)
def test_how_many_nodes_are_worked_on_at_once(busy: tuple[str, ...], kind: AnyKind | None) -> None:
    groups = {"n1": "a", "n2": "b", "n3": "c", "n4": "a"}
    world = snapshot(*(node(name, group=group) for name, group in groups.items()))
    room = open_room(Ledger(), seen(world), {})
    room.in_work.update(f"uuid-{name}" for name in busy)
    why = no_room_in_work(world.nodes["n1"], room, POLICY)
    assert (why and why.kind) == kind


@pytest.mark.parametrize(
    ("mine", "other", "status", "waits"),
    [
        (True, True, Status.PENDING, True),
        (True, True, Status.NOTED, False),
        (True, False, Status.PENDING, False),
        (False, True, Status.PENDING, False),
    ],
)
def test_one_master_candidate_is_worked_on_at_a_time(
    mine: bool, other: bool, status: Status, waits: bool
) -> None:
    one, two = node("n1", candidate=mine), node("n2", candidate=other)
    nodes: dict[str, Node] = {each.uuid: each for each in (one, two)}
    work = [incident("n9"), incident("n1", status=Status.PENDING), incident("n2", status=status)]
    assert (another_candidate(one, work, nodes) is not None) is waits


KEEPS: list[tuple[Incident, Diagnosis, Node, bool]] = [
    (incident(), EVACUATE, node("n1"), True),
    (incident(), EVACUATE, node("n1", offline=True), False),
    (incident(diagnosis=need("live-repair")), EVACUATE, node("n1"), False),
    (incident(status=Status.COMPLETED), EVACUATE, node("n1"), False),
    (incident(status=Status.FAILED), EVACUATE, node("n1"), True),
    (incident(status=Status.FAILED), OK, node("n1"), False),
    (incident(status=Status.FAILED, drained=True), OK, node("n1", drained=True), True),
    (incident(status=Status.FAILED, drained=True), OK, node("n1"), False),
    (incident(status=Status.FAILED), OK, node("n1", drained=True), False),
]


def test_whether_an_incident_keeps_its_node() -> None:
    for one, said, special, kept in KEEPS:
        assert keeps(one, special, seen(six(special), {"n1": said})) is kept, (one, said)


WELL_SINCE: list[tuple[int, Diagnosis | None, int]] = [
    (0, None, 0),
    (7, None, 7),
    (0, OK, NOW),
    (7, OK, 7),
    (7, EVACUATE, 0),
    (NOW - 5 * MINUTE, FAILOVER, NOW - 5 * MINUTE),
    (NOW - 5 * MINUTE + 1, FAILOVER, 0),
]


def test_since_when_a_node_is_well() -> None:
    for missed, said, since in WELL_SINCE:
        ended = incident(status=Status.COMPLETED, missed_at=Ms(missed))
        assert well_since(ended, said, POLICY, NOW) == since, (missed, said)


def test_a_failure_counts_until_the_node_was_well_for_a_while() -> None:
    failed = incident(status=Status.FAILED, missed_at=NOW - 5 * MINUTE)
    for one, counts in (
        (failed, False),
        (replace(failed, missed_at=NOW - 5 * MINUTE + 1), True),
        (replace(failed, missed_at=Ms(0)), True),
        (replace(failed, node="uuid-n2"), False),
        (replace(failed, status=Status.COMPLETED, missed_at=Ms(0)), False),
    ):
        why = failed_before(incident(), Ledger(incidents=(one,)), POLICY)
        assert (why is not None) is counts
