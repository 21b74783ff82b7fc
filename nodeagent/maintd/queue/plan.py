"""The repair queue in a round: its turns become intents. Pure.

Its commands run on the master's own agent, with the entry on stdin. Repairs run alone and one at a
time; health checks that the agent lists as read-only run many at once.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from nodeagent.maintd.notices.owners import due_milestones, due_offers
from nodeagent.maintd.notices.sinks import command as notice_commands
from nodeagent.maintd.outage.claims import begin, release
from nodeagent.maintd.planning import admission
from nodeagent.maintd.planning.budgets import BUDGET_WAITS
from nodeagent.maintd.planning.evacuation import NodeToEvacuate, empty, why_not_wholly
from nodeagent.maintd.planning.intents import without_claim
from nodeagent.maintd.planning.situation import Situation
from nodeagent.maintd.queue.entries import CHECK, EMPTY, REPAIR, SUCCESS, entry_json, purpose
from nodeagent.maintd.queue.state import back_off
from nodeagent.maintd.queue.strategy import OUTSIDE, Do, Machine, Turn, take_turns
from nodeagent.model.action import Drain, MovePrimary, MoveSecondary, RunCommand
from nodeagent.model.diagnosis import Need
from nodeagent.model.incident import Status
from nodeagent.model.ledger import Intent, Ledger, Policy
from nodeagent.model.outage import Way
from nodeagent.model.purpose import OfEntry
from nodeagent.model.queue import INCIDENTS, Entry, Operation, StepStatus
from nodeagent.model.reason import Held, Kind, Reason, because
from nodeagent.model.snapshot import Beside, Node, Observed
from nodeagent.model.units import Seconds
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


def work_off(
    ledger: Ledger, situation: Situation, shut: Mapping[int, Reason]
) -> tuple[Ledger, list[Held]]:
    """Give each entry its next step, and tell what is blocked; in doubt about the ledger nothing.

    `shut` gives, by index, the reason why an entry's next step does not start.
    """
    if not ledger.queue.entries:
        return ledger, []
    if situation.stops.doubt is not None:
        _keep_off(ledger, situation)
        return ledger, []
    places = _Places(ledger, situation, shut)
    work = _Work(ledger, situation, _Agent(ledger, situation), places)
    work.all()
    return work.ledger, work.held


def _keep_off(ledger: Ledger, situation: Situation) -> None:
    """Claim the nodes of entries in work, and start nothing."""
    at_work = {entry.address: entry for entry in ledger.queue.entries if entry.at_work}
    for node in situation.observed.snapshot.nodes.values():
        if (entry := at_work.get(node.address)) is not None:
            situation.room.in_work.add(node.uuid)
            situation.room.claim(node.name, entry.owner)


class _Agent:
    """The master's own agent in this round: it runs one command alone, or many checks at once.

    `checks` counts its running health checks. `blocked` says why it can run nothing now. `first`
    names work that waits for an idle agent; new checks would keep it busy.
    """

    def __init__(self, ledger: Ledger, situation: Situation) -> None:
        observed = situation.observed
        self.master = observed.snapshot.master
        self._beside = observed.beside.get(self.master, Beside())
        self.checks = sum(map(self._checks, ledger.intents))
        self.blocked = self._why_blocked(ledger, observed)
        self.first = self._why_first(ledger, situation)

    def _why_blocked(self, ledger: Ledger, observed: Observed) -> Reason | None:
        if self.master not in observed.snapshot.nodes:
            return because(Kind.NO_MASTER)
        if doubt := observed.doubts.get(self.master):
            return because(Kind.AGENT_IN_DOUBT, self.master, doubt=doubt)
        if why := admission.no_orders(self.master, observed):
            return why
        for intent in ledger.intents:
            action = intent.action
            if not isinstance(action, RunCommand) or action.node != self.master:
                continue
            if not self._checks(intent):
                return because(Kind.AGENT_RUNS, self.master, what=action.command)
        return None

    def _checks(self, intent: Intent) -> bool:
        """Check whether an intent is a health check that the agent runs beside others."""
        action = intent.action
        if not isinstance(action, RunCommand) or action.node != self.master:
            return False
        return action.command in self._beside.commands and purpose(intent) == CHECK

    def _why_first(self, ledger: Ledger, situation: Situation) -> Reason | None:
        master = situation.observed.snapshot.nodes.get(self.master)
        for incident in ledger.incidents:
            pending = incident.status is Status.PENDING and not incident.repaired
            if not pending or incident.diagnosis.need is not Need.LIVE_REPAIR or master is None:
                continue
            if incident.node == master.uuid and master.name not in situation.stops.closed:
                return because(Kind.INCIDENT_FIRST, master.name, incident=incident.id)
        by, now = situation.policy.announcing, situation.now
        if due_offers(ledger, by, now) or due_milestones(ledger, by, now):
            return because(Kind.OWNERS_FIRST, command=by.command)
        if notice_commands.due(ledger, situation.policy.notify, now):
            return because(Kind.NOTICES_FIRST)
        return None

    def runs_beside(self, command: str) -> bool:
        """Check whether it runs this health check beside others."""
        return command in self._beside.commands

    def why_no_check(self, command: str) -> Reason | None:
        """Why this health check cannot be ordered now; None if it can."""
        why = self.blocked or self.first
        if why or not self.checks:
            return why
        running = because(Kind.AGENT_RUNS, self.master, what=f"{self.checks} checks")
        if not self.runs_beside(command):
            return because(Kind.RUNS_ALONE, command=command, why=running)
        return running if self.checks >= self._beside.most else None

    def why_not(self, command: str, *, beside: bool) -> Reason | None:
        """Why a command cannot be ordered now; one that runs alone is the first from now on."""
        if self.blocked is None and self.checks and not beside:
            self.first = because(Kind.CHECKS_FIRST, command=command, count=self.checks)
            return self.first
        return self.blocked

    def begin(self, command: str, *, beside: bool) -> None:
        """Record an order of this round."""
        if beside:
            self.checks += 1
        else:
            self.blocked = because(Kind.AGENT_RUNS, self.master, what=command)


class _Places:
    """The machines of open entries: their nodes, and who works there."""

    def __init__(
        self,
        ledger: Ledger,
        situation: Situation,
        shut: Mapping[int, Reason],
    ) -> None:
        self._observed, self._policy = situation.observed, situation.policy
        self._room, self._stops = situation.room, situation.stops
        self._shut = shut
        self._incidents = ledger.incidents
        self._evacuated_for = {outage.node: outage.evacuated_for for outage in ledger.outages}
        self._nodes = self._observed.snapshot.by_uuid
        self._by_address = {node.address: node for node in self._nodes.values()}
        self._intents: dict[str, list[Intent]] = {}
        for intent in ledger.intents:
            if isinstance(intent.purpose, OfEntry):
                self._intents.setdefault(intent.owner, []).append(intent)

    def node(self, entry: Entry) -> Node | None:
        return self._by_address.get(entry.address)

    def intents(self, entry: Entry) -> list[Intent]:
        """The entry's own unfinished work."""
        return self._intents.get(entry.owner, [])

    def as_it_is(self, entry: Entry) -> Entry:
        """The entry, without the record of a drain that no longer exists."""
        node = self.node(entry)
        if not entry.drained or self.intents(entry) or (node is not None and node.drained):
            return entry
        returned = node is not None and not node.offline
        if returned and entry.processing and entry.step_status is StepStatus.DRAINING:
            return entry  # somebody has put it back: it backs off
        return replace(entry, drained=False)

    def machine(self, entry: Entry) -> Machine:
        purposes = {purpose(intent) for intent in self.intents(entry)}
        running = not purposes.isdisjoint((REPAIR, SUCCESS))
        shut, node = self._shut.get(entry.index), self.node(entry)
        theirs = self._theirs(entry, node)
        if node is None:
            plain = not (running or theirs or shut)
            outside = Machine(running=running, taken=theirs, theirs=theirs, shut=shut)
            return OUTSIDE if plain else outside
        primaries = self._room.primaries.get(node.name, ())
        secondaries = self._room.mirrors.get(node.name, ())
        return Machine(
            node.name,
            node.candidate,
            out=node.is_out,
            empty=not (any(primaries) or any(secondaries)),
            running=running,
            moving=EMPTY in purposes,
            taken=theirs or self._why_not_yet(entry, node),
            theirs=theirs,
            shut=shut,
        )

    def _theirs(self, entry: Entry, node: Node | None) -> Reason | None:
        """Name who else works on the machine, or why to leave it alone."""
        if not entry.at_work and (why := self._stops.repairs.everywhere):
            return why
        if node is None:
            return self._stops.outside
        if why := self._stops.closed.get(node.name):
            return why
        person = self._evacuated_for.get(node.uuid)
        if person is not None and person.who != entry.who:
            return because(Kind.EVACUATED_BY_PERSON, node.name, who=person.who)
        for incident in self._incidents:
            if incident.node != node.uuid:
                continue
            if incident.status is Status.PENDING or (
                incident.status is Status.FAILED and admission.keeps(incident, node, self._observed)
            ):
                status = incident.status.value
                return because(Kind.INCIDENT_THERE, node.name, incident=incident.id, status=status)
            theirs = entry.who == INCIDENTS and incident.status.active
            if theirs and (why := self._stops.incidents.get(incident.id)):
                return why
        return self._room.why_claimed(node.name, entry.owner)

    def _why_not_yet(self, entry: Entry, node: Node) -> Reason | None:
        """Say what else a step at the node waits for."""
        if copied := self._room.copied_from(node.name):
            return because(Kind.NEW_MIRROR, node.name, instance=copied)
        if entry.at_work or entry.status.finished:
            return None
        if why := admission.no_orders(self._observed.snapshot.master, self._observed):
            return why  # a drained node would wait for its repair
        if why := admission.no_room_in_work(node, self._room, self._policy):
            return why
        return admission.another_candidate(node, self._incidents, self._nodes)


@dataclass
class _Work:
    """Carries out the turns of the entries."""

    ledger: Ledger
    situation: Situation
    agent: _Agent
    places: _Places
    held: list[Held] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.now, self.room = self.situation.now, self.situation.room
        self.procedures = self.situation.policy.procedures

    def all(self) -> None:
        known = [entry for entry in self.ledger.queue.entries if not entry.at_rest]
        entries = tuple(map(self.places.as_it_is, known))
        for before, entry in zip(known, entries, strict=True):
            if entry is not before:
                self._put(entry)
        at_work = [entry for entry in entries if entry.at_work]
        nodes = {entry.index: node for entry in at_work if (node := self.places.node(entry))}
        self.room.in_work.update(node.uuid for node in nodes.values())
        machines = {entry.index: self.places.machine(entry) for entry in entries}
        for entry in at_work:
            if entry.index in nodes and not machines[entry.index].taken:
                self.room.claim(nodes[entry.index].name, entry.owner)
        queue = replace(self.ledger.queue, entries=entries)
        turns = take_turns(queue, machines, self.procedures, self.now)
        for entry, why in turns.held:
            self._hold(entry, why)
        for turn in turns.turns:
            self._take(turn)
        self._check(turns.checks)

    def _hold(self, entry: Entry, why: Reason) -> None:
        node, index = self.places.node(entry), str(entry.index)
        waits = because(Kind.ENTRY_WAITS, index, address=entry.address, why=why)
        self.held.append(Held(waits, node.name if node else ""))

    def _put(self, entry: Entry) -> None:
        self.ledger = replace(self.ledger, queue=self.ledger.queue.put(entry))

    def _take(self, turn: Turn) -> None:
        entry = turn.entry
        match turn.do:
            case Do.DRAIN:
                self._drain(entry)
            case Do.EXECUTE:
                step = self._operation(entry).repair_steps[entry.step]
                self._order(entry, REPAIR, step.repair_command, step.command_timeout_seconds)
            case Do.SUCCEED:
                operation = self._operation(entry)
                command, seconds = operation.success_command, operation.success_command_timeout
                self._order(entry, SUCCESS, command, seconds)
            case Do.RELEASE:
                self._release(entry)
            case Do.DEQUEUE:
                queue = self.ledger.queue.drop(entry.index)
                self.ledger = replace(self.ledger, queue=queue)
            case Do.BACK_OFF | Do.FINISH | Do.WAIT:
                self._put(entry)

    def _operation(self, entry: Entry) -> Operation:
        operation = self.procedures.look_up(entry.machine_type, entry.operation)
        assert isinstance(operation, Operation)
        return operation

    def _check(self, entries: Iterable[Entry]) -> None:
        """Order the health checks, the most urgent first, until one has to wait."""
        for entry in entries:
            operation = self._operation(entry)
            command, seconds = operation.health_check_command, operation.command_timeout_seconds
            if why := self.agent.why_no_check(command):
                self._hold(entry, because(Kind.NOT_CHECKED, why=why))
                return
            if not self.places.intents(entry):
                self._order(entry, CHECK, command, seconds)

    def _order(self, entry: Entry, does: str, command: str, seconds: Seconds) -> None:
        """Order the master's agent to run a command, and save the entry; or do neither."""
        beside = does == CHECK and self.agent.runs_beside(command)
        if why := self.agent.why_not(command, beside=beside):
            self._hold(entry, because(Kind.COMMAND_WAITS, command=command, why=why))
            return
        node = self.places.node(entry)
        stdin = canonical(entry_json(entry, self.situation.observed.snapshot))
        order = RunCommand(self.agent.master, command, stdin, seconds=seconds)
        purpose = OfEntry(entry.index, does)
        if node is None or does == CHECK:
            self.ledger = without_claim(self.ledger, purpose, order, self.now)
        else:
            taken = self.room.take(node.name, purpose)
            if isinstance(taken, Reason):
                self._hold(entry, taken)
                return
            self.room.in_work.add(node.uuid)
            self.ledger = taken.promise(self.ledger, order, self.now)
        if does != CHECK:
            self._put(entry)
        self.agent.begin(command, beside=beside)

    def _release(self, entry: Entry) -> None:
        """Give back the node that was drained for the entry."""
        self._put(entry)
        if (node := self.places.node(entry)) is not None:
            self.ledger = release(self.ledger, node.uuid, Way.ENTRY, self.now)

    def _drain(self, entry: Entry) -> None:
        """Evacuate its node as an incident would; back off at once if that is impossible now."""
        node, intents = self.places.node(entry), self.places.intents(entry)
        assert node is not None
        taken = self.room.take(node.name, OfEntry(entry.index, EMPTY))
        if isinstance(taken, Reason):
            self._hold(entry, taken)
            return
        self.room.in_work.add(node.uuid)
        moves = sum(isinstance(i.action, MovePrimary | MoveSecondary) for i in intents)
        if moves < sum(purpose(intent) == EMPTY for intent in intents):
            return  # nothing runs beside it
        before = self.ledger.queue.entry(entry.index)
        assert before is not None
        # A step may do anything to the disks: no step runs while secondaries are on the node.
        policy = replace(self.situation.policy_of(node), degraded=False)
        begun = before.processing and before.step_status is StepStatus.DRAINING
        wanted = NodeToEvacuate(entry.owner, node, begun)
        obstacle = None if begun else why_not_wholly(wanted, self.room, policy)
        room = self.room if obstacle is None else self.room.trial()
        evacuation = empty(wanted, room, policy, moves)
        # What waits for a budget keeps its node: it goes on once the budget has room.
        lasting = [why for why in evacuation.obstacles if why.kinds.isdisjoint(BUDGET_WAITS)]
        if obstacle is None and lasting and not (evacuation.steps or moves):
            obstacle = lasting[0]
        if obstacle is not None:
            # A repair that was postponed before anything was done does not count.
            entry = replace(entry, begun_at=before.begun_at)
            self._put(back_off(entry, self.procedures, self.now, str(obstacle)))
            return
        for why in evacuation.obstacles:
            self._hold(entry, why)
        drains = any(isinstance(step.action, Drain) for step in evacuation.steps)
        self.ledger = begin(self.ledger, node, OfEntry(entry.index, EMPTY))
        self._put(replace(entry, drained=entry.drained or drains))
        self.ledger = evacuation.promise(taken, self.ledger, self.now)
