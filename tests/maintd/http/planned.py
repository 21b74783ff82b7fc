"""A cluster with what only users with a role may see, and a way to ask it as a user."""

import json
from pathlib import Path

from nodeagent.maintd.http.readers import Readers
from nodeagent.web.exchange import Response
from tests.maintd.mesos.client import window
from tests.maintd.owners.owned import instance
from tests.maintd.rig import Rig, fleet
from tests.maintd.served import REMOTE, Served, basic
from tests.maintd.world import EVACUATE

MOST = """alice plain write
reader plain read
operator plain operator
planner plain planner
%nogroup operator
dbuser plain owner:zebra
none plain
"""
SECRETS = ("zebra", "pangolin", "gnu-annual")  # an owner, a reason, who asked for the schedule


def made(folder: Path) -> Served:
    """n3 has an incident; n4 is to be maintained, and an owner has declined with a reason."""
    served = Served(Rig(fleet(), [instance("i1", "zebra"), instance("i2", "zebra")]), folder)
    served.users.write_text(f"{MOST}gnu-annual plain write\n")
    served.rig.agents.says["n3"] = EVACUATE
    served.tick()
    soon = round((served.rig.time + 600) * 1e9)
    row = window({"hostname": "n4"}, start=soon) | {"owners": {"policy": "require-accept"}}
    asked = ask(served, "/1/maintenance/schedule", "gnu-annual", {"windows": [row]})
    assert asked.status == 200, asked.body
    served.tick(times=2)
    (offer, *_) = json.loads(ask(served, "/1/offers", "alice").body)
    call = {
        "type": "DECLINE_INVERSE_OFFERS",
        "decline_inverse_offers": {
            "inverse_offer_ids": [{"value": offer["id"]}],
            "reason": "pangolin",
        },
    }
    assert ask(served, "/1/offers", "dbuser", call).status == 200
    served.tick(times=2)
    return served


def ask(
    served: Served, target: str, user: str | None, body: object = None, peer: str = REMOTE
) -> Response:
    return served.ask(
        "GET" if body is None else "POST",
        target,
        body,
        peer=peer,
        secure=not peer.startswith("uid:"),
        headers=basic(user, "plain") if user else {},
        loop=body is not None,
    )


def under(readers: Readers, served: Served) -> Served:
    """The same maintd, served to these readers."""
    other = object.__new__(Served)
    other.__dict__ |= served.__dict__
    other.api = type(served.api)(served.maintd, str(served.users), lambda: 0.0, readers)
    return other
