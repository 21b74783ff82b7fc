"""The repair queue in a round: its turns become intents. Pure.

Its commands run on the master's own agent, with the entry on stdin. Repairs run alone and one at a
time; health checks that the agent lists as read-only run many at once.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from nodeagent.maintd.notices.sinks import command as notice_commands
from nodeagent.maintd.outage.claims import begin, release
from nodeagent.maintd.owners.notify import due_endings, due_offers
from nodeagent.maintd.planning import admission
from nodeagent.maintd.planning.evacuation import Evacuation, empty
from nodeagent.maintd.planning.intents import without_claim
from nodeagent.maintd.planning.resources import Room
from nodeagent.maintd.planning.tag_settings import with_tags
from nodeagent.maintd.queue.entries import CHECK, EMPTY, REPAIR, SUCCESS, entry_json, purpose
from nodeagent.maintd.queue.referral import INCIDENTS
from nodeagent.maintd.queue.state import back_off
from nodeagent.maintd.queue.strategy import OUTSIDE, Do, Machine, Turn, take_turns
from nodeagent.model.action import Drain, MovePrimary, MoveSecondary, RunCommand
from nodeagent.model.diagnosis import Need
from nodeagent.model.incident import Status
from nodeagent.model.ledger import Intent, Ledger, Policy
from nodeagent.model.outage import Way
from nodeagent.model.purpose import OfEntry
from nodeagent.model.queue import Entry, Operation, StepStatus
from nodeagent.model.reason import Held, Kind, Reason, because
from nodeagent.model.snapshot import Beside, Node, Observed
from nodeagent.model.units import Ms, Seconds
from nodeagent.protocol.canonical import canonical


def wants_room(ledger: Ledger, policy: Policy) -> bool:
    """Check whether a node may have to be evacuated: only then nodes report their free room."""
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
    """Reasons why no work starts.

    `nodes` has them by node name ("": every machine), `outside` for machines outside the cluster,
    `incidents` by incident id.
    """

    nodes: Mapping[str, Reason]
    outside: Reason | None = None
    incidents: Mapping[str, Reason] = field(default_factory=dict)


@dataclass
class Worked:
    """A round's result for the queue."""

    ledger: Ledger
    held: list[Held] = field(default_factory=list)


def work_off(
    ledger: Ledger,
    observed: Observed,
    policy: Policy,
    room: Room,
    stopped: Stopped,
    busy: set[str],
    shut: Mapping[int, Reason],
    now: Ms,
) -> Worked:
    """Give each entry its next step.

    `busy` are the UUIDs of the nodes in work; those of entries are added. `shut` gives, by index,
    the reason why an entry's next step does not start.
    """
    work = _Work(Worked(ledger), observed, policy, room, stopped, busy, shut, now)
    if ledger.queue.entries:
        work.all()
    return work.done


def keep_off(ledger: Ledger, observed: Observed, room: Room, busy: set[str]) -> None:
    """Claim the nodes of entries in work, and start nothing."""
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
    shut: Mapping[int, Reason]
    now: Ms

    def __post_init__(self) -> None:
        nodes = self.observed.snapshot.nodes.values()
        self.nodes = {node.uuid: node for node in nodes}
        by_address = {node.address: node for node in nodes}
        self.open = [entry for entry in self.done.ledger.queue.entries if not entry.at_rest]
        found = ((e, by_address.get(e.address)) for e in self.open)
        self.places = {entry.index: node for entry, node in found if node is not None}
        self.mine: dict[str, list[Intent]] = {}
        for intent in self.done.ledger.intents:
            if intent.purpose.entry:
                self.mine.setdefault(intent.owner, []).append(intent)
        master = self.observed.snapshot.master
        self.beside = self.observed.beside.get(master, Beside())
        self.looking = sum(map(self._looks, self.done.ledger.intents))
        self.no_agent = self._no_agent()
        self.wanted = self._wanted()  # work that the agent must run alone, once it can

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
            stop = self.no_agent or self.wanted or self._no_room(entry)
            if stop:
                self._hold(entry, because(Kind.NOT_CHECKED, why=stop))
                break
            if not self._working(entry):
                self._check(entry)

    def _no_agent(self) -> Reason | None:
        """Why the master's own agent can run nothing now; None if it can."""
        snapshot = self.observed.snapshot
        if snapshot.master not in snapshot.nodes:
            return because(Kind.NO_MASTER)
        if doubt := self.observed.doubts.get(snapshot.master):
            return because(Kind.AGENT_IN_DOUBT, snapshot.master, doubt=doubt)
        for intent in self.done.ledger.intents:
            if self._is_there(intent) and not self._looks(intent):
                assert isinstance(intent.action, RunCommand)
                return because(Kind.AGENT_RUNS, snapshot.master, what=intent.action.command)
        return None

    def _is_there(self, intent: Intent) -> bool:
        action = intent.action
        return isinstance(action, RunCommand) and action.node == self.observed.snapshot.master

    def _looks(self, intent: Intent) -> bool:
        """Check whether it is a health check that the agent runs beside others."""
        action = intent.action
        listed = isinstance(action, RunCommand) and action.command in self.beside.commands
        return listed and self._is_there(intent) and purpose(intent) == CHECK

    def _wanted(self) -> Reason | None:
        """Name other work that waits for an idle agent; new checks would keep it busy."""
        ledger, snapshot = self.done.ledger, self.observed.snapshot
        master = snapshot.nodes.get(snapshot.master)
        for incident in ledger.incidents:
            begun = incident.status is Status.PENDING and not incident.repaired
            if not begun or incident.diagnosis.need is not Need.LIVE_REPAIR or master is None:
                continue
            if incident.node == master.uuid and not self.stopped.nodes.get(master.name):
                return because(Kind.INCIDENT_FIRST, master.name, incident=incident.id)
        by = self.policy.announcing
        if due_offers(ledger, by, self.now) or due_endings(ledger, by, self.now):
            return because(Kind.OWNERS_FIRST, command=by.command)
        if notice_commands.due(ledger, self.policy.notify, self.now):
            return because(Kind.NOTICES_FIRST)
        return None

    def _no_room(self, entry: Entry) -> Reason | None:
        """Why this check cannot be ordered now; None if it can."""
        command = self._operation(entry).health_check_command
        if not self.looking:
            return None
        checks = f"{self.looking} checks"
        running = because(Kind.AGENT_RUNS, self.observed.snapshot.master, what=checks)
        if command not in self.beside.commands:
            return because(Kind.RUNS_ALONE, command=command, why=running)
        return running if self.looking >= self.beside.most else None

    def _as_it_is(self, entry: Entry) -> Entry:
        """The entry, without the record of a drain that no longer exists."""
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
        shut = self.shut.get(entry.index)
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
            moving=any(purpose(intent) == EMPTY for intent in mine),
            taken=self._taken(entry, node),
            theirs=self._theirs(entry, node),
            shut=shut,
        )

    def _theirs(self, entry: Entry, node: Node) -> Reason | None:
        """Name another with jobs at the node, now or next."""
        for incident in self.done.ledger.incidents:
            if incident.node == node.uuid and incident.status is Status.PENDING:
                return because(Kind.INCIDENT_THERE, node.name, incident=incident.id)
        return self.room.why_claimed(node.name, entry.owner)

    def _taken(self, entry: Entry, node: Node | None) -> Reason | None:
        """Name who else works on the machine, or why to leave it alone."""
        if not entry.at_work and (why := self.stopped.nodes.get("")):
            return why
        if node is None:
            return self.stopped.outside
        if why := self.stopped.nodes.get(node.name):
            return why
        for incident in self.done.ledger.incidents:
            if incident.node != node.uuid:
                continue
            if incident.status is Status.PENDING or (
                incident.status is Status.FAILED and admission.keeps(incident, node, self.observed)
            ):
                status = incident.status.value
                return because(Kind.INCIDENT_THERE, node.name, incident=incident.id, status=status)
            theirs = entry.who == INCIDENTS and incident.status.active
            if theirs and (why := self.stopped.incidents.get(incident.id)):
                return why
        if why := self.room.why_claimed(node.name, entry.owner):
            return why
        if copied := self.room.copied_from(node.name):
            return because(Kind.NEW_MIRROR, node.name, instance=copied)
        if not (entry.at_work or entry.status.finished):
            incidents = self.done.ledger.incidents
            return admission.no_room_in_work(
                node, self.busy, self.nodes, self.policy
            ) or admission.another_candidate(node, incidents, self.nodes)
        return None

    def _hold(self, entry: Entry, why: Reason) -> None:
        node, index = self.places.get(entry.index), str(entry.index)
        waits = because(Kind.ENTRY_WAITS, index, address=entry.address, why=why)
        self.done.held.append(Held(waits, node.name if node else ""))

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
            case Do.RELEASE:
                self._release(entry)
            case Do.DEQUEUE:
                ledger = self.done.ledger
                self.done.ledger = replace(ledger, queue=ledger.queue.drop(entry.index))
            case Do.BACK_OFF | Do.FINISH | Do.WAIT:
                self._put(entry)

    def _operation(self, entry: Entry) -> Operation:
        found = self.policy.procedures.look_up(entry.machine_type, entry.operation)
        assert isinstance(found, Operation)
        return found

    def _order(self, entry: Entry, does: str, command: str, seconds: Seconds) -> None:
        """Order the master's agent to run a command, and save the entry; or do neither."""
        if self.no_agent:
            self._hold(entry, because(Kind.COMMAND_WAITS, command=command, why=self.no_agent))
            return
        looks = does == CHECK and command in self.beside.commands
        if self.looking and not looks:
            self.wanted = because(Kind.CHECKS_FIRST, command=command, count=self.looking)
            self._hold(entry, because(Kind.COMMAND_WAITS, command=command, why=self.wanted))
            return
        master = self.observed.snapshot.master
        node = self.places.get(entry.index)
        stdin = canonical(entry_json(entry, self.observed.snapshot))
        order = RunCommand(master, command, stdin, seconds=seconds)
        purpose = OfEntry(entry.index, does)
        if node is None or does == CHECK:
            self.done.ledger = without_claim(self.done.ledger, purpose, order, self.now)
        else:
            taken = self.room.take(node.name, purpose)
            if isinstance(taken, Reason):
                self._hold(entry, taken)
                return
            self.busy.add(node.uuid)
            self.done.ledger = taken.promise(self.done.ledger, order, self.now)
        if does != CHECK:
            self._put(entry)
        if looks:
            self.looking += 1
        else:
            self.no_agent = because(Kind.AGENT_RUNS, master, what=command)

    def _check(self, entry: Entry) -> None:
        found = self._operation(entry)
        self._order(entry, CHECK, found.health_check_command, found.command_timeout_seconds)

    def _release(self, entry: Entry) -> None:
        """Give back the node that was drained for the entry."""
        self._put(entry)
        if (node := self.places.get(entry.index)) is not None:
            self.done.ledger = release(self.done.ledger, node.uuid, Way.ENTRY, self.now)

    def _stays(self, wanted: Evacuation, policy: Policy) -> Reason | None:
        """Return an obstacle to evacuating the node now; with one, nothing starts."""
        endless = replace(policy, moves=2 * len(self.observed.snapshot.instances) + 1)
        begun = replace(wanted, node=replace(wanted.node, drained=True), begun=True)
        found = empty(begun, self.room.trial(), endless, 0)
        return found.obstacles[0] if found.obstacles else None

    def _drain(self, entry: Entry) -> None:
        """Evacuate its node as an incident would; back off at once if that is impossible now."""
        node, mine = self.places[entry.index], self._working(entry)
        taken = self.room.take(node.name, OfEntry(entry.index, EMPTY))
        if isinstance(taken, Reason):
            self._hold(entry, taken)
            return
        self.busy.add(node.uuid)
        moves = [i for i in mine if isinstance(i.action, MovePrimary | MoveSecondary)]
        if len(moves) < len([i for i in mine if purpose(i) == EMPTY]):
            return  # nothing runs beside it
        before = self.done.ledger.queue.entry(entry.index)
        assert before is not None
        # A step may do anything to the disks: no step runs while secondaries are on the node.
        policy = replace(with_tags(self.policy, self.observed.snapshot, node), degraded=False)
        begun = before.processing and before.step_status is StepStatus.DRAINING
        wanted = Evacuation(entry.owner, node, begun)
        why = None if begun else self._stays(wanted, policy)
        found = empty(wanted, self.room.trial() if why else self.room, policy, len(moves))
        if why or (found.obstacles and not (found.steps or moves)):
            why = why or found.obstacles[0]
            # A repair that was postponed before anything was done does not count.
            entry = replace(entry, begun_at=before.begun_at)
            self._put(back_off(entry, self.policy.procedures, self.now, str(why)))
            return
        for why in found.obstacles:
            self._hold(entry, why)
        drains = any(isinstance(step.action, Drain) for step in found.steps)
        self.done.ledger = begin(self.done.ledger, node, OfEntry(entry.index, EMPTY))
        self._put(replace(entry, drained=entry.drained or drains))
        self.done.ledger = found.promise(taken, self.done.ledger, self.now)
