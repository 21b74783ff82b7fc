"""What a request may say, and what it means where it says nothing."""

import json
from typing import Any

from nodeagent.maintd.http.parse import add_series, cancel, edit_series
from nodeagent.maintd.http.roll import read_start
from nodeagent.model.roll import REBOOT, Terms
from nodeagent.model.units import Ms, Seconds
from nodeagent.model.window import Consent, Machine, Weight
from nodeagent.model.wish import AddSeries, Cancel, EditSeries, StartRoll
from nodeagent.web.exchange import Request

WHOLE = {"machines": ["n3"], "weekly": "sun 02:00", "zone": "UTC", "duration": 3600}
VETO = Consent(Weight.VETO, Ms(7_200_000), proceeds=True)


def new(**body: Any) -> Request:
    return Request("POST", "/1/series", body=json.dumps(body).encode())


def change(**body: Any) -> Request:
    return Request("POST", "/1/series/7", body=json.dumps(body).encode())


def test_the_least_and_what_owners_weigh() -> None:
    least = AddSeries((Machine("n3"),), (6,), 120, "UTC", Seconds(3600))
    assert add_series(new(**WHOLE)) == least
    owners = {"policy": "veto", "deadline_seconds": 7200}
    read = add_series(new(**WHOLE, owners=owners))
    assert isinstance(read, AddSeries)
    assert read.consent == VETO
    assert edit_series(change(owners=owners)) == EditSeries(7, consent=VETO)


def test_a_node_stays_drained_unless_the_request_says_otherwise() -> None:
    for query, undrain in (("", False), ("?undrain=no", False), ("?undrain=yes", True)):
        assert cancel(Request("DELETE", f"/1/incidents/x{query}")) == Cancel("x", undrain)


def test_what_a_roll_does_and_how_long() -> None:
    """Only the shipped command owes a new start of the machine, unless the request says so."""
    for said, terms in (
        ({"command": REBOOT}, Terms(REBOOT, reboots=True)),
        ({"command": REBOOT, "reboots": False}, Terms(REBOOT)),
        ({"command": "upgrade"}, Terms("upgrade")),
        ({"command": "upgrade", "reboots": True}, Terms("upgrade", reboots=True)),
        (
            {"command": "upgrade", "at-once": 3, "return-within": 60, "pause-between": 5},
            Terms("upgrade", at_once=3, return_within=Ms(60_000), pause_between=Ms(5000)),
        ),
        (
            {"command": "upgrade", "quiet": 0, "offline": True, "why": "new kernel"},
            Terms("upgrade", quiet=Ms(0), offline=True, why="new kernel"),
        ),
    ):
        body = json.dumps({**said, "nodes": ["n3"]}).encode()
        assert read_start(Request("POST", "/1/roll", body=body)) == StartRoll(terms, ("n3",)), said
