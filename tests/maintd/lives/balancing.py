"""Lives about balancing, alone or beside incidents."""

from dataclasses import replace

from hypothesis import strategies as st
from hypothesis.stateful import rule

from nodeagent.model.action import MovePrimary, MoveSecondary
from nodeagent.model.balance import HALT_TAG
from nodeagent.model.ledger import Outcome
from tests.maintd.lives.coordinator import BALANCING, SECONDS, Coordinator, about, counted


class Balancing(Coordinator):
    """What administrators do about balancing."""

    def ends(self) -> None:
        super().ends()
        if BALANCING in self.subjects:
            self._gets_even()

    @about(BALANCING)
    @rule(seconds=SECONDS)
    def pause_all_by_a_tag(self, seconds: float) -> None:
        world = self.rig.cluster.world
        world.tags = world.tags ^ {"maintd:pause:yes"}
        self.rounds(seconds)

    @about(BALANCING)
    @rule(seconds=SECONDS)
    def acknowledge_balancing(self, seconds: float) -> None:
        """Somebody removes the tags that tell of failures."""
        for group in list(self.rig.cluster.world.groups.values()):
            told = {tag for tag in group.tags if tag.startswith(HALT_TAG)}
            if told:
                counted["balancing acknowledged"] += 1
                self.rig.cluster.put(replace(group, tags=group.tags - told))
                self.watched.forgiven |= {
                    job.number
                    for job in self.rig.cluster.jobs.values()
                    if job.outcome is Outcome.ERROR
                }
        self.rounds(seconds)

    @about(BALANCING)
    @rule(rounds=st.integers(2, 8))
    def moves_fail_for_a_while(self, rounds: int) -> None:
        """Till somebody looks, and says so."""
        self.failing = {MovePrimary, MoveSecondary}
        self.some_rounds(rounds, 400.0)
        self.failing = set()
        self.acknowledge_balancing(10.0)

    def _gets_even(self) -> None:
        """E2."""
        rig = self.rig
        rig.cluster.world.tags -= {"maintd:pause:yes"}
        rig.agents.says.clear()
        self.until_calm(20, 500.0, calm=5)
        for node in list(rig.cluster.nodes):
            rig.cluster.undrain(node)
            self.promises.acknowledge(node)
            rig.cluster.untag(node, *rig.cluster.nodes[node].tags)
        self.acknowledge_balancing(500.0)
        scores: dict[str, list[float]] = {}

        def note_scores() -> None:
            for uuid, advice in rig.engine._adviser.advice().items():
                if not advice.why and not any(i.purpose.group == uuid for i in rig.ledger.intents):
                    scores.setdefault(uuid, []).append(advice.score)

        self.until_calm(30, 500.0, calm=5, after_each=note_scores)
        for uuid, each in scores.items():
            assert each[-1] <= each[0] + 1e-9, f"E2: {uuid}: {each[0]} to {each[-1]}"
        self.submits_nothing()
        if rig.ledger.incidents or rig.ledger.halts or self.watched.meddled:
            return
        last = rig.engine._adviser.advice()["default"]
        assert not last.why, f"E2: {last}"
        assert last.score - last.final < rig.policy.balance_threshold, f"E2: {last}"
        counted["even"] += 1
