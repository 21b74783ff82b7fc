"""A node on its way back."""

from dataclasses import replace

from nodeagent.model.incident import Status
from nodeagent.model.ledger import Policy
from nodeagent.model.units import Ms
from nodeagent.model.wish import Done
from tests.maintd.rig import ID, QUICK, Rig, fleet, mirrored
from tests.maintd.world import EVACUATE, OK

FIVE = replace(QUICK, return_after=Ms(300_000))


PLACES = (("n3", "n4"), ("n3", "n5"), ("n2", "n3"))


def evacuated(policy: Policy = FIVE, **members: object) -> Rig:
    """n3 is evacuated, offline and tagged; its agent, which nobody asks, says Ok."""
    rig = Rig(fleet(), mirrored(*PLACES), policy, **members)  # type: ignore[arg-type]
    rig.agents.says["n3"] = EVACUATE
    rig.settle(seconds=30.0)
    rig.agents.says["n3"] = OK
    assert rig.cluster.nodes["n3"].offline
    assert rig.status("n3") is Status.COMPLETED
    return rig


def done(rig: Rig, *, force: bool = False, keep: str = "") -> str:
    """Say that n3 is repaired; why it is refused, or nothing."""
    wish = rig.wish(Done("n3", force, keep))
    return ID.sub("ID", rig.tick().decision.refused.get(wish, ""))


CHECKED = replace(FIVE, return_check="memtest", return_after=Ms(60_000))
