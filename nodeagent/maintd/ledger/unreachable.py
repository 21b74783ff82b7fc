"""Unreachable nodes, with the time since when, and the command that helps. Pure.

Their agents do not answer, or are not trusted. maintd does nothing about such a node: its machine
may be dead, or only its agent.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from nodeagent.maintd.planning.tag_settings import with_tags
from nodeagent.maintd.planning.times import rfc3339
from nodeagent.model.evidence import SIGNS, Evidence
from nodeagent.model.fencing import Judgement, Stage, Unreachable
from nodeagent.model.ledger import Ledger, Policy
from nodeagent.model.reason import Detail, Held, Kind, Reason, because, first_of
from nodeagent.model.snapshot import Observed, Snapshot
from nodeagent.model.units import Ms

_WATCHED = 0.5  # share of `unreachable-after` after which evidence about a node is gathered
_GAP = Ms(300_000)  # after an answer: what a node did in a longer one, nobody knows


def remember(ledger: Ledger, observed: Observed, now: Ms) -> Ledger:
    """Record since which poll each node has been unreachable without a break, and when it lived."""
    known = {silence.node: silence for silence in ledger.unreachable}
    nodes, silences = observed.snapshot.nodes, list[Unreachable]()
    for name in sorted(observed.unanswered & nodes.keys()):
        silence = known.get(nodes[name].uuid) or Unreachable(nodes[name].uuid, now)
        if (evidence := observed.evidence.get(name)) is not None:
            silence = replace(silence, lived=_lived(silence, evidence, observed.snapshot, now))
        silences.append(silence)
    if tuple(silences) == ledger.unreachable:
        return ledger
    return replace(ledger, unreachable=tuple(silences))


def _lived(silence: Unreachable, evidence: Evidence, snapshot: Snapshot, now: Ms) -> Ms:
    """The last sign of life, also by what is known now: only later ones replace an earlier one."""
    polled = 0 <= silence.since - evidence.last <= _GAP
    signs = [silence.lived or (evidence.last if polled else silence.since)]
    if evidence.noded:
        signs.append(evidence.noded_at)
    for testimony in evidence.witnesses:
        mirrors = [
            mirror
            for mirror in testimony.mirrors or ()
            if _is_on(evidence.node, mirror.instance, snapshot)
        ]
        if testimony.contacts & SIGNS or any(mirror.connected for mirror in mirrors):
            signs.append(testimony.at)
        signs += [Ms(testimony.at - mirror.ago) for mirror in mirrors if mirror.ago is not None]
    return min(max(signs), now)


def _is_on(node: str, name: str, snapshot: Snapshot) -> bool:
    instance = snapshot.instances.get(name)
    return instance is not None and node in instance.nodes


def unreachable(
    ledger: Ledger, snapshot: Snapshot, policy: Policy, now: Ms, share: float = 1.0
) -> dict[str, Ms]:
    """Since when (unix ms) each node has been unreachable, by name, if that is for long.

    Long is this `share` of `unreachable-after`.
    """
    return {
        name: since
        for name, since, after in _silent(ledger, snapshot, policy)
        if now - since >= share * after
    }


def expected(ledger: Ledger, snapshot: Snapshot, policy: Policy, now: Ms) -> dict[str, Ms]:
    """When (unix ms) each node whose agent does not answer will count as unreachable, by name."""
    return {
        name: Ms(since + after)
        for name, since, after in _silent(ledger, snapshot, policy)
        if now - since < after
    }


def _silent(ledger: Ledger, snapshot: Snapshot, policy: Policy) -> Iterator[tuple[str, Ms, Ms]]:
    """Yield each node whose agent does not answer, since when, and its `unreachable-after`.

    Of a node that reboots in its turn of a roll nothing else is expected, until it is late.
    """
    rebooting = {member.node for member in ledger.roll_nodes if member.may_be_silent}
    for silence in ledger.unreachable:
        node = snapshot.by_uuid.get(silence.node)
        if node is not None and not node.offline and node.uuid not in rebooting:
            yield node.name, silence.since, with_tags(policy, snapshot, node).unreachable_after


def watched(ledger: Ledger, snapshot: Snapshot, policy: Policy, now: Ms) -> dict[str, Ms]:
    """Nodes about which evidence is gathered, by name, and since when they have been unreachable.

    A fenced one is among them until its power is confirmed: a person may have to say it.
    """
    fenced = {
        node.name: fencing.since
        for fencing in ledger.fencing
        if fencing.stage is Stage.CONFIRMS
        and (node := snapshot.by_uuid.get(fencing.node)) is not None
        and node.offline
    }
    return unreachable(ledger, snapshot, policy, now, _WATCHED) | fenced


def reasons(
    ledger: Ledger,
    observed: Observed,
    policy: Policy,
    now: Ms,
    judged: Mapping[str, Judgement],
) -> tuple[Held, ...]:
    """Each unreachable node, with the evidence, its judgement, and the command that helps.

    A node that is being fenced is left out: the commands for it would interfere.
    """
    since_by_node = unreachable(ledger, observed.snapshot, policy, now)
    fenced = {fencing.node for fencing in ledger.fencing if not fencing.stage.over}
    held = [
        Held(_why(name, since, doubt, observed, judged.get(name)), name)
        for name, since in since_by_node.items()
        if (doubt := observed.doubts.get(name)) and observed.snapshot.nodes[name].uuid not in fenced
    ]
    return first_of(held, Kind.MORE_UNREACHABLE)


def _why(name: str, since: Ms, doubt: str, observed: Observed, judged: Judgement | None) -> Reason:
    """The reason, with the evidence of Ganeti's noded and the judgement."""
    noded = observed.noded.get(name)
    if noded:
        return because(Kind.AGENT_UNREACHABLE, name, since=rfc3339(since), doubt=doubt)
    also: dict[str, Detail] = {} if judged is None else {"judged": judged.reason}
    if noded is not None:
        also["noded"] = "Ganeti's noded does not answer either"
    return because(Kind.UNREACHABLE, name, since=rfc3339(since), doubt=doubt, **also)
