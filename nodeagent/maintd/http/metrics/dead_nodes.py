"""Metrics of dead nodes: which are fenced, which cannot be, and whose power control fails."""

from nodeagent.maintd.http.status import View
from nodeagent.maintd.planning.outcomes import by_uuid
from nodeagent.model.fencing import Stage
from nodeagent.model.reason import FencingKind

_BLOCKED = {
    FencingKind.NO_POWER_CONTROL,
    FencingKind.FENCING_WAITS,
    FencingKind.FENCE_TRIES_AGAIN,
    FencingKind.FENCE_SWITCHED_OFF,
}
_CONTROL = {FencingKind.CONTROL_FAILS, FencingKind.LEVEL_FAILS}


def dead_nodes(view: View) -> dict[str, list[str]]:
    """Names of nodes by kind of trouble: `fencing`, `fenced`, `fencing-blocked`, `power-control`.

    A node that waits for a person to repair it is `fenced`.
    """
    nodes = by_uuid(view.observed) if view.ledger.fencing else {}
    there = [one for one in view.ledger.fencing if one.node in nodes]
    return {
        "fencing": [nodes[one.node].name for one in there if not one.stage.over],
        "fenced": [nodes[one.node].name for one in there if one.stage is Stage.FENCED],
        "fencing-blocked": [one.node for one in view.held if one.why.kind in _BLOCKED],
        "power-control": [one.node for one in view.held if one.why.kind in _CONTROL],
    }
