"""Where a tag of Ganeti's is: on the cluster, a group or a node. Pure."""

from typing import NamedTuple

from nodeagent.model.action import Scope


class Place(NamedTuple):
    """Where which tag is: on a node or group by its name, or on the cluster."""

    scope: Scope
    name: str
    tag: str
