"""Lives about repairs of instances, and the tags that allow them."""

from dataclasses import replace

from hypothesis import strategies as st
from hypothesis.stateful import rule

from nodeagent.model.action import Guarded
from nodeagent.model.ledger import Outcome
from tests.maintd.lives.coordinator import (
    ANY_SICK,
    FENCING,
    INCIDENTS,
    REPAIRS,
    SECONDS,
    Coordinator,
    about,
)
from tests.maintd.lives.watched import FOREIGN, RULES, TYPES

NAMED = ("mirrored", "shared", "plain", "stopped")
ANY_NAMED = st.sampled_from(NAMED)


class Repairs(Coordinator):
    """What administrators do to tags."""

    def begin_with(self, data: st.DataObject) -> None:
        super().begin_with(data)
        if REPAIRS in self.subjects:
            self._begin_repairs(data)

    def ends(self) -> None:
        super().ends()
        if REPAIRS in self.subjects:
            self._rests()

    def _begin_repairs(self, data: st.DataObject) -> None:
        tag = data.draw(st.sampled_from((*TYPES, "reinstall", "reinstall")))
        self.rig.cluster.world.tags |= {RULES + tag}
        if self.subjects & {FENCING, INCIDENTS}:
            return
        out = data.draw(st.dictionaries(ANY_SICK, st.booleans(), min_size=1, max_size=2))
        if data.draw(st.booleans()):
            out["n3"] = True  # what is plain has its data nowhere else
        for node, offline in out.items():
            self.take_out(node, offline, 1.0)

    @about(REPAIRS)
    @rule(name=ANY_NAMED, tag=st.sampled_from(TYPES), seconds=SECONDS)
    def allow(self, name: str, tag: str, seconds: float) -> None:
        self._tag(name, RULES + tag)
        self.rounds(seconds)

    @about(REPAIRS)
    @rule(name=ANY_NAMED, until=st.sampled_from(["", ":", ":bad", 5, 90]))
    def suspend(self, name: str, until: str | int) -> None:
        end = f":{int(self.rig.time) + until}" if isinstance(until, int) else until
        self._tag(name, f"{RULES}suspend{end}")
        self.rounds(1.0)

    @about(REPAIRS)
    @rule(name=ANY_NAMED, kind=st.sampled_from(TYPES))
    def ask_for_a_repair(self, name: str, kind: str) -> None:
        """A repair once, whatever is allowed."""
        self.asked += 1
        self._tag(name, f"{RULES}pending:{kind}:{FOREIGN}{self.asked:03}:{int(self.rig.time)}:")
        self.rounds(1.0)

    @about(REPAIRS)
    @rule(name=ANY_NAMED, seconds=SECONDS)
    def clear(self, name: str, seconds: float) -> None:
        """Somebody removes all tags, pending ones too."""
        self.rig.cluster.put(replace(self.rig.cluster.instances[name], tags=frozenset()))
        self.rounds(seconds)

    @about(REPAIRS)
    @rule(name=ANY_NAMED, data=st.data())
    def remove_one(self, name: str, data: st.DataObject) -> None:
        instance = self.rig.cluster.instances[name]
        if instance.tags:
            tag = data.draw(st.sampled_from(sorted(instance.tags)))
            self.rig.cluster.put(replace(instance, tags=instance.tags - {tag}))
        self.rounds(1.0)

    @about(REPAIRS)
    @rule(name=ANY_NAMED)
    def malform(self, name: str) -> None:
        self._tag(name, f"{RULES}pending:nonsense")
        self.rounds(1.0)

    @about(REPAIRS)
    @rule(name=ANY_NAMED)
    def vanish(self, name: str) -> None:
        """A job that is over cannot be found any more."""
        cluster = self.rig.cluster
        for job in list(cluster.jobs.values()):
            repairs = isinstance(job.action, Guarded) and job.action.then.instance == name
            if repairs and job.outcome is not Outcome.RUNNING:
                cluster._reasons.pop(job.reason, None)
                job.ends = -cluster.forgets_after - 1
        self.rounds(1.0)

    def _tag(self, name: str, tag: str) -> None:
        instance = self.rig.cluster.instances[name]
        self.rig.cluster.put(replace(instance, tags=instance.tags | {tag}))

    def _rests(self) -> None:
        """E1."""
        self.until_calm(20, 310.0, calm=5)
        self.submits_nothing()
        seen = self.rig.cluster.snapshot()
        for instance in seen.instances.values():
            places = [seen.nodes[name] for name in (instance.primary, instance.secondary) if name]
            well = all(node.in_service for node in places)
            suspended = any(f"{RULES}suspend" in tag for tag in instance.tags)
            unclear = any("nonsense" in tag or ":failure:" in tag for tag in instance.tags)
            pending = any(f"{RULES}pending" in tag for tag in instance.tags)
            assert not (well and pending) or suspended or unclear, f"E1: {instance}"
