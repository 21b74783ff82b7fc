"""Decide whether a queued repair must be canceled because the secondary came back. Pure."""

from nodeagent.model.action import Move, Reinstall
from nodeagent.model.snapshot import Snapshot


def why_withdrawn(move: Move | None, snapshot: Snapshot) -> str:
    """Why this job is obsolete; empty if it is not, or if new disks are there already."""
    if not isinstance(move, Reinstall):
        return ""
    instance = snapshot.instances.get(move.instance)
    if instance is None or instance.primary != move.node:
        return ""
    for place in (instance.primary, instance.secondary):
        if place is not None and not snapshot.nodes[place].offline:
            return f"node {place}, which has the data of {move.instance}, is no longer offline"
    return ""
