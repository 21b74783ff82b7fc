"""Instances that repair themselves, by a whole coordinator on the simulated cluster."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from nodeagent.errors import Unavailable
from nodeagent.maintd.autorepair.jobs import remember, wants_room
from nodeagent.maintd.autorepair.plan import repair
from nodeagent.maintd.deciding.decide import decide
from nodeagent.maintd.engine.failpoint import arm
from nodeagent.maintd.planning.situation import Stops
from nodeagent.model.action import Guarded, MovePrimary, Reinstall, Retag, Scope, move_of
from nodeagent.model.incident import Status
from nodeagent.model.ledger import Intent, Ledger, Outcome, Policy, Result
from nodeagent.model.purpose import OfRepair
from nodeagent.model.reason import Kind, StageKind, because
from nodeagent.model.snapshot import Capacity, Group, Observed
from nodeagent.model.stage import DRAIN
from nodeagent.model.units import Ms
from tests.build import node, situation, six
from tests.maintd.autorepair.repairs import RULES, SAFE, cluster, moves, out, plain, result
from tests.maintd.decided import kinds, whole
from tests.maintd.rig import QUICK, Rig, mirrored
from tests.maintd.world import EVACUATE, NOW, incident, seen


def test_an_instance_without_a_copy_is_installed_anew() -> None:
    rig = cluster(plain("i1", "n2"))
    out(rig, "n2")
    rig.settle()
    assert (moves(rig), result(rig)) == (["Reinstall"], ("reinstall", "success", 1))
    assert rig.cluster.world.emptied == {"i1"}


@pytest.mark.parametrize(
    ("policy", "after", "begins"), [(SAFE, NOW, True), (SAFE, NOW + 1, False), (QUICK, NOW, False)]
)
def test_no_repair_begins_before_the_next_try(policy: Policy, after: int, *, begins: bool) -> None:
    rig = cluster(*mirrored(("n2", "n3")))
    out(rig, "n2")
    observed = seen(rig.cluster.snapshot())
    decision = decide(Ledger(repairs_after=Ms(after)), observed, policy, NOW)
    assert bool(decision.ledger.intents) is begins
    assert wants_room(Ledger(), observed, policy, NOW) is (policy is SAFE)


MIRROR_LOST = seen(
    replace(
        six(node("n2", offline=True), i=("n1", "n2")),
        groups={"default": Group("default", "default")},
        tags=frozenset({f"{RULES}failover"}),
    ),
    capacity={f"n{number}": Capacity(1000, 1000) for number in (1, 3, 4, 5, 6)},
)
WHY = because(Kind.PAUSED, "x")
STOPS = [
    pytest.param(Stops(), True, id="nothing"),
    pytest.param(Stops(pauses={"n4": WHY}), True, id="another node"),
    pytest.param(Stops(pauses={"n1": WHY}), False, id="its primary"),
    pytest.param(Stops(pauses={"n2": WHY}), False, id="its secondary"),
    pytest.param(Stops(windows={"n1": WHY}), False, id="a window of its primary"),
    pytest.param(Stops(storm=WHY), False, id="the storm brake"),
    pytest.param(Stops(doubt=WHY), True, id="doubt about the ledger"),
]


@pytest.mark.parametrize(("stops", "begins"), STOPS)
def test_no_repair_starts_where_it_is_stopped(stops: Stops, begins: bool) -> None:
    done = repair(Ledger(), situation(Ledger(), MIRROR_LOST, SAFE, NOW, stops), {})
    assert bool(done.jobs) is begins
    blocked = [part for why in done.blocked.values() for part in whole(why)]
    assert (WHY in blocked) is not begins


def test_what_stops_all_repairs_is_said_first() -> None:
    stops = Stops({"n1": WHY}, storm=because(Kind.STORM, why="many"))
    done = repair(Ledger(), situation(Ledger(), MIRROR_LOST, SAFE, NOW, stops), {})
    assert Kind.STORM in done.blocked["i"].kinds


def test_no_repair_starts_at_a_node_that_an_incident_works_on() -> None:
    at_work = Ledger(incidents=(incident("n1", EVACUATE, Status.PENDING),))
    done = repair(at_work, situation(at_work, MIRROR_LOST, SAFE, NOW), {})
    assert not done.jobs
    assert Kind.CLAIMED in done.blocked["i"].kinds


@pytest.mark.parametrize("name", ["promised", "submitted", "remembered", "saved"])
@pytest.mark.parametrize("ledger", [True, False], ids=["ledger", "no ledger"])
def test_nothing_is_done_twice_after_a_crash(name: str, ledger: bool) -> None:
    rig = cluster(*mirrored(("n2", "n3")), plain("i2", "n2", "rbd"))
    rig.tick()
    out(rig, "n2")
    arm(f"{name}:raise:1")
    try:
        for _ in range(20):
            rig.tick()
    except Unavailable:
        pass
    finally:
        arm("")
    if ledger:
        rig.crash()
    else:
        rig.lose_ledger()
    rig.settle()
    assert moves(rig, "i1") == ["MovePrimary", "MoveSecondary"]
    assert moves(rig, "i2") == ["MovePrimary"]
    assert result(rig, "i1") == ("failover", "success", 2)
    assert result(rig, "i2") == ("failover", "success", 1)


def by_hand(rig: Rig) -> None:
    """Somebody fails i1 over, and his job waits."""
    rig.cluster.pauses = lambda action: isinstance(action, MovePrimary)
    rig.cluster.submit_foreign(MovePrimary("i1", "n2", live=False, target="n5"))


MEANWHILE: dict[str, Callable[[Rig], None]] = {
    "moved by hand": lambda rig: rig.cluster.put(
        replace(rig.cluster.instances["i1"], primary="n5")
    ),
    "suspended": lambda rig: rig.cluster.put(
        replace(rig.cluster.instances["i1"], tags=frozenset({f"{RULES}suspend"}))
    ),
    "all suspended": lambda rig: rig.cluster.world.__setattr__(
        "tags", frozenset({f"{RULES}suspend"})
    ),
    "the group suspended": lambda rig: rig.cluster.put(
        Group("default", "default", frozenset({f"{RULES}suspend"}))
    ),
    "its node is back": lambda rig: rig.cluster.undrain("n2"),
    "removed": lambda rig: rig.cluster.remove_instance("i1"),
    "about to be moved by hand": by_hand,
}


@pytest.mark.parametrize("what", MEANWHILE)
def test_what_has_changed_since_it_was_decided_upon_is_not_repaired(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nodes are asked for their room, other jobs submitted: that takes minutes at times."""
    rig = cluster(plain("i1", "n2", "rbd"), plain("i2", "n2", "rbd"), allowed="failover")
    out(rig, "n2")
    save, changes = rig.store.save, [MEANWHILE[what]]

    def saved(ledger: Ledger, *rest: Any) -> None:
        save(ledger, *rest)
        if changes and any(isinstance(intent.action, Guarded) for intent in ledger.intents):
            changes.pop()(rig)

    monkeypatch.setattr(rig.store, "save", saved)
    rig.tick()
    assert not changes
    assert moves(rig, "i1") == []
    one_for_both = what in ("all suspended", "the group suspended", "its node is back")
    assert moves(rig, "i2") == ([] if one_for_both else ["MovePrimary"])
    for _ in range(20):
        rig.tick()
    assert moves(rig, "i1") == []


def test_no_data_are_given_up_of_a_secondary_that_comes_back_while_the_job_waits() -> None:
    """The job itself looks at the primary node only (conformance); the next round at both."""
    rig = cluster(*mirrored(("n2", "n3")))
    out(rig, "n2")
    out(rig, "n3")
    rig.cluster.pauses = lambda action: isinstance(move_of(action), Reinstall)
    while moves(rig) == []:
        rig.tick()
    rig.cluster.undrain("n3")
    rig.tick()
    rig.cluster.pauses = lambda _: False
    rig.settle()
    assert "Reinstall" in moves(rig)
    assert rig.cluster.world.emptied == set()
    assert rig.cluster.instances["i1"].primary == "n2"


def test_a_tag_just_set_is_waited_for_as_long_as_any() -> None:
    """Ganeti's answers may not show it yet; it would be set once more."""
    rig = cluster(plain("i1", "n2", "rbd"))
    job = Intent(
        "1", OfRepair("r"), "n2", Retag(Scope.INSTANCE, "i1", add=("t",)), "7", ended=Ms(1)
    )
    seen = Observed(rig.cluster.snapshot(), {}, results={"1": Result(Outcome.SUCCESS)})
    ledger = Ledger(intents=(job,))
    assert remember(ledger, seen, Ms(45_000)).intents == (job,)
    gone = remember(ledger, seen, Ms(61_000))
    assert (gone.intents, [trail.job for trail in gone.ran]) == ((), ["7"])


PENDING = f"{RULES}pending:failover:"


def test_the_round_after_a_submission_writes_the_number_into_the_tag() -> None:
    """harep would judge a pending repair without jobs by all jobs in the queue."""
    rig = cluster(*mirrored(("n3", "n4")))
    rig.cluster.takes = lambda action: 15.0 if isinstance(action, Guarded) else 1.0
    out(rig, "n3")
    while not rig.cluster.jobs:
        rig.tick(3)
    (number,) = rig.cluster.jobs
    (tag,) = rig.cluster.instances["i1"].tags
    assert tag.startswith(PENDING)
    assert tag.endswith(":")
    rig.tick(3)
    rig.tick(3)
    (tag,) = rig.cluster.instances["i1"].tags
    assert tag.startswith(PENDING)
    assert tag.endswith(f":{number}")
    assert rig.cluster.instances["i1"].primary == "n3", "it has not begun to move"
    rig.tick(30)
    assert rig.cluster.instances["i1"].primary == "n4"


def test_a_repair_is_done_at_full_only() -> None:
    rig = cluster(*mirrored(("n2", "n3")), policy=replace(SAFE, stage=DRAIN))
    out(rig, "n2")
    done = [rig.tick(100) for _ in range(3)][-1]
    assert (StageKind.WOULD_MEND, "i1") in kinds(done.decision.held)
    assert rig.jobs() == []
    rig.engine.policy = SAFE
    rig.tick(100)
    assert rig.jobs()


def test_a_pause_of_the_watcher_holds_repairs_and_says_until_when() -> None:
    rig = cluster(*mirrored(("n2", "n3")))
    out(rig, "n2")
    rig.cluster.watcher_until = rig.time + 1000
    done = [rig.tick(100) for _ in range(9)][-1]
    (why,) = [one.why for one in done.decision.held if one.why.kind.metric == "watcher"]
    assert why == because(Kind.WATCHER_PAUSED, until="2026-11-18T11:23:20Z")
    assert rig.jobs() == []
    rig.tick(200)
    assert rig.jobs(), "it is over by itself"
