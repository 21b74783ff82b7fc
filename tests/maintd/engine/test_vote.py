"""Who has won the vote; and without mastership nothing is ordered and nothing submitted."""

import asyncio
from dataclasses import replace
from unittest.mock import patch

import pytest

from nodeagent.cluster.backend import Answer
from nodeagent.errors import NotMaster, Unavailable
from nodeagent.maintd.engine.conduct import count
from nodeagent.model.incident import Status
from nodeagent.model.ledger import Intent
from nodeagent.model.snapshot import Snapshot
from tests.maintd.engine.voting import sick
from tests.maintd.rig import Rig, fleet

VOTES: list[tuple[str, int, bool, bool]] = [
    # What each node says (- is silence), how many are offline, won, lost.
    ("aaaa", 0, True, False),
    ("aaab", 0, True, False),
    ("aaa--", 0, True, False),
    ("aa--", 0, False, False),
    ("aa-b", 0, False, False),
    ("aabb", 0, False, True),
    ("abb", 0, False, True),
    ("abb---", 0, False, False),
    ("ab", 0, False, True),
    ("-", 0, False, False),
    # An offline node is not asked, and what it says does not count.
    ("aabb", 1, True, False),
    ("aab-", 1, True, False),
    ("aabb", 4, False, False),
]


def test_more_than_half_of_all_nodes_decide_who_is_the_master() -> None:
    for said, offline, won, lost in VOTES:
        rig = Rig(fleet(len(said)), me="a")
        names = list(rig.cluster.nodes)
        rig.agents.masters = dict(zip(names, said, strict=True))
        rig.agents.says = {n: None for n, one in zip(names, said, strict=True) if one == "-"}
        world = rig.cluster.snapshot()
        looks = asyncio.run(rig.agents.look(world))
        away = {n: replace(world.nodes[n], offline=True) for n in names[len(names) - offline :]}
        vote = count(looks, replace(world, nodes={**world.nodes, **away}), "a")
        assert (vote.won, vote.lost) == (won, lost), (said, offline, vote.words)


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
