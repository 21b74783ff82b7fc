"""Answers of etcd's JSON gateway, by what the caller does about them. Pure.

| Verdict | Seen as | The caller |
|---|---|---|
| DONE | 200 | goes on |
| AWAY | too many requests | asks the next member; nothing has happened |
| UNKNOWN | codes 1, 2, 4, 13, 14, 5xx, not JSON | asks the next member; it may have happened |
| FULL | code 8 with "space" | reports it; reading and deleting still work |
| LOGIN | code 16, or an old revision of the users | logs in once, and asks the same member again |
| COMPACTED | code 11 with "compacted" | reads a newer moment |
| REFUSED | all others | gives up: no member answers otherwise |

The gateway writes 64-bit numbers as texts, and leaves out members that are zero, false or empty.
"""

import base64
import json
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from nodeagent.errors import Unavailable, plain

_UNKNOWN = {1, 2, 4, 13, 14}
_FULL, _OLD, _LOGIN = 8, 11, 16
_LONGEST = 300  # characters of etcd's own words
_CN = (
    "etcd's JSON gateway refuses client certificates with a common name:"
    " make one whose subject has no CN"
)


class Verdict(Enum):
    """The use of an answer."""

    DONE = auto()
    AWAY = auto()
    UNKNOWN = auto()
    FULL = auto()
    LOGIN = auto()
    COMPACTED = auto()
    REFUSED = auto()


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer: its document if it is DONE, else etcd's words and its gRPC code, -1 if none."""

    verdict: Verdict
    document: dict[str, Any]
    why: str = ""
    code: int = -1


def reply(status: int, body: bytes) -> Reply:
    """Read an answer of the gateway."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return _no_json(status, body)
    if type(document) is not dict:
        return Reply(Verdict.UNKNOWN, {}, f"not an answer of etcd (HTTP {status})")
    if "error" in document or (status != 200 and "code" in document):  # 3.4; 3.5 of Debian 13
        return _fault(document)
    if status != 200:
        return Reply(Verdict.UNKNOWN, {}, f"HTTP {status}")
    inner = document.get("result", document)  # a stream's answers stand one floor deeper
    return Reply(Verdict.DONE, inner if type(inner) is dict else {})


def _fault(document: dict[str, Any]) -> Reply:
    inner = document.get("error")
    source = inner if type(inner) is dict else document
    why = source.get("message", inner)
    code = source.get("grpc_code", source.get("code"))
    code = code if type(code) is int else -1
    why = plain(why if type(why) is str else "no words", _LONGEST)
    return Reply(_verdict(code, why), {}, why, code)


def _verdict(code: int, why: str) -> Verdict:
    if code == _LOGIN or "auth store is old" in why:
        return Verdict.LOGIN
    if code == _FULL and "space" in why:
        return Verdict.FULL
    if code == _FULL and "too many requests" in why:
        return Verdict.AWAY
    if code == _OLD and "compacted" in why:
        return Verdict.COMPACTED
    if code in _UNKNOWN or code < 0:
        return Verdict.UNKNOWN
    return Verdict.REFUSED


def _no_json(status: int, body: bytes) -> Reply:
    text = body.decode(errors="replace").strip()
    if "CommonName" in text:
        return Reply(Verdict.REFUSED, {}, _CN)
    if status == 404:
        why = "it has no etcd JSON gateway of version 3 (HTTP 404)"
        return Reply(Verdict.REFUSED, {}, why)
    why = f"HTTP {status}: {plain(text, _LONGEST)}"
    return Reply(Verdict.REFUSED if 400 <= status < 500 else Verdict.UNKNOWN, {}, why)


def number(document: dict[str, Any], name: str) -> int:
    """Return a number of the document: 0 where it is absent, or not a number."""
    try:
        return int(document.get(name, 0))
    except (TypeError, ValueError, OverflowError):
        return 0


def coded(raw: bytes) -> str:
    """Write bytes as the gateway takes them."""
    return base64.b64encode(raw).decode()


def raw(document: dict[str, Any], name: str) -> bytes:
    """Return the bytes of a member: none where it is absent. Unavailable: it is not base64."""
    try:
        return base64.b64decode(document.get(name, ""))
    except (TypeError, ValueError):  # also binascii.Error
        raise Unavailable(f"etcd's answer is unclear: {name} is not base64") from None
