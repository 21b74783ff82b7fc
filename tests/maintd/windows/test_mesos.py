"""Schedules, machines and owners' policies as Mesos writes them: what is read, what is refused."""

import json

import pytest

from nodeagent.errors import MessageError
from nodeagent.maintd.windows.mesos import (
    read_consents,
    read_machines,
    read_schedule,
    schedule_json,
)
from nodeagent.model.units import Ms, Nanoseconds
from nodeagent.model.window import Consent, Machine, Schedule, Unavailability, Weight, Window

START = 1_795_000_000_000_000_001
LARGE = b"9223372036854775808"


def started(nanoseconds: bytes) -> bytes:
    """A schedule with one window that starts then."""
    return b'{"windows":[{"unavailability":{"start":{"nanoseconds":%s}}}]}' % nanoseconds


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "empty"),
        (b"{", "JSON"),
        (b"[]", "the schedule must be a JSON object"),
        (b'{"windows": {}}', "windows must be a list"),
        (b'{"windows": [{"machine_ids": []}]}', "windows[0].unavailability is missing"),
        (b'{"windows": [{"unavailability": {}}]}', "windows[0].unavailability.start is missing"),
        (
            b'{"windows": [{"unavailability": {"start": {}}}]}',
            "windows[0].unavailability.start.nanoseconds is missing",
        ),
        # Mesos cuts a fraction of a nanosecond off.
        (started(b"1.5"), "start.nanoseconds is"),
        (started(LARGE), "start.nanoseconds is"),
        (started(b"true"), "start.nanoseconds is"),
        (started(b"9007199254740993.0"), "start.nanoseconds is"),
        (b'{"windows": [{"machine_ids": [7]}]}', "windows[0].machine_ids[0] must be an object"),
    ],
)
def test_a_schedule_that_cannot_be_read(body: bytes, why: str) -> None:
    with pytest.raises(MessageError) as caught:
        read_schedule(body)
    assert why in str(caught.value)


def test_what_is_read_as_mesos_reads_it() -> None:
    """Nanoseconds beyond 2^53 are texts; null is absent, and unknown keys are nothing."""
    when = {"start": {"nanoseconds": str(START)}, "duration": None}
    machine = {"hostname": "Machine1", "ip": None, "port": 5051}
    row = {"machine_ids": [machine], "unavailability": when, "x": 1}
    read = read_schedule(json.dumps({"windows": [row], "unknown": {}}).encode())
    assert read == Schedule((Window((Machine("Machine1"),), Unavailability(Nanoseconds(START))),))
    assert read_schedule(json.dumps(schedule_json(read)).encode()) == read
    for whole in (b"5.0", b"5", b'"5"'):
        assert read_schedule(started(whole)).windows[0].unavailability.start == 5


@pytest.mark.parametrize("body", [b"{}", b"7", b"[[]]", b'[{"hostname": 7}]'])
def test_a_list_of_machines_that_cannot_be_read(body: bytes) -> None:
    with pytest.raises(MessageError):
        read_machines(body)


def policy(owners: object) -> bytes:
    row = {"unavailability": {"start": {"nanoseconds": START}}, "owners": owners}
    return json.dumps({"windows": [row]}).encode()


def test_policies_that_are_read() -> None:
    given = {"policy": "veto", "deadline_seconds": 1.5}
    (found,) = read_consents(policy(given))
    assert found == Consent(Weight.VETO, Ms(1500), proceeds=True)
    (found,) = read_consents(policy({"policy": "require-accept"}))
    assert found == Consent(Weight.REQUIRED)
    assert read_consents(policy(None)) == (None,)


@pytest.mark.parametrize(
    ("owners", "why"),
    [
        ([], "windows[0].owners must be an object"),
        ({"policy": "often"}, "must be one of advisory, veto, require-accept"),
        ({"policy": "veto", "deadline_seconds": -1}, "windows[0].owners.deadline_seconds is"),
        ({"policy": "veto", "deadline_seconds": True}, "must be a number from 0"),
        ({"policy": "require-accept", "at_deadline": "wait"}, "must be one of proceed, hold"),
        ({"policy": "veto", "at_deadline": "hold"}, "a veto ends at its deadline"),
        (
            {"policy": "veto", "deadline": 7200},
            'windows[0].owners: unknown key "deadline"; there may be: policy, deadline_seconds, ',
        ),
    ],
)
def test_a_policy_that_cannot_be_read(owners: object, why: str) -> None:
    with pytest.raises(MessageError) as caught:
        read_consents(policy(owners))
    assert why in str(caught.value)
