"""When the waiting nodes of a roll will have returned, by how long others took. Pure."""

from collections.abc import Mapping

from nodeagent.model.roll import Phase, Roll
from nodeagent.model.units import Ms


def returns_at(roll: Roll, now: Ms) -> Mapping[str, Ms]:
    """When (unix ms) each node will be back, by UUID.

    Empty until a first one has returned, and while a person has to let the roll go on. Hours, and
    whatever else keeps a node waiting, are not foreseen.
    """
    took = [one.since - one.left_at for one in roll.nodes if one.phase is Phase.DONE]
    if not took or roll.over or roll.stopped or roll.paused or roll.canceled:
        return {}
    each, found = sum(took) // len(took), dict[str, Ms]()
    away = [one for one in roll.nodes if one.phase.away]
    for one in away:
        found[one.node] = Ms(max(now, one.left_at + each))
    places = sorted([*found.values(), *[now] * (roll.terms.at_once - len(away))])
    for one in roll.nodes:
        if one.phase is Phase.WAITING and places:
            back = Ms(places.pop(0) + roll.terms.pause_between + each)
            found[one.node] = back
            places.append(back)
    return found
