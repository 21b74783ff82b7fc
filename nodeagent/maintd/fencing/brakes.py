"""Brakes: why a node is not fenced now, though it seems dead. Pure.

Many nodes that fall silent together have lost their network or their power, and are not dead one by
one. So maintd then does nothing, and says so.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from nodeagent.maintd.fencing import domains
from nodeagent.maintd.fencing.judgement import apart, suspects_itself
from nodeagent.maintd.planning.situation import Situation
from nodeagent.model.fencing import BURST, Fencing, Stage
from nodeagent.model.ledger import Ledger
from nodeagent.model.reason import FencingKind, Kind, Reason, because
from nodeagent.model.snapshot import Node
from nodeagent.model.units import Ms

TOGETHER = Ms(300_000)  # nodes that fall silent within this time do it together
STRIKES = Ms(120_000)  # two polls, before or after a power-off is seen to have ended
QUIET = Ms(300_000)  # after maintd's own start, also as the new master's


@dataclass
class Brakes:
    """The state that brakes depend on."""

    ledger: Ledger
    situation: Situation

    def __post_init__(self) -> None:
        self.observed, self.now = self.situation.observed, self.situation.now
        self.policy = self.situation.policy

    def why_not(self, node: Node) -> Reason | None:
        """Why this node is not fenced now; None if it may be."""
        return self._not_this(node) or self._event(node) or self._limit(node)

    def struck(self, fencing: Fencing) -> Reason | None:
        """Why a power-off may have hit another node: that fell silent with it.

        A level of another machine that runs says ON as well.
        """
        if not (hit := self._hit(fencing)):
            return None
        name = self.observed.snapshot.name_of(fencing.node, fencing.node)
        return because(FencingKind.STRUCK_ANOTHER, name, nodes=hit)

    def _hit(self, fencing: Fencing) -> tuple[str, ...]:
        """The nodes that fell silent with a power-off, while that is being proven."""
        if fencing.stage not in (Stage.PROVES, Stage.REMOVES) or fencing.word or fencing.answered:
            return ()
        silent = {
            other.node
            for other in self.ledger.unreachable
            if other.node != fencing.node and abs(other.since - fencing.off) <= STRIKES
        }
        nodes = self.observed.snapshot.nodes.values()
        return tuple(sorted(n.name for n in nodes if n.uuid in silent and not n.offline))

    def _not_this(self, node: Node) -> Reason | None:
        snapshot = self.observed.snapshot
        if node.name == snapshot.master or not snapshot.master:
            return because(FencingKind.FENCES_NO_MASTER, node.name)
        if why := suspects_itself(self.observed):
            return why
        if why := self.situation.stops.plans.at(node.name):
            return why
        for entry in self.ledger.queue.entries:
            if entry.at_work and entry.address == node.address:
                return because(Kind.UNDER_REPAIR, node.name, repair=f"queue entry {entry.index}")
        for fencing in self.ledger.fencing:
            if node.name in self._hit(fencing):
                return self.struck(fencing)
        remaining = self.observed.started + QUIET - self.now
        if remaining > 0:
            return because(FencingKind.QUIET_TIME, left=remaining)
        return None

    def _event(self, node: Node) -> Reason | None:
        nodes = self.observed.snapshot.by_uuid
        silent = self._silent(nodes)
        since = silent.get(node.uuid, self.now)
        others = [
            nodes[uuid]
            for uuid, at in silent.items()
            if uuid != node.uuid and abs(at - since) <= TOGETHER
        ]
        racks = domains.reported(self.ledger, self.observed)
        if failed_domain := domains.failed(node, racks, self.ledger):
            rack, count = failed_domain.domain, failed_domain.machines
            return because(FencingKind.DOMAIN_BROKEN, node.name, domain=rack, machines=count)
        mine = racks.get(node.address, frozenset())
        near = [
            other.name
            for other in others
            if mine & racks.get(other.address, frozenset())
            or not apart(node, other, self.observed.snapshot)
        ]
        if near:
            return because(FencingKind.DOMAIN_SILENT, node.name, nodes=tuple(sorted(near)))
        fenced = {fencing.node for fencing in self.ledger.fencing if fencing.off}
        unfenced = {uuid: at for uuid, at in silent.items() if uuid not in fenced}
        many = unfenced.keys() | {node.uuid} | {other.uuid for other in others}
        total = sum(not each_node.offline or each_node.uuid in many for each_node in nodes.values())
        if (others or _lasting(unfenced)) and 10 * len(many) > total:
            return because(FencingKind.MANY_SILENT, count=len(many), nodes=total)
        return None

    def _silent(self, nodes: Mapping[str, Node]) -> dict[str, Ms]:
        """Since when nodes have not answered, by UUID; also those fenced for it meanwhile.

        A drill silences its node itself.
        """
        silent_since = {
            fencing.node: fencing.silent or fencing.since for fencing in self.ledger.fencing
        }
        silent_since |= {
            silence.node: silence.since
            for silence in self.ledger.unreachable
            if silence.node in nodes and not nodes[silence.node].offline
        }
        drilled = {fencing.node for fencing in self.ledger.fencing if fencing.drill}
        return {
            uuid: since for uuid, since in silent_since.items() if uuid in nodes.keys() - drilled
        }

    def _limit(self, node: Node) -> Reason | None:
        fenced = {fencing.node for fencing in self.ledger.fencing if not fencing.stage.over} - {
            node.uuid
        }
        if len(fenced) >= self.policy.fence_limit:
            names = tuple(sorted(self.observed.snapshot.name_of(uuid, uuid) for uuid in fenced))
            limit, first = self.policy.fence_limit, next(iter(names), None)
            return because(FencingKind.FENCE_LIMIT, nodes=names, first=first, most=limit)
        lately = {c.node for c in self.ledger.cuts if self.now - c.at < BURST} - {node.uuid}
        if len(lately) >= self.policy.fence_burst:
            limit = self.policy.fence_burst
            return because(FencingKind.FENCE_BURST, count=len(lately), most=limit)
        return None


def _lasting(silent: Mapping[str, Ms]) -> bool:
    """Tell whether an event lasts: nodes that fell silent together have not answered since."""
    times = sorted(silent.values())
    return any(later - at <= TOGETHER for at, later in pairwise(times))
