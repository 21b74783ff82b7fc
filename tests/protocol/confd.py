"""Questions to the real ganeti-confd under our envelope's `hmac`, and its answers."""

import json
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from nodeagent.protocol.canonical import canonical
from nodeagent.protocol.envelope import Key, confd_hmac

PORT = 1814  # UDP
_MAGIC = b"plj0"


class Question(IntEnum):
    """Some of confd's request types."""

    PING = 0
    NODE_ROLE = 1
    MASTER = 3
    CONFIG = 10


@dataclass(frozen=True, slots=True)
class Reply:
    """A genuine answer to our question; `serial` grows with the configuration."""

    status: int
    answer: Any
    serial: int


def seal_query(key: Key, question: Question, query: Any, rsalt: str, now: int) -> bytes:
    """A datagram that asks; `now` is unix seconds, within 300 of confd's own.

    confd drops a message with any member that it does not know, so `hmac` stands alone.
    """
    msg = canonical({"protocol": 1, "type": int(question), "query": query, "rsalt": rsalt})
    outer = {"msg": msg, "salt": str(now), "hmac": confd_hmac(key, str(now), msg)}
    return _MAGIC + json.dumps(outer).encode()


def open_reply(key: Key, rsalt: str, raw: bytes) -> Reply:
    """The answer to the question asked with `rsalt`."""
    outer = json.loads(raw.removeprefix(_MAGIC))
    assert outer["salt"] == rsalt
    assert outer["hmac"] == confd_hmac(key, rsalt, outer["msg"])
    body = json.loads(outer["msg"])
    assert body["protocol"] == 1
    return Reply(body["status"], body["answer"], body["serial"])
