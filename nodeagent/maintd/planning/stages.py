"""The stage of each node: how far maintd goes there by itself. Pure."""

from collections.abc import Mapping

from nodeagent.maintd.planning.tag_settings import nearer
from nodeagent.model.ledger import Policy
from nodeagent.model.snapshot import Group, Node, Snapshot

STAGE_TAG = "maintd:stage:"


def stages(policy: Policy, snapshot: Snapshot) -> Mapping[str, str]:
    """Return the stage of each node, by name; `policy` has the cluster's tags."""
    groups = {uuid: _nearer(policy, group) for uuid, group in snapshot.groups.items()}
    return {
        name: _nearer(groups.get(node.group, policy), node).stage
        for name, node in snapshot.nodes.items()
    }


def _nearer(policy: Policy, thing: Group | Node) -> Policy:
    """Read an object's tags only where they name a stage: most of ten thousand nodes do not."""
    if any(tag.startswith(STAGE_TAG) for tag in thing.tags):
        return nearer(policy, thing)
    return policy
