"""A whole coordinator with a roll: its beginning, its rounds, and what has become of the nodes."""

from nodeagent.model.roll import REBOOT, Phase, Roll, Terms
from nodeagent.model.units import Ms
from nodeagent.model.wish import StartRoll
from tests.maintd.rig import QUICK, Rig, ask, fleet, mirrored

PLACES = (("n3", "n4"), ("n4", "n5"), ("n5", "n6"), ("n2", "n3"))
TERMS = Terms(REBOOT, reboots=True, quiet=Ms(30_000))


def rig() -> Rig:
    made = Rig(fleet(), mirrored(*PLACES), QUICK)
    made.tick()
    return made


def start(one: Rig, *nodes: str, terms: Terms = TERMS) -> None:
    assert ask(one, StartRoll(terms, nodes)) == ""


def roll(one: Rig) -> Roll:
    assert one.ledger.roll is not None
    return one.ledger.roll


def phases(one: Rig) -> dict[str, Phase]:
    return {member.name: member.phase for member in roll(one).nodes}


def away(one: Rig) -> set[str]:
    return {node.name for node in one.cluster.nodes.values() if not node.in_service}


def go_on(one: Rig, rounds: int = 200, seconds: float = 20) -> int:
    """Hold rounds until the roll is over or nothing changes; return the most nodes away at once."""
    most, calm, before = 0, 0, None
    for _ in range(rounds):
        one.tick(seconds)
        most = max(most, len(away(one)))
        calm = calm + 1 if (one.ledger.roll, away(one)) == before else 0
        before = one.ledger.roll, away(one)
        if roll(one).over or calm > 60:
            break
    return most


def rebooted(one: Rig) -> list[str]:
    return [order.node for order in one.agents.orders]
