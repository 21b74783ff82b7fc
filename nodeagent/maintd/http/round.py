"""The newest round as JSON: its trouble, its Ganeti, the copies of the ledger. Pure."""

from nodeagent.maintd.http.status import Json
from nodeagent.model.copies import CopyState
from nodeagent.model.ganeti import doubt
from nodeagent.model.units import Ms


def trouble_json(trouble: tuple[int, str] | None) -> Json | None:
    return None if trouble is None else {"since": trouble[0] / 1000, "why": trouble[1]}


def ganeti_json(said: str) -> Json | None:
    return {"version": said, "doubt": doubt(said) or None} if said else None


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
