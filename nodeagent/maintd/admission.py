"""Whether work on an incident may begin or go on; every "no" is a sentence. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from nodeagent.model.incident import Incident, Status
from nodeagent.model.ledger import Ledger, Policy, Storm
from nodeagent.model.snapshot import Node, Observed


def brake(ledger: Ledger, observed: Observed, policy: Policy, now: int) -> Ledger:
    """Trip the storm brake if too many are sick at once; only an administrator resets it.

    It counts what was noted since the last reset and nobody has canceled, emptied or not: a
    bad batch of diagnose scripts looks exactly like a burning house.
    """
    if ledger.storm is not None:
        return ledger
    new = [
        i for i in ledger.incidents if i.status is not Status.CANCELED and i.noted_at > ledger.calm
    ]
    sick, total = len({i.node for i in new}), len(observed.snapshot.nodes)
    burst = sum(1 for i in new if now - i.noted_at < policy.burst_within)
    if sick > max(1, policy.storm * total):
        why = f"{sick} of {total} nodes are sick, more than {policy.storm:.0%}"
    elif burst > policy.burst:
        minutes = policy.burst_within / 60_000
        why = f"{burst} incidents within {minutes:g} min, more than {policy.burst}"
    else:
        return ledger
    return replace(ledger, storm=Storm(now, why))


def may_go_on(incident: Incident, observed: Observed, holds: dict[str, str]) -> str | None:
    """Why nothing more may be done for an incident, begun or not; None if it may."""
    if why := holds.get(incident.id):
        return why
    if why := observed.doubts.get(incident.name):
        return f"nothing is done while in doubt: {why}"
    said = observed.diagnoses.get(incident.name)
    if said is not None and said != incident.diagnosis and not incident.repaired:
        return f"the node says {said.need.wire} now, not what this is about: waiting for it to last"
    return None


def may_begin_there(incident: Incident, observed: Observed) -> str | None:
    """Why nothing may be begun at the node itself."""
    node = observed.snapshot.nodes.get(incident.name)
    if node is not None and node.offline:
        return f"{node.name} is offline, and nobody asks an offline node how it is"
    return None


def may_begin(
    incident: Incident, ledger: Ledger, policy: Policy, paused: dict[str, str], now: int
) -> str | None:
    """Why work on a noted incident may not begin yet, whoever else is at work."""
    if why := paused.get(incident.name):
        return why
    if ledger.storm is not None:
        return f"storm brake: {ledger.storm.why}; gnt-maint resume --storm resets it"
    if incident.not_before > now:
        return f"not again for {_seconds(incident.not_before - now)}: {incident.why}"
    if incident.noted_at + policy.settle > now:
        return f"settling for {_seconds(incident.noted_at + policy.settle - now)} more"
    begun = [b for b in ledger.begun if b.node == incident.node and b.incident != incident.id]
    lately = [b for b in begun if now - b.at < policy.attempts_within]
    if len(lately) >= policy.attempts:
        return (
            f"the node was worked on {len(lately)} times within"
            f" {_seconds(policy.attempts_within)}, and may be {policy.attempts} times"
        )
    # What is worse than what was done last need not wait for it to show its effect.
    after = max((b.at for b in begun if b.need >= incident.diagnosis.need), default=None)
    if after is not None and after + policy.cooldown > now:
        return f"cooling down for {_seconds(after + policy.cooldown - now)} more"
    return None


def no_room_in_work(
    incident: Incident, busy: set[str], nodes: Mapping[str, Node], policy: Policy
) -> str | None:
    """Why one more node may not be worked on beside those that are. `nodes` is by UUID."""
    names = sorted(nodes[uuid].name for uuid in busy if uuid in nodes)
    if len(busy) >= policy.nodes_in_work:
        return f"{len(busy)} of {policy.nodes_in_work} nodes in work: {', '.join(names)}"
    groups = Counter(nodes[uuid].group for uuid in busy if uuid in nodes)
    here = nodes[incident.node].group
    if groups[here] >= policy.group_in_work:
        return f"{groups[here]} of {policy.group_in_work} nodes of its group in work"
    return None


def another_candidate(
    node: Node, incidents: Iterable[Incident], nodes: Mapping[str, Node]
) -> str | None:
    """Why no entry of the queue is begun on a master candidate; of entries' own there is one."""
    if not node.candidate:
        return None
    for incident in incidents:
        other = nodes.get(incident.node)
        if other is None or other is node or incident.status is not Status.PENDING:
            continue
        if other.candidate:
            return f"{other.name}, another master candidate, is being repaired"
    return None


def _seconds(ms: int) -> str:
    """Whole ones, and never none as long as there is something to wait for."""
    return f"{-(-ms // 1000)} s" if ms < 600_000 else f"{-(-ms // 60_000)} min"
