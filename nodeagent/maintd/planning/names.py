"""Names of machines: by host name or address, and the node each means. Pure."""

from collections.abc import Container
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address
from typing import TypeAlias

from nodeagent.errors import MessageError
from nodeagent.model.address import one_form, read_address
from nodeagent.model.short_name import forms, plain
from nodeagent.model.snapshot import Node, Snapshot
from nodeagent.model.window import Machine

Identity: TypeAlias = str | tuple[str, str]
"""The same for all names of one machine: the UUID of its node, or else the name itself."""


def no_such(kind: str, name: str) -> str:
    """Refuse a name that no node, group or incident has, with the command that lists them."""
    return f"there is no {kind} {name}: see gnt-maint {kind}s"


def node_of(machine: Machine, snapshot: Snapshot) -> Node | None:
    """The node with this identity; None if no node matches, or two."""
    return Names(snapshot).only(machine)


class Names:
    def __init__(self, snapshot: Snapshot) -> None:
        self._by_name: dict[str, list[Node]] = {}
        self._by_address: dict[str, list[Node]] = {}
        for node in snapshot.nodes.values():
            for called in forms(node.name):
                self._by_name.setdefault(called, []).append(node)
            self._by_address.setdefault(one_form(node.address), []).append(node)

    def node(self, machine: Machine) -> Node | str | None:
        """The node; None if the machine is outside this cluster; or why the answer is unclear."""
        named = self._one(self._by_name, plain(machine.hostname))
        at = self._one(self._by_address, machine.ip)
        if isinstance(named, str) or isinstance(at, str):
            return f"machine {machine}: several nodes are called so"
        if not (machine.hostname and machine.ip) or named == at:
            return named or at
        if named is None:
            assert at is not None
            return f"machine {machine}: {machine.ip} is the node {at.name}"
        return f"machine {machine}: the node {named.name} has the address {named.address}"

    def only(self, machine: Machine) -> Node | None:
        """The node; None if no node matches, or two."""
        node = self.node(machine)
        return node if isinstance(node, Node) else None

    def identity(self, machine: Machine) -> Identity:
        node = self.node(machine)
        return node.uuid if isinstance(node, Node) else machine.key

    @staticmethod
    def _one(nodes: dict[str, list[Node]], name: str) -> Node | str | None:
        named = nodes.get(name, []) if name else []
        exact = [node for node in named if plain(node.name) == name] or named
        return "several" if len(exact) > 1 else exact[0] if exact else None


# Machines by address, in the cluster or outside.


def node_at(address: str, snapshot: Snapshot) -> Node | None:
    """The node with this address or name; None for a machine outside the cluster."""
    named = snapshot.nodes.get(address)
    return named or next((n for n in snapshot.nodes.values() if n.address == address), None)


def address_of(text: str, snapshot: Snapshot, known: Container[str]) -> str:
    """The address of a machine in its normal form. `known` are the addresses of nodes.

    MessageError: it is not an address, or a special one: a repair of "127.0.0.1" would repair the
    master.
    """
    node = snapshot.nodes.get(text)
    if node is not None:
        return node.address
    try:
        address, nobodys = _read(text)
    except ValueError:
        raise MessageError(f"{text!r} is neither an address nor a node") from None
    if nobodys and address not in known:
        raise MessageError(f"{text!r} is not an address of a machine")
    return address


@lru_cache(maxsize=16_384)  # sources may report thousands, and the same ones in every round
def _read(text: str) -> tuple[str, bool]:
    """An address in its normal form, and whether it is special. ValueError: not an address."""
    address = read_address(text)
    return str(address), _is_nobodys(address)


def known_as(text: str) -> str:
    """Normalize a machine's name: an address to its normal form, anything else to lower case."""
    return one_form(text.lower())


def _is_nobodys(address: IPv4Address | IPv6Address) -> bool:
    special = address.is_loopback or address.is_unspecified or address.is_multicast
    return special or address.is_reserved
