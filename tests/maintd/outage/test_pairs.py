"""Two claims on one node at a time, ended in both orders: it is back when the last one ends."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import permutations

import pytest

from nodeagent.model.incident import Status
from nodeagent.model.queue import StepStatus
from nodeagent.model.units import Ms, Seconds
from nodeagent.model.window import Standing
from nodeagent.model.wish import Cancel, DeleteEntry, Done, Evacuate
from tests.maintd.queue.mender import DRAINS, Mender, policy
from tests.maintd.world import EVACUATE, OK


@dataclass(frozen=True)
class Claim:
    """A claim on n3: how it begins, whether it stands, and how it ends."""

    begins: Callable[[Mender], None]
    stands: Callable[[Mender], bool]
    ends: Callable[[Mender], None]


def _breaks(rig: Mender) -> None:
    rig.agents.says["n3"] = EVACUATE
    rig.until_true(lambda: bool(rig.ledger.incidents))


def _is_mended(rig: Mender) -> None:
    """A fault that nobody has begun to work on goes by itself."""
    if rig.status("n3") is Status.NOTED:
        rig.agents.says["n3"] = OK
        rig.until_true(lambda: not rig.ledger.incidents)
        return
    rig.until_true(lambda: rig.status("n3") is Status.COMPLETED)
    rig.agents.says["n3"] = OK
    if any(outage.wanted is not None for outage in rig.ledger.outages):
        assert rig.ask(Cancel(rig.incident("n3").id)) == "", "done would end both"
    else:
        assert rig.ask(Done("n3")) == ""


def _is_deleted(rig: Mender) -> None:
    assert rig.ask(DeleteEntry(rig.entry.index)) == ""
    rig.until_true(lambda: not rig.entries)


def _is_wanted(rig: Mender) -> None:
    assert rig.ask(Evacuate("n3", "new disks")) == ""


def _is_done(rig: Mender) -> None:
    rig.agents.says["n3"] = OK
    assert rig.ask(Done("n3")) == ""


CLAIMS = {
    "incident": Claim(
        begins=_breaks,
        stands=lambda rig: rig.status("n3") in (Status.PENDING, Status.COMPLETED),
        ends=_is_mended,
    ),
    "window": Claim(
        begins=lambda rig: rig.plan("n3"),
        stands=lambda rig: rig.found() is not None,
        ends=lambda rig: rig.plan(),
    ),
    "entry": Claim(
        begins=lambda rig: rig.add(),
        stands=lambda rig: rig.at(StepStatus.DRAINING) or rig.at(StepStatus.WATCHING),
        ends=_is_deleted,
    ),
    "person": Claim(
        begins=_is_wanted,
        stands=lambda rig: any(o.wanted is not None and o.wanted.begun for o in rig.ledger.outages),
        ends=_is_done,
    ),
}


@pytest.mark.parametrize(("ends_first", "found"), [(0, Standing.SERVING), (1, Standing.DRAINED)])
@pytest.mark.parametrize(("first", "second"), permutations(CLAIMS, 2))
def test_it_is_back_when_the_last_one_ends(
    first: str, second: str, ends_first: int, found: Standing
) -> None:
    lasts = replace(DRAINS, watch_seconds=Seconds(86_400))
    rig = Mender(replace(policy(lasts), return_after=Ms(60_000)), heals="nothing")
    rig.cluster.put(replace(rig.cluster.nodes["n3"], drained=found is Standing.DRAINED))
    rig.tick()
    CLAIMS[first].begins(rig)
    rig.until_true(lambda: CLAIMS[first].stands(rig) and not rig.in_service())
    CLAIMS[second].begins(rig)
    for _ in range(6):
        rig.tick(30)
    one, other = (first, second) if ends_first == 0 else (second, first)
    waits = ends_first == 0 and not CLAIMS[second].stands(rig)
    CLAIMS[one].ends(rig)
    for _ in range(10):
        rig.tick(30)
    both = {one, other} == {"person", "incident"} and not rig.ledger.incidents
    if not (waits or both):
        assert (rig.in_service(), rig.restores()) == (False, 0), "the other one has it yet"
    if not both:
        CLAIMS[other].ends(rig)
    rig.until_true(lambda: rig.resting and not any(o.back for o in rig.ledger.outages))
    node = rig.node()
    assert node.standing is found
