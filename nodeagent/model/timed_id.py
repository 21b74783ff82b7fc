"""Ids that are derived from facts, so that deciding stays pure and an id can be checked. Pure."""

import hashlib
from uuid import UUID

from nodeagent.model.units import Ms


def timed_id(at: Ms, facts: str) -> str:
    """Derive the id of a thing that began at this moment, with these facts.

    A UUID of version 8 (RFC 9562): 48 bits of unix milliseconds, and 74 of the digest of the facts.
    """
    digest = hashlib.sha256(facts.encode()).digest()
    bits = int.from_bytes(digest[:10], "big") >> 6  # 74 bits
    value = (at & (2**48 - 1)) << 80 | 8 << 76 | (bits >> 62) << 64
    return str(UUID(int=value | 0b10 << 62 | bits & (2**62 - 1)))


def moment_of(identity: str) -> Ms:
    """Read from an id when its thing began, unix ms; ValueError if it is no UUID."""
    return Ms(UUID(identity).int >> 80)
