"""Forecast what maintd would do if a node died now, by imagined rounds of `decide`. Pure.

There is no second copy of the rules: each imagined round is decided as a real one. Only the effects
of the jobs are imagined. The node falls silent and keeps its power, its power control says what it
said last, and every job succeeds within a round.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from nodeagent.maintd.deciding.decide import decide
from nodeagent.maintd.fencing import readings
from nodeagent.maintd.fencing.outlook import InstanceFate, instance_fates
from nodeagent.maintd.ledger.fencing_events import fencings
from nodeagent.maintd.planning.intents import with_job
from nodeagent.maintd.planning.names import no_such
from nodeagent.maintd.planning.resources import needs_memory
from nodeagent.maintd.planning.stages import STAGE_TAG
from nodeagent.maintd.planning.tag_settings import with_tags
from nodeagent.model.action import (
    Action,
    MovePrimary,
    Power,
    PowerCommand,
    Retag,
    SetOffline,
    describe,
)
from nodeagent.model.event_kinds import word_of
from nodeagent.model.evidence import Contact, Evidence, Mirror, PowerReading, Testimony
from nodeagent.model.fencing import Deaf, Fencing, Stage
from nodeagent.model.ledger import Decision, Ledger, Outcome, Policy, Result
from nodeagent.model.purpose import OfFencing
from nodeagent.model.reason import FencingKind, Held, Reason, because
from nodeagent.model.snapshot import Instance, Node, Observed
from nodeagent.model.stage import FULL
from nodeagent.model.units import Ms

TAG = "maintd:dead-nodes:"
_STUCK = Ms(1_200_000)  # what does not go on for so long is taken as stuck
_MOST = 200  # imagined rounds
_JOB = "0"  # the number of each imagined job
_LOST = "WFConnection"  # DRBD's word for a peer that is gone
_CONTROL = (FencingKind.CONTROL_FAILS, FencingKind.LEVEL_FAILS)


@dataclass(frozen=True, slots=True)
class Hearing:
    """The testimonies of a node's witnesses now, and the witnesses that do not answer."""

    testimonies: tuple[Testimony, ...] = ()
    missing: tuple[str, ...] = ()

    @property
    def blind(self) -> tuple[str, ...]:
        """The witnesses that cannot reach the node, although it runs."""
        return tuple(
            testimony.witness
            for testimony in self.testimonies
            if Contact.ANSWERS not in testimony.contacts
        )


@dataclass(frozen=True, slots=True)
class ImaginedStep:
    """An imagined step at `at` (unix ms)."""

    at: Ms
    text: str


@dataclass(frozen=True, slots=True)
class Forecast:
    """The imagined steps, the fate of each instance, and the reasons that stand in the way.

    `mode` is the setting dead-nodes. `fenced` tells that the node would be proven off and offline,
    `down` names the instances that should start elsewhere and would not.
    """

    mode: str
    steps: tuple[ImaginedStep, ...]
    fates: tuple[InstanceFate, ...]
    down: tuple[str, ...]
    whys: tuple[Reason, ...]
    fenced: bool

    @property
    def done(self) -> bool:
        """Tell whether all would go as it should."""
        return self.fenced and not self.whys and not self.down


def refusal(observed: Observed, name: str) -> str:
    """Why there is nothing to forecast for this node; empty if there is."""
    node = observed.snapshot.nodes.get(name)
    if node is None:
        return no_such("node", name)
    if name == observed.snapshot.master:
        return f"{name} is the master node, where maintd runs: it never fences it"
    if node.offline:
        return f"{name} is offline already: see gnt-maint why {name}"
    if name in observed.unanswered:
        return f"{name} does not answer, so a drill proves nothing: see gnt-maint why {name}"
    return ""


def forecast(
    ledger: Ledger,
    observed: Observed,
    policy: Policy,
    name: str,
    hearing: Hearing,
    every: Ms,
    now: Ms,
) -> Forecast:
    """Imagine that a node falls silent now.

    `observed` has the free room of the nodes in service, `every` is the ms between two rounds.
    """
    node = observed.snapshot.nodes[name]
    nearest = with_tags(policy, observed.snapshot, node)
    mode = nearest.fences
    if mode == "observe":
        tags = frozenset(tag for tag in node.tags if not tag.startswith((TAG, STAGE_TAG)))
        wanted = {f"{TAG}restart", f"{STAGE_TAG}{FULL}"}
        observed = _with_node(observed, replace(node, tags=tags | wanted))
    imagined = _Imagined(
        ledger, replace(observed, wishes=(), advice={}), policy, name, hearing, every
    )
    imagined.run(now)
    whys = []
    if mode == "observe":
        whys.append(because(FencingKind.DRILL_OBSERVES, name, **nearest.why_not_fenced))
    if blind := hearing.blind:
        whys.append(because(FencingKind.DRILL_BLIND, name, nodes=blind))
    whys += imagined.whys()
    fates = tuple(imagined.fates())
    down = tuple(fate.instance for fate in fates if mode != "fence" and imagined.should_run(fate))
    return Forecast(mode, tuple(imagined.steps), fates, down, tuple(whys), imagined.node.offline)


def _with_node(observed: Observed, node: Node) -> Observed:
    snapshot = observed.snapshot
    nodes = {**snapshot.nodes, node.name: node}
    return replace(observed, snapshot=replace(snapshot, nodes=nodes))


@dataclass
class _Imagined:
    """The imagined state at `at`; `off` tells whether the node's power is off."""

    ledger: Ledger
    observed: Observed
    policy: Policy
    name: str
    hearing: Hearing
    every: Ms
    at: Ms = Ms(0)
    since: Ms = Ms(0)
    off: bool = False
    steps: list[ImaginedStep] = field(default_factory=list)
    results: dict[str, Result] = field(default_factory=dict)
    decision: Decision = field(default_factory=lambda: Decision(Ledger()))
    first: tuple[Held, ...] = ()
    known: PowerReading | Deaf | None = None  # what its power control really said last

    @property
    def node(self) -> Node:
        return self.observed.snapshot.nodes[self.name]

    @property
    def fencing(self) -> Fencing | None:
        return self.ledger.fencing_of(self.node.uuid)

    def run(self, now: Ms) -> None:
        """Hold rounds until the node is fenced, or nothing goes on any more."""
        self.at = self.since = now
        asked = (intent for intent in self.ledger.intents if not readings.is_reading(intent))
        self.ledger = replace(self.ledger, intents=tuple(asked))  # real readings end by themselves
        self.decision = decide(self.ledger, self.observed, self.policy, now)  # it lives
        self.first, self.known = self.decision.held, self._last_reading()
        self._say(f"{self.name} answers nobody any more")
        self._round()
        policy = with_tags(self.policy, self.observed.snapshot, self.node)
        progress = self.at = Ms(now + max(self.every, policy.unreachable_after))
        self._say(f"{self.name} has been unreachable for unreachable-after")
        for _ in range(_MOST):
            before = self.fencing
            acted = self._round()
            if acted or _stage(before) is not _stage(self.fencing):
                progress = self.at
            if _stage(self.fencing) is Stage.FENCED or self.at - progress >= _STUCK:
                return
            self.at = self._next(policy)

    def _next(self, policy: Policy) -> Ms:
        """The next round, or the moment that it waits for."""
        fencing, soon = self.fencing, Ms(self.at + self.every)
        if fencing is None:
            return soon
        revived = fencing.at + policy.revive_within if fencing.stage is Stage.WAITS else 0
        return Ms(max(soon, fencing.not_before, revived))

    def _round(self) -> bool:
        """Decide once and imagine the effects; tell whether anything but a reading was planned."""
        before, observed = self.ledger, self._observed()
        self.decision = decide(before, observed, self.policy, self.at)
        after, known = self.decision.ledger, {intent.id for intent in before.intents}
        new = [intent for intent in after.intents if intent.id not in known]
        mine = [intent for intent in new if intent.purpose == OfFencing(self.node.uuid)]
        others = {intent.id for intent in new} - {intent.id for intent in mine}
        kept = tuple(intent for intent in after.intents if intent.id not in others)
        self.ledger = replace(after, intents=kept)
        for event in fencings(before, self.ledger, observed, self.at):
            if event.node == self.name:
                self._say(f"{word_of(event.kind)}: {event}")
        for intent in mine:
            self._say(describe(intent.action))
            self.ledger = with_job(self.ledger, intent, _JOB)
            self.results[intent.id] = self._carry_out(intent.action)
        return any(not readings.is_reading(intent) for intent in mine)

    def _say(self, text: str) -> None:
        self.steps.append(ImaginedStep(self.at, text))

    # Imagine.

    def _observed(self) -> Observed:
        """The observation in which the node answers neither maintd nor its witnesses."""
        seen, name = self.observed, self.name
        diagnoses = {
            other: diagnosis for other, diagnosis in seen.diagnoses.items() if other != name
        }
        seen = replace(seen, diagnoses=diagnoses, results={**seen.results, **self.results})
        if self.node.offline:
            return seen  # it is not asked any more
        return replace(
            seen,
            doubts={**seen.doubts, name: "it does not answer"},
            unanswered=seen.unanswered | {name},
            noded={**seen.noded, name: False},
            evidence={**seen.evidence, name: self._evidence()},
        )

    def _evidence(self) -> Evidence:
        testimonies = tuple(
            replace(
                testimony,
                at=self.at,
                noded=Contact.SILENT,
                agent=Contact.SILENT,
                mirrors=testimony.mirrors and tuple(map(self._lost, testimony.mirrors)),
            )
            for testimony in self.hearing.testimonies
        )
        return Evidence(
            node=self.name,
            since=self.since,
            agent=Contact.SILENT,
            doubt="it does not answer",
            noded=False,
            noded_at=self.at,
            witnesses=testimonies,
            asked=self.hearing.missing,
        )

    def _lost(self, disk: Mirror) -> Mirror:
        """A disk that is not connected any more since the node fell silent."""
        ago = None if disk.ago is None else disk.ago + self.at - self.since
        return replace(disk, connection=_LOST, ago=ago)

    def _carry_out(self, action: Action) -> Result:
        match action:
            case Power(_, PowerCommand.STATUS):
                return self._power()
            case Power(_, command):
                self.off = command is PowerCommand.OFF
            case SetOffline():
                self.observed = _with_node(self.observed, replace(self.node, offline=True))
            case Retag(_, _, add, remove):
                tags = self.node.tags - set(remove) | set(add)
                self.observed = _with_node(self.observed, replace(self.node, tags=tags))
            case MovePrimary(name, _, _, str(target)):
                self._move(self.observed.snapshot.instances[name], target)
        return Result(Outcome.SUCCESS)

    def _power(self) -> Result:
        """The answer of its power control: the levels that said on last say what is true."""
        last = self.known
        if isinstance(last, Deaf):
            return Result(Outcome.ERROR, last.why, readings.UNAVAILABLE if last.never else None)
        if last is None:
            why = f"its power was never read: run gnt-node power status {self.name}"
            return Result(Outcome.ERROR, why)
        word = "off" if self.off else "on"
        rows = [
            {
                "level": level.level,
                "agents": list(level.agents),
                "fingerprint": level.fingerprint,
                "said": word if level.said == "on" else level.said,
                "counts": level.counts,
                "why": level.why,
            }
            for level in last.levels
        ]
        answer = {"powered": not self.off, "level": last.level, "levels": rows}
        return Result(Outcome.SUCCESS, code=0, said=json.dumps(answer))

    def _last_reading(self) -> PowerReading | Deaf | None:
        """The newest reading while it was alive; one from its last death says nothing about now."""
        mine = [reading for reading in self.ledger.power if reading.node == self.node.uuid]
        last = next((reading for reading in reversed(mine) if reading.alive), None)
        deaf = self.ledger.deaf_of(self.node.uuid)
        return deaf if deaf is not None and (last is None or deaf.since >= last.at) else last

    def _move(self, instance: Instance, target: str) -> None:
        mirror = None if instance.secondary is None else instance.primary
        moved = replace(instance, primary=target, secondary=mirror)
        snapshot, capacity = self.observed.snapshot, dict(self.observed.capacity)
        instances = {**snapshot.instances, instance.name: moved}
        if (free := capacity.get(target)) is not None:
            capacity[target] = replace(free, memory=free.memory - needs_memory(instance))
        snapshot = replace(snapshot, instances=instances)
        self.observed = replace(self.observed, snapshot=snapshot, capacity=capacity)

    # Look.

    def whys(self) -> Iterator[Reason]:
        """The reasons in the way at the end, and power control that fails now."""
        for held in self.first:
            if held.node == self.name and held.why.kind in _CONTROL:
                yield held.why
        if _stage(self.fencing) is not Stage.FENCED:
            for held in self.decision.held:
                if held.node == self.name and isinstance(held.why.kind, FencingKind):
                    yield held.why

    def fates(self) -> Iterator[InstanceFate]:
        """The fate of each instance at the end."""
        if (fencing := self.fencing) is None:
            return
        policy = with_tags(self.policy, self.observed.snapshot, self.node)
        held, seen = self.decision.held, self._observed()
        yield from instance_fates(fencing, self.node, seen, policy, self.ledger, held, self.at)

    def should_run(self, fate: InstanceFate) -> bool:
        """Tell whether an instance that stays down has disks elsewhere."""
        instance = self.observed.snapshot.instances.get(fate.instance)
        elsewhere = instance is not None and (instance.shared or instance.secondary is not None)
        return elsewhere and fate.state != "restarted"


def _stage(fencing: Fencing | None) -> Stage | None:
    return None if fencing is None else fencing.stage
