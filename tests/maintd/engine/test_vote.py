"""Without mastership nothing is ordered and nothing submitted."""

from dataclasses import replace
from unittest.mock import patch

import pytest

from nodeagent.cluster.backend import Answer
from nodeagent.errors import NotMaster, Unavailable
from nodeagent.model.incident import Status
from nodeagent.model.ledger import Intent
from nodeagent.model.snapshot import Snapshot
from tests.maintd.engine.voting import sick


def test_no_order_is_given_after_mastership_is_lost_among_them() -> None:
    rig = sick("n2", "n3", "n4", "n5")
    submit = rig.agents.submit

    async def lost(intent: Intent, snapshot: Snapshot) -> Answer:
        rig.cluster.world.master = "n2"
        return await submit(intent, snapshot)

    rig.agents.submit = lost  # type: ignore[method-assign]
    with patch("nodeagent.maintd.engine.submit.AT_ONCE", 1), pytest.raises(NotMaster):
        rig.tick()
    assert len(rig.agents.ran) == 1


@pytest.mark.parametrize(
    ("first", "last"),
    [pytest.param(2, 3, id="before the rule"), pytest.param(3, 5, id="before jobs and orders")],
)
def test_nothing_is_submitted_while_nobody_can_tell_who_is_the_master(
    first: int, last: int
) -> None:
    rig = sick("n2", "n3", moved="n6")
    jobs, calls, check = len(rig.cluster.jobs), [0], rig._check_master

    def unknown() -> None:
        calls[0] += 1
        if first <= calls[0] <= last:
            raise Unavailable("no answer")
        check()

    rig.engine.acting.conduct = replace(rig.engine.conduct, check_master=unknown)
    rig.tick()
    assert (len(rig.cluster.jobs), len(rig.agents.ran)) == (jobs, 0)
    rig.settle()
    assert set(rig.agents.asked.values()) == {1}
    assert len(rig.agents.ran) == 2, "not taken, and planned anew at once"
    assert rig.status("n6") is Status.COMPLETED
