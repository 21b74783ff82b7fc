"""Repairs of instances under everything that can happen to them, and what is promised throughout.

R1 nothing more destructive is done than the tags allow at that moment, and no data are given up
   while any node that has them may come back.
R2 no instance is repaired twice at a time, whoever crashed and whatever answer was lost.
R3 a healthy instance is never touched.
R4 after a failure nothing is done until somebody removes its tag.
R5 when nothing happens any more, rounds come to rest.

What is allowed is worked out here once more, from the words of the design alone.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from nodeagent.cluster.backend import Answer, Submission
from nodeagent.maintd.planning.resources import target_of
from nodeagent.model.action import Guarded, MovePrimary, MoveSecondary, Reinstall, move_of
from nodeagent.model.ledger import Outcome
from nodeagent.model.snapshot import Instance, Snapshot
from tests.cluster.by_hand import ByHand
from tests.maintd.lives.life import NODES, SECONDS, HardLife, at_random, hold_that_it_was
from tests.maintd.rig import QUICK, Between, Rig, fleet

RULES = "ganeti:watcher:autorepair:"
TYPES = ("fix-storage", "migrate", "failover", "reinstall")
SAFE = replace(QUICK, autorepair="safe", repairs=4)
PLAINS = "n3"  # what is plain has its data nowhere else
NAMED = ("mirrored", "shared", "plain", "stopped")
FOREIGN = "6f3b1d5e-0002-4000-8000-000000000"
counted: Counter[str] = Counter()


def instances() -> list[Instance]:
    common = {"memory": 100, "disk": 100}
    return [
        Instance("mirrored", "n2", "n3", **common),  # type: ignore[arg-type]
        Instance("shared", "n2", template="rbd", **common),  # type: ignore[arg-type]
        Instance("plain", PLAINS, template="plain", **common),  # type: ignore[arg-type]
        Instance("stopped", "n4", "n2", running=False, **common),  # type: ignore[arg-type]
    ]


def allowed(seen: Snapshot, name: str, now: float) -> int:
    """The place in TYPES of what may be done to an instance at most; -1 for nothing."""
    instance = seen.instances[name]
    group = seen.groups[seen.nodes[instance.primary].group]
    for tags in (instance.tags, group.tags, seen.tags):
        words = [tag.removeprefix(RULES) for tag in tags if tag.startswith(RULES)]
        suspends = [word.partition(":")[2] for word in words if word.startswith("suspend")]
        if any(not until or not until.isdecimal() or int(until) > now for until in suspends):
            return -1
        if kinds := [TYPES.index(word) for word in words if word in TYPES]:
            return min(kinds)
    return -1


def asked_for(instance: Instance) -> int:
    """What somebody else has asked for by a pending tag."""
    found = [re.match(f"{RULES}pending:([a-z-]+):{FOREIGN}", tag) for tag in instance.tags]
    return max((TYPES.index(one[1]) for one in found if one), default=-1)


class Watched(Between):
    """Looks at every repair at the moment when it is submitted."""

    def submit(self, batch: Sequence[Submission]) -> Sequence[Answer]:
        seen, cluster = self.cluster.snapshot(), self.cluster
        for submission in batch:
            if isinstance(submission.action, Guarded):
                self._check(submission.action, seen, cluster)
        return super().submit(batch)

    def _check(self, action: Guarded, seen: Snapshot, cluster: ByHand) -> None:
        move = action.then
        instance = seen.instances[move.instance]
        counted[type(move).__name__] += 1
        places = [seen.nodes[n] for n in (instance.primary, instance.secondary) if n]
        assert not all(node.in_service for node in places), f"R3: {action}"
        most = max(allowed(seen, instance.name, cluster.clock()), asked_for(instance))
        suspended = any(tag.startswith(f"{RULES}suspend") for tag in instance.tags)
        assert most >= needs(action, instance), f"R1: {action} where {most} is allowed"
        assert not suspended or most > -1, f"R1: {action} though suspended"
        if isinstance(move, Reinstall):
            assert all(node.offline for node in places), f"R1: {action} while data may come back"
        for job in cluster.jobs.values():
            other = move_of(job.action)
            if job.ours and job.outcome is Outcome.RUNNING and other is not None:
                assert other.instance != instance.name, f"R2: {action} beside {job}"
        assert not any(":failure:" in tag for tag in instance.tags), f"R4: {action}"
        target = target_of(move, seen)
        assert target is not None
        assert seen.nodes[target].in_service, f"{action} to a node out of service"


def needs(action: Guarded, instance: Instance) -> int:
    """The place in TYPES of what a job does to its instance."""
    match action.then:
        case MoveSecondary():
            return 0
        case MovePrimary(live=True, fallback=False):
            return 1
        case MovePrimary() if not instance.running:
            return 1  # nothing is lost
        case MovePrimary():
            return 2
        case _:
            return 3


class Repairs(HardLife):
    """Rules are what others do; every promise is looked at when it is made."""

    counted = counted

    @initialize(
        takes=st.sampled_from([1.0, 25.0, 150.0]),
        tag=st.sampled_from((*TYPES, "reinstall", "reinstall")),
        out=st.dictionaries(st.sampled_from(NODES), st.booleans(), min_size=1, max_size=2),
        lost=st.booleans(),
    )
    def begin(self, takes: float, tag: str, out: dict[str, bool], lost: bool) -> None:
        cluster = self.set_up(Rig(fleet(7), instances(), SAFE, through=Watched), takes)
        cluster.world.tags = frozenset({RULES + tag})
        cluster.fails_late = lambda action: type(move_of(action)) in self.failing
        self.asked = 0
        for node, offline in (out | {PLAINS: True} if lost else out).items():
            self.take_out(node, offline, 1.0)

    # What administrators do.

    @rule(name=st.sampled_from(NAMED), tag=st.sampled_from(TYPES), seconds=SECONDS)
    def allow(self, name: str, tag: str, seconds: float) -> None:
        self._tag(name, RULES + tag)
        self.rounds(seconds)

    @rule(name=st.sampled_from(NAMED), until=st.sampled_from(["", ":", ":bad", 5, 90]))
    def suspend(self, name: str, until: str | int) -> None:
        end = f":{int(self.rig.time) + until}" if isinstance(until, int) else until
        self._tag(name, f"{RULES}suspend{end}")
        self.rounds(1.0)

    @rule(name=st.sampled_from(NAMED), kind=st.sampled_from(TYPES))
    def ask_for(self, name: str, kind: str) -> None:
        """A repair once, whatever is allowed."""
        self.asked += 1
        self._tag(name, f"{RULES}pending:{kind}:{FOREIGN}{self.asked:03}:{int(self.rig.time)}:")
        self.rounds(1.0)

    @rule(name=st.sampled_from(NAMED), seconds=SECONDS)
    def clear(self, name: str, seconds: float) -> None:
        """Somebody removes all tags, pending ones too."""
        self.rig.cluster.put(replace(self.rig.cluster.instances[name], tags=frozenset()))
        self.rounds(seconds)

    @rule(name=st.sampled_from(NAMED), data=st.data())
    def remove_one(self, name: str, data: st.DataObject) -> None:
        instance = self.rig.cluster.instances[name]
        if instance.tags:
            tag = data.draw(st.sampled_from(sorted(instance.tags)))
            self.rig.cluster.put(replace(instance, tags=instance.tags - {tag}))
        self.rounds(1.0)

    @rule(name=st.sampled_from(NAMED))
    def malform(self, name: str) -> None:
        self._tag(name, f"{RULES}pending:nonsense")
        self.rounds(1.0)

    # What goes wrong.

    @rule(kind=st.sampled_from((MovePrimary, MoveSecondary, Reinstall)), seconds=SECONDS)
    def fail(self, kind: type, seconds: float) -> None:
        self.failing ^= {kind}
        self.rounds(seconds)

    @rule(name=st.sampled_from(NAMED))
    def vanish(self, name: str) -> None:
        """A job that is over cannot be found any more."""
        cluster = self.rig.cluster
        for job in list(cluster.jobs.values()):
            move = move_of(job.action)
            if move and move.instance == name and job.outcome is not Outcome.RUNNING:
                cluster._reasons.pop(job.reason, None)
                job.ends = -cluster.forgets_after - 1
        self.rounds(1.0)

    def _tag(self, name: str, tag: str) -> None:
        instance = self.rig.cluster.instances[name]
        self.rig.cluster.put(replace(instance, tags=instance.tags | {tag}))

    def teardown(self) -> None:
        """R5: at rest no repair is pending of what is well, and no job is submitted any more."""
        if not hasattr(self, "rig"):
            return
        rig = self.rig
        self.failing, self.lossy = set(), False
        self.some_rounds(40, 310.0)
        self.rests("R5", 310.0)
        seen = rig.cluster.snapshot()
        for instance in seen.instances.values():
            well = all(
                seen.nodes[n].in_service for n in (instance.primary, instance.secondary) if n
            )
            suspended = any(f"{RULES}suspend" in tag for tag in instance.tags)
            unclear = any("nonsense" in tag or ":failure:" in tag for tag in instance.tags)
            pending = any(f"{RULES}pending" in tag for tag in instance.tags)
            assert not (well and pending) or suspended or unclear, f"R5: {instance}"


TestRepairs = Repairs.TestCase
TestRepairs.settings = at_random("REPAIRS_EXAMPLES", usual=50, steps=25)


def test_the_machine_was_where_it_matters() -> None:
    kinds = (MovePrimary, MoveSecondary, Reinstall)
    hold_that_it_was(counted, ["broken off", *(kind.__name__ for kind in kinds)])
