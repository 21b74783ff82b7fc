"""A node key, and messages that are sealed with the cluster's key and signed with this one."""

from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from nodeagent.protocol.envelope import Key, Purpose, seal

_KEY = Ed25519PrivateKey.from_private_bytes(b"\x01" * 32)
PUBLIC = _KEY.public_key().public_bytes_raw().hex()


def sign(text: bytes) -> bytes:
    return _KEY.sign(text)


def seal_signed(key: Key, purpose: Purpose, salt: str, body: dict[str, Any]) -> bytes:
    return seal(key, purpose, salt, {**body, "key": PUBLIC}, sign)
