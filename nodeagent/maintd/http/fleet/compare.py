"""The commands of all nodes, and which nodes differ from most of their group. Pure."""

from collections.abc import Mapping
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
_read_commands = lru_cache(64)(read_commands)  # many nodes have the same text


@dataclass(frozen=True, slots=True)
class NodeCommands:
    """The commands of a node with their last runs.

    `unknown` is empty, or the word why they are unknown: as `how_seen` has it, `not-told` by an
    older agent or one that has just begun, or `unreadable`. `why` may say more.
    """

    rows: Mapping[_Key, tuple[Command, LastRun]] = field(default_factory=dict)
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
    told, runs = look.report.commands, look.report.last_runs
    if told is None or runs is None:
        return NodeCommands(
            unknown="not-told", why=f"agent {look.report.software or '?'} tells none"
        )
    try:
        commands = _read_commands(told)
        pairs = zip(commands, read_runs(runs, len(commands)), strict=True)
    except MessageError as error:
        return NodeCommands(unknown="unreadable", why=str(error))
    return NodeCommands({(use_of(one.kind), one.name): (one, run) for one, run in pairs})


def use_of(kind: str) -> str:
    """Return the use of a kind of command: `diagnose` or `repair`."""
    return _USES.get(kind, kind)


def compare(nodes: Mapping[str, NodeCommands]) -> list[Compared]:
    """Compare the commands of a group's nodes; those of unknown commands do not count."""
    known = {name: one for name, one in nodes.items() if not one.unknown}
    keys = sorted({key for one in known.values() for key in one.rows})
    return [_compared(key, known) for key in keys]


def _compared(key: _Key, nodes: Mapping[str, NodeCommands]) -> Compared:
    alike: dict[Command | None, list[str]] = {}
    for name, one in nodes.items():
        command = one.rows[key][0] if key in one.rows else None
        alike.setdefault(command, []).append(name)
    variants = [Variant(command, tuple(names)) for command, names in alike.items()]
    variants.sort(key=lambda variant: (-len(variant.nodes), variant.nodes))
    first, *others = variants
    if len(first.nodes) * 2 > len(nodes):
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
