"""The socket of a server, an address or a unix socket, with a limit on clients."""

import asyncio
import logging
import os
import socket
import stat
import struct
from collections.abc import Callable
from contextlib import suppress

from nodeagent.peer import with_groups
from nodeagent.web.places import IsFirst

log = logging.getLogger(__name__)
_AT_ONCE = 64  # newcomers accepted before the open connections have their turn again
_STRANGERS, _LOOKED_AT = 16, 2048  # of so many at once, where some peers come first
_BACKLOG = 4096
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: nothing is left to send
_IP_FREEBIND, _IPV6_FREEBIND = 15, 78  # ip(7), linux/in6.h
_PAUSE = 0.5  # seconds without accepting, when the system has no room

Admit = Callable[[socket.socket, str], None]


class Listener:
    """Gives each new connection to `admit`, with its peer: a numeric address, or of a local process
    `uid:USER:GROUP,…`.

    It runs on the running event loop until closed. Where some peers come first (`is_first`), and
    more newcomers wait at once than a server can serve, all but a few others are turned away
    unheard, each counted in `turned_away`: the places in the kernel's queue are for all.
    """

    def __init__(self, admit: Admit, is_first: IsFirst | None = None) -> None:
        self.turned_away = 0
        self._admit = admit
        self._is_first = is_first
        self._socket: socket.socket | None = None
        self._path: tuple[str, int] | None = None  # of a unix socket, with its inode

    def listen(self, address: str, port: int, *, early: bool = False) -> int:
        """Listen; return the port. OSError if the address is not ours or the port is taken.

        With `early` the address may be ours later only: connections come once it is.
        """
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        listener = _early(family, address, port) if early else _now(family, address, port)
        self._begin(listener)
        return int(listener.getsockname()[1])

    def listen_unix(self, path: str, mode: int) -> None:
        """Listen at a path, for the users that the mode lets connect.

        OSError if somebody listens there already; it replaces a dead server's socket.
        """
        _make_way(path)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        fresh = f"{path}.{os.getpid()}"
        try:
            with suppress(FileNotFoundError):
                os.unlink(fresh)
            listener.bind(fresh)
            # Nobody can connect before it listens, so nobody does before the mode is right.
            os.chmod(fresh, mode)
            listener.listen(128)
            self._path = path, os.stat(fresh).st_ino
            os.rename(fresh, path)
        except OSError:
            listener.close()
            raise
        self._begin(listener)

    def close(self) -> None:
        """Accept no more connections."""
        if self._socket:
            asyncio.get_running_loop().remove_reader(self._socket.fileno())
            self._socket.close()
        if self._path:
            path, inode = self._path
            with suppress(OSError):
                if os.stat(path).st_ino == inode:  # else it is another server's by now
                    os.unlink(path)

    def _begin(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        self._socket = listener
        listener.setblocking(False)
        loop.add_reader(listener.fileno(), self._accept, loop, listener)

    def _accept(self, loop: asyncio.AbstractEventLoop, listener: socket.socket) -> None:
        is_first, others = self._is_first, 0
        for _ in range(_LOOKED_AT if is_first else _AT_ONCE):
            try:
                sock, address = listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:  # out of descriptors or memory: newcomers wait
                log.error("cannot-accept why=%r", str(error))  # noqa: TRY400
                loop.remove_reader(listener.fileno())
                loop.call_later(_PAUSE, self._accept_again, loop, listener)
                return
            if is_first is not None and not is_first(str(address[0])):
                others += 1
                if others > _STRANGERS:
                    self.turned_away += 1
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                    sock.close()
                    continue
            sock.setblocking(False)
            if sock.family == socket.AF_UNIX:
                peer = with_groups(sock)
            else:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                peer = str(address[0])
            self._admit(sock, peer)

    def _accept_again(self, loop: asyncio.AbstractEventLoop, listener: socket.socket) -> None:
        if listener.fileno() >= 0:
            loop.add_reader(listener.fileno(), self._accept, loop, listener)


def _now(family: int, address: str, port: int) -> socket.socket:
    return socket.create_server((address, port), family=family, backlog=_BACKLOG)


def _early(family: int, address: str, port: int) -> socket.socket:
    listener = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listener.setsockopt(socket.IPPROTO_IPV6, _IPV6_FREEBIND, 1)
        else:
            listener.setsockopt(socket.IPPROTO_IP, _IP_FREEBIND, 1)
        listener.bind((address, port))
        listener.listen(_BACKLOG)
    except BaseException:
        listener.close()
        raise
    return listener


def _make_way(path: str) -> None:
    """Make the path free for a socket."""
    with suppress(FileNotFoundError):
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            raise FileExistsError(f"{path} exists and is not a socket")
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(path)
            except ConnectionRefusedError:
                return
        raise OSError(f"another process listens at {path} already")
