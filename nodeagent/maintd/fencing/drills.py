"""The drill for real: which node may be powered off and on, and the end of a drill. Pure."""

from dataclasses import replace

from nodeagent.model.fencing import Fencing, Stage
from nodeagent.model.snapshot import Node, Observed
from nodeagent.model.units import Ms


def why_not(node: Node, observed: Observed) -> str:
    """Why the power of this node is not drilled; empty for an empty, drained node that answers."""
    name, snapshot = node.name, observed.snapshot
    if name == snapshot.master:
        return f"{name} is the master node, where maintd runs: drill it after a master failover"
    if node.offline:
        return f"{name} is offline: maintd drills only nodes that run"
    if not node.drained:
        return f"{name} is in service: run gnt-node modify --drained=yes {name}, and empty it first"
    instances = (*snapshot.instances.values(), *snapshot.forthcoming.values())
    count = sum(name in instance.nodes for instance in instances)
    if count:
        return (
            f"{name} has {count} instances, also as secondary: move them first; see gnt-maint"
            f" what-if evacuate {name}"
        )
    if name not in observed.diagnoses:
        return f"the agent of {name} does not answer: see gnt-maint why {name}"
    if not node.controlled:
        return (
            f"Ganeti has no power control for {name}: run gnt-node modify --node-parameters"
            f" oob_program=/usr/sbin/nodeagent-oob {name}"
        )
    return ""


def stopped(fencing: Fencing, why: str, now: Ms) -> Fencing:
    """The drill that failed, and why."""
    return replace(fencing, stage=Stage.STOPPED, at=now, said=why)


def answers(node: Node) -> str:
    """Say that the power-off has not hit its node, but perhaps another one."""
    return f"{node.name} answers although its power was switched off"
