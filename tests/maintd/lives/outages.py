"""Lives about windows, the repair queue, and masters that change."""

from dataclasses import replace
from unittest.mock import patch

from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from nodeagent.maintd.engine import failpoint
from nodeagent.maintd.windows.recurrence import EPOCH
from nodeagent.model.action import Scope
from nodeagent.model.diagnosis import Diagnosis
from nodeagent.model.units import Nanoseconds, Seconds
from nodeagent.model.window import Machine, Schedule, Unavailability, Window
from nodeagent.model.wish import (
    AddEntry,
    AddSeries,
    BringUp,
    Cancel,
    DeleteEntries,
    ResetBackOff,
    Resume,
    SetQueue,
    SetSchedule,
    TakeDown,
)
from nodeagent.store.sqlite import MEMORY, SqliteStore
from tests.failpoints import NAMES as FAILPOINTS
from tests.maintd.lives.coordinator import (
    EVERY,
    INCIDENTS,
    OUTAGES,
    ROLLS,
    SICK,
    STRANGERS,
    Coordinator,
    about,
    counted,
)
from tests.maintd.queue.mender import BROKEN, HOUR
from tests.maintd.world import EVACUATE, OK, REPAIR

MASTERS = ("n1", "n5", "n6")
OUT = st.sampled_from(["n3", "n3", "n3", "n4"])  # whose machine is repaired, or in a window


class Outages(Coordinator):
    """What is asked for machines, and what becomes of the ledger."""

    def begin_with(self, data: st.DataObject) -> None:
        super().begin_with(data)
        if OUTAGES in self.subjects:
            self._begin_outages(data)

    def ends(self) -> None:
        super().ends()
        if OUTAGES in self.subjects:
            self._ends_as_found()

    def _begin_outages(self, data: st.DataObject) -> None:
        """An entry is under way, and a window comes or its command fails."""
        self.rounds(10.0)
        drained = data.draw(st.sets(OUT, max_size=1)) if INCIDENTS not in self.subjects else set()
        for name in drained:
            node = self.rig.cluster.nodes[name]
            self.rig.cluster.put(replace(node, drained=True, candidate=False))
        self.found = {name: name in drained for name in EVERY}
        self.add_entry("n3")
        self.some_rounds(data.draw(st.integers(2, 24)), 30.0)
        if data.draw(st.booleans()):
            self.plan("n3", 0)
        else:
            self.rig.fates = {"try-1": [BROKEN]}
        self.some_rounds(data.draw(st.integers(0, 12)), 30.0)

    @about(OUTAGES)
    @rule(node=OUT, said=st.sampled_from((REPAIR, OK, OK)), rounds=st.integers(0, 6))
    def needs_a_repair(self, node: str, said: Diagnosis, rounds: int) -> None:
        self.rig.agents.says[node] = said
        self.some_rounds(rounds, 30.0)

    @about(OUTAGES)
    @rule(node=OUT, said=st.sampled_from((EVACUATE, None)), rounds=st.integers(0, 6))
    def is_dying(self, node: str, said: Diagnosis | None, rounds: int) -> None:
        self.dying = True
        self.rig.agents.says[node] = said
        self.some_rounds(rounds, 30.0)

    @about(OUTAGES, ROLLS, STRANGERS)
    @rule(name=st.sampled_from(MASTERS), times=st.integers(1, 3))
    def fail_over(self, name: str, times: int) -> None:
        if not self.rig.cluster.nodes[name].in_service:
            return  # Ganeti refuses: it is no master candidate
        self.rig.fail_over(name)
        counted["failovers"] += 1
        self.some_rounds(times, 10.0)

    @about(OUTAGES, ROLLS, STRANGERS)
    @rule(name=st.sampled_from(MASTERS), at=st.sampled_from(FAILPOINTS), times=st.integers(1, 3))
    def fail_over_in_a_round(self, name: str, at: str, times: int) -> None:
        """The old master goes on with its round, but its luxid is gone; the next one begins."""
        cluster = self.rig.cluster

        def loses_luxid(place: str) -> None:
            cluster.down = cluster.down or place == at

        with patch.object(failpoint, "reach", loses_luxid):
            self.rounds(10.0)
        counted["failovers in a round"] += cluster.down
        cluster.down = False
        self.fail_over(name, times)

    @about(OUTAGES)
    @rule(
        how=st.sampled_from(["", "is refused", "loses its answer"]),
        then=st.sampled_from(["", *MASTERS]),
    )
    def ask(self, how: str, then: str) -> None:
        """Add a series that begins in a year; once Ganeti has it, it is there for ever.

        The master may change at once.
        """
        self.asked += 1
        begins = self.rig.now() // 86_400_000 + EPOCH + 365
        machines, minute = (Machine("n6"),), self.asked
        asked = AddSeries(machines, (6,), minute, "UTC", Seconds(60), begins=begins)
        self.rig.cluster.keeps = lambda _: "no" if how == "is refused" else ""
        self.rig.cluster.loses_rule = lambda _: how == "loses its answer"
        wish = self.rig.wish(asked)
        self.rounds(10.0)
        if self.rig.store.answer(wish) == "" and not self.rig.engine.memory.only_here():
            counted["acknowledged"] += 1
            self.acknowledged.add(self.asked)
        self.rig.cluster.keeps = lambda _: ""
        self.rig.cluster.loses_rule = lambda _: False
        if then:
            self.fail_over(then, 1)

    @about(OUTAGES)
    @rule(name=st.sampled_from(MASTERS))
    def lose_disk(self, name: str) -> None:
        """The disk of a node that is not the master is lost, or the master's while it is down."""
        self.rig.disks[name] = SqliteStore(MEMORY)
        if name == self.rig.me:
            self.rig.wake(name)
        self.rounds(10.0)

    @about(OUTAGES)
    @rule(text=st.sampled_from([None, "", "rubbish"]))
    def change_rule(self, text: str | None) -> None:
        """Somebody changes it beside a maintd that runs, which mends it."""
        self.rounds(10.0)
        self.rig.cluster.world.ledger_rule = text
        self.rounds(10.0)

    @about(OUTAGES)
    @rule(node=OUT)
    def add_entry(self, node: str) -> None:
        self.rig.wish(AddEntry("unreachable", "r640", node))

    @about(OUTAGES)
    @rule(finished=st.booleans())
    def delete_entries(self, finished: bool) -> None:
        self.rig.wish(DeleteEntries(finished=finished))

    @about(OUTAGES)
    @rule(enabled=st.sampled_from([True, True, False]))
    def switch_queue(self, enabled: bool) -> None:
        self.rig.wish(SetQueue(enabled=enabled))
        self.rig.wish(ResetBackOff())

    @about(OUTAGES)
    @rule(healed=st.booleans(), fails=st.booleans())
    def heal(self, healed: bool, fails: bool) -> None:
        self.rig.healed = healed
        self.rig.fates = {"try-1": [BROKEN]} if fails else {}

    @about(OUTAGES)
    @rule(node=OUT, ahead=st.sampled_from([0, 0, 7200]), rounds=st.integers(0, 6))
    def plan(self, node: str, ahead: float, rounds: int = 0) -> None:
        start = Nanoseconds(round((self.rig.time + ahead) * 1e9))
        when = Unavailability(start, Nanoseconds(HOUR * 10**9))
        self.rig.wish(SetSchedule(Schedule((Window((Machine(node),), when),))))
        self.some_rounds(rounds, 30.0)

    @about(OUTAGES)
    @rule(rounds=st.integers(0, 6))
    def unplan(self, rounds: int) -> None:
        self.rig.wish(SetSchedule(Schedule(())))
        self.some_rounds(rounds, 30.0)

    @about(OUTAGES)
    @rule(node=OUT, down=st.booleans(), rounds=st.integers(0, 6))
    def take_down_or_bring_up(self, node: str, down: bool, rounds: int) -> None:
        machines = (Machine(node),)
        self.rig.wish(TakeDown(machines) if down else BringUp(machines))
        self.some_rounds(rounds, 30.0)

    @about(OUTAGES)
    @invariant()
    def o2_what_was_acknowledged_is_known(self) -> None:
        there = {series.rule.minute for series in self.rig.ledger.series}
        assert self.acknowledged <= there, "O2"
        assert self.rig.doubtful is None
        assert not self.rig.ledger.away

    def _ends_as_found(self) -> None:
        """E3: everything is taken back, and whatever goes on ends."""
        rig = self.rig
        rig.cluster.takes = lambda _: 1.0
        for name in SICK:
            rig.agents.says[name] = OK
            rig.wish(Resume(Scope.NODE, name))
            self.rounds(10.0)
            rig.wish(BringUp((Machine(name),)))
            self.rounds(10.0)
        rig.wish(SetSchedule(Schedule(())))
        rig.wish(SetQueue(enabled=True))
        for incident in rig.ledger.incidents:
            rig.wish(Cancel(incident.id))
        rig.wish(DeleteEntries(finished=True))
        rig.wish(DeleteEntries(finished=False))
        for n in range(200):
            if n % 20 == 0:  # a pause is a tag, which may have been on its way when it was ended
                for name in SICK:
                    rig.wish(Resume(Scope.NODE, name))
            self.rounds(60.0)
            returning = any(one.back is not None for one in rig.ledger.outages)
            entries = rig.ledger.queue.entries
            if not (returning or entries or rig.ledger.scheduled or rig.ledger.intents):
                break
        else:
            raise AssertionError(f"E1: {rig.ledger}")
        if self.dying or INCIDENTS in self.subjects:
            return
        counted["as found"] += 1
        for name, node in rig.cluster.nodes.items():
            assert (node.drained, node.offline) == (self.found[name], False), f"E3: {name}"
