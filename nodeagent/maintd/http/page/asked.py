"""Parameters of the status page: which nodes a reader asks for, and whether it reloads. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from urllib.parse import urlencode

from nodeagent.maintd.http.page.cluster_map import state_of
from nodeagent.maintd.http.status import Json
from nodeagent.web.exchange import Request

STATES = {
    "unhealthy": "sick",
    "failed": "failed",
    "done": "ready",
    "not-answering": "silent",
    "distrusted": "distrusted",
    "in-doubt": "doubt",
    "offline": "out",
    "healthy": "well",
}
SPECIAL = ("unreachable", "drained", "paused", "all")
_MOST = 255  # characters of a name


@dataclass(frozen=True, slots=True)
class Asked:
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

    def place(self, row: Json) -> bool:
        """Check whether a node has the filters' group and name."""
        return self.group in ("", row["group"]) and self.node in row["name"]

    def lists(self, row: Json) -> bool:
        """Check whether a node is listed: without a state filter only those not healthy."""
        if not self.place(row):
            return False
        match self.state:
            case "":
                return state_of(row) not in ("well", "out")
            case "all":
                return True
            case "unreachable" | "paused":
                return row[self.state] is not None
            case "drained":
                return bool(row["state"] == "drained")
            case _:
                return state_of(row) == STATES[self.state]

    def href(self, path: str = "/status", **changes: object) -> str:
        """A link to the page with changed parameters."""
        new = replace(self, **changes)  # type: ignore[arg-type]
        words = {"group": new.group, "state": new.state, "node": new.node}
        words["refresh"] = "" if new.refresh else "off"
        query = urlencode({name: value for name, value in words.items() if value})
        return f"{path}?{query}" if query else path


def read(request: Request) -> Asked:
    """The parameters of a request; impossible values count as missing."""
    state = request.query("state") or ""
    return Asked(
        (request.query("group") or "")[:_MOST],
        state if state in (*STATES, *SPECIAL) else "",
        (request.query("node") or "").strip().lower()[:_MOST],
        request.query("refresh") != "off",
    )


def choices(asked: Asked, rows: Iterable[Json]) -> list[str]:
    """The groups to choose from."""
    groups = {row["group"] for row in rows}
    return sorted(groups | {asked.group} - {""})
