"""Nodes that a person reports repaired: proved, put back, their incidents closed. Pure.

On a fenced node the check for stale instances comes first, while Ganeti still has it offline and
starts nothing there: the agent takes the order all the same. Then maintd brings an offline node
back drained, as it polls no offline node. Its agent must report Ok for `return-after` without a
break, and the command `return-check` must succeed there. Only then the node takes instances again,
and maintd removes the tags of its ended incidents, and of its fencing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from nodeagent.maintd.incidents.drained import at_work
from nodeagent.maintd.incidents.waiting import by_hand, state_of
from nodeagent.maintd.planning.names import no_such
from nodeagent.maintd.planning.outcomes import BACK_OFF, TRIES, by_uuid, first_ended, how_ended
from nodeagent.maintd.planning.resources import Room, Taken
from nodeagent.maintd.planning.tag_settings import with_tags
from nodeagent.model.action import Action, Restore, Retag, RunCommand, Scope, describe
from nodeagent.model.diagnosis import Need
from nodeagent.model.fencing import FENCED_TAG
from nodeagent.model.incident import Incident, Status
from nodeagent.model.ledger import Intent, Ledger, Outcome, Policy, Returning
from nodeagent.model.purpose import OfReturn
from nodeagent.model.reason import Held, Kind, Reason, because
from nodeagent.model.snapshot import Node, Observed
from nodeagent.model.units import Ms
from nodeagent.model.window import Standing
from nodeagent.model.wish import Done
from nodeagent.protocol.canonical import canonical

STALE = "stale-instances"  # a shipped command: what runs here although it runs elsewhere
_GOALS = {
    Standing.SERVING: "put back into service",
    Standing.DRAINED: "brought back and kept drained",
    Standing.OFFLINE: "closed and kept offline",
}

_WHOLE = (Kind.PROVES, Kind.RETURN_FAILED, Kind.RETURN_CONTRADICTED)  # they say it all
_DOUBTS = (Kind.IN_DOUBT, Kind.UNHEARD)


# Request.


def done(ledger: Ledger, asked: Done, who: str, observed: Observed, now: Ms) -> Ledger | str:
    """Close a node's ended incidents and return the node to its state before them."""
    node = observed.snapshot.nodes.get(asked.node)
    if node is None:
        return no_such("node", asked.node)
    there = [incident for incident in ledger.incidents if incident.node == node.uuid]
    active = [i for i in there if i.status.active and not i.by_hand]
    if active:
        return (
            f"incident {active[0].id} of {node.name} has not ended: wait for it, or run"
            f" gnt-maint cancel {active[0].id}"
        )
    ours = [one for one in ledger.drained if one.node == node.uuid]
    out = node.drained or node.offline
    fencing = next((one for one in ledger.fencing if one.node == node.uuid), None)
    if fencing is not None and not fencing.stage.over:
        return f"maintd is still fencing {node.name}: see gnt-maint why {node.name}"
    fenced = fencing is not None or any(r.fenced for r in ledger.returning if r.node == node.uuid)
    if not (fenced or any(_waits(i, node) for i in there) or (ours and out)):
        stays = f"{state_of(node)}: {by_hand(node)}" if out else "in service"
        return f"no incident of {node.name} waits to be closed; {node.name} is {stays}"
    why = _unhealthy(node, observed)
    if why and not (asked.force or node.offline):
        return (
            f"{node.name} is not healthy: {why}: repair it first, or insist with"
            f" gnt-maint done --force {node.name}"
        )
    to = Standing.of(drained=node.drained, offline=node.offline)
    if asked.keep == "drained" and out:
        to = Standing.DRAINED
    elif not asked.keep and out:
        drained = not ours and any(i.was_drained for i in there)
        to = Standing.DRAINED if drained else Standing.SERVING
    one = Returning(node.uuid, who, now, to, asked.force, online=not node.offline, fenced=fenced)
    if not (why or node.offline):  # a second request keeps the proof
        well = [r.well for r in ledger.returning if r.node == node.uuid and r.well]
        one = replace(one, well=well[0] if well else now)
    return replace(
        ledger,
        returning=(*(r for r in ledger.returning if r.node != node.uuid), one),
        drained=tuple(replace(d, back="") if d in ours else d for d in ledger.drained),
        intents=tuple(
            i for i in ledger.intents if i.purpose.back != node.uuid or not _is_lost(i, observed)
        ),
    )


def _waits(incident: Incident, node: Node) -> bool:
    """Check whether an incident of the node waits for a person."""
    if incident.status in (Status.COMPLETED, Status.FAILED):
        return True
    out = node.drained or node.offline
    return incident.status is Status.CANCELED and (out or incident.tag in node.tags)


def _unhealthy(node: Node, observed: Observed) -> str:
    """Why its agent does not report Ok; empty if it does."""
    said = observed.diagnoses.get(node.name)
    if said is None:
        return f"its agent is in doubt ({observed.doubts.get(node.name, 'not asked')})"
    return "" if said.need is Need.OK else f"its agent reports {said.need.wire}"


# Remember.


def remember(ledger: Ledger, observed: Observed, now: Ms) -> Ledger:
    """Record how the jobs and checks of returning nodes ended, and since when each is healthy.

    A node does not return if somebody took it offline meanwhile, or if new work has started on it.
    """
    if not (ledger.returning or any(intent.purpose.back for intent in ledger.intents)):
        return ledger
    nodes, kept = by_uuid(observed), list[Returning]()
    lost = {i.id for i in ledger.intents if i.purpose.back and _is_lost(i, observed)}
    for one in ledger.returning:
        node = nodes.get(one.node)
        if node is None or _is_over(one, node, ledger):
            continue
        for intent in ledger.intents:
            if intent.purpose.back == one.node:
                one = _after(one, intent, observed, now)
        said = observed.diagnoses.get(node.name)
        well = said is not None and said.need is Need.OK
        one = replace(
            one,
            online=one.online or not node.offline,
            well=min(one.well or now, now) if well else Ms(0),
            checked=one.checked and well,
            not_before=min(one.not_before, now + BACK_OFF),
        )
        kept.append(one)
    intents = tuple(i for i in ledger.intents if i.id not in lost)
    return replace(ledger, returning=tuple(kept), intents=intents)


def _is_over(one: Returning, node: Node, ledger: Ledger) -> bool:
    again = (i.node == one.node and i.status is Status.PENDING for i in ledger.incidents)
    return (one.online and node.offline) or any(again)


def _after(one: Returning, intent: Intent, observed: Observed, now: Ms) -> Returning:
    end = how_ended(first_ended(intent, observed, now), observed, now)
    lost = _is_lost(intent, observed)
    stale = isinstance(intent.action, RunCommand) and intent.action.command == STALE
    if end is None and intent.id not in observed.absent and not lost:
        return one
    if end is not None and end.outcome is Outcome.SUCCESS:
        if stale:
            return replace(one, fenced=False, tries=0, why="")
        return replace(one, checked=isinstance(intent.action, RunCommand), tries=0, why="")
    unknown = "its agent does not answer" if stale else "its result is unknown"
    why = observed.absent.get(intent.id) or (end.why if end else unknown)
    told = f"{describe(intent.action)}: {why}"
    return replace(one, tries=one.tries + 1, not_before=now + BACK_OFF, why=told)


def _is_lost(intent: Intent, observed: Observed) -> bool:
    """Check whether its end is unknown; to repeat it does no harm."""
    result = observed.results.get(intent.id)
    lost = result is not None and result.outcome is Outcome.LOST
    return lost and how_ended(intent, observed, Ms(0)) is None


# Act.


def put_back(
    ledger: Ledger,
    observed: Observed,
    policy: Policy,
    room: Room,
    stopped: Mapping[str, Reason],
    now: Ms,
) -> tuple[Ledger, list[Held]]:
    """Give each returning node its next step, or a reason to wait.

    `stopped` is why no work starts on a node, or anywhere ("").
    """
    nodes, held, kept = by_uuid(observed), list[Held](), list[Returning]()
    stopped = {**stopped, **at_work(ledger, observed.snapshot, now)} if ledger.returning else {}
    for one in ledger.returning:
        node, purpose = nodes[one.node], OfReturn(one.node)
        ended = [i for i in ledger.incidents if i.node == one.node and not i.status.active]
        if any(intent.purpose == purpose for intent in ledger.intents):
            kept.append(one)
            continue
        here = with_tags(policy, observed.snapshot, node)
        step = _next(one, node, ended, ledger, observed, here, now)
        if step is None:
            ledger = _over(ledger, one, node)
            continue
        kept.append(one)
        why = step if isinstance(step, Reason) else _obstacle(one, node, stopped, now)
        taken = why or room.take(node.name, purpose)
        if isinstance(taken, Taken) and isinstance(step, Action):
            ledger = taken.promise(ledger, step, now)
        elif isinstance(taken, Reason):
            why = taken
            told = {"goal": _GOALS[one.to] if _is_out(node) else "closed", "who": one.who}
            if why.kind in _DOUBTS and now - one.at > here.return_after + here.unreachable_after:
                why = because(Kind.RETURN_FAILED, node.name, why=why)
            if why.kind not in _WHOLE:
                why = because(Kind.RETURN_WAITS, node.name, **told, why=why)
            held.append(Held(why, node.name, ended[-1].id if ended else ""))
    return replace(ledger, returning=tuple(kept)), held


def _is_out(node: Node) -> bool:
    return node.drained or node.offline


def _next(
    one: Returning,
    node: Node,
    ended: Sequence[Incident],
    ledger: Ledger,
    observed: Observed,
    policy: Policy,
    now: Ms,
) -> Action | Reason | None:
    """Return the next step, or the reason to wait for it; None after the last one."""
    if one.fenced and one.to is not Standing.OFFLINE:
        # Nobody can insist: what started elsewhere may still run here.
        return RunCommand(node.name, STALE, _machine(node, observed))
    if node.offline and one.to is not Standing.OFFLINE:
        at_once = one.forced and one.to is Standing.SERVING
        return Restore(node.name, drained=not at_once)
    if node.drained and one.to is Standing.SERVING:
        return _proof(one, node, observed, policy, now) or Restore(node.name)
    tagged = [i for i in ended if i.status in (Status.COMPLETED, Status.FAILED)]
    taken = {
        tag
        for intent in ledger.intents
        if isinstance(action := intent.action, Retag) and action.name == node.name
        for tag in (*action.remove, *action.add)
    }
    ours = {i.tag for i in tagged}
    if one.to is not Standing.OFFLINE:
        ours |= {tag for tag in node.tags if tag.startswith(FENCED_TAG)}
    if tags := tuple(sorted(ours & node.tags - taken)):
        return Retag(Scope.NODE, node.name, remove=tags)
    unset = any(i.status is Status.FAILED and not i.tag_seen for i in tagged)
    return because(Kind.TAG_AWAITED, node.name) if unset or taken else None


def _proof(
    one: Returning, node: Node, observed: Observed, policy: Policy, now: Ms
) -> RunCommand | Reason | None:
    """The check to run, or the missing proof; None once the node has proved healthy."""
    if one.forced:
        return None
    if doubt := observed.doubts.get(node.name):
        return because(Kind.IN_DOUBT, node.name, doubt=doubt)
    said = observed.diagnoses.get(node.name)
    if said is None:
        return because(Kind.UNHEARD, node.name)
    if said.need is not Need.OK:
        return because(Kind.RETURN_CONTRADICTED, node.name, need=said.need.wire, who=one.who)
    if (left := (one.well or now) + policy.return_after - now) > 0:
        return because(Kind.PROVES, node.name, left=left)
    if policy.return_check and not one.checked:
        machine = canonical({"name": node.name, "uuid": node.uuid})
        return RunCommand(node.name, policy.return_check, machine)
    return None


def _machine(node: Node, observed: Observed) -> str:
    """The node, and which instances may run there, for the check for stale instances."""
    there = observed.snapshot.instances.values()
    here = sorted(i.name for i in there if i.primary == node.name)
    mirrors = sorted(i.name for i in there if i.secondary == node.name)
    return canonical(
        {"name": node.name, "uuid": node.uuid, "instances": here, "secondaries": mirrors}
    )


def _obstacle(one: Returning, node: Node, stopped: Mapping[str, Reason], now: Ms) -> Reason | None:
    if one.tries >= TRIES:
        return because(Kind.RETURN_FAILED, node.name, why=one.why)
    if why := stopped.get("") or stopped.get(node.name):
        return why
    if (left := one.not_before - now) > 0:
        return because(Kind.TRY_AGAIN, node.name, left=left, why=one.why)
    return None


def _over(ledger: Ledger, one: Returning, node: Node) -> Ledger:
    """Finish: a person decided how the node stays, and maintd polls no offline node."""
    gone = node.offline
    return replace(
        ledger,
        drained=tuple(d for d in ledger.drained if d.node != one.node),
        incidents=tuple(
            i for i in ledger.incidents if not (gone and i.node == one.node and not i.status.active)
        ),
    )


def expected(one: Returning, policy: Policy) -> Ms | None:
    """The time (unix ms) when the node returns if it stays healthy; None if unknown."""
    proves = one.to is Standing.SERVING and one.online and one.well and not one.forced
    return one.well + policy.return_after if proves else None
