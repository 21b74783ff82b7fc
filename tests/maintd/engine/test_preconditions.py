"""Right before a job is submitted the world is looked at again."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import TypeAlias

import pytest

from nodeagent.errors import Unavailable
from nodeagent.maintd.engine import submit
from nodeagent.maintd.planning.preconditions import is_as_it_was
from nodeagent.model.action import (
    Action,
    Drain,
    MovePrimary,
    Power,
    PowerCommand,
    Restore,
    RunCommand,
    SetOffline,
)
from nodeagent.model.incident import Status
from nodeagent.model.ledger import PAUSE_TAG, Intent, Ledger
from nodeagent.model.purpose import OfReturn
from nodeagent.model.reason import Kind
from nodeagent.model.snapshot import Capacity, Group, Instance, Snapshot
from nodeagent.model.wish import Balance
from tests.maintd.balancing.world import OVER, shift
from tests.maintd.decided import kinds
from tests.maintd.fencing.whole import Whole
from tests.maintd.outage.returned import CHECKED, done, evacuated
from tests.maintd.rig import QUICK, Between, Rig, fleet, mirrored
from tests.maintd.world import EVACUATE, instance, six, with_instances

Does: TypeAlias = Callable[[Whole], object]


class Meddled(Between):
    """Somebody else comes between the decision and its jobs."""

    meddle: Callable[[], object]

    def capacity(self, nodes: Collection[str]) -> Mapping[str, Capacity]:
        free = self.cluster.capacity(nodes)
        self.meddle()
        return free


PAUSED = frozenset({PAUSE_TAG})
DEFAULT = Group("default", "default")
MOVE = MovePrimary("a", "n2", live=True, target="n3")
SHARED = instance("a", "n2", None, template="rbd")
WORLD = replace(with_instances(six(), SHARED), groups={"default": DEFAULT})


def with_node(name: str, **members: object) -> Snapshot:
    """The world in which one node is otherwise."""
    node = replace(WORLD.nodes[name], **members)  # type: ignore[arg-type]
    return replace(WORLD, nodes={**WORLD.nodes, name: node})


# What there is before a move is submitted, and whether it may be.
MEANWHILE: dict[str, tuple[Snapshot, bool]] = {
    "nothing has changed": (WORLD, True),
    "its instance was stopped": (with_instances(WORLD, replace(SHARED, running=False)), False),
    "its instance is gone": (with_instances(WORLD), False),
    "its node is paused": (with_node("n2", tags=PAUSED), False),
    "the stage of its node is lower": (
        with_node("n2", tags=frozenset({"maintd:stage:advise"})),
        False,
    ),
    "its target is paused": (with_node("n3", tags=PAUSED), False),
    "its target is drained": (with_node("n3", drained=True), False),
    "its group is paused": (
        replace(WORLD, groups={"default": replace(DEFAULT, tags=PAUSED)}),
        False,
    ),
    "all are paused": (replace(WORLD, tags=PAUSED), False),
    "what harep may do has changed": (
        replace(WORLD, tags=frozenset({"ganeti:watcher:autorepair:migrate"})),
        False,
    ),
    "the cluster has another tag": (replace(WORLD, tags=frozenset({"x"})), True),
    # maintd sets some itself while it works there.
    "its node has another tag": (with_node("n2", tags=frozenset({"maintd:x"})), True),
    "its node became a candidate": (with_node("n2", candidate=True), True),
    "another node is paused": (with_node("n4", tags=PAUSED), True),
}


def test_a_move_is_submitted_if_all_around_it_is_as_it_was() -> None:
    for name, (now, same) in MEANWHILE.items():
        assert is_as_it_was(MOVE, WORLD, now) is same, name


# What there is before a job at a node is submitted, and for which jobs it is as it was.
DRAIN, DEMOTE, OFFLINE = Drain("n2"), Drain("n2", promote=True), SetOffline("n2")
BACK, ON, SWITCH = Restore("n2"), Power("n2", PowerCommand.ON), Power("n2", PowerCommand.OFF)
JOBS: tuple[Action, ...] = (DRAIN, DEMOTE, OFFLINE, BACK, ON, SWITCH)
AT_NODE: dict[str, tuple[Snapshot, tuple[Action, ...]]] = {
    "nothing has changed": (WORLD, JOBS),
    "it became a candidate: its place must be filled": (
        with_node("n2", candidate=True),
        (DEMOTE, BACK, ON, SWITCH),
    ),
    "it is drained": (with_node("n2", drained=True), ()),
    "it is offline": (with_node("n2", offline=True), ()),
    "it is paused": (with_node("n2", tags=PAUSED), ()),
    "it is gone": (replace(WORLD, nodes={}), ()),
    "all are paused": (replace(WORLD, tags=PAUSED), ()),
    "its instance was stopped": (with_instances(WORLD, replace(SHARED, running=False)), (BACK, ON)),
    "its instance is gone": (with_instances(WORLD), (BACK, ON)),
    "an instance came, as a secondary": (
        with_instances(WORLD, SHARED, instance("b", "n3", "n2")),
        (BACK, ON),
    ),
    "its instance has another tag": (
        with_instances(WORLD, replace(SHARED, tags=frozenset({"x"}))),
        JOBS,
    ),
    "an instance came elsewhere": (with_instances(WORLD, SHARED, instance("b", "n3", "n4")), JOBS),
    "it became the master": (replace(WORLD, master="n2"), (DRAIN, DEMOTE, OFFLINE, BACK, ON)),
    "nobody knows the master": (replace(WORLD, master=""), (DRAIN, DEMOTE, OFFLINE, BACK, ON)),
}


def test_a_job_at_a_node_is_submitted_if_that_is_as_it_was() -> None:
    for name, (now, same) in AT_NODE.items():
        jobs = [Intent("1", OfReturn("uuid-n2"), "n2", action) for action in JOBS]
        found = tuple(job.action for job in jobs if submit._is_as_it_was(job, WORLD, now))
        assert found == same, name


# Of an order about n3, given to n2: what is used again since the decision.
ORDER = Intent("1", OfReturn("uuid-n3"), "n3", RunCommand("n2", "check", "{}"))
OUT = with_node("n3", drained=True)
USED: dict[str, tuple[Snapshot, Snapshot, bool]] = {
    "nothing has changed": (OUT, OUT, False),
    "both serve, whatever changes": (WORLD, OUT, False),
    "it is put back": (OUT, WORLD, True),
    "it is taken offline": (OUT, with_node("n3", drained=True, offline=True), True),
    "it is gone": (OUT, replace(OUT, nodes={}), True),
    "an instance runs there": (
        OUT,
        replace(OUT, instances={"b": instance("b", "n3", None)}),
        True,
    ),
    "a stopped one came": (
        OUT,
        replace(OUT, instances={"b": replace(instance("b", "n3", None), running=False)}),
        False,
    ),
    "one left": (replace(OUT, instances={"b": instance("b", "n3", None)}), OUT, False),
    "the agent's own node is put back": (with_node("n2", drained=True), WORLD, True),
}


def test_an_order_is_given_unless_its_node_is_used_again() -> None:
    for name, (before, now, used) in USED.items():
        assert submit._is_used_again(ORDER, before, now) is used, name
    assert submit._out_of_service(ORDER, WORLD) == []
    assert submit._out_of_service(ORDER, OUT) == ["n3"]


def test_what_has_changed_since_it_was_decided_is_not_submitted() -> None:
    rig = Rig(fleet(4), mirrored(("n2", "n3")), QUICK)
    meddled = Meddled(rig.cluster)
    before = rig.cluster.instances["i1"]
    meddled.meddle = lambda: rig.cluster.put(replace(before, running=False))
    rig._through = lambda _: meddled
    rig.crash()
    rig.tick()
    rig.wish(Balance("default", (replace(OVER, instance="i1", at=SPOT, to=OTHER),)))
    rig.tick()
    assert not rig.jobs()
    meddled.meddle = lambda: None
    rig.cluster.put(before)
    for _ in range(8):
        rig.tick()
    assert len(rig.jobs()) == 1
    assert rig.cluster.instances["i1"].primary == "n3"


SPOT = shift("i1", "n2:n3", "n3:n2").at
OTHER = shift("i1", "n2:n3", "n3:n2").to


def back_in_use(rig: Rig) -> bool:
    """An admin's doing, once the node is empty; whether it was done now."""
    if not rig.cluster.nodes["n3"].drained or "new" in rig.cluster.instances:
        return False
    if any("n3" in (i.primary, i.secondary) for i in rig.cluster.instances.values()):
        return False
    rig.cluster.undrain("n3")
    rig.cluster.put(Instance("new", "n3", "n4", memory=10, disk=10))
    return True


def assert_spared(rig: Rig) -> None:
    for _ in range(30):
        done = rig.tick()
    assert rig.cluster.instances["new"].primary == "n3"
    assert not rig.cluster.nodes["n3"].offline
    assert kinds(done.decision.held)[0] == (Kind.PUT_BACK_BY_OTHERS, "n3")


def test_a_node_that_is_used_again_after_deciding_is_not_taken_offline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = Rig(fleet(), mirrored(("n3", "n4")))
    rig.agents.says["n3"] = EVACUATE
    save = rig.store.save
    whys: list[str] = []

    def late(ledger: Ledger, *more: object) -> None:
        save(ledger, *more)  # type: ignore[arg-type]
        if any(isinstance(i.action, SetOffline) for i in ledger.intents):
            back_in_use(rig)
        whys.extend(i.why for i in ledger.incidents)

    monkeypatch.setattr(rig.store, "save", late)
    assert_spared(rig)
    assert "its object has changed meanwhile" in whys


def test_a_node_that_cannot_be_looked_at_again_is_not_drained(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = Rig(fleet(), mirrored(("n3", "n4")))
    rig.agents.says["n3"] = EVACUATE
    save, plain = rig.store.save, rig.cluster.snapshot
    silent: list[Intent] = []

    def saved(ledger: Ledger, *more: object) -> None:
        save(ledger, *more)  # type: ignore[arg-type]
        silent[:] = [i for i in ledger.intents if i.job is None]

    def snapshot() -> Snapshot:
        if silent:
            silent.clear()
            raise Unavailable("not now")
        return plain()

    monkeypatch.setattr(rig.store, "save", saved)
    monkeypatch.setattr(rig.cluster, "snapshot", snapshot)
    rig.tick()
    assert not rig.cluster.jobs
    monkeypatch.undo()
    rig.settle()
    assert rig.status("n3") is Status.COMPLETED
    assert sum("Drain" in job for job in rig.jobs()) == 1


def test_no_command_runs_on_a_node_that_is_used_again_after_deciding(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = evacuated(CHECKED)
    save = rig.store.save
    meddled: list[bool] = []

    def late(ledger: Ledger, *more: object) -> None:
        save(ledger, *more)  # type: ignore[arg-type]
        if not meddled and any(isinstance(i.action, RunCommand) for i in ledger.intents):
            meddled.append(True)
            rig.cluster.put(Instance("new", "n3", template="plain"))

    monkeypatch.setattr(rig.store, "save", late)
    done(rig)
    while not meddled:
        rig.tick()
    rig.tick(1)
    assert not rig.agents.orders


# A node that seems dead.

OFF = Power("n3", PowerCommand.OFF)


def in_between(
    whole: Whole, monkeypatch: pytest.MonkeyPatch, action: type | Action, does: Does
) -> list[int]:
    """Let somebody do something once between a decision and its job; count the jobs before it."""
    save = whole.store.save
    before: list[int] = []

    def late(ledger: Ledger, *more: object) -> None:
        save(ledger, *more)  # type: ignore[arg-type]
        due = (i.action == action or type(i.action) is action for i in ledger.intents)
        if not before and any(due):
            before.append(len(whole.cluster.jobs))
            does(whole)

    monkeypatch.setattr(whole.store, "save", late)
    return before


def jobs_since(whole: Whole, before: list[int]) -> list[Action]:
    assert before, "it is never decided"
    return [job.action for job in list(whole.cluster.jobs.values())[before[0] :]]


def changed(name: str, **members: object) -> Does:
    return lambda whole: whole.cluster.put(replace(whole.cluster.nodes[name], **members))  # type: ignore[arg-type]


def test_a_node_is_not_powered_off_that_lives_after_deciding(
    whole: Whole, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole.machines.cut.add("n3")
    before = in_between(whole, monkeypatch, OFF, lambda whole: whole.machines.cut.discard("n3"))
    while not before:
        whole.rounds(1)
    assert OFF not in jobs_since(whole, before)
    assert whole.machines.boots == {}


def test_a_power_off_that_was_not_submitted_counts_as_missed(
    whole: Whole, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the node is not powered on once before it is fenced, if it dies within the hour."""
    whole.machines.cut.add("n3")
    before = in_between(whole, monkeypatch, OFF, changed("n3", tags=frozenset({PAUSE_TAG})))
    while not before:
        whole.rounds(1)
    whole.rounds(2)
    whole.machines.cut.discard("n3")
    whole.rounds(3)
    assert (whole.stage("n3"), OFF in jobs_since(whole, before)) == (None, False)
    assert [cut.missed for cut in whole.ledger.cuts] == [True]


@pytest.mark.parametrize(
    ("sign", "word"), [("mute", "connects"), ("cut", "")], ids=["it boots", "still nothing"]
)
def test_a_kernel_that_shows_a_new_sign_of_life_is_judged_anew(
    whole: Whole,
    sign: str,
    word: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def boots(_: Whole) -> None:
        whole.machines.cut.discard("n3")
        getattr(whole.machines, sign).add("n3")

    whole.machines.cut.add("n3")
    before = in_between(whole, monkeypatch, OFF, boots)
    while not before:
        whole.rounds(1)
    assert (OFF in jobs_since(whole, before)) is not bool(word)
    assert (f"the agent's port of n3 {word} now" in caplog.text) is bool(word)


def test_a_fenced_node_that_answers_after_deciding_is_not_marked_offline(
    whole: Whole, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole.machines.switch_off("n3")
    before = in_between(
        whole, monkeypatch, SetOffline, lambda whole: whole.machines.switch_on("n3")
    )
    while not before:
        whole.rounds(1)
    assert not any(isinstance(action, SetOffline) for action in jobs_since(whole, before))
    assert not whole.cluster.nodes["n3"].offline
