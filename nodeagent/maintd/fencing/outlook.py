"""The next step of a fencing, when it comes, and what becomes of each instance. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from nodeagent.maintd.fencing import restarts
from nodeagent.model.action import MovePrimary
from nodeagent.model.fencing import End, Fate, Fencing, Stage
from nodeagent.model.ledger import Ledger, Policy
from nodeagent.model.purpose import OfFencing
from nodeagent.model.reason import Held, Of
from nodeagent.model.snapshot import Instance, Node, Observed
from nodeagent.model.units import Ms

_NEXT: Mapping[Stage, str] = {
    Stage.CUTS: "power it off",
    Stage.PROVES: "read its power, until it says off",
    Stage.REVIVES: "power it on once",
    Stage.WAITS: "power it off again, unless its agent answers before",
    Stage.REMOVES: "mark it offline in Ganeti",
    Stage.CONFIRMS: "read its power once more",
    Stage.RESTARTS: "start its instances elsewhere",
    Stage.FENCED: "",
    Stage.STOPPED: "",
}
_BEFORE = (Stage.CUTS, Stage.PROVES, Stage.REVIVES, Stage.WAITS, Stage.REMOVES)


@dataclass(frozen=True, slots=True)
class InstanceFate:
    """The fate of an instance: restarted `on` a node, restarting, waiting, or it stays down."""

    instance: str
    state: str
    on: str = ""
    why: str = ""


def upcoming(fencing: Fencing, policy: Policy, now: Ms) -> tuple[str, Ms]:
    """Return the next step in words, and when it comes (unix ms; 0: in the next round)."""
    if fencing.drill and fencing.stage is Stage.WAITS:
        return "give the drill up, unless its agent answers before", _waits_until(fencing, policy)
    if fencing.answered and fencing.stage is Stage.CUTS:
        return "cancel its power-off, which waits although the node answers again", Ms(0)
    if fencing.not_before > now:
        return _NEXT[fencing.stage], fencing.not_before
    if fencing.stage is Stage.WAITS:
        return _NEXT[fencing.stage], _waits_until(fencing, policy)
    return _NEXT[fencing.stage], Ms(0)


def _waits_until(fencing: Fencing, policy: Policy) -> Ms:
    return Ms(fencing.at + policy.revive_within)


def instance_fates(
    fencing: Fencing,
    node: Node,
    observed: Observed,
    policy: Policy,
    ledger: Ledger,
    held: Iterable[Held],
    now: Ms,
) -> Iterator[InstanceFate]:
    """Yield the fate of each running instance; before the node is offline, the planned one.

    `held` tells what the waiting ones wait for.
    """
    waits = {h.why.subject.name: h.reason for h in held if h.why.subject.of is Of.INSTANCE}
    known = fencing.fates
    if not known and (fencing.stage in _BEFORE or policy.fences != "restart"):
        known = restarts.fates(node, observed, ledger, now)
    moving = {
        intent.action.instance: intent.action
        for intent in ledger.intents
        if intent.purpose == OfFencing(fencing.node) and isinstance(intent.action, MovePrimary)
    }
    for fate in known:
        instance = observed.snapshot.instances[fate.instance] if not fencing.fates else None
        if policy.fences != "restart" and instance and (instance.shared or instance.secondary):
            fate = replace(fate, end=End.STAYS, why=_by_hand(instance, policy))
        move, why = moving.get(fate.instance), waits.get(fate.instance, "")
        yield _fate(fate, node, observed, move, why)


def _by_hand(instance: Instance, policy: Policy) -> str:
    """Say how a person starts it elsewhere: Ganeti does not check the disks of an offline node."""
    check = "" if instance.shared else f"check its disks on {instance.secondary}, then "
    limit = f"dead-nodes is {policy.dead_nodes}"
    if policy.fences != policy.dead_nodes:
        limit = f"stage is {policy.stage}"
    return f"{limit}: {check}run gnt-instance failover {instance.name}"


def _fate(
    fate: Fate, node: Node, observed: Observed, move: MovePrimary | None, waits_for: str
) -> InstanceFate:
    instance = observed.snapshot.instances.get(fate.instance)
    on = instance.primary if instance is not None and instance.primary != node.name else ""
    match fate.end:
        case End.RESTARTED:
            return InstanceFate(fate.instance, "restarted", on)
        case End.STAYS:
            return InstanceFate(fate.instance, "stays down", "", fate.why)
        case End.OPEN if move is not None:
            return InstanceFate(fate.instance, "restarting", move.target or "")
    return InstanceFate(fate.instance, "waiting", why=waits_for)
