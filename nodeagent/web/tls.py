"""The server's side of one TLS connection, from bytes to bytes; no socket is touched.

asyncio's own TLS shows a connection to its protocol only once the handshake is done, and
keeps a quarter of a megabyte for each: whoever never finishes a handshake would count
against no limit. Here a connection is ours from its first moment and costs 30 KB.
"""

import ssl
from contextlib import suppress


class Session:
    """One connection's TLS. All that it wants sent is in `outgoing` after every call."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self.outgoing = ssl.MemoryBIO()
        self.ready = False
        self._incoming = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self.outgoing, server_side=True)

    def receive(self, data: bytes) -> bytes:
        """Take what the network brought; return what it says. Raises ssl.SSLError."""
        self._incoming.write(data)
        plain = b""
        try:
            if not self.ready:
                self._tls.do_handshake()
                self.ready = True
            while part := self._tls.read(64 * 1024):
                plain += part
        except ssl.SSLWantReadError:
            pass
        return plain

    def send(self, plain: bytes) -> None:
        """Encrypt our last words, and say that they are the last."""
        self._tls.write(plain)
        with suppress(ssl.SSLError):  # the other side need not say goodbye as well
            self._tls.unwrap()
