"""What can be done to a cluster, as values. Pure."""

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Drain:
    """Let the node take no new instances."""

    node: str


@dataclass(frozen=True, slots=True)
class MovePrimary:
    """Move an instance to its secondary; `live` by migration, else by failover."""

    instance: str
    node: str
    live: bool


@dataclass(frozen=True, slots=True)
class MoveSecondary:
    """Give an instance whose secondary is `node` a new secondary, `target`."""

    instance: str
    node: str
    target: str


@dataclass(frozen=True, slots=True)
class SetOffline:
    """Have the cluster ignore the node."""

    node: str


@dataclass(frozen=True, slots=True)
class RunCommand:
    """Order the node's agent to run a repair command with `stdin`, the diagnosis text."""

    node: str
    command: str
    stdin: str


@dataclass(frozen=True, slots=True)
class AddTag:
    """Tag the node."""

    node: str
    tag: str


Action: TypeAlias = Drain | MovePrimary | MoveSecondary | SetOffline | RunCommand | AddTag
