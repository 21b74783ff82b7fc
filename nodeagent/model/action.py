"""Actions on a cluster, as values. Pure.

A new action is a class here, a case in each of these places, and a job in the conformance suite:

- nodeagent/model/action.py: `Action`; `Move`, if it moves an instance
- nodeagent/cluster/ganeti/opcodes.py: the opcodes of its job, and the action read back from a job
- nodeagent/maintd/planning/effects.py: how its effect is seen in a snapshot
- nodeagent/maintd/planning/resources.py: the room and the nodes that a move claims
- simulation/world.py: its effect on the simulated cluster
- tests/cluster/test_conformance.py: the same job by LUXI and simulated
"""

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, TypeAlias

from nodeagent.model.tag import Scope as Scope
from nodeagent.model.units import Ms, Seconds


@dataclass(frozen=True, slots=True)
class Drain:
    """Let the node take no new instances.

    With `promote` Ganeti promotes another node to master candidate in its place. That locks all
    nodes, and so waits for every job: set it only for a master candidate.
    """

    node: str
    promote: bool = False


@dataclass(frozen=True, slots=True)
class MovePrimary:
    """Move an instance off `node`; `live` by migration, else by failover.

    `target` is the secondary node of a DRBD instance. Ganeti would find it without a name, and
    would move an instance that has already moved back again. Only jobs read back without a target
    have None. `fallback` lets a migration become a failover where migration is impossible.
    `unchecked` lets a failover start on a secondary that is not known to be consistent.
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
    """Mark the node offline in the cluster; `promote` as with Drain.

    `unpowered` records there that the node has no power, as after a proven power-off.
    """

    node: str
    promote: bool = False
    unpowered: bool = False


@dataclass(frozen=True, slots=True)
class Restore:
    """Put a node back into service, or only from offline to `drained`.

    `candidate` makes it a master candidate again; else it is one only if Ganeti lacks candidates.
    """

    node: str
    drained: bool = False
    candidate: bool = False


class PowerCommand(Enum):
    """A command to a node's power control; the words are Ganeti's."""

    STATUS = "power-status"
    OFF = "power-off"
    ON = "power-on"
    CYCLE = "power-cycle"


@dataclass(frozen=True, slots=True)
class Power:
    """Ask or change the power of one node, by its full name, through Ganeti's `oob_program`.

    Ganeti calls the job a success even where the power control failed: only the result of its
    opcode tells. Here such a job has failed.
    """

    node: str
    command: PowerCommand


@dataclass(frozen=True, slots=True)
class RunCommand:
    """Order the node's agent to run a repair command with `stdin`, the diagnosis text.

    `attempt` counts how often the command has asked for another try. For the repair queue `stdin`
    is the entry, and `seconds` the time limit of the command (0: the agent's own).
    """

    node: str
    command: str
    stdin: str
    attempt: int = 0
    seconds: Seconds = Seconds(0)


@dataclass(frozen=True, slots=True)
class Retag:
    """Remove tags from one object and add tags to it, as one job: all of it or nothing.

    If a tag to remove is missing, the whole job fails, so this is a compare-and-swap. `name` is
    empty for the cluster.
    """

    scope: Scope
    name: str
    add: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()


class TagPlace(NamedTuple):
    """A tag and its place: a node or group by its name, or the cluster."""

    scope: Scope
    name: str
    tag: str


@dataclass(frozen=True, slots=True)
class Reinstall:
    """Give an instance new, empty disks on other nodes and install it again: its data are lost.

    `node` is its primary node until now, `target` the new one, `mirror` the new secondary of a DRBD
    instance. If `running`, the job starts the instance afterwards.
    """

    instance: str
    node: str
    target: str
    mirror: str | None = None
    running: bool = True


NOTE_WITHIN = Ms(10_000)  # as harep waits


@dataclass(frozen=True, slots=True)
class Guarded:
    """Change tags, then do `then`, as one job: it does nothing unless the tags were as given.

    So the tags show every job that has started, and only one of two rivals wins. Between the two it
    waits for `NOTE_WITHIN`, without a lock: until then a tag can name the job.
    """

    swap: Retag
    then: MovePrimary | MoveSecondary | Reinstall


Action: TypeAlias = (
    Drain
    | MovePrimary
    | MoveSecondary
    | SetOffline
    | Restore
    | Power
    | RunCommand
    | Retag
    | Reinstall
    | Guarded
)
Move: TypeAlias = MovePrimary | MoveSecondary | Reinstall


def move_of(action: Action) -> Move | None:
    """Return the move of an instance in an action, guarded or not."""
    if isinstance(action, Guarded):
        return action.then
    return action if isinstance(action, MovePrimary | MoveSecondary | Reinstall) else None


_POWER = {
    PowerCommand.STATUS: "ask for the power of",
    PowerCommand.OFF: "power off",
    PowerCommand.ON: "power on",
    PowerCommand.CYCLE: "power-cycle",
}


def describe(action: Action) -> str:
    """Describe the action in a few words, for people."""
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
        case Power(node, command):
            return f"{_POWER[command]} {node}"
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
