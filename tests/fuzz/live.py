"""Bad requests at open doors: the front, maintd's TLS port and its admin socket, as processes."""

import random
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from tests.attacks.hostile import attacked
from tests.fuzz.mutate import Mutator
from tests.fuzz.of_people import DECODERS
from tests.web.live import agent, untrusting

PATIENCE = 0.5  # seconds for an answer; half a request gets none for as long as it may take
MOST = 64 * 1024  # bytes of an answer that are looked at
_BODIES = {one.name: one.seeds for one in DECODERS}
_TARGETS = (
    "/healthz",
    "/status",
    "/1/history?limit=5",
    "/maintenance/schedule",
    "/1/report/node/diagnose?salt=abc",
    "/1/maintenance.ics",
    "/1/explain/n1",
)
_POSTS = (
    ("/1/pause", "requests"),
    ("/1/offers", "mesos"),
    ("/maintenance/schedule", "mesos"),
    ("/1/series", "series"),
    ("/1/queue", "requests"),
    ("/1/order", "mesos"),
)


@dataclass(frozen=True)
class Door:
    """Where requests are sent, and what its process has written."""

    name: str
    connect: Callable[[], socket.socket]
    log: Callable[[], str]


@contextmanager
def doors() -> Iterator[list[Door]]:
    with attacked(plain=False) as (_, daemon), agent(tls=True) as front:

        def secure() -> socket.socket:
            plain = socket.create_connection(("127.0.0.1", daemon.port), PATIENCE)
            return untrusting().wrap_socket(plain)

        def admin() -> socket.socket:
            sock = socket.socket(socket.AF_UNIX)
            sock.settimeout(PATIENCE)
            sock.connect(str(daemon.folder / "admin.sock"))
            return sock

        log = daemon.log_file.read_text
        yield [
            Door("front", lambda: front.connect(PATIENCE), lambda: front.log("front")),
            Door("maintd-tls", secure, log),
            Door("maintd-admin", admin, log),
        ]


def seeds() -> list[bytes]:
    found = [f"GET {target} HTTP/1.1\r\nHost: x\r\n\r\n".encode() for target in _TARGETS]
    for target, name in _POSTS:
        for body in _BODIES[name]:
            head = f"POST {target} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            found.append(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    return found


def knock(
    door: Door, seconds: float, rng: random.Random, most: int | None = None
) -> tuple[int, str]:
    """Send bad requests for so long, and so many at most.

    Returns how many, and what was wrong with an answer, if anything.
    """
    good, mutator, sent = seeds(), Mutator(rng), 0
    end = time.monotonic() + seconds
    while time.monotonic() < end and sent != most:
        raw = rng.choice(good)
        head, _, body = raw.partition(b"\r\n\r\n")
        if body and rng.random() < 0.6:  # a whole request with a bad body
            body = mutator.change(body, good)
            start = head.rpartition(b"\r\n")[0]
            raw = b"%s\r\nContent-Length: %d\r\n\r\n%s" % (start, len(body), body)
        else:
            raw = mutator.change(raw, good)
        answer = _asked(door, raw)
        sent += 1
        if answer and not answer.startswith(b"HTTP/1.1 "):
            return sent, f"{raw[:300]!r} is answered by {answer[:100]!r}"
        if answer.startswith(b"HTTP/1.1 500"):
            return sent, f"{raw[:300]!r} is a bug: {answer[-300:]!r}"
    if "Traceback" in (log := door.log()):
        return sent, log[log.index("Traceback") :][:2000]
    if b" 200 " not in _asked(door, good[0], 30.0)[:20]:
        return sent, "/healthz does not answer any more"
    return sent, ""


def _asked(door: Door, raw: bytes, seconds: float = PATIENCE) -> bytes:
    """What comes back; nothing where the connection was closed, or nothing came."""
    said = b""
    with suppress(OSError), door.connect() as connection:
        connection.settimeout(seconds)
        with suppress(BrokenPipeError, ConnectionResetError):
            connection.sendall(raw)
        while len(said) < MOST and (part := connection.recv(65_536)):
            said += part
            if b"\r\n\r\n" in said:
                break
    return said
