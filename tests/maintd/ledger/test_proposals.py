"""What maintd would have done is counted once each time, with what became of it."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from nodeagent.maintd.ledger.proposals import KEPT
from nodeagent.model.proposal import Proposal, What
from nodeagent.model.stage import ADVISE, DRAIN, FULL, OBSERVE
from nodeagent.model.wish import Cancel, Evacuate
from tests.maintd.rig import QUICK, Rig, fleet, mirrored
from tests.maintd.world import EVACUATE, OK, REPAIR


def asking(stage: str, need: object = EVACUATE) -> Rig:
    """n3 asks for something."""
    rig = Rig(fleet(), mirrored(("n3", "n4")), replace(QUICK, stage=stage))
    rig.agents.says["n3"] = need  # type: ignore[assignment]
    rig.settle()
    return rig


def only(rig: Rig) -> Proposal:
    (one,) = rig.ledger.proposals
    return one


def ends(one: Proposal) -> tuple[int, int, int, int]:
    return one.begun, one.taken_back, one.by_person, one.passed


def test_a_request_counts_once_while_it_lasts() -> None:
    rig = asking(OBSERVE)
    one = only(rig)
    assert (one.what, one.name, one.times, one.open) == (What.EVACUATE, "n3", 1, True)
    before = rig.ledger
    rig.tick(3600)
    assert only(rig) == one
    assert rig.ledger.proposals is before.proposals or rig.ledger.proposals == before.proposals


def mends_itself(rig: Rig) -> None:
    rig.agents.says["n3"] = OK
    rig.tick()
    rig.tick(QUICK.withdraw / 1000)
    rig.settle()


def is_canceled(rig: Rig) -> None:
    rig.wish(Cancel(rig.incident("n3").id))
    rig.settle()


def is_canceled_by_its_tag(rig: Rig) -> None:
    rig.cluster.tag("n3", f"maintd:canceled:{rig.incident('n3').id}")
    rig.settle()


def is_evacuated(rig: Rig) -> None:
    rig.wish(Evacuate("n3", "as maintd says"))
    rig.settle()


def is_drained_by_hand(rig: Rig) -> None:
    rig.cluster.put(replace(rig.cluster.nodes["n3"], drained=True))
    rig.tick()
    mends_itself(rig)


def is_put_back(rig: Rig) -> None:
    rig.cluster.undrain("n3")
    rig.settle()


ENDS: list[tuple[str, Callable[[Rig], None], tuple[int, int, int, int]]] = [
    (OBSERVE, mends_itself, (0, 0, 0, 1)),
    (ADVISE, is_canceled, (0, 1, 0, 0)),
    (OBSERVE, is_canceled_by_its_tag, (0, 1, 0, 0)),
    (OBSERVE, is_drained_by_hand, (0, 0, 1, 0)),
    (ADVISE, is_evacuated, (0, 0, 1, 0)),
    (DRAIN, mends_itself, (1, 0, 0, 0)),
    (DRAIN, is_canceled, (1, 1, 0, 0)),
    (DRAIN, is_put_back, (1, 1, 0, 0)),
    (FULL, mends_itself, (1, 0, 0, 0)),
]


@pytest.mark.parametrize(("stage", "then", "expected"), ENDS)
def test_what_became_of_it(
    stage: str, then: Callable[[Rig], None], expected: tuple[int, int, int, int]
) -> None:
    rig = asking(stage)
    then(rig)
    one = only(rig)
    assert (ends(one), one.open) == (expected, False)


def test_the_same_again_counts_again() -> None:
    rig = asking(OBSERVE)
    mends_itself(rig)
    rig.agents.says["n3"] = EVACUATE
    rig.settle()
    one = only(rig)
    assert (one.times, one.open, ends(one)) == (2, True, (0, 0, 0, 1))
    assert one.at > one.since


def test_another_need_is_another_request() -> None:
    rig = asking(OBSERVE, REPAIR)
    rig.agents.says["n3"] = EVACUATE
    rig.settle()
    found = {one.what: (one.open, one.passed) for one in rig.ledger.proposals}
    assert found == {What.REPAIR: (False, 1), What.EVACUATE: (True, 0)}


def test_what_is_long_over_is_forgotten() -> None:
    rig = asking(OBSERVE)
    mends_itself(rig)
    rig.tick(KEPT / 1000 + 1)
    assert rig.ledger.proposals == ()
