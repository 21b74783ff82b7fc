"""A client's trust, and either side of one TLS connection, from bytes to bytes.

This module touches no socket. asyncio's own TLS shows a connection to its protocol only after the
handshake, and keeps a quarter of a megabyte for each. So a client that never finishes one would
count against no limit. Here a connection is ours from its first moment and costs 30 KB.
"""

import hashlib
import os
import signal
import ssl
import subprocess
import sys
from contextlib import suppress

from nodeagent.errors import ConfigError

_SELFSIGNED = os.path.join(os.path.dirname(__file__), "selfsigned.py")


def make_certificate() -> bytes:
    """Make a key and a certificate, as PEM, for one life of a server."""
    command = [sys.executable, "-I", _SELFSIGNED]
    # systemd signals all processes of a service: if this one ended, we would fail. It inherits
    # our blocked signals; ours arrive when it is done.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGINT))
    try:
        return subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=60).stdout
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def server_tls(pem: bytes) -> ssl.SSLContext:
    """Return TLS with this key and certificate; ssl.SSLError if they are unusable or no pair."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # 1.3 has no renegotiation; without tickets no session is kept, in memory or in effect.
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.num_tickets = 0
    memory = os.memfd_create("certificate", os.MFD_CLOEXEC)
    try:
        os.write(memory, pem)
        context.load_cert_chain(f"/proc/self/fd/{memory}")
    finally:
        os.close(memory)
    return context


def untrusting_tls() -> ssl.SSLContext:
    """Return TLS that trusts every peer; a sealed report judges the certificate.

    It serves any number of connections; keep it for them.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def trusting_tls(ca: str = "", *, named: bool = True) -> ssl.SSLContext:
    """Return TLS to a server with a certificate that this file, or the system, trusts.

    The file holds the server's own certificate, or those that may have signed it. ConfigError if it
    holds none. The certificate must bear the server's name, unless `named` is false and there is a
    file.
    """
    try:
        context = ssl.create_default_context(cafile=ca or None)
    except ssl.SSLError:  # with OpenSSL's own words
        raise ConfigError(f"{ca}: no certificate can be read: it holds none") from None
    except OSError as error:
        why = error.strerror or str(error)
        raise ConfigError(f"{ca}: no certificate can be read: {why}") from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if ca:
        context.check_hostname = named
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # the server's own is enough
    return context


def fingerprint(pem: bytes) -> str:
    """Return the SHA-256 of the first certificate, hex."""
    text = pem[pem.index(b"-----BEGIN CERTIFICATE-----") :].decode("ascii")
    end = "-----END CERTIFICATE-----\n"
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(text.partition(end)[0] + end)).hexdigest()


class Session:
    """One connection's TLS. After every call `outgoing` holds the bytes to send.

    A client begins with `receive`, and compares no name.
    """

    def __init__(self, context: ssl.SSLContext, *, client: bool = False) -> None:
        self.outgoing = ssl.MemoryBIO()
        self.ready = False
        self._incoming = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self.outgoing, server_side=not client)

    def receive(self, data: bytes | None = None) -> list[bytes]:
        """Take bytes of the network, b"" for its end; return the plain ones likewise.

        Raises ssl.SSLError.
        """
        if data:
            self._incoming.write(data)
        elif data is not None:
            self._incoming.write_eof()
        parts: list[bytes] = []
        try:
            if not self.ready:
                self._tls.do_handshake()
                self.ready = True
            while part := self._tls.read(64 * 1024):
                parts.append(part)
            parts.append(b"")  # it has said goodbye
        except ssl.SSLWantReadError:
            pass
        return parts

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of the other side's certificate, hex."""
        der = self._tls.getpeercert(binary_form=True) or b""
        return hashlib.sha256(der).hexdigest()

    def send(self, plain: bytes | memoryview, *, last: bool = True) -> None:
        """Encrypt our bytes; `last` announces their end."""
        self._tls.write(plain)
        if not last:
            return
        with suppress(ssl.SSLError):  # the other side need not say goodbye as well
            self._tls.unwrap()
