"""Nodes and instances by people's names for them: full, short, or an address."""

import re
from collections.abc import Iterable, Sequence
from urllib.parse import quote

from nodeagent.cli.maint.console.client import Reach, Refused, Unreachable
from nodeagent.cli.maint.console.screen import Json
from nodeagent.cli.maint.console.text import harmless
from nodeagent.model.address import one_form
from nodeagent.model.short_name import meant

# Of names and addresses, which can stand in a path as they are.
_NODE = re.compile(r"[A-Za-z0-9:][A-Za-z0-9._:-]{0,254}")


def node_of(nodes: Sequence[Json], name: str) -> Json | None:
    """Find the node of that name in the answer of `/1/nodes`, or None. Refused: several."""
    called = meant(name, (n["name"] for n in nodes))
    if len(called) > 1:
        raise Refused(f"{name} is short for {' and '.join(called)}")
    address = one_form(name.lower())
    found = [n for n in nodes if n["name"] in called] or [
        n for n in nodes if n["address"] == address
    ]
    return found[0] if found else None


def full_name(reach: Reach, name: str) -> str:
    """Ganeti's name of a node; what is short for none is for the round to refuse.

    Refused: what no node can be called.
    """
    if not _NODE.fullmatch(name):
        raise Refused(f"there is no node {harmless(name, 80)}: see gnt-maint nodes")
    try:
        node = node_of(reach.get("/1/nodes"), name)
    except Unreachable:  # maintd keeps requests even before its first round
        return name
    return str(node["name"]) if node else name


def instance_path(reach: Reach, name: str) -> str:
    """Return the path of an instance's explanation; full or short name. Refused: several."""
    names: list[str] = reach.get("/1/names")["instances"]
    matches = meant(name, names)
    if len(matches) > 1:
        raise Refused(f"{name} is short for {' and '.join(matches)}")
    return f"/1/explain/{quote(matches[0] if matches else name, safe='', errors='replace')}"


def only_nodes(reach: Reach, names: Iterable[str], *, else_do: str = "") -> None:
    """Refuse machines that are not nodes of the cluster: somebody has mistyped, it may be."""
    nodes = reach.get("/1/nodes")
    for name in names:
        if node_of(nodes, name) is None:
            machine = harmless(name, 80)
            raise Refused(f"{machine} is not a node of this cluster{else_do}: see gnt-maint nodes")


def for_whom(node: Json) -> str:
    """Say who has a node out of service."""
    if node["out-for"]:
        return ", ".join(node["out-for"])
    if node["returning"]:
        return "it returns"
    return node["stranded"] or "not by maintd"


def found_node(reach: Reach, name: str) -> Json:
    """Return a node as maintd has it now, or refuse."""
    nodes: list[Json] = [node for node in reach.get("/1/nodes") if node["name"] == name]
    if not nodes:
        raise Refused(f"{name} is no longer a node of this cluster")
    return nodes[0]
