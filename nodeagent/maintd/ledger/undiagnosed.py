"""Nodes whose agent answers, but has stood by no diagnosis for long. Pure.

maintd does nothing about such a node, sick or not, so a person has to hear of it: a diagnose
command is broken there, or none has run.
"""

from dataclasses import replace

from nodeagent.maintd.planning.times import rfc3339
from nodeagent.model.ledger import Ledger, Undiagnosed
from nodeagent.model.reason import Held, Kind, because, first_of
from nodeagent.model.snapshot import Observed
from nodeagent.model.units import Ms

AFTER = Ms(900_000)  # a command has failed for long enough to be broken


def remember(ledger: Ledger, observed: Observed, now: Ms) -> Ledger:
    """Record since which poll each node has had no diagnosis without a break."""
    known = {undiagnosed.node: undiagnosed for undiagnosed in ledger.undiagnosed}
    nodes = observed.snapshot.nodes
    names = sorted((observed.doubts.keys() & nodes.keys()) - observed.unanswered)
    undiagnoseds = tuple(
        known.get(nodes[name].uuid) or Undiagnosed(nodes[name].uuid, now)
        for name in names
        if not nodes[name].offline
    )
    return (
        ledger if undiagnoseds == ledger.undiagnosed else replace(ledger, undiagnosed=undiagnoseds)
    )


def reasons(ledger: Ledger, observed: Observed, now: Ms) -> tuple[Held, ...]:
    """Each node that has had no diagnosis for a quarter of an hour, and why."""
    held = []
    for undiagnosed in ledger.undiagnosed:
        name = observed.snapshot.name_of(undiagnosed.node)
        doubt = observed.doubts.get(name, "")
        if doubt and now - undiagnosed.since >= AFTER:
            why = because(Kind.UNDIAGNOSED, name, since=rfc3339(undiagnosed.since), doubt=doubt)
            held.append(Held(why, name))
    return first_of(held, Kind.MORE_UNDIAGNOSED)
