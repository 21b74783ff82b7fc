"""Balancing under everything that can happen to it, and what is promised throughout.

B1 no instance is moved twice at a time, whoever crashed and whatever answer was lost.
B2 nothing is moved from or to a node that is sick, out of service, or part of any other work.
B3 after a failure nothing is begun until somebody removes its tag.
B4 no instance is brought back to where balancing took it from.
B5 nobody is interrupted: what runs is migrated.
B6 when nothing happens any more the group gets even, and rounds come to rest.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import hypothesis
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from nodeagent.cluster.backend import Answer, Submission
from nodeagent.maintd.planning.resources import target_of
from nodeagent.model.action import MovePrimary, MoveSecondary, Retag, move_of
from nodeagent.model.balance import FAILED_TAG
from nodeagent.model.ledger import Outcome
from nodeagent.model.snapshot import Snapshot
from nodeagent.model.units import Ms
from nodeagent.placement.cluster.cluster import Load
from simulation.cluster import Job
from tests.maintd.lives.life import NODES, SECONDS, HardLife, at_random, hold_that_it_was
from tests.maintd.rig import QUICK, Between, Rig, fleet, mirrored
from tests.maintd.world import EVACUATE, OK, REPAIR

ON = replace(
    QUICK,
    balance=True,
    balance_settle=Ms(20_000),
    balance_cooldown=Ms(300_000),
    withdraw=Ms(30_000),
)
counted: Counter[str] = Counter()


def is_ours(reason: str) -> bool:
    return reason.startswith("balance:")


class Watched(Between):
    """Looks at every move for balance at the moment when it is submitted."""

    rig: Rig
    forgiven: set[str]

    def submit(self, batch: Sequence[Submission]) -> Sequence[Answer]:
        seen = self.cluster.snapshot()
        for submission in batch:
            if is_ours(submission.reason):
                self._check(submission, seen, {s.reason for s in batch})
        return super().submit(batch)

    def _check(self, submission: Submission, seen: Snapshot, batch: set[str]) -> None:
        action = submission.action
        assert isinstance(action, MovePrimary | MoveSecondary)
        counted[type(action).__name__] += 1
        target = target_of(action, seen)
        for name in filter(None, (action.node, target)):
            assert seen.nodes[name].in_service, f"B2: {action}"
            assert self.rig.agents.says.get(name, OK) == OK, f"B2: {action}"
        if isinstance(action, MovePrimary):
            running = seen.instances[action.instance].running
            assert action.live == running, f"B5: {action}"
            assert not action.fallback, f"B5: {action}"
        for job in self.cluster.jobs.values():
            if job.ours and job.reason not in batch:
                self._beside(submission, job, target)

    def _beside(self, submission: Submission, job: Job, target: str | None) -> None:
        action, move = submission.action, move_of(job.action)
        assert isinstance(action, MovePrimary | MoveSecondary)
        running = job.outcome is Outcome.RUNNING
        if running and move is not None and not self._follows(submission, job):
            assert move.instance != action.instance, f"B1: {action} beside {job}"
            assert move.node not in (action.node, target), f"B2: {action} beside {job}"
        if not is_ours(job.reason):
            return
        failed = job.outcome is Outcome.ERROR and job.number not in self.forgiven
        assert not failed, f"B3: {action} after {job}"
        same = type(job.action) is type(action) and self._is_its_end(action)
        if same and job.outcome is Outcome.SUCCESS:
            back = move is not None and (move.instance, move.node) == (action.instance, target)
            assert not back, f"B4: {action} after {job}"

    def _is_its_end(self, action: MovePrimary | MoveSecondary) -> bool:
        """Whether no later job of the same chain takes it away from there again."""
        promised = (intent.action for intent in self.rig.ledger.intents)
        *_, last = (
            other
            for other in promised
            if type(other) is type(action) and getattr(other, "instance", "") == action.instance
        )
        return last == action

    def _follows(self, submission: Submission, job: Job) -> bool:
        """Whether the job is one of those before it in the same chain."""
        after = submission.after
        while after is not None:
            if after == job.number:
                return True
            after = self.cluster.jobs[after].after
        return False


class Balances(HardLife):
    """Rules are what others do; every promise is looked at when it is made."""

    counted = counted

    @initialize(
        takes=st.sampled_from([1.0, 25.0, 150.0]),
        places=st.lists(
            st.sampled_from([("n2", "n3"), ("n2", "n4"), ("n3", "n2"), ("n5", "n6")]),
            min_size=3,
            max_size=7,
        ),
    )
    def begin(self, takes: float, places: list[tuple[str, str]]) -> None:
        self.forgiven: set[str] = set()
        cluster = self.set_up(Rig(fleet(6), mirrored(*places), ON), takes)
        self.rig._through = self._watched
        self.rig.crash()
        cluster.fails = lambda action: type(action) in self.failing
        cluster.fails_late = lambda action: type(action) in self.late_failing
        self.late_failing: set[type] = set()
        self.rounds(10.0)

    def _watched(self, cluster: object) -> Watched:
        watched = Watched(self.rig.cluster)
        watched.rig, watched.forgiven = self.rig, self.forgiven
        return watched

    # What others do.

    @rule(node=st.sampled_from(NODES), said=st.sampled_from([EVACUATE, REPAIR, None, OK, OK]))
    def say(self, node: str, said: object) -> None:
        self.rig.agents.says[node] = said  # type: ignore[assignment]
        self.rounds(10.0)

    @rule(seconds=SECONDS)
    def pause(self, seconds: float) -> None:
        world = self.rig.cluster.world
        world.tags = world.tags ^ {"maintd:pause:yes"}
        self.rounds(seconds)

    @rule(seconds=SECONDS)
    def acknowledge(self, seconds: float) -> None:
        """Somebody removes the tags that tell of failures."""
        for group in list(self.rig.cluster.world.groups.values()):
            told = {tag for tag in group.tags if tag.startswith(FAILED_TAG)}
            if told:
                counted["acknowledged"] += 1
                self.rig.cluster.put(replace(group, tags=group.tags - told))
                self.forgiven |= {
                    job.number
                    for job in self.rig.cluster.jobs.values()
                    if job.outcome is Outcome.ERROR
                }
        self.rounds(seconds)

    # What goes wrong.

    @rule(kind=st.sampled_from((MovePrimary, MoveSecondary)), late=st.booleans(), seconds=SECONDS)
    def fail(self, kind: type, late: bool, seconds: float) -> None:
        chosen = self.late_failing if late else self.failing
        chosen ^= {kind}
        self.rounds(seconds)

    def teardown(self) -> None:
        """B6."""
        if not hasattr(self, "rig"):
            return
        rig = self.rig
        self.failing.clear()
        self.late_failing.clear()
        self.lossy = False
        rig.cluster.world.tags = frozenset()
        rig.agents.says.clear()
        self.some_rounds(20, 310.0)
        for node in rig.cluster.nodes:
            rig.cluster.undrain(node)
            rig.cluster.untag(node, *rig.cluster.nodes[node].tags)
        self.acknowledge(310.0)
        self.some_rounds(60, 310.0)
        self.rests("B6", 310.0, Retag)
        if rig.ledger.incidents or rig.ledger.halts:
            return
        advice = rig.engine._adviser.advice().get("default")
        assert advice is not None, "B6: nobody was asked"
        gain = advice.score - advice.final
        assert not advice.why, f"B6: {advice}"
        assert gain < ON.balance_threshold, f"B6: not even: {advice}"
        counted["even"] += 1


TestBalances = pytest.mark.timeout(600)(Balances.TestCase)
TestBalances.settings = at_random("BALANCE_EXAMPLES", usual=10, steps=20)


def test_the_machine_was_where_it_matters() -> None:
    rare = ("acknowledged", "broken off") if hypothesis.__version_info__ >= (6, 100) else ()
    hold_that_it_was(counted, ["MovePrimary", "MoveSecondary", "even", *rare])  # others draw others


# Load.


@pytest.mark.parametrize("load", [False, True])
def test_who_works_the_most_has_a_node_for_himself(load: bool) -> None:
    """By their number two and two are even; by what they use, one against three."""
    rig = Rig(
        fleet(3)[1:],
        mirrored(("n2", "n3"), ("n2", "n3"), ("n3", "n2"), ("n3", "n2")),
        replace(ON, balance_load=load, balance_disks=False),
        me="n2",
    )
    busy = {"i1": 6.0, "i2": 2.0, "i3": 2.0, "i4": 2.0}
    rig.measure = lambda _, __: ({n: Load(cpu, cpu, cpu, cpu) for n, cpu in busy.items()}, {})
    rig.agents.master = "n2"
    rig.crash()
    for _ in range(20):
        rig.tick(30.0)
    moved = {str(job.action) for job in rig.cluster.jobs.values()}
    primaries = {i.name: i.primary for i in rig.cluster.instances.values()}
    if load:
        assert [n for n in primaries if primaries[n] == primaries["i1"]] == ["i1"]
    else:
        assert not moved


def test_doubt_about_the_load_is_told() -> None:
    rig = Rig(fleet(3), mirrored(("n2", "n3")), replace(ON, balance_load=True))
    rig.measure = lambda _, __: ({}, {"default": "the load of n2 is unknown: silent"})
    rig.crash()
    rig.tick(30.0)
    rig.tick(30.0)
    advice = rig.round().observed.advice["default"]
    assert advice.doubt == "the load of n2 is unknown: silent"


def test_a_dry_run_shows_what_would_be_moved_and_moves_nothing() -> None:
    rig = Rig(fleet(4), mirrored(("n2", "n3"), ("n2", "n3"), ("n2", "n3")), ON)
    rig.engine.conduct = replace(rig.engine.conduct, dry=True)
    for _ in range(10):
        done = rig.tick(10.0)
    assert [intent for intent in done.decision.ledger.intents if intent.purpose.group]
    assert not rig.cluster.jobs
