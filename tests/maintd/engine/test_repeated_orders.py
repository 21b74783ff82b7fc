"""Orders that come late, are refused, or are asked for again."""

from unittest.mock import patch

import pytest

from nodeagent.cluster.backend import Answer
from nodeagent.errors import Unavailable
from nodeagent.maintd.deciding.decide import decide
from nodeagent.maintd.engine.orders import ARRIVES
from nodeagent.model.action import RunCommand
from nodeagent.model.incident import Status
from nodeagent.model.ledger import Intent, Outcome, Result
from nodeagent.model.purpose import OfIncident, OfTags
from nodeagent.model.reason import Kind
from nodeagent.model.snapshot import Node, Snapshot
from nodeagent.protocol.bounds import LIFE, SKEW
from tests.maintd.decided import POLICY
from tests.maintd.engine.voting import sick
from tests.maintd.rig import Agents, Rig, fleet
from tests.maintd.world import NOW, REPAIR, incident, ledger, node, seen, six


def test_a_lost_check_names_the_node_that_was_to_run_it() -> None:
    """A check of the repair queue is about a machine, and its intent about no node."""
    check = Intent("1", OfTags(), "", RunCommand("n1", "look", REPAIR.text), "o")
    lost = seen(six(), results={"1": Outcome.LOST})
    (held,) = decide(ledger(intents=(check,)), lost, POLICY, NOW).held
    assert (held.why.kind, held.why.subject.name) == (Kind.LOST_ORDER, "n1")


@pytest.mark.parametrize("told", [Outcome.RUNNING, Outcome.SUCCESS])
def test_what_the_agent_of_an_offline_node_says_of_its_order_counts(told: Outcome) -> None:
    one = incident(diagnosis=REPAIR, status=Status.PENDING)
    order = Intent("1", OfIncident(one.id), "n1", RunCommand("n1", "fix-nic", REPAIR.text), "o")
    observed = seen(six(node("n1", offline=True)), results={"1": told})
    after = decide(ledger(one, intents=(order,)), observed, POLICY, NOW).ledger
    assert (order in after.intents) is (told is Outcome.RUNNING)
    assert after.incidents[0].repaired is (told is Outcome.SUCCESS)


class Late(Agents):
    """The first order gets to its agent `late` seconds after it was sent; meanwhile: no such."""

    late = 70.0
    on_its_way: tuple[float, Intent] | None = None

    async def submit(self, intent: Intent, snapshot: Snapshot) -> Answer:
        if self.on_its_way is None:
            self.on_its_way = (self.now() + self.late * 1000, intent)
            raise Unavailable("HTTP status 503")
        return await super().submit(intent, snapshot)

    async def outcome(self, job: str, node: Node) -> Result:
        if self.on_its_way is not None and self.now() >= self.on_its_way[0]:
            intent = self.on_its_way[1]
            self.ran.setdefault(self.job(intent), (self.now(), Outcome.SUCCESS, intent))
        return await super().outcome(job, node)


def late(seconds: float) -> Rig:
    rig = Rig(fleet())
    rig.agents = Late(rig.now)
    rig.agents.late = seconds
    rig.agents.says["n3"] = REPAIR
    rig.crash()
    rig.settle()
    return rig


def test_an_order_that_comes_late_and_is_given_again_runs_once() -> None:
    for seconds in (70.0, 260.0):
        rig = late(seconds)
        assert len(rig.agents.ran) == 1, seconds
        assert rig.status("n3") is Status.COMPLETED


def test_an_order_is_waited_for_as_long_as_it_is_valid_by_any_clock() -> None:
    assert ARRIVES == LIFE + SKEW
    rig = late(LIFE / 1000 + 140)
    assert rig.agents.asked == {}, "it was found, and not given again"


def test_orders_and_questions_do_not_keep_a_round_for_long() -> None:
    rig = sick("n2", "n3", "n4", "n5")
    submit = rig.agents.submit

    async def slow(intent: Intent, snapshot: Snapshot) -> Answer:
        rig.time += 15
        return await submit(intent, snapshot)

    rig.agents.submit = slow  # type: ignore[method-assign]
    with patch("nodeagent.maintd.engine.submit.AT_ONCE", 1):
        begun = rig.time
        rig.tick(10.0)
        assert rig.time - begun == 10 + 30
        assert len(rig.agents.ran) == 2
        rig.settle()
    assert set(rig.agents.asked.values()) == {1}
    assert len(rig.agents.ran) == 4
