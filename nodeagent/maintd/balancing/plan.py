"""Balancing: which shifts are begun this round, on the nodes that all else leaves free. Pure.

A luxury: a group is balanced only while it is quiet. What to shift is worked out elsewhere
(`advise`) and asked for here; an advice that is older than what was done since is none.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from nodeagent.maintd.balancing.moves import course, described, fault, spot
from nodeagent.maintd.balancing.past_moves import NO_WAY_BACK
from nodeagent.maintd.planning.preconditions import others_job
from nodeagent.maintd.planning.resources import Room, needs_memory
from nodeagent.maintd.planning.tag_settings import nearer, with_tags
from nodeagent.model.action import MovePrimary, MoveSecondary
from nodeagent.model.balance import Advice, Agenda, Lopsided, Question, Shift, Spot
from nodeagent.model.diagnosis import Need
from nodeagent.model.incident import Incident, Status
from nodeagent.model.ledger import AUTOREPAIR, BALANCE, Held, Ledger, Policy, Trail
from nodeagent.model.snapshot import Group, Node, Observed, Snapshot
from nodeagent.model.wish import Balance

FRESH = 900_000  # ms for which an advice is good; working it out may take some rounds
# ms for which a gain must be there at least that is one only as long as nobody knows the load: it
# is not known for five minutes after every break, such as a round of moves.
DOUBTED = 600_000


@dataclass
class Balanced:
    """What a round makes of it: the ledger, what is held, and what is to be worked out."""

    ledger: Ledger
    held: list[Held] = field(default_factory=list)
    questions: list[Question] = field(default_factory=list)


def balance(
    ledger: Ledger,
    observed: Observed,
    policy: Policy,
    room: Room,
    stopped: Mapping[str, str],
    now: int,
) -> Balanced:
    """Begin what may be begun. `stopped` says of nodes that are on hold why, "" of all of them."""
    done = Balanced(ledger)
    wanted = _wanted(ledger, observed.snapshot, policy)
    kept = tuple(one for one in ledger.lopsided if one.group in wanted)
    groups = observed.snapshot.groups
    agenda = tuple(one for one in ledger.agenda if one.group in groups)
    if (kept, agenda) != (ledger.lopsided, ledger.agenda):
        done.ledger = replace(ledger, lopsided=kept, agenda=agenda)
    if wanted:
        seen = _Seen.of(ledger, observed, room, stopped)
        for group, own in wanted.values():
            _Group(done, seen, own, now, group).all()
    return done


def wants_room(ledger: Ledger, observed: Observed, policy: Policy) -> bool:
    """Whether a shift may be begun: only then the nodes are asked what they have free."""
    policy = with_tags(policy, observed.snapshot)
    listed = {agenda.group for agenda in ledger.agenda if agenda.listed}
    if any(isinstance(wish.asked, Balance) for wish in observed.wishes):
        return True
    for uuid, (_, own) in _wanted(ledger, observed.snapshot, policy).items():
        advice = observed.advice.get(uuid)
        worth = advice is not None and advice.score - advice.final >= own.balance_threshold
        if worth or uuid in listed:
            return True
    return False


def is_wanted(ledger: Ledger, snapshot: Snapshot, policy: Policy) -> bool:
    """Whether any group is to be balanced."""
    return bool(_wanted(ledger, snapshot, with_tags(policy, snapshot)))


def _wanted(
    ledger: Ledger, snapshot: Snapshot, policy: Policy
) -> Mapping[str, tuple[Group, Policy]]:
    """The groups that are to be balanced, by UUID, with their settings."""
    asked = {agenda.group for agenda in ledger.agenda}
    owns = {uuid: (g, nearer(policy, g)) for uuid, g in snapshot.groups.items()}
    return {uuid: (g, own) for uuid, (g, own) in owns.items() if own.balance or uuid in asked}


@dataclass(frozen=True, slots=True)
class _Seen:
    """What all groups' balancing looks at."""

    observed: Observed
    room: Room
    stopped: Mapping[str, str]
    nodes: Mapping[str, Sequence[Node]]  # by group, in order of their names
    sick: Mapping[str, Incident]  # the active incidents, by node UUID
    working: Mapping[str, str]  # who is at work at a node
    stay: Mapping[str, frozenset[str]]  # instances that no move may interrupt, by group

    @classmethod
    def of(
        cls, ledger: Ledger, observed: Observed, room: Room, stopped: Mapping[str, str]
    ) -> "_Seen":
        nodes: dict[str, list[Node]] = {}
        for node in sorted(observed.snapshot.nodes.values(), key=lambda node: node.name):
            nodes.setdefault(node.group, []).append(node)
        sick = {i.node: i for i in ledger.incidents if i.status.active}
        failed = {i.id for i in ledger.incidents if i.status is Status.FAILED}
        busy = {intent.owner for intent in ledger.intents}
        working = {
            name: owner
            for name, owner in room.claims.items()
            if owner != BALANCE and (owner not in failed or owner in busy)
        }
        stay: dict[str, set[str]] = {}
        for instance in observed.snapshot.instances.values():
            if not instance.interrupted:
                continue
            group = observed.snapshot.nodes[instance.primary].group
            stay.setdefault(group, set()).add(instance.name)
        frozen = {group: frozenset(names) for group, names in stay.items()}
        return cls(observed, room, stopped, nodes, sick, working, frozen)

    def unquiet(self, node: Node) -> str | None:
        """What goes on at a node that does not go on for days, and is waited for."""
        if (incident := self.sick.get(node.uuid)) is not None:
            emptied = incident.diagnosis.need >= Need.EVACUATE
            what = "is to be emptied" if emptied else "has trouble of its own"
            return f"{node.name} {what} ({incident.id})"
        if node.in_service and node.name in self.observed.doubts:
            return f"{node.name} is in doubt ({self.observed.doubts[node.name]})"
        if (owner := self.working.get(node.name)) is not None:
            who = "auto-repair" if owner == AUTOREPAIR else "another repair"
            return f"{node.name} is claimed by {who}"
        return None


@dataclass
class _Group:
    """One group's balancing."""

    done: Balanced
    seen: _Seen
    policy: Policy
    now: int
    group: Group

    def all(self) -> None:
        """Everything, as far as it may."""
        uuid = self.group.uuid
        if any(intent.group == uuid for intent in self.done.ledger.intents):
            self._still_lopsided()
            if halted := self._halted():
                self._hold(halted)
            return  # one round after the other
        nodes = [node for node in self.seen.nodes.get(uuid, ()) if node.vm_capable]
        if len(nodes) < 2:
            self._even()
            if any(agenda.group == uuid for agenda in self.done.ledger.agenda):
                self._hold("it has fewer than two nodes")
            return
        free = self._free(nodes)
        if isinstance(free, str):
            self._hold(free)
            self._even()
            return
        agenda = next((a for a in self.done.ledger.agenda if a.group == uuid), None)
        if agenda is not None and agenda.listed:
            self._by_list(agenda, free)
            return
        moved = [trail for trail in self.done.ledger.shifted if trail.group == uuid]
        self.done.questions.append(self._question(free, moved))
        advice = self.seen.observed.advice.get(uuid)
        newest = max((trail.ended for trail in moved), default=0)
        if advice is not None and advice.at >= newest and 0 <= self.now - advice.at < FRESH:
            self._by_advice(advice, agenda, free)

    def _free(self, nodes: Sequence[Node]) -> frozenset[str] | str:
        """The nodes among which it is balanced, or why it is not now."""
        ledger, stopped = self.done.ledger, self.seen.stopped
        if halted := self._halted():
            return halted
        if why := stopped.get(""):
            return why
        if ledger.balance_after > self.now:
            seconds = (ledger.balance_after - self.now) / 1000
            return f"not again for {seconds:.0f} s: a job was not taken"
        for node in nodes:
            if why := self.seen.unquiet(node):
                return why
        unfit = self.seen.room.unfit
        free = [n.name for n in nodes if n.name not in unfit and self._takes_part(n)]
        if len(free) < 2:
            whys = [unfit[node.name] for node in nodes if node.name in unfit]
            return "fewer than two of its nodes are free" + (f": {whys[0]}" if whys else "")
        return frozenset(free)

    def _halted(self) -> str | None:
        """What failed, and how to go on; said also while other moves of the group end."""
        halts = self.done.ledger.halts
        halt = next((halt for halt in halts if halt.group == self.group.uuid), None)
        if halt is None:
            return None
        return f"{halt.why}: remove the tag {halt.tag} from the group to go on"

    def _takes_part(self, node: Node) -> bool:
        return nearer(replace(self.policy, balance=True), node).balance

    def _question(self, free: frozenset[str], moved: Sequence[Trail]) -> Question:
        policy = self.policy
        return Question(
            self.group.uuid,
            free,
            policy.balance_moves,
            policy.balance_threshold / policy.balance_moves,
            policy.balance_disks,
            policy.balance_load,
            frozenset(self._resting(moved)) | self.seen.stay.get(self.group.uuid, frozenset()),
            frozenset(self._left(moved)),
        )

    def _resting(self, moved: Sequence[Trail]) -> Iterator[str]:
        for trail in moved:
            if self.now - trail.ended < self.policy.balance_cooldown and _moves(trail):
                yield _moves(trail)[0]

    def _left(self, moved: Sequence[Trail]) -> Iterator[tuple[str, ...]]:
        """Which instance was taken from which node, where it had which part."""
        for trail in moved:
            if self.now - trail.ended < NO_WAY_BACK and _moves(trail):
                yield _moves(trail)

    def _even(self) -> None:
        """Nothing is to be gained now."""
        ledger = self.done.ledger
        kept = tuple(one for one in ledger.lopsided if one.group != self.group.uuid)
        self.done.ledger = replace(ledger, lopsided=kept)

    def _still_lopsided(self) -> None:
        """While its moves are under way nobody asks, and that is no break."""
        was = self._lopsided()
        if was is not None:
            self._note(replace(was, seen=self.now))

    def _lopsided(self) -> Lopsided | None:
        uuid, ledger = self.group.uuid, self.done.ledger
        return next((one for one in ledger.lopsided if one.group == uuid), None)

    def _note(self, one: Lopsided) -> None:
        self._even()
        ledger = self.done.ledger
        self.done.ledger = replace(ledger, lopsided=(*ledger.lopsided, one))

    def _since(self, advice: Advice) -> int:
        """Since when there has been something to gain, in every advice and by the same measure."""
        was, doubted = self._lopsided(), bool(advice.doubt)
        unbroken = was is not None and self.now - was.seen < FRESH and was.doubted == doubted
        since = was.since if was is not None and unbroken else self.now
        self._note(Lopsided(advice.group, since, self.now, doubted))
        return since

    def _by_advice(self, advice: Advice, agenda: Agenda | None, free: frozenset[str]) -> None:
        if advice.why:
            self._hold(advice.why)
            return
        gain, wanted = advice.score - advice.final, self.policy.balance_threshold
        if not advice.shifts or gain < wanted:
            self._even()
            self._finish(agenda)
            return
        lasting = 0 if agenda is not None else self.policy.balance_settle
        if advice.doubt:
            lasting = max(lasting, DOUBTED)
        left = self._since(advice) + lasting - self.now
        if left > 0:
            doubt = f" ({advice.doubt})" if advice.doubt else ""
            self._hold(
                f"{len(advice.shifts)} moves would bring its score from {advice.score:.8f} to"
                f" {advice.final:.8f}{doubt}: begun if that is so for {left / 1000:.0f} s more"
            )
            return
        self._begin(advice.shifts, free, spare=True)

    def _by_list(self, agenda: Agenda, free: frozenset[str]) -> None:
        """What was asked for, in its order; what comes after something that cannot be, neither."""
        left: list[Shift] = []
        places: dict[str, Spot] = {}
        for shift in agenda.shifts:
            instance = self.seen.observed.snapshot.instances.get(shift.instance)
            if instance is None:
                self._give_up(agenda, f"there is no instance {shift.instance} any more")
                return
            if shift.instance not in places and spot(instance) == shift.to:
                continue  # done; a job that was not taken leaves it where it was, to be tried again
            if places.get(shift.instance, spot(instance)) != shift.at:
                self._give_up(agenda, f"{described(shift)}: it is not there any more")
                return
            places[shift.instance] = shift.to
            left.append(shift)
        if not left:
            self._finish(agenda)
            return
        if len(left) < len(agenda.shifts):
            self._replace(agenda, replace(agenda, shifts=tuple(left)))
        self._begin(left, free, spare=False)

    def _begin(self, shifts: Sequence[Shift], free: frozenset[str], *, spare: bool) -> None:
        """Begin those that no earlier one has a node in common with, done or not.

        So each does what it would in its turn, in whatever order they end. With `spare` none
        that keeps a node from taking over after the failure of another one.
        """
        taken: set[str] = set()
        begun = 0
        for shift in shifts:
            if begun >= self.policy.balance_moves:
                break
            apart = taken.isdisjoint(shift.nodes)
            taken |= shift.nodes
            if not apart:
                continue
            why = self._unfit(shift, free) or (self._overbooked(shift) if spare else None)
            if why:
                self._hold(f"{described(shift)}: {why}")
                continue
            self._promise(shift)
            begun += 1

    def _unfit(self, shift: Shift, free: frozenset[str]) -> str | None:
        instance = self.seen.observed.snapshot.instances.get(shift.instance)
        if instance is None or spot(instance) != shift.at:
            return "it is not there any more"
        if why := fault(shift, instance):
            return why
        for name in sorted(shift.nodes):
            if name not in free:
                return self.seen.room.unfit.get(name) or f"{name} takes no part in balancing"
            if name in self.seen.room.claims:
                return f"{name} is claimed by another repair"
        if shift.instance in self.seen.room.placed:
            return "it is on the move"
        for name in (shift.instance, *sorted(shift.nodes)):
            if (theirs := self.seen.observed.busy.get(name)) is not None:
                return others_job(theirs)
        for job in course(shift, instance):
            target = job.target
            assert target is not None
            has = self.seen.room.capacity.get(target)
            if has is None:
                return f"it is not known what {target} has free"
            if isinstance(job, MovePrimary) and has.memory < needs_memory(instance):
                return f"{target} has {has.memory} MiB of memory left"
            if isinstance(job, MoveSecondary) and has.disk < instance.disk:
                return f"{target} has {has.disk} MiB of disk left"
        return None

    def _overbooked(self, shift: Shift) -> str | None:
        """Which node could not take over any more what another one's failure brings.

        That was so when it was advised, perhaps minutes ago.
        """
        before, to = self.seen.room, shift.to
        after = before.with_moved(before.snapshot.instances[shift.instance], to)
        for name in filter(None, (to.primary, to.secondary)):
            if (why := after.overbooked(name)) and not before.overbooked(name):
                return why
        return None

    def _promise(self, shift: Shift) -> None:
        instance = self.seen.observed.snapshot.instances[shift.instance]
        after: str | None = None
        for name in shift.nodes:
            self.seen.room.claim(name, BALANCE)
        for job in course(shift, instance):
            self.seen.room.plan(job, BALANCE)
            self.done.ledger = self.done.ledger.promise(
                "", job.node, job, self.now, after, group=self.group.uuid
            )
            after = self.done.ledger.intents[-1].id

    def _finish(self, agenda: Agenda | None) -> None:
        if agenda is not None:
            self._replace(agenda, None)

    def _give_up(self, agenda: Agenda, why: str) -> None:
        left = len(agenda.shifts)
        self._hold(f"what {agenda.who} asked for is given up, {left} moves before its end: {why}")
        self._replace(agenda, None)

    def _replace(self, old: Agenda, new: Agenda | None) -> None:
        ledger = self.done.ledger
        kept = tuple(agenda for agenda in ledger.agenda if agenda != old)
        self.done.ledger = replace(ledger, agenda=kept if new is None else (*kept, new))

    def _hold(self, why: str) -> None:
        self.done.held.append(Held("", "", f"group {self.group.name} is not balanced: {why}"))


def _moves(trail: Trail) -> tuple[str, ...]:
    """The instance, the node it was taken from, and which part it had there."""
    match trail.action:
        case MovePrimary(name, node):
            return name, node, "primary"
        case MoveSecondary(name, node):
            return name, node, "secondary"
        case _:
            return ()
