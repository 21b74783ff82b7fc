"""Check that an instance or a node's rules are unchanged since the decision. Pure.

Between the two maintd asks nodes for their room and submits other jobs, which may take minutes. If
something has changed by then, it decides again.
"""

from collections.abc import Mapping
from dataclasses import replace

from nodeagent.autorepair.tags import about_repairs
from nodeagent.maintd.planning.holds import GO_TAG
from nodeagent.maintd.planning.resources import target_of
from nodeagent.maintd.planning.stages import STAGE_TAG
from nodeagent.model.action import Move
from nodeagent.model.instance_tags import of_maintd
from nodeagent.model.ledger import HOLD_TAG, PAUSE_TAG
from nodeagent.model.reason import Kind, Reason, because
from nodeagent.model.snapshot import Instance, Node, Snapshot

_LIMITS = (PAUSE_TAG, GO_TAG, HOLD_TAG, STAGE_TAG)


def is_as_it_was(move: Move, before: Snapshot, now: Snapshot) -> bool:
    """Check that the instance, its nodes' roles and pauses, and the rules around have not changed.

    Its nodes are those that it leaves, stays on and moves to.
    """
    old, new = before.instances[move.instance], now.instances.get(move.instance)
    if old != new:
        return False
    names = (*old.nodes, target_of(move, before))
    places = [name for name in names if name is not None]
    if any(_role(place, before) != _role(place, now) for place in places):
        return False
    if not all(are_rules_as_they_were(place, before, now) for place in places):
        return False
    farther = _farther(before.nodes[old.primary].group, before, now)
    return all(about_repairs(earlier) == about_repairs(later) for earlier, later in farther)


def are_rules_as_they_were(name: str, before: Snapshot, now: Snapshot) -> bool:
    """Check that maintd's tags of the cluster and of the node's group have not changed."""
    node, later_node = before.nodes.get(name), now.nodes.get(name)
    if node is None or later_node is None or node.group != later_node.group:
        return False
    farther = _farther(node.group, before, now)
    return all(of_maintd(earlier) == of_maintd(later) for earlier, later in farther)


def at_work_on(instance: Instance, busy: Mapping[str, str]) -> Reason | None:
    """Say which other job works on the instance or evacuates a node of it; else None."""
    places = (instance.name, instance.primary, instance.secondary or "")
    return next((others_job(busy[name]) for name in places if name in busy), None)


def others_job(job: str) -> Reason:
    """Why this job blocks work on the objects that it uses."""
    return because(Kind.OTHERS_JOB, job=job)


def _role(name: str, snapshot: Snapshot) -> Node | None:
    """A node without the fields that do not affect whether it may be worked on.

    Of its tags pauses and stages are left: maintd itself sets others while it works there.
    """
    node = snapshot.nodes.get(name)
    if node is None:
        return None
    limits = frozenset(tag for tag in node.tags if tag.startswith(_LIMITS))
    return replace(node, candidate=False, tags=limits)


def _farther(
    group: str, before: Snapshot, now: Snapshot
) -> list[tuple[frozenset[str], frozenset[str]]]:
    """Return the tags of the cluster, and of a group (its UUID), before and now."""
    of_group = (_of_group(group, before), _of_group(group, now))
    return [(before.tags, now.tags), of_group]


def _of_group(uuid: str, snapshot: Snapshot) -> frozenset[str]:
    group = snapshot.groups.get(uuid)
    return frozenset() if group is None else group.tags
