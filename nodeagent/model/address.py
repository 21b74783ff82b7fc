"""IP addresses in their one form, so that equal ones are equal texts. Pure."""

from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address


def read_address(text: str) -> IPv4Address | IPv6Address:
    """The address; IPv4 if it is that within IPv6. ValueError: it is none, or has a scope."""
    address = ip_address(text)
    if isinstance(address, IPv4Address):
        return address
    if address.scope_id is not None:
        raise ValueError("it means something only here, and its scope may be any text")
    return address.ipv4_mapped or address


@lru_cache(maxsize=16_384)
def one_form(text: str) -> str:
    """An address as it is always written; any other text as it is."""
    try:
        return str(read_address(text))
    except ValueError:
        return text


def is_address(text: str) -> bool:
    """Whether a name is written as an address: four numbers, or with a colon."""
    parts = text.split(".")
    return ":" in text or (len(parts) == 4 and all(part.isdecimal() for part in parts))
