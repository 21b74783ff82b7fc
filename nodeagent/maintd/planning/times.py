"""Moments as text for programs. Pure."""

from datetime import UTC, datetime

from nodeagent.model.units import Ms


def rfc3339(ms: Ms) -> str:
    """Unix ms as UTC in whole seconds; 0 gives the zero of CKE's clock."""
    if not ms:
        return "0001-01-01T00:00:00Z"
    return f"{datetime.fromtimestamp(ms // 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"
