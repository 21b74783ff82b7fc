"""Which instances of a dead node may start elsewhere: only on disks that are all up to date."""

from dataclasses import replace

import pytest

from nodeagent.maintd.fencing.restarts import fates
from nodeagent.model.evidence import Contact, Evidence, Mirror
from nodeagent.model.evidence import Testimony as Told
from nodeagent.model.fencing import End, Fate
from nodeagent.model.units import Ms
from tests.maintd.world import NOW, seen, six

WORLD = six(web1=("n1", "n2"))
FRESH = Mirror("web1", "WFConnection", "UpToDate")


def fate(*mirrors: Mirror, disks: int = 1, witness: str = "n2", age: int = 1_000) -> Fate:
    """The fate of web1, of whose disks a witness has told."""
    web1 = replace(WORLD.instances["web1"], disks=disks)
    told = Told(witness, Ms(NOW - age), Contact.SILENT, Contact.SILENT, mirrors)
    evidence = Evidence("n1", Ms(NOW - 600_000), Contact.SILENT, witnesses=(told,))
    observed = seen(replace(WORLD, instances={"web1": web1}), evidence={"n1": evidence})
    (found,) = fates(WORLD.nodes["n1"], observed, NOW)
    return found


@pytest.mark.parametrize(
    ("mirrors", "disks", "synced"),
    [
        pytest.param((FRESH,), 1, True, id="its one disk"),
        pytest.param((FRESH, FRESH), 2, True, id="both disks"),
        pytest.param((), 1, False, id="none is listed"),
        pytest.param((FRESH,), 2, False, id="one of two"),
        pytest.param((FRESH, FRESH), 1, False, id="one too many"),
        pytest.param((), 0, False, id="nobody knows how many, and none is listed"),
        pytest.param((FRESH,), 0, False, id="nobody knows how many"),
        pytest.param((replace(FRESH, disk="Outdated"),), 1, False, id="outdated"),
        pytest.param((FRESH, replace(FRESH, disk="Inconsistent")), 2, False, id="one is not"),
        pytest.param((replace(FRESH, instance="db1"),), 1, False, id="another instance's"),
    ],
)
def test_all_disks_are_listed_and_up_to_date(
    mirrors: tuple[Mirror, ...], disks: int, synced: bool
) -> None:
    found = fate(*mirrors, disks=disks)
    assert found.synced == synced
    assert (found.end is End.OPEN) == synced
    assert ("gnt-instance failover web1" in found.why) == (not synced)


def test_only_its_secondary_counts_and_only_lately() -> None:
    assert not fate(FRESH, witness="n3").synced
    assert not fate(FRESH, age=60_001).synced
    assert not fate(FRESH, age=-1).synced
