"""Events of dead nodes: suspected, fenced, revived, back, and their instances. Pure."""

from collections.abc import Collection, Iterator

from nodeagent.model.event import Event, happened
from nodeagent.model.fencing import End, Fencing, Stage
from nodeagent.model.ledger import Decision, Ledger
from nodeagent.model.reason import FencingKind, Held
from nodeagent.model.snapshot import Node, Observed
from nodeagent.model.units import Ms

BRAKED = "fencing-braked"  # the metric of the brakes' reasons, and the kind of their event
_PROVEN = (Stage.RESTARTS, Stage.FENCED)


def fencings(before: Ledger, after: Ledger, observed: Observed | None, now: Ms) -> Iterator[Event]:
    """The steps of each fencing in a round."""
    if observed is None or not (before.fencing or after.fencing):
        return
    nodes = observed.snapshot.by_uuid
    old = {fencing.node: fencing for fencing in before.fencing}
    new = {fencing.node: fencing for fencing in after.fencing}
    for uuid, fencing in new.items():
        if node := nodes.get(uuid):
            yield from _went_on(old.get(uuid), fencing, node.name, now)
    for uuid, fencing in old.items():
        if uuid not in new and (node := nodes.get(uuid)):
            yield _ended(fencing, node, observed, now)


def _went_on(old: Fencing | None, fencing: Fencing, node: str, now: Ms) -> Iterator[Event]:
    if old is None and fencing.drill:
        yield happened(now, "drill-started", "", node)
    elif old is None:
        yield happened(now, "suspected-dead", "", node, why=fencing.public_why)
    if fencing.tries > (old.tries if old else 0) and (old is None or old.said != fencing.said):
        yield happened(now, "fencing-failed", "", node, stage=fencing.stage.value, why=fencing.said)
    was = old.stage if old else Stage.CUTS
    if fencing.answered and fencing.stage is Stage.REVIVES and was is not Stage.REVIVES:
        why = "it had recovered, and its power-off came late: maintd powers it on again"
        yield happened(now, "fencing-failed", "", node, stage=fencing.stage.value, why=why)
    if fencing.stage in _PROVEN and was not in _PROVEN:
        how = {"person": "yes"} if fencing.who else {"proven": "yes"}
        yield happened(now, "fenced", "", node, **how)
    done = _of(old, End.RESTARTED)
    if fresh := tuple(name for name in _of(fencing, End.RESTARTED) if name not in done):
        yield happened(now, "instances-restarted", "", node, instances=fresh)
    down = _of(fencing, End.STAYS)
    if down and fencing.stage is Stage.FENCED and was is not Stage.FENCED:
        yield happened(now, "instances-down", "", node, instances=down)


def _of(fencing: Fencing | None, end: End) -> tuple[str, ...]:
    return tuple(fate.instance for fate in fencing.fates if fate.end is end) if fencing else ()


def _ended(fencing: Fencing, node: Node, observed: Observed, now: Ms) -> Event:
    powered = fencing.stage in (Stage.REVIVES, Stage.WAITS) and node.name in observed.diagnoses
    if fencing.drill and powered and not fencing.said:
        return happened(now, "drill-passed", "", node.name)
    if fencing.drill:
        why = fencing.said or f"{node.name} was marked offline meanwhile"
        return happened(now, "drill-failed", "", node.name, why=why)
    if powered:
        return happened(now, "revived", "", node.name)
    answers = "" if fencing.stage.removed or node.offline else "yes"
    return happened(now, "came-back", "", node.name, answers=answers, state=node.standing.value)


def is_braked(held: Held) -> bool:
    """Tell whether a brake is why a dead node is not fenced, for all readers to know."""
    why = held.why
    if why.kind is not FencingKind.FENCING_WAITS or any(kind.private for kind in why.kinds):
        return False
    return any(kind.metric == BRAKED for kind in why.kinds)


def braked(decision: Decision, last: Decision | None, now: Ms) -> Iterator[Event]:
    """Dead nodes that a brake keeps from being fenced, once for each such time."""
    reported = braked_nodes(last.held) if last else set()
    for held in decision.held:
        if is_braked(held) and held.node not in reported:
            reported.add(held.node)
            yield happened(now, BRAKED, "", held.node, why=held.reason)


def braked_nodes(held: Collection[Held]) -> set[str]:
    return {blocked.node for blocked in held if is_braked(blocked)}
