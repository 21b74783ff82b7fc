"""Which stop holds up which kind of work."""

import pytest

from nodeagent.maintd.planning.situation import Stops
from nodeagent.model.reason import Kind, because

WHY = because(Kind.PAUSED, "n1")
ROWS = [
    # what there is; the kinds of work that it stops at the node, and then at another one
    pytest.param(Stops(pauses={"n1": WHY}), "rpm", "", id="a pause stops all work there"),
    pytest.param(Stops(windows={"n1": WHY}), "rp", "", id="a window goes on itself"),
    pytest.param(Stops(rolls={"n1": WHY}), "rp", "", id="a roll goes on itself"),
    pytest.param(Stops(storm=WHY), "rpm", "rpm", id="the storm brake stops all work"),
    pytest.param(Stops(doubt=WHY), "pm", "pm", id="what a fault asks for goes on in doubt"),
    pytest.param(Stops(outside=WHY, incidents={"1": WHY}), "", "", id="these are of no node"),
]


@pytest.mark.parametrize(("stops", "there", "elsewhere"), ROWS)
def test_what_stops_which_work(stops: Stops, there: str, elsewhere: str) -> None:
    kinds = {"r": stops.repairs, "p": stops.plans, "m": stops.maintenance}
    for node, stopped in (("n1", there), ("n2", elsewhere)):
        assert "".join(kind for kind, stop in kinds.items() if stop.at(node)) == stopped, node


def test_what_stops_all_work_is_said_before_what_stops_it_at_a_node() -> None:
    storm, doubt = because(Kind.STORM, why="many"), because(Kind.DOUBT, "n1", doubt="silent")
    stops = Stops(pauses={"n1": WHY}, storm=storm)
    assert (stops.plans.at("n1"), stops.plans.at("n2")) == (storm, storm)
    assert Stops(storm=storm, doubt=doubt).plans.everywhere == doubt
