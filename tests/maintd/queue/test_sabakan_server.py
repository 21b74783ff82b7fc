"""sabakan's query at a real GraphQL server: what comes back, and whatever may go wrong there."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from nodeagent.maintd.queue.sabakan import question
from tests.maintd.queue.desk import Desk
from tests.maintd.queue.sabakan_answers import MAY_BE_ASKED
from tests.maintd.queue.sabakan_server import Machine, Sabakan, graphql, serving

FLEET = (
    Machine("S0", ["10.0.0.10"], "UNHEALTHY", 30.0, role="boot"),
    Machine("S1", ["10.0.0.11", "10.1.0.11"], "UNREACHABLE", 3000.25),
    Machine("S2", ["10.0.0.12"], "UNHEALTHY", 30.0, rack=2, bmc="r650"),
    Machine("S3", ["10.0.0.13"], "HEALTHY"),
    Machine("S5", ["10.0.0.15"], "UNREACHABLE", rack=3, role="ss"),
)


@pytest.fixture
def sabakan() -> Iterator[Sabakan]:
    with serving(*FLEET) as served:
        yield served


def asking(sabakan: Sabakan, **settings: Any) -> Desk:
    """Somebody who has asked it once."""
    one = Desk(url=sabakan.url, **settings)
    one.answer()
    return one


def test_each_question_is_valid_by_the_schema(sabakan: Sabakan) -> None:
    """Also those with labels and days before retirement, which sabakan alone filters."""
    document = graphql.parse(json.loads(question(""))["query"])
    assert graphql.validate(sabakan.schema, document) == []
    declared = document.definitions[0].variable_definitions
    for text in MAY_BE_ASKED:
        variables = json.loads(question(text))["variables"]
        values = graphql.execution.get_variable_values(sabakan.schema, declared, variables)
        assert not isinstance(values, list), (text, values)  # of errors


def test_by_default_the_broken_ones_that_boot_nobody(sabakan: Sabakan) -> None:
    found = asking(sabakan).machines()
    assert [(one.serial, one.address, one.machine_type, one.domain) for one in found] == [
        ("S1", "10.0.0.11", "r640", "rack 1"),
        ("S2", "10.0.0.12", "r650", "rack 2"),
        ("S5", "10.0.0.15", "r640", "rack 3"),
    ]
    assert [request["variables"] for request in sabakan.asked] == [
        {"having": {"states": ["UNHEALTHY", "UNREACHABLE"]}, "notHaving": {"roles": ["boot"]}}
    ]


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
