"""The nodes' vote on the master: each agent seals its own node's answer. Pure.

Ganeti's own rule: more than half of all nodes must name us. A master that was cut off from the
others without knowing it hears only itself.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from nodeagent.model.snapshot import Snapshot
from nodeagent.protocol.bounds import WHY, cut
from nodeagent.protocol.look import Look, Seen


@dataclass(frozen=True, slots=True)
class Vote:
    """Result of a vote. Neither `won` nor `lost`: it is undecided, and nothing is done."""

    won: bool
    lost: bool
    words: str


def count(looks: Mapping[str, Look], snapshot: Snapshot, me: str) -> Vote:
    """Count the nodes that are not offline; those unreachable or not trusted have no vote."""
    voters = [name for name, node in snapshot.nodes.items() if not node.offline]
    named = {
        name: look.report.master
        for name in voters
        if isinstance(look := looks.get(name), Seen) and look.report.master
    }
    ayes = sum(1 for master in named.values() if master == me)
    noes = len(named) - ayes
    words = f"{ayes} of {len(voters)} nodes say that {me} is the master"
    if noes:
        others = cut(", ".join(sorted({name for name in named.values() if name != me})), WHY)
        words += f", {noes} say {others}"
    if silent := len(voters) - len(named):
        words += f", {silent} say nothing"
    return Vote(2 * ayes > len(voters), 2 * noes >= len(voters) and noes > 0, words)
