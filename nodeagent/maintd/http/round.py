"""The newest round as JSON: its trouble, its Ganeti, where the ledger is kept. Pure."""

from nodeagent.maintd.http.status import Json
from nodeagent.model.ganeti import doubt
from nodeagent.model.keeping import Kept
from nodeagent.model.snapshot import Snapshot
from nodeagent.model.units import Ms
from nodeagent.store.contract import Store


def trouble_json(trouble: tuple[int, str] | None) -> Json | None:
    return None if trouble is None else {"since": trouble[0] / 1000, "why": trouble[1]}


def ganeti_json(said: str) -> Json | None:
    return {"version": said, "doubt": doubt(said) or None} if said else None


def ledger_json(kept: Kept, store: Store, snapshot: Snapshot) -> Json:
    """Return where the ledger is kept: this node's newest save, and the rule's in Ganeti.

    Times are unix seconds, sizes bytes. `behind-since` is since when the rule lacks the newest
    save, and `why` the reason.
    """
    names = {node.uuid: node.name for node in snapshot.nodes.values()}
    return {
        "number": store.number,
        "file": store.path,
        "uuid": kept.uuid or None,
        "rule": {
            "number": kept.number or None,
            "bytes": kept.size,
            "writer": names.get(kept.writer, kept.writer) or None,
            "at": _seconds(kept.at),
        },
        "behind-since": _seconds(kept.behind),
        "why": kept.why or None,
    }


def _seconds(at: Ms) -> float | None:
    return at / 1000 if at else None
