"""Balancing in whole rounds: what is known of the load, and a dry run."""

from dataclasses import replace

import pytest

from nodeagent.placement.cluster.cluster import Load
from tests.maintd.lives.lively import ON
from tests.maintd.rig import Rig, fleet, mirrored


@pytest.mark.parametrize("load", [False, True])
def test_who_works_the_most_has_a_node_for_himself(load: bool) -> None:
    """By their number two and two are even; by what they use, one against three."""
    rig = Rig(
        fleet(3)[1:],
        mirrored(("n2", "n3"), ("n2", "n3"), ("n3", "n2"), ("n3", "n2")),
        replace(ON, balance_load=load, balance_disks=False),
        me="n2",
    )
    busy = {"i1": 6.0, "i2": 2.0, "i3": 2.0, "i4": 2.0}
    rig.measure = lambda _, __: ({n: Load(cpu, cpu, cpu, cpu) for n, cpu in busy.items()}, {})
    rig.agents.master = "n2"
    rig.crash()
    for _ in range(20):
        rig.tick(30.0)
    moved = {str(job.action) for job in rig.cluster.jobs.values()}
    primaries = {i.name: i.primary for i in rig.cluster.instances.values()}
    if load:
        assert [n for n in primaries if primaries[n] == primaries["i1"]] == ["i1"]
    else:
        assert not moved
