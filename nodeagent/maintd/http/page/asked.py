"""Parameters of the status page: which nodes a reader asks for, and whether it reloads. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from urllib.parse import urlencode

from nodeagent.maintd.http.view import NodeState, NodeView
from nodeagent.web.exchange import Request

STATES = {
    "unhealthy": NodeState.UNHEALTHY,
    "failed": NodeState.FAILED,
    "done": NodeState.DONE,
    "not-answering": NodeState.SILENT,
    "distrusted": NodeState.DISTRUSTED,
    "in-doubt": NodeState.IN_DOUBT,
    "offline": NodeState.OFFLINE,
    "healthy": NodeState.HEALTHY,
}
SPECIAL = ("unreachable", "drained", "paused", "all")
_MOST = 255  # characters of a name


@dataclass(frozen=True, slots=True)
class Filters:
    """A reader's filters of the page; empty members filter nothing.

    `state` is a key of STATES or one of SPECIAL, `node` a part of the names.
    """

    group: str = ""
    state: str = ""
    node: str = ""
    refresh: bool = True

    @property
    def narrow(self) -> bool:
        """Check whether the filters hide nodes."""
        return bool(self.group or self.state or self.node)

    @property
    def key(self) -> str:
        """A key that is the same for equal filters."""
        return repr(self)

    def place(self, node: NodeView) -> bool:
        """Check whether a node has the filters' group and name."""
        return self.group in ("", node.group) and self.node in node.name

    def lists(self, node: NodeView) -> bool:
        """Check whether a node is listed: without a state filter only those not healthy."""
        if not self.place(node):
            return False
        match self.state:
            case "":
                return node.state not in (NodeState.HEALTHY, NodeState.OFFLINE)
            case "all":
                return True
            case "unreachable":
                return node.silence.unreachable is not None
            case "paused":
                return node.paused is not None
            case "drained":
                return node.role == "drained"
            case _:
                return node.state is STATES[self.state]

    def href(self, path: str = "/status", **changes: object) -> str:
        """A link to the page with changed parameters."""
        new = replace(self, **changes)  # type: ignore[arg-type]
        words = {"group": new.group, "state": new.state, "node": new.node}
        words["refresh"] = "" if new.refresh else "off"
        query = urlencode({name: value for name, value in words.items() if value})
        return f"{path}?{query}" if query else path


def read(request: Request) -> Filters:
    """The parameters of a request; impossible values count as missing."""
    state = request.query("state") or ""
    return Filters(
        (request.query("group") or "")[:_MOST],
        state if state in (*STATES, *SPECIAL) else "",
        (request.query("node") or "").strip().lower()[:_MOST],
        request.query("refresh") != "off",
    )


def choices(asked: Filters, nodes: Iterable[NodeView]) -> list[str]:
    """The groups to choose from."""
    groups = {node.group for node in nodes}
    return sorted(groups | {asked.group} - {""})
