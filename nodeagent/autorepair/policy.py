"""The repairs that tags allow for an instance, and the tag and object that decide. Pure.

The nearest object with a tag decides alone: the instance, the node group of its primary node, the
cluster. Within one object a suspension overrides everything, the longest overrides shorter ones,
and of several types the least destructive counts.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from math import inf
from typing import TypeAlias

from nodeagent.autorepair.tags import PREFIX, Enable, Malformed, Part, RepairType, Suspend, read
from nodeagent.model.action import Retag, Scope
from nodeagent.model.snapshot import Instance, Snapshot
from nodeagent.model.units import Ms, Seconds


@dataclass(frozen=True, slots=True)
class Source:
    """A tag, and the object that carries it; `name` is empty for the cluster."""

    tag: str
    scope: Scope
    name: str

    def __str__(self) -> str:
        where = {Scope.CLUSTER: "the cluster", Scope.GROUP: f"node group {self.name}"}
        return f"tag {self.tag} on {where.get(self.scope, f'instance {self.name}')}"


@dataclass(frozen=True, slots=True)
class Enabled:
    kind: RepairType
    source: Source


@dataclass(frozen=True, slots=True)
class Suspended:
    """No repair may start or go on `until` (unix seconds), None for ever.

    `why` says that the tag only resembles a suspension and counts as one.
    """

    until: Seconds | None
    source: Source
    why: str = ""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """The nearest object has an unreadable tag, so no repair is allowed."""

    why: str
    source: Source


@dataclass(frozen=True, slots=True)
class NotEnabled:
    """No object has a tag."""


Policy: TypeAlias = Enabled | Suspended | Unreadable | NotEnabled


def in_words(policy: Policy) -> str:
    match policy:
        case Enabled(kind, source):
            return f"repairs up to {kind.word} are allowed by {source}"
        case Suspended(None, source, ""):
            return f"suspended by {source}"
        case Suspended(None, source, why):
            return f"suspended by {source}: {why}, which is taken for ever"
        case Suspended(until, source):
            return f"suspended until {until} (unix seconds) by {source}"
        case Unreadable(why, source):
            return f"nothing is allowed while {source} cannot be read: {why}"
        case NotEnabled():
            return "no tag allows a repair"


@dataclass
class Policies:
    """The policies of a cluster's instances at one moment (unix ms).

    `strict` is the safe reading: an unreadable suspension suspends for ever, and an unreadable type
    allows nothing. Else, as with harep, both are ignored.
    """

    snapshot: Snapshot
    now: Ms
    strict: bool = True
    _cluster: Policy = field(init=False)
    _groups: dict[str, Policy] = field(init=False)

    def __post_init__(self) -> None:
        self._cluster = self._of(self.snapshot.tags, Scope.CLUSTER, "") or NotEnabled()
        self._groups = {
            group.uuid: self._of(group.tags, Scope.GROUP, group.name) or self._cluster
            for group in self.snapshot.groups.values()
        }

    def of(self, instance: Instance) -> Policy:
        if instance.tags and (own := self._of(instance.tags, Scope.INSTANCE, instance.name)):
            return own
        return self._groups[self.snapshot.nodes[instance.primary].group]

    def _of(self, tags: Collection[str], scope: Scope, name: str) -> Policy | None:
        """Return the policy of one object by itself, if any."""
        if not (mine := _ours(tags)):
            return None
        kinds: list[Enable] = []
        ends: list[Suspend] = []
        faults: list[Malformed] = []
        for tag in mine:
            match read(tag, strict=self.strict):
                case Enable() as enable:
                    kinds.append(enable)
                case Suspend() as suspend if not _expired(suspend, self.now):
                    ends.append(suspend)
                case Malformed(part=Part.ENABLE | Part.SUSPEND) as fault if self.strict:
                    faults.append(fault)
        for fault in faults:
            if fault.part is Part.SUSPEND:
                return Suspended(None, Source(fault.tag, scope, name), fault.why)
        if ends:
            longest = max(ends, key=lambda end: inf if end.until is None else end.until)
            return Suspended(longest.until, Source(longest.tag, scope, name))
        if faults:
            return Unreadable(faults[0].why, Source(faults[0].tag, scope, name))
        if kinds:
            least = min(kinds, key=lambda enable: enable.kind)
            return Enabled(least.kind, Source(least.tag, scope, name))
        return None


def expired(snapshot: Snapshot, now: Ms) -> Iterable[Retag]:
    """Tag changes that remove expired suspensions, one for each object."""
    for group in snapshot.groups.values():
        yield from _cleared(group.tags, Scope.GROUP, group.name, now)
    yield from _cleared(snapshot.tags, Scope.CLUSTER, "", now)
    for instance in snapshot.instances.values():
        if instance.tags:
            yield from _cleared(instance.tags, Scope.INSTANCE, instance.name, now)


def _cleared(tags: Collection[str], scope: Scope, name: str, now: Ms) -> Iterable[Retag]:
    old = tuple(
        tag
        for tag in _ours(tags)
        if isinstance(meaning := read(tag), Suspend) and _expired(meaning, now)
    )
    if old:
        yield Retag(scope, name, remove=old)


def _ours(tags: Collection[str]) -> list[str]:
    return sorted(tag for tag in tags if tag.startswith(PREFIX[:-1]))


def _expired(suspend: Suspend, now: Ms) -> bool:
    """Tell whether a suspension is over: it ends with the very second that it names."""
    return suspend.until is not None and suspend.until * 1000 <= now
