"""The commands of all nodes, and which nodes differ from most of their group. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from nodeagent.errors import MessageError
from nodeagent.maintd.ledger.agent_events import how_seen
from nodeagent.protocol.commands import Command, Kind, LastRun, read_commands, read_runs
from nodeagent.protocol.look import Look, Seen

_Key = tuple[str, str]  # use and name: a diagnose and a repair command may have one name
_USES: Mapping[str, str] = {
    Kind.AUDIT: Kind.DIAGNOSE,
    Kind.QUEUE: Kind.REPAIR,
    Kind.CHECK: Kind.REPAIR,
}


@dataclass(frozen=True, slots=True)
class NodeCommands:
    """The commands of a node, and their last runs in the same order.

    `unknown` is empty, or the word why they are unknown: as `how_seen` has it, `not-told` by an
    agent of 0.2.0 or one that has just begun, or `unreadable`. `why` may say more.
    """

    commands: Mapping[_Key, Command] = field(default_factory=dict)
    runs: tuple[LastRun, ...] = ()
    unknown: str = ""
    why: str = ""


@dataclass(frozen=True, slots=True)
class Variant:
    """Nodes of a group that have the same of one command; `command` is None if they lack it."""

    command: Command | None
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Compared:
    """One command in a group. `usual` is the variant of more than half of its known nodes, if any.

    `others` are the other variants, the largest first.
    """

    use: str
    name: str
    usual: Variant | None
    others: tuple[Variant, ...]


def commands_of(look: Look | None) -> NodeCommands:
    """Read the commands from the result of polling a node."""
    if not isinstance(look, Seen):
        unknown, why = how_seen(look)
        return NodeCommands(unknown=unknown, why=why or "")
    reported, runs = look.report.commands, look.report.last_runs
    if reported is None or runs is None:
        return NodeCommands(
            unknown="not-told", why=f"agent {look.report.software or '?'} tells none"
        )
    try:
        commands = _read(reported)
        return NodeCommands(commands, read_runs(runs, len(commands)))
    except MessageError as error:
        return NodeCommands(unknown="unreadable", why=str(error))


@lru_cache(64)
def _read(text: str) -> Mapping[_Key, Command]:
    """Read the text of commands, once for all nodes that have the same."""
    return {(use_of(command.kind), command.name): command for command in read_commands(text)}


def use_of(kind: str) -> str:
    """Return the use of a kind of command: `diagnose` or `repair`."""
    return _USES.get(kind, kind)


def compare(nodes: Mapping[str, NodeCommands]) -> list[Compared]:
    """Compare the commands of a group's nodes; those of unknown commands do not count.

    Few lists are compared, not many nodes: nodes of the same text have the same object.
    """
    alike: dict[int, tuple[Mapping[_Key, Command], list[str]]] = {}
    for name, node_commands in nodes.items():
        if not node_commands.unknown:
            alike.setdefault(id(node_commands.commands), (node_commands.commands, []))[1].append(
                name
            )
    lists = list(alike.values())
    keys = sorted({key for commands, _ in lists for key in commands})
    places = {name: place for place, name in enumerate(nodes)}
    return [_compared(key, lists, places) for key in keys]


def _compared(
    key: _Key,
    lists: Sequence[tuple[Mapping[_Key, Command], list[str]]],
    places: Mapping[str, int],
) -> Compared:
    nodes_by_command: dict[Command | None, list[str]] = {}
    for commands, names in lists:
        nodes_by_command.setdefault(commands.get(key), []).extend(names)
    variants = [
        Variant(command, tuple(sorted(names, key=places.__getitem__)))
        for command, names in nodes_by_command.items()
    ]
    variants.sort(key=lambda variant: (-len(variant.nodes), places[variant.nodes[0]]))
    first, *others = variants
    if len(first.nodes) * 2 > sum(len(names) for _, names in lists):
        return Compared(*key, first, tuple(others))
    return Compared(*key, None, tuple(variants))


def differences(command: Command | None, usual: Command | None) -> tuple[str, ...]:
    """Name what differs from the usual command: members, or `absent` or `extra` as a whole."""
    if command is None or usual is None:
        return () if command is usual else ("absent",) if command is None else ("extra",)
    names = ["kind", "state", "timeout", "settings"]
    if command.digest and usual.digest:  # else its state differs
        names.insert(2, "digest")
    return tuple(name for name in names if getattr(command, name) != getattr(usual, name))
