"""Which instances of a dead node may start elsewhere: only on disks that have everything."""

from dataclasses import replace

import pytest

from nodeagent.maintd.fencing.restarts import TOLERANCE, Failovers, fates, plan
from nodeagent.maintd.planning.resources import open_room
from nodeagent.model.evidence import Contact, Evidence, Mirror
from nodeagent.model.evidence import Testimony as Told
from nodeagent.model.fencing import End, Fate, Fencing, Stage, Unreachable
from nodeagent.model.ledger import Ledger
from nodeagent.model.reason import Kind
from nodeagent.model.snapshot import Capacity
from nodeagent.model.units import Ms
from tests.maintd.rig import QUICK
from tests.maintd.world import NOW, instance, seen, six

WORLD = six(web1=("n1", "n2"))
SINCE, LIVED = Ms(NOW - 600_000), Ms(NOW - 640_000)
SILENCE = Unreachable("uuid-n1", SINCE, LIVED)
FRESH = Mirror("web1", "WFConnection", "UpToDate", NOW - LIVED)


def fate(
    *mirrors: Mirror,
    disks: int = 1,
    witness: str = "n2",
    age: int = 0,
    silence: Unreachable = SILENCE,
) -> Fate:
    """The fate of web1, of whose disks a witness has told."""
    web1 = replace(WORLD.instances["web1"], disks=disks)
    told = Told(witness, Ms(NOW - age), Contact.SILENT, Contact.SILENT, mirrors)
    evidence = Evidence("n1", SINCE, Contact.SILENT, witnesses=(told,))
    observed = seen(replace(WORLD, instances={"web1": web1}), evidence={"n1": evidence})
    (found,) = fates(WORLD.nodes["n1"], observed, Ledger(unreachable=(silence,)), NOW)
    return found


@pytest.mark.parametrize(
    ("mirrors", "disks", "synced"),
    [
        pytest.param((FRESH,), 1, True, id="its one disk"),
        pytest.param((FRESH, FRESH), 2, True, id="both disks"),
        pytest.param((), 1, False, id="none is listed"),
        pytest.param((FRESH,), 2, False, id="one of two"),
        pytest.param((FRESH, FRESH), 1, False, id="one too many"),
        pytest.param((), 0, False, id="nobody knows how many, and none is listed"),
        pytest.param((FRESH,), 0, False, id="nobody knows how many"),
        pytest.param((replace(FRESH, disk="Outdated"),), 1, False, id="outdated"),
        pytest.param((FRESH, replace(FRESH, disk="Inconsistent")), 2, False, id="one is not"),
        pytest.param((replace(FRESH, instance="db1"),), 1, False, id="another instance's"),
    ],
)
def test_all_disks_are_listed_and_up_to_date(
    mirrors: tuple[Mirror, ...], disks: int, synced: bool
) -> None:
    found = fate(*mirrors, disks=disks)
    assert found.synced == synced
    assert (found.end is End.OPEN) == synced
    assert ("gnt-instance failover web1" in found.why) == (not synced)
    assert ("no agent said that all its disks on n2 were UpToDate" in found.why) == (not synced)


def test_only_its_secondary_counts_and_only_lately() -> None:
    assert not fate(FRESH, witness="n3").synced
    assert not fate(FRESH, age=60_001).synced
    assert not fate(FRESH, age=-1).synced


def last_complete(at: int, silence: Unreachable = SILENCE, age: int = 0) -> Fate:
    """The fate if the second of two disks was last complete at this moment."""
    lost = replace(FRESH, ago=NOW - age - at)
    return fate(replace(FRESH, ago=Ms(0)), lost, disks=2, age=age, silence=silence)


def test_a_link_that_broke_while_the_node_lived_keeps_its_instance_down() -> None:
    for early, synced in ((0, True), (TOLERANCE, True), (TOLERANCE + 1, False), (3_600_000, False)):
        assert last_complete(LIVED - early).synced == synced
        assert last_complete(LIVED - early, age=50_000).synced == synced
    found = last_complete(LIVED - 3_600_000)
    assert found.why == (
        "its disks on n2 have not been connected since 2026-11-18T09:56:00Z, but n1 lived until"
        " 2026-11-18T10:56:00Z, so what it wrote may be missing: check them, then run"
        " gnt-instance failover web1"
    )


def test_without_an_answer_shortly_before_the_silence_only_its_beginning_counts() -> None:
    """maintd was started later, or a form of the ledger before this one."""
    for silence in (replace(SILENCE, lived=SINCE), Unreachable("uuid-n1", SINCE)):
        assert last_complete(SINCE - TOLERANCE, silence).synced
        assert last_complete(SINCE + 60_000, silence).synced, "it was hung, and cut off later"
        found = last_complete(LIVED, silence)
        assert "maintd does not know until when n1 wrote" in found.why


def test_an_agent_that_has_never_seen_them_connected_does_not_know() -> None:
    found = fate(replace(FRESH, ago=None))
    assert "without a connection since its agent was started" in found.why
    assert "gnt-instance failover web1" in found.why


def test_a_node_that_nobody_found_unreachable_may_have_lived_until_now() -> None:
    nobody = replace(SILENCE, node="uuid-n5")
    assert last_complete(NOW, nobody).synced
    assert not last_complete(LIVED, nobody).synced


def test_the_most_important_comes_first() -> None:
    """By the smallest number of a readable tag; who has none comes last, by name."""
    tags = {
        "a": (),
        "b": ("maintd:priority:2",),
        "c": ("maintd:priority:9", "maintd:priority:1"),
        "d": ("maintd:priority:x", "maintd:priority:100000", "priority:1"),
        "e": ("maintd:priority:99999",),
    }
    there = {
        name: instance(name, "n1", None, template="rbd", tags=frozenset(own))
        for name, own in tags.items()
    }
    there["off"] = replace(there["c"], name="off", running=False)
    there["elsewhere"] = replace(there["c"], name="elsewhere", primary="n2")
    observed = seen(replace(WORLD, instances=there))
    order = [one.instance for one in fates(WORLD.nodes["n1"], observed, Ledger(), NOW)]
    assert order == ["c", "b", "e", "a", "d"]


def planned(*fates: Fate, **limits: object) -> Failovers:
    """A round's failovers of n1: n2 has the most memory, and web2 of n3 needs nearly all of it."""
    there = {
        "web1": instance("web1", "n1", "n2", memory=10),
        "moved": instance("moved", "n2", "n1"),
        "shared": instance("shared", "n1", None, template="rbd", memory=100),
        "web2": instance("web2", "n3", "n2", memory=1050),
    }
    nodes = {**WORLD.nodes, "n1": replace(WORLD.nodes["n1"], offline=True)}
    free = dict.fromkeys(nodes, Capacity(500, 500)) | {"n2": Capacity(1100, 500)}
    observed = seen(replace(WORLD, nodes=nodes, instances=there), capacity=free)
    fencing = Fencing("uuid-n1", Stage.RESTARTS, NOW, NOW, "", fates=fates)
    policy = replace(QUICK, **limits)  # type: ignore[arg-type]
    return plan(fencing, nodes["n1"], observed, policy, open_room(Ledger(), observed, {}))


def test_what_still_runs_nowhere_is_failed_over_and_no_more_at_once_than_allowed() -> None:
    stays = Fate("moved", end=End.STAYS)
    fates = (stays, Fate("moved"), Fate("gone"), Fate("web1", synced=True), Fate("shared"))
    ends = [End.STAYS, End.RESTARTED, End.RESTARTED, End.OPEN, End.OPEN]
    for moves, spare, targets in (
        (9, True, {"web1": "n2", "shared": "n3"}),
        (9, False, {"web1": "n2", "shared": "n2"}),
        (1, True, {"web1": "n2"}),
    ):
        told = planned(*fates, moves=moves, spare=spare)
        assert [fate.end for fate in told.fencing.fates] == ends
        assert {move.instance: move.target for move in told.actions} == targets, (moves, spare)
        assert not any(move.live for move in told.actions)
    (held,) = planned(Fate("web1")).held
    assert held.why.kinds == {Kind.CANNOT_MOVE, Kind.MIRROR_UNKNOWN}
