"""The repairs that tags allow for an instance, and the tag and object that decide. Pure.

The nearest object with a tag decides alone: the instance, the node group of its primary node, the
cluster. Within one object a suspension overrides everything, the longest overrides shorter ones,
and of several types the least destructive counts.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from math import inf

from nodeagent.autorepair.tags import (
    Enable,
    Malformed,
    Part,
    RepairType,
    Suspend,
    about_repairs,
    read,
)
from nodeagent.model.action import Retag, Scope
from nodeagent.model.snapshot import Instance, Snapshot
from nodeagent.model.units import Ms


@dataclass(frozen=True, slots=True)
class Permission:
    """The tag that decides, and the object that carries it; `name` is empty for the cluster.

    `tag` is None if no object has one. An unreadable tag allows nothing, and one that resembles a
    suspension counts as one, for ever.
    """

    tag: Enable | Suspend | Malformed | None = None
    scope: Scope = Scope.CLUSTER
    name: str = ""

    @property
    def allows(self) -> RepairType | None:
        """Return the most destructive type of repair that may start."""
        return self.tag.kind if isinstance(self.tag, Enable) else None

    @property
    def says(self) -> str:
        match self.tag:
            case None:
                return "nothing"
            case Enable():
                return "enabled"
            case Suspend() | Malformed(part=Part.SUSPEND):
                return "suspended"
            case Malformed():
                return "unreadable"

    @property
    def words(self) -> str:
        match self.tag:
            case None:
                return "no tag allows a repair"
            case Enable(_, kind):
                return f"repairs up to {kind.word} are allowed by {self._source}"
            case Suspend(_, None):
                return f"suspended by {self._source}"
            case Suspend(_, until):
                return f"suspended until {until} (unix seconds) by {self._source}"
            case Malformed(_, Part.SUSPEND, why):
                return f"suspended by {self._source}: {why}, which is taken for ever"
            case Malformed(_, _, why):
                return f"nothing is allowed while {self._source} cannot be read: {why}"

    @property
    def _source(self) -> str:
        assert self.tag is not None
        where = {Scope.CLUSTER: "the cluster", Scope.GROUP: f"node group {self.name}"}
        return f"tag {self.tag.tag} on {where.get(self.scope, f'instance {self.name}')}"


@dataclass
class Permissions:
    """The permissions of a cluster's instances at one moment (unix ms).

    Unless `safe`, unreadable tags are ignored, as harep does.
    """

    snapshot: Snapshot
    now: Ms
    safe: bool = True
    _groups: dict[str, Permission] = field(init=False)

    def __post_init__(self) -> None:
        cluster = self._of(self.snapshot.tags, Scope.CLUSTER, "") or Permission()
        self._groups = {
            group.uuid: self._of(group.tags, Scope.GROUP, group.name) or cluster
            for group in self.snapshot.groups.values()
        }

    def of(self, instance: Instance) -> Permission:
        if instance.tags and (own := self._of(instance.tags, Scope.INSTANCE, instance.name)):
            return own
        return self._groups[self.snapshot.nodes[instance.primary].group]

    def _of(self, tags: Collection[str], scope: Scope, name: str) -> Permission | None:
        """Return the permission of one object by itself, if any."""
        enables: list[Enable] = []
        suspends: list[Suspend] = []
        unreadable: list[Malformed] = []
        for tag in about_repairs(tags):
            match read(tag, strict=self.safe):
                case Enable() as enable:
                    enables.append(enable)
                case Suspend() as suspend if not _expired(suspend, self.now):
                    suspends.append(suspend)
                case Malformed(part=Part.ENABLE | Part.SUSPEND) as malformed if self.safe:
                    unreadable.append(malformed)
        longest_first = sorted(suspends, key=lambda s: -inf if s.until is None else -s.until)
        in_order: tuple[Enable | Suspend | Malformed, ...] = (
            *(malformed for malformed in unreadable if malformed.part is Part.SUSPEND),
            *longest_first,
            *unreadable,
            *sorted(enables, key=lambda enable: enable.kind),
        )
        return Permission(in_order[0], scope, name) if in_order else None


def expired(snapshot: Snapshot, now: Ms) -> Iterable[Retag]:
    """Tag changes that remove expired suspensions, one for each object."""
    objects = [
        *((Scope.GROUP, group.name, group.tags) for group in snapshot.groups.values()),
        (Scope.CLUSTER, "", snapshot.tags),
        *((Scope.INSTANCE, i.name, i.tags) for i in snapshot.instances.values() if i.tags),
    ]
    for scope, name, tags in objects:
        suspends = [
            meaning for tag in about_repairs(tags) if isinstance(meaning := read(tag), Suspend)
        ]
        if old := tuple(suspend.tag for suspend in suspends if _expired(suspend, now)):
            yield Retag(scope, name, remove=old)


def _expired(suspend: Suspend, now: Ms) -> bool:
    """Tell whether a suspension is over: it ends with the very second that it names."""
    return suspend.until is not None and suspend.until * 1000 <= now
