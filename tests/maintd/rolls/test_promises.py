"""The promises about rolls to which `decide` holds itself can be broken, and are seen then."""

from dataclasses import replace

import pytest

from nodeagent.maintd.outage.invariants import check_invariants
from nodeagent.model.action import RunCommand
from nodeagent.model.ledger import Decision, Intent, Ledger
from nodeagent.model.purpose import OfRoll
from nodeagent.model.roll import Phase, Roll
from nodeagent.model.snapshot import Observed
from tests.maintd.rig import QUICK, Rig
from tests.maintd.rolls.rolling import TERMS, rig, roll, start


def begun() -> tuple[Rig, Observed]:
    one = rig()
    start(one, "n3", "n5")
    return one, one.tick().observed


def with_phases(one: Rig, *phases: Phase) -> Roll:
    members = zip(roll(one).nodes, phases, strict=True)
    nodes = tuple(replace(m, phase=phase, begun=phase is Phase.LEAVING) for m, phase in members)
    return replace(roll(one), nodes=nodes)


@pytest.mark.parametrize("first", [Phase.LEAVING, Phase.RUNNING, Phase.RETURNING, Phase.FAILED])
def test_no_more_nodes_begin_than_may_be_away(first: Phase) -> None:
    one, observed = begun()
    before = Ledger(roll=with_phases(one, first, Phase.WAITING))
    after = Ledger(roll=with_phases(one, first, Phase.LEAVING))
    with pytest.raises(AssertionError, match="begin in a roll"):
        check_invariants(before, Decision(after), observed, QUICK)
    two = replace(after.roll or roll(one), terms=replace(TERMS, at_once=2))
    check_invariants(before, Decision(replace(after, roll=two)), observed, QUICK)


@pytest.mark.parametrize(
    ("node", "keeps", "degraded", "why"),
    [
        ("n3", False, False, "in service"),
        ("n4", False, False, "where i2 is"),
        ("n4", True, False, "where i2 is"),
        ("n4", False, True, "where i2 is"),
        ("n6", False, False, "where i3 is"),
        ("n6", True, False, ""),
        ("n6", False, True, ""),
    ],
)
def test_a_command_is_ordered_at_an_empty_node_out_of_service(
    node: str, *, keeps: bool, degraded: bool, why: str
) -> None:
    policy = replace(QUICK, degraded=degraded)
    one, observed = begun()
    nodes = {
        name: replace(there, drained=name != "n3")
        for name, there in observed.snapshot.nodes.items()
    }
    names = {"n4": ["i2"], "n6": ["i3"]}.get(node, [])
    instances = {name: one.cluster.instances[name] for name in names}
    seen = replace(observed, snapshot=replace(observed.snapshot, nodes=nodes, instances=instances))
    current = replace(roll(one), terms=replace(TERMS, keep_secondaries=keeps))
    order = Intent("1", OfRoll(nodes[node].uuid), node, RunCommand(node, "reboot-node", "{}"))
    ledger = Ledger(roll=current, intents=(order,))
    before = Ledger(roll=current)
    if why:
        with pytest.raises(AssertionError, match=why):
            check_invariants(before, Decision(ledger), seen, policy)
    else:
        check_invariants(before, Decision(ledger), seen, policy)
