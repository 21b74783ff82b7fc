"""Jobs of a shift, which take an instance from one pair of nodes to another. Pure."""

from collections.abc import Sequence

from nodeagent.model.action import MovePrimary, MoveSecondary
from nodeagent.model.balance import Shift, Spot
from nodeagent.model.snapshot import Instance


def spot(instance: Instance) -> Spot:
    return Spot(instance.primary, instance.secondary)


def fault(shift: Shift, instance: Instance) -> str:
    """Why no single move of hbal's is this shift; empty if one is."""
    (p, s), (to_p, to_s) = _pair(shift.at), _pair(shift.to)
    mirrored = instance.template == "drbd" and instance.secondary is not None
    if not mirrored and not instance.shared:
        return f"its disks ({instance.template}) are only on {instance.primary}"
    if (s is None) == mirrored or (to_s is None) == mirrored:
        return "it uses DRBD: name two nodes" if mirrored else "it does not use DRBD: name one node"
    if to_p == to_s:
        return f"{to_p} cannot be both its nodes"
    if (p, s) == (to_p, to_s):
        return "it is there already"
    if mirrored and not {p, s} & {to_p, to_s}:
        return "no one move replaces both its nodes"
    if instance.interrupted and any(
        isinstance(job, MovePrimary) for job in course(shift, instance)
    ):
        return "Ganeti never migrates it, and a failover would interrupt it"
    return ""


def course(shift: Shift, instance: Instance) -> Sequence[MovePrimary | MoveSecondary]:
    """The jobs, in order; each needs the success of the one before.

    Running instances migrate and never fail over: balance is worth no interruption. A stopped
    instance loses nothing by a failover.
    """
    name, live = instance.name, instance.running
    (p, s), (to_p, to_s) = _pair(shift.at), _pair(shift.to)

    def primary(node: str, target: str) -> MovePrimary:
        return MovePrimary(name, node, live, target, fallback=False)

    if s is None or to_s is None:
        return [primary(p, to_p)]
    if to_p == s and to_s == p:
        return [primary(p, s)]
    if to_p == p:
        return [MoveSecondary(name, s, to_s)]
    if to_s == p:
        return [MoveSecondary(name, s, to_p), primary(p, to_p)]
    if to_p == s:
        return [primary(p, s), MoveSecondary(name, p, to_s)]
    return [primary(p, s), MoveSecondary(name, p, to_p), primary(s, to_p)]


def described(shift: Shift) -> str:
    """A shift in a few words, as hbal writes it."""
    return f"{shift.instance} {_words(shift.at)} => {_words(shift.to)}"


def _words(spot: Spot) -> str:
    return spot.primary if spot.secondary is None else f"{spot.primary}:{spot.secondary}"


def _pair(spot: Spot) -> tuple[str, str | None]:
    return spot.primary, spot.secondary
