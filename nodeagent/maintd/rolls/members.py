"""The nodes of a roll: asked for by name, pattern, group, tag, or by what they report. Pure."""

import json
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase

from nodeagent.maintd.planning.names import no_such
from nodeagent.model.roll import RollNode
from nodeagent.model.short_name import meant
from nodeagent.model.snapshot import Node, Observed
from nodeagent.model.units import Ms
from nodeagent.model.wish import StartRoll

MOST = 1000  # nodes of one roll


def chosen(asked: StartRoll, observed: Observed) -> list[Node] | str:
    """Return the nodes, the master last, or why it is unclear which."""
    by_uuid: dict[str, Node] = {}
    for selected in (*_named(asked, observed), *_grouped(asked, observed)):
        if isinstance(selected, str):
            return selected
        by_uuid.setdefault(selected.uuid, selected)
    nodes = list(by_uuid.values())
    if asked.needing:
        nodes = [node for node in nodes or _all(observed) if _needs(asked.needing, node, observed)]
        if not nodes:
            return f"no node reports that it is needed ({asked.needing}): see nodeagent report"
    if not nodes:
        return "no nodes are named"
    if len(nodes) > MOST:
        return f"these are {len(nodes)} nodes; a roll takes {MOST} at most"
    return sorted(nodes, key=lambda node: node.name == observed.snapshot.master)


def members(nodes: Iterable[Node], now: Ms) -> tuple[RollNode, ...]:
    """Return these nodes as they wait for their turns."""
    return tuple(RollNode(node.uuid, node.name, since=now) for node in nodes)


def _all(observed: Observed) -> list[Node]:
    nodes = observed.snapshot.nodes.values()
    return sorted((node for node in nodes if not node.offline), key=lambda node: node.name)


def _named(asked: StartRoll, observed: Observed) -> Iterator[Node | str]:
    """The nodes of each name or pattern, in the order in which they were given."""
    nodes, there = _all(observed), observed.snapshot.nodes
    for name in asked.nodes:
        known = [name] if name in there else meant(name, there)
        if len(known) > 1:
            yield f"{name} is short for {' and '.join(known)}: name one of them, or {name}.*"
            continue
        here = [n for n in nodes if n.name in known]
        here = here or [n for n in nodes if fnmatchcase(n.name, name)]
        yield from here
        if not here:
            yield no_such("node", name)


def _grouped(asked: StartRoll, observed: Observed) -> Iterator[Node | str]:
    nodes, snapshot = _all(observed), observed.snapshot
    for group in asked.groups:
        uuids = {
            known_group.uuid
            for known_group in snapshot.groups.values()
            if group in (known_group.name, known_group.uuid)
        }
        here = [n for n in nodes if n.group in uuids]
        yield from here
        if not here:
            yield no_such("group", group)
    for tag in asked.tags:
        tagged = [n for n in nodes if tag in n.tags]
        yield from tagged
        if not tagged:
            yield f"no node has the tag {tag}"


def _needs(command: str, node: Node, observed: Observed) -> bool:
    """Check whether a diagnose command of the node says `"needed": true` in its details."""
    diagnosis = observed.diagnoses.get(node.name)
    details = None if diagnosis is None else json.loads(diagnosis.text).get("details")
    if not isinstance(details, dict):
        return False
    own = details.get(command)  # several commands stand there by name
    inner = own.get("details") if isinstance(own, dict) else details
    return isinstance(inner, dict) and inner.get("needed") is True
