"""Lives in which people ask for anything at any moment, several of them at once, and in vain.

S1 what a person lifts is lifted: no job, entry, roll, window or return stays half-way then.
S2 then no node is out of service that maintd took out last, unless a person is told of it.
"""

from dataclasses import replace

from hypothesis import strategies as st
from hypothesis.stateful import rule

from nodeagent.maintd.notices.needs_you import needs_you
from nodeagent.model.action import Scope
from nodeagent.model.asked import Asked
from nodeagent.model.roll import REBOOT, Terms
from nodeagent.model.units import Ms, Nanoseconds
from nodeagent.model.window import Machine, Schedule, Unavailability, Window
from nodeagent.model.wish import (
    AddEntry,
    Balance,
    BringUp,
    Cancel,
    CancelRoll,
    DeleteEntries,
    Done,
    EndSeries,
    Evacuate,
    Pause,
    PulledPlug,
    ResetBackOff,
    ResetStorm,
    Resume,
    Retry,
    SetQueue,
    SetSchedule,
    SkipNode,
    StartRoll,
    StopBalancing,
    TakeDown,
    TrustLedger,
)
from simulation.machines import Control
from tests.maintd.lives.coordinator import EVERY, STRANGERS, about, counted
from tests.maintd.lives.strangers import ANY, ROUNDS, SECONDS, Strangers
from tests.maintd.queue.mender import HOUR

NONSENSE: tuple[Asked, ...] = (
    Done(""),
    Evacuate("ünïcode.example", "x"),
    Evacuate("n3.example.", ""),
    Cancel("n2"),
    Retry(""),
    Pause(Scope.NODE, ""),
    Pause(Scope.GROUP, "n2"),
    Resume(Scope.GROUP, ""),
    SkipNode(""),
    StartRoll(Terms("unknown")),
    StartRoll(Terms(REBOOT, at_once=10**6), ("*",)),
    StartRoll(Terms(REBOOT), ("[",)),
    TakeDown(()),
    BringUp((Machine(""),)),
    AddEntry("", "", ""),
    PulledPlug("n2"),
    Balance(""),
    EndSeries(99),
    SetSchedule(Schedule((Window((Machine("n2"),), Unavailability(Nanoseconds(0), None)),))),
)
MUCH = 5  # times that everything is lifted: what is lifted may show something more


class People(Strangers):
    """What people ask for, and what becomes of it all."""

    @about(STRANGERS)
    @rule(node=ANY, offline=st.booleans(), seconds=SECONDS, rounds=ROUNDS)
    def evacuate(self, node: str, offline: bool, seconds: float, rounds: int) -> None:
        self.rig.wish(Evacuate(node, "to look at it", offline))
        self.some_rounds(rounds, seconds)

    @about(STRANGERS)
    @rule(
        scope=st.sampled_from((Scope.CLUSTER, Scope.GROUP, Scope.NODE, Scope.NODE)),
        node=ANY,
        of_incident=st.booleans(),
        ends_in=st.sampled_from((0, 60_000, -5)),
        rounds=ROUNDS,
    )
    def pause_something(
        self, scope: Scope, node: str, of_incident: bool, ends_in: int, rounds: int
    ) -> None:
        node = self.rather_at_work(node)
        group = max(self.rig.cluster.world.groups.values(), key=lambda one: one.uuid)
        name = {Scope.CLUSTER: "", Scope.GROUP: group.name, Scope.NODE: node}[scope]
        known = self.rig.ledger.incidents
        incident = known[-1].id if known and of_incident and scope is Scope.NODE else ""
        until = Ms(self.rig.now() + ends_in) if ends_in else Ms(0)
        self.rig.wish(Pause(scope, name, "later", incident, force=True, until=until))
        self.some_rounds(rounds, 10.0)

    @about(STRANGERS)
    @rule(rounds=ROUNDS)
    def resume_all(self, rounds: int) -> None:
        self._resume()
        self.some_rounds(rounds, 10.0)

    @about(STRANGERS)
    @rule(
        start=st.sampled_from((0, 0, 7200, -5000)),
        ends=st.booleans(),
        machines=st.permutations(EVERY),
        two=st.booleans(),
        rounds=ROUNDS,
    )
    def plan_another(
        self, start: int, ends: bool, machines: list[str], two: bool, rounds: int
    ) -> None:
        """Beside another window, or with one machine more; several may name a node."""
        begins = Nanoseconds(round((self.rig.time + self.rig.skew + start) * 1e9))
        when = Unavailability(begins, Nanoseconds(HOUR * 10**9) if ends else None)
        named = tuple(Machine(name) for name in machines[: 1 + two])
        before = self.rig.ledger.schedule.windows[:1]
        self.rig.wish(SetSchedule(Schedule((*before, Window(named, when)))))
        self.some_rounds(rounds, 30.0)

    @about(STRANGERS)
    @rule(node=ANY, nth=st.permutations(range(9)), many=st.integers(2, 5))
    def ask_at_once(self, node: str, nth: list[int], many: int) -> None:
        """Several people, about one node, between two rounds."""
        node = self.rather_at_work(node)
        address = self.rig.cluster.nodes[node].address
        asked: tuple[Asked, ...] = (
            Evacuate(node, "x", offline=True),
            Evacuate(node, "y"),
            Done(node),
            Done(node, force=True),
            Done(node, keep="drained"),
            Pause(Scope.NODE, node, "p"),
            Resume(Scope.NODE, node),
            AddEntry("unreachable", "r640", address),
            DeleteEntries(finished=False),
        )
        wishes = [(asked[n], self.rig.wish(asked[n])) for n in nth[:many]]
        self.rounds(10.0)
        keeps = [wish for one, wish in wishes if isinstance(one, Done) and one.keep]
        if any(not self.rig.store.answer(wish) for wish in keeps):
            self.by_hand[node] = self.rig.time  # somebody wants it to stay so

    @about(STRANGERS)
    @rule(asked=st.lists(st.sampled_from(NONSENSE), min_size=1, max_size=3))
    def ask_nonsense(self, asked: list[Asked]) -> None:
        wishes = [self.rig.wish(one) for one in asked]
        self.rounds(10.0)
        counted["nonsense"] += sum(bool(self.rig.store.answer(wish)) for wish in wishes)

    @about(STRANGERS)
    @rule(stop=st.booleans(), seconds=SECONDS)
    def ask_for_balance(self, stop: bool, seconds: float) -> None:
        group = max(self.rig.cluster.world.groups.values(), key=lambda one: one.uuid).name
        self.rig.wish(StopBalancing(group) if stop else Balance(group))
        self.rounds(seconds)

    # How it ends.

    def ends(self) -> None:
        if STRANGERS in self.subjects:
            self._is_lifted()
        else:
            super().ends()

    def _is_lifted(self) -> None:
        """S1 and S2."""
        self._mend()
        for _ in range(MUCH):
            self._lift()
            if not self._half_way():
                break
        self.until_calm(20, 310.0, calm=5)  # balancing may begin anew in a cluster at rest
        assert self.done is not None
        ledger, blocked = self.rig.ledger, self.done.decision.held
        held = [str(one.why) for one in blocked]
        assert not self._half_way(), f"S1: {self._half_way()}: {held}"
        observed, at = self.done.observed, self.done.at
        theirs = list(needs_you(ledger, observed, blocked, observed.unanswered, at))
        told = {one.node for one in theirs}
        told |= {one.incident.name for one in theirs if one.incident is not None}
        for name, node in self.rig.cluster.nodes.items():
            if node.is_out and self.changed_last_by_maintd(name):
                counted["out, and told"] += 1
                assert name in told, f"S2: {name}: {ledger.outages}: {held}"
        counted["lifted"] += 1

    def _half_way(self) -> list[object]:
        """What goes on, or waits."""
        ledger = self.rig.ledger
        going = [one for one in ledger.outages if one.back is not None]
        rolls = [ledger.roll] if ledger.roll is not None and not ledger.roll.over else []
        return [*ledger.intents, *ledger.queue.entries, *ledger.scheduled, *going, *rolls]

    def _mend(self) -> None:
        """All machines are well, and no setting or tag of others stops anything."""
        rig, cluster = self.rig, self.rig.cluster
        cluster.takes = lambda _: 1.0
        machines = rig.machines
        for name in machines.off | machines.hung | machines.cut:
            for broken in (machines.unplugged, machines.cut, machines.hung, machines.apart):
                broken.discard(name)
            machines.switch_on(name)
        machines.controls = {name: (Control(),) for name in machines.controls}
        rig.agents.hangs.clear()
        rig.agents.stays_up.clear()
        rig.agents.forgets = False
        rig.agents.says.clear()
        rig.healed, rig.fates = True, {}
        cluster.world.tags = frozenset(
            tag
            for tag in cluster.world.tags
            if not tag.startswith(("maintd:pause", "maintd:stage"))
        )
        for group in list(cluster.world.groups.values()):
            cluster.world.put(replace(group, tags=frozenset()))
        for name, node in cluster.nodes.items():
            theirs = ("maintd:pause", "maintd:stage", "maintd:hold", "maintd:offline")
            cluster.untag(name, *(tag for tag in node.tags if tag.startswith(theirs)))
        self.rounds(10.0)

    def _lift(self) -> None:
        """A person takes back all that is asked for, and says of each node that it is repaired."""
        rig = self.rig
        rig.wish(TrustLedger())
        rig.wish(ResetStorm())
        self._resume()
        rig.wish(CancelRoll())
        self.some_rounds(2, 10.0)
        roll = rig.ledger.roll
        for member in () if roll is None else roll.nodes:
            rig.wish(SkipNode(member.name))
        for scheduled in rig.ledger.scheduled:
            rig.wish(BringUp((scheduled.machine,)))
        rig.wish(SetQueue(enabled=True))
        rig.wish(ResetBackOff())
        rig.wish(DeleteEntries(finished=True))
        rig.wish(DeleteEntries(finished=False))
        self.rounds(10.0)
        rig.wish(SetSchedule(Schedule(())))
        for series in rig.ledger.series:
            rig.wish(EndSeries(series.number))
        for incident in rig.ledger.incidents:
            rig.wish(Retry(incident.id))
        self.rounds(10.0)
        for incident in rig.ledger.incidents:
            if incident.status.active:
                rig.wish(Cancel(incident.id))
        self.some_rounds(2, 10.0)
        for name in rig.cluster.nodes:
            rig.wish(Done(name))
        self.some_rounds(6, 30.0)

    def _resume(self) -> None:
        for hold in self.rig.ledger.holds:
            name = "" if hold.incident else hold.name
            self.rig.wish(Resume(hold.scope, name, hold.incident))
