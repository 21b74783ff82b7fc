"""Assess each of a cluster's instances: what it needs, and what comes next for it. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from nodeagent.autorepair.health import HEALTHY, Health, Healthy
from nodeagent.autorepair.permissions import Permission, Permissions, expired
from nodeagent.autorepair.rules import SAFE, Rules
from nodeagent.autorepair.state import FAILED, NEEDS, PENDING, WELL, Clear, Failed, Pending, State
from nodeagent.autorepair.steps import Case, Mark, Next, Nothing, Step, Wait
from nodeagent.autorepair.tags import telling
from nodeagent.model.action import Retag
from nodeagent.model.ledger import Result, Trail
from nodeagent.model.snapshot import Instance, Snapshot
from nodeagent.model.units import Ms

_NONE: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Assessment:
    """An instance, its permission, its health, the state of its repairs, and the next step."""

    instance: Instance
    permission: Permission
    health: Health
    state: State
    next: Next

    @property
    def wanted(self) -> bool:
        """Tell whether somebody has allowed a repair, or one has started."""
        return self.permission.says in ("enabled", "unreadable") or not isinstance(
            self.state, Clear
        )

    @property
    def word(self) -> str:
        """Return the state that it counts under, once its next step has started."""
        match self.next:
            case Step() | Wait():
                return PENDING
            case Mark(ending=None) | Nothing() if isinstance(self.state, Pending):
                return PENDING
        if isinstance(self.state, Failed):
            return FAILED
        return WELL if isinstance(self.health, Healthy) else NEEDS


@dataclass(frozen=True, slots=True)
class Survey:
    """Every instance that is not simply healthy, the number of others, expired suspensions."""

    rows: Sequence[Assessment] = ()
    well: int = 0
    expired: Sequence[Retag] = ()

    @property
    def wants_room(self) -> bool:
        """Tell whether an instance has to move: only then nodes report their free room."""
        return any(isinstance(row.next, Step) for row in self.rows)


@dataclass
class Judge:
    """Assesses a cluster's instances at one moment (unix ms).

    `jobs` has our known jobs by instance, in order; `results` has by number those of the other jobs
    in tags.
    """

    snapshot: Snapshot
    jobs: Mapping[str, Sequence[Trail]]
    results: Mapping[str, Result]
    now: Ms
    rules: Rules = SAFE

    def __post_init__(self) -> None:
        self._permissions = Permissions(self.snapshot, self.now, safe=self.rules.safe)

    def assess(self, instance: Instance, state: State | None = None) -> Assessment:
        """Assess an instance, by its tags or in the `state` that is known to be the present one."""
        permission = self._permissions.of(instance)
        health = self.rules.health(instance, self.snapshot.nodes)
        jobs = self.jobs.get(instance.name, ())
        case = Case(instance, self.rules, permission, health, jobs, self.results, self.now)
        state = self.rules.state(instance.tags) if state is None else state
        return Assessment(instance, permission, health, state, case.next_step(state))

    def survey(self, ours: Mapping[str, str] = _NONE) -> Survey:
        """Assess every instance.

        `ours` are nodes, by name with the reason, that are out of service but do not permit
        repairs: they count as in service, and pending repairs there wait.
        """
        judge = replace(self, snapshot=_in_service(self.snapshot, ours)) if ours else self
        nodes, rows = judge.snapshot.nodes, []
        for instance in judge.snapshot.instances.values():
            if self.rules.health(instance, nodes) is HEALTHY and not telling(instance.tags):
                continue
            row = judge.assess(instance)
            places = (instance.primary, instance.secondary or "")
            why = next((ours[place] for place in places if place in ours), "")
            if why and isinstance(row.state, Pending):
                row = replace(row, next=Wait(why))
            if row.next != _NOTHING:
                rows.append(row)
        old = list(expired(self.snapshot, self.now)) if self.rules.safe else []
        return Survey(rows, len(judge.snapshot.instances) - len(rows), old)


_NOTHING = Nothing()


def _in_service(snapshot: Snapshot, names: Mapping[str, str]) -> Snapshot:
    """Return the snapshot with these nodes in service."""
    back = {
        name: replace(node, drained=False, offline=False)
        for name, node in snapshot.nodes.items()
        if name in names
    }
    return replace(snapshot, nodes={**snapshot.nodes, **back})
