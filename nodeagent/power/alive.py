"""Whether a node lives: its noded answers. A kernel that only takes a connection proves nothing."""

import socket
import ssl
from collections.abc import Mapping
from contextlib import suppress

from nodeagent.ssconf import port_of

PATIENCE = 5.0


def lives(addresses: Mapping[str, str], port: int, patience: float, node: str) -> bool:
    """Say whether the node answers a hello in TLS at this port; 0 is noded's.

    `patience` is in seconds, for the connection and again for the answer. The name is looked up
    only where `addresses` has none for it. noded wants a certificate and refuses us; that is an
    answer.
    """
    try:
        address = addresses.get(node, node), port or port_of("noded")
        with socket.create_connection(address, patience) as connection:
            connection.sendall(_hello())
            return bool(connection.recv(1))
    except OSError:  # a name that cannot be looked up is one too
        return False


def _hello() -> bytes:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing).do_handshake()
    return outgoing.read()
