"""A node's own key: the proof that a message is this node's, not only some node's. Pure.

Every node holds the cluster's key, so a seal alone says "some node of this cluster". Each runner
signs its sealed texts with an Ed25519 key of its own, over the same bytes as `hmac_sha256`; the
sealed text names the public key. maintd pins each node to the first key that it has shown.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from nodeagent.errors import MessageError
from nodeagent.protocol.envelope import signed_bytes

TAG = "nodeagent:key:"  # and the fingerprint: a tag of the node in Ganeti
FINGERPRINT = re.compile("[0-9a-f]{64}")
_FIELD = 2**255 - 19
_OF_ORDER_8 = 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826
_SIGNATURE = re.compile("[0-9a-f]{128}")


def check_signature(public: str, outer: Mapping[str, Any]) -> None:
    """Raise MessageError unless the node key `public` has signed this opened message."""
    given = outer.get("signature")
    if not isinstance(given, str) or not _SIGNATURE.fullmatch(given):
        raise MessageError("names a node key, and is not signed with it")
    if _has_small_order(public):
        raise MessageError("the node key is one of the few that fit a signature of every text")
    try:
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(public))
        key.verify(bytes.fromhex(given), signed_bytes(outer["salt"], outer["msg"]))
    except InvalidSignature:
        raise MessageError("the signature does not match the node key that it names") from None
    except (UnsupportedAlgorithm, ValueError) as error:
        raise MessageError(f"the node key cannot be used: {error}") from None


def _has_small_order(public: str) -> bool:
    """Tell whether a key is a point of small order, in any encoding (RFC 8032, section 5.1).

    Such a point has one of five heights; the sign of its other coordinate does not matter.
    """
    height = int.from_bytes(bytes.fromhex(public), "little") % 2**255 % _FIELD
    return height in (0, 1, _FIELD - 1, _OF_ORDER_8, _FIELD - _OF_ORDER_8)


def pinned(tags: Iterable[str]) -> tuple[str, ...]:
    """Return the fingerprints that a node's tags pin it to: one, unless something is wrong."""
    return tuple(sorted(tag.removeprefix(TAG) for tag in tags if tag.startswith(TAG)))


@dataclass(frozen=True, slots=True)
class Pins:
    """The pinned fingerprints by node name; `holders` has each pinned key's node."""

    by_node: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    holders: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, tags: Mapping[str, Iterable[str]]) -> "Pins":
        """Read the tags of nodes, by node name."""
        by_node = {name: pins for name, its in tags.items() if (pins := pinned(its))}
        holders = {pin: name for name, pins in sorted(by_node.items()) for pin in pins if pin}
        return cls(by_node, holders)

    def why_not(self, node: str, shown: str) -> str | None:
        """Say why a message of the node with this key is not trusted; None if it is."""
        pins = self.by_node.get(node, ())
        help_ = f"gnt-maint agents trust {node}"
        if len(pins) > 1:
            return f"{node} has {len(pins)} key tags, and may have one: run `{help_}`"
        if pins and shown != pins[0]:
            return (
                f"it is signed with the key {short(shown)}, and {node} is pinned to"
                f" {short(pins[0])}: if you reinstalled its agent, run `{help_}`"
            )
        if not pins and (holder := self.holders.get(shown)) is not None:
            return (
                f"its key {short(shown)} is the key of {holder}: if one is a copy of the other,"
                f" remove node.key from the agent's state folder on {node}"
            )
        return None


NO_PINS = Pins()


def short(pin: str) -> str:
    """Shorten a fingerprint for a sentence."""
    return f"{pin[:16]}…"
