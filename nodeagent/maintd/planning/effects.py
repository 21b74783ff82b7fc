"""Check whether the purpose of a job is visible in the cluster, whatever its result. Pure."""

from nodeagent.model.action import (
    Action,
    Drain,
    Guarded,
    MovePrimary,
    MoveSecondary,
    Power,
    Reinstall,
    Restore,
    Retag,
    RunCommand,
    Scope,
    SetOffline,
)
from nodeagent.model.snapshot import Snapshot


def is_seen(action: Action, snapshot: Snapshot) -> bool:
    """Check whether the cluster is as the action leaves it.

    Ganeti never shows the effect of a command, nor of a power control.
    """
    match action:
        case Drain(node):
            seen = snapshot.nodes.get(node)
            return seen is not None and seen.is_out
        case SetOffline(node):
            seen = snapshot.nodes.get(node)
            return seen is not None and seen.offline
        case Restore(node, drained):
            seen = snapshot.nodes.get(node)
            return seen is None or not (seen.offline or (seen.drained and not drained))
        case MovePrimary(name, node):
            instance = snapshot.instances.get(name)
            return instance is None or instance.primary != node
        case MoveSecondary(name, node):
            instance = snapshot.instances.get(name)
            return instance is None or node not in (instance.primary, instance.secondary)
        case Reinstall(name, _, target, mirror):
            instance = snapshot.instances.get(name)
            return instance is None or (instance.primary, instance.secondary) == (target, mirror)
        case Guarded(_, then):
            return is_seen(then, snapshot)
        case Retag(scope, name, add, remove):
            tags = tags_of(scope, name, snapshot)
            return tags is not None and tags.issuperset(add) and tags.isdisjoint(remove)
        case RunCommand() | Power():
            return False


def is_whole(action: Action) -> bool:
    """Check whether nothing is left of an action to be done where its effect is seen.

    Flags and tags are a line of the configuration; an instance may have moved and not run.
    """
    match action:
        case Drain() | SetOffline() | Restore() | Retag():
            return True
        case Guarded(_, then):
            return is_whole(then)
        case _:
            return False


def is_of_nothing(action: Action | None, snapshot: Snapshot) -> bool:
    """Check whether it moves an instance that no longer exists: somebody removed it.

    During the removal Ganeti shows the instance without disks, as one that could go anywhere.
    """
    match action:
        case MovePrimary(name) | MoveSecondary(name):
            return name not in snapshot.instances
        case _:
            return False


def tags_of(scope: Scope, name: str, snapshot: Snapshot) -> frozenset[str] | None:
    """The tags of one object, None if it does not exist; a group is found by its name."""
    match scope:
        case Scope.CLUSTER:
            return snapshot.tags
        case Scope.NODE:
            node = snapshot.nodes.get(name)
            return None if node is None else node.tags
        case Scope.INSTANCE:
            instance = snapshot.instances.get(name)
            return None if instance is None else instance.tags
        case Scope.GROUP:
            return next((g.tags for g in snapshot.groups.values() if g.name == name), None)
