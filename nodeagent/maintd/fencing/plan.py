"""Fence nodes that are off, hung or cut off: each step only when the one before is proven. Pure.

Power off, a later reading that says off by a level that counts, and all evidence that agrees with
it; then, to revive the node once, power on; else mark it offline, read its power again, and fail
its instances over. Doubt does nothing at each step, and says so.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from nodeagent.maintd.fencing import drills, readings, restarts
from nodeagent.maintd.fencing.brakes import Brakes
from nodeagent.maintd.fencing.judgement import judge, unheard
from nodeagent.maintd.fencing.state import tagged, untags, with_cut
from nodeagent.maintd.outage.claims import begin
from nodeagent.maintd.planning.intents import without_claim
from nodeagent.maintd.planning.situation import Situation
from nodeagent.model.action import Action, Power, PowerCommand, Retag, Scope, SetOffline
from nodeagent.model.fencing import FENCED_TAG, End, Fencing, Judgement, Life, Stage, fenced_tags
from nodeagent.model.ledger import Intent, Ledger, Policy
from nodeagent.model.purpose import OfFencing
from nodeagent.model.reason import Detail, FencingKind, Held, Reason, because
from nodeagent.model.snapshot import Node
from nodeagent.model.units import Ms

DEAD = (Life.HUNG, Life.OFF, Life.ISOLATED)
FRESH = Ms(240_000)  # a reading of the power is read again before it is too old to count


def fence(
    ledger: Ledger, situation: Situation, silent: Mapping[str, Ms]
) -> tuple[Ledger, list[Held]]:
    """Plan the next step of each fencing, start new ones, and ask for nodes' power.

    `silent` has the unreachable nodes, by name, and since when.
    """
    fencer = _Fencer(ledger, situation, silent)
    fencer.plan()
    return fencer.ledger, fencer.held


@dataclass
class _Fencer:
    ledger: Ledger
    situation: Situation
    silent: Mapping[str, Ms]
    held: list[Held] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.observed, self.now = self.situation.observed, self.situation.now
        self.room = self.situation.room

    def plan(self) -> None:
        nodes = self.observed.snapshot.by_uuid
        self._find_again(nodes)
        self._claim(nodes)
        for fencing in self.ledger.fencing:
            self._go_on(fencing, nodes[fencing.node])
        # A fenced node that is online again, and silent again, may be fenced anew.
        being_fenced = {
            fencing.node
            for fencing in self.ledger.fencing
            if fencing.stage is not Stage.FENCED or nodes[fencing.node].offline
        }
        for name in sorted(self.silent, key=lambda name: (self.silent[name], name)):
            node = self.observed.snapshot.nodes[name]
            if node.uuid not in being_fenced and name in self.observed.evidence:
                self._consider(node)
        self._ask_daily()
        self.held += readings.faults(self.ledger, self.observed)

    # Memory.

    def _find_again(self, nodes: Mapping[str, Node]) -> None:
        """Know nodes with our tag as fenced, and power-offs that wait.

        A ledger may be lost.
        """
        known = {fencing.node for fencing in self.ledger.fencing}
        for intent in self.ledger.intents:
            match intent:
                case Intent(_, OfFencing(uuid), action=Power(_, PowerCommand.OFF)) if (
                    uuid not in known and uuid in nodes
                ):
                    asked, why = intent.promised, "found again by its power-off"
                    found_again = Fencing(uuid, Stage.CUTS, asked, asked, why, off=asked)
                    self.ledger = self.ledger.with_fencing(found_again)
                    known.add(uuid)
        for node in self.observed.snapshot.nodes.values():
            if node.uuid not in known and (at := tagged(node)) is not None:
                seen = self.observed
                fates = restarts.fates(node, seen, self.ledger, self.now) if node.offline else ()
                is_open = any(fate.end is End.OPEN for fate in fates)
                stage = Stage.CONFIRMS if is_open else Stage.FENCED
                found_again = Fencing(
                    node.uuid, stage, at, at, "found again by its tag", fates=fates
                )
                self.ledger = self.ledger.with_fencing(found_again)

    def _claim(self, nodes: Mapping[str, Node]) -> None:
        returning = self.ledger.returning()
        for fencing in self.ledger.fencing:
            if not (fencing.stage.over and fencing.node in returning):
                self.room.claim(nodes[fencing.node].name, OfFencing(fencing.node).owner)

    def _at_work(self, uuid: str) -> bool:
        return any(intent.purpose == OfFencing(uuid) for intent in self.ledger.intents)

    def _put(self, fencing: Fencing) -> None:
        others = (fencing if other.node == fencing.node else other for other in self.ledger.fencing)
        self.ledger = replace(self.ledger, fencing=tuple(others))

    def _promise(self, node: Node, action: Action, after: str | None = None) -> str:
        taken = self.room.take_anyway(node.name, OfFencing(node.uuid))
        self.ledger = taken.promise(self.ledger, action, self.now, after)
        return self.ledger.intents[-1].id

    def _read(self, node: Node) -> None:
        """Ask for its power: this keeps nobody off the node."""
        reading = Power(node.name, PowerCommand.STATUS)
        purpose = OfFencing(node.uuid)
        self.ledger = without_claim(self.ledger, purpose, reading, self.now, node.name)

    def _hold(self, node: Node, why: Reason) -> None:
        self.held.append(Held(why, node.name))

    # Start.

    def _consider(self, node: Node) -> None:
        """Start to fence a node that is proven dead, or say why not, also while its power is read.

        So a reason that stays is said without a break.
        """
        policy = self.situation.policy_of(node)
        reads = self._at_work(node.uuid)
        if not reads and node.controlled and self._may_read(node, since=self.silent[node.name]):
            self._read(node)
            reads = True
        judged = self._judged(node)
        if judged.life not in DEAD:
            yours = judged.reason.kind in (FencingKind.MUTE, FencingKind.ONLY_ONE_SAYS)
            kind = FencingKind.YOU_DECIDE if yours else FencingKind.NOT_FENCED
            if yours or judged.life is not Life.ALIVE:
                self._hold(node, because(kind, node.name, why=judged.reason))
            return
        if policy.fences == "observe":
            details: dict[str, Detail] = {"why": judged.reason, **policy.why_not_fenced}
            self._hold(node, because(FencingKind.WOULD_FENCE, node.name, **details))
            return
        if not node.controlled:
            self._hold(node, because(FencingKind.NO_POWER_CONTROL, node.name))
            return
        may_boot = self._may_boot(node, judged, policy)
        if why := may_boot or self._brakes().why_not(node) or self._no_level(node):
            self._hold(node, because(FencingKind.FENCING_WAITS, node.name, why=why))
            return
        if reads:
            return
        # One that has just been powered off and on, and is dead again, is not revived again.
        again = any(cut.node == node.uuid and not cut.missed for cut in self.ledger.cuts)
        silent, reason = self.silent[node.name], str(judged.reason)
        fencing = Fencing(
            node.uuid, Stage.CUTS, self.now, self.now, reason, revived=again, silent=silent
        )
        self.ledger = self.ledger.with_fencing(fencing)
        self.room.claim(node.name, OfFencing(node.uuid).owner)
        self._go_on(fencing, node)

    def _may_boot(self, node: Node, judged: Judgement, policy: Policy) -> Reason | None:
        """Wait for a machine that may be booting, or answer again by itself.

        Only a connected disk rules that out: then its kernel runs, and nothing reaches it.
        """
        remaining = self.silent[node.name] + policy.revive_within - self.now
        if judged.life not in (Life.ISOLATED, Life.HUNG) or judged.connected or remaining <= 0:
            return None
        return because(FencingKind.MAY_BOOT, node.name, left=Ms(remaining))

    def _brakes(self) -> Brakes:
        return Brakes(self.ledger, self.situation)

    def _judged(self, node: Node) -> Judgement:
        evidence = self.observed.evidence.get(node.name)
        if evidence is None:
            why = because(FencingKind.NO_EVIDENCE, node.name)
            return Judgement(Life.UNKNOWN, why)
        return judge(evidence, self.observed.snapshot, self.now)

    def _unheard(self, node: Node) -> bool:
        evidence = self.observed.evidence.get(node.name)
        return evidence is not None and unheard(evidence, self.observed.snapshot, self.now)

    def _may_read(self, node: Node, within: Ms = FRESH, since: Ms = Ms(0)) -> bool:
        """Tell whether the newest reading is old or from before `since`, and may be repeated."""
        deaf = self.ledger.deaf_of(node.uuid)
        if deaf is not None and deaf.after > self.now:
            return False
        power = readings.newest(self.ledger.power).get(node.uuid)
        return power is None or power.at < since or not 0 <= self.now - power.at < within

    def _gone(self) -> Mapping[str, Ms]:
        """Since when nodes have been silent, or fenced, by name."""
        nodes = self.observed.snapshot.by_uuid
        fenced = {
            node.name: fencing.at
            for fencing in self.ledger.fencing
            if (node := nodes.get(fencing.node)) is not None and node.offline
        }
        return {**fenced, **self.silent}

    def _others_gone(self, node: Node) -> Mapping[str, Ms]:
        return {name: at for name, at in self._gone().items() if name != node.name}

    def _no_level(self, node: Node) -> Reason | None:
        return readings.why_unproven(node, self.ledger, self._others_gone(node))

    # Continue.

    def _go_on(self, fencing: Fencing, node: Node) -> None:
        if self._at_work(node.uuid):
            if fencing.answered and fencing.stage is Stage.CUTS:
                self._hold(node, because(FencingKind.CANCELS_POWER_OFF, node.name))
            return
        why = self._step(fencing, node)
        if why is not None:
            self._hold(node, why)

    def _step(self, fencing: Fencing, node: Node) -> Reason | None:
        """Plan its next step, or return why it waits; what stops work stops only the last ones."""
        policy = self.situation.policy_of(node)
        if fencing.drill:
            return self._drill(fencing, node, policy)
        if fencing.stage is Stage.FENCED and fencing.node in self.ledger.returning():
            return None
        if fencing.stage.removed and not node.offline:
            return because(FencingKind.FENCED_ONLINE, node.name)
        if fencing.stage is Stage.FENCED:
            down = sum(fate.why != "" for fate in fencing.fates)
            return because(FencingKind.FENCED, node.name, left=down or None)
        if (remaining := fencing.not_before - self.now) > 0:
            details = {"stage": fencing.stage.value, "left": remaining, "why": fencing.said}
            return because(FencingKind.FENCE_TRIES_AGAIN, node.name, **details)
        if untags(fencing, node, self.observed):
            self._promise(node, Retag(Scope.NODE, node.name, remove=fenced_tags(node.tags)))
            return None
        if policy.fences == "observe" and not (fencing.who or node.offline):
            details = {"stage": fencing.stage.value, **policy.why_not_fenced}
            return because(FencingKind.FENCE_SWITCHED_OFF, node.name, **details)
        if why := self._brakes().struck(fencing):
            return because(FencingKind.FENCING_WAITS, node.name, why=why)
        match fencing.stage:
            case Stage.PROVES:
                return self._prove(fencing, node, policy)
            case Stage.WAITS if (remaining := fencing.at + policy.revive_within - self.now) > 0:
                return because(FencingKind.REVIVING, node.name, left=remaining)
            case Stage.WAITS:
                self._put(replace(fencing, stage=Stage.CUTS, at=self.now, tries=0))
            case Stage.CONFIRMS:
                self._read(node)
            case _ if why := self.situation.stops.plans.at(node.name):
                return because(FencingKind.FENCING_WAITS, node.name, why=why)
            case Stage.CUTS:
                return self._cut(fencing, node)
            case Stage.REVIVES:
                self._promise(node, Power(node.name, PowerCommand.ON))
            case Stage.REMOVES:
                return self._remove(fencing, node, policy)
            case Stage.RESTARTS:
                self._restart(fencing, node, policy)
        return None

    def _cut(self, fencing: Fencing, node: Node) -> Reason | None:
        if self._may_read(node, since=max(self._others_gone(node).values(), default=Ms(0))):
            self._read(node)
            return None
        judged = self._judged(node)
        why = judged.reason if judged.life not in DEAD else self._brakes().why_not(node)
        if why := why or self._no_level(node):
            return because(FencingKind.FENCING_WAITS, node.name, why=why)
        self.ledger = with_cut(self.ledger, node.uuid, self.now)
        self._put(replace(fencing, off=self.now, answered=False))
        self._promise(node, Power(node.name, PowerCommand.OFF))
        return None

    def _prove(self, fencing: Fencing, node: Node, policy: Policy) -> Reason | None:
        """Go on only if a reading after the power-off says off, and no evidence contradicts it."""
        power = readings.newest(self.ledger.power).get(node.uuid)
        fresh = power is not None and power.at >= fencing.off and self.now - power.at < FRESH
        if not fresh or power is None or power.powered is not False:
            self._read(node)
            return None
        if fencing.answered:  # it had recovered
            self._put(fencing := replace(fencing, stage=Stage.REVIVES, at=self.now, tries=0))
            return self._step(fencing, node)
        judged = self._judged(node)
        if judged.life is not Life.OFF or judged.connected:
            return because(FencingKind.FENCING_WAITS, node.name, why=judged.reason)
        revive = policy.fences == "restart" and policy.revive and not fencing.revived
        stage = Stage.REVIVES if revive else Stage.REMOVES
        fencing = replace(fencing, stage=stage, at=self.now, tries=0)
        self._put(fencing)
        return self._step(fencing, node)

    def _remove(self, fencing: Fencing, node: Node, policy: Policy) -> Reason | None:
        """Tag the node, then mark it offline; remember what its instances' disks were before."""
        judged = self._judged(node)
        if (
            judged.life is Life.ALIVE
            or judged.connected
            or (fencing.word and not self._unheard(node))
        ):
            return because(FencingKind.FENCING_WAITS, node.name, why=judged.reason)
        if not fencing.who and judged.life is not Life.OFF:
            self._put(replace(fencing, stage=Stage.PROVES, at=self.now))
            return because(FencingKind.FENCING_WAITS, node.name, why=judged.reason)
        known = restarts.fates(node, self.observed, self.ledger, self.now)
        self._put(replace(fencing, fates=known if policy.fences == "restart" else ()))
        tag = f"{FENCED_TAG}{self.now // 1000}"
        old = fenced_tags(node.tags)
        first = None
        if not old:
            first = self._promise(node, Retag(Scope.NODE, node.name, (tag,)))
        self.ledger = begin(self.ledger, node, OfFencing(node.uuid))
        offline = SetOffline(node.name, node.candidate, unpowered=not fencing.who)
        self._promise(node, offline, first)
        return None

    def _restart(self, fencing: Fencing, node: Node, policy: Policy) -> None:
        if policy.fences != "restart":
            self._put(replace(fencing, stage=Stage.FENCED, at=self.now))
            return
        planned = restarts.plan(fencing, node, self.observed, policy, self.room)
        fencing = planned.fencing
        for action in planned.actions:
            self._promise(node, action)
        self.held += planned.held
        if not (planned.actions or planned.held):
            fencing = replace(fencing, stage=Stage.FENCED, at=self.now)
        self._put(fencing)

    # A drill.

    def _drill(self, fencing: Fencing, node: Node, policy: Policy) -> Reason | None:
        """Power an empty node off and on, with the guards and the proof of a dead one."""
        match fencing.stage:
            case Stage.CUTS if fencing.tries:  # it is on after its power-off
                self._put(replace(fencing, stage=Stage.REVIVES, at=self.now))
            case Stage.CUTS:
                return self._start_drill(fencing, node)
            case Stage.PROVES:
                return self._prove_drill(fencing, node, policy)
            case Stage.REVIVES:
                self._promise(node, Power(node.name, PowerCommand.ON))
            case Stage.WAITS if (remaining := fencing.at + policy.revive_within - self.now) > 0:
                return because(FencingKind.REVIVING, node.name, left=remaining)
            case Stage.WAITS:
                why = f"its agent has not answered since: run gnt-node power on {node.name}"
                self._put(drills.stopped(fencing, why, self.now))
        return None

    def _start_drill(self, fencing: Fencing, node: Node) -> Reason | None:
        if self._may_read(node):
            self._read(node)
            return None
        why = drills.why_not(node, self.observed)
        if not why and (held := self._brakes().why_not(node) or self._no_level(node)):
            why = str(held)
        if why:
            self._put(drills.stopped(fencing, why, self.now))
            return None
        self.ledger = with_cut(self.ledger, node.uuid, self.now)
        self._put(replace(fencing, off=self.now))
        self._promise(node, Power(node.name, PowerCommand.OFF))
        return None

    def _prove_drill(self, fencing: Fencing, node: Node, policy: Policy) -> Reason | None:
        """Go on once all evidence says off; in any case power it on before long."""
        judged, power = self._judged(node), readings.newest(self.ledger.power).get(node.uuid)
        read = power is not None and power.at >= fencing.off and power.powered is False
        answers, proven = node.name in self.observed.diagnoses, judged.life is Life.OFF
        if (read and (answers or proven)) or self.now - fencing.off >= policy.revive_within:
            result = "" if read and proven else fencing.said or str(judged.reason)
            result = drills.answers(node) if answers else result
            fencing = replace(fencing, stage=Stage.REVIVES, at=self.now, said=result)
            self._put(fencing)
            return self._drill(fencing, node, policy)
        if self._may_read(node) or not read:
            self._read(node)
        return because(FencingKind.FENCING_WAITS, node.name, why=judged.reason)

    # The daily check.

    def _ask_daily(self) -> None:
        """Ask for the power of one node that answers, so that its levels are known to work.

        And anew once another is gone: a level that then says off belongs to that one.
        """
        nodes = [n for n in self.observed.snapshot.nodes.values() if n.controlled]
        if not nodes or any(map(readings.is_reading, self.ledger.intents)):
            return
        newest = readings.newest(self.ledger.power)
        last = max((reading.at for reading in newest.values()), default=Ms(0))
        if self.now - last < min(readings.DAILY // len(nodes), 60_000) and newest:
            return
        # By the last try: controls that fail, which are tried often, must not starve the others.
        tried = {deaf_node.node: deaf_node.after for deaf_node in self.ledger.deaf}
        gone = max(self._gone().values(), default=Ms(0))
        due = [
            (max(tried.get(n.uuid, 0), newest[n.uuid].at if n.uuid in newest else 0), n.name, n)
            for n in nodes
            if n.name in self.observed.diagnoses and self._may_read(n, readings.DAILY, gone)
            if not self._at_work(n.uuid)
        ]
        if due:
            *_, node = min(due, key=lambda candidate: candidate[:2])
            self._read(node)
