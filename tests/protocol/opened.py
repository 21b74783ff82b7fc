"""Sealed messages as tests open them: from their bytes."""

from typing import Any

from nodeagent.protocol.canonical import MAX_BYTES, read
from nodeagent.protocol.envelope import Key, Purpose, open_outer


def unseal(key: Key, purpose: Purpose, salt: str, raw: bytes) -> dict[str, Any]:
    """What is sealed, or MessageError."""
    return open_outer(key, purpose, salt, read(raw, limit=2 * MAX_BYTES))
