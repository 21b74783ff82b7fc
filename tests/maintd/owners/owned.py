"""Mesos' frameworks as our owners: programs that list what they are asked, and answer."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from nodeagent.model.reason import Held
from nodeagent.model.snapshot import Instance, Node
from tests.maintd.mesos.client import FIRST, Master
from tests.maintd.rig import fleet

DB, WEB = ("dbuser", "dbpass"), ("webuser", "webpass")
USERS = "dbuser dbpass owner:db\nwebuser webpass owner:web,read\n"
PLACES = {"i1": ("n3", "n4"), "i2": ("n5", "n3"), "i3": ("n4", "n5"), "i4": ("n3", "n6")}
OWNERS = {"i1": "db", "i2": "web", "i3": "db"}


def instance(name: str, owner: str | None = None, *places: str) -> Instance:
    primary, secondary = places or PLACES[name]
    tags = frozenset(() if owner is None else {f"maintd:owner:{owner}"})
    return Instance(name, primary, secondary, memory=100, disk=100, tags=tags)


class Owned(Master):
    """A master whose instances have owners, and whose owners have users."""

    def __init__(
        self,
        folder: Path,
        owners: Mapping[str, str] = OWNERS,
        nodes: list[Node] | None = None,
        time: float | None = None,
    ) -> None:
        instances = [instance(name, owners.get(name)) for name in PLACES]
        super().__init__(folder, nodes or fleet(), instances, time)
        users = folder / "users"
        users.write_text(users.read_text() + USERS)

    def reopened(self) -> "Owned":
        self.close()
        nodes = list(self.rig.cluster.nodes.values())
        return Owned(self.folder, nodes=nodes, time=self.rig.time)

    def tick(self, seconds: float = 10.0, times: int = 1) -> None:
        self.live.tick(seconds, times)

    def offers(self, user: tuple[str, str] = FIRST, query: str = "") -> list[Any]:
        found = self.get(f"/1/offers{query}", user)
        assert isinstance(found, list)
        return found

    def offer(self, owner: str = "db", node: str = "n3") -> Any:
        """The one offer to this owner about this node."""
        (found,) = [o for o in self.offers() if (o["owner"], o["node"]) == (owner, node)]
        return found

    def open(self, *owners: str) -> list[tuple[str, str]]:
        """To whom, and about what, offers are open now."""
        rows = [(o["owner"], o["node"]) for o in self.offers() if o["open"]]
        return [row for row in rows if not owners or row[0] in owners]

    def answer(
        self,
        reply: str,
        ids: list[str],
        user: tuple[str, str] = DB,
        refuse: object = 0,
        **more: object,
    ) -> tuple[int, str]:
        """The status, and the reason where it is refused."""
        said = {"inverse_offer_ids": [{"value": one} for one in ids], **more}
        if refuse is not None:
            said["filters"] = {"refuse_seconds": refuse}
        call = {"type": f"{reply}_INVERSE_OFFERS", f"{reply.lower()}_inverse_offers": said}
        status, _, body = self.ask(
            "POST", "/1/offers", call, user, headers={"Content-Type": "application/json"}
        )
        return status, str(json.loads(body).get("error", ""))

    def accept(self, owner: str = "db", node: str = "n3", **more: Any) -> None:
        assert self.answer("ACCEPT", [self.offer(owner, node)["id"]], FIRST, **more) == (200, "")

    def decline(self, owner: str = "db", node: str = "n3", **more: Any) -> None:
        assert self.answer("DECLINE", [self.offer(owner, node)["id"]], FIRST, **more) == (200, "")

    def statuses(self, name: str) -> list[tuple[str, str]]:
        """What Mesos' status says that a draining machine's owners have answered."""
        rows = self.get("/maintenance/status").get("draining_machines", [])
        (row,) = [row for row in rows if row["id"].get("hostname") == name]
        return [(s["framework_id"]["value"], s["status"]) for s in row.get("statuses", [])]

    def weigh(self, window: dict[str, Any], policy: str, seconds: float = 0, **more: Any) -> None:
        """Have this one window, in which the answers of owners weigh something."""
        owners = {"policy": policy, "deadline_seconds": seconds, **more}
        plan = {"windows": [{**window, "owners": owners}]}
        assert self.code("/1/maintenance/schedule", plan) == 200

    def place(self, name: str, *nodes: str, owner: str | None = None) -> None:
        """Have an instance there, with this owner."""
        self.rig.cluster.put(instance(name, owner, *nodes))

    def tag(self, name: str, *tags: str) -> None:
        there = self.rig.cluster.instances[name]
        self.rig.cluster.put(replace(there, tags=frozenset(tags)))

    def jobs(self) -> list[str]:
        return self.rig.jobs()

    @property
    def held(self) -> tuple[Held, ...]:
        """What the newest round holds, which all see that may see owners."""
        assert self.live.maintd.latest is not None
        found = self.live.maintd.latest.decision.held
        told = [row["reason"] for row in self.get("/1/held")]
        assert {one.reason for one in found} <= set(told)
        return found
