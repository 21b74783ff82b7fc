"""Schedules name machines, whatever became of their names."""

from nodeagent.model.snapshot import Node
from nodeagent.model.window import Machine
from tests.maintd.rig import Rig, fleet
from tests.maintd.windows.rounds import DAY, N3, plan, wish


def test_a_name_that_is_another_s_too_by_now_keeps_nobody_from_the_schedule() -> None:
    one = Rig([*fleet(2), Node("n3.a.org", "uuid-a", "127.0.1.1")])
    plan(one, DAY, N3)
    one.cluster.put(Node("n3.b.org", "uuid-b", "127.0.1.2"))
    both = wish(one, DAY, N3, Machine("n2"))
    done = one.tick()
    assert both not in done.decision.refused
    assert "machine n3: several nodes are called so" in [h.reason for h in done.decision.held]
    plan(one)
    again = wish(one, DAY, N3)
    assert "several nodes" in one.tick().decision.refused[again]
