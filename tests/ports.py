"""Ports and addresses at which nobody listens."""

import secrets
import socket

FIRST, LAST = 20_000, 32_000  # below the ports that Linux gives to those who connect


def free_port(address: str = "127.0.0.1") -> int:
    """A port of TCP and UDP for a process that has yet to start, or for nobody to listen at.

    A port from the kernel (`bind` to 0) may be that of the next connection of any process here
    before its own listener binds to it. Seeds of tests are set, and must not make two choose alike.
    """
    while True:
        port = FIRST + secrets.randbelow(LAST - FIRST)
        with socket.socket() as stream, socket.socket(type=socket.SOCK_DGRAM) as datagrams:
            try:
                stream.bind((address, port))
                datagrams.bind((address, port))
            except OSError:
                continue
        return port


def own_address() -> str:
    """An address of loopback for what has a fixed port: no other run beside this one has it."""
    return f"127.{1 + secrets.randbelow(254)}.{secrets.randbelow(256)}.{1 + secrets.randbelow(254)}"
