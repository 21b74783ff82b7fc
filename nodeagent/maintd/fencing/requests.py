"""People's requests: a word that a node has no power, and a drill of its power control. Pure."""

from dataclasses import replace

from nodeagent.maintd.fencing import drills, readings
from nodeagent.maintd.fencing.judgement import judge, unread_disks
from nodeagent.maintd.planning.names import no_such
from nodeagent.model.evidence import Contact
from nodeagent.model.fencing import Fencing, Life, Stage
from nodeagent.model.ledger import Ledger
from nodeagent.model.snapshot import Observed
from nodeagent.model.units import Ms
from nodeagent.model.wish import DrillPower, PulledPlug

_LIVES = (Contact.ANSWERS, Contact.CONNECTS, Contact.REFUSED)


def pulled(
    ledger: Ledger, asked: PulledPlug, who: str, observed: Observed, now: Ms
) -> Ledger | str:
    """Take a node as off, unless anything of it still answers anybody.

    One that maintd has marked offline is taken, too, while its power cannot be read again.
    """
    node = observed.snapshot.nodes.get(asked.node)
    if node is None:
        return no_such("node", asked.node)
    name = node.name
    if name == observed.snapshot.master:
        return f"{name} is the master node, which runs this: it has power"
    known = next((fencing for fencing in ledger.fencing if fencing.node == node.uuid), None)
    confirms = known is not None and known.stage is Stage.CONFIRMS
    if node.offline and not confirms:
        return f"{name} is offline already: run gnt-node failover {name} for its instances"
    if name not in observed.unanswered and not node.offline:
        return f"the agent of {name} answers, so {name} has power: see gnt-maint why {name}"
    evidence = observed.evidence.get(name)
    if evidence is None:
        return f"no other node has tried to reach {name} yet: try again in some minutes"
    judged = judge(evidence, observed.snapshot, now)
    if judged.life is Life.ALIVE:
        return f"{name} has power: {judged.reason}"
    if judged.connected:
        return (
            f"{name} has power: {len(judged.connected)} of its DRBD disks are still connected:"
            f" see gnt-maint why {name}"
        )
    for testimony in evidence.witnesses:
        if testimony.noded in _LIVES or testimony.agent in _LIVES:
            who = testimony.witness
            return f"{name} has power: {who} reaches its kernel: see gnt-maint why {name}"
    if evidence.agent in _LIVES:
        return f"{name} has power: maintd reaches its kernel: see gnt-maint why {name}"
    if not evidence.witnesses:
        return f"no other node has tried to reach {name} yet: try again in some minutes"
    peers, why = unread_disks(evidence, observed.snapshot, now)
    if peers:
        return _unread(name, peers, why)
    stage = Stage.RESTARTS if node.offline else Stage.REMOVES
    why = f"{who} says that its power is cut"
    silent = next(
        (silence.since for silence in ledger.unreachable if silence.node == node.uuid), now
    )
    new = Fencing(node.uuid, stage, now, now, why, who, off=now, silent=silent)
    if known is not None:
        silent = known.silent or known.since
        new = replace(new, since=known.since, fates=known.fates, silent=silent)
    others = tuple(f for f in ledger.fencing if f.node != node.uuid)
    return replace(ledger, fencing=(*others, new))


def _unread(name: str, peers: tuple[str, ...], why: str) -> str:
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
    if any(fencing.node == node.uuid for fencing in ledger.fencing):
        return f"maintd works on the power of {node.name} already: see gnt-maint why {node.name}"
    if why := drills.why_not(node, observed):
        return why
    if any(i.node == node.name for i in ledger.intents if not readings.is_reading(i)):
        return (
            f"maintd works on {node.name}: wait until it has ended; see gnt-maint why {node.name}"
        )
    new = Fencing(node.uuid, Stage.CUTS, now, now, f"{who} drills its power", who, drill=True)
    return replace(ledger, fencing=(*ledger.fencing, new))
