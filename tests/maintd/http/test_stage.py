"""What `/1/stage` tells: what each stage would have done, and what is in the way of the next."""

from dataclasses import replace

import pytest

from nodeagent.maintd.http.fleet.stage import stage_json
from nodeagent.maintd.http.view import View
from nodeagent.model.ledger import Ledger, Policy, Storm
from nodeagent.model.proposal import Proposal, What
from nodeagent.model.stage import ADVISE, DRAIN, FULL, OBSERVE
from tests.maintd.world import NOW, seen, six

WANTED = (
    Proposal(What.EVACUATE, "u3", "n3", NOW, NOW, times=2, open=False, passed=1, begun=1),
    Proposal(What.REPAIR, "u5", "n5", NOW, NOW, open=False, taken_back=1),
    Proposal(What.BALANCE, "g", "g", NOW, NOW),
)
VIEW = View(NOW, Ledger(proposals=WANTED), seen(six()))


def test_what_each_stage_would_have_done() -> None:
    assert stage_json(VIEW)["would"] == {
        OBSERVE: {},
        ADVISE: {"evacuate": 2, "live repair": 1},  # nobody is asked to balance
        DRAIN: {"evacuate": 2},
        FULL: {"evacuate": 2, "live repair": 1, "balance": 1},
    }


@pytest.mark.parametrize(
    ("stage", "after", "obstacles"),
    [
        (OBSERVE, ADVISE, ["storm", "nobody-told"]),
        (ADVISE, DRAIN, ["storm", "nobody-told", "passed", "taken-back"]),
        (DRAIN, FULL, ["storm", "nobody-told", "passed", "taken-back"]),
        (FULL, None, []),
    ],
)
def test_what_is_in_the_way_of_the_next(
    stage: str, after: str | None, obstacles: list[str]
) -> None:
    ledger = replace(VIEW.ledger, storm=Storm(NOW, "3 of 6 nodes are unhealthy"))
    found = stage_json(replace(VIEW, ledger=ledger, policy=Policy(stage=stage)))
    assert found["next"] == after
    assert [one["kind"] for one in found["in-the-way"]] == obstacles
