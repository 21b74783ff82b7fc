"""Disruption budgets: how many instances of one name may be disrupted at once. Pure.

Tags of instances name them, `maintd:budget:NAME:N`; docs/windows.md explains the spelling. As
with Kubernetes' PodDisruptionBudget, an instance that is down already counts:

1. An instance counts if it should run but does not, or is not known to run; if its node is offline
   or does not answer; while a job of somebody else is at work on it; and from the plan to the end
   of a job of ours that stops it.
2. A failover and a reinstallation of a running instance stop it. So may a migration that may become
   a failover: without room in the budget it must stay a migration. A live migration counts only if
   the tag says so, a move of a secondary never.
3. No job is planned that would exceed a budget. An instance that is certainly down counts already,
   so moving it costs nothing: that is why dead nodes do not wait for a budget.
4. Where tags for one name differ, the strictest counts. An instance with an unreadable tag is not
   disrupted at all.

`evacuate-failover` does not wait either: who plans it says so.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import lru_cache
from itertools import islice
from typing import TypeAlias

from nodeagent.model.action import Move, MovePrimary, Reinstall
from nodeagent.model.instance_tags import BUDGET_TAG, FORMS, is_of_no_budget, of_maintd
from nodeagent.model.purpose import claimant
from nodeagent.model.reason import (
    AnyKind,
    BudgetKind,
    Detail,
    Held,
    Kind,
    Of,
    Reason,
    because,
    first_of,
)
from nodeagent.model.snapshot import Instance, Observed, Snapshot

BUDGET_LASTS: frozenset[AnyKind] = frozenset(
    {BudgetKind.BUDGET_DOWN, BudgetKind.BUDGET_NEVER, BudgetKind.BUDGET_UNREADABLE}
)
"""Waits for a budget that do not end by themselves."""
BUDGET_WAITS = BUDGET_LASTS | {BudgetKind.BUDGET_SPENT}
_NAMED = 3  # instances in one reason
_DIGITS = 5
_PERCENT, _LIVE = "percent", "live"
_RUNNING = "running"  # Ganeti's words for the states of instances
_DOWN = frozenset({"ERROR_down", "USER_down"})


class Cost(Enum):
    """The effect of a move on a running instance."""

    NOTHING = "it goes on"
    LIVE = "it migrates"
    MAYBE = "it migrates, or fails over if it cannot"
    STOPS = "it stops"


def cost(move: Move, instance: Instance) -> Cost:
    """Tell whether a move interrupts an instance."""
    if not instance.running:
        return Cost.NOTHING
    match move:
        case MovePrimary(live=True) if not instance.interrupted:
            return Cost.MAYBE if move.fallback else Cost.LIVE
        case MovePrimary() | Reinstall():
            return Cost.STOPS
        case _:
            return Cost.NOTHING


@dataclass(frozen=True, slots=True)
class Limit:
    """A readable tag: so many instances, or so many percent of them; `live`: migrations count."""

    name: str
    amount: int
    percent: bool = False
    live: bool = False

    def of(self, members: int) -> int:
        """Return the number of instances; a percentage rounds up, as Kubernetes has it."""
        return -(-self.amount * members // 100) if self.percent else self.amount


def read(tag: str) -> Limit | None:
    """Read a tag of a budget; None if it is wrong."""
    if not tag.startswith(BUDGET_TAG):
        return None
    name, *rest = tag.removeprefix(BUDGET_TAG).split(":")
    if not name or not rest or rest[1:] not in ([], [_LIVE]):
        return None
    number = rest[0].removesuffix(_PERCENT)
    percent = number != rest[0]
    if not (number.isascii() and number.isdecimal() and len(number) <= _DIGITS):
        return None
    if percent and int(number) > 100:
        return None
    return Limit(name, int(number), percent, live=bool(rest[1:]))


@dataclass(frozen=True, slots=True)
class Tags:
    """The readable tags of an instance's budgets, each with its limit, and its wrong tags.

    `names` are those of all of them, as far as they can be read.
    """

    readable: tuple[tuple[str, Limit], ...] = ()
    unreadable: tuple[str, ...] = ()
    names: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.readable or self.unreadable)


_NO_TAGS = Tags()


@lru_cache(maxsize=65_536)  # tags hardly change, and each round reads them all
def budget_tags(tags: frozenset[str]) -> Tags:
    """Find the tags of budgets among an instance's tags, and those that mean nothing."""
    own = [tag for tag in of_maintd(tags) if not is_of_no_budget(tag)]
    if not own:
        return _NO_TAGS
    limits = {tag: read(tag) for tag in own}
    names = (
        tag.removeprefix(BUDGET_TAG).partition(":")[0] for tag in own if tag.startswith(BUDGET_TAG)
    )
    return Tags(
        tuple((tag, limit) for tag, limit in limits.items() if limit is not None),
        tuple(tag for tag, limit in limits.items() if limit is None),
        tuple(dict.fromkeys(filter(None, names))),
    )


def nodes_to_ask(observed: Observed) -> list[str]:
    """Return the nodes whose instances' states budgets depend on; offline nodes answer nothing."""
    nodes = observed.snapshot.nodes
    wanted = {
        instance.primary
        for instance in observed.snapshot.instances.values()
        if instance.tags and instance.running and budget_tags(instance.tags)
    }
    return sorted(
        name for name in wanted - observed.unanswered if name in nodes and not nodes[name].offline
    )


@dataclass(frozen=True, slots=True)
class Counted:
    """Why an instance counts as disrupted, and the command that shows or ends that.

    `lasts`: this does not end with a running job. `free`: it is certainly down, so whatever is done
    to it disrupts nothing more.
    """

    why: str
    help: str
    lasts: bool = True
    free: bool = False


@dataclass(frozen=True, slots=True)
class Budget:
    """The strictest limit for a name: at most `most` instances at once.

    `instance` has the `tag` that says so. `differs` are, by the other tags, an instance with it.
    """

    name: str
    most: int
    live: bool
    instance: str
    tag: str
    differs: tuple[tuple[str, str], ...] = ()


_Tagged: TypeAlias = dict[str, tuple[Limit, str]]
"""By the different tags of one name, their limit and an instance with them."""


@dataclass
class Budgets:
    """All budgets in one round, and what counts against them by now.

    By name of the budget: `budgets`, and in `counted` the disrupted instances. By instance: `names`
    of its budgets, its `unreadable` tags, and its `state` if that counts.
    """

    budgets: dict[str, Budget] = field(default_factory=dict)
    counted: dict[str, dict[str, Counted]] = field(default_factory=dict)
    names: dict[str, tuple[str, ...]] = field(default_factory=dict)
    unreadable: dict[str, tuple[str, ...]] = field(default_factory=dict)
    state: dict[str, Counted] = field(default_factory=dict)
    lasting: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, observed: Observed) -> "Budgets":
        """Read all tags, and the state of the instances that have them, in one pass."""
        budgets, limits, members = cls(), dict[str, _Tagged](), dict[str, int]()
        for instance in observed.snapshot.instances.values():
            if not (instance.tags and (own := budget_tags(instance.tags))):
                continue
            budgets.names[instance.name] = own.names
            for tag, limit in own.readable:
                limits.setdefault(limit.name, {}).setdefault(tag, (limit, instance.name))
            if own.unreadable:
                budgets.unreadable[instance.name] = own.unreadable
            if not instance.running:
                continue
            for name in own.names:
                members[name] = members.get(name, 0) + 1
            if (state := _state(instance, observed)) is not None:
                budgets.state[instance.name] = state
                budgets._count(instance.name, state)
        budgets.budgets = {
            name: _strictest(name, tagged, members.get(name, 0)) for name, tagged in limits.items()
        }
        for unsure in budgets.unreadable:
            budgets.names[unsure] = tuple(name for name in budgets.names[unsure] if name in limits)
        budgets.counted = {name: own for name, own in budgets.counted.items() if name in limits}
        return budgets

    def plan(self, move: Move, instance: Instance, owner: str) -> None:
        """Count a planned or running job of ours, whoever wants it."""
        names = self.names.get(instance.name)
        if not names or (harm := cost(move, instance)) is Cost.NOTHING:
            return
        why, shows = f"{claimant(owner)} moves it", f"gnt-maint why {instance.name}"
        job = Counted(why, shows, lasts=False)
        for name in names:
            if harm is not Cost.LIVE or self.budgets[name].live:
                self._count_in(name, instance.name, job)

    def allow(self, move: Move, instance: Instance) -> Move | Reason:
        """Return the move as the budgets allow it now, or why it waits."""
        if instance.name not in self.names:
            return move
        harm = cost(move, instance)
        if (why := self.why_not(instance, harm)) is None:
            return move
        if isinstance(move, MovePrimary) and harm is Cost.MAYBE:
            return self.why_not(instance, Cost.LIVE) or replace(move, fallback=False)
        return why

    def why_not(self, instance: Instance, harm: Cost) -> Reason | None:
        """Why nothing may do this to an instance now; None if it may be done."""
        state = self.state.get(instance.name)
        if harm is Cost.NOTHING or (state is not None and state.free):
            return None
        if tags := self.unreadable.get(instance.name):
            return because(BudgetKind.BUDGET_UNREADABLE, instance.name, tag=tags[0], form=FORMS)
        for name in self.names.get(instance.name, ()):
            if harm is Cost.LIVE and not self.budgets[name].live:
                continue
            counted = self.counted.get(name, {})
            # One that counts already adds nothing; but it may run, so it does not go beyond.
            if len(counted) + (instance.name not in counted) > self.budgets[name].most:
                return self._full(self.budgets[name], instance)
        return None

    def stay(self) -> Iterator[str]:
        """Yield the instances that may not even migrate now."""
        yield from self.unreadable
        full = {
            name
            for name, budget in self.budgets.items()
            if budget.live and len(self.counted.get(name, ())) >= budget.most
        }
        if full:
            for instance, names in self.names.items():
                if instance not in self.unreadable and not full.isdisjoint(names):
                    yield instance

    # Told.

    def held(self, snapshot: Snapshot) -> Iterator[Held]:
        """Tell the wrong tags, tags that differ, and the exceeded budgets."""
        yield from first_of(list(self._wrong(snapshot)), BudgetKind.MORE_BUDGET_TAGS)
        yield from first_of(list(self._differing(snapshot)), BudgetKind.MORE_BUDGET_TAGS)
        for name, counted in self.counted.items():
            if len(counted) > self.budgets[name].most:
                yield Held(because(BudgetKind.BUDGET_EXCEEDED, **self._details(self.budgets[name])))

    def _wrong(self, snapshot: Snapshot) -> Iterator[Held]:
        then = "until then maintd plans nothing that interrupts it"
        for instance, tags in self.unreadable.items():
            for tag in tags:
                details = {"fault": FORMS, "tag": tag, "then": then}
                why = because(
                    Kind.WRONG_TAG, instance, Of.INSTANCE, command="gnt-instance", **details
                )
                yield Held(why, _node(snapshot, instance))

    def _differing(self, snapshot: Snapshot) -> Iterator[Held]:
        for budget in self.budgets.values():
            if budget.differs:
                tag, instance = budget.differs[0]
                tags = (budget.tag, *islice((tag for tag, _ in budget.differs), _NAMED))
                details: dict[str, Detail] = {"budget": budget.name, "tags": tags, "tag": tag}
                why = because(BudgetKind.BUDGET_DIFFERS, instance, **details, counts=budget.tag)
                yield Held(why, _node(snapshot, instance))

    def _details(self, budget: Budget) -> dict[str, Detail]:
        """Tell who counts, first those that are down, and the command that helps the first."""
        counted = sorted(
            self.counted[budget.name].items(), key=lambda named: (not named[1].lasts, named[0])
        )
        whom = [f"{name} ({disruption.why})" for name, disruption in counted[:_NAMED]]
        if more := len(counted) - len(whom):
            whom.append(f"and {more} more")
        _, first = counted[0]
        return {
            "budget": budget.name,
            "most": budget.most,
            "whom": tuple(whom),
            "helps": first.help,
        }

    def _full(self, budget: Budget, instance: Instance) -> Reason:
        """Say why a budget allows no more: for a while, until somebody acts, or ever."""
        if budget.most == 0:
            details: dict[str, Detail] = {"budget": budget.name, "holder": budget.instance}
            return because(BudgetKind.BUDGET_NEVER, instance.name, **details, tag=budget.tag)
        lasts = self.lasting.get(budget.name, 0) >= budget.most
        kind = BudgetKind.BUDGET_DOWN if lasts else BudgetKind.BUDGET_SPENT
        return because(kind, instance.name, **self._details(budget))

    # Count.

    def _count(self, instance: str, why: Counted) -> None:
        for name in self.names[instance]:
            self._count_in(name, instance, why)

    def _count_in(self, name: str, instance: str, why: Counted) -> None:
        counted = self.counted.setdefault(name, {})
        if instance not in counted:
            self.lasting[name] = self.lasting.get(name, 0) + why.lasts
            counted[instance] = why


def _strictest(name: str, tagged: _Tagged, members: int) -> Budget:
    """Return the budget of a name with so many members that should run."""

    def order(tag: str) -> tuple[int, bool, str]:
        limit, _ = tagged[tag]
        return limit.of(members), not limit.live, tag

    first, *others = sorted(tagged, key=order) if len(tagged) > 1 else tagged
    limit, instance = tagged[first]
    return Budget(
        name=name,
        most=limit.of(members),
        live=limit.live or any(tagged[tag][0].live for tag in others),
        instance=instance,
        tag=first,
        differs=tuple((tag, tagged[tag][1]) for tag in others),
    )


def _state(instance: Instance, observed: Observed) -> Counted | None:
    """Why an instance that should run counts as disrupted; None if it does not."""
    name, primary = instance.name, instance.primary
    node = observed.snapshot.nodes.get(primary)
    if node is not None and node.offline:
        return Counted(f"its node {primary} is offline", f"gnt-maint why {primary}", free=True)
    if primary in observed.unanswered and not observed.noded.get(primary):
        return Counted(f"its node {primary} does not answer", f"gnt-maint why {primary}")
    if observed.running is not None:
        running = observed.running.get(name)
        if running is None:
            return Counted("its state is unknown", f"gnt-instance info {name}")
        if running.status in _DOWN:
            status, start = running.status, f"gnt-instance startup {name}"
            return Counted(f"it is down, {status}", start, free=True)
        if running.status != _RUNNING:
            return Counted(f"its state is {running.status}", f"gnt-instance info {name}")
    if (job := observed.busy.get(name)) is not None:
        return Counted(f"job {job} is at work on it", f"gnt-job info {job}", lasts=False)
    return None


def _node(snapshot: Snapshot, instance: str) -> str:
    return snapshot.instances[instance].primary
