"""Metrics of the copies of the ledger on the master candidates."""

from typing import Any

from nodeagent.maintd.http.metrics.families import gauge
from nodeagent.model.copies import CopyState
from nodeagent.model.units import Ms


def of_copies(state: CopyState, now: Ms) -> Any:
    """All are 0 where no copies are kept."""
    candidates = len(state.on) if state.epoch else 0
    yield gauge("gnt_maint_copies", "Master candidates with the newest ledger.", state.have)
    yield gauge("gnt_maint_candidates", "Master candidates.", candidates)
    unsafe = max(0, now - state.unsafe) / 1000 if state.unsafe else 0
    yield gauge("gnt_maint_copies_unsafe_seconds",
                "For how long a majority of them lacks the newest ledger.", unsafe)  # fmt: skip
