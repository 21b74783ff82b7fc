"""Clusters whose instances repair themselves, and questions about their repairs."""

import re
from dataclasses import replace

from nodeagent.model.action import move_of
from nodeagent.model.ledger import Policy
from nodeagent.model.snapshot import Instance
from tests.maintd.rig import QUICK, Rig, fleet

RULES = "ganeti:watcher:autorepair:"
SAFE = replace(QUICK, autorepair="safe")
RESULT = re.compile(f"{RULES}result:([a-z-]+):([^:]+):[0-9]+:([a-z]+):([0-9+]*)")


def cluster(*instances: Instance, allowed: str = "reinstall", policy: Policy = SAFE) -> Rig:
    rig = Rig(fleet(), list(instances), policy)
    rig.cluster.world.tags = frozenset({RULES + allowed})
    return rig


def out(rig: Rig, name: str, **flags: bool) -> None:
    """Put a node out of service, as an administrator does."""
    flags.setdefault("offline", "drained" not in flags)
    node = rig.cluster.nodes[name]
    rig.cluster.put(replace(node, candidate=False, **flags))  # type: ignore[arg-type]
    if flags["offline"]:  # only a machine that is off lets go of its DRBD disks
        rig.cluster.power_off(name)
        rig.agents.says[name] = None


def tags(rig: Rig, name: str = "i1") -> list[str]:
    found = rig.cluster.instances[name].tags
    return sorted(tag.removeprefix(RULES) for tag in found if tag.startswith(RULES))


def result(rig: Rig, name: str = "i1") -> tuple[str, str, int]:
    """Type, end and number of jobs of the one result, with nothing pending beside it."""
    (tag,) = rig.cluster.instances[name].tags
    found = RESULT.fullmatch(tag)
    assert found is not None, tag
    return found[1], found[3], len(found[4].split("+")) if found[4] else 0


def moves(rig: Rig, name: str = "i1") -> list[str]:
    return [
        type(move).__name__
        for job in rig.cluster.jobs.values()
        if job.ours and (move := move_of(job.action)) and move.instance == name
    ]


def plain(name: str, node: str, template: str = "plain") -> Instance:
    return Instance(name, node, template=template, memory=100, disk=100)
