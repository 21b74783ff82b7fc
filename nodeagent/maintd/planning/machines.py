"""Find the machine that a name means: a node by its name, any machine by its address. Pure."""

from collections.abc import Container
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address

from nodeagent.errors import MessageError
from nodeagent.model.address import read_address
from nodeagent.model.snapshot import Node, Snapshot


def node_of(address: str, snapshot: Snapshot) -> Node | None:
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


@lru_cache(maxsize=16_384)
def known_as(text: str) -> str:
    """Normalize a machine's name: an address to its normal form, anything else to lower case."""
    try:
        return str(read_address(text))
    except ValueError:
        return text.lower()


def _is_nobodys(address: IPv4Address | IPv6Address) -> bool:
    special = address.is_loopback or address.is_unspecified or address.is_multicast
    return special or address.is_reserved
