"""A LUXI socket, and behind it whatever answers its requests."""

import json
import os
import socket
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

_END = b"\3"


def field(name: str) -> dict[str, str]:
    """What a query says of a field beside the rows."""
    return {"name": name, "title": name, "kind": "other", "doc": name}


def meets(row: Mapping[str, Any], condition: Any) -> bool:
    """Whether a row of values meets the condition of a query."""
    match condition:
        case None:
            return True
        case ["&", *parts]:
            return all(meets(row, part) for part in parts)
        case ["|", *parts]:
            return any(meets(row, part) for part in parts)
        case ["=", name, value]:
            return bool(row[name] == value)
        case [">=", name, value]:
            return bool(row[name] >= value)
        case ["<", name, value]:
            return bool(row[name] < value)
    raise KeyError(str(condition))


class Luxid(ABC):
    """A Ganeti, as far as it is asked."""

    @abstractmethod
    def answer(self, method: str, args: list[Any]) -> Any:
        """What luxid would answer; KeyError or TypeError where that is no request."""

    def said(self, request: bytes) -> bytes:
        """The bytes that luxid would answer to these."""
        asked = json.loads(request)
        try:
            answer = {"success": True, "result": self.answer(asked["method"], asked["args"])}
        except (KeyError, TypeError) as error:
            answer = {"success": False, "result": ["GenericError", [repr(error)]]}
        return json.dumps(answer).encode()


@contextmanager
def serving(luxid: Luxid, path: str) -> Iterator[str]:
    """Its socket, for as long as somebody is in there."""
    with suppress(FileNotFoundError):
        os.unlink(path)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(8)
    accepting = threading.Thread(target=_accept, args=(luxid, listener), daemon=True)
    accepting.start()
    try:
        yield path
    finally:
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        accepting.join()


def _accept(luxid: Luxid, listener: socket.socket) -> None:
    with suppress(OSError):
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=_talk, args=(luxid, connection), daemon=True).start()


def _talk(luxid: Luxid, connection: socket.socket) -> None:
    """One conversation."""
    taken = b""
    with connection, suppress(OSError):
        while part := connection.recv(1 << 20):
            taken += part
            while _END in taken:
                request, _, taken = taken.partition(_END)
                connection.sendall(luxid.said(request) + _END)
