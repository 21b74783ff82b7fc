"""What a request may say of a weekly series; all else names its place."""

import json
from typing import Any

import pytest

from nodeagent.errors import MessageError
from nodeagent.maintd.http.series import read_change, read_new
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
    assert read_new(new(**WHOLE)) == least
    owners = {"policy": "veto", "deadline_seconds": 7200}
    read = read_new(new(**WHOLE, owners=owners))
    assert isinstance(read, AddSeries)
    assert read.consent == VETO
    assert read_change(change(owners=owners)) == EditSeries(7, consent=VETO)


@pytest.mark.parametrize(
    ("left_out", "why"),
    [
        ((*WHOLE,), "machines, weekly, zone, duration are missing"),
        (("weekly", "zone"), "weekly, zone are missing"),
        *(((key,), f"{key} is missing") for key in WHOLE),
    ],
)
def test_all_that_is_missing_is_named(left_out: tuple[str, ...], why: str) -> None:
    rest = {key: value for key, value in WHOLE.items() if key not in left_out}
    for body in (rest, WHOLE | dict.fromkeys(left_out)):
        with pytest.raises(MessageError) as told:
            read_new(new(**body))
        assert str(told.value) == why


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"minutes": 1}, 'unknown key "minutes"; there may be: '),
        ({"owners": {"policy": "veto", "deadline": 1}}, 'owners: unknown key "deadline"; there'),
        ({"owners": {"x": None}}, 'owners: unknown key "x"; there may be: policy, deadline_'),
    ],
)
def test_unknown_keys_are_named(more: dict[str, Any], why: str) -> None:
    for read, request in ((read_new, new(**WHOLE, **more)), (read_change, change(**more))):
        with pytest.raises(MessageError) as told:
            read(request)
        assert str(told.value).startswith(why)
