"""Actions on a cluster, as values. Pure."""

from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from nodeagent.model.units import Seconds


class Scope(Enum):
    """The objects that can carry a tag or a hold; the words are Ganeti's."""

    CLUSTER = "cluster"
    GROUP = "nodegroup"
    NODE = "node"
    INSTANCE = "instance"


@dataclass(frozen=True, slots=True)
class Drain:
    """Let the node take no new instances.

    With `promote` another node becomes master candidate in its place. That locks all nodes, and
    so waits for every job there is: only for a node that is one.
    """

    node: str
    promote: bool = False


@dataclass(frozen=True, slots=True)
class MovePrimary:
    """Move an instance off `node`; `live` by migration, else by failover.

    `target` is the other side where the disk is mirrored: Ganeti would find it by itself, and
    would move an instance that has moved already back again; None is for jobs read back without
    one. `fallback` lets a migration become a failover where migrating is impossible, `unchecked`
    lets a failover start on a side that is not known to be consistent.
    """

    instance: str
    node: str
    live: bool
    target: str | None = None
    fallback: bool = True
    unchecked: bool = False


@dataclass(frozen=True, slots=True)
class MoveSecondary:
    """Give an instance whose secondary is `node` a new secondary, `target`."""

    instance: str
    node: str
    target: str


@dataclass(frozen=True, slots=True)
class SetOffline:
    """Have the cluster ignore the node; `promote` as with Drain."""

    node: str
    promote: bool = False


@dataclass(frozen=True, slots=True)
class Restore:
    """Put a node that is out of service back into it, or, from offline, only to being `drained`."""

    node: str
    drained: bool = False


@dataclass(frozen=True, slots=True)
class RunCommand:
    """Order the node's agent to run a repair command with `stdin`, the diagnosis text.

    `attempt` counts how often the command has asked to be tried again. For the repair queue `stdin`
    is the entry, and `seconds` how long the command may run (0: as its agent lets it).
    """

    node: str
    command: str
    stdin: str
    attempt: int = 0
    seconds: Seconds = field(default=Seconds(0), metadata={"later": True})


@dataclass(frozen=True, slots=True)
class Retag:
    """Take tags off and put tags on one object, as one job: all of it or nothing.

    Taking off a tag that has gone fails the whole job, so this is a compare-and-swap.
    `name` is empty for the cluster.
    """

    scope: Scope
    name: str
    add: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Reinstall:
    """Give an instance new, empty disks on other nodes and install it anew: its data are lost.

    `node` is where it was, `target` where it is to be, `mirror` the other side where its disks
    are mirrored. It is started afterwards if `running`.
    """

    instance: str
    node: str
    target: str
    mirror: str | None = None
    running: bool = True


@dataclass(frozen=True, slots=True)
class Guarded:
    """Change tags and then do `then`, as one job: nothing is done unless the tags were as said.

    So the tags tell of every job that has begun, and of two who want the same one comes first.
    """

    swap: Retag
    then: MovePrimary | MoveSecondary | Reinstall


Action: TypeAlias = (
    Drain
    | MovePrimary
    | MoveSecondary
    | SetOffline
    | Restore
    | RunCommand
    | Retag
    | Reinstall
    | Guarded
)
Move: TypeAlias = MovePrimary | MoveSecondary | Reinstall


def move_of(action: Action) -> Move | None:
    """Return what an action does to an instance's nodes, guarded or not."""
    if isinstance(action, Guarded):
        return action.then
    return action if isinstance(action, MovePrimary | MoveSecondary | Reinstall) else None


def describe(action: Action) -> str:
    """The action in a few words, for people."""
    match action:
        case Drain(node):
            return f"drain {node}"
        case MovePrimary(instance, node, live, target):
            verb = "migrate" if live else "fail over"
            return f"{verb} {instance} off {node}" + (f" to {target}" if target else "")
        case MoveSecondary(instance, node, target):
            return f"move the secondary of {instance} from {node} to {target}"
        case SetOffline(node):
            return f"take {node} offline"
        case Restore(node, drained):
            return f"put {node} back to being drained" if drained else f"put {node} back in service"
        case Reinstall(instance, node, target, mirror):
            where = f"{target} and {mirror}" if mirror else target
            return f"reinstall {instance}, whose disks on {node} are lost, on {where}"
        case Guarded(_, then):
            return describe(then)
        case RunCommand(node, command):
            return f"order {node} to run {command}"
        case Retag(scope, name, add, remove):
            words = [f"+{tag}" for tag in add] + [f"-{tag}" for tag in remove]
            return f"tag {name or scope.value} {' '.join(words)}"
