"""IP addresses in their one form, so that equal addresses are equal texts. Pure."""

from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address


def read_address(text: str) -> IPv4Address | IPv6Address:
    """Read an address; IPv4 if IPv6 wraps one. ValueError: not an address, or one with a scope."""
    address = ip_address(text)
    if isinstance(address, IPv4Address):
        return address
    if address.scope_id is not None:
        raise ValueError("it means something only here, and its scope may be any text")
    return address.ipv4_mapped or address


@lru_cache(maxsize=16_384)
def one_form(text: str) -> str:
    """Return an address in its one form, and any other text unchanged."""
    try:
        return str(read_address(text))
    except ValueError:
        return text


def plain_form(peer: str) -> str:
    """Return the one form of an address without its zone; other texts as they are."""
    return one_form(peer.partition("%")[0])


def is_address(text: str) -> bool:
    """Tell whether a name is written as an address: four numbers, or with a colon."""
    parts = text.split(".")
    return ":" in text or (len(parts) == 4 and all(part.isdecimal() for part in parts))
