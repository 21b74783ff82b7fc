"""Whether an instance is still as it was when its repair or its move was decided upon. Pure.

Between the two nodes are asked for their room and other jobs are submitted, which may take
minutes; what has changed by then is decided upon anew.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace

from nodeagent.autorepair.tags import PREFIX
from nodeagent.model.action import Move
from nodeagent.model.snapshot import Instance, Node, Snapshot


def is_as_it_was(move: Move, before: Snapshot, now: Snapshot) -> bool:
    """Whether the instance, its nodes' roles and what may be done to it have not changed."""
    old, new = before.instances[move.instance], now.instances.get(move.instance)
    places = [place for place in (old.primary, old.secondary) if place is not None]
    if old != new or any(_role(place, before) != _role(place, now) for place in places):
        return False
    group = before.nodes[old.primary].group
    farther = [(before.tags, now.tags), (_of_group(group, before), _of_group(group, now))]
    return all(_rules(one) == _rules(other) for one, other in farther)


def why_busy(move: Move, snapshot: Snapshot, busy: Mapping[str, str]) -> str:
    """Who else works on the instance, or empties a node of it, if anybody; else nothing."""
    return at_work_on(snapshot.instances[move.instance], busy)


def at_work_on(instance: Instance, busy: Mapping[str, str]) -> str:
    """Who else works on the instance, or empties a node of it, if anybody; else nothing."""
    places = (instance.name, instance.primary, instance.secondary or "")
    return next((others_job(busy[name]) for name in places if name in busy), "")


def others_job(job: str) -> str:
    """Why nothing is done to what this job is about."""
    return f"job {job}, which is not ours, is at work on it"


def _role(name: str, snapshot: Snapshot) -> Node | None:
    """A node but for what says nothing of whether it is in service."""
    node = snapshot.nodes.get(name)
    return node and replace(node, candidate=False, tags=frozenset())


def _of_group(uuid: str, snapshot: Snapshot) -> Collection[str]:
    group = snapshot.groups.get(uuid)
    return () if group is None else group.tags


def _rules(tags: Collection[str]) -> set[str]:
    return {tag for tag in tags if tag.startswith(PREFIX[:-1])}
