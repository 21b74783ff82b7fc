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


def test_doubt_about_the_load_is_told() -> None:
    rig = Rig(fleet(3), mirrored(("n2", "n3")), replace(ON, balance_load=True))
    rig.measure = lambda _, __: ({}, {"default": "the load of n2 is unknown: silent"})
    rig.crash()
    rig.tick(30.0)
    rig.tick(30.0)
    advice = rig.round().observed.advice["default"]
    assert advice.doubt == "the load of n2 is unknown: silent"


def test_a_dry_run_shows_what_would_be_moved_and_moves_nothing() -> None:
    rig = Rig(fleet(4), mirrored(("n2", "n3"), ("n2", "n3"), ("n2", "n3")), ON)
    rig.engine.conduct = replace(rig.engine.conduct, dry=True)
    for _ in range(10):
        done = rig.tick(10.0)
    assert [intent for intent in done.decision.ledger.intents if intent.purpose.group]
    assert not rig.cluster.jobs
