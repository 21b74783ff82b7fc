"""The copies of the ledger on the master candidates, as JSON. Pure."""

from nodeagent.maintd.http.status import Json
from nodeagent.model.copies import CopyState
from nodeagent.model.units import Ms


def copies_json(state: CopyState) -> Json:
    """Return the state of the copies; times are unix seconds."""
    return {
        "epoch": state.epoch,
        "have": state.have,
        "of": len(state.on),
        "at": _seconds(state.at),
        "unsafe-since": _seconds(state.unsafe),
        "on": [
            {
                "node": one.node,
                "newest": one.newest,
                "at": _seconds(one.at),
                "why": one.why or None,
                "able": one.able,
            }
            for one in state.on
        ],
    }


def _seconds(at: Ms) -> float | None:
    return at / 1000 if at else None
