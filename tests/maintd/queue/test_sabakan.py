"""What sabakan may be asked, and how its answers are read; every oddity is one line."""

import json

import pytest

from nodeagent.errors import MessageError
from nodeagent.maintd.queue.sabakan import machines, question, variables
from nodeagent.model.sick import Sick
from nodeagent.model.units import Ms
from tests.maintd.queue.sabakan_answers import MAY_BE_ASKED, Json, answer, machine

NOW = Ms(1_800_000_000_000)


def sick(body: bytes, status: int = 200, text: str = "") -> tuple[Sick, ...]:
    return machines(status, body, text, NOW)


def fault(body: bytes, status: int = 200, text: str = "") -> str:
    with pytest.raises(MessageError) as told:
        sick(body, status, text)
    assert "\n" not in str(told.value)
    return str(told.value)


# What is asked.


def test_the_variables_are_the_seeds_by_default() -> None:
    asked = json.loads(question(""))
    assert asked["variables"] == {
        "having": {"states": ["UNHEALTHY", "UNREACHABLE"]},
        "notHaving": {"roles": ["boot"]},
    }
    assert "searchMachines(having: $having, notHaving: $notHaving)" in asked["query"]


def test_what_may_be_asked() -> None:
    for text in MAY_BE_ASKED:
        assert json.loads(question(text))["variables"] == json.loads(text), text


NO_STATES = "having.states must name states: healthy machines would be reported too"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{}", NO_STATES),
        ('{"having":null}', NO_STATES),
        ('{"having":{}}', NO_STATES),
        ('{"having":{"states":null}}', NO_STATES),
        ('{"having":{"states":[]}}', NO_STATES),
        ('{"having":{"racks":[1]},"notHaving":{"states":["HEALTHY"]}}', NO_STATES),
        ('{"having":{"states":["UNHEALTHY","HEALTHY"]}}', "a healthy machine is not to be rep"),
        ('{"having":{"states":["unhealthy"]}}', 'having.states is ["unhealthy"]; it must be'),
        ('{"having":{"states":"UNHEALTHY"}}', "it must be a list of states: UNINITIALIZED, HEAL"),
        ('{"having":{"states":["UNHEALTHY",1]}}', "it must be a list of states"),
        ('{"having":{"stats":["UNHEALTHY"]}}', 'having has an unknown key "stats"; there may'),
        ('{"havnig":{"states":["UNHEALTHY"]}}', 'the document has an unknown key "havnig"'),
        ('{"having":{"states":["UNHEALTHY"]},"notHaving":{"x":1}}', "notHaving has an unknown"),
        ('{"having":{"states":["UNHEALTHY"],"racks":["1"]}}', 'having.racks is ["1"]; it must'),
        ('{"having":{"states":["UNHEALTHY"],"racks":[true]}}', "it must be a list of whole"),
        ('{"having":{"states":["UNHEALTHY"],"racks":[2147483648]}}', "it must be a list of w"),
        ('{"having":{"states":["UNHEALTHY"],"roles":"boot"}}', "it must be a list of texts"),
        ('{"having":{"states":["UNHEALTHY"],"labels":[{"name":"a"}]}}', "each with the texts"),
        ('{"having":{"states":["UNHEALTHY"],"labels":[{"name":"a","value":"b","c":1}]}}', "each"),
        ('{"having":{"states":["UNHEALTHY"],"minDaysBeforeRetire":1.5}}', "a whole number"),
        ('{"having":[]}', "having must be a JSON object"),
        ("[]", "the document must be a JSON object"),
        ("", "empty"),
        (" " * 20_000, "larger than 16384 characters"),
    ],
)
def test_what_may_not(text: str, why: str) -> None:
    with pytest.raises(MessageError) as told:
        variables(text)
    assert why in str(told.value)
    assert len(str(told.value)) < 500


# What is answered.


def test_the_mapping_is_the_seeds() -> None:
    (one,) = sick(answer(machine()))
    assert one == Sick(
        "sabakan",
        address="10.0.0.9",
        machine_type="r640",
        operation="unreachable",
        serial="S1",
        state="UNREACHABLE",
        domain="rack 7",
        since=NOW - 90_500,
    )


def test_a_role_may_have_a_priority() -> None:
    found = answer(machine(), machine(spec_role="ss"))
    assert [one.priority for one in machines(200, found, "", NOW, {"ss": 7})] == [0, 7]


def test_no_machine_is_an_answer_too() -> None:
    assert sick(answer()) == ()
    assert sick(answer(errors=[])) == sick(answer(errors=None)) == ()


NO_MACHINES: tuple[object, ...] = (None, 3, "S1", [], {})
NO_ANSWERS: list[tuple[int, bytes, str]] = [
    (422, b'{"errors":[{"message":"Unknown field"}],"data":null}', 'HTTP status 422: "Unknow'),
    (415, b"", "it answers with HTTP status 415, and gave no reason"),
    (400, b"bad\r\nrequest", 'HTTP status 400: "bad\\r\\nrequest"'),
    (500, b"\xff\xfe", "HTTP status 500: "),
    (301, b"", "status 301 (a redirect, which is not followed), and gave no reason"),
    (307, b"<html>", "status 307 (a redirect, which is not followed)"),
    (204, b"", "HTTP status 204"),
    (202, answer(machine()), "HTTP status 202"),
    (503, b'{"errors":"x"}', "HTTP status 503"),
    (200, b"", "its answer is empty"),
    (200, b"<html>sorry</html>", "its answer is not to be read: not JSON at line 1 column 1"),
    (200, b"[]", "its answer is not a JSON object"),
    (200, b"{}", "its answer has no list data.searchMachines"),
    (200, b'{"data":null}', "its answer has no list data.searchMachines"),
    (200, b'{"data":[]}', "its answer has no list data.searchMachines"),
    (200, b'{"data":{"searchMachines":null}}', "its answer has no list data.searchMachines"),
    (200, b'{"data":{"searchMachines":{}}}', "its answer has no list data.searchMachines"),
    (200, answer(errors=[{"message": "no\nway"}]), 'it reports errors: "no\\nway"'),
    (200, answer(errors=[{"message": "a"}, {}, {}]), 'it reports errors: "a" and 2 more'),
    (200, answer(errors="oops"), 'it reports errors: "oops"'),
    (200, answer(errors=[{"message": 3}]), 'it reports errors: [{"message": 3}]'),
    (200, answer(errors=[{"message": "x" * 999}]), "it reports errors: "),
    # Also beside data.
    (200, answer(machine(), errors=[{"message": "some"}]), 'it reports errors: "some"'),
    *((200, answer(odd), "machine 1 of its answer: status.state is null") for odd in NO_MACHINES),
]


def test_what_is_no_answer() -> None:
    for status, body, why in NO_ANSWERS:
        told = fault(body, status)
        assert why in told, (status, body)
        assert len(told) < 400, (status, body)


ODD_FIELDS: list[tuple[Json, str]] = [
    ({"status_state": "unreachable"}, 'status.state is "unreachable"; it must be one of UNIN'),
    ({"status_state": None}, "status.state is null; it must be one of"),
    ({"status": None}, "status.state is null"),
    ({"status_state": ["UNREACHABLE"]}, "it must be one of"),
    ({"status_duration": "90"}, 'status.duration is "90"; it must be seconds'),
    ({"status_duration": -1}, "none of them below zero"),
    ({"status_duration": True}, "it must be seconds"),
    ({"status_duration": 1e300}, "it must be seconds"),
    ({"spec": None}, "spec.rack is null; it must be a whole number"),
    ({"spec": []}, "spec.rack is null; it must be a whole number"),
    ({"spec_rack": "7"}, 'spec.rack is "7"; it must be a whole number'),
    ({"spec_rack": True}, "spec.rack is true"),
    ({"spec_role": None}, "spec.role is null; it must be a printable text"),
    ({"spec_serial": 17}, "spec.serial is 17; it must be a printable text"),
    ({"spec_serial": "a\nb"}, 'spec.serial is "a\\nb"; it must be a printable text'),
    ({"spec_serial": "x" * 9999}, "it must be a printable text of at most 200"),
    ({"spec_ipv4": "10.0.0.9"}, 'spec.ipv4 is "10.0.0.9"; it must be a list of addresses'),
    ({"spec_ipv4": {"0": "10.0.0.9"}}, "it must be a list of addresses"),
    ({"spec_ipv4": ["10.0.0"]}, 'spec.ipv4[0] is "10.0.0"; it must be an address'),
    ({"spec_ipv4": [167772169]}, "spec.ipv4[0] is 167772169; it must be an address"),
    ({"spec_ipv4": [None]}, "spec.ipv4[0] is null; it must be an address"),
    ({"spec_ipv4": ["fe80::1%<b>"]}, "it must be an address"),
    ({"spec_bmc": {"bmcType": 640}}, "spec.bmc.bmcType is 640; it must be a printable text"),
]


def test_of_a_field_that_is_odd_the_whole_answer_is_doubted() -> None:
    for members, why in ODD_FIELDS:
        told = fault(answer(machine(spec_serial="S0", spec_ipv4=["10.0.0.8"]), machine(**members)))
        assert told.startswith("machine 2 of its answer: "), (members, why)
        assert why in told, (members, why)
        assert len(told) < 500, (members, why)


def test_a_machine_without_an_address_or_bmc_is_told_and_the_others_count() -> None:
    found = sick(
        answer(
            machine(spec_ipv4=[]),
            machine(spec_ipv4=None),
            machine(spec_bmc=None, spec_ipv4=["10.0.0.3"]),
            machine(spec_bmc={"bmcType": ""}, spec_ipv4=["10.0.0.4"]),
            machine(spec_ipv4=["10.0.0.5"]),
        )
    )
    assert [(one.address, one.machine_type, one.why) for one in found] == [
        ("", "r640", "it has no IPv4 address"),
        ("", "r640", "it has no IPv4 address"),
        ("10.0.0.3", "", "it has no BMC type"),
        ("10.0.0.4", "", "it has no BMC type"),
        ("10.0.0.5", "r640", ""),
    ]


NOT_ASKED: list[tuple[Json, str]] = [
    ({"status_state": "HEALTHY"}, ""),
    ({"status_state": "RETIRED"}, ""),
    ({"spec_role": "boot"}, ""),
    ({"spec_rack": 7}, '{"having":{"states":["UNREACHABLE"],"racks":[6]}}'),
    ({"spec_rack": 7}, '{"having":{"states":["UNREACHABLE"]},"notHaving":{"racks":[7]}}'),
    ({"status_state": "UNHEALTHY"}, '{"having":{"states":["UNREACHABLE"]}}'),
]


def test_who_answers_what_was_not_asked_is_not_believed() -> None:
    """Whoever does not heed `having` would have healthy machines repaired."""
    for members, text in NOT_ASKED:
        good = machine(spec_ipv4=["10.0.0.8"], spec_rack=6)
        told = fault(answer(good, machine(**members)), text=text)
        assert "were not asked for: the question is not heeded" in told, (members, text)
