"""The occurrences of series that are in the schedule. Pure."""

from collections.abc import Collection

from nodeagent.maintd.planning.names import Identity, Names
from nodeagent.maintd.windows import schedule as windows_schedule
from nodeagent.model.ledger import Ledger
from nodeagent.model.series import Member, Series
from nodeagent.model.snapshot import Node, Observed, Snapshot
from nodeagent.model.units import Ms
from nodeagent.model.window import Machine, Mode, Scheduled, Unavailability
from nodeagent.model.wish import SetSchedule


class Planned:
    """The windows of machines, in any spelling."""

    def __init__(self, ledger: Ledger, snapshot: Snapshot) -> None:
        self._outages = {outage.node: outage for outage in ledger.outages}
        self.names = Names(snapshot)
        self._occurrences: dict[tuple[int, Identity], Scheduled] = {}
        self.times: dict[Identity, set[Unavailability]] = {}
        for scheduled in ledger.scheduled:
            identity = self.names.identity(scheduled.machine)
            self.times.setdefault(identity, set()).add(scheduled.when)
            if scheduled.series:
                self._occurrences[scheduled.series, identity] = scheduled

    def is_returning(self, machine: Machine) -> bool:
        """Tell whether the machine is a node on its way back into service."""
        node = self.names.node(machine)
        outage = self._outages.get(node.uuid) if isinstance(node, Node) else None
        return outage is not None and outage.back is not None

    def identity(self, machine: Machine) -> Identity:
        return self.names.identity(machine)

    def occurrence(self, series: Series, member: Member) -> Scheduled | None:
        """The window of a machine that is an occurrence of this series, if it is placed."""
        if not member.placed:
            return None
        return self._occurrences.get((series.number, self.identity(member.machine)))


def without(
    ledger: Ledger, occurrences: Collection[Scheduled], observed: Observed, now: Ms
) -> Ledger | str:
    """The ledger with a schedule without these windows; machines that are down stay in it."""
    out = [scheduled for scheduled in occurrences if scheduled.mode is Mode.DRAINING]
    if not out:
        return ledger
    schedule = windows_schedule.without(ledger, out).schedule
    return windows_schedule.grant(ledger, SetSchedule(schedule), observed, now)
