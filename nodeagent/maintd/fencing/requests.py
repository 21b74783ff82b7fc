"""People's requests: a word that a node has no power, and a drill of its power control. Pure."""

from dataclasses import replace

from nodeagent.maintd.fencing import drills, readings
from nodeagent.maintd.fencing.judgement import judge, unread_disks
from nodeagent.maintd.planning.names import no_such
from nodeagent.model.evidence import SIGNS
from nodeagent.model.fencing import Fencing, Life, Stage
from nodeagent.model.ledger import Ledger
from nodeagent.model.snapshot import Node, Observed
from nodeagent.model.units import Ms
from nodeagent.model.wish import DrillPower, PulledPlug


def pulled(
    ledger: Ledger, asked: PulledPlug, who: str, observed: Observed, now: Ms
) -> Ledger | str:
    """Take a node as off, unless anything of it still answers anybody.

    One that maintd has marked offline is taken, too, while its power cannot be read again.
    """
    node = observed.snapshot.nodes.get(asked.node)
    if node is None:
        return no_such("node", asked.node)
    known = ledger.fencing_of(node.uuid)
    if why := _why_not_off(node, known, observed, now):
        return why
    stage = Stage.RESTARTS if node.offline else Stage.REMOVES
    silence = ledger.silence(node.uuid)
    new = Fencing(
        node.uuid,
        stage,
        since=now,
        at=now,
        why=f"{who} says that its power is cut",
        who=who,
        off=now,
        silent=now if silence is None else silence.since,
    )
    if known is not None:
        silent = known.silent or known.since
        new = replace(new, since=known.since, fates=known.fates, silent=silent)
    return ledger.with_fencing(new)


def _why_not_off(node: Node, known: Fencing | None, observed: Observed, now: Ms) -> str:
    """Say why a node may have power after all; empty if nothing contradicts a person's word."""
    name, evidence = node.name, observed.evidence.get(node.name)
    untried = f"no other node has tried to reach {name} yet: try again in some minutes"
    if name == observed.snapshot.master:
        return f"{name} is the master node, which runs this: it has power"
    if node.offline and (known is None or known.stage is not Stage.CONFIRMS):
        return f"{name} is offline already: run gnt-node failover {name} for its instances"
    if name not in observed.unanswered and not node.offline:
        return f"the agent of {name} answers, so {name} has power: see gnt-maint why {name}"
    if evidence is None:
        return untried
    judged = judge(evidence, observed.snapshot, now)
    if judged.life is Life.ALIVE:
        return f"{name} has power: {judged.reason}"
    if judged.connected:
        return (
            f"{name} has power: {len(judged.connected)} of its DRBD disks are still connected:"
            f" see gnt-maint why {name}"
        )
    reached_by = [t.witness for t in evidence.witnesses if t.contacts & SIGNS]
    if reached_by or evidence.agent in SIGNS:
        who = next(iter(reached_by), "maintd")
        return f"{name} has power: {who} reaches its kernel: see gnt-maint why {name}"
    if not evidence.witnesses:
        return untried
    peers, why = unread_disks(evidence, observed.snapshot, now)
    if not peers:
        return ""
    note = f" ({why})" if why else ""
    return (
        f"{', '.join(peers)} cannot tell whether DRBD disks are still connected to {name}{note}, so"
        f" {name} may have power: start ganeti-mond on {peers[0]}, or, if that is dead as well and"
        f" has no power, run gnt-node modify --offline=yes {peers[0]}; then try again"
    )


def drill(ledger: Ledger, asked: DrillPower, who: str, observed: Observed, now: Ms) -> Ledger | str:
    """Start to drill the power of an empty, drained node."""
    node = observed.snapshot.nodes.get(asked.node)
    if node is None:
        return no_such("node", asked.node)
    if ledger.fencing_of(node.uuid) is not None:
        return f"maintd works on the power of {node.name} already: see gnt-maint why {node.name}"
    if why := drills.why_not(node, observed):
        return why
    if any(i.node == node.name for i in ledger.intents if not readings.is_reading(i)):
        return (
            f"maintd works on {node.name}: wait until it has ended; see gnt-maint why {node.name}"
        )
    new = Fencing(node.uuid, Stage.CUTS, now, now, f"{who} drills its power", who, drill=True)
    return ledger.with_fencing(new)
