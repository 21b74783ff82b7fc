"""Stages: below `full` maintd tells what it would do, and does no more than the stage allows."""

from dataclasses import replace
from itertools import islice

from nodeagent.maintd.deciding.decide import decide
from nodeagent.maintd.planning.stages import stages
from nodeagent.model.action import Drain, MovePrimary, MoveSecondary, Retag
from nodeagent.model.diagnosis import Diagnosis
from nodeagent.model.incident import Status
from nodeagent.model.ledger import Intent, Ledger, Policy
from nodeagent.model.reason import StageKind
from nodeagent.model.snapshot import Group, Observed, Snapshot
from nodeagent.model.stage import ADVISE, DRAIN, FULL, OBSERVE
from nodeagent.model.units import Ms
from nodeagent.model.wish import Balance, Done, Evacuate
from tests.maintd.decided import POLICY, by_itself, kinds, new
from tests.maintd.decisions import given, saved
from tests.maintd.rig import QUICK, Rig, fleet, mirrored
from tests.maintd.world import EVACUATE, NOW, OK, REPAIR, node, seen, six


def rig(stage: str) -> Rig:
    return Rig(fleet(), mirrored(("n3", "n4"), ("n4", "n5")), replace(QUICK, stage=stage))


def actions(one: Rig) -> set[str]:
    return {type(job.action).__name__ for job in one.cluster.jobs.values()}


DRAINED = six(node("n1", drained=True), a=("n1", "n2"))
ROWS: list[tuple[tuple[str, ...], Diagnosis, Snapshot, list[type]]] = [
    ((OBSERVE, ADVISE), EVACUATE, six(), []),
    ((DRAIN, FULL), EVACUATE, six(), [Drain]),
    ((OBSERVE, ADVISE, DRAIN), EVACUATE, DRAINED, []),
    ((FULL,), EVACUATE, DRAINED, [MovePrimary, MoveSecondary]),
    # Not even the mark of a repair.
    ((OBSERVE, ADVISE, DRAIN), REPAIR, six(), []),
    ((FULL,), REPAIR, six(), [Retag]),
]


def test_how_far_each_stage_goes() -> None:
    rows = [(stage, row) for row in ROWS for stage in row[0]]
    for stage, (_, said, world, wanted) in rows:
        policy = replace(POLICY, stage=stage)
        decision = decide(Ledger(), seen(world, {"n1": said}), policy, NOW)
        assert [type(action) for action in new(decision)] == wanted, (stage, said)
        told = {kind for kind, name in kinds(decision.held) if name == "n1"}
        would = StageKind.WOULD_EVACUATE if said is EVACUATE else StageKind.WOULD_REPAIR
        assert (would in told) is (wanted == []), (stage, said)


def test_a_lower_stage_stops_what_has_begun_at_its_next_step() -> None:
    one = rig(FULL)
    one.agents.says["n3"] = EVACUATE
    one.tick()
    assert actions(one) == {"Drain"}
    one.engine.policy = replace(QUICK, stage=ADVISE)
    done = one.settle()
    assert actions(one) == {"Drain"}
    assert (StageKind.WOULD_EVACUATE, "n3") in kinds(done.decision.held)
    one.agents.says["n3"] = OK
    one.tick()
    one.tick(QUICK.withdraw / 1000)
    one.settle()
    assert one.cluster.nodes["n3"].in_service, "its own drain is undone"


def test_a_person_goes_on_where_the_stage_has_drained() -> None:
    """Who evacuates the drained node decides whether it goes offline; then it is repaired."""
    one = rig(DRAIN)
    one.agents.says["n3"] = EVACUATE
    one.settle()
    one.wish(Evacuate("n3", "as maintd says"))
    one.settle()
    assert one.cluster.instances["i1"].primary != "n3"
    assert one.status("n3") is Status.COMPLETED
    assert not one.cluster.nodes["n3"].offline
    one.agents.says["n3"] = OK
    one.wish(Done("n3"))
    one.tick()
    one.tick(QUICK.return_after / 1000)
    one.settle()
    assert one.cluster.nodes["n3"].in_service


def test_the_nearest_tag_counts() -> None:
    nodes = {node.name: node for node in fleet()}
    nodes["n2"] = replace(nodes["n2"], tags=frozenset({"maintd:stage:drain"}))
    groups = {"default": Group("default", "default", frozenset({"maintd:stage:advise"}))}
    world = Snapshot("c", nodes, groups=groups)
    found = stages(replace(QUICK, stage=OBSERVE), world)
    assert (found["n1"], found["n2"]) == (ADVISE, DRAIN)


def test_no_recorded_round_begins_anything_by_itself() -> None:
    """Of a third of the rounds none does more than its stage, and at full many do."""
    begun = 0
    for observation, _ in islice(saved(), 0, None, 3):
        ledger, observed, policy, now = given(observation)
        if ledger.agenda or any(isinstance(wish.asked, Balance) for wish in observed.wishes):
            continue  # a person lets it balance
        begun += len(_new(ledger, observed, replace(policy, stage=FULL), now))
        for stage, allowed in ((OBSERVE, ()), (ADVISE, ()), (DRAIN, Drain)):
            for intent in _new(ledger, observed, replace(policy, stage=stage), now):
                assert isinstance(intent.action, allowed), (stage, intent)
    assert begun > 20


def _new(ledger: Ledger, observed: Observed, policy: Policy, now: Ms) -> list[Intent]:
    known = {intent.id for intent in ledger.intents}
    intents = decide(ledger, observed, policy, now).ledger.intents
    return [i for i in intents if i.id not in known and by_itself(i)]
