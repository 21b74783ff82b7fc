"""Groups in which secondaries have nowhere to go: told, or left behind by a setting."""

from dataclasses import replace

import pytest

from nodeagent.maintd.engine.round import Round
from nodeagent.model.action import MovePrimary, MoveSecondary, SetOffline
from nodeagent.model.incident import Status
from nodeagent.model.reason import Kind, Reason, because
from tests.maintd.rig import QUICK, Rig, fleet, mirrored
from tests.maintd.world import EVACUATE, OK

TWO = mirrored(("n1", "n2"), ("n2", "n1"), ("n2", "n1"))


def pair(tag: str = "", *, degraded: bool = False) -> Rig:
    """n1 and n2 in a group of two, mirrored to each other; the master is in another."""
    nodes = [
        replace(node, group="two" if node.name in ("n2", "n3") else "rest") for node in fleet(5)
    ]
    names = {"n1": "n3", "n2": "n2"}
    instances = [
        replace(i, primary=names[i.primary], secondary=names[str(i.secondary)]) for i in TWO
    ]
    rig = Rig(nodes, instances, replace(QUICK, degraded=degraded))
    if tag:
        rig.cluster.tag("n2", tag)
    rig.agents.says["n2"] = EVACUATE
    return rig


def whys(done: Round) -> list[Reason]:
    return [held.why for held in done.decision.held if held.node == "n2"]


def test_that_secondaries_have_nowhere_to_go_is_told_with_the_command() -> None:
    rig = pair()
    done = rig.settle()
    assert rig.status("n2") is Status.PENDING
    assert not rig.cluster.nodes["n2"].offline
    only = because(Kind.ONLY_NODE, "two", nodes=("n3",))
    assert whys(done)[0] == because(Kind.MIRROR_CANNOT_MOVE, "i1", why=only, alone="n2")
    assert whys(done)[0].help == "gnt-node add-tags n2 maintd:degraded:yes"


@pytest.mark.parametrize("how", ["setting", "tag"])
def test_degraded_ends_with_primaries_moved_and_secondaries_left(how: str) -> None:
    rig = pair("maintd:degraded:yes" if how == "tag" else "", degraded=how == "setting")
    done = rig.settle()
    assert rig.status("n2") is Status.COMPLETED
    node = rig.cluster.nodes["n2"]
    assert (node.offline, rig.incident("n2").tag in node.tags) == (True, True)
    places = {(i.primary, i.secondary) for i in rig.cluster.instances.values()}
    assert places == {("n3", "n2")}
    left = ("i1", "i2", "i3")
    assert whys(done) == [because(Kind.WAITS_FOR_REPAIR, "n2", state="offline", left=left)]
    kinds = [job.partition("(")[0] for job in rig.jobs()]
    assert MoveSecondary.__name__ not in kinds
    assert kinds.index(SetOffline.__name__) > max(
        n for n, kind in enumerate(kinds) if kind == MovePrimary.__name__
    )
    rig.cluster.untag("n2", rig.incident("n2").tag)
    rig.agents.says["n2"] = OK
    rig.cluster.undrain("n2")
    rig.settle()
    assert rig.ledger.incidents == ()


# With a third node in the group.


def third(tag: str = "maintd:degraded:yes", **members: bool) -> Rig:
    rig = pair(tag)
    rig.cluster.put(replace(rig.cluster.nodes["n5"], group="two", **members))  # type: ignore[arg-type]
    return rig


def ends(rig: Rig) -> list[str]:
    """The evacuation completes; the instances whose mirror is left on n2."""
    rig.settle()
    assert rig.status("n2") is Status.COMPLETED
    instances = rig.cluster.instances.values()
    assert not any(i.primary == "n2" for i in instances)
    return [i.name for i in instances if i.secondary == "n2"]


def test_degraded_waits_for_a_third_node_that_is_only_in_doubt() -> None:
    rig = third()
    rig.agents.says["n5"] = None
    rig.settle()
    assert rig.status("n2") is Status.PENDING
    rig.agents.says["n5"] = OK
    assert ends(rig) == []
