"""The process at the other end of a unix socket, as the kernel says."""

import socket
import struct

_SO_PEERGROUPS, _MOST_GROUPS = 59, 1024  # asm-generic/socket.h
_CREDENTIALS = struct.Struct("3i")  # of unix(7): process, user, group


def user_and_group(sock: socket.socket) -> tuple[int, int]:
    """Return the user who connected, and its group at that time."""
    raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, user, group = _CREDENTIALS.unpack(raw)
    return user, group


def with_groups(sock: socket.socket) -> str:
    """Name the user who connected, with all its groups: `uid:USER:GROUP,…`."""
    user, group = user_and_group(sock)
    try:
        more = sock.getsockopt(socket.SOL_SOCKET, _SO_PEERGROUPS, 4 * _MOST_GROUPS)
    except OSError:  # it is in more groups: those do not count
        more = b""
    groups = {group, *struct.unpack(f"{len(more) // 4}I", more)}
    return f"uid:{user}:{','.join(map(str, sorted(groups)))}"
