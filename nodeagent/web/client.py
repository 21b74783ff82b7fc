"""An HTTP client for one request with one deadline: no redirects, no DNS, bounded answers."""

import asyncio
import hashlib
import socket
import ssl
from contextlib import suppress
from dataclasses import dataclass

import h11

from nodeagent.errors import Unavailable

MAX_BODY = 4 * 1024 * 1024  # a megabyte of diagnosis, each of its quotes escaped twice


@dataclass(frozen=True, slots=True)
class Answered:
    """A complete answer. `certificate` is the SHA-256 of the peer's, hex; empty without TLS."""

    status: int
    body: bytes
    certificate: str


def untrusting_tls() -> ssl.SSLContext:
    """TLS that encrypts to whoever answers; the certificate is judged by a sealed report."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


async def fetch(
    address: str,
    port: int,
    target: str,
    *,
    seconds: float,
    method: str = "GET",
    body: bytes = b"",
    tls: ssl.SSLContext | None = None,
    most: int = MAX_BODY,
) -> Answered:
    """Make one request to a numeric address, or raise Unavailable with the reason.

    `seconds` bounds everything from the connection to the last byte, however slowly they
    come; `most` bounds the body.
    """
    try:
        async with asyncio.timeout(seconds):
            return await _fetch(address, port, target, method, body, tls, most)
    except TimeoutError:
        raise Unavailable(f"no complete answer within {seconds:g} s") from None
    except (OSError, ssl.SSLError) as error:
        raise Unavailable(f"{type(error).__name__}: {error.strerror or error}") from None
    except h11.RemoteProtocolError as error:
        raise Unavailable(f"not an HTTP answer: {error}") from None


async def _fetch(
    address: str,
    port: int,
    target: str,
    method: str,
    body: bytes,
    tls: ssl.SSLContext | None,
    most: int,
) -> Answered:
    http = h11.Connection(h11.CLIENT, max_incomplete_event_size=16 * 1024)
    host = f"[{address}]" if ":" in address else address
    headers = [("Host", f"{host}:{port}"), ("Connection", "close"), ("Accept-Encoding", "identity")]
    if body:
        headers += [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
    request = h11.Request(method=method, target=target, headers=headers)
    out = http.send(request) + (http.send(h11.Data(data=body)) if body else b"")
    out += http.send(h11.EndOfMessage()) or b""
    reader, writer = await asyncio.open_connection(
        address, port, ssl=tls, limit=64 * 1024, flags=socket.AI_NUMERICHOST
    )
    try:
        certificate = _fingerprint(writer) if tls else ""
        writer.write(out)
        status, taken, interim = 0, b"", 0
        while True:
            event = http.next_event()
            if event is h11.NEED_DATA:
                http.receive_data(await reader.read(64 * 1024))
            elif isinstance(event, h11.InformationalResponse):
                interim += 1
                if interim > 8:
                    raise Unavailable("too many interim answers")
            elif isinstance(event, h11.Response):
                status = event.status_code
            elif isinstance(event, h11.Data):
                taken += event.data
                if len(taken) > most:
                    raise Unavailable(f"answer larger than {most} bytes")
            elif isinstance(event, h11.EndOfMessage):
                return Answered(status, taken, certificate)
            else:
                raise Unavailable("the connection was closed before the answer")
    finally:
        with suppress(OSError, ssl.SSLError):
            writer.transport.abort()


def _fingerprint(writer: asyncio.StreamWriter) -> str:
    session = writer.get_extra_info("ssl_object")
    return hashlib.sha256(session.getpeercert(binary_form=True) or b"").hexdigest()
