"""Lives about incidents: nodes break, and administrators ask for things."""

from dataclasses import replace

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from nodeagent.model.action import Drain, MovePrimary, MoveSecondary, Scope, SetOffline
from nodeagent.model.diagnosis import Diagnosis
from nodeagent.model.incident import Status
from nodeagent.model.wish import Cancel, Done, Pause, ResetStorm, Resume, Retry
from tests.maintd.lives.coordinator import (
    ANY_SICK,
    BAD,
    INCIDENTS,
    OUTAGES,
    PLACES,
    REWORDED,
    SECONDS,
    SICK,
    STRANGERS,
    Coordinator,
    about,
    counted,
    except_in,
)
from tests.maintd.world import EVACUATE, FAILOVER, OK, REPAIR


class Incidents(Coordinator):
    """What nodes say, and what administrators do about incidents."""

    def begin_with(self, data: st.DataObject) -> None:
        super().begin_with(data)
        if INCIDENTS in self.subjects:
            broken = st.dictionaries(ANY_SICK, st.sampled_from(BAD), min_size=1, max_size=2)
            self.rig.agents.says.update(data.draw(broken))

    @about(INCIDENTS, STRANGERS)
    @rule(node=ANY_SICK, said=st.sampled_from(BAD), rounds=st.integers(1, 4), seconds=SECONDS)
    def breaks(self, node: str, said: Diagnosis, rounds: int, seconds: float) -> None:
        """A fault, and some time for it to be worked on."""
        self.rig.agents.says[node] = said
        self.some_rounds(rounds, seconds)

    @about(INCIDENTS)
    @rule(node=ANY_SICK, rounds=st.integers(1, 3), seconds=SECONDS)
    def falls_silent(self, node: str, rounds: int, seconds: float) -> None:
        before = self.rig.agents.says.get(node, OK)
        self.rig.agents.says[node] = None
        self.some_rounds(rounds, seconds)
        self.rig.agents.says[node] = before

    @about(INCIDENTS)
    @rule(node=ANY_SICK)
    def is_mended(self, node: str) -> None:
        """The administrator mends it, acknowledges it and puts it back into service."""
        self.rig.agents.says[node] = OK
        self.rounds(10.0)
        self.promises.acknowledge(node)
        self.rig.cluster.undrain(node)
        self.rounds(10.0)

    @about(INCIDENTS, STRANGERS)
    @rule()
    def archived(self) -> None:
        """Seven hours: all finished jobs are archived."""
        self.rounds(7 * 3600.0)

    @about(INCIDENTS)
    @except_in(OUTAGES)
    @rule(
        node=ANY_SICK,
        said=st.sampled_from([EVACUATE, FAILOVER, REPAIR]),
        kind=st.sampled_from([Drain, MovePrimary, MoveSecondary, SetOffline]),
        rounds=st.integers(2, 5),
        seconds=st.sampled_from([1.0, 10.0]),
    )
    def a_failure_and_the_ledger_lost(
        self, node: str, said: Diagnosis, kind: type, rounds: int, seconds: float
    ) -> None:
        """Perhaps before the failure was told."""
        self.rig.agents.says[node] = said
        self.failing = {kind}
        self.some_rounds(rounds, seconds)
        self.ledger_lost(1.0)
        self.failing = set()
        self.rounds(seconds)

    @about(INCIDENTS, OUTAGES, STRANGERS)
    @precondition(lambda self: self.rig.ledger.incidents)
    @rule(data=st.data(), seconds=SECONDS, rounds=st.integers(1, 2))
    def cancel(self, data: st.DataObject, seconds: float, rounds: int) -> None:
        known = self.rig.ledger.incidents  # rather one that can still be canceled
        under_way = tuple(incident for incident in known if incident.status.active)
        incident = data.draw(st.sampled_from(under_way or known))
        self.promises.asked[self.rig.wish(Cancel(incident.id))] = incident
        self.some_rounds(rounds, seconds)

    @about(INCIDENTS, STRANGERS)
    @precondition(lambda self: self.rig.ledger.incidents)
    @rule(data=st.data())
    def retry(self, data: st.DataObject) -> None:
        self.rig.wish(Retry(data.draw(st.sampled_from(self.rig.ledger.incidents)).id))

    @about(INCIDENTS, OUTAGES, STRANGERS)
    @rule(node=ANY_SICK, on=st.booleans())
    def pause(self, node: str, on: bool) -> None:
        self.rig.wish(Pause(Scope.NODE, node, "later") if on else Resume(Scope.NODE, node))

    @about(INCIDENTS, STRANGERS)
    @rule()
    def calm(self) -> None:
        self.rig.wish(ResetStorm())

    @about(INCIDENTS, OUTAGES, STRANGERS)
    @rule(node=ANY_SICK, well=st.booleans(), force=st.booleans(), rounds=st.integers(1, 12))
    def say_that_it_is_repaired(self, node: str, well: bool, force: bool, rounds: int) -> None:
        if well:
            self.rig.agents.says[node] = OK
        wish = self.rig.wish(Done(node, force=force))
        self.rounds(10.0)
        if self.rig.store.answer(wish) == "":
            counted["returns"] += 1
            self.promises.begin_anew(node)
        self.some_rounds(rounds, 10.0)

    @about(INCIDENTS)
    @rule(node=ANY_SICK, seconds=SECONDS)
    def acknowledge(self, node: str, seconds: float) -> None:
        self.promises.acknowledge(node)
        self.rounds(seconds)

    @about(INCIDENTS)
    @rule(node=ANY_SICK, words=st.sampled_from([None, REWORDED, FAILOVER]), seconds=SECONDS)
    def put_back(self, node: str, words: Diagnosis | None, seconds: float) -> None:
        """In the midst of it, the node perhaps putting it in other words at the same time."""
        busy = [
            i
            for i in self.rig.ledger.incidents
            if i.name == node and i.status is Status.PENDING and i.drained
        ]
        said = self.rig.agents.says.get(node, OK)
        if busy and said is not None and said == busy[0].diagnosis:
            self.promises.put_back_by_hand[node] = said
        self.rig.cluster.undrain(node)
        if words is not None and said is not None and said.need >= EVACUATE.need:
            self.rig.agents.says[node] = words
        self.rounds(seconds)

    @about(INCIDENTS)
    @precondition(lambda self: self.running())
    @rule(data=st.data(), seconds=SECONDS)
    def cancel_job(self, data: st.DataObject, seconds: float) -> None:
        self.rig.cluster.cancel(data.draw(st.sampled_from([job.number for job in self.running()])))
        self.rounds(seconds)

    @about(INCIDENTS)
    @rule(name=st.sampled_from([f"i{n}" for n in range(1, len(PLACES) + 1)]), seconds=SECONDS)
    def somebody_moves_an_instance(self, name: str, seconds: float) -> None:
        instance = self.rig.cluster.instances[name]
        aim = instance.secondary
        fit = aim is not None and aim not in SICK and self.rig.cluster.nodes[aim].in_service
        busy = any(getattr(job.action, "instance", "") == name for job in self.running())
        if aim is not None and fit and not busy:
            self.watched.meddled = True
            self.rig.cluster.put(replace(instance, primary=aim, secondary=instance.primary))
        self.rounds(seconds)
