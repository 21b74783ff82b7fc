"""CKE's cases for what sabakan is asked (query_test.go), from end to end over real HTTP.

A real GraphQL server answers, what it reports stands in /1/queue/sources. m1 is UNHEALTHY
here, for healthy machines may not be asked for, and each question says which states it is about.
"""

import json
from collections.abc import Iterator

import pytest

from nodeagent.maintd.queue.inventory import InventorySettings
from tests.maintd.cke.served import Cke, opened
from tests.maintd.queue.sabakan_server import Machine, serving

BROKEN = ["UNHEALTHY", "RETIRED", "UNINITIALIZED"]
FLEET = (
    Machine("m1", ["10.0.0.1"], "UNHEALTHY", role="boot", rack=1, days=10),
    Machine("m2", ["10.0.0.2"], "RETIRED", role="worker", rack=2, days=100),
    Machine("m3", ["10.0.0.3"], "UNINITIALIZED", role="ss", rack=3, labels={"foo": "bar"}, days=10),
)


@pytest.fixture(scope="module")
def cke() -> Iterator[Cke]:
    with serving(*FLEET) as sabakan, opened(asks=InventorySettings(sabakan.url)) as found:
        yield found


def having(**more: object) -> dict[str, object]:
    return {"having": {"states": BROKEN, **more}}


def reported(cke: Cke) -> list[str]:
    cke.tick(times=2)
    (source,) = cke.get("/1/queue/sources")["sources"]
    assert source["believed"], source["why"]
    return [machine["serial"] for machine in source["machines"]]


def test_no_variables(cke: Cke) -> None:
    """The seed's: what is unhealthy or unreachable, and boots nobody. m1 boots."""
    assert cke.ask("GET", "/1/queue/sources/variables")[0] == 404
    assert reported(cke) == []


@pytest.mark.parametrize(
    ("variables", "found"),
    [
        pytest.param(having() | {"notHaving": {"states": ["RETIRED"]}}, ["m1", "m3"], id="not"),
        pytest.param(having(), ["m1", "m2", "m3"], id="all"),
        pytest.param(having(labels=[{"name": "foo", "value": "bar"}]), ["m3"], id="foo=bar"),
        pytest.param(having(racks=[1]), ["m1"], id="racks"),
        pytest.param(having(roles=["worker"]), ["m2"], id="roles"),
        pytest.param({"having": {"states": ["UNINITIALIZED"]}}, ["m3"], id="states"),
        pytest.param(having(minDaysBeforeRetire=90), ["m2"], id="days"),
    ],
)
def test_what_variables_find(cke: Cke, variables: dict[str, object], found: list[str]) -> None:
    status, why = cke.ask("POST", "/1/queue/sources/variables", variables)
    assert status == 200, why
    assert reported(cke) == found


@pytest.mark.parametrize("variables", [{}, {"having": {"states": ["bad"]}}, {"having": None}])
def test_variables_that_are_errors(cke: Cke, variables: dict[str, object]) -> None:
    """With CKE's `{}` healthy machines would be repaired."""
    before = cke.ask("GET", "/1/queue/sources/variables")
    status, text = cke.ask("POST", "/1/queue/sources/variables", variables)
    assert (status, "states" in json.loads(text)["error"]) == (400, True)
    assert cke.ask("GET", "/1/queue/sources/variables") == before
