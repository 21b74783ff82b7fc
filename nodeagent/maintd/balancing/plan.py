"""Balancing: start this round's moves, on nodes that all other work leaves free. Pure.

A luxury: a group is balanced only while it is quiet. `search` finds the moves, at this module's
request; advice from before the last change does not count. A node that leaves soon takes no part,
and its group rests from shortly before until it is back: the moves would soon be undone.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from nodeagent.maintd.balancing.moves import course, described, fault, spot
from nodeagent.maintd.balancing.past_moves import NO_WAY_BACK
from nodeagent.maintd.planning.departures import leaves
from nodeagent.maintd.planning.preconditions import others_job
from nodeagent.maintd.planning.resources import Room, Taken, needs_memory
from nodeagent.maintd.planning.situation import Situation
from nodeagent.maintd.planning.tag_settings import nearer, with_tags
from nodeagent.model.action import MovePrimary, MoveSecondary
from nodeagent.model.balance import Advice, Agenda, Lopsided, Question, Shift, Spot
from nodeagent.model.diagnosis import Need
from nodeagent.model.incident import FAILED_TAG, Incident, Status
from nodeagent.model.ledger import Ledger, Policy, Trail
from nodeagent.model.purpose import BALANCE, OfBalance, claimant
from nodeagent.model.reason import BalanceKind, Detail, Held, Kind, Reason, StageKind, because
from nodeagent.model.snapshot import Group, Node, Observed, Snapshot
from nodeagent.model.units import Ms
from nodeagent.model.wish import Balance

FRESH = 900_000  # ms for which an advice is valid; its search may take some rounds
# ms that a gain must last if it may exist only because the load is unknown. That is so for five
# minutes after every break, such as a round of moves.
DOUBTED = 600_000


@dataclass
class Balanced:
    """Result of a round: the ledger, what is blocked, and the questions to search."""

    ledger: Ledger
    held: list[Held] = field(default_factory=list)
    questions: list[Question] = field(default_factory=list)


def balance(ledger: Ledger, situation: Situation) -> Balanced:
    """Start allowed moves."""
    done, snapshot = Balanced(ledger), situation.observed.snapshot
    wanted = _wanted(ledger, snapshot, situation.policy)
    kept = tuple(lopsided for lopsided in ledger.lopsided if lopsided.group in wanted)
    agenda = tuple(agenda for agenda in ledger.agenda if agenda.group in snapshot.groups)
    if (kept, agenda) != (ledger.lopsided, ledger.agenda):
        done.ledger = replace(ledger, lopsided=kept, agenda=agenda)
    if wanted:
        seen = _Seen.of(ledger, situation)
        for group, own in wanted.values():
            _Group(done, seen, own, situation.now, group).all()
    return done


def wants_room(ledger: Ledger, observed: Observed, policy: Policy) -> bool:
    """Check whether a shift may start: only then nodes report their free room."""
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
    return bool(_wanted(ledger, snapshot, with_tags(policy, snapshot)))


def _wanted(
    ledger: Ledger, snapshot: Snapshot, policy: Policy
) -> Mapping[str, tuple[Group, Policy]]:
    """The groups to balance, by UUID, with their settings."""
    asked = {agenda.group for agenda in ledger.agenda}
    owns = {uuid: (g, nearer(policy, g)) for uuid, g in snapshot.groups.items()}
    return {uuid: (g, own) for uuid, (g, own) in owns.items() if own.balance or uuid in asked}


@dataclass(frozen=True, slots=True)
class _Seen:
    """State read by all groups' balancing."""

    observed: Observed
    room: Room
    stopped: Reason | None
    nodes: Mapping[str, Sequence[Node]]  # by group, in order of their names
    sick: Mapping[str, Incident]  # the incidents that maintd works on, by node UUID
    failed: Mapping[str, Reason]  # nodes with a failed repair not yet acknowledged, by name
    working: Mapping[str, str]  # the work at a node
    stay: Mapping[str, frozenset[str]]  # instances that no move may disrupt now, by group
    leaving: Mapping[str, Reason]  # nodes that leave soon, by name

    @classmethod
    def of(cls, ledger: Ledger, situation: Situation) -> "_Seen":
        observed, room = situation.observed, situation.room
        nodes: dict[str, list[Node]] = {}
        for node in sorted(observed.snapshot.nodes.values(), key=lambda node: node.name):
            nodes.setdefault(node.group, []).append(node)
        sick = {i.node: i for i in ledger.incidents if i.status.active and not i.by_hand}
        ended = {i.node for i in ledger.incidents if i.status is Status.FAILED}
        failed = {i.id for i in ledger.incidents if i.status is Status.FAILED}
        closed = {
            node.name: because(Kind.FAILED_BEFORE, node.name)
            for node in observed.snapshot.nodes.values()
            # Its tag says so as well where no ledger knows the incident.
            if node.uuid in ended or any(tag.startswith(FAILED_TAG) for tag in node.tags)
        }
        busy = {intent.owner for intent in ledger.intents}
        working = {
            name: owner
            for name, owner in room.claims.items()
            if owner != BALANCE and (owner not in failed or owner in busy)
        }
        stay: dict[str, set[str]] = {}
        without_budget = set(room.budgets.stay())
        for instance in observed.snapshot.instances.values():
            if not instance.interrupted and instance.name not in without_budget:
                continue
            group = observed.snapshot.nodes[instance.primary].group
            stay.setdefault(group, set()).add(instance.name)
        frozen = {group: frozenset(names) for group, names in stay.items()}
        leaving = {name: leaves(name, departure) for name, departure in room.departures.items()}
        return cls(
            observed=observed,
            room=room,
            stopped=situation.stops.plans.everywhere,
            nodes=nodes,
            sick=sick,
            failed=closed,
            working=working,
            stay=frozen,
            leaving=leaving,
        )

    def unquiet(self, node: Node) -> Reason | None:
        """Temporary work or trouble at a node that delays balancing; else None."""
        if (incident := self.sick.get(node.uuid)) is not None:
            emptied = incident.diagnosis.need >= Need.EVACUATE
            what = "is to be evacuated" if emptied else "has a fault of its own"
            return because(BalanceKind.HAS_TROUBLE, node.name, what=what, incident=incident.id)
        if node.in_service and (doubt := self.observed.doubts.get(node.name)) is not None:
            return because(Kind.IN_DOUBT, node.name, doubt=doubt)
        if (owner := self.working.get(node.name)) is not None:
            return because(Kind.CLAIMED, node.name, who=claimant(owner))
        return None


@dataclass
class _Group:
    """One group's balancing."""

    done: Balanced
    seen: _Seen
    policy: Policy
    now: Ms
    group: Group

    def all(self) -> None:
        uuid = self.group.uuid
        if any(intent.purpose.group == uuid for intent in self.done.ledger.intents):
            self._keep_gain()
            if halted := self._halted():
                self._hold(halted)
            return  # one round after the other
        nodes = [node for node in self.seen.nodes.get(uuid, ()) if node.vm_capable]
        if len(nodes) < 2:
            self._forget()
            if self.done.ledger.agenda_of(uuid) is not None:
                self._hold(because(BalanceKind.FEW_NODES, self.group.name))
            return
        free = self._free(nodes)
        if isinstance(free, Reason):
            self._hold(free)
            self._forget()
            return
        agenda = self.done.ledger.agenda_of(uuid)
        if agenda is not None and agenda.listed:
            self._by_list(agenda, free)
            return
        moved = [trail for trail in self.done.ledger.shifted if trail.purpose.group == uuid]
        self.done.questions.append(self._question(free, moved))
        advice = self.seen.observed.advice.get(uuid)
        newest = max((trail.ended for trail in moved), default=0)
        if advice is not None and advice.at >= newest and 0 <= self.now - advice.at < FRESH:
            self._by_advice(advice, agenda, free)

    def _free(self, nodes: Sequence[Node]) -> frozenset[str] | Reason:
        """The nodes to balance, or why the group is not balanced now."""
        ledger = self.done.ledger
        if halted := self._halted():
            return halted
        if why := self.seen.stopped:
            return why
        if (remaining := ledger.balance_after - self.now) > 0:
            return because(BalanceKind.NOT_TAKEN, left=remaining)
        for node in nodes:
            if why := self.seen.unquiet(node) or self._is_leaving(node):
                return why
        unfit = self._unfit_nodes()
        free = [n.name for n in nodes if n.name not in unfit and self._takes_part(n)]
        if len(free) < 2:
            taken = next((unfit[node.name] for node in nodes if node.name in unfit), None)
            return because(BalanceKind.FEW_FREE_NODES, self.group.name, why=taken)
        return frozenset(free)

    def _is_leaving(self, node: Node) -> Reason | None:
        """Why moves must wait for a node that is about to leave, or is soon back; else None."""
        departure = self.seen.room.departures.get(node.name)
        if departure is None:
            return None
        if departure.is_away(self.now) or not node.in_service:
            back = departure.returns
            waits = back is not None and back - self.now <= self.policy.window_ahead
        else:
            waits = departure.leaves - self.now <= self.policy.balance_cooldown
        return leaves(node.name, departure) if waits else None

    def _unfit_nodes(self) -> Mapping[str, Reason]:
        """The nodes that take no part; a failed repair counts until its tag is gone."""
        return {**self.seen.leaving, **self.seen.failed, **self.seen.room.unfit}

    def _halted(self) -> Reason | None:
        """The failure and how to go on; shown also while other moves of the group end."""
        halt = self.done.ledger.halt_of(self.group.uuid)
        if halt is None:
            return None
        return because(BalanceKind.HALTED, self.group.name, why=halt.why, tag=halt.tag)

    def _takes_part(self, node: Node) -> bool:
        """Tell whether its own tags leave it in; a person's request is not limited by stages."""
        own = nearer(replace(self.policy, balance=True), node)
        asked = self.done.ledger.agenda_of(self.group.uuid) is not None
        return own.balance and (asked or own.acts or own.stage == self.policy.stage)

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
            frozenset(self._lately_left(moved)),
        )

    def _resting(self, moved: Sequence[Trail]) -> Iterator[str]:
        for trail in moved:
            if self.now - trail.ended < self.policy.balance_cooldown and _moves(trail):
                yield _moves(trail)[0]

    def _lately_left(self, moved: Sequence[Trail]) -> Iterator[tuple[str, ...]]:
        """The nodes that instances have left, with their part there."""
        for trail in moved:
            if self.now - trail.ended < NO_WAY_BACK and _moves(trail):
                yield _moves(trail)

    def _by_advice(self, advice: Advice, agenda: Agenda | None, free: frozenset[str]) -> None:
        if advice.why:
            self._hold(because(BalanceKind.NO_SEARCH, self.group.name, why=advice.why))
            return
        gain, wanted = advice.score - advice.final, self.policy.balance_threshold
        if not advice.shifts or gain < wanted:
            self._forget()
            self._finish(agenda)
            return
        lasting = 0 if agenda is not None else self.policy.balance_settle
        if advice.doubt:
            lasting = max(lasting, DOUBTED)
        remaining = self._gain_since(advice) + lasting - self.now
        if remaining > 0:
            details: dict[str, Detail] = {"moves": len(advice.shifts), "doubt": advice.doubt}
            details |= {"score": advice.score, "final": advice.final, "left": remaining}
            self._hold(because(BalanceKind.NOT_LASTING, self.group.name, **details))
            return
        if agenda is None and not self.policy.acts:
            why = because(
                StageKind.WOULD_BALANCE,
                self.group.name,
                moves=len(advice.shifts),
                stage=self.policy.stage,
                score=advice.score,
                final=advice.final,
            )
            self._hold(why)
            return
        self._begin(advice.shifts, free, spare=True)

    def _by_list(self, agenda: Agenda, free: frozenset[str]) -> None:
        """Start the listed moves in order; give up those left if one is impossible."""
        shifts: list[Shift] = []
        places: dict[str, Spot] = {}
        for shift in agenda.shifts:
            instance = self.seen.observed.snapshot.instances.get(shift.instance)
            if instance is None:
                self._give_up(agenda, because(BalanceKind.INSTANCE_GONE, shift.instance))
                return
            if shift.instance not in places and spot(instance) == shift.to:
                continue  # done; a move whose job was not taken is tried again
            if places.get(shift.instance, spot(instance)) != shift.at:
                name, move = shift.instance, described(shift)
                not_there = because(BalanceKind.NOT_THERE, name)
                self._give_up(
                    agenda, because(BalanceKind.MOVE_WAITS, name, move=move, why=not_there)
                )
                return
            places[shift.instance] = shift.to
            shifts.append(shift)
        if not shifts:
            self._finish(agenda)
            return
        if len(shifts) < len(agenda.shifts):
            self._replace(agenda, replace(agenda, shifts=tuple(shifts)))
        self._begin(shifts, free, spare=False)

    def _begin(self, shifts: Sequence[Shift], free: frozenset[str], *, spare: bool) -> None:
        """Start those that share no node with an earlier one, done or not.

        So each has the same effect as in its turn, in any order. With `spare`, skip moves that keep
        a node from taking over after the failure of another one.
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
                name, move = shift.instance, described(shift)
                self._hold(because(BalanceKind.MOVE_WAITS, name, move=move, why=why))
                continue
            self._promise(shift)
            begun += 1

    def _unfit(self, shift: Shift, free: frozenset[str]) -> Reason | None:
        instance = self.seen.observed.snapshot.instances.get(shift.instance)
        if instance is None or spot(instance) != shift.at:
            return because(BalanceKind.NOT_THERE, shift.instance)
        if wrong := fault(shift, instance):
            return because(BalanceKind.NO_MOVE, shift.instance, why=wrong)
        for name in sorted(shift.nodes):
            if name not in free:
                return self._unfit_nodes().get(name) or because(BalanceKind.NOT_IN_BALANCE, name)
            if (owner := self.seen.room.claims.get(name)) is not None:
                return because(Kind.CLAIMED, name, who=claimant(owner))
        if shift.instance in self.seen.room.placed:
            return because(Kind.ON_THE_MOVE, shift.instance)
        for name in (shift.instance, *sorted(shift.nodes)):
            if (theirs := self.seen.observed.busy.get(name)) is not None:
                return others_job(theirs)
        for job in course(shift, instance):
            allowed = self.seen.room.within_budgets(job)
            if isinstance(allowed, Reason):
                return allowed
            target = job.target
            assert target is not None
            has = self.seen.room.capacity.get(target)
            if has is None:
                return because(Kind.UNKNOWN_ROOM, target)
            if isinstance(job, MovePrimary) and has.memory < needs_memory(instance):
                return because(Kind.TOO_SMALL, target, free=has.memory, what="memory")
            if isinstance(job, MoveSecondary) and has.disk < instance.disk:
                return because(Kind.TOO_SMALL, target, free=has.disk, what="disk")
        return None

    def _overbooked(self, shift: Shift) -> Reason | None:
        """The node that could no longer take over another one's instances after a failure.

        It could at the time of the advice, perhaps minutes ago.
        """
        before, to = self.seen.room, shift.to
        after = before.with_moved(before.snapshot.instances[shift.instance], to)
        for name in filter(None, (to.primary, to.secondary)):
            if (why := after.overbooked(name)) and not before.overbooked(name):
                return why
        return None

    def _promise(self, shift: Shift) -> None:
        instance = self.seen.observed.snapshot.instances[shift.instance]
        purpose, after = OfBalance(self.group.uuid), None
        taken: dict[str, Taken] = {}
        for name in shift.nodes:
            claim = self.seen.room.take(name, purpose)
            if isinstance(claim, Reason):
                self._hold(claim)
                return
            taken[name] = claim
        for job in course(shift, instance):
            self.seen.room.plan(job, BALANCE)
            self.done.ledger = taken[job.node].promise(self.done.ledger, job, self.now, after)
            after = self.done.ledger.intents[-1].id

    def _finish(self, agenda: Agenda | None) -> None:
        if agenda is not None:
            self._replace(agenda, None)

    def _give_up(self, agenda: Agenda, why: Reason) -> None:
        who, moves = agenda.who, len(agenda.shifts)
        self._hold(
            because(BalanceKind.LIST_GIVEN_UP, self.group.name, who=who, moves=moves, why=why)
        )
        self._replace(agenda, None)

    def _replace(self, old: Agenda, new: Agenda | None) -> None:
        ledger = self.done.ledger
        kept = tuple(agenda for agenda in ledger.agenda if agenda != old)
        self.done.ledger = replace(ledger, agenda=kept if new is None else (*kept, new))

    def _gain_since(self, advice: Advice) -> Ms:
        """Note since when all advice by the same measure has shown a gain."""
        known = self.done.ledger.lopsided_of(self.group.uuid)
        doubted = bool(advice.doubt)
        unbroken = known is not None and self.now - known.seen < FRESH and known.doubted == doubted
        since = known.since if known is not None and unbroken else self.now
        self._forget(Lopsided(self.group.uuid, since, self.now, doubted))
        return since

    def _keep_gain(self) -> None:
        """Keep the time while the group's moves run: nobody searches then, and that is no break."""
        if (known := self.done.ledger.lopsided_of(self.group.uuid)) is not None:
            self._forget(replace(known, seen=self.now))

    def _forget(self, instead: Lopsided | None = None) -> None:
        """Forget since when the group could gain, or note this `instead`."""
        group = self.group.uuid
        others = tuple(known for known in self.done.ledger.lopsided if known.group != group)
        lopsided = others if instead is None else (*others, instead)
        self.done.ledger = replace(self.done.ledger, lopsided=lopsided)

    def _hold(self, why: Reason) -> None:
        self.done.held.append(Held(because(BalanceKind.NOT_BALANCED, self.group.name, why=why)))


def _moves(trail: Trail) -> tuple[str, ...]:
    """Instances, the nodes that they have left, and their part there."""
    match trail.action:
        case MovePrimary(name, node):
            return name, node, "primary"
        case MoveSecondary(name, node):
            return name, node, "secondary"
        case _:
            return ()
