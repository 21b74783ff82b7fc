"""sabakan's query at a real GraphQL server: what comes back, and whatever may go wrong there."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from nodeagent.maintd.queue.sabakan import question
from nodeagent.model.sick import Sick
from tests.maintd.queue.desk import NOW, Desk
from tests.maintd.queue.sabakan_server import Machine, Sabakan, graphql, serving

FLEET = (
    Machine("S0", ["10.0.0.10"], "UNHEALTHY", 30.0, role="boot"),
    Machine("S1", ["10.0.0.11", "10.1.0.11"], "UNREACHABLE", 3000.25),
    Machine("S2", ["10.0.0.12"], "UNHEALTHY", 30.0, rack=2, bmc="r650"),
    Machine("S3", ["10.0.0.13"], "HEALTHY"),
    Machine("S4", ["10.0.0.14"], "RETIRED", labels={"foo": "bar"}, days=10),
    Machine("S5", ["10.0.0.15"], "UNREACHABLE", rack=3, role="ss", labels={"foo": "bar", "a": "b"}),
)


@pytest.fixture
def sabakan() -> Iterator[Sabakan]:
    with serving(*FLEET) as found:
        found.now = lambda: NOW / 1000
        yield found


def asking(sabakan: Sabakan, variables: str = "", **settings: Any) -> Desk:
    """Somebody who has asked it once."""
    one = Desk(url=sabakan.url, **settings)
    one.queue = type(one.queue)(variables=variables)
    one.answer()
    return one


def found(sabakan: Sabakan, variables: str = "") -> list[str]:
    said = asking(sabakan, variables).sick()
    assert not isinstance(said, str), said
    return [one.serial for one in said]


def test_the_query_is_valid_by_the_schema(sabakan: Sabakan) -> None:
    document = graphql.parse(json.loads(question(""))["query"])
    assert graphql.validate(sabakan.schema, document) == []


def test_by_default_the_broken_ones_that_boot_nobody(sabakan: Sabakan) -> None:
    said = asking(sabakan).sick()
    assert said == (
        Sick(
            "sabakan",
            "10.0.0.11",
            "r640",
            "unreachable",
            "S1",
            "UNREACHABLE",
            "rack 1",
            since=NOW - 3_000_250,
        ),
        Sick(
            "sabakan",
            "10.0.0.12",
            "r650",
            "unhealthy",
            "S2",
            "UNHEALTHY",
            "rack 2",
            since=NOW - 30_000,
        ),
        Sick(
            "sabakan",
            "10.0.0.15",
            "r640",
            "unreachable",
            "S5",
            "UNREACHABLE",
            "rack 3",
            since=NOW - 3_600_000,
        ),
    )
    assert [request["variables"] for request in sabakan.asked] == [
        {"having": {"states": ["UNHEALTHY", "UNREACHABLE"]}, "notHaving": {"roles": ["boot"]}}
    ]


BROKEN = '"states":["UNHEALTHY","UNREACHABLE"]'


@pytest.mark.parametrize(
    ("variables", "serials"),
    [
        (f'{{"having":{{{BROKEN}}}}}', ["S0", "S1", "S2", "S5"]),
        ('{"having":{"states":["UNREACHABLE"]}}', ["S1", "S5"]),
        (f'{{"having":{{{BROKEN},"racks":[2,3]}}}}', ["S2", "S5"]),
        (f'{{"having":{{{BROKEN},"roles":["boot","ss"]}}}}', ["S0", "S5"]),
        (f'{{"having":{{{BROKEN},"labels":[{{"name":"foo","value":"bar"}}]}}}}', ["S5"]),
        (f'{{"having":{{{BROKEN}}},"notHaving":{{"racks":[1]}}}}', ["S2", "S5"]),
        (f'{{"having":{{{BROKEN}}},"notHaving":{{"states":["UNHEALTHY"]}}}}', ["S1", "S5"]),
        (
            f'{{"having":{{{BROKEN},"racks":[],"roles":null}},"notHaving":null}}',
            ["S0", "S1", "S2", "S5"],
        ),
        ('{"having":{"states":["RETIRED"],"minDaysBeforeRetire":10}}', ["S4"]),
        ('{"having":{"states":["RETIRED"],"minDaysBeforeRetire":11}}', []),
        (
            f'{{"having":{{{BROKEN}}},"notHaving":{{"minDaysBeforeRetire":1001}}}}',
            ["S0", "S1", "S2", "S5"],
        ),
        (
            f'{{"having":{{{BROKEN}}},"notHaving":{{"labels":[{{"name":"a","value":"b"}}]}}}}',
            ["S0", "S1", "S2"],
        ),
        ('{"having":{"states":["UNINITIALIZED"]}}', []),
    ],
)
def test_it_filters_as_documented(sabakan: Sabakan, variables: str, serials: list[str]) -> None:
    assert found(sabakan, variables) == serials


def _stricter(sabakan: Sabakan) -> None:
    """One that knows a state less."""
    del sabakan.schema.type_map["MachineState"].values["UNREACHABLE"]


def _slow(sabakan: Sabakan) -> None:
    sabakan.answers.clear()


@pytest.mark.parametrize(
    ("is_odd", "why"),
    [
        (_stricter, "it answers with HTTP status 422: "),
        (_slow, "no complete answer within 1 s"),
    ],
)
def test_what_goes_wrong_there_is_told(
    sabakan: Sabakan, is_odd: Callable[[Sabakan], None], why: str
) -> None:
    is_odd(sabakan)
    said = asking(sabakan, seconds=1.0).fault()
    sabakan.answers.set()
    assert said.startswith(why)
    assert len(said) < 400
