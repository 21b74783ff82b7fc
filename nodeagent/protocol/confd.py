"""Questions to Ganeti's confd and its answers, as datagrams (Ganeti 2.1 design). Pure.

A datagram is `plj0` and the envelope with confd's signature alone: confd drops a message
with any member it does not know, so ours cannot be added.
"""

import json
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from nodeagent.errors import MessageError
from nodeagent.protocol.canonical import canonical, read, read_text
from nodeagent.protocol.envelope import SALT, Key, Least, Purpose, confd_hmac, verify

PORT = 1814  # UDP
MAGIC = b"plj0"
MAX_DATAGRAM = 61_440
_PROTOCOL = 1


class Question(IntEnum):
    """What can be asked: confd's request types."""

    PING = 0
    NODE_ROLE = 1
    NODE_BY_INSTANCE_IP = 2
    MASTER = 3
    NODE_IPS = 4
    CANDIDATE_IPS = 5
    INSTANCE_IPS = 6
    NODE_DRBD = 7
    NODE_INSTANCES = 8
    INSTANCE_DISKS = 9
    CONFIG = 10
    COLLECTORS = 11


@dataclass(frozen=True, slots=True)
class Reply:
    """A genuine answer to our question; `serial` grows with the configuration.

    `answer` of a status other than 0 is confd's error code or text.
    """

    status: int
    answer: Any
    serial: int


def seal_query(key: Key, question: Question, query: Any, rsalt: str, now: int) -> bytes:
    """A datagram that asks; `now` is unix seconds, within 300 of confd's own.

    `rsalt` is to be chosen anew for each question: an answer is bound to it.
    """
    if not SALT.fullmatch(rsalt):
        raise MessageError("a salt is 1 to 64 of 0-9 A-Z a-z . _ : -")
    body = {"protocol": _PROTOCOL, "type": int(question), "query": query, "rsalt": rsalt}
    msg, salt = canonical(body), str(now)
    outer = {"msg": msg, "salt": salt, "hmac": confd_hmac(key, salt, msg)}
    return MAGIC + json.dumps(outer).encode()


def open_reply(key: Key, rsalt: str, raw: bytes) -> Reply:
    """Verify and read an answer to the question asked with `rsalt`, or raise MessageError."""
    if not raw.startswith(MAGIC):
        raise MessageError("not confd's: it does not begin with plj0")
    outer = read(raw[len(MAGIC) :], limit=MAX_DATAGRAM)
    msg = verify(key, Purpose.CONFD, outer, least=Least.SHA1)
    if outer["salt"] != rsalt:
        raise MessageError("answer to another question: the salt is not ours")
    body = read_text(msg)
    if not isinstance(body, dict) or body.get("protocol") != _PROTOCOL:
        raise MessageError(f"not version {_PROTOCOL} of confd's protocol")
    status, serial = body.get("status"), body.get("serial")
    if type(status) is not int or status not in (0, 1, 2) or type(serial) is not int:
        raise MessageError("confd's answer lacks a status or a serial")
    return Reply(status, body.get("answer"), serial)
