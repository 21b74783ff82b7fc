"""The repair queue in a round: its turns become promises. Pure.

Its commands run on the master's own agent, which runs one at a time, with the entry on stdin.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from nodeagent.maintd import admission
from nodeagent.maintd.planning.resources import Room
from nodeagent.maintd.planning.tag_settings import with_tags
from nodeagent.maintd.queue.entries import (
    CHECK,
    EMPTY,
    REPAIR,
    RESTORE,
    SUCCESS,
    entry_json,
    purpose,
)
from nodeagent.maintd.queue.referral import INCIDENTS
from nodeagent.maintd.queue.state import back_off
from nodeagent.maintd.queue.strategy import OUTSIDE, Do, Machine, Turn, take_turns
from nodeagent.maintd.steps import empty
from nodeagent.model.action import Drain, MovePrimary, MoveSecondary, Restore, RunCommand
from nodeagent.model.diagnosis import Diagnosis, Need
from nodeagent.model.incident import Incident, Status
from nodeagent.model.ledger import Held, Intent, Ledger, Policy
from nodeagent.model.queue import Entry, Operation, StepStatus
from nodeagent.model.snapshot import Node, Observed
from nodeagent.protocol.canonical import canonical

_EVACUATE = Diagnosis(Need.EVACUATE, None, '{"status":"evacuate"}')


def wants_room(ledger: Ledger, policy: Policy) -> bool:
    """Whether a node may be to be emptied: only then the nodes are asked what they have free."""
    for entry in ledger.queue.entries:
        if entry.status.finished or entry.deleted:
            continue
        operation = policy.procedures.look_up(entry.machine_type, entry.operation)
        if isinstance(operation, str):
            continue
        steps = operation.repair_steps[entry.step :]
        if any(step.need_drain for step in steps):
            return True
    return False


@dataclass(frozen=True, slots=True)
class Stopped:
    """Why nothing is begun.

    `nodes` says it by the nodes' names, "" of every machine, `outside` of machines that are no
    nodes, `incidents` by the ids of incidents.
    """

    nodes: Mapping[str, str]
    outside: str = ""
    incidents: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Worked:
    """What a round makes of the queue."""

    ledger: Ledger
    held: list[Held] = field(default_factory=list)


def work_off(
    ledger: Ledger,
    observed: Observed,
    policy: Policy,
    room: Room,
    stopped: Stopped,
    busy: set[str],
    shut: Mapping[int, str],
    now: int,
) -> Worked:
    """Do what may be done for each entry.

    `busy` are the UUIDs of the nodes in work: those that entries work on are added. `shut` says by
    index of entries whose next step is not begun why.
    """
    work = _Work(Worked(ledger), observed, policy, room, stopped, busy, shut, now)
    if ledger.queue.entries:
        work.all()
    return work.done


def keep_off(ledger: Ledger, observed: Observed, room: Room, busy: set[str]) -> None:
    """Claim the nodes of those in work, and do nothing for anybody."""
    at_work = {entry.address: entry for entry in ledger.queue.entries if entry.at_work}
    for node in observed.snapshot.nodes.values():
        if (entry := at_work.get(node.address)) is not None:
            busy.add(node.uuid)
            room.claim(node.name, entry.owner)


@dataclass
class _Work:
    done: Worked
    observed: Observed
    policy: Policy
    room: Room
    stopped: Stopped
    busy: set[str]
    shut: Mapping[int, str]
    now: int

    def __post_init__(self) -> None:
        nodes = self.observed.snapshot.nodes.values()
        self.nodes = {node.uuid: node for node in nodes}
        by_address = {node.address: node for node in nodes}
        self.open = [entry for entry in self.done.ledger.queue.entries if not entry.at_rest]
        found = ((e, by_address.get(e.address)) for e in self.open)
        self.places = {entry.index: node for entry, node in found if node is not None}
        self.mine: dict[str, list[Intent]] = {}
        for intent in self.done.ledger.intents:
            if intent.entry:
                self.mine.setdefault(intent.owner, []).append(intent)
        self.no_agent = self._no_agent()

    def all(self) -> None:
        entries = tuple(map(self._as_it_is, self.open))
        for before, entry in zip(self.open, entries, strict=True):
            if entry is not before:
                self._put(entry)
        queue = replace(self.done.ledger.queue, entries=entries)
        for entry in queue.entries:
            node = self.places.get(entry.index)
            if node is not None and entry.at_work:
                self.busy.add(node.uuid)
        machines = {entry.index: self._machine(entry) for entry in queue.entries}
        for entry in queue.entries:
            node = self.places.get(entry.index)
            if node is not None and entry.at_work and not machines[entry.index].taken:
                self.room.claim(node.name, entry.owner)
        found = take_turns(queue, machines, self.policy.procedures, self.now)
        for entry, why in found.held:
            self._hold(entry, why)
        for turn in found.turns:
            self._take(turn)
        for entry in found.checks:
            if self.no_agent:
                self._hold(entry, f"its health is not asked for: {self.no_agent}")
                break
            if not self._working(entry):
                self._check(entry)

    def _no_agent(self) -> str:
        """Why the master's own agent can run nothing now, or nothing."""
        snapshot = self.observed.snapshot
        if snapshot.master not in snapshot.nodes:
            return "nobody knows which node is the master"
        if why := self.observed.doubts.get(snapshot.master):
            return f"the agent of {snapshot.master} is in doubt: {why}"
        for intent in self.done.ledger.intents:
            if isinstance(intent.action, RunCommand) and intent.action.node == snapshot.master:
                return f"the agent of {snapshot.master} runs {intent.action.command} now"
        return ""

    def _as_it_is(self, entry: Entry) -> Entry:
        """An entry that remembers no drain which is not there any more."""
        node = self.places.get(entry.index)
        if not entry.drained or self._working(entry) or (node is not None and node.drained):
            return entry
        returned = node is not None and not node.offline
        if returned and entry.processing and entry.step_status is StepStatus.DRAINING:
            return entry  # somebody has put it back: it backs off
        return replace(entry, drained=False)

    def _working(self, entry: Entry) -> list[Intent]:
        return self.mine.get(entry.owner, [])

    def _machine(self, entry: Entry) -> Machine:
        mine, node = self._working(entry), self.places.get(entry.index)
        commands = (REPAIR, SUCCESS)
        running = any(purpose(intent) in commands for intent in mine)
        shut = self.shut.get(entry.index, "")
        if node is None:
            taken = self._taken(entry, None)
            plain = not (running or taken or shut)
            return OUTSIDE if plain else Machine(running=running, taken=taken, shut=shut)
        here = self.room.primaries.get(node.name, ()), self.room.mirrors.get(node.name, ())
        return Machine(
            node.name,
            node.candidate,
            out=node.drained or node.offline,
            empty=not any(here),
            running=running,
            moving=any(purpose(intent) in (EMPTY, RESTORE) for intent in mine),
            taken=self._taken(entry, node),
            theirs=self._theirs(entry, node),
            shut=shut,
        )

    def _theirs(self, entry: Entry, node: Node) -> str:
        """Who else has jobs at the node, or will have the next."""
        for incident in self.done.ledger.incidents:
            if incident.node == node.uuid and incident.status is Status.PENDING:
                return f"incident {incident.id} is being repaired there"
        owner = self.room.claims.get(node.name)
        return "" if owner in (None, entry.owner) else f"{node.name} takes part in another repair"

    def _taken(self, entry: Entry, node: Node | None) -> str:
        """Who else works on the machine, or why it is to be left alone."""
        if not entry.at_work and (why := self.stopped.nodes.get("")):
            return why
        if node is None:
            return self.stopped.outside
        if why := self.stopped.nodes.get(node.name):
            return why
        for incident in self.done.ledger.incidents:
            if incident.node != node.uuid:
                continue
            if incident.status in (Status.PENDING, Status.FAILED):
                return f"incident {incident.id} is being repaired there ({incident.status.value})"
            theirs = entry.who == INCIDENTS and incident.status.active
            if theirs and (why := self.stopped.incidents.get(incident.id)):
                return why
        if why := self.room.why_not_through(node.name, entry.owner):
            claimed = self.room.claims.get(node.name) not in (None, entry.owner)
            if claimed:
                return why
        if copied := self.room.copied_from(node.name):
            return f"{node.name} gives instance {copied} a new mirror: that ends first"
        if not (entry.at_work or entry.status.finished):
            as_one, incidents = self._incident(entry, node), self.done.ledger.incidents
            return (
                admission.no_room_in_work(as_one, self.busy, self.nodes, self.policy)
                or admission.another_candidate(node, incidents, self.nodes)
                or ""
            )
        return ""

    def _hold(self, entry: Entry, why: str) -> None:
        node = self.places.get(entry.index)
        what = f"queue entry {entry.index} ({entry.address})"
        self.done.held.append(Held(node.name if node else "", "", f"{what}: {why}"))

    def _put(self, entry: Entry) -> None:
        ledger = self.done.ledger
        self.done.ledger = replace(ledger, queue=ledger.queue.put(entry))

    def _take(self, turn: Turn) -> None:
        entry = turn.entry
        match turn.do:
            case Do.DRAIN:
                self._drain(entry)
            case Do.EXECUTE:
                step = self._operation(entry).repair_steps[entry.step]
                self._order(entry, REPAIR, step.repair_command, step.command_timeout_seconds)
            case Do.SUCCEED:
                found = self._operation(entry)
                self._order(entry, SUCCESS, found.success_command, found.success_command_timeout)
            case Do.UNDRAIN:
                node = self.places[entry.index]
                self.room.claim(node.name, entry.owner)
                self._promise(entry, RESTORE, node.name, Restore(node.name))
            case Do.DEQUEUE:
                ledger = self.done.ledger
                self.done.ledger = replace(ledger, queue=ledger.queue.drop(entry.index))
            case Do.BACK_OFF | Do.FINISH | Do.WAIT:
                self._put(entry)

    def _operation(self, entry: Entry) -> Operation:
        found = self.policy.procedures.look_up(entry.machine_type, entry.operation)
        assert isinstance(found, Operation)
        return found

    def _order(self, entry: Entry, does: str, command: str, seconds: int) -> None:
        """Have the master's agent run a command; as the entry is then remembered, or not at all."""
        if self.no_agent:
            self._hold(entry, f"{command} does not run yet: {self.no_agent}")
            return
        master = self.observed.snapshot.master
        node = self.places.get(entry.index)
        stdin = canonical(entry_json(entry, self.observed.snapshot))
        if does != CHECK:
            self._put(entry)
            if node is not None:
                self.room.claim(node.name, entry.owner)
                self.busy.add(node.uuid)
        place = node.name if node is not None and does != CHECK else ""
        self._promise(entry, does, place, RunCommand(master, command, stdin, seconds=seconds))
        self.no_agent = f"the agent of {master} runs {command} now"

    def _check(self, entry: Entry) -> None:
        found = self._operation(entry)
        self._order(entry, CHECK, found.health_check_command, found.command_timeout_seconds)

    def _promise(
        self,
        entry: Entry,
        does: str,
        place: str,
        action: Drain | MovePrimary | MoveSecondary | Restore | RunCommand,
        after: str | None = None,
    ) -> str:
        tag = f"{entry.owner}:{does}"
        self.done.ledger = self.done.ledger.promise("", place, action, self.now, after, entry=tag)
        return self.done.ledger.intents[-1].id

    def _incident(self, entry: Entry, node: Node) -> Incident:
        """An entry as `steps` and `admission` know who wants a node."""
        begun = entry.processing and entry.step_status is StepStatus.DRAINING
        status = Status.PENDING if begun else Status.NOTED
        return Incident(entry.owner, node.uuid, node.name, _EVACUATE, self.now, status)

    def _stays(self, as_one: Incident, node: Node, policy: Policy) -> str:
        """What could not leave the node if it were drained now; nothing is begun then."""
        endless = replace(policy, moves=2 * len(self.observed.snapshot.instances) + 1)
        drained, begun = replace(node, drained=True), replace(as_one, status=Status.PENDING)
        found = empty(begun, drained, self.room.trial(), endless, 0)
        return found.obstacles[0] if found.obstacles else ""

    def _drain(self, entry: Entry) -> None:
        """Empty its node as an incident would; what cannot be emptied now backs off at once."""
        node, mine = self.places[entry.index], self._working(entry)
        self.room.claim(node.name, entry.owner)
        self.busy.add(node.uuid)
        moves = [i for i in mine if isinstance(i.action, MovePrimary | MoveSecondary)]
        if len(moves) < len([i for i in mine if purpose(i) in (EMPTY, RESTORE)]):
            return  # nothing goes beside it
        before = self.done.ledger.queue.entry(entry.index)
        assert before is not None
        policy = with_tags(self.policy, self.observed.snapshot, node)
        as_one = self._incident(before, node)
        why = self._stays(as_one, node, policy) if as_one.status is Status.NOTED else ""
        found = empty(as_one, node, self.room.trial() if why else self.room, policy, len(moves))
        if why or (found.obstacles and not (found.steps or moves)):
            why = why or found.obstacles[0]
            # What was put off before anything was done to it is no repair that counts.
            entry = replace(entry, begun_at=before.begun_at)
            self._put(back_off(entry, self.policy.procedures, self.now, why))
            return
        for why in found.obstacles:
            self._hold(entry, why)
        drains = any(isinstance(step.action, Drain) for step in found.steps)
        self._put(replace(entry, drained=entry.drained or drains))
        ids: list[str] = []
        for step in found.steps:
            after = None if step.after is None else ids[step.after]
            assert isinstance(step.action, Drain | MovePrimary | MoveSecondary)
            ids.append(self._promise(entry, EMPTY, node.name, step.action, after))
