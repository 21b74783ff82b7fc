"""Addresses of this machine, as the kernel has them now; no privilege is needed.

The kernel chooses the source address of a connection. So one from this machine to the address of
the cluster's master may come from any other address of this machine.
"""

import array
import fcntl
import socket
import struct
from contextlib import suppress
from ipaddress import IPv6Address, ip_address

from nodeagent.model.address import plain_form

_SIOCGIFCONF = 0x8912  # netdevice(7): all IPv4 addresses, of an interface also several
_ROW = 40  # bytes of a struct ifreq where a pointer has 64 bits
_MOST = 4096  # addresses
_IPV6 = "/proc/self/net/if_inet6"


def own_addresses() -> frozenset[str]:
    """Return all of them, in their shortest form; those that cannot be read are missing."""
    addresses: set[str] = set()
    with suppress(OSError):
        addresses.update(_ipv4())
    with suppress(OSError), open(_IPV6, encoding="ascii") as file:
        addresses.update(str(IPv6Address(int(line.split()[0], 16))) for line in file)
    return frozenset(addresses)


def is_own(peer: str) -> bool:
    """Tell whether a connection from this numeric address comes from this machine."""
    text = plain_form(peer)
    try:
        return ip_address(text).is_loopback or text in own_addresses()
    except ValueError:
        return False


def _ipv4() -> set[str]:
    room = array.array("B", bytes(_ROW * _MOST))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        asked = struct.pack("iL", len(room), room.buffer_info()[0])
        length, _ = struct.unpack("iL", fcntl.ioctl(sock.fileno(), _SIOCGIFCONF, asked))
    raw = room.tobytes()[:length]
    # After the name of 16 bytes: family and port, of 2 bytes each, then the address.
    return {socket.inet_ntoa(raw[at + 20 : at + 24]) for at in range(0, length, _ROW)}
