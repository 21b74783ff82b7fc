"""The simulation must misbehave like Ganeti, or what is tested with it proves nothing.

What a test of the conformance suite shows of all backends is not repeated here.
"""

from collections.abc import Callable
from dataclasses import replace

import pytest

from nodeagent.cluster.backend import Accepted, Submission
from nodeagent.errors import Unavailable
from nodeagent.model.action import (
    Action,
    Drain,
    Guarded,
    MovePrimary,
    MoveSecondary,
    Power,
    PowerCommand,
    Reinstall,
    Retag,
    Scope,
    SetOffline,
)
from nodeagent.model.ledger import Outcome, Result
from nodeagent.model.snapshot import Capacity, Group, Instance, Running, Size
from simulation.machines import Control, Machines
from tests.build import in_parts, node
from tests.cluster.by_hand import ByHand

DAY = 86400.0
MIGRATE = MovePrimary("web", "n1", live=True)
FAILOVER = MovePrimary("web", "n1", live=False)
STRICT = replace(MIGRATE, fallback=False)
UNCHECKED = replace(FAILOVER, unchecked=True)
MIRROR = MoveSecondary("web", "n2", "n3")
Spoil = Callable[["Cluster"], object]


class Cluster(ByHand):
    """With a hand on its clock."""

    time = 0.0

    def at(self, seconds: float) -> "Cluster":
        self.time = seconds
        return self

    def do(self, action: Action, reason: str = "why", after: str | None = None) -> str:
        (answer,) = self.submit([Submission(action, reason, after)])
        assert isinstance(answer, Accepted)
        return answer.job

    def outcome(self, job: str) -> Outcome:
        return self.results([job])[job].outcome

    def why(self, job: str) -> str:
        return self.results([job])[job].why

    def end(self, action: Action) -> str:
        """Why the action failed, or empty."""
        job = self.do(action)
        self.at(self.time + 100)
        result = self.results([job])[job]
        assert result.outcome is (Outcome.ERROR if result.why else Outcome.SUCCESS)
        return result.why


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster.of(
        lambda: made.time,
        [*(node(f"n{i}") for i in range(1, 6)), node("m", candidate=True)],
        [
            Instance("web", "n1", "n2", memory=100, disk=1000),
            Instance("off", "n1", "n2", memory=100, running=False),
            Instance("plain", "n3", template="plain"),
            Instance("shared", "n1", template="rbd", memory=100, disk=1000),
        ],
        groups=[Group("default", "first")],
        master="m",
    )
    return made


def test_a_job_takes_its_time_and_has_its_effect_at_its_end(cluster: Cluster) -> None:
    cluster.takes = lambda _: 5.0
    job = cluster.do(Drain("n1"))
    assert cluster.at(4.9).outcome(job) is Outcome.RUNNING
    assert not cluster.snapshot().nodes["n1"].drained
    assert cluster.at(5.0).outcome(job) is Outcome.SUCCESS
    assert cluster.snapshot().nodes["n1"].drained


def full(name: str) -> Spoil:
    return lambda c: c.world.sizes.update({name: Capacity(99, 999)})


def changed(name: str, **members: object) -> Spoil:
    return lambda c: c.put(replace(c.nodes[name], **members))  # type: ignore[arg-type]


def dead(name: str) -> Spoil:
    return lambda c: c.power_off(name)


def degraded(c: Cluster) -> None:
    c.world.degraded.add("web")


def mixed(c: Cluster) -> None:
    c.put(in_parts("web", "n1", "n2"))


def two_secondaries(c: Cluster) -> None:
    c.put(in_parts("web", "n1", "n2", "n4", template="drbd"))


def gone(c: Cluster) -> None:
    c.power_off("n1")
    c.put(replace(c.nodes["n1"], offline=True))


MAY, NOT = True, False


@pytest.mark.parametrize(
    ("spoil", "action", "may"),
    [
        pytest.param(full("n2"), MIGRATE, NOT, id="no memory there"),
        pytest.param(full("n2"), FAILOVER, NOT, id="no memory there to fail over"),
        pytest.param(full("n2"), replace(MIGRATE, instance="off"), MAY, id="none needed"),
        pytest.param(changed("n2", offline=True), MIGRATE, NOT, id="onto an offline node"),
        pytest.param(dead("n2"), MIGRATE, NOT, id="onto a dead node"),
        pytest.param(dead("n2"), UNCHECKED, NOT, id="onto a dead node, unchecked"),
        pytest.param(dead("n1"), STRICT, NOT, id="nobody to migrate from"),
        pytest.param(dead("n1"), UNCHECKED, MAY, id="shut down or not"),
        pytest.param(gone, STRICT, NOT, id="nobody to migrate from, known"),
        pytest.param(gone, MIGRATE, MAY, id="falling back from an offline node"),
        pytest.param(degraded, MIGRATE, NOT, id="onto a stale disk"),
        pytest.param(degraded, FAILOVER, NOT, id="failing over onto a stale disk"),
        pytest.param(degraded, UNCHECKED, MAY, id="stale or not"),
        pytest.param(degraded, MIRROR, MAY, id="a new mirror mends"),
        pytest.param(full("n3"), MIRROR, NOT, id="no disk there"),
        pytest.param(changed("n3", offline=True), MIRROR, NOT, id="mirror on an offline node"),
        pytest.param(changed("n3", vm_capable=False), MIRROR, NOT, id="mirror not vm_capable"),
        pytest.param(dead("n3"), MIRROR, NOT, id="mirror on a dead node"),
        pytest.param(dead("n1"), MIRROR, NOT, id="mirror of a dead node"),
        pytest.param(gone, MIRROR, NOT, id="mirror of an offline node"),
        pytest.param(dead("n2"), MIRROR, MAY, id="mirror off a dead node"),
        pytest.param(mixed, MIGRATE, NOT, id="disks of several kinds"),
        pytest.param(mixed, FAILOVER, NOT, id="disks of several kinds, failing over"),
        pytest.param(mixed, MIRROR, NOT, id="only some disks are DRBD's"),
        pytest.param(two_secondaries, MIRROR, NOT, id="two secondaries"),
    ],
)
def test_moves_depend_on_the_state_of_both_sides(
    cluster: Cluster, spoil: Spoil, action: Action, may: bool
) -> None:
    spoil(cluster)
    before = cluster.snapshot()
    why = cluster.end(action)
    assert bool(why) is not may, why
    assert (cluster.snapshot() == before) is not may


def test_capacity(cluster: Cluster) -> None:
    cluster.world.sizes = {name: Capacity(1000, 5000) for name in cluster.nodes}
    cluster.power_off("n4")
    cluster.put(node("n5", vm_capable=False))
    cluster.put(node("n3", offline=True))
    size = Size(1000 + 1024, 1024, 5000, 64)
    assert cluster.capacity(["n1", "n2", "n3", "n4", "n5", "n9"]) == {
        "n1": Capacity(800, 4000, size),
        "n2": Capacity(1000, 4000, size),
    }
    assert cluster.end(MIGRATE) == ""
    cluster.remove_instance("shared")
    assert cluster.capacity(["n1", "n2"]) == {
        "n1": Capacity(1000, 4000, size),
        "n2": Capacity(900, 4000, size),
    }


def test_how_instances_are(cluster: Cluster) -> None:
    def put(name: str, where: str, *, running: bool = True, offline: bool = False) -> None:
        cluster.put(
            Instance(name, where, template="plain", memory=64, running=running, offline=offline)
        )

    put("down", "n3", running=False)
    put("left", "n3", running=False, offline=True)
    put("dark", "n4")
    put("away", "n5")
    cluster.power_off("n4")
    cluster.put(replace(cluster.nodes["n5"], offline=True))
    told = cluster.running(["n3", "n4", "n5"])
    assert told == {
        "down": Running("ADMIN_down"),
        "left": Running("ADMIN_offline"),
        "dark": Running("ERROR_nodedown"),
        "away": Running("ERROR_nodeoffline"),
        "plain": Running("running", 0),
    }
    assert cluster.running(["n1"])["shared"] == Running("running", 100)


class TestSubmission:
    BATCH = tuple(Submission(Retag(Scope.NODE, f"n{i}", ("t",)), f"r{i}") for i in (1, 2, 3))

    def second(self, action: Action) -> bool:
        return action == self.BATCH[1].action

    def test_an_answer_that_is_lost_is_a_job_all_the_same(self, cluster: Cluster) -> None:
        cluster.loses_answer = self.second
        with pytest.raises(Unavailable):
            cluster.submit(self.BATCH)
        assert cluster.find(["r1", "r2", "r3"]) == {"r1": "1", "r2": "2"}
        assert cluster.at(1).nodes["n2"].tags

    def test_a_request_may_arrive_late(self, cluster: Cluster) -> None:
        cluster.loses_answer = self.second
        cluster.arrives = lambda _: 4.0
        assert cluster.grace > 4.0
        with pytest.raises(Unavailable):
            cluster.submit(self.BATCH)
        cluster.loses_answer = lambda _: False
        cluster.at(3).submit([Submission(Drain("n5"), "between")])
        assert cluster.find(["r2", "between"]) == {"between": "2"}
        assert cluster.at(4).find(["r2"]) == {"r2": "3"}
        assert cluster.at(5).outcome("3") is Outcome.SUCCESS

    def test_a_cluster_that_is_down_answers_nothing(self, cluster: Cluster) -> None:
        cluster.down = True
        for ask in (
            cluster.master,
            cluster.snapshot,
            cluster.trails,
            lambda: cluster.capacity([]),
            lambda: cluster.running([]),
            lambda: cluster.submit([]),
            lambda: cluster.find(["x"]),
            lambda: cluster.results(["1"]),
        ):
            with pytest.raises(Unavailable):
                ask()


def test_an_old_job_is_deleted_and_then_lost(cluster: Cluster) -> None:
    job = cluster.do(Drain("n1"), "reason")
    cluster.at(1 + 20 * DAY)
    assert (cluster.find(["reason"]), cluster.outcome(job)) == ({"reason": job}, Outcome.SUCCESS)
    assert [trail.job for trail in cluster.trails()] == [job]
    cluster.at(2 + 21 * DAY)
    assert (cluster.find(["reason"]), cluster.outcome(job)) == ({}, Outcome.LOST)
    assert not cluster.trails()
    late = cluster.do(Drain("n2"), after=job)
    assert cluster.outcome(late) is Outcome.ERROR


class TestOthers:
    @pytest.mark.parametrize("name", ["n1", "n2"])
    def test_a_power_failure_ends_what_ran_there(self, cluster: Cluster, name: str) -> None:
        job, tag = cluster.do(UNCHECKED), cluster.do(Retag(Scope.NODE, name, ("t",)))
        cluster.at(0.5).power_off(name)
        cluster.at(0.6).power_on(name)
        assert name in cluster.at(3).why(job)
        assert cluster.outcome(tag) is Outcome.SUCCESS, "a tag is in the configuration alone"
        assert cluster.instances["web"].primary == "n1"
        assert cluster.end(MIGRATE) == ""

    def test_a_master_failover_ends_what_ran(self, cluster: Cluster) -> None:
        running, waiting = cluster.do(MIGRATE), cluster.do(Retag(Scope.NODE, "n1", ("t",)))
        cluster.at(0.5).set_master("n4")
        assert cluster.master() == cluster.snapshot().master == "n4"
        assert cluster.why(running) == cluster.why(waiting)
        assert "NoMasterError" in cluster.why(running)
        assert cluster.outcome(running) is Outcome.LATER
        assert cluster.at(3).instances["web"].primary == "n1"
        assert cluster.end(Drain("m", promote=True)) == ""
        assert cluster.end(Drain("n4"))

    def test_what_the_new_master_has_not_read_is_lost_and_was_a_success(
        self, cluster: Cluster
    ) -> None:
        before = cluster.snapshot()
        drain, tag = cluster.do(Drain("n5")), cluster.do(Retag(Scope.NODE, "n1", ("t",)))
        cluster.at(3).set_master("n4", before)
        for job in (drain, tag):
            assert cluster.outcome(job) is Outcome.SUCCESS
        assert not cluster.nodes["n5"].drained
        assert not cluster.nodes["n1"].tags
        assert not cluster.removals(), "nobody took it off"


class TestRepairs:
    """Jobs of several opcodes: what the first has done stays done where a later one fails."""

    SWAP = Retag(Scope.INSTANCE, "web", add=("new",), remove=("old",))

    def test_the_tags_go_with_the_move(self, cluster: Cluster) -> None:
        cluster.put(replace(cluster.instances["web"], tags=frozenset({"old"})))
        assert cluster.end(Guarded(self.SWAP, MIGRATE)) == ""
        web = cluster.instances["web"]
        assert (web.primary, *web.tags) == ("n2", "new")

    def test_nothing_is_done_where_the_tags_are_not_as_said(self, cluster: Cluster) -> None:
        before = cluster.instances["web"]
        assert "'old' not found" in cluster.end(Guarded(self.SWAP, MIGRATE))
        assert cluster.instances["web"] == before

    def test_the_tag_stays_where_the_move_fails(self, cluster: Cluster) -> None:
        cluster.put(replace(cluster.instances["web"], tags=frozenset({"old"})))
        cluster.end(Drain("n2"))
        assert "drained node n2" in cluster.end(Guarded(self.SWAP, MIGRATE))
        web = cluster.instances["web"]
        assert (web.primary, *web.tags) == ("n1", "new")

    def test_reinstalled_elsewhere(self, cluster: Cluster) -> None:
        cluster.end(SetOffline("n3"))
        assert cluster.end(Reinstall("plain", "n3", "n4")) == ""
        plain = cluster.instances["plain"]
        assert (plain.primary, plain.running) == ("n4", True)
        assert cluster.world.emptied == {"plain"}

    @pytest.mark.parametrize(
        ("spoil", "why"),
        [
            pytest.param(lambda c: c.end(Drain("n4")), "drained node n4", id="drained"),
            pytest.param(lambda c: c.end(SetOffline("n4")), "offline node n4", id="offline"),
            pytest.param(lambda c: c.power_off("n4"), "no answer", id="dead"),
            pytest.param(
                lambda c: c.world.sizes.update(n4=Capacity(0, -1)), "insufficient", id="full"
            ),
            pytest.param(lambda c: c.remove_node("n4"), "'n4' not known", id="gone"),
        ],
    )
    def test_without_new_disks_the_old_ones_stay(
        self, cluster: Cluster, spoil: Spoil, why: str
    ) -> None:
        cluster.end(SetOffline("n3"))
        spoil(cluster)
        assert why in cluster.end(Reinstall("plain", "n3", "n4"))
        plain = cluster.instances["plain"]
        assert (plain.primary, plain.running) == ("n3", True), "it runs again with its node"
        assert not cluster.world.emptied

    def test_what_is_down_keeps_its_disks_as_well(self, cluster: Cluster) -> None:
        cluster.put(replace(cluster.instances["plain"], running=False))
        down = Reinstall("plain", "n3", "n4", running=False)
        assert "no longer offline" in cluster.end(down)
        assert not cluster.world.emptied
        cluster.end(SetOffline("n3"))
        assert cluster.end(down) == ""
        assert not cluster.instances["plain"].running


# Machines behind the configuration: power, networks and power controls.


@pytest.fixture
def machines(cluster: Cluster) -> Machines:
    """Those of the cluster; n1 has a BMC."""
    cluster.world.machines.controls["n1"] = (Control(),)
    return cluster.world.machines


def power(cluster: Cluster, command: PowerCommand) -> Result:
    """How a job of power control ended."""
    job = cluster.do(Power("n1", command))
    return cluster.at(cluster.time + 100).results([job])[job]


OFF_SHARED = MovePrimary("shared", "n1", live=False, target="n3")


@pytest.mark.parametrize("command", PowerCommand)
def test_a_dead_control_fails_and_changes_nothing(
    cluster: Cluster, machines: Machines, command: PowerCommand
) -> None:
    machines.controls["n1"] = (Control(dead=True),)
    result = power(cluster, command)
    assert (result.outcome, result.code) == (Outcome.ERROR, 2)
    assert not machines.off


def test_a_control_that_lies_off_is_believed_by_ganeti(
    cluster: Cluster, machines: Machines
) -> None:
    machines.controls["n1"] = (Control(says="off", ignores=True),)
    assert power(cluster, PowerCommand.OFF).outcome is Outcome.SUCCESS
    assert machines.running_on("web") == {"n1"}
    assert not machines.off


def test_ganeti_wants_a_node_offline_before_its_power_is_cut_unless_told(
    cluster: Cluster, machines: Machines
) -> None:
    why, *_ = cluster.world.power("n1", PowerCommand.OFF, ignore_status=False)
    assert "not marked offline" in why
    assert not machines.off


@pytest.mark.parametrize("how", ["hung", "cut"])
def test_an_offline_node_that_lives_has_its_shared_instances_run_twice(
    cluster: Cluster, machines: Machines, how: str
) -> None:
    """Nothing in Ganeti looks at the power before it starts an instance elsewhere."""
    getattr(machines, how).add("n1")
    assert "Could not shutdown" in cluster.end(OFF_SHARED)
    assert not machines.twice()
    assert not cluster.end(SetOffline("n1"))
    assert not cluster.end(OFF_SHARED)
    assert machines.twice() == ["shared"]


def test_a_failover_from_a_connected_node_fails_late_and_leaves_the_configuration_switched(
    cluster: Cluster, machines: Machines
) -> None:
    machines.mute.add("n1")
    assert "Disk 0 is degraded" in cluster.end(FAILOVER)
    assert not cluster.end(SetOffline("n1"))
    assert "Can't activate" in cluster.end(FAILOVER)
    assert cluster.snapshot().instances["web"].primary == "n2"
    assert machines.running_on("web") == {"n1"}
