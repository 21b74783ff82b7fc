"""Sealing and opening: confd's envelope with a second, stronger signature. Pure.

The outer object is `{"msg", "salt", "hmac", "hmac_sha256"}`. `hmac` is confd's
(HMAC-SHA1 of salt + msg under the whole key file, its newline included; Ganeti 2.1
design), so that any confd tool can verify us. `hmac_sha256` is under a key derived for
the purpose, over length-prefixed parts, so that neither a moved boundary nor a message
of another purpose verifies. Both must hold.
"""

import hmac
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Any

from nodeagent.errors import MessageError
from nodeagent.protocol.canonical import canonical, read_text

SALT = re.compile(r"[0-9A-Za-z._:-]{1,64}")  # no brace: a message begins with one
_HEX = {"hmac": re.compile(r"[0-9a-f]{40}"), "hmac_sha256": re.compile(r"[0-9a-f]{64}")}
_LABEL = b"nodeagent-v1\0"


class Purpose(Enum):
    REPORT = "report"
    ORDER = "order"
    QUEUE = "queue"  # an order of the repair queue, with its own stdin
    RECEIPT = "receipt"
    WITNESS = "witness"  # a question: does another node answer
    TESTIMONY = "testimony"  # its answer


@dataclass(frozen=True, slots=True, repr=False)
class Key:
    whole: bytes

    def __post_init__(self) -> None:
        if len(self.whole.strip()) < 16:
            raise MessageError("the cluster key is empty or too short")

    def __repr__(self) -> str:
        return "Key(…)"

    def for_purpose(self, purpose: Purpose) -> bytes:
        """Derive the SHA-256 sub-key of a purpose."""
        return _derived(self.whole, purpose)


@lru_cache(maxsize=16)
def _derived(whole: bytes, purpose: Purpose) -> bytes:
    return hmac.digest(whole, _LABEL + purpose.value.encode(), "sha256")


def confd_hmac(key: Key, salt: str, msg: str) -> str:
    """confd's signature: lower-case hex HMAC-SHA1 of salt and message run together."""
    return hmac.digest(key.whole, (salt + msg).encode(), "sha1").hex()


def strong_hmac(key: Key, purpose: Purpose, salt: str, msg: str) -> str:
    """Our signature: hex HMAC-SHA256 over label, salt with its length, message."""
    return hmac.digest(key.for_purpose(purpose), signed_bytes(salt, msg), "sha256").hex()


def signed_bytes(salt: str, msg: str) -> bytes:
    """The unambiguous byte string of a salt and a message, for any stronger signature."""
    head = salt.encode()
    return _LABEL + len(head).to_bytes(4, "big") + head + msg.encode()


def seal(
    key: Key,
    purpose: Purpose,
    salt: str,
    body: dict[str, Any],
    sign: Callable[[bytes], bytes] | None = None,
) -> bytes:
    """Seal `body` for the question with `salt`; purpose and salt are inside too.

    `sign` signs the text with the node's own key, which `body` names as `key`.
    """
    if not SALT.fullmatch(salt):
        raise MessageError("a salt is 1 to 64 of 0-9 A-Z a-z . _ : -")
    msg = canonical({**body, "purpose": purpose.value, "salt": salt})
    outer = {
        "msg": msg,
        "salt": salt,
        "hmac": confd_hmac(key, salt, msg),
        "hmac_sha256": strong_hmac(key, purpose, salt, msg),
    }
    if sign is not None:
        outer["signature"] = sign(signed_bytes(salt, msg)).hex()
    return json.dumps(outer).encode()


def open_outer(key: Key, purpose: Purpose, salt: str, outer: Any) -> dict[str, Any]:
    """Verify first, parse after; bind the answer to the purpose and the question asked.

    Raises MessageError with the reason.
    """
    msg = _verify(key, purpose, outer)
    if outer["salt"] != salt:
        raise MessageError("answer to another question: the salt is not ours")
    body = read_text(msg)
    if not isinstance(body, dict):
        raise MessageError("sealed message is not an object")
    if body.get("purpose") != purpose.value:
        raise MessageError(f"sealed for another purpose than {purpose.value}")
    if body.get("salt") != salt:
        raise MessageError("the salt inside is not the salt outside")
    return body


def _verify(key: Key, purpose: Purpose, outer: Any) -> str:
    """Check the signatures of an outer object; return the message text, still unparsed."""
    if not isinstance(outer, dict):
        raise MessageError("not a sealed message: no object")
    if "key_selector" in outer:
        raise MessageError("not a sealed message: key_selector is not accepted")
    msg, salt = outer.get("msg"), outer.get("salt")
    if not isinstance(msg, str) or not msg.startswith("{"):
        raise MessageError("not a sealed message: msg is not the text of an object")
    if not isinstance(salt, str) or not SALT.fullmatch(salt):
        raise MessageError("not a sealed message: salt is not of the agreed form")
    wanted = {
        "hmac": confd_hmac(key, salt, msg),
        "hmac_sha256": strong_hmac(key, purpose, salt, msg),
    }
    for name, right in wanted.items():
        given = outer.get(name)
        if not isinstance(given, str) or not _HEX[name].fullmatch(given):
            raise MessageError(f"not a sealed message: {name} is missing or not hex")
        if not hmac.compare_digest(given, right):
            raise MessageError(f"signature does not match ({name})")
    return msg
