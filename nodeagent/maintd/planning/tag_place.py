"""Place of a Ganeti tag: the cluster, a group or a node. Pure."""

from typing import NamedTuple

from nodeagent.model.action import Scope


class Place(NamedTuple):
    """A tag and its place: a node or group by its name, or the cluster."""

    scope: Scope
    name: str
    tag: str
