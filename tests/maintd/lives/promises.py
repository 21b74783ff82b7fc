"""What is promised of incidents, looked at after each round.

P1 one chain of effects an event, across crashes, failovers and the loss of the ledger.
P2 after a failed job nothing further for its event.
P3 silence and doubt trigger nothing.
P4 a cancel that was granted is never undone.

An event is one diagnosis of one node for as long as it is observed: an incident that was
forgotten and noted again under another id is the same event.
"""

from collections import Counter
from dataclasses import dataclass, field

from nodeagent.maintd.planning.resources import target_of
from nodeagent.model.action import (
    Action,
    Drain,
    MovePrimary,
    MoveSecondary,
    Restore,
    Retag,
    RunCommand,
    SetOffline,
)
from nodeagent.model.diagnosis import Diagnosis
from nodeagent.model.incident import UNKNOWN, Incident, Status, is_same
from nodeagent.model.ledger import Intent, Ledger, Outcome
from nodeagent.model.snapshot import Snapshot
from simulation.cluster import Job
from tests.maintd.lives.site import Site
from tests.maintd.world import OK

ENDED_TAGS = ("maintd:repairready:", "maintd:repairfailed:")


@dataclass(frozen=True)
class Event:
    """One diagnosis of one node for as long as it is observed; `since` counts the changes."""

    node: str
    text: str
    since: int


@dataclass
class Before:
    """What there was before a round."""

    snapshot: Snapshot
    known: set[str]
    failed: set[str]
    unfinished: list[Job]
    given: set[str]


@dataclass
class Promises:
    """What nodes have said, what was promised for it, and what administrators have decided.

    `lost` tells that the ledger was lost. Where others have `meddled`, only P3 is promised: what
    they have changed is another event. `put_back_by_hand` is what each node said that somebody
    has put back in the midst of its evacuation.
    """

    rig: Site
    counted: Counter[str]
    promised: dict[str, tuple[Event, Intent]] = field(default_factory=dict)
    observed: dict[str, tuple[Diagnosis, int]] = field(default_factory=dict)
    asked: dict[str, Incident] = field(default_factory=dict)
    canceled: dict[str, Event] = field(default_factory=dict)
    put_back_by_hand: dict[str, Diagnosis] = field(default_factory=dict)
    lost: bool = False
    meddled: bool = False

    def ours(self) -> list[Job]:
        return [job for job in self.rig.cluster.jobs.values() if job.ours]

    def before(self) -> Before:
        snapshot = self.rig.cluster.snapshot()  # what is due by now has happened
        running = [job for job in self.ours() if job.outcome is Outcome.RUNNING]
        known = {intent.id for intent in self.rig.ledger.intents}
        return Before(snapshot, known, self.failed(), running, set(self.rig.agents.ran))

    def after(self, before: Before, *, held: bool) -> None:
        """Look at what a round has promised, and, where it was `held` to its end, at the rest."""
        self._observe(before.snapshot)
        self._note_answers()
        # A round that was held has saved the ledger that it goes on with.
        ledger = self.rig.ledger if held else self.rig.store.load()
        for incident in ledger.incidents:
            if incident.status in (Status.FAILED, Status.COMPLETED):
                self.put_back_by_hand.pop(incident.name, None)
        for intent in ledger.intents:
            if intent.id in before.known or intent.reason in self.promised or not intent.incident:
                continue
            if isinstance(intent.action, RunCommand) and intent.job in before.given:
                continue  # it was given before, and is only asked for
            self._check(intent, ledger, before)
        if self.meddled:
            return
        if held:  # else what it has found out is not on disk
            self._check_incidents(ledger, before.failed)
        self._check_effects()

    def _observe(self, before: Snapshot) -> None:
        """Follow what each node has said; it counts from the first round that was held."""
        for name, node in before.nodes.items():
            said = self.rig.heard(name)
            if said is None or node.offline:
                continue
            last, since = self.observed.get(name, (OK, 0))
            if said != last:
                self.observed[name] = (said, since + 1)
                gone = [i for i, event in self.canceled.items() if event.node == name]
                for identity in gone:
                    del self.canceled[identity]
            by_hand = self.put_back_by_hand.get(name)
            if by_hand is not None and said.need < by_hand.need:
                del self.put_back_by_hand[name]

    def _note_answers(self) -> None:
        for wish, incident in list(self.asked.items()):
            answer = self.rig.store.answer(wish)
            if answer is not None:
                del self.asked[wish]
            if answer == "":
                self.counted["cancels"] += 1
                self.canceled[incident.id] = self._event(incident)
                self.put_back_by_hand.pop(incident.name, None)

    def acknowledge(self, node: str) -> None:
        """Take off the tags that tell how incidents have ended: the flow may start again."""
        gone = [tag for tag in self.rig.cluster.nodes[node].tags if tag.startswith(ENDED_TAGS)]
        self.rig.cluster.untag(node, *gone)
        if gone:
            self.begin_anew(node)

    def begin_anew(self, node: str) -> None:
        """What is observed from now on is another event."""
        said, since = self.observed.get(node, (OK, 0))
        self.observed[node] = (said, since + 1)
        self.put_back_by_hand.pop(node, None)

    # One intent.

    def _check(self, intent: Intent, ledger: Ledger, before: Before) -> None:
        action, incident = intent.action, ledger.incident(intent.incident)
        self.counted[type(action).__name__] += 1
        if incident is None:
            assert isinstance(action, Retag), f"for nobody: {intent}"
            return
        event = self._event(incident)
        self.promised[intent.reason] = (event, intent)
        if isinstance(action, Retag) and incident.tag in action.add and not incident.status.active:
            return  # tells how it ended
        if isinstance(action, Retag) and not action.add and incident.status is Status.CANCELED:
            assert incident.earlier_tags.issuperset(action.remove), f"P4: {intent}"
            return  # takes off the tag of its earlier end
        if isinstance(action, Restore):
            said = self.rig.heard(incident.name)
            assert (incident.status, said) == (Status.CANCELED, OK), f"put back: {intent}, {said}"
            assert intent.incident not in self.canceled, f"a person's to put back: {intent}"
            return
        if self.meddled:
            self._check_words(intent, incident, before.snapshot)
            return
        again = isinstance(action, RunCommand) and self.lost  # asks for its receipt
        assert intent.incident not in before.failed or again, f"P2: {intent} after a failure"
        canceled = {(other.node, other.text) for other in self.canceled.values()}
        assert (event.node, event.text) not in canceled, f"P4: {intent} was canceled"
        self._check_words(intent, incident, before.snapshot)
        for job in before.unfinished:
            _check_conflict(intent, job)
        self._check_node(action, before.snapshot)

    def _check_node(self, action: Action, before: Snapshot) -> None:
        if isinstance(action, SetOffline):
            there = [
                i for i in before.instances.values() if action.node in (i.primary, i.secondary)
            ]
            assert not there, f"{action} with {there}"
        if isinstance(action, Drain):
            name = action.node
            undone = name in self.put_back_by_hand and not self.lost
            assert not undone, f"undoes what somebody did: {name}"
            told = [tag for tag in before.nodes[name].tags if tag.startswith(ENDED_TAGS[1])]
            assert not told, f"P2: {action} after a failure told"

    def _check_words(self, intent: Intent, incident: Incident, before: Snapshot) -> None:
        """P3: nothing is done to a node, or by means of one, that is silent or says otherwise."""
        node = before.nodes.get(incident.name)
        if node is not None and not node.offline:
            said = self.rig.heard(node.name)
            assert said is not None, f"P3: {intent} while {node.name} is silent"
            ready = isinstance(intent.action, Retag) and incident.repaired
            assert said == incident.diagnosis or ready, f"P3: {intent} while it says {said}"
        target = target_of(intent.action, before)
        if target is not None and target != incident.name:
            said = self.rig.heard(target)
            assert said == OK, f"P3: {intent} to a node that says {said}"
            assert before.nodes[target].in_service, f"{intent} to a node out of service"

    # All of them.

    def _check_incidents(self, ledger: Ledger, failed: set[str]) -> None:
        pending_orders = {i.incident for i in ledger.intents if isinstance(i.action, RunCommand)}
        for incident in ledger.incidents:
            on = incident.status.active or incident.status is Status.COMPLETED
            if incident.id in failed and incident.id not in pending_orders and not self.lost:
                assert not on, f"P2: {incident} though a job has failed"
            if incident.id in self.canceled:
                assert not incident.status.active, f"P4: {incident} was canceled"

    def _check_effects(self) -> None:
        """P1: each event has each effect once; what a failover has ended had none."""
        effects = Counter(
            (self.promised[job.reason][0], _effect(job.action))
            for job in self.ours()
            if job.reason in self.promised
            and job.outcome not in (Outcome.ERROR, Outcome.LATER)
            and "maintd:repairing" not in str(job.action)  # it is there to be set again
        )
        assert all(times == 1 for times in effects.values()), f"P1: {effects.most_common(2)}"
        orders = Counter(
            (self.promised[intent.reason][0], intent.action)
            for _, _, intent in self.rig.agents.ran.values()
            if intent.incident
        )
        assert all(times == 1 for times in orders.values()), f"P1: {orders.most_common(2)}"

    def failed(self) -> set[str]:
        """The incidents of which a round held now must know that something has failed.

        A job that tells of a cancel is none of their work.
        """
        jobs = {
            job.reason.partition(":")[0]
            for job in self.ours()
            if job.outcome is Outcome.ERROR and "maintd:canceled:" not in str(job.action)
        }
        agents = self.rig.agents
        return jobs | {
            intent.incident
            for began, end, intent in agents.ran.values()
            if end is Outcome.ERROR
            and agents.now() >= began + agents.takes
            and self.rig.heard(intent.node) is not None
        }

    def _event(self, incident: Incident) -> Event:
        said, since = self.observed.get(incident.name, (OK, 0))
        diagnosis = incident.diagnosis
        if diagnosis == UNKNOWN and is_same(incident.id, incident.node, said):
            diagnosis = said
        # Of what nobody knows it is not known either that it is the same.
        return Event(incident.name, diagnosis.text or incident.id, since)

    def all_is_told(self, *, late: float) -> bool:
        """Whether with the disk go only wishes that were granted and not yet told to Ganeti.

        And jobs that are still on their way into the queue: no master could know of them.
        """
        ledger = self.rig.store.load()
        reasons = {job.reason for job in self.ours()}
        coming = late and any(intent.reason not in reasons for intent in ledger.intents)
        nodes = self.rig.cluster.nodes
        tags = {tag for node in nodes.values() for tag in node.tags}
        told = all(i.status is not Status.CANCELED or i.tag in tags for i in ledger.incidents)
        told &= all(hold.tag in nodes[hold.name].tags for hold in ledger.holds)
        told &= not ledger.returning()
        of_repair = all(_is_of_repair(intent.action) for intent in ledger.intents)
        return told and not coming and of_repair and not self.rig.store.wishes()


def _check_conflict(intent: Intent, job: Job) -> None:
    action, other = intent.action, job.action
    chained = intent.after is not None and job.after is None
    same = getattr(action, "instance", "") == getattr(other, "instance", None)
    twice = type(action) is type(other) and isinstance(action, Drain | SetOffline)
    assert not (same and not chained), f"conflict: {intent} with {job}"
    assert not (twice and action == other), f"conflict: {intent} with {job}"


def _is_of_repair(action: Action) -> bool:
    """Whether it tells of nothing that an administrator has asked for."""
    told = action.add if isinstance(action, Retag) else ()
    removes = isinstance(action, Retag) and action.remove
    return not removes and all(tag.startswith("maintd:repair") for tag in told)


def _effect(action: Action) -> tuple[object, ...]:
    """What must not be done twice for one event."""
    match action:
        case MovePrimary(name, node) | MoveSecondary(name, node):
            return (type(action), name, node)
        case Retag(_, _, add, remove):
            return (Retag, *(tag.rpartition(":")[0] for tag in add), "-", *remove)
        case _:
            return (type(action),)
