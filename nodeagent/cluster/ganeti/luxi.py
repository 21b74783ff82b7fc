"""Ganeti's LUXI: a JSON request and a byte 3, a JSON answer and a byte 3, on a unix socket."""

import json
import select
import socket
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

from nodeagent.clocks import Deadline
from nodeagent.cluster.ganeti.decode import one_line
from nodeagent.errors import Unavailable
from nodeagent.protocol.canonical import printable

SOCKET = "/var/run/ganeti/socket/ganeti-query"
END = b"\3"  # JSON escapes it in strings, so it only ends a message
MOST = 256 * 2**20  # an answer about 100,000 instances has some 40 MB


class Unsent(Unavailable):
    """luxid certainly did not read the request, so it had no effect."""


class Late(Unavailable):
    """The answer did not come in time; the request may still be carried out."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Ganeti understood and refuses. `kind` is its exception's name, or empty."""

    kind: str
    why: str


Json: TypeAlias = Any  # what a JSON reader returns


class Luxi:
    """One connection: opened when needed, reused, and closed after any doubt.

    `connect` and `seconds` bound the opening and the whole of one call; `most` an answer. A
    socket's calls wait for each other.
    """

    def __init__(
        self, path: str = SOCKET, *, connect: float = 5.0, seconds: float = 60.0, most: int = MOST
    ) -> None:
        self._path = path
        self._connect = connect
        self._seconds = seconds
        self._most = most
        self._socket: socket.socket | None = None
        self._lock = threading.Lock()

    def call(
        self, method: str, args: Sequence[object], seconds: float | None = None
    ) -> "Json | Refusal":
        """Ask, and return the result or Ganeti's refusal.

        Unsent: luxid did not read the request. Unavailable: it may have, and the answer is lost.
        """
        try:
            request = json.dumps({"method": method, "args": args}, allow_nan=False).encode() + END
        except ValueError as error:  # a lone surrogate, an infinite number
            raise Unsent(f"LUXI {method}: {error}") from None
        with self._lock:
            deadline = Deadline(self._seconds if seconds is None else seconds)
            try:
                self._send(request, deadline)
                answer = self._receive(deadline)
                return self._read(answer)
            except Unavailable as error:
                self._close()
                raise type(error)(f"LUXI {method}: {error}") from None
            except BaseException:
                self._close()
                raise

    def ask(self, method: str, args: Sequence[object], seconds: float | None = None) -> Json:
        """As `call`, for questions: a refusal too is Unavailable."""
        answer = self.call(method, args, seconds)
        if isinstance(answer, Refusal):
            raise Unavailable(f"LUXI {method} is refused: {answer.why}")
        return answer

    def close(self) -> None:
        """Hang up; the next call connects again."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _send(self, request: bytes, deadline: Deadline) -> None:
        """Send the whole request, or raise Unsent.

        luxid reads a request when its last byte is there, and this sends that byte last: until then
        luxid has read nothing. A connection that luxid has closed since its last use takes no byte,
        so a new connection is safe then.
        """
        used = self._socket is not None
        try:
            self._ready(deadline).sendall(request)
        except TimeoutError:
            raise Unsent(f"{self._path} takes no request within {deadline.seconds:g} s") from None
        except OSError as error:
            self._close()
            if used:
                self._send(request, deadline)
            else:
                hint = "; it takes the master node with luxid running" if _is_absent(error) else ""
                raise Unsent(f"{self._path}: {error.strerror or error}{hint}") from None

    def _ready(self, deadline: Deadline) -> socket.socket:
        if self._socket is not None and _has_ended(self._socket):
            self._close()
        if self._socket is None:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self._socket.settimeout(min(self._connect, deadline.remaining()))
            self._socket.connect(self._path)
        self._socket.settimeout(deadline.remaining())
        return self._socket

    def _receive(self, deadline: Deadline) -> bytes:
        assert self._socket is not None
        taken = bytearray()
        try:
            while True:
                self._socket.settimeout(deadline.remaining())
                part = self._socket.recv(256 * 1024)
                if not part:
                    raise Unavailable("the connection was closed before the answer")
                taken += part
                if END in part:
                    break
                if len(taken) > self._most:
                    raise Unavailable(f"answer larger than {self._most} bytes")
        except TimeoutError:
            raise Late(f"no complete answer within {deadline.seconds:g} s") from None
        except OSError as error:
            raise Unavailable(f"the answer was lost: {error.strerror or error}") from None
        if taken.index(END) != len(taken) - 1:
            raise Unavailable("more than one answer to one request")
        return bytes(taken[:-1])

    def _read(self, answer: bytes) -> "Json | Refusal":
        try:
            document = json.loads(_text(answer))
        except (ValueError, RecursionError):
            shown = printable(answer[:80].decode("utf-8", "replace"))
            raise Unavailable(f"the answer is not JSON: {shown}") from None
        if not isinstance(document, dict) or not isinstance(document.get("success"), bool):
            raise Unavailable("the answer does not say whether it succeeded")
        if "result" not in document:
            raise Unavailable("the answer has no result")
        if document["success"]:
            return document["result"]
        refusal = refused(document["result"])
        if not refusal.kind:
            self._close()  # luxid hangs up on clients it did not understand
        return refusal


def _text(answer: bytes) -> str:
    """Decode an answer; of non-ASCII text, such as a tag, luxid writes each letter as one byte.

    Measured with 3.0.2. Such garbled text is never ours, and the rest of the answer must stay
    readable.
    """
    try:
        return answer.decode("utf-8")
    except UnicodeDecodeError:
        return answer.decode("latin-1")


def refused(result: object) -> Refusal:
    """Read the reason: `[exception, [arguments]]`, or a plain sentence if luxid could not parse."""
    match result:
        case [str(kind), [*arguments]] if arguments:
            return Refusal(kind, one_line(arguments[0]))
        case [str(kind), *_]:
            return Refusal(kind, one_line(kind))
        case _:
            return Refusal("", one_line(result))


def _is_absent(error: OSError) -> bool:
    return isinstance(error, FileNotFoundError | ConnectionRefusedError)


def _has_ended(idle: socket.socket) -> bool:
    """Tell whether an idle connection has input: its end, or an unrequested answer."""
    with suppress(OSError, ValueError):
        poll = select.poll()  # select() fails for descriptors above 1023
        poll.register(idle, select.POLLIN)
        return bool(poll.poll(0))
    return True
