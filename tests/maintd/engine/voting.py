"""Agents that name a master."""

from tests.maintd.rig import Rig, fleet, mirrored
from tests.maintd.world import EVACUATE, REPAIR


def sick(*names: str, moved: str = "") -> Rig:
    """Live repairs, all of them ready to be ordered in the next round; one node to be emptied."""
    rig = Rig(fleet(), mirrored(("n6", "n1")))
    rig.agents.says |= dict.fromkeys(names, REPAIR)
    rig.tick()
    rig.agents.says |= {moved: EVACUATE} if moved else {}
    return rig
