"""The full assessment of one instance, in either mode. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nodeagent.autorepair import harep, steps
from nodeagent.autorepair.health import HEALTHY, Broken, Health, check
from nodeagent.autorepair.health import as_harep as needed
from nodeagent.autorepair.jobs import Ran, tags_refused
from nodeagent.autorepair.policy import Policies, Policy
from nodeagent.autorepair.state import (
    FAILED,
    PENDING,
    Clear,
    Conflict,
    Failed,
    Loaded,
    Pending,
    State,
    Unclear,
    as_harep,
    state_of,
)
from nodeagent.autorepair.steps import Mark, Next, Wait
from nodeagent.model.ledger import Result
from nodeagent.model.snapshot import Instance, Node, Snapshot
from nodeagent.model.units import Ms

SAFE, COMPATIBLE = "safe", "compatible"


@dataclass(frozen=True, slots=True)
class Assessment:
    """An instance's policy, its health, the state of its repairs, and the next step."""

    policy: Policy
    health: Health
    state: State
    next: Next


@dataclass
class Judge:
    """Assesses a cluster's instances at one moment (unix ms).

    `jobs` has our jobs by instance, `results` by number those of the other jobs in tags.
    """

    snapshot: Snapshot
    jobs: Mapping[str, Sequence[Ran]]
    results: Mapping[int, Result]
    now: Ms
    mode: str = SAFE

    def __post_init__(self) -> None:
        self._policies = Policies(self.snapshot, self.now, strict=self.mode == SAFE)

    def health(self, instance: Instance) -> Health:
        nodes = self.snapshot.nodes
        return check(instance, nodes) if self.mode == SAFE else _as_harep(instance, nodes)

    def assess(self, instance: Instance) -> Assessment:
        policy, health = self._policies.of(instance), self.health(instance)
        jobs, nodes = self.jobs.get(instance.name, ()), self.snapshot.nodes
        if self.mode == SAFE:
            state = state_of(instance.tags)
            then = steps.next_step(instance, policy, health, state, jobs, self.results, self.now)
            return Assessment(policy, health, state, self._in_time(then, jobs))
        loaded = as_harep(instance.tags)
        then = harep.next_step(instance, policy, nodes, loaded, jobs, self.results, self.now)
        return Assessment(policy, health, _state(loaded), self._in_time(then, jobs))

    def _in_time(self, then: Next, jobs: Sequence[Ran]) -> Next:
        """Back off from a change of tags that Ganeti refuses again and again."""
        why = tags_refused(jobs, self.now) if isinstance(then, Mark) else None
        return then if why is None else Wait(why)


def _as_harep(instance: Instance, nodes: Mapping[str, Node]) -> Health:
    need = needed(instance, nodes)
    return HEALTHY if need is None else Broken((need,), harep.trouble(instance, nodes))


def _state(loaded: Loaded | Conflict) -> State:
    if isinstance(loaded, Conflict):
        return Unclear(f"tag {loaded.found.tag} beside the older {loaded.older.tag}")
    record = loaded.record
    if record is None:
        return Clear()
    if loaded.state == PENDING:
        return Pending(record)
    return Failed(record) if loaded.state == FAILED else Clear((record,))
