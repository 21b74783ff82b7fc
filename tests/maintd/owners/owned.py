"""Mesos' frameworks as our owners: programs that list what they are asked, and answer."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nodeagent.maintd.notices.owners import ANY, target_of
from nodeagent.maintd.notices.sinks.http import Endpoint
from nodeagent.maintd.notices.sinks.webhook import OwnerWebhook
from nodeagent.maintd.owners.offers import listed
from nodeagent.model.asked import Asked
from nodeagent.model.offer import Offer, Reply
from nodeagent.model.reason import Kind
from nodeagent.model.snapshot import Instance, Node
from nodeagent.model.units import Ms, Nanoseconds
from nodeagent.model.window import Consent, Machine, Schedule, Unavailability, Window
from nodeagent.model.wish import AnswerOffers, SetSchedule, TakeDown
from tests.maintd.mesos.client import FIRST, Master
from tests.maintd.rig import Rig, fleet
from tests.maintd.world import NOW

DB, WEB = ("dbuser", "dbpass"), ("webuser", "webpass")
USERS = "dbuser dbpass owner:db\nwebuser webpass owner:web,read\n"
PLACES = {"i1": ("n3", "n4"), "i2": ("n5", "n3"), "i3": ("n4", "n5"), "i4": ("n3", "n6")}
OWNERS = {"i1": "db", "i2": "web", "i3": "db"}


def instance(name: str, owner: str | None = None, *places: str) -> Instance:
    primary, secondary = places or PLACES[name]
    tags = frozenset(() if owner is None else {f"maintd:owner:{owner}"})
    return Instance(name, primary, secondary, memory=100, disk=100, tags=tags)


def hook(port: int, owner: str = ANY, **more: Any) -> OwnerWebhook:
    """The webhook of an owner at a port of this machine."""
    url = f"http://127.0.0.1:{port}/hook"
    return OwnerWebhook(target_of(owner), Endpoint(url, seconds=2.0), **more)


class Owned(Master):
    """A master whose instances have owners, and whose owners have users."""

    def __init__(
        self,
        folder: Path,
    ) -> None:
        super().__init__(folder, fleet(), [instance(name, OWNERS.get(name)) for name in PLACES])
        users = folder / "users"
        users.write_text(users.read_text() + USERS)

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


class Asking(Rig):
    """The same without HTTP: operators plan, owners answer, and rounds are held."""

    def __init__(self, owners: Mapping[str, str] = OWNERS) -> None:
        super().__init__(fleet(), [instance(name, owners.get(name)) for name in PLACES])
        self.starts = 0

    def window(self, *names: str, ahead: float = 86400) -> Window:
        """One of these machines; without more, a day after the first rounds."""
        start = round((NOW / 1000 + ahead) * 1e9)
        return Window(tuple(map(Machine, names)), Unavailability(Nanoseconds(start)))

    def post(self, *windows: Window, consent: Consent | None = None) -> None:
        self.refused(SetSchedule(Schedule(windows), (), (consent,) * len(windows)))

    def plan(self, *names: str, ahead: float = 86400, consent: Consent | None = None) -> None:
        """Have this window, and no other."""
        window = self.window(*names, ahead=ahead)
        self.starts = window.unavailability.start
        self.post(window, consent=consent)

    def refused(self, asked: Asked) -> str:
        """Why the next round refuses it, or nothing."""
        wish = self.wish(asked, "alice")
        return self.tick().decision.refused.get(wish, "")

    def down(self, name: str = "n3") -> str:
        return self.refused(TakeDown((Machine(name),)))

    def place(self, name: str, *nodes: str, owner: str | None = None) -> None:
        """Have an instance there, with this owner."""
        self.cluster.put(instance(name, owner, *nodes))

    def node(self, name: str = "n3") -> Node:
        return self.cluster.nodes[name]

    @property
    def offers(self) -> list[Offer]:
        return listed(self.ledger)

    def offer(self, owner: str = "db", node: str = "n3") -> Offer:
        """The one offer to this owner about this node."""
        uuid = self.node(node).uuid
        (found,) = (o for o in self.offers if (o.owner, o.node) == (owner, uuid))
        return found

    def open(self, *owners: str) -> list[tuple[str, str]]:
        """To whom, and about what, offers are open now."""
        names = {node.uuid: node.name for node in self.cluster.nodes.values()}
        rows = sorted((names[o.node], o.owner) for o in self.offers if o.open)
        return [(owner, node) for node, owner in rows if not owners or owner in owners]

    def answer(self, reply: Reply, *ids: str, refuse: float = 0, **more: Any) -> str:
        return self.refused(AnswerOffers(ids, reply, Ms(round(refuse * 1000)), **more))

    def accept(self, owner: str = "db", node: str = "n3", **more: Any) -> None:
        assert self.answer(Reply.ACCEPT, self.offer(owner, node).id, **more) == ""

    def decline(self, owner: str = "db", node: str = "n3", **more: Any) -> None:
        assert self.answer(Reply.DECLINE, self.offer(owner, node).id, **more) == ""

    def holds(self) -> list[str]:
        """Why owners hold the window of n3, as the next round says."""
        held = self.tick().decision.held
        whys = [each.why for each in held if each.why.kind is Kind.OWNER_WAITS]
        return [str(dict(why.details)["why"]) for why in whys if why.subject.name == "n3"]

    def goes_on(self) -> bool:
        """Whether n3 is taken out of service before long."""
        for _ in range(4):
            self.tick(60)
        return not self.node().in_service
