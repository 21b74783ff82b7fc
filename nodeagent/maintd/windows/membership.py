"""Nodes that the machines of a schedule are, and their modes there. Pure."""

from collections.abc import Collection
from dataclasses import replace

from nodeagent.maintd.planning.names import Identity, Names
from nodeagent.maintd.windows import schedule as windows_schedule
from nodeagent.model.ledger import Ledger
from nodeagent.model.snapshot import Node, Observed, Snapshot
from nodeagent.model.units import Ms
from nodeagent.model.window import Machine, Mode, Schedule, Scheduled, Unavailability
from nodeagent.model.wish import SetSchedule


class Planned:
    """The machines that are draining or down, in any spelling."""

    def __init__(self, ledger: Ledger, snapshot: Snapshot) -> None:
        self._schedule = ledger.schedule
        self._outages = {outage.node: outage for outage in ledger.outages}
        self.names = Names(snapshot)
        self._known = {self.names.identity(one.machine): one for one in ledger.scheduled}

    def is_returning(self, machine: Machine) -> bool:
        """Tell whether the machine is a node on its way back into service."""
        node = self.names.node(machine)
        outage = self._outages.get(node.uuid) if isinstance(node, Node) else None
        return outage is not None and outage.back is not None

    def identity(self, machine: Machine) -> Identity:
        return self.names.identity(machine)

    def identities(self) -> Collection[Identity]:
        return self._known.keys()

    def of(self, machine: Machine) -> Scheduled | None:
        return self._known.get(self.identity(machine))

    def when(self, machine: Machine) -> Unavailability | None:
        one = self.of(machine)
        return None if one is None else self._schedule.of(one.machine)


def without(
    ledger: Ledger, machines: Collection[Machine], observed: Observed, now: Ms
) -> Ledger | str:
    """The ledger with a schedule without these machines; those that are down stay in it."""
    planned = Planned(ledger, observed.snapshot)
    out = {
        planned.identity(machine)
        for machine in machines
        if (one := planned.of(machine)) is not None and one.mode is Mode.DRAINING
    }
    if not out:
        return ledger
    left = [
        replace(w, machines=tuple(m for m in w.machines if planned.identity(m) not in out))
        for w in ledger.schedule.windows
    ]
    schedule = Schedule(tuple(window for window in left if window.machines))
    return windows_schedule.grant(ledger, SetSchedule(schedule), observed, now)
