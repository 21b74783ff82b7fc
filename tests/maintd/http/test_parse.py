"""What a request may say of a weekly series; all else names its place."""

import json
from typing import Any

from nodeagent.maintd.http.parse import add_series, edit_series
from nodeagent.model.units import Ms, Seconds
from nodeagent.model.window import Consent, Machine, Weight
from nodeagent.model.wish import AddSeries, EditSeries
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
