"""What is promised of every job at the moment when it is submitted.

R1 nothing more destructive is done than the tags allow at that moment, and no data are given up
   while any node that has them may come back.
R2 no instance is repaired twice at a time, whoever crashed and whatever answer was lost.
R3 a healthy instance is never touched.
R4 after a failure nothing is done until somebody removes its tag.
B1 no instance is moved twice at a time, whoever crashed and whatever answer was lost.
B2 nothing is balanced from or to a node that is sick, out of service, or part of other work.
B3 after a failure nothing is begun until somebody removes its tag.
B4 no instance is brought back to where balancing took it from.
B5 nobody is interrupted: what runs is migrated.
G1 what is submitted Ganeti would do at that moment, once what of ours runs already is done.
G2 what is advised leaves no node without room for another one's failure that had it.
G3 what was moved rests.
G4 at a node is one of us at a time: who moves something there, repairs or empties it.
D1 no job that stops a healthy instance, or may, exceeds a budget, but for `evacuate-failover`.

What is allowed is worked out here once more, from the words of the design alone.
"""

import copy
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from nodeagent.cluster.backend import Answer, Submission
from nodeagent.maintd.planning.resources import needs_memory, target_of
from nodeagent.model.action import (
    Action,
    Guarded,
    MovePrimary,
    MoveSecondary,
    Power,
    PowerCommand,
    Reinstall,
    RunCommand,
    move_of,
)
from nodeagent.model.ledger import Outcome
from nodeagent.model.snapshot import Instance, Snapshot
from simulation.cluster import Job
from simulation.world import World
from tests.maintd.lives.site import Site
from tests.maintd.rig import Between
from tests.maintd.world import FAILOVER, OK

RULES = "ganeti:watcher:autorepair:"
TYPES = ("fix-storage", "migrate", "failover", "reinstall")
BUDGET = "maintd:budget:all:"
FOREIGN = "6f3b1d5e-0002-4000-8000-000000000"
COOLDOWN = 400  # s for which what was moved for balance rests


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


def _stopped(action: Action, seen: Snapshot, *, live: bool) -> str:
    """The running instance that a job stops, or with `live` migrates; or empty."""
    move = move_of(action)
    instance = None if move is None else seen.instances.get(move.instance)
    if instance is None or not instance.running:
        return ""
    match move:
        case MovePrimary(live=True, fallback=False) if not live:
            return ""
        case MovePrimary() | Reinstall():
            return instance.name
        case _:
            return ""


def is_balance(reason: str) -> bool:
    return reason.startswith("balance:")


def owner(reason: str) -> str:
    """For whom a job is: all but its number."""
    return reason.rpartition(":")[0]


def short(world: World) -> set[str]:
    """The nodes that could not take over what the failure of some other one would bring."""
    brought: Counter[tuple[str, str]] = Counter()
    for one in world.instances.values():
        if one.secondary is not None and one.auto_balance:
            brought[one.secondary, one.primary] += needs_memory(one)
    free = world.free(world.nodes)
    return {n for (n, _), mib in brought.items() if n in free and mib > free[n].memory}


def taken(action: Action, seen: Snapshot) -> set[str]:
    """The nodes that an action takes; to read its power takes none."""
    if isinstance(action, RunCommand):
        return {action.node}
    if isinstance(action, Power) and action.command is PowerCommand.STATUS:
        return set()
    move = move_of(action)
    if move is None:
        return {name for name in (getattr(action, "node", ""),) if name}
    return {name for name in (move.node, target_of(action, seen)) if name}


@dataclass
class Watched(Between):
    """Looks at every submission, as it is made.

    `moved` is when each instance was last moved for balance. Failures that somebody has
    acknowledged are `forgiven`. Where others `meddle`, it may be right to move something back.
    `submitted` counts the jobs.
    """

    rig: Site
    counted: Counter[str]
    moved: dict[str, float] = field(default_factory=dict)
    forgiven: set[str] = field(default_factory=set)
    meddled: bool = False
    noted: set[str] = field(default_factory=set)
    submitted: int = 0

    def submit(self, batch: Sequence[Submission]) -> Sequence[Answer]:
        self.submitted += len(batch)
        seen = self.cluster.snapshot()
        self._check_budget(batch, seen)
        for submission in batch:
            if isinstance(submission.action, Guarded):
                self._check_repair(submission.action, seen)
        if any(is_balance(submission.reason) for submission in batch):
            self._check_balance(batch, seen)
        else:
            self._check_one_at_a_node(batch, seen)
        return self.cluster.submit(batch)

    def _running(self) -> list[Job]:
        jobs = self.cluster.jobs.values()
        return [job for job in jobs if job.ours and job.outcome is Outcome.RUNNING]

    # D1.

    def _check_budget(self, batch: Sequence[Submission], seen: Snapshot) -> None:
        """All instances begin with the same tag, or none; somebody may remove it from some."""
        tagged = {
            i.name: tag for i in seen.instances.values() for tag in i.tags if tag.startswith(BUDGET)
        }
        if not tagged:
            return
        (words,) = (tag.removeprefix(BUDGET).split(":") for tag in set(tagged.values()))
        wanted = [i for i in seen.instances.values() if i.running and i.name in tagged]
        most, live = int(words[0].removesuffix("percent")), "live" in words
        if words[0].endswith("percent"):
            most = -(-most * len(wanted) // 100)
        world = self.cluster.world
        answers = world.machines.answers
        down = {
            i.name for i in wanted if seen.nodes[i.primary].offline or not answers(i.primary)
        } | world.crashed
        moving = {_stopped(job.action, seen, live=live) for job in self._running()}
        for submission in batch:
            name = _stopped(submission.action, seen, live=live)
            incident = self.rig.ledger.incident(owner(submission.reason))
            urgent = incident is not None and incident.diagnosis == FAILOVER
            there = (down | moving | {name}) & tagged.keys()
            if name not in tagged:
                continue
            if name not in down and not urgent:
                self.counted["budgets"] += 1
                assert len(there) <= most, f"D1: {submission.action} beside {sorted(there)}"
            elif len(there) > most:
                self.counted["budgets exceeded"] += 1
            moving.add(name)

    # R1 to R4.

    def _check_repair(self, action: Guarded, seen: Snapshot) -> None:
        move = action.then
        instance = seen.instances[move.instance]
        self.counted[f"repaired by {type(move).__name__}"] += 1
        places = [seen.nodes[name] for name in (instance.primary, instance.secondary) if name]
        assert not all(node.in_service for node in places), f"R3: {action}"
        most = max(allowed(seen, instance.name, self.cluster.clock()), asked_for(instance))
        suspended = any(tag.startswith(f"{RULES}suspend") for tag in instance.tags)
        assert most >= needs(action, instance), f"R1: {action} where {most} is allowed"
        assert not suspended or most > -1, f"R1: {action} though suspended"
        if isinstance(move, Reinstall):
            assert all(node.offline for node in places), f"R1: {action} while data may come back"
        for job in self._running():
            other = move_of(job.action)
            if other is not None:
                assert other.instance != instance.name, f"R2: {action} beside {job}"
        assert not any(":failure:" in tag for tag in instance.tags), f"R4: {action}"
        target = target_of(move, seen)
        assert target is not None
        assert seen.nodes[target].in_service, f"{action} to a node out of service"

    # B1 to B5.

    def _check_move(self, submission: Submission, seen: Snapshot, batch: set[str]) -> None:
        action = submission.action
        assert isinstance(action, MovePrimary | MoveSecondary)
        self.counted[f"balanced by {type(action).__name__}"] += 1
        target = target_of(action, seen)
        for name in filter(None, (action.node, target)):
            assert seen.nodes[name].in_service, f"B2: {action}"
            assert self.rig.heard(name) == OK, f"B2: {action}"
        instance = seen.instances[action.instance]
        if isinstance(action, MovePrimary) and not instance.always_failover:
            assert action.live == instance.running, f"B5: {action}"
            assert not action.fallback, f"B5: {action}"
        for job in self.cluster.jobs.values():
            if job.ours and job.reason not in batch:
                self._check_beside(submission, job, target)

    def _check_beside(self, submission: Submission, job: Job, target: str | None) -> None:
        action, move = submission.action, move_of(job.action)
        assert isinstance(action, MovePrimary | MoveSecondary)
        running = job.outcome is Outcome.RUNNING
        if running and move is not None and not self._follows(submission, job):
            assert move.instance != action.instance, f"B1: {action} beside {job}"
            assert move.node not in (action.node, target), f"B2: {action} beside {job}"
        if not is_balance(job.reason) or self.meddled:
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

    # G1 to G4.

    def _check_balance(self, batch: Sequence[Submission], seen: Snapshot) -> None:
        ahead = copy.deepcopy(self.cluster._now())
        for job in self._running():
            ahead.apply(job.action)
        before = short(ahead)
        self._check_one_at_a_node(batch, seen)
        for submission in batch:
            said = ahead.apply(submission.action)
            if not is_balance(submission.reason):
                continue
            self._check_move(submission, seen, {other.reason for other in batch})
            move = move_of(submission.action)
            assert move is not None
            assert not said, f"G1: {submission.action}: {said}"
            if submission.after is None:
                last = self.moved.get(move.instance, -1e12)
                assert self.rig.time - last >= COOLDOWN, f"G3: {submission.action}"
        followed = any(submission.after is not None for submission in batch)
        if not followed and all(is_balance(one.reason) for one in batch):
            self._check_room(ahead, before)

    def _check_room(self, ahead: World, before: set[str]) -> None:
        """What is to follow is promised already."""
        for intent in self.rig.ledger.intents:
            if intent.purpose.group and intent.after is not None:
                ahead.apply(intent.action)
        assert short(ahead) <= before, f"G2: {short(ahead) - before}"

    def _check_one_at_a_node(self, batch: Sequence[Submission], seen: Snapshot) -> None:
        running = self._running()
        for submission in batch:
            mine = taken(submission.action, seen)
            for job in running:
                balances = is_balance(job.reason) or is_balance(submission.reason)
                if balances and owner(job.reason) != owner(submission.reason):
                    both = mine & taken(job.action, seen)
                    assert not both, f"G4: {submission.action} beside {job.action}"

    def note_moves(self) -> None:
        """After a round: until when what was moved has moved."""
        for job in self.cluster.jobs.values():
            move = move_of(job.action)
            over = job.outcome is not Outcome.RUNNING and job.number not in self.noted
            if is_balance(job.reason) and move is not None and over:
                self.noted.add(job.number)
                self.moved[move.instance] = max(self.moved.get(move.instance, 0.0), job.ends)
