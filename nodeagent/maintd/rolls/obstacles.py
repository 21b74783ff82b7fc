"""Which waiting nodes of a roll may begin now, and what the others wait for. Pure.

No node may begin while the roll is paused, stopped or canceled, outside its hours, in the pause
after a return, while all maintenance is stopped, while an alert that blocks the roll fires or
alerts are unknown, or while as many nodes are away as asked for. Otherwise one may begin if:

1. It is not the master: that one comes last, after a failover.
2. It is online, in no window, not paused, and on no way back into service; nobody else has it out.
3. No incident is at work in its group.
4. Its agent reports Ok, lists the command, and would not refuse the order.
5. It shares no instance with a node that is away: those could not run anywhere (hroller's rule).
6. No owner of instances there blocks it.
7. The rest of its group has room for its instances.
"""

from collections.abc import Callable, Iterator, Mapping

from nodeagent.maintd.outage.claims import Claims, away_for
from nodeagent.maintd.planning.admission import no_orders
from nodeagent.maintd.planning.situation import Situation
from nodeagent.maintd.rolls.hours import hours_text, is_within
from nodeagent.model.asked import some_of
from nodeagent.model.ledger import Ledger
from nodeagent.model.offer import Work
from nodeagent.model.purpose import OfRoll, claimant
from nodeagent.model.reason import Held, Kind, Reason, RollKind, because
from nodeagent.model.roll import Phase, Roll, RollNode
from nodeagent.model.snapshot import Node

_TOLD = 5  # waiting nodes whose own reasons are shown


class Obstacles:
    """A look at the waiting nodes of the roll.

    `why_stays` says why a node cannot be emptied to its end now.
    """

    def __init__(
        self,
        ledger: Ledger,
        situation: Situation,
        why_stays: Callable[[Node], Reason | None],
    ) -> None:
        assert ledger.roll is not None
        self.held: list[Held] = []
        self._roll: Roll = ledger.roll
        self._ledger, self._observed, self._now = ledger, situation.observed, situation.now
        self._stops, self._owners = situation.stops, situation.owners[Work.ROLL]
        self._why_stays = why_stays
        self._claims = Claims(ledger)
        self._nodes = self._observed.snapshot.by_uuid
        self._away = away_for(ledger)
        nodes = self._observed.snapshot.nodes
        self._at_work = {
            nodes[incident.name].group: incident.id
            for incident in ledger.incidents
            if incident.status.active and incident.name in nodes
        }

    def begin(self) -> list[RollNode]:
        """Return the nodes that begin now, and note in `held` what the next ones wait for."""
        waiting = [roll_node for roll_node in self._roll.nodes if roll_node.in_line]
        if self._roll.canceled:
            bad = [
                member for member in self._roll.nodes if member.phase is Phase.FAILED or member.late
            ]
            self.held += [
                Held(because(RollKind.ROLL_FAILED, member.name, why=member.why), member.name)
                for member in bad
            ]
            return []
        if not (waiting or self._roll.stopped):
            return []
        if (why := self._why_none()) is not None:
            self.held.append(Held(why))
            return []
        free = self._roll.terms.at_once - len(self._away)
        begun: list[RollNode] = []
        blocked = self._linked(member.name for member in self._away)
        for member in waiting:
            if free <= len(begun) and member not in self._away:
                continue
            node = self._nodes[member.node]
            why = self._why_not(node, blocked)
            if why is None:
                begun.append(member)
                blocked |= self._linked([node.name])
            elif len(self.held) < _TOLD:
                self.held.append(Held(why, node.name))
        return begun

    def _why_none(self) -> Reason | None:
        """Say why no node begins now, whichever it is."""
        roll, now = self._roll, self._now
        if roll.stopped:
            return because(RollKind.ROLL_STOPPED, why=roll.stopped)
        if roll.paused:
            return because(RollKind.ROLL_PAUSED, who=roll.paused)
        if hours := roll.terms.hours:
            zone = self._observed.zones.get(hours.zone)
            if zone is None:
                return because(RollKind.ROLL_ZONE, zone=hours.zone)
            if not is_within(hours, zone, now):
                return because(RollKind.ROLL_HOURS, hours=f"{hours_text(hours)} {hours.zone}")
        if why := self._stops.maintenance.everywhere:
            return why
        remaining = roll.returned_at + roll.terms.pause_between - now if roll.returned_at else 0
        if remaining > 0:
            return because(RollKind.ROLL_PAUSE_BETWEEN, left=remaining)
        return self._alerts() if roll.terms.blocked_by else None

    def _alerts(self) -> Reason | None:
        """Say which alerts block the roll, or why that is unknown."""
        alerts = self._observed.alerts
        if alerts.matchers != self._roll.terms.blocked_by or alerts.awaited:
            return because(RollKind.ROLL_ALERTS_AWAITED)
        if alerts.firing:
            return because(RollKind.ROLL_ALERTS, alerts=some_of(alerts.firing))
        if alerts.unknown:
            return because(RollKind.ROLL_ALERTS_UNKNOWN, why=alerts.unknown)
        return None

    def _why_not(self, node: Node, linked: Mapping[str, str]) -> Reason | None:
        name, command = node.name, self._roll.terms.command
        if name == self._observed.snapshot.master:
            last = all(m.phase.over or m.node == node.uuid for m in self._roll.nodes)
            return because(RollKind.ROLL_MASTER_WAITS if last else RollKind.ROLL_MASTER_LAST, name)
        if node.offline:
            return because(RollKind.ROLL_OFFLINE, name)
        if why := self._stops.maintenance.at(name) or self._stops.windows.get(name):
            return why
        outage = self._ledger.outage(node.uuid)
        if outage is not None and (outage.back is not None or outage.wanted is not None):
            return because(RollKind.ROLL_OUT_OF_SERVICE, name)
        for claim in self._claims.of(node):
            if not isinstance(claim, OfRoll):
                return because(Kind.CLAIMED, name, who=claimant(claim.owner))
        if incident := self._at_work.get(node.group):
            return because(RollKind.ROLL_INCIDENT, name, incident=incident)
        if doubt := self._observed.doubts.get(name):
            return because(Kind.DOUBT, name, doubt=doubt)
        if not self._observed.is_healthy(name):
            return because(Kind.NOT_WELL, name)
        if command not in self._observed.runs.get(name, ()):
            return because(RollKind.ROLL_NOT_LISTED, name, command=command)
        if why := no_orders(name, self._observed):
            return why
        if instance := linked.get(name):
            return because(RollKind.ROLL_SHARES, name, instance=instance)
        if why := self._owners.get(node.uuid):
            return why
        if why := self._why_stays(node):
            return because(RollKind.ROLL_NO_ROOM, name, why=why)
        return None

    def _linked(self, names: Iterator[str] | list[str]) -> dict[str, str]:
        """The nodes that share an instance with these, and one such instance."""
        away, linked = set(names), dict[str, str]()
        for instance in self._observed.snapshot.instances.values():
            for here in away & instance.nodes:
                linked |= dict.fromkeys(instance.nodes - {here}, instance.name)
        return linked
